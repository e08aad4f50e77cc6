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
from .mixture_targets import Bundle, CannotFit, Floats, Goal, Groups

_LEAST = np.float32(1e-9)
_LARGEST_RATIO = 20.0
_LEAST_FACTOR, _FASTEST = np.float32(0.05), np.float32(1.5)
_FASTEST_WEIGHT = 1.0
_SMALLEST = np.float32(4e-18)
_MOST_ENTRIES = 1 << 24
"""Numbers in the largest array that a step over a table of several columns makes."""


_MANY_COMPONENTS = 800
"""So many components are worth a thread of their own."""

Done = TypeVar("Done")


class Workers(Protocol):
    """The role of whoever works on the parts: `map`, or that of a pool of threads."""

    def __call__(self, work: Callable[[slice], Done], parts: Iterable[slice], /) -> Iterable[Done]: ...


class State:
    """A mixture on its way: weights and tables, and how their logarithms moved last."""

    def __init__(self, weights: Floats, tables: Floats) -> None:
        self.weights, self.tables = weights, tables
        ends = np.linspace(0, len(weights), 1 + max(1, min(len(weights) // _MANY_COMPONENTS, 4))).astype(int).tolist()
        self.parts = [slice(a, b) for a, b in pairwise(ends)]
        self.log_weights = np.log(np.maximum(weights, np.float32(1e-30)))
        self.still()

    def still(self) -> None:
        """Without momentum."""
        self.weight_speed = np.zeros_like(self.log_weights)
        self.speed = np.zeros_like(self.tables)

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
    bundles: Sequence[Bundle],
    questions: Sequence[QuestionTarget],
    momentum: np.float32,
    workers: Workers = map,
) -> None:
    """Move a mixture towards its targets; of tables over several columns, towards these."""
    held = list(workers(lambda part: _Held(state, goal, bundles, part), state.parts))
    pairs = None
    if goal.number:
        pairs = _missing(goal.pairs, _summed(one.pairs for one in held if one.pairs is not None), goal.pair_weight)
    single = _missing(goal.single, _summed(one.single for one in held), goal.single_weight)
    ratios = [
        _missing(bundle.shares, _summed(one.tables[place] for one in held), bundle.weights)
        for place, bundle in enumerate(bundles)
    ]
    change = np.empty_like(state.tables)
    by_part = {one.part.start: one for one in held}
    list(workers(lambda part: by_part[part.start].towards(change, pairs, single, ratios), state.parts))
    divisor = goal.divisor.copy()
    for bundle in bundles:
        for column, weight in bundle.weight_of.items():
            divisor[column] += np.float32(weight)
    sides = [state.tables[:, place] for place in goal.places] if questions else []
    for target in questions:
        _add_question(change, state, goal, target, sides)
        divisor[list(target.question.columns)] += np.float32(target.weight)
    gain = np.zeros_like(state.weights)

    def move(part: slice) -> None:
        _scale(change[part], state.tables[part], goal.offsets, divisor, gain[part])
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

    def __init__(self, state: State, goal: Goal, bundles: Sequence[Bundle], part: slice) -> None:
        self.part = part
        self._state, self._goal, self._asked = state, goal, bundles
        self.pairs = _pair_tables(state, part) if goal.number else None
        self.single = state.weights[part] @ state.tables[part]
        merged: dict[tuple[int, int], Floats] = {}
        self._common = [[self._merged(side, merged) for side in bundle.common] for bundle in bundles]
        self._others = [
            np.concatenate([self._merged(side, merged) for side in bundle.others], axis=1) for bundle in bundles
        ]
        self.tables = [self._table(*sides) for sides in zip(bundles, self._common, self._others)]

    def _merged(self, side: tuple[int, Groups], merged: dict[tuple[int, int], Floats]) -> Floats:
        """The conditional shares of a column, by its groups."""
        column, groups = side
        key = (column, id(groups))
        if key not in merged:
            merged[key] = _merged(self._state.tables[self.part, self._goal.places[column]], groups)
        return merged[key]

    def _runs(self, bundle: Bundle) -> list[slice]:
        """Components whose products are made at a time."""
        step = max(1, _MOST_ENTRIES // max(bundle.shares.shape))
        return [slice(at, at + step) for at in range(0, self.part.stop - self.part.start, step)]

    def _table(self, bundle: Bundle, common: Sequence[Floats], others: Floats) -> Floats:
        weights = self._state.weights[self.part]
        have = np.zeros_like(bundle.shares)
        for run in self._runs(bundle):
            have += (_products(common, run) * weights[run, None]).T @ others[run]
        return have

    def towards(self, change: Floats, pairs: Floats | None, single: Floats, ratios: Sequence[Floats]) -> None:
        """Write what pairs, columns and tables would change of these components."""
        own = change[self.part]
        if pairs is None:
            own[:] = 0
        else:
            np.matmul(self._state.tables[self.part], pairs, out=own)
        own += single
        for bundle, common, others, ratio in zip(self._asked, self._common, self._others, ratios):
            for run in self._runs(bundle):
                to_common, to_others = _contracted(common, others, ratio, run)
                ends = np.cumsum([0, *(self._width(side) for side in bundle.others)])
                sides = [*zip(bundle.common, to_common)]
                sides += [(side, to_others[:, a:b]) for side, (a, b) in zip(bundle.others, pairwise(ends.tolist()))]
                for (column, groups), found in sides:
                    # Every code gets the change of its group.
                    own[run, self._goal.places[column]] += found if groups is None else found[:, groups]

    def _width(self, side: tuple[int, Groups]) -> int:
        column, groups = side
        return self._goal.sizes[column] if groups is None else int(groups.max()) + 1


def _contracted(common: Sequence[Floats], others: Floats, ratio: Floats, run: slice) -> tuple[list[Floats], Floats]:
    """What a bundle would change of its common columns, and of its other ones side by side."""
    to_others: Floats = _products(common, run) @ ratio
    below: Floats = others[run] @ ratio.T
    if len(common) == 2:
        found = [np.zeros_like(side[run]) for side in common]
        _contract(below, common[0][run], common[1][run], *found)
        return found, to_others
    return [_reduced(below, common, place, run) for place in range(len(common))], to_others


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
    """Multiply some components' tables by these factors, and by what is left of the last step."""
    np.log(change, out=change)
    _hurry(state.speed[part], change, momentum)
    np.exp(change, out=change)
    _multiply(state.tables[part], change, goal.offsets)


@compiled
def _scale(change: Any, tables: Any, offsets: Any, divisor: Any, gain: Any) -> None:
    """From changes to factors, of columns that weigh so much together; adds to what each component gains by them."""
    for k in range(len(change)):
        for column in range(len(divisor)):
            gained = np.float32(0)
            share = np.float32(1) / divisor[column] if divisor[column] > 0 else np.float32(0)
            for i in range(offsets[column], offsets[column + 1]):
                more = change[k, i] * share
                gained += tables[k, i] * more
                change[k, i] = max(np.float32(1) + more, _LEAST_FACTOR)
            gain[k] += gained


@compiled
def _hurry(speed: Any, change: Any, momentum: Any) -> None:
    """Take part of the last step again, and keep within the fastest one; the change becomes the whole step."""
    for k in range(len(speed)):
        for i in range(speed.shape[1]):
            whole = min(max(momentum * speed[k, i] + change[k, i], -_FASTEST), _FASTEST)
            speed[k, i] = whole
            change[k, i] = whole


@compiled
def _multiply(tables: Any, factors: Any, offsets: Any) -> None:
    """Multiply, and scale every column of a component to sum 1."""
    for k in range(len(tables)):
        for column in range(len(offsets) - 1):
            mass = np.float32(0)
            for i in range(offsets[column], offsets[column + 1]):
                tables[k, i] *= factors[k, i]
                mass += tables[k, i]
            share = np.float32(1) / mass
            for i in range(offsets[column], offsets[column + 1]):
                tables[k, i] = max(tables[k, i] * share, _SMALLEST)


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
