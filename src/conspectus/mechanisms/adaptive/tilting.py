"""A table tilted towards noisy measurements: maximum entropy next to a base table, with ridges, in compiled code.

p ∝ base·exp(Σ_f θ_f[the part f of the cell]). A part is a margin, whose target is met nearly exactly, or the residual
of a coarser table, whose θ has no margins of its own and a ridge λ. The function that is minimised is

    log Σ base·exp(Σ θ) − Σ_f ⟨θ_f, target_f⟩ + ½ Σ_f λ_f‖θ_f‖²,

which is convex; its variables are scaled by what each is known to move. Limited-memory BFGS with a fixed number of
evaluations: to stop early is part of the method, and shrinks as a ridge does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import compiled

from .smoothing import Floats

MARGIN_RIDGE = 1e-6
MEMORY = 8
ENOUGH = 1e-9
"""A step that gains less than this share is the last: beyond it tables of Census-Income move by 2e-5 in L1."""
_LEAST = 1e-12


@dataclass(frozen=True, eq=False)
class Part:
    """One term of a tilt.

    Attributes:
        cells: For each cell of the base, flat, the cell of the part that it lies in.
        target: What the part should hold, in its shape and in shares; a residual has no margins.
        ridge: λ.
        residual: Whether θ is kept without margins.
    """

    cells: NDArray[np.int32]
    target: Floats
    ridge: float | Floats
    residual: bool


def tilted(base: Floats, parts: Sequence[Part], evaluations: int) -> Floats:
    """The base table tilted towards its parts; shares with sum 1, in the shape of the base."""
    places = np.stack([part.cells for part in parts])
    begins = np.cumsum([0, *(part.target.size for part in parts)])
    shapes = np.zeros((len(parts), 3), dtype=np.int64)
    for place, part in enumerate(parts):
        if part.residual:
            shapes[place, : part.target.ndim] = part.target.shape
            shapes[place, part.target.ndim :] = 1
    target = np.concatenate([part.target.ravel() for part in parts])
    ridge = np.concatenate([np.broadcast_to(part.ridge, part.target.shape).ravel() for part in parts])
    flat = np.maximum(base.ravel(), _LEAST)
    found: Floats = _tilt(flat, places, begins, shapes, target, ridge, evaluations)
    return found.reshape(base.shape)


@compiled
def _without_margins(values: Any, shape: Any) -> None:
    """Take the mean along every axis away, in place."""
    rows, columns, deep = shape[0], shape[1], shape[2]
    if rows > 1:
        for inner in range(columns * deep):
            mean = 0.0
            for row in range(rows):
                mean += values[row * columns * deep + inner]
            mean /= rows
            for row in range(rows):
                values[row * columns * deep + inner] -= mean
    if columns > 1:
        for row in range(rows):
            for last in range(deep):
                at = row * columns * deep + last
                mean = 0.0
                for column in range(columns):
                    mean += values[at + column * deep]
                mean /= columns
                for column in range(columns):
                    values[at + column * deep] -= mean
    if deep > 1:
        for pair in range(rows * columns):
            mean = 0.0
            for last in range(deep):
                mean += values[pair * deep + last]
            mean /= deep
            for last in range(deep):
                values[pair * deep + last] -= mean


@compiled
def _value(
    logs: Any, places: Any, begins: Any, shapes: Any, target: Any, ridge: Any, scale: Any, point: Any, theta: Any,
    table: Any, gradient: Any,
) -> Any:  # fmt: skip
    """The function at a point of the scaled variables; fills θ, the table and the gradient."""
    for i in range(len(point)):
        theta[i] = point[i] * scale[i]
    for f in range(len(places)):
        if shapes[f, 0] > 0:
            _without_margins(theta[begins[f] : begins[f + 1]], shapes[f])
    for cell in range(len(logs)):
        table[cell] = logs[cell]
    for f in range(len(places)):
        own = theta[begins[f] : begins[f + 1]]
        place = places[f]
        for cell in range(len(logs)):
            table[cell] += own[place[cell]]
    top = table.max()
    mass = 0.0
    for cell in range(len(logs)):
        # Below e^-60 of the largest cell nothing is told apart, and numbers that are too small slow the processor.
        table[cell] = np.exp(max(table[cell] - top, -60.0))
        mass += table[cell]
    for cell in range(len(logs)):
        table[cell] /= mass
    value = top + np.log(mass)
    for i in range(len(point)):
        value += theta[i] * (0.5 * ridge[i] * theta[i] - target[i])
        gradient[i] = ridge[i] * theta[i] - target[i]
    for f in range(len(places)):
        own = gradient[begins[f] : begins[f + 1]]
        place = places[f]
        for cell in range(len(logs)):
            own[place[cell]] += table[cell]
        if shapes[f, 0] > 0:
            _without_margins(own, shapes[f])
    for i in range(len(point)):
        gradient[i] *= scale[i]
    return value


@compiled
def _tilt(
    base: Any, places: Any, begins: Any, shapes: Any, target: Any, ridge: Any, evaluations: int
) -> Any:  # fmt: skip
    size = len(target)
    logs = np.log(base)
    held = np.zeros(size)
    for f in range(len(places)):
        for cell in range(len(base)):
            held[begins[f] + places[f, cell]] += base[cell]
    scale = 1.0 / np.sqrt(np.maximum(held, 1e-6) + ridge)
    point, theta, gradient = np.zeros(size), np.zeros(size), np.zeros(size)
    ahead, turned = np.zeros(size), np.zeros(size)
    table, better = np.zeros(len(base)), np.zeros(len(base))
    moves, bends, products = np.zeros((MEMORY, size)), np.zeros((MEMORY, size)), np.zeros(MEMORY)
    shares = np.zeros(MEMORY)
    kept, newest = 0, -1
    value = _value(logs, places, begins, shapes, target, ridge, scale, point, theta, table, gradient)
    made = 1
    while made < evaluations:
        direction = gradient.copy()
        for back in range(kept):
            at = (newest - back) % MEMORY
            shares[at] = (moves[at] * direction).sum() / products[at]
            direction -= shares[at] * bends[at]
        if kept:
            direction *= products[newest] / (bends[newest] * bends[newest]).sum()
        for back in range(kept - 1, -1, -1):
            at = (newest - back) % MEMORY
            direction += (shares[at] - (bends[at] * direction).sum() / products[at]) * moves[at]
        slope = -(direction * gradient).sum()
        if slope > -1e-14:
            break
        step = 1.0 if kept else min(1.0, 1.0 / np.sqrt(-slope))
        found = value
        while made < evaluations:
            for i in range(size):
                ahead[i] = point[i] - step * direction[i]
            found = _value(logs, places, begins, shapes, target, ridge, scale, ahead, theta, better, turned)
            made += 1
            if found <= value + 1e-4 * step * slope:
                break
            curve = found - value - step * slope
            best = -slope * step * step / (2 * curve) if curve > 0 else 0.5 * step
            step = min(max(best, 0.1 * step), 0.5 * step)
            if step < 1e-10:
                return table
        if not found <= value + 1e-4 * step * slope:
            break
        newest = (newest + 1) % MEMORY
        for i in range(size):
            moves[newest, i] = ahead[i] - point[i]
            bends[newest, i] = turned[i] - gradient[i]
            point[i] = ahead[i]
            gradient[i] = turned[i]
        products[newest] = (moves[newest] * bends[newest]).sum()
        if products[newest] <= 1e-14:
            kept, newest = 0, -1
        else:
            kept = min(kept + 1, MEMORY)
        gained = value - found
        value = found
        table, better = better, table
        if gained <= ENOUGH * max(abs(value), 1.0):
            break
    return table
