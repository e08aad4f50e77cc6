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

from conspectus.counting.statistic_counts import Classes, Conditions, Integers, padded
from conspectus.counting.statistic_kernels import COUNT, INDEPENDENCE
from conspectus.data.domain import Domain
from conspectus.queries.blocks.statistic import STATISTIC_STEPS, Statistic
from conspectus.queries.ordering import starts_of
from conspectus.queries.query import Predicate, Query
from conspectus.synopses.fitting.lbfgs import Vector

from .row_kernels import fill, improve

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


def independent_rows(one_way: OneWay, rows: int, rng: np.random.Generator) -> Integers:
    """Rows with these one-way shares and columns that are independent, as nearly as so few rows can be.

    They are a scrambled Sobol sequence. Independent draws would leave chance dependences of 1/√rows between columns,
    which a search removes only where it is told to.
    """
    from scipy.stats import qmc

    places = qmc.Sobol(len(one_way.shares), scramble=True, seed=rng).random_base2((rows - 1).bit_length())[:rows]
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
        self._square = self._undirected & (sorts.shapes == 2).all(axis=1)
        place = {column: column for column in range(len(domain))}
        boxes = Conditions(domain, [box for f in functions for box in f.given], place)
        over = np.array([padded(f.over, -1) for f in functions], dtype=np.int64).reshape(-1, 2)
        readers: list[list[int]] = [[] for _ in domain.sizes]
        for number, function in enumerate(functions):
            for column in function.columns:
                readers[column].append(number)
        self._by_column: tuple[Any, ...] = (
            starts_of([len(each) for each in readers]),
            np.array([f for each in readers for f in each] or [0], dtype=np.int64),
            *_signatures(domain, readers, functions, boxes, sorts),
        )
        self._held_at = starts_of([f.cells for f in functions])
        self._questions: tuple[Any, ...] = (
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
            sorts.wholes,
            STATISTIC_STEPS,
            self._held_at,
        )

    def fit(
        self, start: Integers, tries: int, rng: np.random.Generator, *, heat: float = 0.0
    ) -> tuple[Integers, float]:
        """The rows `start` after this many tried changes, and the weighted squared distance that is left.

        With `heat` changes that make it worse by about that much are kept at first, ever fewer, and none at the end.

        A distance from independence does not say in which direction: the first third of the changes is for questions
        that do say so. Then it is sought in the direction in which there is room for it.
        """
        rows = np.ascontiguousarray(start, dtype=np.int64).copy()
        count, sizes = len(rows), self.domain.sizes
        held, values, code_counts = self._filled(rows)
        wanted, off = self._answers * (STATISTIC_STEPS * count), self._deviations * (STATISTIC_STEPS * count)
        weights, slack = 1 / np.square(off), SLACK * off
        code_wanted = np.concatenate(self.one_way.shares) * count
        code_off = np.repeat(np.maximum(self.one_way.deviations, _LEAST) * count, sizes)
        code_weights, code_slack = 1 / np.square(code_off), SLACK * code_off
        first = tries // 3
        luck = rng.standard_exponential(tries) * heat * np.maximum(1 - np.arange(tries) / (0.7 * tries), 0.0)
        parts = ((np.where(self._undirected, 0.0, weights), luck[:first]), (weights, luck[first:]))
        for turn, (here, lucky) in enumerate(parts):
            directions = self._directions(held, wanted, off) if turn else np.zeros(len(values), dtype=np.int64)
            values *= np.where(directions * self._leaning(held) < 0, -1, 1)
            improve(
                rows,
                *changes(self.domain, rows, len(lucky), rng),
                lucky,
                directions,
                self._by_column,
                self._questions,
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
        return rows, self._left(count, np.abs(values), code_counts)

    def _squares(self, held: Integers) -> Integers:
        """The tables of two by two classes, one for each question; zeros for other questions."""
        found = np.zeros((len(self._square), 4), dtype=np.int64)
        at = self._held_at[:-1][self._square]
        found[self._square] = held[at[:, None] + np.arange(4)]
        return found

    def _leaning(self, held: Integers) -> Integers:
        a, b, c, d = self._squares(held).T
        return np.asarray(a * d - b * c)

    def _directions(self, held: Integers, wanted: Vector, off: Vector) -> Integers:
        """1 or −1 where a wanted distance from independence has room, given the marginals, on that side alone."""
        a, b, c, d = self._squares(held).T
        rows = np.maximum(a + b + c + d, 1)
        own = (a + b) * (a + c)
        more = STATISTIC_STEPS * (np.minimum(a + b, a + c) - own / rows)
        less = STATISTIC_STEPS * (own / rows - np.maximum(2 * a + b + c - rows, 0))
        room = wanted - 3 * off
        return np.where(self._square & (more < room) & (less > more), -1, 0) + np.where(
            self._square & (less < room) & (more > less), 1, 0
        )

    def left(self, rows: Integers) -> float:
        """The weighted squared distance of any rows from what is wanted, as far as it is beyond the slack."""
        _, values, code_counts = self._filled(np.ascontiguousarray(rows, dtype=np.int64))
        return self._left(len(rows), values, code_counts)

    def _filled(self, rows: Integers) -> tuple[Integers, Integers, Integers]:
        """The numbers of rows by class, the values of the questions, and the numbers of rows by code."""
        held = np.zeros(int(self._held_at[-1]), dtype=np.int64)
        values = np.zeros(len(self._answers), dtype=np.int64)
        fill(rows, self._questions, held, values)
        each = [np.bincount(rows[:, c], minlength=size) for c, size in enumerate(self.domain.sizes)]
        return held, values, np.concatenate(each)

    def _left(self, count: int, values: Integers, code_counts: Integers) -> float:
        distances = np.abs(values / (STATISTIC_STEPS * count) - self._answers) / self._deviations
        code_off = np.repeat(np.maximum(self.one_way.deviations, _LEAST), self.domain.sizes)
        code_distances = np.abs(code_counts / count - np.concatenate(self.one_way.shares)) / code_off
        both = np.concatenate([distances, code_distances])
        return float(np.square(np.maximum(both - SLACK, 0.0)).sum())


def changes(
    domain: Domain, rows: Integers, tries: int, rng: np.random.Generator
) -> tuple[Integers, Integers, Integers]:
    """Rows, columns and new codes to try: mostly the code of another row, sometimes any code."""
    which = rng.integers(0, len(rows), tries)
    free = np.flatnonzero(np.array(domain.sizes) > 1)
    where = free[rng.integers(0, max(len(free), 1), tries)] if len(free) else np.zeros(tries, dtype=np.int64)
    what = rows[rng.integers(0, len(rows), tries), where]
    anything = np.floor(rng.random(tries) * np.array(domain.sizes)[where]).astype(np.int64)
    return which, where, np.where(rng.random(tries) < 0.5, anything, what)


def _as_function(query: Query) -> Statistic:
    """A predicate as the function that counts in how many of its disjoint boxes rows lie."""
    if isinstance(query, Statistic):
        return query
    assert isinstance(query, Predicate)
    return Statistic("satisfied", query.boxes)


def _signatures(
    domain: Domain, readers: list[list[int]], functions: list[Statistic], boxes: Conditions, sorts: Classes
) -> tuple[Integers, Integers]:
    """For each reader of a column one number by code: codes of the same number are the same to it, whatever the row."""
    boxes_at = starts_of([len(f.given) for f in functions])
    signs: list[Integers] = []
    for column, size in enumerate(domain.sizes):
        for number in readers[column]:
            function = functions[number]
            parts = [
                boxes.inside[boxes.literal_at[literal] : boxes.literal_at[literal] + size]
                for literal in range(boxes.box_literals[boxes_at[number]], boxes.box_literals[boxes_at[number + 1]])
                if boxes.literal_column[literal] == column
            ]
            for side, over in enumerate(function.over):
                if over == column:
                    at = sorts.class_at[number, side]
                    parts.append(sorts.classes[at : at + size])
            sign = np.zeros(size, dtype=np.int64)
            for part in parts:
                # Numbered anew at each part, so that no number grows beyond the codes there are.
                sign = np.unique(sign * (size + 2) + part + 1, return_inverse=True)[1].astype(np.int64)
            signs.append(sign)
    return starts_of([len(sign) for sign in signs]), np.concatenate(signs) if signs else np.zeros(1, dtype=np.int64)
