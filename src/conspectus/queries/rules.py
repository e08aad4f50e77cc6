"""Rules that values keep when they are made, each with the sentence for whoever breaks it."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

LARGEST = 2.0**96
"""No count and no scale of noise is larger: they are drawn as 64-bit integers, in steps of some grid."""


def possible(numbers: ArrayLike) -> bool:
    """Whether these may be noisy counts, or scales of noise: no infinity, nothing that is no number, and so far from
    both that sums and squares of them are, too."""
    return bool((np.abs(np.asarray(numbers, dtype=np.float64)) <= LARGEST).all())


def demand(error: type[Exception], *rules: tuple[object, str]) -> None:
    """Raise an error for the first rule that is broken: each is what must be true, and what to say if it is not.

    All conditions are evaluated before the first is looked at, so each has to make sense on its own.
    """
    for holds, why in rules:
        if not holds:
            raise error(why)
