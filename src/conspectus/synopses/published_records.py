"""Records of any kind that were published themselves, with noisy counts: what enough rows of a table share.

A file holds the canonical form of each record, and `records` has them back as values. Questions know records by their
fingerprints, and are answered by a `SparseTable` whose keys are the fingerprints of the records here. Two published
records may share a fingerprint. A question about it gets the sum of both counts, and no interval.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.domain import RECORDS, Chunk, Domain
from conspectus.data.records.canonical_form import NotCanonical, address, read
from conspectus.data.records.field import Elements
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import shown_interval
from conspectus.queries.blocks.sparse_queries import SparseQueries
from conspectus.queries.rules import demand
from conspectus.queries.sensitivity import fixed
from conspectus.queries.workload import Workload
from conspectus.suggestions import suggest_keywords

from .sparse_table import Margins, PublishedKeys, SparseTable, check_threshold, checked_law, facts, read_facts
from .synopsis import BadSynopsis, CannotAnswer, ListedRecords, Total, numbers_of, part, public_sampler


@suggest_keywords
@dataclass(frozen=True, eq=False)
class PublishedRecords(PublishedKeys):
    """Canonical forms of records, sorted and distinct, each with a noisy count of at least `threshold`.

    `records` has the records themselves, in the order of their canonical forms.
    """

    domain: Domain
    forms: tuple[bytes, ...]
    counts: NDArray[np.int64]
    threshold: int
    noise: Noise
    total: Total
    records: tuple[Any, ...] = field(init=False, repr=False)

    kind: ClassVar[str] = "published-records"
    title: ClassVar[str] = "the records that enough rows share, with noisy counts"

    def __post_init__(self) -> None:
        counts = np.array(self.counts, dtype=np.int64)
        sorted_once = all(before < after for before, after in pairwise(self.forms))
        demand(
            BadSynopsis,
            (self.domain.sizes == RECORDS.sizes, "published records belong to a table of one column of records"),
            (
                counts.shape == (len(self.forms),) and sorted_once,
                "published records are sorted and distinct, with a count for each",
            ),
        )
        check_threshold(counts, self.threshold)
        try:
            read_back = tuple(map(read, self.forms))
        except NotCanonical as problem:
            raise BadSynopsis("a published record is not readable") from problem
        for name, value in (("noise", checked_law(self.noise)), ("counts", fixed(counts)), ("records", read_back)):
            object.__setattr__(self, name, value)

    @cached_property
    def _addresses(self) -> tuple[Elements, NDArray[np.int64], NDArray[np.int64]]:
        """The fingerprints of the records, sorted and distinct; which one each record has; how often each is had."""
        each = np.array([address(form) for form in self.forms], dtype=np.uint64)
        return np.unique(each, return_inverse=True, return_counts=True)

    @cached_property
    def _table(self) -> SparseTable:
        keys, places, _ = self._addresses
        counts = np.zeros(len(keys), dtype=np.int64)
        np.add.at(counts, places, self.counts)
        return SparseTable(self.domain, keys, counts, self.threshold, self.noise, self.total)

    def answer(self, workload: Workload) -> NDArray[np.float64]:
        """Fractions: weights times the counts of published records."""
        return self._table.answer(workload)

    def interval(self, question: Workload, confidence: float) -> tuple[float, Margins | None]:
        """The count of one query, and how far the truth may be below and above it; see `SparseTable.interval`."""
        count, margin = self._table.interval(question, confidence)
        keys, _, times = self._addresses
        shared, block = keys[times > 1], question.blocks[0]
        if len(shared) and (not isinstance(block, SparseQueries) or np.isin(shared, block.addresses).any()):
            return count, None
        return count, margin

    def listed(self) -> ListedRecords:
        """The published records with their counts: the synopsis itself."""
        return self

    def bounds(self, confidence: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each record the least and the largest true count, given that it was published."""
        return shown_interval(self.noise.scale, self.counts, self.threshold, confidence)

    def sample(self, rows: int, *, public_seed: int | None = None) -> Chunk:
        """Published records as codes, which are their fingerprints, each as often as its count says."""
        keys, places, _ = self._addresses
        return Chunk((keys[places][self.drawn(rows, public_seed=public_seed)],), rows)

    def drawn(self, rows: int, *, public_seed: int | None = None) -> NDArray[np.int64]:
        """The places of published records, drawn at random, each as often as its count says."""
        if not self.forms:
            raise CannotAnswer("no record reached the threshold, so there are no rows to give: allow a larger budget")
        shares = self.counts / self.counts.sum()
        return public_sampler(public_seed).choice(len(self.forms), size=rows, p=shares).astype(np.int64)

    def published_at(self) -> tuple[Noise, int]:
        """The noise on the counts, and the least count that was shown."""
        return self.noise, self.threshold

    def parts(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        held = pa.table({"record": pa.array(self.forms, pa.large_binary()), "count": self.counts})
        return facts(self.threshold, self.noise, self.total), {"records": held}

    @classmethod
    def from_parts(cls, domain: Domain, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Self:
        stored = part(tables, "records", [("record", pa.large_binary()), ("count", pa.int64())])
        return cls(domain, tuple(stored["record"].to_pylist()), numbers_of(stored["count"]), *read_facts(meta))


_ARRAYS: dict[type, pa.DataType] = {
    str: pa.string(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    bytes: pa.binary(),
    datetime.date: pa.date32(),
    datetime.datetime: pa.timestamp("us", "UTC"),
    datetime.timedelta: pa.duration("us"),
}


def record_array(records: Sequence[Any]) -> pa.Array:
    """Records as one column: in their own type if they have one that Arrow has, and otherwise as Python writes them."""
    kinds = {type(record) for record in records if record is not None}
    as_floats = all(abs(record) <= 1 << 53 for record in records if type(record) is int)
    kind = float if kinds == {int, float} and as_floats else next(iter(kinds), str) if len(kinds) < 2 else tuple
    try:
        return pa.array(records, _ARRAYS[kind])
    except (LookupError, ValueError, OverflowError, pa.ArrowException):  # several kinds, or beyond Arrow's
        return pa.array([None if record is None else in_python(record) for record in records], pa.string())


def in_python(record: Any) -> str:
    """A record as Python writes it; whole numbers of more digits than Python writes are in hexadecimal ones."""
    try:
        return repr(record)
    except ValueError:
        pass
    if isinstance(record, int):
        return hex(record)
    if isinstance(record, tuple):
        return f"({', '.join(map(in_python, record))}{',' if len(record) == 1 else ''})"
    if isinstance(record, dict):
        return f"{{{', '.join(f'{in_python(key)}: {in_python(value)}' for key, value in record.items())}}}"
    return f"frozenset({{{', '.join(map(in_python, record))}}})"
