"""The codes of a table, put aside by the first pass over its source, so that no later question reads the source again.

Which counts a mechanism wants next may depend on what it drew. If each one read the source, the number of passes, and
with it the running time, would depend on the draws; a CSV file would be parsed a dozen times. Codes are a small part of
a source: one byte a value for most columns, one bit where a column has two values. To keep them costs little and makes
every later fold a matter of memory speed.

What is put aside is as private as the source. It stays in memory up to `IN_MEMORY` bytes, a public number; whatever
comes after goes to a temporary file that nobody else may open and that has no name, so that it is gone with this
process at the latest. The owner of a spool is the curator, and the spool goes with it.

A full disk must not refuse a release: how much is put aside depends on the rows. So a spool that cannot be written is
given up (`complete` is False), and whoever wanted it reads the source again.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from .domain import Chunk, CodedRows, Codes, Domain, code_dtype, fitting
from .fold import Fold, Gather, Result, Vectors, fold_chunks

IN_MEMORY = 1 << 26
"""Bytes that are kept in memory before the rest goes to a file: 64 MiB."""

Forms = NDArray[np.object_]


@dataclass(frozen=True)
class _Stretch:
    """Bytes that were put aside: held here, or a place in the file."""

    size: int
    held: NDArray[np.uint8] | None = None
    place: int = 0


@dataclass(frozen=True)
class _Piece:
    """One chunk as it was put aside: a stretch for each column, and two for the records."""

    rows: int
    columns: dict[int, _Stretch]
    lengths: _Stretch | None = None
    forms: _Stretch | None = None


class Spool(Gather["Spool"]):
    """A fold that puts the codes of some columns aside, and then is a table of these columns.

    Args:
        domain: The universe of the table.
        columns: The positions of the columns that are put aside.
        records: Whether the canonical forms of records are put aside too.
    """

    def __init__(self, domain: Domain, columns: Collection[int], *, records: bool = False) -> None:
        self.columns = tuple(sorted(set(columns)))
        self.records = records
        self.complete = False
        self.rows = 0
        self._domain = domain
        self._pieces: list[_Piece] = []
        self._room = IN_MEMORY
        self._file: BinaryIO | None = None
        self._end = 0
        self._broken = False

    def add(self, chunk: CodedRows) -> None:
        """Put the rows of one chunk aside."""
        if self._broken or not chunk.rows:
            return
        try:
            columns = {column: self._put(self._packed(column, chunk.column(column))) for column in self.columns}
            lengths = forms = None
            if self.records:
                written = cast(Chunk, chunk).records
                assert written is not None
                lengths = self._put(np.fromiter(map(len, written), dtype=np.uint32, count=chunk.rows).view(np.uint8))
                forms = self._put(np.frombuffer(b"".join(written.tolist()), dtype=np.uint8))
        except OSError:
            self._broken = True
            self.close()
            return
        self._pieces.append(_Piece(chunk.rows, columns, lengths, forms))

    def finish(self, vectors: Vectors, rows: int) -> Spool:
        self.complete = not self._broken
        self.rows = rows
        return self

    def covers(self, fold: Fold[Any]) -> bool:
        """Whether a fold finds all it reads here."""
        return self.complete and set(fold.columns) <= set(self.columns) and (self.records or not fold.records)

    def fold(self, fold: Fold[Result]) -> Result:
        """Run a fold over the rows that were put aside."""
        return fold_chunks(fold, self.chunks(fold.columns, records=fold.records))

    def chunks(self, columns: Sequence[int], *, records: bool = False) -> Iterator[Chunk]:
        """The rows in the chunks that they came in."""
        for piece in self._pieces:
            codes = {column: self._unpacked(column, piece.columns[column], piece.rows) for column in columns}
            yield Chunk.of(len(self._domain), codes, piece.rows, self._forms(piece) if records else None)

    def close(self) -> None:
        """Forget everything."""
        self._pieces = []
        self.complete = False
        if self._file is not None:
            self._file.close()
            self._file = None

    def _packed(self, column: int, codes: Codes) -> NDArray[np.uint8]:
        size = self._domain.sizes[column]
        if size <= 2:
            # A code that does not fit is refused by whoever counts it; here it must not turn into another code.
            return np.packbits(fitting(codes, 2, len(codes)).astype(np.uint8, copy=False))
        return np.ascontiguousarray(codes, dtype=code_dtype(size)).view(np.uint8)

    def _unpacked(self, column: int, stretch: _Stretch, rows: int) -> Codes:
        found, size = self._get(stretch), self._domain.sizes[column]
        return np.unpackbits(found, count=rows) if size <= 2 else found.view(code_dtype(size))

    def _forms(self, piece: _Piece) -> Forms:
        assert piece.lengths is not None
        assert piece.forms is not None
        ends = np.cumsum(self._get(piece.lengths).view(np.uint32), dtype=np.int64).tolist()
        whole = self._get(piece.forms).tobytes()
        found = np.empty(piece.rows, dtype=object)
        found[:] = [whole[start:end] for start, end in zip([0, *ends], ends)]
        return found

    def _put(self, data: NDArray[np.uint8]) -> _Stretch:
        size = len(data)
        if size <= self._room:
            self._room -= size
            return _Stretch(size, held=data.copy())
        self._room = 0  # what follows goes to the file, so that a pass reads it in order
        if self._file is None:
            # Nobody else may open it (mode 0600), and it has no name: it is gone when this process is.
            self._file = cast(BinaryIO, tempfile.TemporaryFile(buffering=0))  # noqa: SIM115
        place, left = self._end, data.data
        while len(left):
            written = os.pwrite(self._file.fileno(), left, self._end)
            self._end += written
            left = left[written:]
        return _Stretch(size, place=place)

    def _get(self, stretch: _Stretch) -> NDArray[np.uint8]:
        if stretch.held is not None:
            return stretch.held
        assert self._file is not None
        found = np.empty(stretch.size, dtype=np.uint8)
        left, place = found.data, stretch.place
        while len(left):
            read = os.preadv(self._file.fileno(), [left], place)
            if not read:
                raise OSError("what was put aside of the table is gone")
            place += read
            left = left[read:]
        return found
