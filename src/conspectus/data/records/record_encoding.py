"""Records of any kind, many at once: each is written down as if it stood alone.

A row of an odd kind changes the type of a whole column. It may not change how another row is read. A
`RecordEncoding` (fingerprints, or canonical forms) writes single records, and arrays of plain types at once where that
gives the same; arrays of every other type are taken apart here, or read one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from conspectus.data.columns.arrays import runs, stored, tidy

from .forms import DEEPEST

Encoded = NDArray[Any]
"""Fingerprints (uint64) or canonical forms (bytes), one for each record."""

_PLAIN = {
    id(kind): array
    for kind, array in (
        (str, pa.large_string()),
        (bytes, pa.large_binary()),
        (int, None),
        (float, pa.float64()),
        (bool, pa.bool_()),
    )
}
"""Types are told apart by their identity: to hash or compare one may run code that a value brought along."""
_WIDEST = 1 << 8
"""Fields of a struct that is read as columns."""
_ONE_BY_ONE = (pa.types.is_nested, pa.types.is_decimal, pa.types.is_duration, pa.types.is_interval)


def is_odd(kind: object) -> bool:
    """Whether a type of polars is one whose values Arrow does not have."""
    return str(kind).startswith(("Object", "Int128", "UInt128"))


def _holds_maps(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind) or not pa.types.is_nested(kind):
        return bool(pa.types.is_map(kind))
    return any(_holds_maps(kind.field(place).type) for place in range(kind.num_fields))


def _python(value: pa.Scalar) -> Any:
    """A value with maps in it, each as a dict: `as_py` has them as lists of pairs. No key may be there twice."""
    kind = value.type
    if not value.is_valid or not _holds_maps(kind):
        return value.as_py()
    if pa.types.is_map(kind):
        keys = [_python(key) for key in value.values.field(0)]
        found = dict(zip(keys, map(_python, value.values.field(1))))
        if len(found) < len(keys):
            raise ValueError("a key is there twice")
        return found
    if pa.types.is_struct(kind):
        return {field.name: _python(value[place]) for place, field in enumerate(kind)}
    return [_python(part) for part in value.values]


def _is_flat(kind: pa.StructType) -> bool:
    """Whether structs are mappings of plain values: few, and no two of one name."""
    names = {field.name for field in kind}
    plain = not any(pa.types.is_nested(field.type) for field in kind)
    return plain and len(names) == int(kind.num_fields) <= _WIDEST


@dataclass(frozen=True, eq=False, kw_only=True)
class RecordEncoding:
    """How records are written down, in four functions.

    one: one record, at a depth.
    plain: a tidied array of a plain type. What it makes of nulls does not matter: they are filled in afterwards.
    tuples: rows of several columns, from what their values were written as at the depth below.
    maps: mappings with the same keys in each row, from what their pairs of a key and its value were written as.
    """

    missing: Any
    dtype: type[np.generic] | type[object]
    one: Callable[[object, int], Any]
    plain: Callable[[pa.Array], Encoded]
    tuples: Callable[[Sequence[Encoded], int, int], Encoded]
    maps: Callable[[Sequence[Encoded], int, int], Encoded]

    def of(self, records: Any, depth: int = 0, *, mended: bool = False) -> Encoded:
        """Many records: an Arrow or numpy array, a series, or any sequence of values.

        `mended` says that a source has mended the texts of an Arrow array already, as `arrays.mended` does.
        """
        with np.errstate(all="ignore"):  # a warning would tell that a row holds a signalling NaN, say
            return self._of(records, depth, mended)

    def _of(self, records: Any, depth: int, mended: bool) -> Encoded:
        if isinstance(records, pa.ChunkedArray):
            parts = [self.of(chunk, depth, mended=mended) for chunk in records.chunks]
            return np.concatenate(parts) if parts else np.zeros(0, dtype=self.dtype)
        if isinstance(records, pa.Array):
            return self._of_array(records, depth, mended)
        if isinstance(records, np.ndarray):
            if (
                records.ndim == 1
                and records.dtype.kind in "iufb"
                and records.dtype.itemsize <= 8
                and records.dtype.isnative
            ):
                return self._of_array(pa.array(records), depth)
            # Moments are taken as such, not as the integers that numpy may make of them.
            return self._of_values(list(records) if records.dtype.kind in "mM" else records.tolist(), depth)
        return self._of_values(records.tolist() if hasattr(records, "tolist") else list(records), depth)

    def of_series(self, column: Any, depth: int = 0) -> Encoded:
        """A pandas or polars series, each value by itself, whatever type the others gave the series.

        Arrays are read at once only where that is the same as one by one: numbers, truths and moments, and what polars
        keeps in Arrow. Everything else is taken object by object.
        """
        if type(column).__module__.partition(".")[0] == "polars":
            return self.of(column.to_list() if is_odd(column.dtype) else column.to_arrow(), depth)
        kind = column.dtype
        if isinstance(kind, np.dtype) and kind.kind in "iufb":
            return self.of(column.to_numpy(), depth)
        if type(kind).__name__ == "CategoricalDtype":
            known = np.append(self.of(kind.categories.tolist(), depth), self.of([None]))
            found: Encoded = known[column.cat.codes.to_numpy()]  # −1, the last, is missing
            return found
        if (isinstance(kind, np.dtype) and kind.kind == "M") or type(kind).__name__ == "DatetimeTZDtype":
            return self.of(pa.array(column, from_pandas=True), depth)
        return self.of(column.tolist(), depth)

    def _of_values(self, values: list[Any], depth: int) -> Encoded:
        """Values of any kinds: those of one plain type together, which is the same as one by one, and faster."""
        found = np.full(len(values), self.missing, dtype=self.dtype)
        places: dict[int, list[int]] = {}
        for place, value in enumerate(values):
            if value is not None:
                places.setdefault(id(type(value)), []).append(place)
        for kind, here in places.items():
            held = values if len(here) == len(values) else [values[place] for place in here]
            found[here] = self._of_kind(held, kind, depth)
        return found

    def _of_kind(self, values: list[Any], kind: int, depth: int) -> Encoded:
        if kind in _PLAIN and len(values) > 8:
            try:
                return self._of_array(pa.array(values, _PLAIN[kind]), depth)
            except (pa.ArrowException, OverflowError, UnicodeError):
                pass  # whole numbers beyond 64 bits, texts with halves of signs
        return np.fromiter((self.one(value, depth) for value in values), dtype=self.dtype, count=len(values))

    def _of_array(self, values: pa.Array, depth: int, mended: bool = False) -> Encoded:
        kind = values.type
        if isinstance(kind, pa.BaseExtensionType):
            return self._of_array(stored(values), depth, mended)
        if pa.types.is_run_end_encoded(kind):
            return self._of_array(runs(values), depth, mended)
        if pa.types.is_dictionary(kind):
            table = np.append(self._of_array(values.dictionary, depth, mended), self._of_values([None], depth))
            places = pc.fill_null(pc.cast(values.indices, pa.int64()), len(table) - 1).to_numpy(zero_copy_only=False)
            found: Encoded = table[places]
            return found
        if pa.types.is_struct(kind) and _is_flat(kind) and depth + 1 < DEEPEST:
            parts = zip(kind, values.flatten())
            pairs = [self._pairs(field.name, part, depth + 1) for field, part in parts]
            return self._with_nulls(values, self.maps(pairs, len(values), depth))
        if any(check(kind) for check in _ONE_BY_ONE):
            each = (self._of_scalar(value, depth) for value in values)
            return np.fromiter(each, dtype=self.dtype, count=len(values))
        plain = tidy(values, mended=mended)
        return self._with_nulls(plain, self.plain(plain))

    def _pairs(self, name: str, values: pa.Array, depth: int) -> Encoded:
        """Pairs of a name and each value of an array, at a depth."""
        names = np.full(len(values), self.one(name, depth + 1), dtype=self.dtype)
        return self.tuples([names, self._of_array(values, depth + 1)], len(values), depth)

    def _of_scalar(self, value: pa.Scalar, depth: int) -> Any:
        try:
            record = _python(value) if _holds_maps(value.type) else value.as_py()
        except Exception:  # dates that Python does not have, bytes that are no text, places that no clock knows, twins
            return self.missing
        return self.one(record, depth)

    def _with_nulls(self, values: pa.Array, found: Encoded) -> Encoded:
        if values.null_count:
            found[pc.is_null(values).to_numpy(zero_copy_only=False)] = self.missing
        return found
