"""The role of a column: raw values to codes and back, and which codes a comparison means."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.code_sets import CodeSet
from conspectus.data.domain import Codes, code_dtype

from .values import Nulls, by_distinct, text_of

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
MOST_CODES = 1 << 24
NO_NULLS = Nulls()
NULL_VALUES = 'null_values is a list of values that mean missing in this column, as in null_values = [999, "never"]'


class SchemaError(ValueError):
    """A schema that is not one; the message names the file, the column and what to write instead."""


class ComparisonError(ValueError):
    """A comparison that a column cannot answer."""


class CutsBin(ComparisonError):
    """A comparison that is true on a part of a bin only; `edges` holds the nearest values that cut no bin."""

    def __init__(self, message: str, edges: tuple[object, ...]) -> None:
        super().__init__(message)
        self.edges = edges


class UnknownValue(ComparisonError, LookupError):
    """A comparison with a value that the schema does not list."""


class NotOrdered(ComparisonError):
    """A comparison by order on a column that has none."""


@dataclass(frozen=True)
class Column(abc.ABC):
    """One column: `regular` ordinary codes, then one for `other` values and one for missing ones where declared.

    An error about a value would tell that the value is there. So a value that has no code of its own takes the code of
    `default`, else the first code, and never stops anything.
    """

    name: str
    missing: bool = field(default=False, kw_only=True)
    other: bool = field(default=False, kw_only=True)
    default: Any = field(default=None, kw_only=True)
    null_values: tuple[Any, ...] = field(default=(), kw_only=True)

    kind: ClassVar[str]
    ordered: ClassVar[bool] = False
    comparisons: ClassVar[tuple[str, ...]] = ("=", "<>")

    @property
    @abc.abstractmethod
    def regular(self) -> int:
        """The number of ordinary codes."""

    @abc.abstractmethod
    def regular_label(self, code: int) -> str:
        """The printable name of an ordinary code."""

    @abc.abstractmethod
    def find(self, value: object) -> int | None:
        """The ordinary code of one value (clamped where the kind clamps); None for what is unreadable or not listed."""

    def codes_where(self, op: str, literal: object, *, snap: bool = False) -> CodeSet:
        """The codes that satisfy `column op literal`; a missing value satisfies nothing, as in SQL.

        A comparison that cuts a bin raises `CutsBin`; with `snap` it is widened to whole bins instead. Where values are
        clamped, the outer bins hold all that lies beyond them: a comparison that is true out there alone cuts them.
        """
        if op not in COMPARISONS:
            raise ComparisonError(f"{op} is no comparison: use one of {' '.join(COMPARISONS)}")
        if op not in self.comparisons:
            plain = ", ".join(self.comparisons)
            raise NotOrdered(f'column "{self.name}" is of type {self.kind}, without an order: use {plain}, not {op}')
        return () if literal is None and self.kind != "record" else self._codes_where(op, literal, snap)

    @abc.abstractmethod
    def _codes_where(self, op: str, literal: Any, snap: bool) -> CodeSet:
        """The codes that satisfy a comparison of this kind with a value."""

    def caveats(self, op: str, codes: CodeSet) -> tuple[str, ...]:
        """What an answer must say besides if `codes` are those of a comparison, since values may lack a code."""
        return ()

    @property
    @abc.abstractmethod
    def arrow_type(self) -> pa.DataType:
        """The Arrow type of decoded values."""

    @abc.abstractmethod
    def _values(self, codes: NDArray[np.int64], rng: np.random.Generator) -> pa.Array:
        """The values of ordinary codes (and of `other`), uniform within a bin."""

    def to_dict(self) -> dict[str, Any]:
        """The column as JSON; `column_from_dict` reads it back."""
        common = {"missing": self.missing, "default": self._stored_default()}
        # Only where it was declared: a schema without it keeps the fingerprint that it had before.
        nulls = {"null_values": list(self.null_values)} if self.null_values else {}
        return {"name": self.name, "type": self.kind, **self._declared(), **common, **nulls}

    def _declared(self) -> dict[str, Any]:
        """What to_dict has of this kind alone."""
        return {}

    def _stored_default(self) -> Any:
        return self.default

    @property
    def size(self) -> int:
        return self.regular + self.other + self.missing

    @property
    def missing_code(self) -> int | None:
        return self.size - 1 if self.missing else None

    @property
    def other_code(self) -> int | None:
        return self.regular if self.other else None

    @cached_property
    def default_code(self) -> int:
        """The code of values that have none."""
        code = None if self.default is None else self.find(self.default)
        return 0 if code is None else code

    @property
    def null_code(self) -> int:
        """The code that a missing value takes."""
        return self.default_code if self.missing_code is None else self.missing_code

    def null_codes(self) -> tuple[int, ...]:
        """The codes that satisfy IS NULL."""
        return () if self.missing_code is None else (self.missing_code,)

    def label(self, code: int) -> str:
        """The printable name of one code."""
        if not 0 <= code < self.size:
            raise LookupError(f'column "{self.name}" has codes 0 to {self.size - 1}, not {code}')
        if code < self.regular:
            return self.regular_label(code)
        return "other" if code == self.other_code else "missing"

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """One printable name per code."""
        return tuple(self.label(code) for code in range(self.size))

    def own_value(self, code: int) -> Any:
        """What one code stands for in the declared type; a bin of several values is its label, and missing is None."""
        return None if code == self.missing_code else self.label(code)

    @property
    def shown_type(self) -> pa.DataType:
        """The Arrow type of own values."""
        return self.arrow_type

    @cached_property
    def own_values(self) -> pa.Array:
        """One value per code, as `own_value` says."""
        return pa.array([self.own_value(code) for code in range(self.size)], type=self.shown_type)

    def code_of(self, value: object, nulls: Nulls = NO_NULLS) -> int:
        """The code of one value. This is what the value means: `encode` must agree with it on every array."""
        if nulls.match(value):
            return self.null_code
        code = self.find(value)
        return self._code_of_unread() if code is None else code

    def _code_of_unread(self) -> int:
        """The code of a value that is there but has no ordinary code: what cannot be read is missing."""
        return self.null_code

    def encode(self, values: pa.Array | pa.ChunkedArray, *, nulls: Nulls = NO_NULLS) -> Codes:
        """The codes of an array of any type, in the smallest unsigned type; never fails on a value."""
        return by_distinct(values, lambda value: self.code_of(value, nulls), self.null_code, code_dtype(self.size))

    def decode(self, codes: Codes, rng: np.random.Generator) -> pa.Array:
        """Values in the schema's own type, uniform within a bin; missing is null and `other` the text "other"."""
        wide = np.asarray(codes).astype(np.int64)
        if wide.size and not (wide.min() >= 0 and wide.max() < self.size):
            raise LookupError(f'column "{self.name}" has codes 0 to {self.size - 1} only')
        null = np.zeros(len(wide), dtype=bool) if self.missing_code is None else wide == self.missing_code
        values = self._values(np.where(null, 0, wide), rng)
        return pa.array(values, type=self.arrow_type, mask=null)

    def _check(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise SchemaError("a column needs a name that is not empty")
        for key, flag in (("missing", self.missing), ("other", self.other)):
            if not isinstance(flag, bool):
                raise self._error(f"{key} is true or false")
        if isinstance(self.null_values, str) or not isinstance(self.null_values, Sequence):
            raise self._error(NULL_VALUES)
        texts = tuple(text_of(value) for value in self.null_values)
        if not all(isinstance(value, str | int | float) for value in self.null_values) or None in texts:
            raise self._error(NULL_VALUES)
        object.__setattr__(self, "null_values", texts)
        if self.null_values and not self.missing and self.default is None:
            raise self._error("null_values are missing ones: write missing = true, or a default that they become")
        if self.other and self.kind != "categorical":
            raise self._error("other is for categorical columns: values that cannot be read here are missing ones")
        if self.regular > MOST_CODES - 2:
            advice = "list fewer values" if self.kind == "categorical" else "give a larger width"
            raise self._error(f"it has {self.regular:,} codes and at most {MOST_CODES - 2:,} are served: {advice}")
        if self.default is not None and not self._understands(self.default):
            raise self._error("default is not a value of the column: write one of its values")

    def _understands(self, value: object) -> bool:
        """Whether `find` finds a code for a value."""
        return self.find(value) is not None

    def _error(self, message: str) -> SchemaError:
        return SchemaError(f'column "{self.name}": {message}')
