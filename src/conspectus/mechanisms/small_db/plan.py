"""What is decided before the first act: the net, the way to draw from it, and what the draw costs and proves."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from conspectus.mechanisms.mechanism import ErrorBound

from .net_draws import PublicNet
from .small_databases import Method, SmallNet


@dataclass(frozen=True, kw_only=True, eq=False)
class SmallDbPlan:
    """All databases of `net.size` rows, and the exact way to draw one for `price`.

    `expected` is the typical maximum error, in counts. `bound` is proved, if anything is.
    """

    net: SmallNet
    method: Method
    price: Fraction
    expected: float
    bound: ErrorBound | None


@dataclass(frozen=True, kw_only=True, eq=False)
class NetPlan:
    """The public guesses with their answers, a line for each; one is drawn for `price`.

    `worse` is how much worse than the best guess the drawn one may be, in counts. `bound` is proved, if anything is.
    """

    net: PublicNet
    guesses: NDArray[np.float64]
    price: Fraction
    worse: float
    bound: ErrorBound | None
