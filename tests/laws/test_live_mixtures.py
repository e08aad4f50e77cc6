"""Sessions whose guess is a mixture of products: margins, states, ends, learning, and the choice on wide tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from tests.laws.test_online_mechanisms import ASKED, ROWS, SCHEMA, TRUTH, curator, stream

import conspectus as cs
from conspectus.data.domain import Domain
from conspectus.mechanisms.live_mixture.mechanism import LiveMixture
from conspectus.mechanisms.live_mixture.mixture_guess import MixtureGuess
from conspectus.mechanisms.mechanism import Refusal
from conspectus.mechanisms.online_mechanism import BadState
from conspectus.mechanisms.settings import SettingError
from conspectus.privacy.events import Noise
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.relation import Relation
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.parity_list import ParityList
from conspectus.queries.query import Literal, Predicate
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.synopses.mixture_answers import CoarseColumn
from conspectus.synopses.product_mixture import ProductMixture
from conspectus.synopses.synopsis import Total, load_synopsis

RULE = LiveMixture(components=30)
RICH = Budget(epsilon=8.0, delta=1e-6)


def opened(problem, seed=5, rule=RULE):
    held = curator(problem, seed)
    return held, rule.open(held, problem, rule.plan(problem))


@pytest.mark.parametrize("relation", ["replace", "add-remove"])
def test_answers_are_within_their_margins_and_the_budget(relation):
    """All margins of a run hold at once with probability 0.999, and the coins of the run are fixed."""
    problem = stream(RICH, relation=Relation(relation))
    held, run = opened(problem)
    replies = [run.ask(query) for query in ASKED]
    assert held._allowance.spent <= held._allowance.cap
    off = [
        abs(reply.count - truth) - reply.margin.counts_at(0.999)
        for reply, truth in zip(replies, TRUTH)
        if reply.margin is not None
    ]
    assert off, "something is promised"
    assert max(off) <= 0


def test_a_state_goes_on_where_it_was():
    problem = stream(RICH)
    plan = RULE.plan(problem)
    _, run = opened(problem)
    run.measure(ASKED[0])
    for query in ASKED:
        run.ask(query)
    meta, tables = run.state()
    assert set(meta) == {"total", "asked", "hits", "learned", "guess"}, "counters, measurements and the first guess"
    again = RULE.restore(curator(problem, 9), problem, plan, (meta, tables))
    assert [again.guess(query) for query in ASKED] == [run.guess(query) for query in ASKED]
    assert again.state()[0] == meta
    for broken in (
        ({key: value for key, value in meta.items() if key != "guess"}, tables),
        ({**meta, "guess": []}, tables),
        (meta, {name: table for name, table in tables.items() if name != "guess-weights"}),
        (meta, {**tables, "guess-shares": tables["guess-shares"].slice(0, 3)}),
        ({**meta, "hits": -1}, tables),
    ):
        with pytest.raises(BadState):
            RULE.restore(curator(problem, 9), problem, plan, broken)


def test_the_end_is_told_and_the_guess_stays():
    problem = stream(RICH, questions=3)
    _, run = opened(problem)
    bases = [run.ask(query).basis for query in list(ASKED)[:6]]
    assert run.exhausted
    assert bases[3:] == ["unguaranteed"] * 3
    assert run.ask(ASKED[7]).count == run.guess(ASKED[7])
    synopsis = run.synopsis()
    back = load_synopsis(SCHEMA.domain, synopsis.kind, *synopsis.parts())
    assert np.array_equal(back.answer(ASKED), synopsis.answer(ASKED))
    np.testing.assert_allclose(synopsis.answer(ASKED) * ROWS, [run.guess(query) for query in ASKED])


def test_what_it_cannot_serve_is_refused():
    pure = RULE.plan(stream(Budget(epsilon=1.0)))
    assert isinstance(pure, Refusal)
    assert "delta" in pure.reason
    for wrong in ({"priming": 0.0}, {"priming": 1.0}, {"theorem": True}, {"components": 0}):
        with pytest.raises(SettingError):
            LiveMixture(**wrong)


# --- learning


DOMAIN = Domain(("a", "b", "c", "d"), (3, 2, 2, 4))


def independent():
    """Independent columns; the last one in two groups."""
    tables = np.concatenate([[0.2, 0.3, 0.5], [0.5, 0.5], [0.7, 0.3], [0.6, 0.4]])
    coarse = (None, None, None, CoarseColumn(np.array([0, 0, 1, 1]), np.array([0.25, 0.75, 0.5, 0.5])))
    rng = np.random.Generator(np.random.PCG64(1))
    many = np.tile(tables, (40, 1)) * rng.uniform(0.7, 1.3, (40, 9))
    return ProductMixture(DOMAIN, np.ones(40), many, Total(value=10_000.0, exact=True), coarse=coarse)


def asked(*literals):
    return Workload(DOMAIN, (Conjunctions.of(DOMAIN, [Predicate((tuple(literals),))]),))


def test_a_guess_takes_in_what_was_measured_and_keeps_the_rest():
    mixture = independent()
    guess = MixtureGuess(mixture, mixture.total)
    pair = asked(Literal(0, (1, 2)), Literal(3, (0, 1)))
    before, other = guess.of(pair), asked(Literal(1, (0,)))
    kept = guess.of(other)
    guess.learn(pair, 10_000 * (before + 0.1), Noise("gaussian", 30.0))
    assert abs(guess.of(pair) - before - 0.1) < 0.02
    assert abs(guess.of(other) - kept) < 0.02
    parity = Workload(DOMAIN, (ParityList(DOMAIN, ((1, 2),)),))
    even = guess.of(parity)
    guess.learn(parity, 10_000 * (even + 0.1), Noise("gaussian", 30.0))
    assert abs(guess.of(parity) - even - 0.1) < 0.03
    assert abs(guess.of(pair) - before - 0.1) < 0.04


def test_noise_is_not_learned():
    """A count that its noise would explain moves nothing."""
    mixture = independent()
    guess = MixtureGuess(mixture, mixture.total)
    pair = asked(Literal(0, (1,)), Literal(2, (1,)))
    before = guess.of(pair)
    guess.learn(pair, 10_000 * before + 90.0, Noise("gaussian", 100.0))
    assert abs(guess.of(pair) - before) < 0.001


def test_what_it_could_not_learn_from_is_refused_before_it_is_paid_for():
    mixture = independent()
    guess = MixtureGuess(mixture, mixture.total)
    everyone = asked()
    guess.learn(everyone, 9_000.0, Noise("gaussian", 1.0))
    assert guess.of(everyone) == pytest.approx(1.0)
    with pytest.raises(WorkloadError, match="predicates"):
        guess.of(cs.mode_shares(SCHEMA, ["a"]))


# --- wide tables


def wide_table(rows=3_000):
    names = [f"c{i:02d}" for i in range(30)]
    schema = cs.Schema.from_dict({"name": "wide", "columns": {name: {"type": "boolean"} for name in names}})
    rng = np.random.Generator(np.random.PCG64(2))
    base = rng.random(rows) < 0.4
    columns = {name: base ^ (rng.random(rows) < 0.1 + 0.01 * i) for i, name in enumerate(names)}
    return cs.open_table(pa.table(columns), schema)


def test_a_table_that_no_histogram_holds_gets_a_mixture(tmp_path):
    table = wide_table()
    plan = cs.plan_session(table.schema, rows=3_000, epsilon=4.0, delta=1e-6, questions=100_000)
    assert plan.best.mechanism == "live-mixture"
    assert {claim.mechanism for claim in plan.claims} == {"live-mixture", "gaussian", "laplace"}
    few = cs.plan_session(table.schema, rows=3_000, epsilon=4.0, delta=1e-6, questions=20)
    assert few.best.mechanism == "gaussian"
    path = tmp_path / "wide.session"
    live = LiveMixture(components=100)
    with cs.open_session(table, epsilon=4.0, delta=1e-6, questions=1_000, mechanism=live, path=path) as session:
        answers = [session.ask(f"c{i:02d} AND c{i + 9:02d}") for i in range(20)]
    assert {answer.basis for answer in answers} <= {"guessed", "measured"}
    with cs.resume_session(path, table) as session:
        again = session.ask("c00 AND c09")
        assert (again.fraction, again.repeated) == (answers[0].fraction, True)
        release = session.release()
    assert release.synopsis.kind == "product-mixture"
    assert len(release.synthetic(10, public_seed=1)) == 10
