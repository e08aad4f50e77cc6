"""A Spark frame as a table: folds run where the rows lie, and only vectors of counts travel.

Spark runs a task again when it thinks that it was lost, and hands over what it has. A count that is missing, or there
twice, would be a wrong count and a wrong price. So every partition answers with a receipt, each has to be there exactly
once, and a frame whose partitions have other rows than in the pass before is refused: it has changed in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from conspectus.data.domain import Chunk
from conspectus.data.fold import Fold, FoldError, Result, Tell, Vectors, summed
from conspectus.data.schema import Schema
from conspectus.data.sources.origin import SourceError
from conspectus.data.sources.table import Table
from conspectus.interrupts import attentive

from .job import CANNOT, collected
from .partitions import (
    FAILED,
    LINES,
    RECEIPT,
    Batches,
    FileRows,
    Reading,
    bounded_rows,
    folded,
    folded_people,
    handed,
    of_files,
    receipt,
)
from .scan import over
from .spark_plan import Plan

Work = Callable[[Batches], Batches]

WHAT = "the Spark frame"
_ROWS_SETTING = "spark.sql.execution.arrow.maxRecordsPerBatch"
_ROWS = "65536"  # Spark's own default of 10,000 rows costs half as much again


def is_spark(source: object) -> bool:
    """Whether an object is a frame of Spark."""
    return type(source).__module__.partition(".")[0] == "pyspark" and type(source).__name__ == "DataFrame"


class SparkTable(Table):
    """The rows of a Spark frame in the codes of a schema, folded by Spark's executors.

    Args:
        frame: The frame; its plan maps each row by itself.
        schema: What the owner declares.
        public_seed: Keys the rule that decides which rows of an id are kept.

    Raises:
        SourceError: The frame lacks a column, mixes rows, or is of Spark Connect.

    Guarantee: every fold takes in each row of the frame once, in the codes that the same rows have in a file; a fold
    over lost, doubled or changed partitions is refused.
    """

    elsewhere = True

    def __init__(self, frame: Any, schema: Schema, *, public_seed: int) -> None:
        self.schema = schema
        if not hasattr(frame, "_jdf"):
            raise SourceError(
                "a frame of Spark Connect cannot be examined before it runs: open it in a classic session, or write it "
                "to Parquet and open that"
            )
        self._frame, self._seed = frame, public_seed
        self._places = [self._column(column.name) for column in schema.columns]
        who = schema.unit.column
        self._person = None if who is None else self._column(who)
        self._plan = Plan(frame)
        self._receipts: dict[int, int] | None = None

    def _column(self, name: str) -> int:
        """The place of a column."""
        if list(self._frame.columns).count(name) != 1:
            raise SourceError(f'{WHAT} has no column "{name}", or more than one: name it once')
        return list(self._frame.columns).index(name)

    @property
    def filtered(self) -> bool:
        return self._plan.filtered or self._person is not None

    @property
    def known_rows(self) -> int | None:
        return None

    @property
    def reads_records(self) -> bool:
        return False

    @attentive()
    def fold(self, fold: Fold[Result], tell: Tell | None = None) -> Result:
        """Run a public program over the rows, in Spark's executors: one job, which ends when this does.

        Args:
            fold: What to compute; it says which columns it reads.
            tell: Told how many tasks of the job are done.

        Returns:
            What the fold makes of all rows. It is exact, and as private as the rows.

        Raises:
            FoldError: The fold holds rows, which would all have to come here.
            SourceError: A partition was lost, failed, or has changed.
        """
        if fold.gathers or fold.records:
            raise FoldError(
                "this needs all rows in one place, and a Spark frame has them in many: write the frame to Parquet and "
                "open that"
            )
        # Adaptive execution joins and drops partitions by what they hold, and then nobody could say how many there are.
        session = self._frame.sparkSession
        with _set(session, {"spark.sql.adaptive.enabled": "false", _ROWS_SETTING: _ROWS}):
            lines = self._lines(fold)
            try:
                expected = int(lines._jdf.queryExecution().toRdd().getNumPartitions())
            except Exception:  # what Spark says may quote rows
                raise SourceError(CANNOT) from None
            found = collected(lines, tell)
        return fold.finish(*self._checked(fold, found, expected))

    def _lines(self, fold: Fold[Any]) -> Any:
        """The frame that makes the lines of a fold."""
        if self._person is None:
            source, reading = self._read(sorted(set(fold.columns)) or [0])
            return source(partial(folded, reading, fold), LINES)
        source, reading = self._read(range(len(self._places)))
        kinds = ", ".join([*(f"c{c} bigint" for c in range(len(self._places))), "person string"])
        kept = source(partial(bounded_rows, reading), kinds)
        count = max(1, int(kept._jdf.queryExecution().toRdd().getNumPartitions()))
        return kept.repartition(count, "person").mapInArrow(partial(folded_people, reading, fold), LINES)

    def _read(self, columns: Sequence[int]) -> tuple[Callable[[Work, str], Any], Reading]:
        """How work reaches the rows of some columns and the id, and how these rows are read there."""
        scan, reading = self._plan.scan, Reading(self.schema.to_dict(), self._seed)
        wanted = [self._places[column] for column in columns]
        codes = tuple(
            (column, name) for column, place in zip(columns, wanted) if (name := scan.origins[place]) is not None
        )
        person = None if self._person is None else scan.origins[self._person]
        reading = replace(reading, coded=frozenset(column for column, _ in codes), named=person is not None)
        idle = len(codes) == len(columns) and (self._person is None or person is not None)
        steps = self._plan.filtered or self._plan.moves or not idle
        inputs = tuple((name, kind) for _, name, kind, _ in scan.inputs) if steps else ()
        rows = FileRows(reading, inputs, codes, person, self._plan.capitals)
        # One file a partition, by its own number: a second run deals them as the first one did.
        dealt = self._frame.sparkSession.sparkContext.parallelize(scan.files, max(1, len(scan.files)))
        files = self._frame.sparkSession.createDataFrame(dealt, "file string, folders string")
        if not steps:
            return lambda work, kinds: files.mapInArrow(partial(of_files, rows, work), kinds), reading
        kinds = [
            *(kind for *_, kind in scan.inputs),
            *["bigint"] * len(codes),
            *["string"] * (person is not None),
            "boolean",
        ]
        read = files.mapInArrow(partial(handed, rows), ", ".join(map(" ".join, zip(rows.names, kinds))))
        chosen = [f"c{c}" if c in reading.coded else f"o{place}" for c, place in zip(columns, wanted)]
        if self._person is not None:
            chosen.append("person" if person is not None else f"o{self._person}")
        return over(self._frame, scan, read).select(*chosen).mapInArrow, reading

    def _checked(self, fold: Fold[Any], found: Sequence[Any], expected: int) -> tuple[Vectors, int]:
        """The sums of all lines, where each partition is there once, whole, and with as many rows as before."""
        if any(line.place == FAILED for line in found):
            raise SourceError(f"{WHAT} has a partition that cannot be read: check that its files are complete")
        parts: dict[int, dict[int, Any]] = {}
        for line in found:
            if line.place in parts.setdefault(line.part, {}):
                raise SourceError(f"{WHAT} handed over a partition twice: run it again")
            parts[line.part][line.place] = line
        whole = all(
            RECEIPT in lines
            and set(lines) == {RECEIPT, *range(len(lines) - 1)}
            and len({line.rows for line in lines.values()}) == 1
            and bytes(lines[RECEIPT].numbers) == receipt(part, lines[RECEIPT].rows, _vectors(lines))
            for part, lines in parts.items()
        )
        if set(parts) != set(range(expected)) or not whole:
            raise SourceError(f"{WHAT} did not hand over all of its partitions: run it again")
        receipts = {part: int(lines[RECEIPT].rows) for part, lines in parts.items()}
        known = receipts if not self._plan.moves else {0: sum(receipts.values())}
        if self._receipts is None:
            self._receipts = known
        elif known != self._receipts:
            raise SourceError(f"{WHAT} has other rows than in the pass before: let nobody write to its files")
        vectors = (
            tuple(np.frombuffer(numbers, dtype="<i8") for numbers in _vectors(lines))
            for _, lines in sorted(parts.items())
        )
        return summed(fold, vectors), sum(receipts.values())

    def chunks(self, columns: Sequence[int] | None = None, rows: int = 1 << 17) -> Iterator[Chunk]:
        raise FoldError("the rows of a Spark frame do not come here: write the frame to Parquet and open that")

    def raw(self, columns: Sequence[int], rows: int = 1 << 17) -> Iterator[pa.RecordBatch]:
        raise SourceError("the rows of a Spark frame do not come here: write the frame to Parquet and check that")

    def recoded(self, schema: Schema) -> SparkTable:
        """The same rows in the codes of another schema, whose columns have the same names."""
        if self._person is not None:
            raise SourceError("of ids in a Spark frame the same rows cannot be kept twice: write the frame to Parquet")
        return SparkTable(self._frame, schema, public_seed=self._seed)

    def tally(self) -> None:
        return None

    def close(self) -> None:
        """Nothing: the frame is its owner's."""


@contextmanager
def _set(session: Any, settings: dict[str, str]) -> Iterator[None]:
    """Some settings of a session for a while."""
    usual = {name: session.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            session.conf.set(name, value)
        yield
    finally:
        for name, value in usual.items():
            session.conf.set(name, value)


def _vectors(lines: dict[int, Any]) -> list[bytes]:
    return [bytes(lines[place].numbers) for place in range(len(lines) - 1)]
