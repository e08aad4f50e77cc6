"""Who are neighbours: which two tables differ in one unit, and what a unit can hold.

Every sensitivity, price and guarantee is about one `Relation`. It is one value, so that no caller can pass the rows of
a unit and forget whether units are rows, and its kind is an enum, so that a misspelt word is refused instead of being
read as the other relation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class RelationError(ValueError):
    """A word that names no neighbouring relation, or a unit that contradicts itself."""


class Neighbours(StrEnum):
    """How neighbours differ: one unit's rows are replaced by others, or one unit is added or removed."""

    REPLACE = "replace"
    ADD_REMOVE = "add-remove"

    @classmethod
    def of(cls, word: str) -> Neighbours:
        """The relation that a word names; any other word is refused."""
        try:
            return cls(word)
        except ValueError:
            raise RelationError(f'neighbours is "replace" or "add-remove", not {word!r}') from None


@dataclass(frozen=True)
class Relation:
    """Two tables are neighbours when one unit of at most `max_rows` rows tells them apart.

    Guarantee: of two neighbours each becomes the other by at most `max_rows` moves of one row. Under add-remove all of
    them are additions, or all are removals. Under replace they are replacements, and where units may have different
    numbers of rows also additions, or also removals. Where rows are units there is exactly one move.

    Args:
        neighbours: whether the unit is replaced, or added or removed; a plain word is read as the enum.
        max_rows: the most rows that one unit has.
        rows_are_units: whether every unit has exactly one row, and none was dropped. Where a person may have several
            rows, or some were dropped, a unit may replace one that has more rows than it, or fewer.
    """

    neighbours: Neighbours
    max_rows: int = 1
    rows_are_units: bool = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "neighbours", Neighbours.of(self.neighbours))
        if self.max_rows < 1 or (self.rows_are_units and self.max_rows != 1):
            raise RelationError("a unit has at least one row, and exactly one when rows are the units")

    @property
    def replace(self) -> bool:
        """Whether one unit is replaced by another."""
        return self.neighbours is Neighbours.REPLACE

    @property
    def total_is_public(self) -> bool:
        """Whether neighbours have equally many rows, so that the number of rows says nothing about anybody."""
        return self.replace and self.rows_are_units

    def under(self, neighbours: Neighbours) -> Relation:
        """The same units, under this kind of neighbours."""
        return replace(self, neighbours=neighbours)
