"""Which questions a session takes: lists that are predicates, and what a rule refuses before anything is paid."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.made import people

import conspectus as cs
from conspectus.answers import margin_of
from conspectus.privacy.tails import laplace_tail
from conspectus.queries.query import WorkloadError
from conspectus.sessions.questions import canonical

SCHEMA, TABLE = people()
CELL = "region = 'north' AND age < 30 AND smoker AND ill"
OTHER = "region = 'north' AND age < 30 AND smoker AND NOT ill"
WEIGHTED = cs.sparse([{("north", 40, False, False): 0.75}], SCHEMA)


def opened(mechanism: str):
    settings_ = {"priming": 0.0, "threshold": 0.0} if mechanism == "pmw" else {"threshold": 0.0}
    return cs.open_session(TABLE, epsilon=20.0, questions=50, mechanism=mechanism, **settings_)


@pytest.mark.parametrize("mechanism", ["pmw", "perceptron", "median"])
def test_weighted_records_are_refused_before_anything_is_paid(mechanism: str) -> None:
    with opened(mechanism) as session:
        before = session.spent
        with pytest.raises(WorkloadError, match="sparse-mw"):
            session.ask(WEIGHTED)
        assert (session.spent, session.asked) == (before, 0)


@pytest.mark.parametrize("mechanism", ["pmw", "perceptron", "median", "sparse-mw"])
def test_a_function_of_the_table_is_refused_and_the_watch_goes_on(mechanism: str) -> None:
    functions = [cs.mode_shares(SCHEMA, ["age"]), cs.satisfied_shares(SCHEMA, [[{"smoker": True}, {"ill": True}]])]
    settings_ = {"threshold": 0.9}  # no hit, so the first watch lasts
    with cs.open_session(TABLE, epsilon=20.0, questions=50, mechanism=mechanism, **settings_) as session:
        assert session.ask(CELL).basis == "guessed"
        spent = session.spent
        for function in functions:
            with pytest.raises(WorkloadError, match="function of the whole table"):
                session.ask(function)
        assert session.ask(OTHER).cost == 0.0
        assert (session.spent, session.asked) == (spent, 2)


@pytest.mark.parametrize("mechanism", ["pmw", "sparse-mw"])
def test_a_list_of_records_is_the_predicate_that_it_means(mechanism: str) -> None:
    with opened(mechanism) as session:
        first = session.ask(CELL)
        again = session.ask(cs.sparse(cs.sql(SCHEMA, [CELL])))
        assert (again.repeated, again.fraction) == (True, first.fraction)


@given(st.sets(st.tuples(st.sampled_from(["north", "west"]), st.sampled_from([20, 70]), st.booleans(), st.booleans())))
@settings(max_examples=50, deadline=None)
def test_lists_and_predicates_have_one_key(records) -> None:
    ages = {20: "age < 30", 70: "age >= 66 AND age < 78"}
    texts = [
        f"(region = '{region}' AND {ages[age]} AND smoker = {smoker} AND ill = {ill})"
        for region, age, smoker, ill in records
    ]
    listed = canonical(SCHEMA, cs.sparse([sorted(records)], SCHEMA))
    written = canonical(SCHEMA, " OR ".join(texts) or "smoker AND NOT smoker")
    assert listed.key == written.key


def test_a_weight_below_one_is_another_question() -> None:
    whole = cs.sparse([{("north", 40, False, False): 1.0}], SCHEMA)
    assert canonical(SCHEMA, whole).key != canonical(SCHEMA, WEIGHTED).key
    assert "sparse" in canonical(SCHEMA, WEIGHTED).text


def plain_and_weighted() -> tuple[cs.Release, list[cs.Workload]]:
    """A session that measured a plain question and a weighted one, both with noise far below one count."""
    asked = [cs.sql(SCHEMA, [CELL]), WEIGHTED]
    with cs.open_session(TABLE, epsilon=62.0, questions=4, mechanism="sparse-mw", hits=2, threshold=0.0) as session:
        assert [session.ask(question).basis for question in asked] == ["measured", "measured"]
        return session.release(), asked


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("confidence", [0.8, 0.9, 0.95, 0.99])
def test_a_release_reads_the_noise_of_each_question_on_the_grid_it_was_drawn_on(which: int, confidence: float) -> None:
    released, asked = plain_and_weighted()
    grid, scale = asked[which].grid, released.parameters["answer_scale"]
    assert (grid, scale < 0.3) == ((1, 4)[which], True)
    answer = released.ask(asked[which], confidence=confidence)
    held = released.measured.estimate(asked[which].query(0))
    rows = released.total.value
    margin = round(grid * margin_of(held, confidence))  # in steps of the grid that the curator drew on
    # It holds as often as it says, and with one step less it would not.
    assert laplace_tail(scale * grid, margin) <= 1 - confidence
    assert margin == 0 or laplace_tail(scale * grid, margin - 1) > 1 - confidence
    assert answer.high == pytest.approx((held.count + margin / grid) / rows)


def test_the_grids_of_measured_questions_are_in_the_file(tmp_path) -> None:
    released, asked = plain_and_weighted()
    released.save(tmp_path / "r.conspectus")
    again = cs.load(tmp_path / "r.conspectus")
    assert again.measured.grids == released.measured.grids == (1, 4)
    assert [again.ask(question) for question in asked] == [released.ask(question) for question in asked]
