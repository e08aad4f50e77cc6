"""MWEM in plain numpy: the same loop as the package's, with nothing shared and nothing clever.

The reference for speed. Every marginal is summed out of the whole histogram on its own, every exponent is added to the
whole histogram on its own, and scipy's L-BFGS solves the same regularised maximum-entropy dual with the same number of
evaluations a round. Its noise comes from numpy: it is a yardstick and private for nobody.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from scipy.optimize import minimize


def release(
    codes: np.ndarray, k: int, *, rho: float, rounds: int, selection: float, evaluations: int, ridge: float, seed: int
) -> np.ndarray:
    """The cells of all k-way marginals of a binary table (rows × columns), as fractions, in the usual order."""
    rng = np.random.default_rng(seed)
    rows, width = codes.shape
    shape = (2,) * width
    truth = np.zeros(shape)
    np.add.at(truth, tuple(codes.T), 1)
    sets = list(itertools.combinations(range(width), k))
    counts = {columns: _marginal(truth, columns) for columns in sets}
    weights = np.full(shape, 1 / truth.size)
    measured: dict[tuple[int, ...], list[np.ndarray]] = {}
    theta: dict[tuple[int, ...], np.ndarray] = {}
    price = rho / rounds
    epsilon = math.sqrt(8 * price * selection)
    sigma = math.sqrt(2 / (2 * price * (1 - selection)))
    for _ in range(rounds):
        errors = [np.abs(counts[columns] - rows * _marginal(weights, columns)).max() for columns in sets]
        worst = sets[int(np.argmax(epsilon / 2 * np.array(errors) + rng.gumbel(size=len(sets))))]
        measured.setdefault(worst, []).append(counts[worst] + sigma * rng.standard_normal((2,) * k))
        weights = _fit(shape, measured, theta, rows, sigma, ridge, evaluations)
    weights = _fit(shape, measured, theta, rows, sigma, ridge, 10 * evaluations)
    return np.concatenate([_marginal(weights, columns).ravel() for columns in sets])


def _marginal(table: np.ndarray, columns: tuple[int, ...]) -> np.ndarray:
    return table.sum(axis=tuple(c for c in range(table.ndim) if c not in columns))


def _fit(shape, measured, theta, rows, sigma, ridge, evaluations):
    sets = list(measured)
    wanted = np.concatenate([np.mean(measured[columns], axis=0).ravel() / rows for columns in sets])
    size = wanted.size // len(sets)
    kappa = ridge * min(2.0 ** (len(sets[0]) - 1), 4.0)
    lam = np.repeat([kappa * sigma / rows / math.sqrt(len(measured[columns])) for columns in sets], size)
    scale = 1 / np.sqrt(np.maximum(wanted, 0) + lam + 1e-7)

    def histogram(values):
        logits = np.zeros(shape)
        for i, columns in enumerate(sets):
            broadcast = tuple(n if c in columns else 1 for c, n in enumerate(shape))
            logits += values[i * size : (i + 1) * size].reshape(broadcast)
        top = logits.max()
        weights = np.exp(logits - top)
        mass = weights.sum()
        return weights / mass, top + math.log(mass)

    def dual(scaled):
        values = scaled * scale
        weights, log_mass = histogram(values)
        found = np.concatenate([_marginal(weights, columns).ravel() for columns in sets])
        value = log_mass - values @ wanted + 0.5 * values @ (lam * values)
        return value, (found - wanted + lam * values) * scale

    start = np.concatenate([theta.get(columns, np.zeros(size)) for columns in sets])
    options = {"maxcor": 10, "maxfun": evaluations, "maxiter": evaluations}
    solved = minimize(dual, start / scale, jac=True, method="L-BFGS-B", options=options).x * scale
    for i, columns in enumerate(sets):
        theta[columns] = solved[i * size : (i + 1) * size]
    return histogram(solved)[0]
