"""Where rows come from, as one DuckDB relation for each pass."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from conspectus.data.column import suggestion
from conspectus.data.sources.lines import Tally


class SourceError(ValueError):
    """A source that cannot be read as the table of its schema. The message holds nothing of its rows."""


@dataclass(frozen=True)
class Origin:
    """A way to start a pass over the raw rows.

    `relation` makes a fresh DuckDB relation with at least the columns that it is asked for; `names` maps the names of
    the source to those of the relation; `filtered` says that some rows of the source were left out, so that their
    number is private; `tally` counts odd lines for the owner where rows are lines; `close` lets go of everything.
    """

    relation: Callable[[Collection[str]], Any]
    names: Mapping[str, str]
    filtered: bool = False
    tally: Callable[[], Tally] | None = None
    close: Callable[[], None] = lambda: None

    def column(self, name: str, what: str) -> str:
        """The relation's name of a column that the schema asks for."""
        if name in self.names:
            return self.names[name]
        cure = suggestion(name, self.names) or ": add it, or correct the name in the schema"
        raise SourceError(f'{what} has no column "{name}"{cure}')


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A value as an SQL string."""
    return "'" + value.replace("'", "''") + "'"


def connect(*, memory_limit: str | None = None) -> tuple[Any, Callable[[], None]]:
    """A database in memory that spills into a folder of its own, and the function that removes both."""
    spill = tempfile.TemporaryDirectory(prefix="conspectus-", ignore_cleanup_errors=True)
    connection = duckdb.connect(
        config={
            "temp_directory": spill.name,
            "preserve_insertion_order": False,  # the order of rows means nothing here, and keeping it costs memory
            "autoinstall_known_extensions": False,
            "python_enable_replacements": False,
            "TimeZone": "UTC",
            # It would bound ids by an aggregate, which cannot spill to disk.
            "disabled_optimizers": "top_n_window_elimination",
            **({"memory_limit": memory_limit} if memory_limit else {}),
        }
    )

    def close() -> None:
        connection.close()
        spill.cleanup()

    return connection, close


@contextmanager
def guarded(what: str) -> Iterator[None]:
    """Turn what DuckDB and Arrow report into one sentence: their own messages quote the rows."""
    try:
        yield
    except (duckdb.Error, pa.ArrowException) as problem:
        kind = type(problem).__name__.removesuffix("Exception").removesuffix("Error").removeprefix("Arrow")
        raise SourceError(
            f"{what} cannot be read as a table ({kind or 'unknown'} error): check that it is complete and well-formed"
        ) from None
