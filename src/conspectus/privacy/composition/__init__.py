"""Theorems of composition as pure functions, and their inverses.

Everything that is promised is rounded outward. Closed forms are short sums of well-conditioned terms, so their error is
a few units in the last place of the terms' total size; `up` adds 2⁻⁴⁰ of that size (8,000 units), far more than the
arithmetic and the library's functions can lose. Inverses return the end of a bisection that was itself *checked* to
satisfy the rounded theorem. A comparison of several theorems is honest only for acts fixed before the first draw.

References: Dwork & Roth 2014 (the book), Theorems 3.14–3.22; Dwork, Rothblum & Vadhan 2010, Theorems III.1–III.3, whose
Definition III.1 (an adversary picks databases and mechanisms as it goes) all of them allow; Bun & Steinke 2016;
Kairouz, Oh & Viswanath 2015; Canonne, Kamath & Steinke 2020; Balle & Wang 2018; Dong, Roth & Su 2022.
"""

from __future__ import annotations

from .concentrated import gaussian_delta, zcdp, zcdp_share, zcdp_simple
from .gaussian_noise import continuous_epsilon, gaussian_epsilon, gaussian_share
from .groups import group, group_rho
from .optimal import loss_distribution_epsilon, optimal_delta, optimal_epsilon, optimal_share
from .outward import CompositionError
from .textbook import (
    advanced,
    advanced_approximate,
    advanced_heterogeneous,
    advanced_share,
    advanced_sharp,
    basic,
    classical_sigma,
    corollary_share,
    expected_loss,
)

__all__ = [
    "CompositionError",
    "advanced",
    "advanced_approximate",
    "advanced_heterogeneous",
    "advanced_share",
    "advanced_sharp",
    "basic",
    "classical_sigma",
    "continuous_epsilon",
    "corollary_share",
    "expected_loss",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_share",
    "group",
    "group_rho",
    "loss_distribution_epsilon",
    "optimal_delta",
    "optimal_epsilon",
    "optimal_share",
    "zcdp",
    "zcdp_share",
    "zcdp_simple",
]
