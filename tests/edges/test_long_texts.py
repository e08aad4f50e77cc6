"""Long texts stop nothing, ask for no memory in the place of others, and show no length.

One person's long text in a dictionary stood for the length of all others: room for rows × mean length was asked for,
and where a machine has less, everybody's release stopped. Each case runs in a process of its own with little room.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOM = 512 << 20
START = """
import resource, sys
import numpy as np, pandas as pd, polars as pl, pyarrow as pa, pyarrow.parquet as pq
from conspectus.data.columns.kinds import Boolean, Categorical, Date, Integer, Number
from conspectus.data.records.fingerprints import fingerprints
from conspectus.data.schema import Schema, Unit
from conspectus.data.sources import SourceError, open_pairs, open_records, open_table
import datetime

LONG = "x" * (1 << 22)
ROWS = 1 << 16
LISTED = Categorical("v", ("a", "1"), other=True, missing=True)
DAY = Date("v", datetime.date(2020, 1, 1), datetime.date(2021, 1, 1), missing=True)
NUMBER = Number("v", (0, 1, 2), missing=True)
KINDS = (LISTED, DAY, NUMBER, Boolean("v", missing=True), Integer("v", 0, 9, missing=True))

def column(long=1, values=("a", "1", LONG), kind=pa.string()):
    places = np.arange(ROWS) % 2
    places[ROWS // 2 : ROWS // 2 + long] = 2
    return pa.DictionaryArray.from_arrays(pa.array(places.astype(np.int32)), pa.array(values, kind))

def codes(source, kind, unit=Unit()):
    with open_table(source, Schema("t", (kind,), unit)) as table:
        return np.concatenate([chunk.column(0) for chunk in table.chunks()])

def little_room(most):
    held = int(open("/proc/self/statm").read().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (held + most, held + most))

for kind in KINDS:
    codes(pa.table({"v": ["a"], "who": ["1"]}), kind, Unit("id", "who", 1))  # what is loaded once is loaded now
"""


def run(script: str, room: int = ROOM, folder: Path | None = None) -> str:
    whole = START + f"little_room({room})\n" + textwrap.dedent(script)
    arguments = [sys.executable, "-c", whole, str(folder or "")]
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=1200, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


linux = pytest.mark.skipif(sys.platform != "linux", reason="room is bounded by the address space")


@linux
def test_one_long_text_in_a_dictionary_asks_for_no_memory_of_others() -> None:
    run(
        """
        for kind in (pa.string(), pa.large_string()):
            for each in KINDS:
                found = codes(pa.table({"v": column(kind=kind)}), each)
                short = codes(pa.table({"v": column(values=("a", "1", "xxx"), kind=kind)}), each)
                assert (np.sort(found) == np.sort(short)).all() and len(found) == ROWS, each
        """
    )


@linux
def test_a_long_text_that_many_share_is_read_once() -> None:
    run(
        """
        for source in (pa.table({"v": column(ROWS // 2)}), pd.DataFrame({"v": column(ROWS // 2).to_pandas()})):
            assert np.bincount(codes(source, LISTED)).tolist() == [ROWS // 4, ROWS // 4, ROWS // 2]
        table = pa.table({"v": column(ROWS // 2)})
        (chunk, *rest) = open_records(table).chunks()
        assert len(set(chunk.column(0).tolist())) == 3
        """
    )


@linux
def test_runs_of_a_long_text_are_not_written_out() -> None:
    run(
        """
        runs = pa.RunEndEncodedArray.from_arrays([ROWS // 2, ROWS], pa.array([LONG, "a"]))
        made = pa.table({"v": runs, "who": runs})
        assert np.bincount(codes(made, LISTED)).tolist() == [ROWS // 2, 0, ROWS // 2]
        assert len(codes(made, LISTED, Unit("id", "who", 2))) == 4
        (chunk, *rest) = open_records(made, "v").chunks()
        assert len(set(chunk.column(0).tolist())) == 2
        """
    )


@linux
def test_long_ids_and_long_users_are_bounded() -> None:
    run(
        """
        for long in (1, ROWS // 2):
            made = pa.table({"v": column(), "who": column(long)})
            assert len(codes(made, LISTED, Unit("id", "who", 2))) == 4 + min(2, long)
            with open_pairs(made, "who", "v", items=["a", "1"]) as pairs:
                assert sum(chunk.rows for chunk in pairs.chunks()) == 3
        """
    )


@linux
def test_dictionaries_of_parquet_files_stay_dictionaries(tmp_path: Path) -> None:
    run(
        """
        path = sys.argv[1] + "/t.parquet"
        pq.write_table(pa.table({"v": column()}), path)
        found = codes(__import__("pathlib").Path(path), LISTED)
        assert np.bincount(found).tolist()[2] == 1 and len(found) == ROWS
        found = codes(f"SELECT v FROM '{path}'", LISTED)
        assert np.bincount(found).tolist()[2] == 1 and len(found) == ROWS
        """,
        folder=tmp_path,
    )


@linux
def test_a_failure_for_want_of_memory_says_one_sentence() -> None:
    """Where it must fail, the sentence is the same for every length, and there is nothing behind it."""
    said = {
        run(
            f"""
            made = pa.table({{"v": pa.array(["y" * {length}] + [str(n) for n in range(ROWS)])}})
            little_room({length} // 2)
            try:
                codes(made, LISTED)
            except SourceError as problem:
                assert problem.__suppress_context__
                print(problem)
            """,
            room=1 << 31,
        )
        for length in (1 << 27, 3 << 26)
    }
    assert said == {"the table cannot be read as a table: check that it is complete and well-formed\n"}


BIG = """
import duckdb, pathlib
made = pd.DataFrame({"v": pd.Series([LONG] * 600 + ["a"], dtype=object), "who": range(601)})
path = pathlib.Path(sys.argv[1]) / "t.parquet"

def written():
    pq.write_table(pa.Table.from_pandas(made), path, use_dictionary=False)
    return path

def owned():
    duckdb.sql("CREATE TABLE t AS SELECT if(i < 600, repeat('x', 4194304), 'a') AS v, i AS who FROM range(601) AS r(i)")
    return duckdb.table("t")
"""
WAYS = {
    "objects": "made",
    "texts of Python": "made.astype({'v': pd.StringDtype('python')})",
    "texts of Arrow": "made.astype({'v': pd.StringDtype('pyarrow')})",
    "polars": "pl.DataFrame({'v': [LONG] * 600 + ['a'], 'who': range(601)})",
    "Parquet": "written()",
    "SELECT": "f\"SELECT * FROM '{written()}'\"",
    "DuckDB": "owned()",
}


@pytest.mark.audit
@pytest.mark.parametrize("way", WAYS)
def test_more_than_two_gibibytes_of_text_in_one_batch(way: str, tmp_path: Path) -> None:
    """An array of Arrow holds less than that: whoever has long texts would stop the pass."""
    script = f"""
{BIG}
source = {WAYS[way]}
assert np.bincount(codes(source, LISTED, Unit("id", "v", 2))).tolist() == [1, 0, 2]
"""
    run(script, room=20 << 30, folder=tmp_path)
