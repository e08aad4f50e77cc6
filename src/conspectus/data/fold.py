"""A fold: a public program that is run over the rows of a table, wherever they lie.

Counting pulls no rows to itself. It hands the table a `Fold`, and the table decides how its rows are split: chunk after
chunk in this process, or page ranges and partitions elsewhere. Each share of the rows has a `Part`, which holds vectors
of whole numbers. Vectors of several parts ADD, over any split of the rows, empty shares included: that is the whole
contract, and `tests/laws/test_folds.py` holds every kind of question to it.

Some folds must hold rows (functions of one's own, the codes that are put aside). Their parts do not add. They say so by
`gathers`, so that a table whose rows lie in several places can refuse them, with a cure, before it reads anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from conspectus.compiled import processors

from .domain import CodedRows, Codes, Domain, code_dtype

Vectors = tuple[NDArray[np.int64], ...]
Tell = Callable[[int, int], None]
"""Told how many parts of the rows are done, and how many there are; never how many rows they hold."""
Result = TypeVar("Result")
Result_co = TypeVar("Result_co", covariant=True)


class FoldError(ValueError):
    """A fold that cannot be run where its rows lie."""


class Part(Protocol):
    """What a fold holds of one share of the rows."""

    def add(self, chunk: CodedRows) -> None:
        """Take in some rows."""

    def vectors(self) -> Vectors:
        """Whole numbers that add up with those of any other part of the same fold."""


class Fold(Protocol[Result_co]):
    """A public program over rows: how to begin on a share of them, and what the sums of all shares mean."""

    @property
    def columns(self) -> tuple[int, ...]:
        """The positions of the columns that it reads."""

    @property
    def records(self) -> bool:
        """Whether it reads the canonical forms of records, where each row is one record of any kind."""

    @property
    def gathers(self) -> bool:
        """Whether it holds rows, so that it has one part and all rows must come to it."""

    @property
    def keyed(self) -> bool:
        """Whether its two vectors are keys, each once, and their counts: then counts of the same key add."""

    def start(self, threads: int = 1, pool: Executor | None = None) -> Part:
        """A part without rows, which may spread its work over `threads` threads of a pool."""

    def finish(self, vectors: Vectors, rows: int) -> Result_co:
        """The result, from the sums of the vectors of all parts and the number of rows they took in."""


class Gather(Generic[Result]):
    """A fold that holds rows: it is its own only part."""

    columns: tuple[int, ...] = ()
    records = False
    gathers = True
    keyed = False

    def start(self, threads: int = 1, pool: Executor | None = None) -> Part:
        return self

    def add(self, chunk: CodedRows) -> None:
        raise NotImplementedError

    def vectors(self) -> Vectors:
        return ()

    def finish(self, vectors: Vectors, rows: int) -> Result:
        raise NotImplementedError


class RowCount(Gather[int]):
    """The number of rows: a fold that reads no column and holds nothing."""

    gathers = False

    def add(self, chunk: CodedRows) -> None:
        """Nothing: whoever runs a fold counts the rows it was given."""

    def finish(self, vectors: Vectors, rows: int) -> int:
        return rows


class CodesInMemory(Gather[tuple[Codes, ...]]):
    """The codes of some columns of all rows, in one array each."""

    def __init__(self, domain: Domain, columns: Sequence[int]) -> None:
        self.columns = tuple(columns)
        self._kinds = [code_dtype(domain.sizes[column]) for column in columns]
        self._held: list[list[Codes]] = [[] for _ in columns]

    def add(self, chunk: CodedRows) -> None:
        for column, kind, held in zip(self.columns, self._kinds, self._held):
            held.append(np.asarray(chunk.column(column), dtype=kind))

    def finish(self, vectors: Vectors, rows: int) -> tuple[Codes, ...]:
        return tuple(np.concatenate([np.zeros(0, kind), *held]) for kind, held in zip(self._kinds, self._held))


class Beside(Generic[Result]):
    """A fold, and others without vectors in the same pass: the rows are read once for all of them."""

    def __init__(self, fold: Fold[Result], *others: Fold[Any]) -> None:
        every = (fold, *others)
        self._fold, self._others = fold, others
        self.columns = tuple(sorted({column for each in every for column in each.columns}))
        self.records = any(each.records for each in every)
        self.gathers = any(each.gathers for each in every)
        self.keyed = fold.keyed

    def start(self, threads: int = 1, pool: Executor | None = None) -> Part:
        return _Parts(self._fold.start(threads, pool), [other.start() for other in self._others])

    def finish(self, vectors: Vectors, rows: int) -> tuple[Result, tuple[Any, ...]]:
        return self._fold.finish(vectors, rows), tuple(other.finish((), rows) for other in self._others)


class _Parts:
    def __init__(self, part: Part, others: Sequence[Part]) -> None:
        self._part, self._others = part, others

    def add(self, chunk: CodedRows) -> None:
        for part in (*self._others, self._part):
            part.add(chunk)

    def vectors(self) -> Vectors:
        return self._part.vectors()


def fold_chunks(
    fold: Fold[Result],
    chunks: Iterable[CodedRows],
    *,
    threads: int | None = None,
    each: Callable[[], None] | None = None,
    stop: Callable[[], None] | None = None,
) -> Result:
    """Run a fold over chunks of rows in this process: the next chunk is read while the last one is taken in.

    Args:
        fold: What to compute.
        chunks: The rows, with at least the columns that the fold reads.
        threads: How many threads count; by default as many as there are processors.
        each: Called here after every chunk that was taken in.
        stop: Ends what makes the chunks. It is called when the fold is given up, by an error or by Ctrl-C, since the
            next chunk may be long in coming.

    Returns:
        What the fold makes of the rows.
    """
    workers = threads if threads is not None else processors()
    if workers < 1:
        raise ValueError("counting needs at least one thread")
    rows = 0
    with ThreadPoolExecutor(workers) as pool, ThreadPoolExecutor(1) as reader:
        part = fold.start(workers, pool)
        rest = iter(chunks)
        complete = False
        try:
            coming = reader.submit(next, rest, None)
            while (chunk := coming.result()) is not None:
                coming = reader.submit(next, rest, None)
                part.add(chunk)
                rows += chunk.rows
                if each is not None:
                    each()
            complete = True
        finally:
            if stop is not None and not complete:
                stop()
        return fold.finish(part.vectors(), rows)


def summed(fold: Fold[Any], parts: Iterable[Vectors]) -> Vectors:
    """The vectors of several parts of one fold as those of one part; without any part, those of no rows.

    Raises:
        FoldError: The fold holds rows, and was run in more than one part.
    """
    total: Vectors | None = None
    for vectors in parts:
        if total is None:
            total = tuple(vectors)
        elif fold.gathers:
            raise FoldError(
                "these questions need all rows in one place, and this table has them in several: pass it as a frame, "
                "or as a Parquet file"
            )
        elif fold.keyed:
            total = merged_keys([total, vectors])
        else:
            total = tuple(mine + theirs for mine, theirs in zip(total, vectors, strict=True))
    return fold.start().vectors() if total is None else total


def merged_keys(parts: Sequence[Vectors]) -> Vectors:
    """Keys and counts of several shares of the rows together, in the order of the keys as whole numbers from 0 on."""
    keys = np.concatenate([keys for keys, _ in parts]).view(np.uint64)
    found, places = np.unique(keys, return_inverse=True)
    counts = np.zeros(len(found), dtype=np.int64)
    np.add.at(counts, places, np.concatenate([counts for _, counts in parts]))
    return found.view(np.int64), counts
