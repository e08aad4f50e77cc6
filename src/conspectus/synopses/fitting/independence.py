"""How much of what was measured is more than noise around independent columns: ridges that follow the measurements.

A ridge of fixed strength suits tables whose columns depend on one another as those do that it was chosen on. Where they
hardly do, nearly all of an interaction is noise. No public fact says so, but the noisy measurements do together. This
is an empirical Bayes estimate; it reads what was measured, and so it is post-processing.

*Interactions.* With p_i the measured law of column i and M_T the marginals that the measurements add up to,

    I_S = Σ_{T ⊆ S} (−1)^|S∖T| · M_T ⊗ Π_{i ∈ S∖T} p_i

is what S says beyond independence. Were there nothing, it would be noise of mean square

    E‖I_S‖² = Σ_{∅ ≠ T ⊆ S} d_T · σ_T² · Π_{i ∈ S∖T} ‖p_i − 1/n_i‖²,

with d_T = Π_{i∈T}(n_i − 1) dimensions of deviation σ_T each. The signal of an interaction of as many columns is taken
to be Gaussian with an unknown variance, t times that of the noise; how often each t occurs is estimated from all of
them (`kept_shares`), so that few large ones may stand among many that are nothing. The share f of I_S that is signal
asks for the ridge V(1 − f)/f, where V is the variance of the interaction among records of independent columns.

*Single questions* are taken together: the product of columns that is nearest to all answers is found, and from how far
they miss it a share f for each, in the same way. They hold one another in place, and none can be let go alone: the
share of those that stand out most decides for all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import combinations

import numpy as np

from conspectus.synopses.fitting.lbfgs import Vector

from .lbfgs import dot, minimise
from .residuals import INTERACTION, Residuals, Target

# Weights below exp(−60) of the largest are as good as zero, and smaller ones would slow every sum by denormals.
_FLOOR = -60.0
_SIGNALS = np.concatenate([[0.0], 2.0 ** np.arange(-3, 22)])
"""What the variance of a signal may be, in that of its noise."""

_ROUNDS = 200
_LEAST_KEPT, _LEAST_KEPT_TOGETHER = 1e-6, 1e-3
_LEAST_LAW = 0.3
"""A value of a column has at least this share of its noise, whatever was measured."""

_STANDING_OUT = 0.99
"""The quantile of the shares of single questions that decides for all. With the largest itself one of ten releases of
500 conjunctions of independent columns takes its noise for a signal; parities of three columns are in one of thirty.
Chosen on made tables of 16 columns, others than those of the benchmarks."""

_PRIOR = 1 / 9
"""One over the variance of the logarithms that a product of columns is made of, before anything is known."""


def softmax(logits: Vector, out: Vector | None = None) -> tuple[Vector, float]:
    """The distribution proportional to exp(logits), written to `out`, and the logarithm of its normaliser."""
    top = float(logits.max())
    weights = np.subtract(logits, top, out=out)
    np.maximum(weights, _FLOOR, out=weights)
    np.exp(weights, out=weights)
    mass = float(weights.sum())
    weights /= mass
    return weights, top + math.log(mass)


def adapted(residuals: Residuals, wanted: Vector, precision: Vector, ridge: Vector) -> tuple[Vector, Vector | None]:
    """A ridge that is larger where what was measured is mostly noise, and the logarithms of the weights that the fit
    starts from: those of a product of columns, or None for the uniform ones.

    Args:
        residuals: The features of the fit.
        wanted: What was measured of each entry, as fractions.
        precision: One over the variance of its noise.
        ridge: The ridge for tables where nothing is known. What is returned is nowhere smaller.
    """
    kinds = [kind for _, kind in residuals.keys]
    if INTERACTION in kinds:
        return _of_interactions(residuals, wanted, precision, ridge), None
    return _of_questions(residuals, wanted, precision, ridge) if all(kinds) else (ridge, None)


def kept_shares(squares: Vector, dimensions: Vector) -> Vector:
    """Of vectors that are signal and noise, which share of each is signal, on average.

    A vector of d dimensions whose signal has t times the variance of its noise has a square, in units of the noise, of
    1 + t times χ² with d degrees of freedom. How often each t of a list occurs is what makes the squares likeliest, by
    the EM algorithm, with one vector added that is noise.

    Args:
        squares: The squared lengths, in units of the variance of the noise of one dimension.
        dimensions: The dimensions of each.

    Returns:
        For each vector the expectation of t/(1 + t), given its square.
    """
    inflation = 1 + _SIGNALS
    logs = -dimensions[:, None] / 2 * np.log(inflation) - squares[:, None] / (2 * inflation)
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    often = np.full(len(_SIGNALS), 1 / len(_SIGNALS))
    for _ in range(_ROUNDS):
        often = (likelihood * (often / (likelihood @ often)[:, None])).sum(axis=0)
        often[0] += 1
        often /= often.sum()
    return np.asarray(likelihood @ (often * _SIGNALS / inflation) / (likelihood @ often))


def _of_interactions(residuals: Residuals, wanted: Vector, precision: Vector, ridge: Vector) -> Vector:
    """The ridge of each interaction: the geometric mean of the given one and of that which its share of signal asks
    for, where that is larger.

    Half of the way, because a share that was estimated from little is uncertain. Chosen on made tables of 13 columns
    (ε = 0.1, 1 and 4), NLTCS and 7 columns of Adult: the whole way halves the error on parities and costs 7 % on
    independent columns at ε = 4 and 1 % on Adult; half of it costs 0.3 % on Adult, and nothing on the others.
    """
    starts = residuals.offsets[:-1].tolist()
    places = {columns: at for (columns, kind), at in zip(residuals.keys, starts) if kind == INTERACTION}
    sizes = residuals.sizes
    shapes = {columns: [sizes[c] for c in columns] for columns in places}
    tables = {s: wanted[at : at + math.prod(shapes[s])] for s, at in places.items()}
    noise = {s: 1 / float(precision[at]) for s, at in places.items()}
    laws = {s[0]: _law(tables[s], noise[s]) for s in places if len(s) == 1}
    marginals = residuals.put_together(wanted)
    beyond = {
        s: beyond_independence(marginals[at : at + tables[s].size].reshape(shapes[s]), [laws[c] for c in s])
        for s, at in places.items()
    }
    alone = {s: noise_beyond(s, sizes, noise, laws) for s in places}
    larger = ridge.copy()
    for high in (False, True):
        sets = [s for s in places if len(s) > 1 and (len(s) > 2) == high]
        if not sets:
            continue
        dimensions = np.array([math.prod(n - 1 for n in shapes[s]) for s in sets], dtype=np.float64)
        told = dimensions > 0  # a column of one value has no interactions
        squares = np.array([beyond[s] / max(alone[s], 1e-300) for s in sets]) * dimensions
        shares = np.ones(len(sets))
        shares[told] = np.maximum(kept_shares(squares[told], dimensions[told]), _LEAST_KEPT)
        for s, share in zip(sets, shares.tolist()):
            at = places[s]
            asked = math.prod(_variance(laws[c]) for c in s) * (1 - share) / share
            given = float(ridge[at])
            larger[at : at + math.prod(shapes[s])] = math.sqrt(given * max(given, asked))
    return larger


def _law(table: Vector, noise: float) -> Vector:
    """The law of a column from its noisy residual."""
    law = np.maximum(1 / table.size + table, _LEAST_LAW * math.sqrt(noise))
    return np.asarray(law / law.sum())


def _variance(law: Vector) -> float:
    """The variance of a column's indicators among records, a dimension."""
    return (1 - dot(law, law)) / max(law.size - 1, 1)


def beyond_independence(marginal: Vector, laws: list[Vector]) -> float:
    """‖I_S‖²: along each axis its sum is taken away, in the proportions of the law of the column."""
    for axis, law in enumerate(laws):
        along = law.reshape([-1 if a == axis else 1 for a in range(marginal.ndim)])
        marginal = marginal - along * marginal.sum(axis=axis, keepdims=True)
    return float(np.square(marginal).sum())


def noise_beyond(
    columns: tuple[int, ...], sizes: tuple[int, ...], noise: Mapping[tuple[int, ...], float], laws: Mapping[int, Vector]
) -> float:
    """E‖I_S‖² where nothing but noise is beyond independence."""
    away = {c: float(np.square(laws[c] - 1 / sizes[c]).sum()) for c in columns}
    return sum(
        noise[chosen] * math.prod(sizes[c] - 1 if c in chosen else away[c] for c in columns)
        for size in range(1, len(columns) + 1)
        for chosen in combinations(columns, size)
    )


def _of_questions(
    residuals: Residuals, wanted: Vector, precision: Vector, ridge: Vector
) -> tuple[Vector, Vector | None]:
    """The same for single questions. Where they are too few to say anything, or stand so clearly out of a product of
    columns that no ridge is enlarged, all stays as it was."""
    starts = residuals.offsets[:-1]
    questions, freedom = len(starts), sum(n - 1 for n in residuals.sizes)
    if questions < 2 * freedom:
        return ridge, None
    logs = _nearest_product(residuals, wanted, precision)
    weights, _ = softmax(logs)
    guess = residuals.of(weights)
    # A question and its complement miss by the same; a product fits as many answers as it has parameters.
    missed = np.add.reduceat(np.square(wanted - guess) * precision, starts) / np.diff(residuals.offsets)
    shares = kept_shares(missed * questions / (questions - freedom), np.ones(questions))
    share = max(float(np.quantile(shares, _STANDING_OUT)), _LEAST_KEPT_TOGETHER)
    lengths = np.diff(residuals.offsets)
    variances = np.add.reduceat(residuals.variances(guess, guess), starts) / np.maximum(lengths - 1, 1)
    larger = np.maximum(ridge, np.repeat(variances, lengths) * (1 - share) / share)
    return (larger, logs) if np.median(larger / ridge) > 1 else (ridge, None)


def _nearest_product(residuals: Residuals, wanted: Vector, precision: Vector) -> Vector:
    """The logarithms of the weights of the product of columns that misses all answers least, in their noise."""
    columns = Residuals(residuals.sizes, [Target((c,), np.zeros(n), 1.0) for c, n in enumerate(residuals.sizes)])
    latest = math.inf

    def distance(point: Vector) -> tuple[float, Vector]:
        nonlocal latest
        theta = columns.centred(point)
        weights, _ = softmax(columns.spread(theta))
        missed = residuals.of(weights) - wanted
        pull = residuals.spread(missed * precision) / 2  # a question and its complement are one
        gradient = columns.centred(columns.of(weights * (pull - dot(weights, pull))) + _PRIOR * theta)
        latest = float(np.abs(gradient).max())
        return dot(missed * precision, missed) / 4 + _PRIOR / 2 * dot(theta, theta), gradient

    theta, _ = minimise(distance, np.zeros(columns.length), evaluations=200, solved=lambda: latest <= 0.01)
    return columns.spread(columns.centred(theta))
