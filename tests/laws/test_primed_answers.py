"""What marginals bought in advance decide: a session and its release say the same of it, as narrow as was planned."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from tests.made import people

import conspectus as cs
from conspectus.curator.acts import watch_act
from conspectus.mechanisms.bounds import Margin
from conspectus.mechanisms.choosing import make_online
from conspectus.mechanisms.sparse_vector import SparsePlan
from conspectus.privacy.events import Noise
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.noise import UnsafeSeededSampler
from conspectus.privacy.relation import Relation
from conspectus.releases.guessed_answers import GuessedAnswers
from conspectus.sessions.opening import begin, session_problem

DECIDED = [
    "smoker",
    "NOT smoker AND ill",
    "smoker OR ill",
    "age >= 30",
    "region = 'west' AND age < 30",
    "smoker AND ill OR NOT smoker AND region = 'west'",  # of three columns, and decided by tables of two
]
SIZES = (2, 2, 3, 5)


def made(rows: int) -> cs.Table:
    """A table of independent columns whose values are all about as frequent."""
    rng = np.random.Generator(np.random.PCG64(0))
    columns = {f"c{n}": {"type": "integer", "min": 0, "max": size - 1} for n, size in enumerate(SIZES)}
    schema = cs.Schema.from_dict({"name": "made", "columns": columns})
    return cs.open_table(pa.table({f"c{n}": rng.integers(0, size, rows) for n, size in enumerate(SIZES)}), schema)


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_session_and_its_release_say_the_same(neighbours, delta) -> None:
    _, table = people(neighbours=neighbours)
    rows = {"rows": 2000} if neighbours == "add-remove" else {}
    settings = {"mechanism": "pmw", "order": 2, "priming": 0.5}
    with cs.open_session(table, epsilon=1.0, delta=delta, questions=50, **settings, **rows) as session:
        for confidence in (0.5, 0.95):
            for question in DECIDED:
                live = session.ask(question, confidence=confidence)
                said = session.release().ask(question, confidence=confidence)
                assert (live.basis, said.basis, live.cost) == ("measured", "measured", 0.0)
                assert [live.fraction, live.low, live.high] == pytest.approx([said.fraction, said.low, said.high])
                assert live.low <= live.fraction <= live.high
        counted = session.query("SELECT COUNT(*) AS n FROM people WHERE smoker").to_dict()
        assert counted == session.release().query("SELECT COUNT(*) AS n FROM people WHERE smoker").to_dict()


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_intervals_are_as_wide_as_was_planned(order, delta) -> None:
    """The widths follow from laws and weights, whatever the noise: none of these intervals is cut."""
    table, rows = made(60_000), 60_000
    rule, budget = make_online("pmw", {"order": order, "priming": 0.5}), Budget(epsilon=2.0, delta=delta)
    asked = session_problem(table, budget, rule, questions=100, neighbours=None, rows=None)
    with begin(table, asked, rule, sampler=UnsafeSeededSampler(1)) as session:
        expected = session._proposal.plan.priming.expected(float(rows))
        for width in range(1, order + 1):
            widths = []
            for first in range(len(SIZES) - width + 1):
                answer = session.ask(" AND ".join(f"c{n} = 1" for n in range(first, first + width)))
                widths.append((answer.high - answer.low) / 2 * rows)
            assert 1 / 1.3 < np.mean(widths) / expected.covered_width(width) < 1.3


def test_a_thousand_questions_about_a_small_table_are_left_to_marginals() -> None:
    """3,000 rows of six columns: intervals by their best estimate are narrower than those of fresh noise on each."""
    sizes = (3, 3, 9, 17, 7, 8)
    columns = {f"c{n}": {"type": "integer", "min": 0, "max": size - 1} for n, size in enumerate(sizes)}
    schema = cs.Schema.from_dict({"name": "made", "columns": columns})
    plan = cs.plan_session(schema, rows=3_000, epsilon=1.0, delta=1e-6, questions=1_000)
    assert plan.best.mechanism == "pmw"


WATCHED = "smoker AND ill AND age >= 30 AND region = 'west'"


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_guess_has_the_same_interval_in_the_release_and_its_file(neighbours, delta, tmp_path) -> None:
    _, table = people(neighbours=neighbours)
    rows = {"rows": 2000} if neighbours == "add-remove" else {}
    settings = {"mechanism": "pmw", "order": 2, "priming": 0.5, "threshold": 0.9, "hits": 2}  # nothing surprises
    with cs.open_session(table, epsilon=20.0, delta=delta, questions=50, **settings, **rows) as session:
        live = session.ask(WATCHED)
        session.measure("smoker AND ill AND age >= 30")  # the guess moves on, and the answer stays
        release = session.release()
    release.save(tmp_path / "a.conspectus")
    for said in (release.ask(WATCHED), cs.load(tmp_path / "a.conspectus").ask(WATCHED)):
        assert (live.basis, said.basis) == ("guessed", "guessed")
        assert [live.fraction, live.low, live.high] == pytest.approx([said.fraction, said.low, said.high])
    # Nobody compared these with the truth, next to it or around it.
    for other in (WATCHED.replace("west", "north"), "smoker AND ill AND region = 'west'"):
        assert release.ask(other).low is None


def test_a_bound_on_guesses_is_one_that_the_watches_prove() -> None:
    prices = {"epsilon": Fraction(1), "share": Fraction(1, 3)}
    margin = SparsePlan(hits=1, threshold=9.0, law=Noise("laplace", 2.0), max_rows=1, **prices).passed()
    held = GuessedAnswers.of([None, margin, margin])
    assert (held.bound(0), held.bound(2), len(held.margins)) == (None, margin, 1)
    for neighbours in ("replace", "add-remove"):
        relation = Relation(neighbours)
        assert not held.contradicted([watch_act(Fraction(1))], relation)
        assert held.contradicted([watch_act(Fraction(99, 100))], relation)
        assert held.contradicted([], relation)
        measured = GuessedAnswers.of([Margin(noises=((Noise("laplace", 5.0), 1),))])
        assert measured.contradicted([watch_act(Fraction(1))], relation)


def test_a_margin_around_a_centre_is_kept_as_it_is() -> None:
    law = Noise("gaussian", 3.0)
    margin = Margin(mixed=((law, 0.25, 4), (law, 0.5, 2)), centre=-1.5)
    assert Margin.from_json(margin.to_json()) == margin
    found = margin.estimate(2.0, 0.95, basis="measured", divisor=10.0)
    assert (found.low + found.high) / 2 == pytest.approx(-1.5)
    assert found.share == 0.2
    assert 1.9 * 3 * 0.75**0.5 <= found.high + 1.5 <= 2.1 * 3 * 0.75**0.5
    for broken in ({"centre": float("nan")}, {"mixed": [["gaussian", 3.0, [[-1.0, 2]]]]}, {"centre": "0"}):
        with pytest.raises(ValueError, match="a margin"):
            Margin.from_json({**margin.to_json(), **broken})
