"""Better guesses of a pair than independence: through other columns.

Two columns that depend on a third depend on one another. Where the table through a third column, or through all of
them at once (a mixture that was fitted without this pair), is nearer to what was measured than independence is, the
pair is fitted again from there, with a ridge that is stronger by as much as the rest is smaller. Post-processing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from conspectus.compiled import compiled

from .pair_fits import TINY, Measurement, Model, Pair, in_parallel
from .smoothing import Floats

PENALTY = 5.0
"""How much nearer, in χ², a guess must be than independence."""

MOST_BRIDGES = 16
"""Third columns that are tried, the strongest first."""

LEAST_LEFT, LEAST_OF_ALL = 0.02, 0.05
SMALLEST_STRENGTH = 0.002


@dataclass(frozen=True, eq=False)
class Guess:
    """A table for a pair, and its χ² to what was measured."""

    table: Floats
    misfit: float


def through(model: Model, a: int, b: int, third: int) -> Floats:
    """The table of two columns that are independent given a third."""
    law = np.maximum(model.codings[third].law, 1e-12)
    return np.asarray((model.table(a, third) / law) @ model.table(third, b))


def best_bridge(model: Model, strong: Floats, pair: Pair, measured: Measurement) -> Guess | None:
    """The third column through which a pair is nearest to its measurement; `strong` are the `strengths` of all."""
    a, b = pair.columns
    found: tuple[float, int] | None = None
    for third in _bridges(strong, a, b):
        law = np.maximum(model.codings[third].law, 1e-12)
        # Only the level that was measured counts, and there the product is small.
        left = model.merged(model.table(a, third), (a,), measured.level) / law
        right = model.merged(model.table(b, third), (b,), measured.level)
        misfit = model.misfit_at_level(measured, left @ right.T)
        if found is None or misfit < found[0]:
            found = misfit, third
    return None if found is None else Guess(through(model, a, b, found[1]), found[0])


def strengths(model: Model) -> Floats:
    """How strong the pair of each two columns is; −1 where it is not among those looked at."""
    found = np.full((len(model.codings), len(model.codings)), -1.0)
    for (a, b), pair in model.pairs.items():
        found[a, b] = found[b, a] = pair.strength
    return found


def _bridges(strong: Floats, a: int, b: int) -> list[int]:
    """Third columns that have been looked at with both, those with the strongest weaker side first."""
    weaker = np.minimum(strong[a], strong[b])
    known = int(np.count_nonzero(weaker >= 0))
    found: list[int] = np.argsort(-weaker, kind="stable")[: min(known, MOST_BRIDGES)].tolist()
    return found


def refitted(model: Model, pair: Pair, guess: Guess, independent: float) -> Floats:
    """A pair fitted again from a guess; `independent` is the χ² of independence."""
    measured = pair.measured
    assert measured is not None
    freedom = math.prod(size - 1 for size in measured.residual.shape)
    left = max(guess.misfit - freedom, LEAST_LEFT * freedom) / max(independent - freedom, LEAST_OF_ALL * freedom)
    factor = min(1.0, math.sqrt(left))
    increments = {level: max(each * factor, SMALLEST_STRENGTH * model.total) for level, each in pair.increments.items()}
    return model.fitted(pair, np.maximum(guess.table, TINY), increments)


def through_third_columns(model: Model) -> None:
    """Fit every measured pair again through the third column that explains it best, where one does."""
    strong = strengths(model)

    def improved(pair: Pair) -> Floats | None:
        assert pair.measured is not None
        independent = model.misfit(pair, model.independent(pair.columns))
        guess = best_bridge(model, strong, pair, pair.measured)
        if guess is None or independent - guess.misfit < PENALTY:
            return None
        return refitted(model, pair, guess, independent)

    _replace(model, [pair for pair in model.pairs.values() if pair.measured is not None], improved)


def through_predictions(model: Model, predicted: Mapping[tuple[int, int], Floats]) -> None:
    """Fit every pair again from its prediction by all other pairs, where that or a third column explains it better."""
    strong = strengths(model)

    def improved(pair: Pair) -> Floats | None:
        a, b = pair.columns
        prediction = with_margins(predicted[pair.columns], model.codings[a].law, model.codings[b].law)
        alone = model.independent(pair.columns)
        if pair.measured is None:
            apart = float(np.abs(prediction - alone).sum())
            share = min(1.0, 1.3 * pair.strength / model.total / max(apart, 1e-9))
            return share * prediction + (1 - share) * alone
        independent = model.misfit(pair, alone)
        guesses = [Guess(prediction, model.misfit(pair, prediction))]
        bridge = best_bridge(model, strong, pair, pair.measured)
        if bridge is not None:
            both = (prediction + bridge.table) / 2
            guesses += [bridge, Guess(both, model.misfit(pair, both))]
        best = min(guesses, key=lambda guess: guess.misfit)
        return refitted(model, pair, best, independent) if best.misfit < independent - PENALTY else None

    _replace(model, [pair for pair in model.pairs.values() if pair.columns in predicted], improved)


def _replace(model: Model, pairs: Sequence[Pair], improved: Callable[[Pair], Floats | None]) -> None:
    found = in_parallel(improved, pairs)
    model.tables |= {pair.columns: table for pair, table in zip(pairs, found) if table is not None}


def with_margins(table: Floats, rows: Floats, columns: Floats, rounds: int = 10) -> Floats:
    """A table with these margins, nearly, by iterative proportional fitting."""
    found = np.maximum(table, TINY)
    _meet_margins(found, rows, columns, rounds)
    return found


@compiled
def _meet_margins(table: Any, rows: Any, columns: Any, rounds: int) -> None:
    held = np.empty(len(columns))
    for _ in range(rounds):
        held[:] = 0.0
        for i in range(len(rows)):
            mass = 0.0
            for j in range(len(columns)):
                mass += table[i, j]
            for j in range(len(columns)):
                table[i, j] *= rows[i] / mass
                held[j] += table[i, j]
        for j in range(len(columns)):
            held[j] = columns[j] / held[j]
        for i in range(len(rows)):
            for j in range(len(columns)):
                table[i, j] *= held[j]
