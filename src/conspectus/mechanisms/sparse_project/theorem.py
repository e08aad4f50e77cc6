"""What is proved of SparseProject: the paper's T and r (Theorem 4.9), and second moments that hold for any of them.

With F = Σ count², w the weights of a query and noise of deviation σ on a projection whose columns have norm 1, the mean
of the sections is unbiased, and the mean square of its error is at most V = ‖w‖²·(σ² + 2F/T): noise σ√m for an m-sparse
query, and distortion. A section by itself has at most s·V. If the median is off by e, so are (s + 1)/2 sections, by e
or more: its mean square is at most 2s²V/(s + 1) on any table, and about 1.4·V for s = 5 where errors are Gaussian.

A record of any weight spoils a section with probability at most m·s/T, and the median only if it spoils a majority. So
a median is worth its noise where answers must seldom be wrong. At a failure level of 0.05 it is not, on any table: with
s = 5 sections each may fail with 0.19, and the bound on their distortion is √(5/0.19) against √(1/0.05) for one.
"""

from __future__ import annotations

import math
from fractions import Fraction

from conspectus.mechanisms.bounds import FAILURE
from conspectus.mechanisms.mechanism import ErrorBound
from conspectus.queries.blocks.sparse_projection import SparseProjection
from conspectus.synopses.random_projection import LEAST_INDEPENDENCE


def theorem_size(rows: int, m: int, k: int) -> int:
    """T = 4·64²·ς⁻²·ln(1/τ) with ς = 2√m/(m + n²) and τ = β/4k, as the proof of Theorem 4.9 needs it.

    Algorithm 2 prints a T that is 2√m times larger.
    """
    return math.ceil(4 * 64**2 * (m + rows * rows) ** 2 / (4 * m) * math.log(4 * k / FAILURE))


def theorem_independence(size: int, k: int) -> int:
    """r: an even number of at least 2·log₂(2kT/β), for which the union bound of Lemma 4.6 holds.

    The base is 2, as Corollary 4.7 needs. It is at least the 2·ln(1/τ) of Theorem 4.1, too.
    """
    return 2 * math.ceil(math.log2(2 * k * size / FAILURE))


def theorem_scale(l2_squared: int, epsilon: float, delta: float) -> Fraction:
    """√(8T ln(1/δ))/ε: the paper's 1/σ for coordinates that are sums of signs, not of ±1/√T, where δ > 0.

    One row moves each of T such sums by 1, and the square of their norm by T. Where units move more (replaced rows,
    several rows), the norm takes the place of √T.

    Args:
        l2_squared: The square of the norm that one unit moves the projection by.
        epsilon: ε.
        delta: δ, above 0.
    """
    return Fraction(math.sqrt(8 * l2_squared * math.log(1 / delta)) / epsilon)


def promise(
    projection: SparseProjection, *, rows: int, sigma: float, sparsity: float, median: bool, failure: float
) -> ErrorBound | None:
    """A bound on the root mean square error of the workload, by Markov's inequality; None for a hash that is too weak.

    Args:
        projection: The projection, with T coordinates in s sections.
        rows: n. No table of n rows has a larger F than n².
        sigma: σ, in counts.
        sparsity: The mean of ‖w‖² over the queries, at most.
        median: Whether answers are medians of the sections.
        failure: How often the bound may fail.
    """
    if projection.independence < LEAST_INDEPENDENCE:
        return None
    s = projection.nonzeros
    square = sparsity * (sigma**2 + 2 * rows * rows / projection.size) / failure
    square *= 2 * s * s / (s + 1) if median else 1
    return ErrorBound(
        value=math.sqrt(square) / rows,
        statistic="rms",
        probability=1 - failure,
        theorem="second moments of the projection and the noise, Markov's inequality",
    )


def price_of_median(s: int) -> float:
    """The variance of the median of s independent Gaussian errors over that of their mean, to within 3 %.

    It is 1 for s = 1, and π/2 in the limit.
    """
    return math.pi * s / (2 * s + math.pi - 2)
