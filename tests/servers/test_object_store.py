"""Folders in an object store, by the real protocol: a server of S3 on loopback, and Arrow's own file system before it.

Elsewhere a folder stands for a store. Here addresses, keys, listings, patterns and ranges of bytes go over HTTP: what
is read has to be what lies in a folder, to the last count; neighbouring tables have to be refused alike, in the same
words; and no key may be in them. Found by it: an address of a bucket alone was called by its keys, also in a drafted
schema and in the file of a session; and a * of a store went into folders.
"""

from __future__ import annotations

import gzip
import io
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyarrow import fs
from tests.laws.test_many_files import codes
from tests.refusals import ends_early, other_columns, two_kinds

import conspectus as cs
from conspectus.cli import run
from conspectus.data.sources import SourceError
from conspectus.service.schema_text import schema_text

NEEDS = "no server of S3 is installed, which these tests need: pip install 'moto[s3]' flask flask-cors"
KEY, SECRET = "AKIAKEYWORD", "secretword"
SCHEMA = cs.Schema.from_dict(
    {
        "name": "people",
        "columns": {
            "age": {"type": "integer", "min": 0, "max": 99, "width": 10, "missing": True},
            "word": {"type": "categorical", "values": ["a", "b"], "other": True, "missing": True},
            "year": {"type": "categorical", "values": ["2023", "2024"], "other": True},
        },
    }
)
ASKED = cs.marginals(SCHEMA, 2)
ROWS = pd.DataFrame({"age": [31, 4, 64, 7, 8, 90], "word": ["a", "b", "a", "c", "a", "b"], "year": ["2023"] * 6})


@dataclass(frozen=True)
class Store:
    """A store, and the same files in a folder beside it."""

    system: fs.S3FileSystem
    options: str
    folder: Path

    def fill(self, bucket: str, write: Callable[[Path], None]) -> Path:
        """A bucket that holds what `write` puts into a folder; the folder."""
        here = self.folder / bucket
        here.mkdir()
        write(here)
        self.system.create_dir(bucket)
        for path in sorted(each for each in here.rglob("*") if each.is_file()):
            with self.system.open_output_stream(f"{bucket}/{path.relative_to(here)}", compression=None) as stream:
                stream.write(path.read_bytes())
        return here

    def address(self, place: str) -> str:
        return f"s3://{KEY}:{SECRET}@{place}?{self.options}"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    server = pytest.importorskip("moto.server", reason=NEEDS)
    if not hasattr(fs, "S3FileSystem"):
        pytest.skip("the installed pyarrow was built without S3")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    yield running.get_host_and_port()[1]
    running.stop()


@pytest.fixture
def store(port: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    # What a machine of a cloud is told by its neighbours is not asked for.
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    endpoint = f"127.0.0.1:{port}"
    system = fs.S3FileSystem(
        access_key=KEY,
        secret_key=SECRET,
        endpoint_override=endpoint,
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=True,
    )
    for bucket in system.get_file_info(fs.FileSelector("", recursive=False)):
        system.delete_dir_contents(bucket.path, missing_dir_ok=True)
    return Store(system, f"endpoint_override={endpoint}&scheme=http&region=us-east-1", tmp_path)


def drifting(folder: Path) -> None:
    """Files whose types differ, as pandas writes them: integers, floats for one missing value, texts."""
    ROWS.iloc[:2].to_parquet(folder / "0.parquet")
    ROWS.iloc[2:4].assign(age=[64.0, None]).to_parquet(folder / "1.parquet")
    (folder / "deep").mkdir()
    ROWS.iloc[4:].assign(age=["8", "90"]).to_parquet(folder / "deep" / "2.parquet")


def lines(folder: Path) -> None:
    ROWS.iloc[:3].to_csv(folder / "a.csv", index=False)
    (folder / "b.csv.gz").write_bytes(gzip.compress(ROWS.iloc[3:].to_csv(index=False).encode()))
    (folder / "_SUCCESS").touch()


def by_year(folder: Path) -> None:
    for year, part in (("2023", ROWS.iloc[:4]), ("2024", ROWS.iloc[4:])):
        (folder / f"year={year}").mkdir()
        part.drop(columns="year").to_parquet(folder / f"year={year}" / "rows.parquet")


PATTERNS = ("/*.parquet", "/[01].parquet", "/**/*.parquet", "/*/*.parquet")


@pytest.mark.parametrize(
    ("write", "places"),
    [
        (drifting, ("", "/", "/deep", "/deep/2.parquet", *PATTERNS)),
        (lines, ("", "/a.csv", "/*.csv.gz")),
        (by_year, ("", "/year=*/rows.parquet", "/year=202[34]/*.parquet")),
    ],
)
def test_a_store_is_read_as_the_folder_that_was_put_there(
    store: Store, write: Callable[[Path], None], places: tuple[str, ...]
) -> None:
    bucket = f"{write.__name__.replace('_', '-')}-bucket"
    here = store.fill(bucket, write)
    for place in places:
        expected = codes(cs.open_table(f"{here}{place}", SCHEMA))
        assert codes(cs.open_table(store.address(f"{bucket}{place}"), SCHEMA)) == expected


def cut_lines(folder: Path, rows: pd.DataFrame) -> None:
    (folder / "a.csv.gz").write_bytes(gzip.compress(rows.to_csv(index=False).encode())[:-9])


def no_column(folder: Path, rows: pd.DataFrame) -> None:
    rows.drop(columns="word").to_parquet(folder / "a.parquet")


def nothing(folder: Path, rows: pd.DataFrame) -> None:
    (folder / "read.me").write_text(rows.to_csv())


def as_it_is(folder: Path, rows: pd.DataFrame) -> None:
    rows.to_parquet(folder / "a.parquet")


def in_two(folder: Path, rows: pd.DataFrame) -> None:
    for part in range(2):
        rows.iloc[3 * part : 3 * part + 3].to_parquet(folder / f"{part}.parquet")


REFUSED: dict[str, tuple[Callable[[Path, pd.DataFrame], None], str]] = {
    "two kinds": (two_kinds, ""),
    "other columns": (other_columns, ""),
    "a footer that is cut": (ends_early, ""),
    "lines that are cut": (cut_lines, ""),
    "a column that no file has": (no_column, ""),
    "no data": (nothing, ""),
    "no such file": (as_it_is, "/nobody.parquet"),
    "no file of a pattern": (as_it_is, "/no*.parquet"),
}
SIDES = {
    "plain": ROWS,
    "missing": ROWS.assign(age=[31, 4, None, 7, 8, 90]),
    "a word": ROWS.assign(age=["31", "4", "planted-word", "7", "8", "90"]),
    "nothing at all": ROWS.assign(word=[*ROWS["word"][:2], None, *ROWS["word"][3:]]),
}


def refusal(work: Callable[[], Any]) -> str:
    with pytest.raises(SourceError) as caught:
        work()
    whole = "".join(traceback.format_exception(caught.value))
    assert not [word for word in (KEY, SECRET, "planted-word") if word in whole]
    return str(caught.value)


@pytest.mark.parametrize("case", REFUSED)
def test_neighbouring_tables_are_refused_alike(store: Store, case: str) -> None:
    write, place = REFUSED[case]
    said = set()
    for number, rows in enumerate(SIDES.values()):
        bucket = f"{case.replace(' ', '-')}-{number}"
        store.fill(bucket, lambda folder, rows=rows: write(folder, rows))  # type: ignore[misc]

        def release(bucket: str = bucket) -> Any:
            table = cs.open_table(store.address(f"{bucket}{place}"), SCHEMA)
            return cs.release(table, ASKED, epsilon=1.0, mechanism="laplace")

        said.add(refusal(release).replace(bucket, "bucket"))
    assert len(said) == 1


@pytest.mark.parametrize("write", [as_it_is, in_two])
def test_neighbouring_tables_are_accepted_alike(store: Store, write: Callable[[Path, pd.DataFrame], None]) -> None:
    known = sorted(codes(cs.open_table(ROWS, SCHEMA)))
    for number, rows in enumerate(SIDES.values()):
        bucket = f"{write.__name__.replace('_', '-')}-{number}"
        store.fill(bucket, lambda folder, rows=rows: write(folder, rows))  # type: ignore[misc]
        found = list(codes(cs.open_table(store.address(bucket), SCHEMA)))
        assert len(found) == len(known)
        assert sum(row not in known for row in found) <= 1


def test_what_is_not_there_is_said_without_keys(store: Store) -> None:
    for address in (
        store.address("nobody-has-this-bucket"),
        store.address("nobody-has-this-bucket/rows.parquet"),
        store.address("nobody-has-this-bucket/*.parquet"),
        f"s3://{KEY}:{SECRET}@bucket/rows.parquet?endpoint_override=127.0.0.1:1&scheme=http&region=us-east-1",
    ):
        assert "cannot be found in its store" in refusal(lambda address=address: cs.open_table(address, SCHEMA))


def test_a_file_that_goes_away_between_two_passes_is_one_sentence(store: Store) -> None:
    store.fill("going", drifting)
    table = cs.open_table(store.address("going"), SCHEMA)
    assert len(codes(table)) == len(ROWS)
    store.system.delete_file("going/1.parquet")
    assert "cannot be read as a table" in refusal(lambda: codes(table))


def test_the_file_of_a_session_holds_no_key(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever goes on with it has keys of their own, where the store's tools look for them."""
    store.fill("asked", drifting)
    declared = store.folder / "people.toml"
    declared.write_text(schema_text(SCHEMA))
    monkeypatch.setattr(sys, "stdin", io.StringIO("word = 'a'\n"))
    opening = [
        "session",
        store.address("asked"),
        "--schema",
        str(declared),
        "--path",
        str(store.folder / "people.session"),
    ]
    assert run([*opening, "--epsilon", "1", "--questions", "5", "--mechanism", "laplace"]) == 0
    said = capsys.readouterr()
    held = b"".join(path.read_bytes() for path in store.folder.rglob("people.*"))
    assert b"s3://asked" in held
    for word in (KEY, SECRET):
        assert word.encode() not in held
        assert word not in said.out + said.err
