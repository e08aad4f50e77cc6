"""What stored workloads are made of: lists of integers and packed arrays, everything checked."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .sensitivity import WorkloadError

REFUSAL = "this is not a stored workload: "
LONGEST = 1 << 63


def integers(value: object, problem: str, least: int = -LONGEST, most: int = LONGEST - 1) -> list[int]:
    """A list of JSON integers between two bounds, neither booleans nor floats; anything else is refused."""
    if not isinstance(value, list) or not set(map(type, value)) <= {int}:
        raise WorkloadError(REFUSAL + problem)
    if value and not (least <= min(value) and max(value) <= most):
        raise WorkloadError(REFUSAL + problem)
    return value


def packed(array: NDArray[Any], kind: str) -> str:
    """The numbers of an array as text, each in the bytes of this kind."""
    return base64.b64encode(array.astype(kind).tobytes()).decode("ascii")


def unpacked(text: str, kind: str, problem: str) -> NDArray[Any]:
    """The inverse of `packed`; anything else is refused."""
    try:
        return np.frombuffer(base64.b64decode(text, validate=True), dtype=kind).astype(np.dtype(kind).newbyteorder("="))
    except (ValueError, TypeError) as damage:
        raise WorkloadError(REFUSAL + problem) from damage
