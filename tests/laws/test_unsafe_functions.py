"""Functions with a declared sensitivity: how they are evaluated, charged, stored, and refuted where they are wrong."""

from __future__ import annotations

import itertools
import math
import time
import warnings

import numpy as np
import pytest
from tests.made import people, truth

import conspectus as cs
from conspectus.counting.counters import count
from conspectus.data.domain import Chunk
from conspectus.privacy.relation import Relation
from conspectus.queries import refuter
from conspectus.queries.blocks.unsafe_functions import FUNCTION_STEPS, ForgottenFunction
from conspectus.queries.refuter import RefutedSensitivity, examine
from conspectus.queries.sensitivity import WorkloadError

SCHEMA, TABLE = people(400)
N = 400


@pytest.fixture(autouse=True)
def unhurried(monkeypatch):
    """Ten times the usual time, so that a busy machine gets through the walks of the search, too: each of them refutes
    what is wrong here with a chance of a third or more, and forty of them miss it once in ten million runs."""
    monkeypatch.setattr(refuter, "SECONDS", 20.0)


def smokers(codes):
    return float((codes[:, 2] == 1).sum()) / N


def mode(codes):
    return np.bincount(codes[:, 0], minlength=4).max() / N


def threshold(codes):
    return float((codes[:, 2] == 1).mean() > 0.5)


def first_row(codes):
    return codes[0, 0] / 3


def median(codes):
    return np.median(codes[:, 1]) / 5


def majority_gap(codes):
    ones = (codes[:, 2] == 1).sum()
    return abs(2 * ones - len(codes)) / len(codes)


def meddles_with_twos(codes):
    """Bounded if rows could be changed; as they cannot, one row with a two makes it fail."""
    bad = codes[:, 0] == 2
    if bad.any():
        codes[bad, 0] = 0
    return (codes[:, 2] == 1).sum() / N


def asked(**functions):
    return cs.unsafe_functions(SCHEMA, functions)


def test_values_reach_the_release_and_noise_is_what_was_declared():
    workload = asked(smokers=(smokers, 1 / N), mode=(mode, 1 / N))
    values, rows = truth(TABLE, workload)
    shares = values / (workload.denominator * workload.grid)
    assert rows == N
    codes = np.concatenate([np.stack(c.columns, axis=1) for c in TABLE.chunks()]).astype(np.int64)
    assert shares == pytest.approx([smokers(codes), mode(codes)], abs=1 / (workload.denominator * FUNCTION_STEPS))
    exact = cs.release(TABLE, workload, epsilon=1e7, mechanism="laplace")
    assert exact.answers == pytest.approx(shares, abs=1e-4)
    release = cs.release(TABLE, workload, epsilon=1, delta=1e-6, mechanism="gaussian")
    moved = workload.sensitivity(Relation("replace"))
    assert moved == workload.sensitivity(Relation("add-remove", 3, False))
    rho = release.guarantee.rho
    assert release.parameters["scale"] * FUNCTION_STEPS == pytest.approx(math.sqrt(moved.l2_squared / (2 * rho)))


@pytest.mark.parametrize(
    ("returned", "share"),
    [(0.25, 0.25), (7, 1), (-3.0, 0), (math.inf, 1), (-math.inf, 0), (math.nan, 0), ("0.5", 0), (None, 0), (True, 1),
     (np.float32(0.5), 0.5), ([0.5], 0), (1j, 0), (np.array(0.5), 0.5), (np.array([0.5]), 0.5), (np.array([[1]]), 1),
     (np.array([True]), 1), (np.array([0.5, 0.5]), 0), (np.array([]), 0), (np.array([1j]), 0), (np.array(["0.5"]), 0),
     (np.array([math.nan]), 0), (np.array([None]), 0), (10**400, 1), (-10**400, 0), (np.ma.masked, 0),
     (np.complex128(1), 0), (np.ma.array([0.5]), 0.5)],
)  # fmt: skip
def test_values_are_clamped_and_everything_else_becomes_a_fixed_share(returned, share):
    assert asked(f=(lambda codes: returned, 0.5)).query(0).share(np.zeros((3, 4), dtype=np.int64)) == share


def test_a_range_and_a_fallback_are_declared_for_all_functions_or_for_some():
    returned = {"low": -1.0, "high": 7.0, "none": math.nan, "in": 0.35}
    functions = {name: (lambda codes, value=value: value, 0.5) for name, value in returned.items()}

    def shares(**declared):
        workload = cs.unsafe_functions(SCHEMA, functions, **declared)
        codes = np.zeros((3, 4), dtype=np.int64)
        again = cs.Workload.from_json(workload.to_json())
        assert [f.declared for f in again.queries()] == [f.declared for f in workload.queries()]
        return [query.share(codes) for query in workload.queries()]

    assert shares() == [0, 1, 0, 0.35]
    assert shares(range=(0.25, 0.5)) == [0.25, 0.5, 0.25, 0.35]
    assert shares(range=(0.25, 0.5), fallback=0.3) == [0.25, 0.5, 0.3, 0.35]
    assert shares(fallback=0.3) == [0, 1, 0.3, 0.35]
    assert shares(range={"in": (0, 0.25)}, fallback={"none": 0.75}) == [0, 1, 0.75, 0.25]


def test_a_function_is_charged_for_no_more_than_its_range_is_wide():
    """A threshold jumps from end to end of its range: what one unit moves is attained, and never exceeded."""
    wide, narrow = (cs.unsafe_functions(SCHEMA, {"f": (threshold, 1.0)}, range=(0.25, end)) for end in (1.0, 0.375))
    for workload, most in ((wide, 0.75), (narrow, 0.125)):
        (block,), (function,) = workload.blocks, workload.queries()
        assert function.most == most
        assert block.single_sensitivity(0) == most * workload.denominator * FUNCTION_STEPS + 1
        half = np.zeros((2, 4), dtype=np.int64)
        one, two = half.copy(), half.copy()
        one[:1, 2], two[:, 2] = 1, 1
        off = abs(block.values(one)[0] - block.values(two)[0])
        assert off == most * workload.denominator * FUNCTION_STEPS
        examine(workload, Relation("replace"), rows=N)
    assert wide != narrow
    assert len({wide, narrow}) == 2
    with pytest.raises(RefutedSensitivity):
        examine(cs.unsafe_functions(SCHEMA, {"f": (threshold, 0.12)}, range=(0.25, 0.375)), Relation("replace"), rows=N)


def test_the_fallback_is_part_of_what_is_refuted():
    """It fails on one table and is 0.5 on the next: harmless where 0.5 stands for a failure, and only there."""

    def fails_on_smokers(codes):
        return 0.5 if (codes[:, 2] == 0).any() else math.nan

    examine(cs.unsafe_functions(SCHEMA, {"f": (fails_on_smokers, 1 / N)}, fallback=0.5), Relation("replace"), rows=N)
    with pytest.raises(RefutedSensitivity):
        examine(cs.unsafe_functions(SCHEMA, {"f": (fails_on_smokers, 1 / N)}), Relation("replace"), rows=N)


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({"range": (-5, 5)}, "map other values onto it"),
        ({"range": (0.5, 0.5)}, "low and a high"),
        ({"range": (0.5, 0.2)}, "low and a high"),
        ({"range": 0.5}, "pair of numbers"),
        ({"range": (0, math.nan)}, "pair of numbers"),
        ({"range": (0, "1")}, "pair of numbers"),
        ({"range": {"g": (0, 1)}}, "no function is called that"),
        ({"fallback": 2}, "number in its range"),
        ({"fallback": math.nan}, "number in its range"),
        ({"fallback": 0.1, "range": (0.2, 0.3)}, "number in its range, from 0.2 to 0.3"),
        ({"fallback": {"g": 0}}, "no function is called that"),
    ],
)
def test_ranges_that_make_no_sense_are_refused(declared, said):
    with pytest.raises(WorkloadError, match=said):
        cs.unsafe_functions(SCHEMA, {"f": (smokers, 1 / N)}, **declared)


@pytest.mark.parametrize(
    "problem", [ValueError("the private row"), KeyError("x"), SystemExit(3), GeneratorExit("row"), RecursionError()]
)
def test_what_goes_wrong_inside_is_never_told(problem, capfd, caplog):
    def fails(codes):
        if len(codes):
            raise problem
        return 0.5

    workload = asked(f=(fails, 1.0))
    values, _ = truth(TABLE, workload)
    assert values.tolist() == [0]
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


def test_warnings_inside_are_never_told():
    def empty_mean(codes):
        return np.mean(codes[codes[:, 0] > 99, 0])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert asked(f=(empty_mean, 1.0)).query(0).share(np.zeros((2, 4), dtype=np.int64)) == 0


def test_a_function_cannot_change_what_the_next_one_sees():
    def meddles(codes):
        codes[:] = 0
        return 1.0

    values, _ = truth(TABLE, asked(a=(smokers, 1 / N), b=(meddles, 1 / N), c=(smokers, 1 / N)))
    assert values[0] == values[2] > 0
    assert values[1] == 0  # the array is read-only, so it failed


def test_the_order_of_rows_is_no_part_of_a_table():
    def first_half(codes):
        half = len(codes) // 2
        return (codes[:half, 2] == 1).mean()

    workload = asked(f=(first_half, 1.0))
    codes = [np.array([0, 1] * 20, dtype=np.uint8) for _ in range(4)]
    alternating, sorted_rows = Chunk(tuple(codes), 40), Chunk(tuple(np.sort(c) for c in codes), 40)
    assert count(workload, [alternating])[0] == count(workload, [sorted_rows])[0]


def test_charged_steps_cover_every_pair_of_neighbours():
    """By brute force: all tables of four rows of two columns, and values that rounding makes fuzzy."""
    schema = cs.Schema.from_dict({"name": "t", "columns": {name: {"type": "boolean"} for name in "ab"}})

    def fuzzy(codes):
        return sum(0.1 for row in codes if row[0]) / 0.4 if len(codes) else 0.0

    workload = cs.unsafe_functions(schema, {"f": (fuzzy, 0.25), "g": (lambda c: (c[:, 0] & c[:, 1]).sum() / 4, 0.25)})
    cells = list(itertools.product((0, 1), repeat=2))

    def values(rows):
        codes = np.array(rows, dtype=np.uint8).reshape(-1, 2)
        return count(workload, [Chunk((codes[:, 0], codes[:, 1]), len(codes))], threads=1)[0]

    moved = workload.sensitivity(Relation("replace"))
    largest = 0
    for rest in itertools.combinations_with_replacement(cells, 3):
        found = [values([*rest, cell]) for cell in cells]
        for here, there in itertools.combinations([*found, values(rest)], 2):
            off = np.abs(here - there)
            largest = max(largest, int(off.max()))
            assert off.max() <= moved.linf
            assert (off * off).sum() <= moved.l2_squared
    assert largest >= 0.25 * workload.denominator * FUNCTION_STEPS - 1


WRONG = {
    "half of the truth": (smokers, 0.5 / N),
    "a threshold": (threshold, 1 / N),
    "the first row": (first_row, 1 / N),
    "a median": (median, 0.1),
    "twice as far when replaced": (majority_gap, 1 / N),
    "a write, which fails on true rows": (meddles_with_twos, 1 / N),
    "an exception for some tables": (lambda codes: 1 / (1 if (codes[:, 3] == 1).any() else 0), 1 / N),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_sensitivity_is_refuted_before_anything_is_spent(name):
    workload = asked(f=WRONG[name])
    with pytest.raises(RefutedSensitivity, match="is refuted: on a made table of") as told:
        cs.release(TABLE, workload, epsilon=1, delta=1e-6)
    assert "400 rows" in str(told.value)
    with pytest.raises(RefutedSensitivity):
        cs.unsafe_functions(SCHEMA, {"f": WRONG[name]}, rows=N)
    with pytest.raises(RefutedSensitivity):
        cs.plan(SCHEMA, workload, rows=N, epsilon=1)


def test_the_right_sensitivity_of_the_same_functions_is_not_refuted():
    right = asked(
        smokers=(smokers, 1 / N), mode=(mode, 1 / N), threshold=(threshold, 1), gap=(majority_gap, 2 / N), m=(median, 1)
    )
    start = time.monotonic()
    examine(right, Relation("replace"), rows=N)
    assert time.monotonic() - start < 240  # it stops by itself; how soon is not a test


def test_the_relation_and_the_unit_decide_what_is_refuted():
    gap = cs.unsafe_functions(SCHEMA, {"gap": (lambda c: abs(2 * (c[:, 2] == 1).sum() - len(c)) / N, 1 / N)})
    examine(gap, Relation("add-remove"), rows=N)
    with pytest.raises(RefutedSensitivity):
        examine(gap, Relation("replace"), rows=N)
    with pytest.raises(RefutedSensitivity):
        examine(gap, Relation("add-remove", 2, False), rows=N)
    # A mean moves by 1/n, which is not small where n is: without a declared number of rows every size is tried.
    mean = asked(mean=(lambda c: (c[:, 2] == 1).mean() if len(c) else 0.0, 1 / N))
    examine(mean, Relation("add-remove"), rows=N)
    with pytest.raises(RefutedSensitivity):
        examine(mean, Relation("add-remove"), rows=None)
    with pytest.raises(RefutedSensitivity):
        cs.release(TABLE, mean, epsilon=1, delta=1e-6, neighbours="add-remove")
    examine(asked(smokers=(smokers, 1 / N)), Relation("add-remove"), rows=None)


def test_the_search_looks_at_made_tables_alone(monkeypatch):
    """What it evaluates does not depend on the private rows: the same coins give the same tables on another table."""
    seen: list[bytes] = []

    def spy(codes):
        seen.append(codes.tobytes())
        return 0.0

    workload = asked(spy=(spy, 1.0))
    examine(workload, Relation("replace"), rows=N, public_seed=5)
    first, seen[:] = list(seen), []
    monkeypatch.setattr(refuter, "SECONDS", 60.0)
    examine(workload, Relation("replace"), rows=N, public_seed=5)
    assert seen[: len(first)] == first
    private = np.concatenate([np.stack(c.columns, axis=1) for c in TABLE.chunks()]).astype(np.int64)
    assert private.tobytes() not in seen


def remembering():
    """A function that tells of the table before."""
    last = [0.0]

    def share(codes):
        before, last[0] = last[0], smokers(codes)
        return before

    return share


@pytest.mark.parametrize(
    "share", [remembering(), lambda codes: np.random.default_rng().random()], ids=["state", "coin"]
)
def test_what_is_no_function_of_the_rows_is_refused_before_they_are_read(share, monkeypatch):
    monkeypatch.setattr(type(TABLE), "fold", lambda *_, **__: pytest.fail("the table was read"))
    with pytest.raises(RefutedSensitivity, match="is no function of the rows"):
        cs.release(TABLE, asked(share=(share, 1.0)), epsilon=1.0, mechanism="laplace")


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "boosting"])
def test_true_rows_are_shown_to_each_function_once_and_in_order(mechanism):
    private = np.concatenate([np.stack(c.columns, axis=1) for c in TABLE.chunks()]).astype(np.int64)
    private = private[np.lexsort(private.T[::-1])].tobytes()
    shown = []

    def named(name):
        return lambda codes: shown.append(name) or 0.5 if codes.tobytes() == private else 0.5

    names = ["c", "a", "b"]
    cs.release(TABLE, asked(**{n: (named(n), 1 / N) for n in names}), epsilon=1.0, delta=1e-6, mechanism=mechanism)
    assert shown == names


@pytest.mark.parametrize("functions", [1, 3])
def test_no_evaluation_starts_when_time_is_up(monkeypatch, functions):
    """A clock that each evaluation moves by 0.9 of the seconds there are: two begin within them, and no third."""
    now, calls = [0.0], []

    class Clock:
        @staticmethod
        def monotonic():
            return now[0]

    def slow(codes):
        calls.append(len(codes))
        now[0] += 0.9 * refuter.SECONDS
        return 0.0

    monkeypatch.setattr(refuter, "time", Clock)
    examine(asked(**{f"slow {i}": (slow, 1 / N) for i in range(functions)}), Relation("replace"), rows=N)
    assert len(calls) == 2


def test_functions_are_known_by_identity_and_stored_by_name(tmp_path):
    one, other = asked(f=(smokers, 1 / N)), asked(f=(mode, 1 / N))
    assert one == asked(f=(smokers, 1 / N))
    assert one != other
    assert len({one, other, asked(f=(smokers, 1 / N))}) == 2
    assert len((one + one).distinct()) == 1
    release = cs.release(TABLE, one + other, epsilon=1, delta=1e-6, mechanism="gaussian")
    release.save(tmp_path / "f.conspectus")
    loaded = cs.load(tmp_path / "f.conspectus")
    np.testing.assert_array_equal(loaded.answers, release.answers)
    assert any("declared, not proved" in warning for warning in loaded.guarantee.warnings)
    assert loaded.ask(loaded.workload[1]) == release.ask((one + other)[1])
    assert [f.name for f in loaded.workload.queries()] == ["f", "f (2)"]
    with pytest.raises(ForgottenFunction, match="only its name"):
        truth(TABLE, loaded.workload)


def test_functions_of_the_table_do_not_mix_with_counts():
    with pytest.raises(WorkloadError, match="apart"):
        asked(f=(smokers, 1 / N)) + cs.marginals(SCHEMA, 1)
    with pytest.raises(WorkloadError, match="apart"):
        asked(f=(smokers, 1 / N)) + asked(g=(smokers, 0.5))


@pytest.mark.parametrize("given", [smokers, (smokers,), (smokers, 0), (smokers, 2), (smokers, math.nan), (3, 0.5),
                                   (smokers, True), (smokers, "x")])  # fmt: skip
def test_declarations_that_make_no_sense_are_refused(given):
    with pytest.raises(WorkloadError, match="'f'"):
        cs.unsafe_functions(SCHEMA, {"f": given})


def test_stored_declarations_are_checked():
    stored = asked(f=(smokers, 1 / N)).to_json()
    short = (["f", 1, 0], ["f", 3, 2], ["", 1, 2], ["f", 0.5, 2], ["f", 1], "f", ["f", 1, 2, 0.0])
    long = ([0.0, 2.0, 0.0], [0.5, 0.4, 0.4], [0.0, 0.5, 0.6], [0, 1, 0], [0.0, math.nan, 0.0], [0.0, 1.0, math.nan])
    for wreck in (*short, *(["f", 1, 2, *more] for more in long)):
        stored["blocks"][0]["functions"] = [wreck]
        with pytest.raises(WorkloadError):
            cs.Workload.from_json(stored)
    stored["blocks"][0] |= {"functions": [["f", 1, 2]], "whole": 3}
    with pytest.raises(WorkloadError):
        cs.Workload.from_json(stored)


def test_mechanisms_that_keep_histograms_say_why_they_do_not_serve():
    plan = cs.plan(SCHEMA, asked(f=(smokers, 1 / N)), rows=N, epsilon=1, delta=1e-6)
    refused = {refusal.mechanism: refusal.reason for refusal in plan.refusals}
    assert {"mwem", "iterative", "projection"} <= set(refused)
    assert "not counts of records" in refused["mwem"]
    assert {"laplace", "gaussian", "boosting"} <= {claim.mechanism for claim in plan.claims}
