"""Which questions a session takes: lists that are predicates, and what a rule refuses before anything is paid."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.made import people

import conspectus as cs
from conspectus.privacy.tails import laplace_tail
from conspectus.queries.sensitivity import WorkloadError
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
            with pytest.raises(WorkloadError, match=r"functions? of the whole table"):
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


def test_what_a_session_measured_as_a_predicate_its_release_answers_as_a_list() -> None:
    few = [("north", age, smoker, True) for age in (20, 40, 70) for smoker in (True, False)]
    lists = [cs.sparse([few], SCHEMA), cs.sparse([{few[0]: 1.0}], SCHEMA)]
    # With so large a budget an error of a few rows is a surprise, and one that is none fails with probability e⁻⁵⁰.
    with cs.open_session(TABLE, epsilon=2000.0, questions=50, mechanism="sparse-mw", threshold=0.001) as session:
        live = [session.ask(question) for question in lists]
        released = session.release()
    for question, first in zip(lists, live):
        answer = released.ask(question)
        assert (first.basis, answer.basis) == ("measured", "measured")
        assert answer.low <= first.fraction <= answer.high  # its centre is the measured count, made possible
        # One of many answers in a session, alone in a release: the same noise at a smaller failure probability.
        assert first.high >= answer.high
    other = released.ask(cs.sparse([[("west", 20, True, True)]], SCHEMA))
    assert (other.basis, other.low, other.high) == ("unguaranteed", None, None)


@pytest.mark.parametrize("mechanism", ["laplace", "small-db"])
def test_a_list_of_records_rests_on_the_cells_that_it_is(mechanism: str) -> None:
    schema = cs.Schema.from_dict({"name": "t", "columns": {"a": {"type": "boolean"}, "b": {"type": "boolean"}}})
    rows = pa.table({"a": [True, False] * 50, "b": [True, True, False, True] * 25})
    workload = cs.marginals(schema, 2)
    release = cs.release(cs.open_table(rows, schema), workload, epsilon=5.0, mechanism=mechanism)
    listed, written = cs.sparse([[(True, True), (True, False)]], schema), cs.sql(schema, ["a"])
    assert release.ask(listed) == release.ask(written)
    assert release.ask(written).basis == ("measured" if mechanism == "laplace" else "guessed")


def plain_and_weighted() -> tuple[cs.Release, list[cs.Workload]]:
    """A session that measured a plain question and a weighted one, both with noise far below one count."""
    asked = [cs.sql(SCHEMA, [CELL]), WEIGHTED]
    settings_ = {"mechanism": "sparse-mw", "hits": 2, "threshold": 0.001, "measuring": 0.007}
    with cs.open_session(TABLE, epsilon=1000.0, questions=4, **settings_) as session:
        assert [session.ask(question).basis for question in asked] == ["measured", "measured"]
        return session.release(), asked


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("confidence", [0.8, 0.9, 0.95, 0.99])
def test_a_release_reads_the_noise_of_each_question_on_the_grid_it_was_drawn_on(which: int, confidence: float) -> None:
    released, asked = plain_and_weighted()
    grid, scale = asked[which].grid, released.parameters["answer_scale"]
    assert (grid, scale < 0.3) == ((1, 4)[which], True)
    answer = released.ask(asked[which], confidence=confidence)
    held = released.measured.sum_for(asked[which].query(0))
    rows = released.total.value
    margin = round(grid * held.margin(confidence))  # in steps of the grid that the curator drew on
    # It holds as often as it says, and with one step less it would not; but noise never leaves a point.
    assert laplace_tail(scale * grid, margin) <= 1 - confidence
    assert margin == 1 or laplace_tail(scale * grid, margin - 1) > 1 - confidence
    most = held.count + margin / grid
    rounded = asked[1].query(0).rounding(rows, most) if which else 0.0  # what rounding did to the weights is added
    assert answer.high == pytest.approx((most + rounded) / rows)


def test_the_grids_of_measured_questions_are_in_the_file(tmp_path) -> None:
    released, asked = plain_and_weighted()
    released.save(tmp_path / "r.conspectus")
    again = cs.load(tmp_path / "r.conspectus")
    assert again.measured.grids == released.measured.grids == (1, 4)
    assert [again.ask(question) for question in asked] == [released.ask(question) for question in asked]
