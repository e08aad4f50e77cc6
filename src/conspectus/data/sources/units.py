"""The rule that keeps at most `max_rows` rows of each id.

It keeps the rows with the smallest keyed hashes of their codes and their id, so it reads that id's rows alone: what it
keeps of one person depends on no other person, neither through the order of the file or its chunks, nor through the
types that other people's values gave the columns. Rows that tie have the same codes, and then it does not matter which
one stays. The id is hashed with the codes so that every person's choice is another one: by the codes alone everybody
would keep the same kind of row, and the kept rows would look like nobody.

An id is its canonical text, so that 1, 1.0 and "1" are one person, and so is a moment, be it told in Berlin or in UTC,
to the microsecond. Ids that no column reads (wrong bytes, lists, spans of time) stay different from one another.

Somebody without an id may be written as nothing, as NaN or as a declared null value, −1 or −1.0. If those were several
units, a person could add to each of them. So all rows without an id form one unit together.
"""

from __future__ import annotations

import decimal
import hashlib
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from conspectus.data.columns.arrays import TEXT, marked
from conspectus.data.columns.values import Nulls, canonical_texts, day_of, distinct_of, number_of, numbers, text_of

from .origin import text

_WHOLE, _DIGITS = r"^(-?[0-9]+)\.0$", r"\1"
_LONGEST = 1 << 8
"""Bytes of an id that is kept as it is; a longer one is known by its digest, and costs no more memory than others."""


def people(values: pa.Array, nulls: Nulls) -> pa.Array:
    """The ids of some rows as texts, null where there is none; texts have been mended before.

    Each depends on its own value alone, and not on the type that others gave to the column.
    """
    distinct, places = distinct_of(values, mended=True)
    who = _without(_texts(distinct), distinct, nulls)
    return pa.concat_arrays([who, pa.nulls(1, TEXT)]).take(pa.array(places))


def _texts(values: pa.Array) -> pa.Array:
    """Distinct tidy values as canonical texts, of bounded length."""
    texts = canonical_texts(values)
    if not pc.any(pc.greater(pc.binary_length(texts), _LONGEST)).as_py():
        return texts
    return pa.array([_short(value) for value in texts], TEXT)


def _short(value: pa.Scalar) -> str | None:
    found: str | None = value.as_py()
    if found is None or len(raw := found.encode()) <= _LONGEST:
        return found
    return marked(f"long {hashlib.sha256(raw).hexdigest()}")


def _without(who: pa.Array, values: pa.Array, nulls: Nulls) -> pa.Array:
    """The texts of ids, null where a null value is meant: by its text, its number or its day."""
    words = pa.array(["", *nulls.words], TEXT)
    absent = pc.is_in(who, words).to_numpy(zero_copy_only=False)
    if nulls.numbers:
        found, valid = numbers(values, Nulls())
        near = np.isin(found, nulls.numbers) & ~absent & (True if valid is None else valid)
        # Whole numbers of many digits may be near one another as floats, and are still different ids.
        exact = {_number(word) for word in nulls.words if number_of(word) is not None}
        for place in np.flatnonzero(near).tolist():
            absent[place] = _number(text_of(values[place].as_py()) or "") in exact
    if nulls.days:
        for place, value in enumerate(values.to_pylist()):
            absent[place] |= day_of(value) in nulls.days
    return pc.if_else(pa.array(absent), pa.scalar(None, TEXT), who)


def _number(word: str) -> decimal.Decimal | None:
    try:
        return decimal.Decimal(word)
    except decimal.InvalidOperation:
        return None


def bounded(
    relation: str,
    select: Sequence[int],
    *,
    columns: int,
    max_rows: int,
    seed: int,
    key: int | None = None,
    ranked: bool = False,
) -> str:
    """The SQL that selects codes (c0, c1, …) from a relation, of at most `max_rows` rows of each `person`.

    All codes are read, whichever are selected: every pass keeps the same rows. With a `key` a hash of the person stands
    behind the codes, the same for all rows of one. With `ranked` rows are hashed by other codes (r0, r1, …), and those
    that tie are told apart by their own.
    """
    own = ", ".join(f"c{place}" for place in range(columns))
    codes = ", ".join(f"r{place}" for place in range(columns)) if ranked else own
    # Another person's missing id may have turned whole numbers into 1.0, 2.0, …: they are hashed as 1, 2, …
    who = f"coalesce(regexp_replace(person, {text(_WHOLE)}, {text(_DIGITS)}), '')"
    order = f"md5(concat_ws(',', {text(f'{seed}:')}, {codes}) || ',' || {who}), {codes}{f', {own}' if ranked else ''}"
    chosen = ", ".join(f"c{place}" for place in select) or "1"
    if key is not None:
        chosen += f", md5_number_lower({text(f'{key}:')} || {who}) AS unit"
    return (
        f"SELECT {chosen} FROM {relation} "
        f"QUALIFY row_number() OVER (PARTITION BY person ORDER BY {order}) <= {max_rows}"
    )
