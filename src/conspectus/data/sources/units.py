"""The rule that keeps at most `max_rows` rows of each id.

It keeps the rows with the smallest keyed hashes, so it reads the rows of that id alone: what it keeps of one person
depends on no other person, on no order of the file and on no chunk. Two rows of one id tie only when they are identical
in every column of the schema, and then it does not matter which one stays. Rows without an id form one unit together.
"""

from __future__ import annotations

from collections.abc import Sequence

from conspectus.data.sources.origin import quoted, text
from conspectus.data.values import SPACES

_TRIM = " || ".join(f"chr({ord(character)})" for character in SPACES)


def bounded(
    relation: str,
    select: Sequence[str],
    *,
    identity: str,
    columns: Sequence[str],
    max_rows: int,
    nulls: Sequence[str],
    seed: int,
) -> str:
    """The SQL that selects from a relation at most `max_rows` rows of each id.

    `columns` are all columns of the schema, whichever are selected: every pass must keep the same rows.
    """
    person = f"trim(CAST({quoted(identity)} AS VARCHAR), {_TRIM})"  # as text, so that 1 and "1" are one person
    missing = ", ".join(text(word.strip(SPACES)) for word in ("", *nulls))
    fields = " || ".join(_field(name) for name in columns)
    return (
        f"SELECT {', '.join(select)} FROM "
        f"(SELECT *, CASE WHEN {person} IN ({missing}) THEN NULL ELSE {person} END AS _person, {fields} AS _row "
        f"FROM {relation}) "
        f"QUALIFY row_number() OVER (PARTITION BY _person ORDER BY md5({text(f'{seed}:')} || _row), _row) <= {max_rows}"
    )


def _field(name: str) -> str:
    """A raw value with its length before it, so that no two different rows have the same text."""
    value = f"CAST({quoted(name)} AS VARCHAR)"
    return f"coalesce(strlen({value}) || ':' || {value}, '-')"
