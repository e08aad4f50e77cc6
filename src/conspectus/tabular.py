"""Results that people can use: as a frame of pandas, polars or Arrow, as plain values, in a notebook, as a picture.

Nothing here reads a table of people: what is shown was published, or is public.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from conspectus.plain_text import escape, plain
from conspectus.suggestions import suggest_keywords

MOST_LINES = 20
"""How many lines of a table a notebook or a prompt shows."""

MOST_BARS = 60
"""How many bars a picture has room for."""

_EXTRAS = {"pandas": "pandas", "polars": "polars", "matplotlib.pyplot": "conspectus[plot]"}


class NotInstalled(ImportError):
    """Another library is needed for this, and is not there; the message says how to get it."""


class CannotPlot(ValueError):
    """A result without a number that a picture could show."""


def foreign(name: str) -> Any:
    """A module of another library, or a sentence that says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        wanted = _EXTRAS[name]
        raise NotInstalled(f'this needs {name.partition(".")[0]}: install it, as in pip install "{wanted}"') from None


@dataclass(frozen=True, kw_only=True)
class Bars:
    """What a picture shows: one bar for each label, with the ends of its interval where it has one."""

    labels: Sequence[str]
    sizes: Sequence[float | None]
    lows: Sequence[float | None]
    highs: Sequence[float | None]
    axis: str


@suggest_keywords
class Tabular(ABC):
    """A result with a few ways out: Arrow, pandas, polars, plain values, HTML for a notebook, and a picture."""

    @abstractmethod
    def to_arrow(self) -> pa.Table:
        """The result as an Arrow table."""

    def to_pandas(self) -> Any:
        """The result as a pandas DataFrame.

        Raises:
            NotInstalled: pandas is not there; the message says how to install it.
        """
        foreign("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """The result as a polars DataFrame.

        Raises:
            NotInstalled: polars is not there; the message says how to install it.
        """
        return foreign("polars").from_arrow(self.to_arrow())

    def to_dict(self) -> dict[str, Any]:
        """The result as plain Python values: a list for each column."""
        columns: dict[str, Any] = self.to_arrow().to_pydict()
        return columns

    def plot(self, *, axes: Any = None) -> Any:
        """Draw the result, with its intervals, with matplotlib.

        Args:
            axes: The axes of matplotlib to draw on; new ones by default.

        Returns:
            The axes.

        Raises:
            CannotPlot: There is no number to draw.
            NotInstalled: matplotlib is not there; the message says how to install it.
        """
        bars = self._bars()
        if axes is None:
            _, axes = foreign("matplotlib.pyplot").subplots(
                figsize=(7, 1 + 0.3 * min(len(bars.labels), MOST_BARS)), layout="constrained"
            )
        _draw(axes, bars)
        return axes

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """For other libraries: pandas, polars and DuckDB read whatever has this."""
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        table = self.to_arrow()
        head = "".join(f"<th>{escape(name)}</th>" for name in table.column_names)
        cells = _lines_of(table, self._labels(), MOST_LINES)
        lines = ("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in line) + "</tr>" for line in cells)
        more = table.num_rows - MOST_LINES
        rest = f"<p>… and {more:,} more lines</p>" if more > 0 else ""
        said = f"<p>{escape(text)}</p>" if (text := self._heading()) else ""
        return f"{said}<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>{rest}"

    def _heading(self) -> str:
        """What stands above the table in a notebook."""
        return ""

    def _labels(self) -> Sequence[str]:
        """The columns that say which line is which."""
        return ()

    def _bars(self) -> Bars:
        """What a picture shows."""
        raise CannotPlot("this result has no numbers to draw")


@dataclass(frozen=True, eq=False)
class ResultTable(Tabular):
    """A table of results: label columns, and numbers with the ends of their intervals beside them.

    What an Arrow table can do, this can do too: `table["count"]`, `table.num_rows`, `table.to_pylist()` and so on.

    Attributes:
        arrow: The table itself.
        labels: The names of the columns that say which line is which.
        measures: For each number its column, and the columns of its interval's ends.
        notes: What must be said besides.

    Example:
        >>> counts = pa.table({"sex": ["female", "male"], "count": [7, 5], "low": [6, 3], "high": [9, 6]})
        >>> made = ResultTable(counts, ("sex",), (("count", "low", "high"),))
        >>> made["count"].to_pylist(), made.num_rows, made.to_dict()["sex"]
        ([7, 5], 2, ['female', 'male'])
        >>> print(made)
        sex     count  low  high
        female      7    6     9
        male        5    3     6
    """

    arrow: pa.Table
    labels: tuple[str, ...]
    measures: tuple[tuple[str, str, str], ...]
    notes: tuple[str, ...] = ()

    def to_arrow(self) -> pa.Table:
        """The result as an Arrow table, in the values of the schema."""
        return self.arrow

    def equals(self, other: ResultTable | pa.Table) -> bool:
        """Whether another table has the same columns and lines."""
        return bool(self.arrow.equals(other.arrow if isinstance(other, ResultTable) else other))

    def __getitem__(self, key: int | str) -> pa.ChunkedArray:
        return self.arrow[key]

    def __len__(self) -> int:
        return int(self.arrow.num_rows)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "arrow":  # nothing of ours is looked for in a table that is not there yet
            raise AttributeError(name)
        return getattr(self.arrow, name)

    def to_text(self, lines: int | None = MOST_LINES) -> str:
        """The table as plain text, with what must be said besides under it.

        Args:
            lines: How many lines are shown at most; None for all.

        Returns:
            One line for each line of the table, after one with the names of its columns.
        """
        return "\n".join([*text_lines(self.arrow, self.labels, lines), *self.notes])

    def __str__(self) -> str:
        return self.to_text()

    __repr__ = __str__

    def _heading(self) -> str:
        return "; ".join(self.notes)

    def _labels(self) -> Sequence[str]:
        return self.labels

    def _bars(self) -> Bars:
        if not self.measures:
            raise CannotPlot("this table has no numbers to draw")
        size, low, high = self.measures[0]
        shown = self.arrow.slice(0, MOST_BARS)
        names = [shown[name].to_pylist() for name in self.labels]
        labels = [", ".join(map(_label, line)) for line in zip(*names)] if names else [size] * shown.num_rows
        sizes, lows, highs = (shown[name].to_pylist() for name in (size, low, high))
        return Bars(labels=labels, sizes=sizes, lows=lows, highs=highs, axis=size)


def write_table(made: pa.Table, sink: Path | BinaryIO, kind: str) -> None:
    """Write a table as what the ending of a file says: ".csv" or ".parquet"."""
    if isinstance(sink, Path):
        with sink.open("wb") as file:  # opened here: a name may be of any bytes, and Arrow takes texts
            write_table(made, file, kind)
        return
    if kind == ".parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(made, sink)
        return
    import pyarrow.csv

    for place, field in enumerate(made.schema):
        if pa.types.is_binary(field.type):  # CSV holds texts: bytes are written as Python writes them
            spelled = [None if raw is None else repr(raw) for raw in made.column(place).to_pylist()]
            made = made.set_column(place, field.name, [spelled])
    pyarrow.csv.write_csv(made, sink)


def text_lines(table: pa.Table, labels: Sequence[str] = (), lines: int | None = MOST_LINES) -> list[str]:
    """A table as lines of plain text, numbers to the right.

    Args:
        table: The table.
        labels: The columns that say which line is which: what is missing there is NULL, and a year has no comma.
        lines: How many lines are shown at most; None for all.
    """
    most = None if lines is None else min(lines, table.num_rows)
    names, body = [plain(name) for name in table.column_names], _lines_of(table, labels, most)
    right = [pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in table.schema.types]
    widths = [max(map(len, column)) for column in zip(names, *body)]
    made = []
    for line in (names, *body):
        cells = (cell.rjust(width) if end else cell.ljust(width) for cell, width, end in zip(line, widths, right))
        made.append("  ".join(cells).rstrip())
    more = table.num_rows - len(body)
    return [*made, f"… and {more:,} more lines"] if more > 0 else made


def _lines_of(table: pa.Table, labels: Sequence[str], lines: int | None) -> list[list[str]]:
    """The first lines of a table as texts."""
    ways = [_label if name in labels else _cell for name in table.column_names]
    columns = [column.to_pylist() for column in table.slice(0, lines).columns]
    return [[plain(way(value)) for way, value in zip(ways, line)] for line in zip(*columns)]


def _cell(value: object) -> str:
    """A quantity, with a comma at each thousand."""
    if value is None:
        return "—"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _label(value: object) -> str:
    """A value that says which line it is, written out: it is no quantity."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _draw(axes: Any, bars: Bars) -> None:
    """Bars that lie, the first on top, each with its interval."""
    if not bars.labels or all(size is None for size in bars.sizes):
        raise CannotPlot("there is no number to draw: the result is empty")
    places = range(len(bars.labels))
    axes.barh(places, [0.0 if size is None else size for size in bars.sizes], color="#7a8fc4")
    for place, size, low, high in zip(places, bars.sizes, bars.lows, bars.highs):
        if size is not None and low is not None and high is not None:
            reach = [[max(size - low, 0.0)], [max(high - size, 0.0)]]
            axes.errorbar([size], [place], xerr=reach, fmt="none", ecolor="#222222", capsize=3)
    axes.set_yticks(list(places), labels=list(bars.labels))
    axes.invert_yaxis()
    axes.set_xlabel(bars.axis)
