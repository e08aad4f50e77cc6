"""The rule that keeps at most `max_rows` rows of each id.

It keeps the rows with the smallest keyed hashes, so it reads the rows of that id alone: what it keeps of one person
depends on no other person, on no order of the file and on no chunk. Two rows of one id tie only when they are identical
in every column of the schema, and then it does not matter which one stays. Rows without an id form one unit together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from conspectus.data.sources.origin import text
from conspectus.data.values import SPACES

_SHORT = ("BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DATE", "TIMESTAMP")
_TRIM = " || ".join(f"chr({ord(character)})" for character in SPACES)


def bounded(
    relation: str,
    select: Sequence[str],
    *,
    identity: str,
    columns: Mapping[str, str],
    max_rows: int,
    nulls: Sequence[str],
    seed: int,
) -> str:
    """The SQL that selects expressions from a relation, of at most `max_rows` rows of each id.

    `columns` are all columns of the schema with their types, whichever are selected: every pass keeps the same rows.
    """
    person = f"trim(CAST({identity} AS VARCHAR), {_TRIM})"  # as text, so that 1 and "1" are one person
    missing = ", ".join(text(word.strip(SPACES)) for word in ("", *nulls))
    values = ", ".join(f"{expression} AS v{place}" for place, expression in enumerate(select))
    row = f"concat({', '.join(_field(column, kind) for column, kind in columns.items())})"
    order = f"md5({text(f'{seed}:')} || whole), whole"
    return (
        f"SELECT {', '.join(f'v{place}' for place in range(len(select)))} FROM "
        f"(SELECT {values}, CASE WHEN {person} IN ({missing}) THEN NULL ELSE {person} END AS person, {row} AS whole "
        f"FROM {relation}) "
        f"QUALIFY row_number() OVER (PARTITION BY person ORDER BY {order}) <= {max_rows}"
    )


def _field(column: str, kind: str) -> str:
    """A raw value as text, after its length where it may hold any sign: no two different rows read the same."""
    if kind in _SHORT:
        return f"{column}, ','"
    value = f"CAST({column} AS VARCHAR)"
    return f"strlen({value}), ':', {value}, ','"
