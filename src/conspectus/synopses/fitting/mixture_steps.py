"""One step of the fit of a mixture of products: all components and columns at once, in 32-bit numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

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


class State:
    """A mixture on its way: weights and tables, their logarithms, and how they moved last."""

    def __init__(self, weights: Floats, tables: Floats) -> None:
        self.weights, self.tables = weights, tables
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


def pair_tables(state: State) -> Floats:
    """All pair tables side by side; blocks on the diagonal mean nothing."""
    # The product of a matrix with itself: half of the work.
    half = state.tables * np.sqrt(state.weights)[:, None]
    return half.T @ half


def miss(state: State, goal: Goal) -> float:
    """The mean L1 distance of the pair tables from their targets."""
    if not goal.number:
        return float("nan")
    apart = np.abs(pair_tables(state) - goal.pairs)[goal.held]
    return float(apart.sum(dtype=np.float64) / (2 * goal.number))


def step(
    state: State,
    goal: Goal,
    tables: Sequence[TableGoal],
    questions: Sequence[QuestionTarget],
    momentum: np.float32,
) -> None:
    """Move a mixture towards its targets; of tables over several columns, towards these."""
    divisor = goal.divisor.copy()
    change = np.zeros_like(state.tables)
    if goal.number:
        ratio = pair_tables(state)
        np.maximum(ratio, _LEAST, out=ratio)
        np.divide(goal.pairs, ratio, out=ratio)
        ratio -= 1
        np.clip(ratio, -1, _LARGEST_RATIO, out=ratio)
        ratio *= goal.pair_weight
        np.matmul(state.tables, ratio, out=change)
    single = state.weights @ state.tables
    change += goal.single_weight * np.clip(goal.single / np.maximum(single, _LEAST) - 1, -1, _LARGEST_RATIO)
    grouped: dict[tuple[int, int], Floats] = {}
    for table in tables:
        _add_table(change, state, goal, table, grouped)
        divisor[list(table.columns)] += table.weight
    sides = [state.tables[:, place] for place in goal.places] if questions else []
    for target in questions:
        _add_question(change, state, goal, target, sides)
        divisor[list(target.question.columns)] += np.float32(target.weight)
    gain = np.zeros_like(state.weights)
    seen = 0
    for place, by in zip(goal.places, divisor):
        if by > 0:
            change[:, place] /= by
            gain += np.einsum("ki,ki->k", state.tables[:, place], change[:, place])
            seen += 1
    _move(state, goal, change, gain / np.float32(max(seen, 1)), momentum)


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


def _move(state: State, goal: Goal, change: Floats, gain: Floats, momentum: np.float32) -> None:
    """Multiply by one and the change, and by what is left of the last step."""
    change += 1
    np.maximum(change, _LEAST_FACTOR, out=change)
    np.log(change, out=change)
    state.speed *= momentum
    state.speed += change
    np.clip(state.speed, -_FASTEST, _FASTEST, out=state.speed)
    state.log_tables += state.speed
    np.exp(state.log_tables, out=state.tables)
    for place in goal.places:
        mass = state.tables[:, place].sum(axis=1, keepdims=True)
        state.tables[:, place] /= mass
        state.log_tables[:, place] -= np.log(mass)
    np.maximum(state.log_tables, _SMALLEST_LOG, out=state.log_tables)
    state.weight_speed *= momentum
    state.weight_speed += np.log(np.maximum(1 + gain, _LEAST_FACTOR))
    state.log_weights += np.clip(state.weight_speed, -_FASTEST_WEIGHT, _FASTEST_WEIGHT)
    state.log_weights -= state.log_weights.max()
    weights = np.exp(state.log_weights)
    state.weights = weights / weights.sum()


def _add_table(
    change: Floats, state: State, goal: Goal, table: TableGoal, grouped: dict[tuple[int, int], Floats]
) -> None:
    """What a table of several columns would change, added to what the others would."""
    sides = []
    for column, groups in zip(table.columns, table.groups):
        key = (column, id(groups))
        if key not in grouped:
            grouped[key] = _merged(state.tables[:, goal.places[column]], groups)
        sides.append(grouped[key])
    *first, last = sides
    step = max(1, _MOST_ENTRIES // len(table.shares))
    parts = [slice(at, at + step) for at in range(0, len(last), step)]
    have = np.zeros_like(table.shares)
    for part in parts:
        have += (_products(first, part) * state.weights[part, None]).T @ last[part]
    ratio = np.divide(table.shares, np.maximum(have, _LEAST), dtype=np.float32)
    ratio -= 1
    np.clip(ratio, -1, _LARGEST_RATIO, out=ratio)
    ratio *= table.weight
    for part in parts:
        found: list[Floats] = [_products(first, part) @ ratio]
        below: Floats = last[part] @ ratio.T
        if len(first) == 2:
            found += [np.zeros_like(first[0][part]), np.zeros_like(first[1][part])]
            _contract(below, first[0][part], first[1][part], found[1], found[2])
        else:
            found += [_reduced(below, first, place, part) for place in range(len(first))]
        for place, one in enumerate(found, start=-1):
            _spread(change, goal, table, one, place, part)


def _spread(change: Floats, goal: Goal, table: TableGoal, found: Floats, place: int, part: slice) -> None:
    """Give every code the change of its group."""
    column, groups = table.columns[place], table.groups[place]
    change[part, goal.places[column]] += found if groups is None else found[:, groups]


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
