"""Synthetic rows that have wanted answers, by local search: post-processing of answers that may be published.

Rows start as independent draws of the one-way shares and are changed one code at a time, whenever that brings the
answers nearer to what is wanted. It works for every question that is a number of rows (or of rows by class) away from
its value: predicates and the ready functions of a table, however far from linear.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.queries.query import Predicate, Query
from conspectus.queries.statistic import STEPS, Statistic
from conspectus.queries.statistic_counts import Classes, Conditions, padded, starts_of
from conspectus.queries.statistic_kernels import COUNT, INDEPENDENCE

from . import row_kernels

# Their many arrays are handed over as one tuple, which a checker of types cannot count.
fill: Any = row_kernels.fill
improve: Any = row_kernels.improve

Vector = NDArray[np.float64]
Integers = NDArray[np.int64]

SLACK = 1.0
"""How near, in deviations of its noise, an answer is near enough."""

_LEAST = 1e-9
"""The least deviation, as a share: exact answers weigh much and not infinitely much."""


@dataclass(frozen=True, eq=False)
class Wanted:
    """Questions, the answers that rows should give to them, and how far off each answer may well be, as shares."""

    queries: Sequence[Query]
    answers: Vector
    deviations: Vector


@dataclass(frozen=True, eq=False)
class OneWay:
    """For each column the wanted share of each of its codes, and how far off each of them may well be."""

    shares: tuple[Vector, ...]
    deviations: tuple[float, ...]


def can_fit(queries: Iterable[Query]) -> bool:
    """Whether all of these are questions that rows can be fitted to step by step."""
    return all(isinstance(query, Predicate | Statistic) for query in queries)


def independent_rows(one_way: OneWay, rows: int, coins: np.random.Generator) -> Integers:
    """Rows with these one-way shares and columns that are independent, as nearly as so few rows can be.

    They are a scrambled Sobol sequence. Independent draws would leave chance dependences of 1/√rows between columns,
    which a search removes only where it is told to.
    """
    from scipy.stats import qmc

    places = qmc.Sobol(len(one_way.shares), scramble=True, seed=coins).random_base2((rows - 1).bit_length())[:rows]
    columns = []
    for shares, here in zip(one_way.shares, places.T):
        weights = np.maximum(shares, 0.0)
        weights = weights / weights.sum() if weights.sum() > 0 else np.full(len(shares), 1 / len(shares))
        columns.append(np.minimum(np.searchsorted(np.cumsum(weights), here, side="right"), len(shares) - 1))
    return np.stack(columns, axis=1).astype(np.int64)


class RowFitter:
    """Wanted answers made ready for many searches: the questions as flat arrays."""

    def __init__(self, domain: Domain, wanted: Wanted, one_way: OneWay) -> None:
        self.domain = domain
        self.one_way = one_way
        # What no row can satisfy is right whatever the rows are.
        known = [number for number, query in enumerate(wanted.queries) if query != Predicate(())]
        queries = [wanted.queries[number] for number in known]
        self._answers, self._deviations = wanted.answers[known], np.maximum(wanted.deviations[known], _LEAST)
        self.questions = len(queries)
        functions = [_as_function(query) for query in queries]
        sorts = Classes(functions)
        kinds = np.where([isinstance(query, Predicate) for query in queries], COUNT, sorts.kinds)
        self._undirected = kinds == INDEPENDENCE
        place = {column: column for column in range(len(domain))}
        boxes = Conditions(domain, [box for f in functions for box in f.given], place)
        over = np.array([padded(f.over, -1) for f in functions], dtype=np.int64).reshape(-1, 2)
        readers: list[list[int]] = [[] for _ in domain.sizes]
        for number, function in enumerate(functions):
            for column in function.columns:
                readers[column].append(number)
        self._readers_at = starts_of([len(each) for each in readers])
        self._readers = np.array([f for each in readers for f in each] or [0], dtype=np.int64)
        self._held_at = starts_of([f.cells for f in functions])
        self._arrays: tuple[Any, ...] = (
            starts_of([len(f.given) for f in functions]),
            boxes.box_literals,
            boxes.literal_column,
            boxes.literal_at,
            boxes.inside,
            over,
            sorts.class_at,
            sorts.classes,
            kinds.astype(np.int64),
            sorts.shapes,
            sorts.number_at,
            sorts.numbers,
            sorts.conditions,
            STEPS,
            self._held_at,
        )

    def fit(self, start: Integers, tries: int, coins: np.random.Generator) -> tuple[Integers, float]:
        """The rows `start` after this many tried changes, and the weighted squared distance that is left.

        A distance from independence does not say in which direction: the first third of the changes is for questions
        that do say so.
        """
        rows = np.ascontiguousarray(start, dtype=np.int64).copy()
        count, sizes = len(rows), self.domain.sizes
        held = np.zeros(int(self._held_at[-1]), dtype=np.int64)
        values = np.zeros(len(self._answers), dtype=np.int64)
        fill(rows, *self._arrays, held, values)
        wanted, off = self._answers * (STEPS * count), self._deviations * (STEPS * count)
        weights, slack = 1 / np.square(off), SLACK * off
        code_counts = np.concatenate([np.bincount(rows[:, c], minlength=size) for c, size in enumerate(sizes)])
        code_wanted = np.concatenate(self.one_way.shares) * count
        code_off = np.repeat(np.maximum(self.one_way.deviations, _LEAST) * count, sizes)
        code_weights, code_slack = 1 / np.square(code_off), SLACK * code_off
        first = tries // 3
        for here, part in ((np.where(self._undirected, 0.0, weights), first), (weights, tries - first)):
            improve(
                rows,
                *changes(self.domain, rows, part, coins),
                self._readers_at,
                self._readers,
                *self._arrays,
                held,
                values,
                wanted,
                here,
                slack,
                starts_of(sizes),
                code_counts,
                code_wanted,
                code_weights,
                code_slack,
            )
        left = float((weights * np.square(np.maximum(np.abs(values - wanted) - slack, 0.0))).sum())
        off_codes = np.maximum(np.abs(code_counts - code_wanted) - code_slack, 0.0)
        return rows, left + float((code_weights * np.square(off_codes)).sum())


def changes(
    domain: Domain, rows: Integers, tries: int, coins: np.random.Generator
) -> tuple[Integers, Integers, Integers]:
    """Rows, columns and new codes to try: mostly the code of another row, sometimes any code."""
    which = coins.integers(0, len(rows), tries)
    free = np.flatnonzero(np.array(domain.sizes) > 1)
    where = free[coins.integers(0, max(len(free), 1), tries)] if len(free) else np.zeros(tries, dtype=np.int64)
    what = rows[coins.integers(0, len(rows), tries), where]
    anything = np.floor(coins.random(tries) * np.array(domain.sizes)[where]).astype(np.int64)
    return which, where, np.where(coins.random(tries) < 0.5, anything, what)


def _as_function(query: Query) -> Statistic:
    """A predicate as the function that counts in how many of its disjoint boxes rows lie."""
    if isinstance(query, Statistic):
        return query
    assert isinstance(query, Predicate)
    return Statistic("satisfied", query.boxes)
