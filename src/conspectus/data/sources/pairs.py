"""Pairs of a user and an item as one row for each user, with a two-valued column for each item.

The pairs are read once and kept as sets: for each item the users who have it, 65,536 users at a time. What a user's row
holds is read from that user's pairs alone. Declared users of whom no pair was read take no memory: 65,536 of them are
one empty set, which every pass is given again and again. Each costs time: 10⁹ of them about 17 seconds a pass.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, repeat

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.chunks import MOST_ROWS, SetChunk
from conspectus.data.columns.discrete import Categorical
from conspectus.data.columns.values import text_of
from conspectus.data.schema import Schema
from conspectus.suggestions import suggest_keywords

from .numbering import Numbering
from .origin import Origin, SourceError, guarded
from .table import Table, read

_ROWS = 1 << 20
_PLACE_BITS = 16


@suggest_keywords
class PairsTable(Table):
    """The users of a source of pairs, each as one row in the codes of a schema whose unit is made of pairs.

    A pair whose user cannot be read belongs to nobody and is left out; one whose item cannot be read, or is not listed,
    says only that its user is there. With `users` declared there are exactly so many rows: users without pairs are
    empty rows, and where more users appear, those with the smallest keyed hashes of their ids are kept.

    Guarantee: with declared users, exchanging one user's pairs for any others, or none, changes at most one row;
    without, it changes, adds or removes at most one row and no other.
    """

    in_memory = True
    """The pairs are read once, by whichever fold comes first."""

    def __init__(self, origin: Origin, schema: Schema, *, what: str, public_seed: int) -> None:
        self.schema = schema
        self._origin = origin
        self._what = what
        self._seed = public_seed
        unit = schema.unit
        self._names = [origin.column(str(unit.column), what), origin.column(str(unit.item), what)]
        self._chunks: list[SetChunk] | None = None
        self._absent = 0

    @property
    def filtered(self) -> bool:
        """Whether users may be left out: by a filter, or by an expression for the user."""
        return (self._origin.filtered or self._origin.computed) and self.schema.unit.users is None

    @property
    def known_rows(self) -> int | None:
        return self.schema.unit.users

    def chunks(self, columns: Sequence[int] | None = None, rows: int = MOST_ROWS) -> Iterator[SetChunk]:
        """One pass over the users, at most 65,536 at a time. All items are held, whichever are asked about."""
        if self._chunks is None:
            listed = Categorical("item", self.domain.names)
            found = Pairs(lambda value: -1 if (code := listed.find(value)) is None else code)
            found.read(self._origin, self._names, self._what)
            self.hold(found)
        yield from self._chunks or ()
        yield from _empty(len(self.domain), self._absent)

    def hold(self, found: Pairs, renumber: NDArray[np.int64] | None = None) -> None:
        """Keep pairs that were read, their items in the order of the schema."""
        users = self.schema.unit.users
        self._chunks = list(found.chunks(len(self.domain), users, self._seed, renumber))
        self._absent = 0 if users is None else users - sum(chunk.rows for chunk in self._chunks)

    def raw(self, columns: Sequence[int], rows: int = _ROWS) -> Iterator[pa.RecordBatch]:
        """A pair has no raw value of an item's column: it is there, or not."""
        raise SourceError("pairs have no values to check: an item is in a user's row, or not")

    def close(self) -> None:
        """Let go of the source and of the pairs."""
        self._chunks, self._absent = [], 0
        self._origin.close()


def discovered(origin: Origin, names: Sequence[str], what: str) -> tuple[list[str], Pairs, NDArray[np.int64]]:
    """The items that a source holds, in order, and its pairs. NOT PRIVATE: the list is read off the data."""
    items: dict[str, int] = {}

    def number(value: object) -> int:
        text = text_of(value)
        return -1 if text is None else items.setdefault(text, len(items))

    found = Pairs(number)
    found.read(origin, names, what)
    ordered = sorted(items, key=_order)
    renumber = np.zeros(len(items), dtype=np.int64)
    for place, text in enumerate(ordered):
        renumber[items[text]] = place
    return _distinct(ordered), found, renumber


class Pairs:
    """Pairs as numbers, in buckets of 65,536 users."""

    def __init__(self, item: Callable[[object], int]) -> None:
        self._users: dict[str, int] = {}
        self._user_numbers = Numbering(self._user)
        self._item_numbers = Numbering(item)
        self._buckets: dict[int, list[tuple[NDArray[np.int32], NDArray[np.uint16]]]] = {}

    def _user(self, value: object) -> int:
        text = text_of(value)
        return -1 if text is None else self._users.setdefault(text, len(self._users))

    def read(self, origin: Origin, names: Sequence[str], what: str) -> None:
        """One pass over the source."""
        for batch in read(origin, names, what=what, rows=_ROWS):
            with guarded(what):
                users, items = self._user_numbers.of(batch.column(0)), self._item_numbers.of(batch.column(1))
            known = (users >= 0) & (items >= 0)
            self._put(users[known], items[known])

    def _put(self, users: NDArray[np.int32], items: NDArray[np.int32]) -> None:
        if not len(users):
            return
        bucket = (users >> _PLACE_BITS).astype(np.uint16)
        places = (users & (MOST_ROWS - 1)).astype(np.uint16)
        if bucket.min() != bucket.max():
            order = np.argsort(bucket, kind="stable")
            bucket, places, items = bucket[order], places[order], items[order]
        cuts = [0, *(np.flatnonzero(np.diff(bucket)) + 1).tolist(), len(bucket)]
        for start, end in pairwise(cuts):
            held = self._buckets.setdefault(int(bucket[start]), [])
            held.append((items[start:end].copy(), places[start:end].copy()))

    def chunks(
        self, width: int, declared: int | None, seed: int, renumber: NDArray[np.int64] | None
    ) -> Iterator[SetChunk]:
        """The users as chunks, up to the last one of whom a pair was read; what was read is let go on the way."""
        if declared is not None and declared < len(self._users):
            self._keep(declared, seed)
        rows = len(self._users) if declared is None else declared
        columns = np.arange(width, dtype=np.int64)
        for bucket, start in enumerate(range(0, min(rows, len(self._users)), MOST_ROWS)):
            held = self._buckets.pop(bucket, [])
            which = np.concatenate([items for items, _ in held]) if held else np.zeros(0, dtype=np.int32)
            places = np.concatenate([place for _, place in held]) if held else np.zeros(0, dtype=np.uint16)
            del held
            if renumber is not None:
                which = renumber[which]
            yield SetChunk.of_pairs(columns, which, places, rows=min(MOST_ROWS, rows - start))

    def _keep(self, count: int, seed: int) -> None:
        """Keep the users with the smallest keyed hashes: one user more or less moves at most one of them."""
        by_hash = sorted(self._users, key=lambda user: (hashlib.sha256(f"{seed}:{user}".encode()).digest(), user))
        number = np.full(len(self._users), -1, dtype=np.int32)
        for place, user in enumerate(by_hash[:count]):
            number[self._users[user]] = place
        buckets, self._buckets = self._buckets, {}
        for bucket, held in buckets.items():
            for items, places in held:
                users = number[(bucket << _PLACE_BITS) + places.astype(np.int32)]
                self._put(users[users >= 0], items[users >= 0])


def _empty(width: int, users: int) -> Iterator[SetChunk]:
    """Users without any pair: the same chunk as often as it is full, and one for the rest."""
    nothing, columns = np.zeros(0, dtype=np.uint16), np.arange(width, dtype=np.int64)
    many, rest = divmod(users, MOST_ROWS)
    if many:
        yield from repeat(SetChunk.of_pairs(columns, nothing, nothing, rows=MOST_ROWS), many)
    if rest:
        yield SetChunk.of_pairs(columns, nothing, nothing, rows=rest)


def _order(text: str) -> tuple[bool, int, str]:
    """Whole numbers first and by size, then texts."""
    plain = text.isascii() and text.isdigit() and len(text) < 19
    return (not plain, int(text) if plain else 0, text)


def _distinct(texts: Sequence[str]) -> list[str]:
    """Names that differ by more than their case, as columns must: a later twin carries its number."""
    seen: dict[str, int] = {}
    taken = {text.casefold() for text in texts}
    names = []
    for text in texts:
        name, times = text, seen.get(text.casefold(), 0) + 1
        while times > 1 and (name := f"{text} ({times})").casefold() in taken:
            times += 1
        seen[text.casefold()] = times
        taken.add(name.casefold())
        names.append(name)
    return names
