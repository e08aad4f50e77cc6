"""Of random tables and random predicates, whichever mechanism answers: intervals hold as often as they say.

No interval that rests on noise is a point, in numbers or in print, and a refusal names the columns that are known.
"""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.stats import binom
from tests.made import needed, people, truth

import conspectus as cs
from conspectus.mechanisms.registry import OFFLINE
from conspectus.synopses.synopsis import CannotAnswer

ALPHA = 1e-6
"""The chance that a right program fails one of these tests, but for what is said there."""

CONFIDENCE = 0.95
PER_RELEASE = 12


def predicate(rng: np.random.Generator, depth: int = 2) -> str:
    """Any predicate of the language about made people."""
    if depth and rng.random() < 0.7:
        first, second = predicate(rng, depth - 1), predicate(rng, depth - 1)
        return [f"NOT ({first})", f"({first}) AND ({second})", f"({first}) OR ({second})"][rng.integers(3)]
    regions = ", ".join(
        f"'{name}'" for name in rng.permutation(["north", "east", "south", "west"])[: rng.integers(1, 4)]
    )
    low, high = 18 + 12 * rng.integers(1, 5, 2)  # no end of the range: see test_certainty
    return [
        "smoker",
        "ill",
        f"region IN ({regions})",
        f"age >= {low}",
        f"age < {high}",
        f"age BETWEEN {min(low, high)} AND {max(low, high) + 11}",
    ][rng.integers(6)]


def checked(name: str, runs: int, seed: int) -> tuple[int, int, int]:
    """Over so many releases of other tables: intervals in all, those that hold, and releases whose first one does."""
    rng = np.random.Generator(np.random.PCG64(seed))
    total = held = first = 0
    for _ in range(runs):
        neighbours = ["replace", "add-remove"][rng.integers(2)] if name != "net" else "replace"
        schema, table = people(
            int(rng.integers(60, 900)), public_seed=int(rng.integers(1 << 30)), neighbours=neighbours
        )
        more = needed(name, schema)
        epsilon = float(rng.choice([0.3, 1.0, 20.0]))
        workload = cs.marginals(schema, 2) + cs.sql(schema, [predicate(rng)])
        try:
            release = cs.release(table, workload, epsilon=epsilon, delta=1e-6, mechanism=name, **more)
        except ValueError:  # a mechanism that refuses so few rows, or this relation, before anything is spent
            continue
        intervals = []
        for _ in range(PER_RELEASE):
            text = predicate(rng)
            intervals += answered(release, table, schema, text)
        total, held = total + len(intervals), held + sum(intervals)
        first += not intervals or intervals[0]
    return total, held, first


def answered(release: cs.Release, table, schema, text: str) -> list[bool]:
    """Whether the interval of one answer holds; nothing where there is none, or it is certain by the schema."""
    try:
        answer = release.ask(text, confidence=CONFIDENCE)
    except CannotAnswer as refusal:
        if not release.synopsis.answers_alone and "this release knows " not in str(refusal):
            raise AssertionError(f"{refusal} does not name what is known") from refusal
        return []
    decided = any(note.startswith("by the schema") for note in answer.notes)
    if answer.low is None or answer.high is None or decided:
        return []
    shown = re.search(r"interval (\S+) to (\S+),", str(answer))
    assert answer.low < answer.high
    assert shown is not None
    assert float(shown[1]) < float(shown[2])
    (exact,), rows = truth(table, cs.sql(schema, [text]))
    share = int(exact) / rows
    assert not answer.low <= share <= answer.high or float(shown[1]) <= share + 1e-9
    return [answer.low - 1e-12 <= share <= answer.high + 1e-12]


def enough(name: str, runs: int, seed: int) -> None:
    total, held, first = checked(name, runs, seed)
    # The first answers of releases are independent.
    assert first >= runs - binom.ppf(1 - ALPHA, runs, 1 - CONFIDENCE)
    # Answers of one release share its noise. So at worst all of them fail together, as often as one may.
    assert total - held <= PER_RELEASE * binom.ppf(1 - ALPHA, runs, 1 - CONFIDENCE)


@pytest.mark.parametrize("name", OFFLINE)
def test_intervals_hold_as_often_as_they_say(name: str) -> None:
    enough(name, 10 if name in ("laplace", "gaussian") else 2, seed=7)


@pytest.mark.audit
@pytest.mark.parametrize("name", OFFLINE)
def test_intervals_hold_as_often_as_they_say_many_times(name: str) -> None:
    enough(name, 300 if name in ("laplace", "gaussian") else 40, seed=8)
