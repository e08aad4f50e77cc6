"""One step of the fit of a mixture of products: all components and columns at once, in 32-bit numbers.

Components are independent but for the tables that they make together. Where there are many, they are dealt into parts
that threads work on: as many parts for as many components, whatever processors there are, so that sums have one order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import compiled
from conspectus.queries.rules import demand

from .mixture_questions import QuestionTarget
from .mixture_targets import CannotFit, Floats, Goal, TableGoal

_LEAST = np.float32(1e-9)
_LARGEST_RATIO, _LEAST_FACTOR = 20.0, 0.05
_FASTEST, _FASTEST_WEIGHT = 1.5, 1.0
_SMALLEST_LOG = -40.0
_MOST_ENTRIES = 1 << 24
"""Numbers in the largest array that a step over a table of several columns makes."""


_MANY_COMPONENTS = 600
"""So many components are worth a thread of their own."""

Done = TypeVar("Done")


class Workers(Protocol):
    """The role of whoever works on the parts: `map`, or that of a pool of threads."""

    def __call__(self, work: Callable[[slice], Done], parts: Iterable[slice], /) -> Iterable[Done]: ...


class State:
    """A mixture on its way: weights and tables, their logarithms, and how they moved last."""

    def __init__(self, weights: Floats, tables: Floats) -> None:
        self.weights, self.tables = weights, tables
        ends = np.linspace(0, len(weights), 1 + max(1, min(len(weights) // _MANY_COMPONENTS, 4))).astype(int).tolist()
        self.parts = [slice(a, b) for a, b in pairwise(ends)]
        self.log_weights = np.log(np.maximum(weights, np.float32(1e-30)))
        self.log_tables = np.log(np.maximum(tables, np.float32(1e-30)))
        self.still()

    def still(self) -> None:
        """Without momentum."""
        self.weight_speed = np.zeros_like(self.log_weights)
        self.speed = np.zeros_like(self.log_tables)

    @classmethod
    def random(cls, goal: Goal, components: int, concentration: float, rng: np.random.Generator) -> State:
        demand(CannotFit, (components >= 1, "a mixture has at least one component"))
        tables = np.empty((components, int(goal.offsets[-1])), dtype=np.float32)
        for at in goal.places:
            noise = rng.gamma(concentration, 1 / concentration, (components, at.stop - at.start))
            part = goal.single[at] * noise + 1e-6
            tables[:, at] = part / part.sum(axis=1, keepdims=True)
        return cls(np.full(components, 1 / components, dtype=np.float32), tables)


def pair_tables(state: State, workers: Workers = map) -> Floats:
    """All pair tables side by side; blocks on the diagonal mean nothing."""
    return _summed(workers(lambda part: _pair_tables(state, part), state.parts))


def _pair_tables(state: State, part: slice) -> Floats:
    # The product of a matrix with itself: half of the work.
    half = state.tables[part] * np.sqrt(state.weights[part])[:, None]
    return half.T @ half


def _summed(found: Iterable[Floats]) -> Floats:
    first, *others = found
    for other in others:
        first += other
    return first


def miss(state: State, goal: Goal, workers: Workers = map) -> float:
    """The mean L1 distance of the pair tables from their targets."""
    if not goal.number:
        return float("nan")
    apart = np.abs(pair_tables(state, workers) - goal.pairs)[goal.held]
    return float(apart.sum(dtype=np.float64) / (2 * goal.number))


def step(
    state: State,
    goal: Goal,
    tables: Sequence[TableGoal],
    questions: Sequence[QuestionTarget],
    momentum: np.float32,
    workers: Workers = map,
) -> None:
    """Move a mixture towards its targets; of tables over several columns, towards these."""
    held = list(workers(lambda part: _Held(state, goal, tables, part), state.parts))
    pairs = None
    if goal.number:
        pairs = _missing(goal.pairs, _summed(one.pairs for one in held if one.pairs is not None), goal.pair_weight)
    single = _missing(goal.single, _summed(one.single for one in held), goal.single_weight)
    ratios = [
        _missing(table.shares, _summed(one.tables[place] for one in held), table.weight)
        for place, table in enumerate(tables)
    ]
    change = np.empty_like(state.tables)
    by_part = {one.part.start: one for one in held}
    list(workers(lambda part: by_part[part.start].towards(change, pairs, single, ratios), state.parts))
    divisor = goal.divisor.copy()
    for table in tables:
        divisor[list(table.columns)] += table.weight
    sides = [state.tables[:, place] for place in goal.places] if questions else []
    for target in questions:
        _add_question(change, state, goal, target, sides)
        divisor[list(target.question.columns)] += np.float32(target.weight)
    gain = np.zeros_like(state.weights)

    def move(part: slice) -> None:
        for place, by in zip(goal.places, divisor):
            if by > 0:
                change[part, place] /= by
                gain[part] += np.einsum("ki,ki->k", state.tables[part, place], change[part, place])
        _move_tables(state, goal, change[part], part, momentum)

    list(workers(move, state.parts))
    _move_weights(state, gain / np.float32(max(int((divisor > 0).sum()), 1)), momentum)


def _missing(wanted: Floats, have: Floats, weight: Floats | np.float32) -> Floats:
    """By which share each cell should grow, with its weight; `have` is used up."""
    np.maximum(have, _LEAST, out=have)
    np.divide(wanted, have, out=have)
    have -= 1
    np.clip(have, -1, _LARGEST_RATIO, out=have)
    have *= weight
    return have


class _Held:
    """What some components hold of the tables of a step, and what these would change of them."""

    def __init__(self, state: State, goal: Goal, tables: Sequence[TableGoal], part: slice) -> None:
        self.part = part
        self._state, self._goal, self._asked = state, goal, tables
        self.pairs = _pair_tables(state, part) if goal.number else None
        self.single = state.weights[part] @ state.tables[part]
        grouped: dict[tuple[int, int], Floats] = {}
        self._sides = [self._merged(table, grouped) for table in tables]
        self.tables = [self._table(table, sides) for table, sides in zip(tables, self._sides)]

    def _merged(self, table: TableGoal, grouped: dict[tuple[int, int], Floats]) -> list[Floats]:
        """The conditional shares of a table's columns, by its groups."""
        sides = []
        for column, groups in zip(table.columns, table.groups):
            key = (column, id(groups))
            if key not in grouped:
                grouped[key] = _merged(self._state.tables[self.part, self._goal.places[column]], groups)
            sides.append(grouped[key])
        return sides

    def _runs(self, table: TableGoal) -> list[slice]:
        """Components whose products are made at a time."""
        step = max(1, _MOST_ENTRIES // len(table.shares))
        return [slice(at, at + step) for at in range(0, self.part.stop - self.part.start, step)]

    def _table(self, table: TableGoal, sides: Sequence[Floats]) -> Floats:
        *first, last = sides
        weights = self._state.weights[self.part]
        have = np.zeros_like(table.shares)
        for run in self._runs(table):
            have += (_products(first, run) * weights[run, None]).T @ last[run]
        return have

    def towards(self, change: Floats, pairs: Floats | None, single: Floats, ratios: Sequence[Floats]) -> None:
        """Write what pairs, columns and tables would change of these components."""
        own = change[self.part]
        if pairs is None:
            own[:] = 0
        else:
            np.matmul(self._state.tables[self.part], pairs, out=own)
        own += single
        for table, sides, ratio in zip(self._asked, self._sides, ratios):
            for run in self._runs(table):
                for place, found in enumerate(_contracted(sides, ratio, run), start=-1):
                    column, groups = table.columns[place], table.groups[place]
                    # Every code gets the change of its group.
                    own[run, self._goal.places[column]] += found if groups is None else found[:, groups]


def _contracted(sides: Sequence[Floats], ratio: Floats, run: slice) -> list[Floats]:
    """What a table would change of its columns: the last, then the others in order."""
    *first, last = sides
    found: list[Floats] = [_products(first, run) @ ratio]
    below: Floats = last[run] @ ratio.T
    if len(first) == 2:
        found += [np.zeros_like(first[0][run]), np.zeros_like(first[1][run])]
        _contract(below, first[0][run], first[1][run], found[1], found[2])
        return found
    return found + [_reduced(below, first, place, run) for place in range(len(first))]


def _add_question(change: Floats, state: State, goal: Goal, target: QuestionTarget, sides: Sequence[Floats]) -> None:
    """What one question would change: records that satisfy it become as many more as are missing, others fewer."""
    whole, given = target.question.chances(sides)
    have = float(state.weights @ whole)
    more = min(target.share / max(have, float(_LEAST)) - 1, _LARGEST_RATIO)
    rest = min((1 - target.share) / max(1 - have, float(_LEAST)) - 1, _LARGEST_RATIO)
    for column, chance in given.items():
        change[:, goal.places[column]] += np.float32(target.weight) * (
            np.float32(rest) + np.float32(more - rest) * chance
        )


def _move_tables(state: State, goal: Goal, change: Floats, part: slice, momentum: np.float32) -> None:
    """Multiply some components' tables by one and the change, and by what is left of the last step."""
    speed, logs, tables = state.speed[part], state.log_tables[part], state.tables[part]
    change += 1
    np.maximum(change, _LEAST_FACTOR, out=change)
    np.log(change, out=change)
    speed *= momentum
    speed += change
    np.clip(speed, -_FASTEST, _FASTEST, out=speed)
    logs += speed
    np.exp(logs, out=tables)
    for place in goal.places:
        mass = tables[:, place].sum(axis=1, keepdims=True)
        tables[:, place] /= mass
        logs[:, place] -= np.log(mass)
    np.maximum(logs, _SMALLEST_LOG, out=logs)


def _move_weights(state: State, gain: Floats, momentum: np.float32) -> None:
    """The same for the weights of components."""
    state.weight_speed *= momentum
    state.weight_speed += np.log(np.maximum(1 + gain, _LEAST_FACTOR))
    state.log_weights += np.clip(state.weight_speed, -_FASTEST_WEIGHT, _FASTEST_WEIGHT)
    state.log_weights -= state.log_weights.max()
    weights = np.exp(state.log_weights)
    state.weights = weights / weights.sum()


def _products(sides: Sequence[Floats], part: slice) -> Floats:
    """For some components all products of one share of each column, row-major."""
    made = sides[0][part]
    for side in sides[1:]:
        made = (made[:, :, None] * side[part][:, None, :]).reshape(len(made), -1)
    return made


@compiled
def _contract(below: Any, a: Any, b: Any, to_a: Any, to_b: Any) -> None:
    """Sum a change over each of two columns by its shares, in one pass: what most tables need."""
    for k in range(len(a)):
        for i in range(a.shape[1]):
            row = below[k, i * b.shape[1] : (i + 1) * b.shape[1]]
            share = a[k, i]
            for j in range(b.shape[1]):
                to_b[k, j] += share * row[j]
            total = np.float32(0)
            for j in range(b.shape[1]):
                total += row[j] * b[k, j]
            to_a[k, i] += total


def _reduced(below: Floats, sides: Sequence[Floats], place: int, part: slice) -> Floats:
    """Sum a change over all columns but one, each by its shares."""
    left = below
    for side in reversed(sides[place + 1 :]):
        shaped = left.reshape(len(left), -1, side.shape[1])
        left = np.matmul(shaped, side[part][:, :, None])[:, :, 0]
    for side in sides[:place]:
        shaped = left.reshape(len(left), side.shape[1], -1)
        left = np.matmul(side[part][:, None, :], shaped)[:, 0, :]
    return left


def _merged(shares: Floats, groups: NDArray[np.integer[Any]] | None) -> Floats:
    """Conditional shares of groups of codes."""
    if groups is None:
        return np.ascontiguousarray(shares)
    member = np.zeros((shares.shape[1], int(groups.max()) + 1), dtype=np.float32)
    member[np.arange(len(groups)), groups] = 1
    return shares @ member
