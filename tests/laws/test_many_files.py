"""Many files are one table: every split of the rows over files and folders reads as the rows together."""

from __future__ import annotations

import glob
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import fs
from tests.laws.test_folds import BLOCKS, SCHEMA

import conspectus as cs
from conspectus import server_address
from conspectus.counting.counters import Counting
from conspectus.data.fold import RowCount
from conspectus.data.sources import SourceError, Table, many_files
from conspectus.queries.workload import Workload


def made(size: int = 300) -> pa.Table:
    draw = np.random.Generator(np.random.PCG64(3))
    return pa.table(
        {
            "a": draw.integers(0, 6, size),
            "b": draw.integers(0, 2, size).astype(bool),
            "c": draw.choice(["x", "y", "z", "w"], size),
            "d": draw.integers(0, 2, size).astype(bool),
        }
    )


def codes(table: Table) -> list[tuple[int, ...]]:
    width = len(table.domain)
    return sorted(row for chunk in table.chunks() for row in zip(*(chunk.column(c).tolist() for c in range(width))))


def write(rows: pa.Table, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.name.endswith(".parquet"):
        pq.write_table(rows, path)
    else:
        pc.write_csv(rows, path)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("kind", ["marginal", "unions", "parities"])
def test_every_split_of_the_rows_adds_up(tmp_path: Path, ending: str, kind: str) -> None:
    rows, counting = made(), Counting(Workload(SCHEMA.domain, BLOCKS[kind]))
    expected, _ = cs.open_table(rows, SCHEMA).fold(counting)
    for at, (low, high) in enumerate(((0, 1), (1, 1), (1, 120), (120, 300))):
        write(rows.slice(low, high - low), tmp_path / f"part-{at}" / f"rows.{ending}")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "part-0" / f".rows.{ending}.crc").touch()
    for source in (tmp_path, tmp_path / "*" / f"*.{ending}", str(tmp_path / "**" / f"*.{ending}")):
        found, count = cs.open_table(source, SCHEMA).fold(Counting(Workload(SCHEMA.domain, BLOCKS[kind])))
        assert count == 300
        assert (found == expected).all()


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_folders_name_values(tmp_path: Path, ending: str) -> None:
    rows = made()
    for value in "xyzw":
        part = rows.filter(pa.compute.equal(rows["c"], value)).drop_columns(["c"])
        write(part, tmp_path / f"c={value}" / "d" / f"rows.{ending}")
    assert codes(cs.open_table(tmp_path, SCHEMA)) == codes(cs.open_table(rows, SCHEMA))
    release = cs.release(cs.open_table(tmp_path, SCHEMA), cs.marginals(SCHEMA, 1), epsilon=1.0, mechanism="laplace")
    assert len(release.answers) == SCHEMA.domain.sizes[0] + 2 + SCHEMA.domain.sizes[2] + 2


@given(st.text(st.characters(codec="utf-8", exclude_characters="/\x00"), min_size=1, max_size=20))
@settings(max_examples=60, deadline=None)
def test_a_folder_says_what_was_written_under_it(value: str) -> None:
    from urllib.parse import quote

    expected: dict[str, str | None] = {"year": value, "kind": None}
    place = f"data/year={quote(value, safe=' ')}/kind=__HIVE_DEFAULT_PARTITION__/rows.parquet"
    assert many_files.keys_of_folders(place) == expected


def test_one_odd_folder_changes_no_other_row(tmp_path: Path) -> None:
    """Types of partitions are never guessed from their names: 1 and 01 stay what they are beside a word."""
    declared = {"name": "y", "columns": {"k": {"type": "categorical", "values": ["1", "01", "x"], "other": True}}}
    schema = cs.Schema.from_dict(declared)
    rows = pa.table({"v": [1, 2]})
    write(rows, tmp_path / "k=1" / "a.parquet")
    write(rows, tmp_path / "k=01" / "a.parquet")
    before = codes(cs.open_table(tmp_path, schema))
    write(rows.slice(0, 1), tmp_path / "k=somebody" / "a.parquet")
    assert codes(cs.open_table(tmp_path, schema)) == sorted([*before, (3,)])
    assert before == [(0,), (0,), (1,), (1,)]


def test_a_file_in_which_nobody_has_a_value_stops_nothing(tmp_path: Path) -> None:
    """Somebody who is alone in a file without a value: it was refused, as its column had another type."""
    rows = made(20)
    write(rows, tmp_path / "a.parquet")
    alone = pa.table({"a": [1], "b": [True], "c": pa.nulls(1), "d": pa.nulls(1)})
    write(alone, tmp_path / "b.parquet")
    same = pa.concat_tables([rows, alone.cast(rows.schema)])
    for schema in (
        SCHEMA,
        cs.Schema.from_dict({**SCHEMA.to_dict(), "unit": {"kind": "id", "column": "a", "max_rows": 2}}),
    ):
        assert codes(cs.open_table(tmp_path, schema)) == codes(cs.open_table(same, schema))


WITHOUT = {
    "parquet": {"no columns": (None, 0), "others": (pa.table({"e": ["x"]}), 1), "no rows": (made(0), 0)},
    "csv": {
        "no bytes": (b"", 0),
        "no columns": (b"\n", 0),
        "nothing, thrice": (b"\n\n\n\n", 3),
        "others": (b"e\nx\n", 1),
        "others, with an empty line": (b"e;f\nx;y\n\n", 1),
        "a quotation mark": (b'e"f\nx\n', 1),
        "no rows": (b"a,b,c,d\n", 0),
    },
}
"""Files in which nobody has a value, and how many rows they hold: what one row that is alone in its file may make."""


@pytest.mark.parametrize(("ending", "what"), [(ending, what) for ending, found in WITHOUT.items() for what in found])
def test_a_file_without_any_of_the_columns_stops_nothing(tmp_path: Path, ending: str, what: str) -> None:
    """It was refused as a file of another table, where one person decided which columns it has."""
    rows, (other, count) = made(20), WITHOUT[ending][what]
    write(rows, tmp_path / f"a.{ending}")
    if isinstance(other, bytes):
        (tmp_path / f"b.{ending}").write_bytes(other)
    else:
        write(pa.table({}) if other is None else other, tmp_path / f"b.{ending}")
    same = pa.concat_tables([rows, pa.table({name: pa.nulls(count, rows[name].type) for name in rows.column_names})])
    sources: list[Any] = [tmp_path, tmp_path / f"*.{ending}"]
    if ending == "parquet":
        sources.append(f"SELECT a, b, c, d FROM read_parquet('{tmp_path}/*.parquet')")
    for source in sources:
        assert codes(cs.open_table(source, SCHEMA)) == codes(cs.open_table(same, SCHEMA)), source
    release = cs.release(cs.open_table(tmp_path, SCHEMA), cs.marginals(SCHEMA, 1), epsilon=1.0, mechanism="laplace")
    assert release.total.value == 20 + count


@pytest.mark.parametrize(
    "raw", [b"c=\xff", b"c=%ff", b"c=\xed\xa0\x80", b"c=%ED%A0%80", "c=\ufffd".encode(), b"\xff=x"]
)
@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_the_bytes_of_a_name_stop_nothing(tmp_path: Path, ending: str, raw: bytes) -> None:
    """A name that is no UTF-8 is a value that cannot be read, and a file of any name is read."""
    rows = made(6).drop_columns(["c"])
    for folder in (b"c=x", raw):
        place = os.path.join(os.fsencode(tmp_path), folder)
        os.makedirs(place)
        write(rows, tmp_path / f"rows.{ending}")
        shutil.move(tmp_path / f"rows.{ending}", os.path.join(place, b"\xff." + ending.encode()))
    known = pa.concat_tables([rows.append_column("c", pa.array([c] * 6, pa.string())) for c in ("x", None)])
    assert codes(cs.open_table(tmp_path, SCHEMA)) == codes(cs.open_table(known, SCHEMA))


def test_unreadable_names_of_folders_stay_different_ids(tmp_path: Path) -> None:
    schema = cs.Schema.from_dict({**SCHEMA.to_dict(), "unit": {"kind": "id", "column": "who", "max_rows": 1}})
    for number, folder in enumerate((b"who=\xff", b"who=%fe", b"who=\xff\xff", b"who=%ff", b"who=a")):
        os.makedirs(os.path.join(os.fsencode(tmp_path), folder))
        write(made(4), tmp_path / f"{number}.parquet")
        shutil.move(tmp_path / f"{number}.parquet", os.path.join(os.fsencode(tmp_path), folder, b"a.parquet"))
    assert len(codes(cs.open_table(tmp_path, schema))) == 4  # the same byte is the same id, however it is written


def test_what_is_no_table_is_refused(tmp_path: Path) -> None:
    write(made(), tmp_path / "mixed" / "a.parquet")
    write(made(), tmp_path / "mixed" / "b.csv")
    write(made(), tmp_path / "other" / "a.parquet")
    write(pa.table({"A": [1], "e": ["x"]}), tmp_path / "nothing" / "b.parquet")
    write(pa.table({"A": [1], "e": ["x"]}), tmp_path / "words" / "b.csv")
    write(made().drop_columns(["d"]), tmp_path / "nowhere" / "a.parquet")
    pq.write_table(pa.table([[1], [2], [True]], names=["a", "a", "b"]), tmp_path / "other" / "twins.parquet")
    write(made(), tmp_path / "twins" / "a.parquet")
    shutil.move(tmp_path / "other" / "twins.parquet", tmp_path / "twins" / "b.parquet")
    (tmp_path / "empty").mkdir()
    for name, why in (
        ("mixed", "CSV and Parquet"),
        ("nothing", "no file with any of the columns"),
        ("words", "no file with any of the columns"),
        ("nowhere", 'no column "d"'),
        ("twins", "two columns"),
        ("empty", "no file"),
        ("nowhere/*.csv", "no file"),
    ):
        with pytest.raises(SourceError, match=why):
            cs.open_table(tmp_path / name, SCHEMA).fold(RowCount())
    with pytest.raises(SourceError, match="cannot be found in its store") as caught:
        cs.open_table("s3://key:secret-word@bucket/rows?endpoint_override=127.0.0.1:1&scheme=http", SCHEMA)
    assert "secret-word" not in str(caught.value)


@pytest.mark.parametrize(
    ("address", "called", "shown"),
    [
        ("s3://bucket/rows.parquet", "rows.parquet", "s3://bucket/rows.parquet"),
        ("s3://KEY:WORD@bucket", "bucket", "s3://bucket"),
        ("s3://KEY:WORD@bucket/a/*.csv?region=eu&secret_key=WORD", "*.csv", "s3://bucket/a/*.csv?region=eu"),
        ("S3://KEY:WO/RD@bucket/", "bucket", "S3://bucket"),
        ("s3://KEY:WO?RD@bucket/x.csv", "the store", "s3://"),
        ("s3://KEY:WO#RD@bucket/x.csv", "x.csv", "s3://bucket/x.csv"),
        ("s3://bucket/you@home/x.csv", "x.csv", "s3://bucket/you@home/x.csv"),
        ("abfss://box:WORD@here.dfs.core.windows.net/x", "x", "abfss://box@here.dfs.core.windows.net/x"),
        ("abfs://:WORD@here.blob.core.windows.net", "here.blob.core.windows.net", "abfs://here.blob.core.windows.net"),
        ("gs://anonymous@bucket?access_token=WORD", "bucket", "gs://bucket"),
    ],
)
def test_no_key_of_a_store_is_shown_or_stored(address: str, called: str, shown: str) -> None:
    assert server_address.name_of(address) == called
    assert server_address.shown_of_store(address) == shown
    assert not [part for part in ("KEY", "WO", "RD") if part in called + shown]


def test_a_pattern_of_a_store_means_what_it_means_in_a_folder(tmp_path: Path) -> None:
    places = ["a.csv", "b/a.csv", "b/c/a.csv", "b/c/b.csv", "[x].csv"]
    for place in places:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).touch()
    for pattern in (
        "*.csv",
        "*/*.csv",
        "**/*.csv",
        "**/a.csv",
        "b/**/a.csv",
        "b/*/a.csv",
        "[[]x].csv",
        "*",
        "*/c/[ab].*",
    ):
        found = [place for place in places if many_files._matches(place.split("/"), pattern.split("/"))]
        files = {path for path in map(Path, glob.glob(str(tmp_path / pattern), recursive=True)) if path.is_file()}
        assert {tmp_path / place for place in found} == files, pattern


def test_a_store_that_cannot_be_read_here_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    class Built:
        """Arrow without any store: it raises for a file system that it was built without."""

        def __getattr__(self, name: str) -> Any:
            raise ImportError(name)

    with pytest.raises(SourceError, match="hadoop classpath --glob"):
        cs.open_table("hdfs://127.0.0.1:1/rows", SCHEMA)
    monkeypatch.setattr(many_files, "fs", Built())
    for address, system in (
        ("s3://b/r", "S3"),
        ("gs://b/r", "Gcs"),
        ("abfss://c@a/r", "Azure"),
        ("HDFS://h/r", "Hadoop"),
    ):
        with pytest.raises(SourceError, match=rf"built without \({system}FileSystem\): install"):
            cs.open_table(address, SCHEMA)


def test_an_object_store_is_read_as_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow's own file systems serve every store; here one that looks into a folder stands for them."""
    rows = made()
    for value in "xyzw":
        write(
            rows.filter(pa.compute.equal(rows["c"], value)).drop_columns(["c"]),
            tmp_path / "bucket" / f"c={value}" / "r.csv",
        )
    store = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())

    class Stores:
        FileType, FileSelector, S3FileSystem = fs.FileType, fs.FileSelector, fs.LocalFileSystem

        class FileSystem:
            @staticmethod
            def from_uri(address: str) -> tuple[fs.FileSystem, str]:
                return store, address.removeprefix("s3://")

    monkeypatch.setattr(many_files, "fs", Stores)
    expected = codes(cs.open_table(rows, SCHEMA))
    for address in ("s3://bucket", "s3://bucket/*/*.csv", "s3://bucket/c=*/r.csv"):
        assert codes(cs.open_table(address, SCHEMA)) == expected
    pq.write_table(rows, tmp_path / "bucket" / "all.parquet")
    assert codes(cs.open_table("s3://bucket/all.parquet", SCHEMA)) == expected
