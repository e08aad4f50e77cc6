"""The rule that keeps at most `max_rows` rows of each id.

It keeps the rows with the smallest keyed hashes of their codes and their id, so it reads that id's rows alone: what it
keeps of one person depends on no other person, neither through the order of the file or its chunks, nor through the
types that other people's values gave the columns. Rows that tie have the same codes, and then it does not matter which
one stays. The id is hashed with the codes so that every person's choice is another one: by the codes alone everybody
would keep the same kind of row, and the kept rows would look like nobody. Rows without an id form one unit together.
"""

from __future__ import annotations

from collections.abc import Sequence

from conspectus.data.columns.values import SPACES

from .origin import exported, text

_WHOLE, _DIGITS = r"^(-?[0-9]+)\.0$", r"\1"
_TRIM = " || ".join(f"chr({ord(character)})" for character in SPACES)


def person(identity: str, kind: str, nulls: Sequence[str]) -> str:
    """The SQL of an id as text, so that 1 and "1" are one person; NULL where it is missing."""
    spelled = f"trim(TRY(CAST({exported(identity, kind)} AS VARCHAR)), {_TRIM})"
    missing = ", ".join(text(word.strip(SPACES)) for word in ("", *nulls))
    return f"CASE WHEN {spelled} IN ({missing}) THEN NULL ELSE {spelled} END"


def bounded(relation: str, select: Sequence[int], *, columns: int, max_rows: int, seed: int) -> str:
    """The SQL that selects codes (c0, c1, …) from a relation, of at most `max_rows` rows of each `person`.

    All codes are read, whichever are selected: every pass keeps the same rows.
    """
    codes = ", ".join(f"c{place}" for place in range(columns))
    # Another person's missing id may have turned whole numbers into 1.0, 2.0, …: they are hashed as 1, 2, …
    who = f"coalesce(regexp_replace(person, {text(_WHOLE)}, {text(_DIGITS)}), '')"
    order = f"md5(concat_ws(',', {text(f'{seed}:')}, {codes}) || ',' || {who}), {codes}"
    chosen = ", ".join(f"c{place}" for place in select) or "1"
    return (
        f"SELECT {chosen} FROM {relation} "
        f"QUALIFY row_number() OVER (PARTITION BY person ORDER BY {order}) <= {max_rows}"
    )
