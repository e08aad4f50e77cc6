"""Limited-memory BFGS for smooth convex functions.

Kept here rather than taken from a library because the vectors are short and the calls many: a threaded linear algebra
library below an optimiser spends more on waking its threads than on the arithmetic. It also lets a fit stop by its own
condition instead of one on scaled variables.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]

_MEMORY = 20
_SUFFICIENT = 1e-4  # the share of the linear decrease that a step must achieve (Armijo)
_FEWEST = 1e-10  # a line search that has to go below this share of the step has reached rounding error


def dot(a: Vector, b: Vector) -> float:
    """The inner product in one thread, and so the same to the bit on every machine of one kind."""
    return float(np.einsum("i,i->", a, b))


def minimise(
    function: Callable[[Vector], tuple[float, Vector]],
    start: Vector,
    *,
    evaluations: int,
    solved: Callable[[], bool],
) -> tuple[Vector, int]:
    """A point of low value and the number of evaluations made, at most `evaluations` and at least one.

    `function` gives value and gradient; `solved` is asked after each accepted step, about the last point evaluated.
    """
    point = start
    value, gradient = function(point)
    made = 1
    pairs: deque[tuple[Vector, Vector, float]] = deque(maxlen=_MEMORY)
    while made < evaluations and not solved():
        direction = -_inverse_hessian(pairs, gradient)
        slope = dot(direction, gradient)
        if slope >= 0:  # rounding has spoilt the memory: start it afresh, or stop at the bottom
            if not pairs:
                break
            pairs.clear()
            continue
        step = 1.0 if pairs else min(1.0, 1.0 / math.sqrt(-slope))
        while made < evaluations:
            candidate = point + step * direction
            new_value, new_gradient = function(candidate)
            made += 1
            if new_value <= value + _SUFFICIENT * step * slope:
                break
            if step < _FEWEST:
                return point, made
            # The minimum of the parabola through what is known, kept away from both ends.
            curvature = new_value - value - step * slope
            best = -slope * step * step / (2 * curvature) if curvature > 0 else 0.5 * step
            step = min(max(best, 0.1 * step), 0.5 * step)
        else:
            return point, made
        moved, turned = candidate - point, new_gradient - gradient
        bend = dot(moved, turned)
        if bend > 1e-12 * math.sqrt(dot(moved, moved) * dot(turned, turned)):
            pairs.append((moved, turned, bend))
        point, value, gradient = candidate, new_value, new_gradient
    return point, made


def _inverse_hessian(pairs: deque[tuple[Vector, Vector, float]], gradient: Vector) -> Vector:
    """The two-loop recursion: the remembered inverse Hessian times the gradient."""
    result = gradient.copy()
    shares = []
    for moved, turned, bend in reversed(pairs):
        share = dot(moved, result) / bend
        shares.append(share)
        result -= share * turned
    if pairs:
        _, turned, bend = pairs[-1]
        result *= bend / dot(turned, turned)
    for (moved, turned, bend), share in zip(pairs, reversed(shares)):
        result += (share - dot(turned, result) / bend) * moved
    return result
