"""Every question on every cell, and the histogram whose largest deviation from some answers is least."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array, hstack, vstack

from conspectus.counting.evaluation import cell_values
from conspectus.queries.workload import Workload

from .lbfgs import Vector

SOLVER = 1e-6
"""How far, as a fraction, the linear program's histogram may be from the least deviation; one farther off is none."""


def question_matrix(asked: Workload, held: tuple[int, ...]) -> NDArray[np.float64]:
    """The questions on the cells of the columns held: one line each, 1 where it holds, or the weight that it has."""
    sizes = asked.domain.shape(held)
    lines = np.zeros((len(asked), math.prod(sizes)))
    for number, query in enumerate(asked.queries()):
        columns, values = cell_values(query, asked.domain)
        shape = tuple(size if c in columns else 1 for c, size in zip(held, sizes))
        lines[number] = np.broadcast_to(values.reshape(shape), sizes).ravel()
    return lines


def least_deviation(lines: NDArray[np.float64], fractions: Vector, *, tolerance: float = SOLVER / 2) -> Vector | None:
    """The distribution that minimises max |line·weights − fraction|; None if the solver gives up, or is off by more."""
    matrix = csr_array(lines, dtype=np.float64)
    ones = csr_array(np.ones((len(lines), 1)))
    # Variables are the weights and the deviation t: lines·w − t ≤ f and −lines·w − t ≤ −f.
    below = vstack([hstack([matrix, -ones]), hstack([-matrix, -ones])], format="csr")
    cells = lines.shape[1]
    cost = np.append(np.zeros(cells), 1.0)
    mass = csr_array(np.append(np.ones(cells), 0.0)[None, :])
    solved = linprog(
        cost, A_ub=below, b_ub=np.concatenate([fractions, -fractions]), A_eq=mass, b_eq=[1.0], method="highs"
    )
    if solved.x is None:
        return None
    weights = np.maximum(solved.x[:cells], 0.0)
    if not weights.sum() > 0:
        return None
    weights = np.asarray(weights / weights.sum())
    # The solver keeps constraints and optimality to 1e-7; what clipping and scaling did to that is looked at here.
    missed = np.abs(matrix @ weights - fractions).max() - solved.x[cells]
    return weights if missed <= tolerance else None
