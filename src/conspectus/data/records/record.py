"""A column of records of any kind: an unbounded universe, seen through the public fingerprint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.code_sets import CodeSet
from conspectus.data.columns.column import NO_NULLS, Column
from conspectus.data.columns.values import Nulls
from conspectus.data.domain import Codes

from .field import P
from .fingerprints import fingerprint, fingerprints


@dataclass(frozen=True)
class Record(Column):
    """Values of any kind, without a list of them. A code is a fingerprint, and there is no way back from it.

    Nothing is trimmed or clamped, and no null values are declared: missing is a record like any other.
    """

    kind: ClassVar[str] = "record"
    comparisons: ClassVar[tuple[str, ...]] = ("=",)
    regular = P
    arrow_type = pa.string()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise self._error("a column needs a name that is not empty")
        if self.missing or self.other or self.default is not None or self.null_values:
            raise self._error("a record may be anything: leave out missing, other, default and null_values")

    def regular_label(self, code: int) -> str:
        return f"{code:016x}"

    @property
    def labels(self) -> tuple[str, ...]:
        """In place of a list, which there is not."""
        return ("any record",)

    def find(self, value: object) -> int:
        return fingerprint(value)

    def code_of(self, value: object, nulls: Nulls = NO_NULLS) -> int:
        return fingerprint(value)

    def _codes_where(self, op: str, literal: Any, snap: bool) -> CodeSet:
        return (fingerprint(literal),)

    def _values(self, codes: NDArray[np.int64], rng: np.random.Generator) -> pa.Array:
        """Fingerprints in hexadecimal digits."""
        return pa.array([self.regular_label(code) for code in codes.tolist()], pa.string())

    def encode(self, values: pa.Array | pa.ChunkedArray, *, nulls: Nulls = NO_NULLS) -> Codes:
        return fingerprints(values)

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "type": self.kind}
