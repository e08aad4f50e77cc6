"""Laws of every offline mechanism: exact at a huge budget, the stated noise otherwise, honest intervals, debits."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom
from tests.made import grid, people, truth

import conspectus as cs
from conspectus.mechanisms.mechanism import NoMechanism
from conspectus.mechanisms.registry import OFFLINE
from conspectus.mechanisms.settings import SettingError
from conspectus.privacy.guarantee import BudgetError
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.privacy.prices import cost_of
from conspectus.privacy.relation import Neighbours

ALPHA = 1e-6
HUGE = {"epsilon": 1e7, "delta": 1e-6}


def two_guesses():
    """The true table and a part of it: in a test, where nothing is private."""
    schema, table = people()
    codes = np.concatenate([np.stack(chunk.columns, axis=1) for chunk in table.chunks()])
    return cs.net(schema, [codes[:3], codes])


# What a mechanism needs to be exact at a huge budget, where its default settings do not do, and how near it then comes.
EXACT = {
    "mwem": {"rounds": 8, "evaluations": 200},
    "boosting": {"rounds": 3},
    "dual-query": {"rounds": 300, "draws": 2000, "eta": 0.2},
    "small-db": {"size": 3},
    "net": {"net": two_guesses()},
    "top": {"count": 1000},
    "sparse-project": {"size": 1 << 13, "nonzeros": 1, "public_seed": 0},
}
NOISE_ALONE = dict.fromkeys(("laplace", "gaussian", "net", "sparse-project", "top"), 1e-12)
TOLERANCE = {**dict.fromkeys(OFFLINE, 2e-3), **NOISE_ALONE, "dual-query": 1e-2, "small-db": 0.3}  # three rows: thirds


def test_no_settings_are_kept_for_a_mechanism_that_is_gone():
    assert {*EXACT, *TOLERANCE, *FEW} <= set(OFFLINE)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("name", OFFLINE)
def test_a_huge_budget_gives_the_true_fractions_in_the_workloads_order(name, neighbours):
    schema, table = people(neighbours=neighbours)
    workload = cs.marginals(schema, 2)
    counts, rows = truth(table, workload)
    release = cs.release(table, workload, mechanism=name, **HUGE, **EXACT.get(name, {}))
    assert release.answers.shape == (len(workload),)
    assert np.abs(release.answers - counts / rows).max() <= TOLERANCE[name]


def test_a_projection_keeps_the_intervals_of_its_noisy_answers():
    """They cover with probability 0.9 at least (binomial quantile, ALPHA), and hold the answer itself. Answers of one
    release share its noise, so that only those to one question are independent: each question has a third of ALPHA."""
    schema, table = people()
    workload = cs.marginals(schema, 3)
    questions = ["ill", "smoker AND ill", "age < 42 AND region = 'north'"]
    asked = cs.sql(schema, questions)
    counts, rows = truth(table, asked)
    times, covered = 60, np.zeros(len(questions))
    for _ in range(times):
        release = cs.release(table, workload, epsilon=1, delta=1e-6, mechanism="projection")
        answers = [release.ask(question, confidence=0.9) for question in questions]
        covered += [a.low <= c / rows <= a.high and a.low <= a.fraction <= a.high for a, c in zip(answers, counts)]
    assert covered.min() >= binom.ppf(ALPHA / len(questions), times, 0.9)


@pytest.mark.parametrize("name", ["laplace", "gaussian", "mwem", "projection", "boosting"])
def test_a_huge_budget_answers_listed_conjunctions_and_parities(name):
    schema, table = people()
    workload = cs.sql(schema, ["smoker AND ill", "region IN ('north', 'west') OR age < 30", "NOT ill"])
    workload = workload + cs.parities(schema, 2) + cs.prefixes(schema, "age")
    counts, rows = truth(table, workload)
    settings = {"rounds": 12, "evaluations": 300} if name == "mwem" else {}
    release = cs.release(table, workload, mechanism=name, **HUGE, **settings)
    assert np.abs(release.answers - counts / rows).max() <= TOLERANCE[name]


LAW = {
    ("gaussian", "replace"): lambda eps, rho: math.sqrt(2 / (2 * rho)),
    ("gaussian", "add-remove"): lambda eps, rho: math.sqrt(1 / (2 * rho)),
    ("laplace", "replace"): lambda eps, rho: math.sqrt(2) * 2 / eps,
    ("laplace", "add-remove"): lambda eps, rho: math.sqrt(2) * 1 / eps,
}


@pytest.mark.parametrize(("name", "neighbours"), LAW)
def test_one_marginal_has_the_stated_noise_and_no_other(name, neighbours):
    """40,000 independent noises: their variance is within 5 deviations of the law's (ALPHA), and a scale that is off by
    10 % would not be (Laplace: relative deviation of the variance √(5/n) = 1.1 %; Gaussian √(2/n) = 0.7 %)."""
    schema, table = grid(200, 5000, neighbours=neighbours)
    workload = cs.marginals(schema, 2)
    counts, _ = truth(table, workload)
    epsilon, delta = (0.2, 0.0) if name == "laplace" else (0.2, 1e-6)
    release = cs.release(table, workload, epsilon=epsilon, delta=delta, mechanism=name)
    # Gaussian noise alone is composed exactly, and so narrow steps cost it next to nothing.
    rho = cs.composition.gaussian_share(epsilon, delta) if delta else 0.0
    expected = LAW[name, neighbours](epsilon, rho) ** 2
    measured = float(np.mean((release.answers * release.total.divisor - counts) ** 2))
    slack = 5 * math.sqrt((5 if name == "laplace" else 2) / len(workload))
    assert abs(measured / expected - 1) < slack
    for wrong in (0.9, 1.1):
        assert abs(measured / (expected * wrong**2) - 1) > slack


def test_delta_lets_laplace_spend_less():
    schema, table = people()
    workload = cs.marginals(schema, 2)
    pure = cs.release(table, workload, epsilon=0.5, mechanism="laplace")
    cheap = cs.release(table, workload, epsilon=0.5, delta=1e-6, mechanism="laplace")
    assert pure.guarantee.delta == 0
    assert cheap.parameters["scale"] <= pure.parameters["scale"]
    many = cs.marginals(schema, 1) + cs.marginals(schema, 2) + cs.marginals(schema, 3)
    more = cs.random_conjunctions(schema, 3, 80, public_seed=3)
    wide = many + more
    assert (
        cs.release(table, wide, epsilon=0.5, delta=1e-6, mechanism="laplace").parameters["scale"]
        < 0.8 * cs.release(table, wide, epsilon=0.5, mechanism="laplace").parameters["scale"]
    )


def test_equal_questions_are_paid_once():
    schema, table = people()
    workload = cs.marginals(schema, 2)
    once = cs.release(table, workload, epsilon=1, mechanism="laplace")
    twice = cs.release(table, workload + workload, epsilon=1, mechanism="laplace")
    assert twice.parameters["scale"] == once.parameters["scale"]
    assert np.array_equal(twice.answers[: len(workload)], twice.answers[len(workload) :])


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_measured_intervals_cover(name, neighbours):
    """Each interval covers with probability at least 0.9; fewer than the ALPHA quantile of the binomial law do so with
    a chance of ALPHA at most. A half as wide interval fails the same test."""
    schema, table = people(neighbours=neighbours)
    workload = cs.marginal(schema, ["region", "age"])
    counts, rows = truth(table, workload)
    asked = [0, 5, 11, 17, 23]
    covered = narrow = trials = 0
    for _ in range(40):
        release = cs.release(table, workload, epsilon=0.5, delta=1e-6, mechanism=name)
        for i in asked:
            answer = release.ask(workload[i], confidence=0.9)
            true = counts[i] / rows
            trials += 1
            covered += answer.low <= true <= answer.high
            narrow += abs(answer.fraction - true) <= (answer.high - answer.low) / 4 if answer.low > 0 else 0
            assert answer.basis == "measured"
    assert covered >= binom.ppf(ALPHA, trials, 0.9)
    assert narrow < covered


@pytest.mark.parametrize("name", ["mwem", "projection", "iterative", "boosting", "small-db"])
def test_guessed_answers_are_within_the_certificate(name):
    """The certificate fails with probability 0.05 at most: more than the 1 − ALPHA quantile of 60 has chance ALPHA."""
    schema, table = people()
    workload = cs.marginals(schema, 2)
    counts, rows = truth(table, workload)
    wrong = 0
    for _ in range(60):
        release = cs.release(
            table, workload, epsilon=1, delta=1e-6, mechanism=name, certificate=0.1, **FEW.get(name, {})
        )
        assert release.certificate is not None
        assert release.certificate.holds
        wrong += np.abs(release.answers - counts / rows).max() > release.certificate.bound
    assert wrong <= binom.ppf(1 - ALPHA, 60, 0.05)
    answer = release.ask("smoker AND ill")
    bases = {"projection": {"measured"}, "mwem": {"measured", "guessed"}}  # mwem measures what it finds
    assert answer.basis in bases.get(name, {"guessed"})
    assert answer.high - answer.low > 0
    assert release.ask("smoker AND ill AND age < 30").basis == "unguaranteed"
    assert release.ask("smoker AND ill AND age < 30").low is None


FEW = {
    "mwem": {"rounds": 4},
    "iterative": {"rounds": 6},
    "boosting": {"rounds": 3},
    "dual-query": {"rounds": 5},
    "small-db": {"size": 2},
    "net": EXACT["net"],
    "top": {"count": 3},
}


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("name", OFFLINE)
@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"epsilon": 1.0, "delta": 1e-6}, {"rho": 0.05, "delta": 1e-6}])
def test_what_is_spent_is_what_the_acts_cost_and_at_most_the_budget(tmp_path, name, neighbours, budget):
    schema, table = people(neighbours=neighbours)
    workload = cs.marginals(schema, 2)
    if name in ("gaussian", "adaptive") and budget == {"epsilon": 1.0}:
        with pytest.raises(NoMechanism, match=r"never pure|Gaussian noise"):
            cs.release(table, workload, mechanism=name, **budget)
        return
    path = tmp_path / "table.ledger"
    approximate = budget == {"epsilon": 1.0, "delta": 1e-6}
    ledger = Ledger.create(
        path,
        budget=_double(budget),
        neighbours=neighbours,
        unit=str(schema.unit),
        schema_fingerprint=schema.fingerprint,
        table=schema.name,
        aside=0.5 if approximate else 0.0,
    )
    if name == "stable-histogram" and not approximate:  # its delta is its own, and none is set aside
        with pytest.raises(NoMechanism, match="delta"):
            cs.release(table, workload, mechanism=name, ledger=ledger, **budget)
        assert ledger.spent == 0
        return
    release = cs.release(table, workload, mechanism=name, ledger=ledger, **FEW.get(name, {}), **budget)
    currency = "pure" if budget == {"epsilon": 1.0} else "zcdp"
    costs = sum((cost_of(event, currency, Neighbours.of(neighbours)).price for event in release.events), Fraction(0))
    assert ledger.spent == costs
    own = name == "stable-histogram"
    assert (ledger.delta_spent > 0) is own
    allowed = ledger.price_of(_budget({**budget, "delta": 5e-7} if own else budget))
    assert costs <= allowed
    if name != "iterative":
        assert float(costs) >= 0.999 * float(allowed)
    if release.guarantee.epsilon is not None and "epsilon" in budget:
        assert release.guarantee.epsilon <= budget["epsilon"]
    assert release.guarantee.neighbours == neighbours


def _budget(budget):
    from conspectus.privacy.guarantee import Budget

    return Budget(**budget)


def _double(budget):
    key = "epsilon" if "epsilon" in budget else "rho"
    return dataclasses.replace(_budget(budget), **{key: 2 * budget[key]})


def test_a_refused_release_leaves_the_ledger_as_it_was(tmp_path):
    schema, table = people()
    workload = cs.marginals(schema, 2)
    path = tmp_path / "table.ledger"
    ledger = Ledger.create(
        path,
        budget=_budget({"epsilon": 1.0, "delta": 1e-6}),
        neighbours="replace",
        unit=str(schema.unit),
        schema_fingerprint=schema.fingerprint,
        table=schema.name,
    )
    before = ledger.entries()
    refusals = [
        ({"epsilon": 1.5, "delta": 1e-6}, {}),
        ({"epsilon": 1.0, "delta": 1e-6, "neighbours": "add-remove"}, {}),
        ({"epsilon": 0.5, "delta": 1e-6}, {"mechanism": "mwem", "rounds": 0}),
        ({"epsilon": 0.5, "delta": 1e-6}, {"mechanism": "iterative", "theorem": True}),
        ({"epsilon": 0.5, "delta": 1e-6}, {"mechanism": "boosting", "theorem": True}),
        ({"epsilon": 0.5}, {"mechanism": "gaussian"}),
    ]
    for budget, settings in refusals:
        with pytest.raises((ValueError, LookupError)):
            cs.release(table, workload, ledger=path, **budget, **settings)
        assert ledger.entries() == before
        assert ledger.spent == 0


@pytest.mark.parametrize(
    "bad", [{"epsilon": 0}, {"epsilon": -1}, {"epsilon": math.nan}, {"epsilon": 1, "delta": 1.0}, {}]
)
def test_budgets_that_are_none(bad):
    schema, table = people(rows=20)
    with pytest.raises(BudgetError):
        cs.release(table, cs.marginals(schema, 1), **bad)


def test_misspelt_keywords_are_answered_with_the_right_one():
    schema, table = people(rows=20)
    workload = cs.marginals(schema, 1)
    with pytest.raises(SettingError, match='did you mean "neighbours"'):
        cs.release(table, workload, epsilon=1, neighbors="replace")
    with pytest.raises(SettingError, match='did you mean "rounds"'):
        cs.release(table, workload, epsilon=1, mechanism="mwem", round=3)
    with pytest.raises(SettingError, match='plan takes no "neighbors", did you mean "neighbours"'):
        cs.plan(schema, workload, rows=20, epsilon=1, neighbors="replace")


def test_a_delta_above_one_over_n_is_served_with_a_warning():
    schema, table = people(rows=200)
    workload = cs.marginals(schema, 1)
    release = cs.release(table, workload, epsilon=1, delta=0.01, mechanism="gaussian")
    assert "at least 1/200" in str(release.guarantee)
    quiet = cs.release(table, workload, epsilon=1, delta=0.001, mechanism="gaussian")
    assert quiet.guarantee.warnings == ()
    private = cs.release(table, workload, epsilon=1, delta=0.01, mechanism="gaussian", neighbours="add-remove")
    assert private.guarantee.warnings == (), "a warning about a private number of rows would leak it"
    declared = cs.release(
        table, workload, epsilon=1, delta=0.01, mechanism="gaussian", neighbours="add-remove", rows=150
    )
    assert "at least 1/150" in str(declared.guarantee)


def test_a_public_number_of_rows_is_the_tables_own():
    schema, table = people(rows=200)
    release = cs.release(table, cs.marginals(schema, 1), epsilon=1, delta=0.01, mechanism="gaussian", rows=10)
    assert "at least 1/200" in str(release.guarantee)
    assert release.total.value == 200


def test_questions_that_nobody_moves_do_not_make_the_promise_depend_on_the_draws():
    """A selected question that is never true costs nothing to measure; the promise is the budget all the same."""
    schema, table = people(rows=50)
    workload = cs.sql(schema, ["smoker AND ill", "ill AND NOT ill", "NOT smoker"])
    printed = {cs.release(table, workload, epsilon=1, mechanism="mwem", rounds=2).guarantee.epsilon for _ in range(12)}
    assert printed == {1.0}


def test_the_certificate_allows_for_the_grid():
    """At ε = 5000 the noise is far below the rounding of the guess: without half a step every run would fail."""
    schema, table = people(rows=500)
    workload = cs.marginals(schema, 2)
    counts, rows = truth(table, workload)
    wrong = 0
    for _ in range(20):
        release = cs.release(table, workload, epsilon=5000, delta=1e-6, mechanism="projection")
        wrong += np.abs(release.answers - counts / rows).max() > release.certificate.bound
    assert wrong <= binom.ppf(1 - ALPHA, 20, 0.05)


def test_the_certified_fraction_allows_for_a_noisy_total():
    """Answers near 1 carry the whole error of the total: without its slip most of these runs would break the bound."""
    schema, table = people(rows=400, neighbours="add-remove")
    workload = cs.sql(schema, ["age < 90", "age >= 18", "NOT (smoker AND ill)"])
    counts, rows = truth(table, workload)
    wrong = 0
    for _ in range(40):
        release = cs.release(table, workload, epsilon=1, mechanism="mwem", rounds=3, certificate=0.3)
        wrong += np.abs(release.answers - counts / rows).max() > release.certificate.bound
    assert wrong <= binom.ppf(1 - ALPHA, 40, 0.05)


def test_proved_bounds_need_a_public_total():
    schema, table = people(neighbours="add-remove")
    for name in ("laplace", "gaussian"):
        release = cs.release(table, cs.marginals(schema, 1), epsilon=1, delta=1e-6, mechanism=name, rows=2000)
        assert release.claim.bound is None


def test_id_units_pay_for_all_their_rows_and_for_the_total():
    unit = {"kind": "id", "column": "person", "max_rows": 2}
    schema, table = people(unit=unit)
    workload = cs.marginal(schema, ["region"])
    release = cs.release(table, workload, epsilon=1, mechanism="laplace")
    # One person replaced moves 2 rows from one cell to another: L1 = 4.
    assert release.parameters["scale"] == pytest.approx(4.0)
    assert not release.total.exact
    assert release.total.value == pytest.approx(2000, abs=300)
    row_schema, row_table = people()
    assert cs.release(row_table, cs.marginal(row_schema, ["region"]), epsilon=1, mechanism="laplace").total.exact


def test_the_planner_reads_no_row_and_says_why_not():
    schema, _ = people(rows=20)
    plan = cs.plan(schema, cs.marginals(schema, 2), rows=50_000, epsilon=1)
    assert [claim.expected_mean for claim in plan.claims] == sorted(claim.expected_mean for claim in plan.claims)
    reasons = {refusal.mechanism: refusal.reason for refusal in plan.refusals}
    assert list(reasons) == ["gaussian", "adaptive", "net", "top", "stable-histogram"]
    assert "cs.net(schema" in reasons.pop("net")
    assert "count=" in reasons.pop("top")
    assert all("delta" in reason for reason in reasons.values())


def test_auto_takes_the_planners_best():
    schema, table = people()
    workload = cs.marginals(schema, 2)
    best = cs.plan(schema, workload, rows=2000, epsilon=1, delta=1e-6).best
    assert cs.release(table, workload, epsilon=1, delta=1e-6).mechanism == best.mechanism
