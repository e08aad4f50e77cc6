"""One line, one row: what stands in one line of a CSV never changes how another line is read."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from conspectus.data.columns.arrays import mended
from conspectus.data.columns.kinds import Boolean, Categorical, Integer
from conspectus.data.schema import Schema
from conspectus.data.sources import SourceError, lines, open_table
from conspectus.data.sources.delimited import read_header
from conspectus.data.sources.drafting import check_lines

NAMES = ("age", "sex", "ok")
SCHEMA = Schema(
    "people",
    (
        Integer("age", 0, 99, width=10, missing=True),
        Categorical("sex", ("M", "F", '"', "a,b"), other=True, missing=True),
        Boolean("ok", missing=True),
    ),
)
SINGLE = Schema("single", (SCHEMA.columns[1],))

HUGE = b"7" * (lines.LONGEST + 3)
tokens = st.sampled_from(
    [b'"', b'"', b'""', b",", b",", b";", b" ", b"\r", b"\x00", b"\xff", b"\xc3", b"\xa9", b"\xc3\xa9", b"\xef\xbb\xbf"]
    + [
        b"5",
        b"M",
        b'"F"',
        b'"a,b"',
        b'""""',
        b"yes",
        b"\xf0\x9f\x98\x80",
        b"\xed\xa0\x80",
        b"\xe2\x80\xa8",
        b"x" * 70_000,
    ]
)
any_line = st.lists(tokens, max_size=9).map(b"".join) | st.binary(max_size=12).map(lambda raw: raw.replace(b"\n", b""))
any_lines = st.lists(any_line, min_size=1, max_size=7)
# How long an example takes on a busy machine is no test.
UNCHECKED = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
PLAIN = settings(max_examples=30, deadline=None, suppress_health_check=UNCHECKED)

Reader = Callable[[list[bytes], Path], Counter[Any]]


def content(some: list[bytes], names: tuple[str, ...] = NAMES) -> bytes:
    return b"\n".join([",".join(names).encode(), *some, b""])


def codes(source: Any, schema: Schema = SCHEMA) -> Counter[Any]:
    found: Counter[Any] = Counter()
    with open_table(source, schema) as table:
        for chunk in table.chunks():
            found.update(zip(*(chunk.column(place).tolist() for place in range(len(schema.columns)))))
    return found


def as_file(some: list[bytes], folder: Path) -> Counter[Any]:
    (folder / "t.csv").write_bytes(content(some))
    return codes(folder / "t.csv")


def as_gzip(some: list[bytes], folder: Path) -> Counter[Any]:
    (folder / "t.csv.gz").write_bytes(gzip.compress(content(some), 1))
    return codes(folder / "t.csv.gz")


def as_query(some: list[bytes], folder: Path) -> Counter[Any]:
    (folder / "t.csv").write_bytes(content(some))
    return codes(f"SELECT * FROM '{folder / 't.csv'}'")


def lenient(some: list[bytes], folder: Path) -> Counter[Any]:
    """The twin that is broken on purpose: a reader for which a quotation mark reaches over the ends of lines."""
    (folder / "t.csv").write_bytes(content(some))
    options = (
        "auto_detect = false, header = true, delim = ',', quote = '\"', escape = '\"', null_padding = true, "
        "strict_mode = false, parallel = false, columns = {'age': 'VARCHAR', 'sex': 'VARCHAR', 'ok': 'VARCHAR'}"
    )
    return codes(duckdb.sql(f"SELECT * FROM read_csv('{folder / 't.csv'}', {options})").to_arrow_table())


def holds(read: Reader, some: list[bytes], place: int, other: bytes, folder: Path) -> bool:
    """Whether a line that becomes another one leaves all other rows as they are."""
    rest = some[:place] + some[place + 1 :]
    before, after = read(some, folder), read([*some[:place], other, *some[place + 1 :]], folder)
    return before - read([some[place]], folder) == after - read([other], folder) == read(rest, folder)


def is_row(line: bytes) -> bool:
    return bool(line[: lines.LONGEST].rstrip(b"\r"))


def split(line: bytes) -> list[str | None]:
    """The rule anew, by regular expressions: the texts of a line."""
    line = line[: lines.LONGEST].rstrip(b"\r")
    quoted = re.compile(rb' *"((?:[^"]|"")*)"(?!")[^,]*')
    found: list[str | None] = []
    position = 0
    while True:
        if match := quoted.match(line, position):
            value, end = match[1].replace(b'""', b'"'), match.end()
        else:
            end = line.find(b",", position)
            end = len(line) if end < 0 else end
            value = line[position:end]
        found.append(mended(value) or None)
        if end == len(line):
            return found
        position = end + 1


@pytest.mark.parametrize("read", [as_file, as_gzip, as_query])
@given(some=any_lines, place=st.integers(0, 6), other=any_line)
@example(some=[b"5,M,yes"] * 3, place=1, other=b'5,"M,yes')
@example(some=[b"5,M,yes"] * 3, place=0, other=HUGE)
@example(some=[b"5,M,yes"] * 3, place=2, other=b'"' + HUGE + b'",M,yes')
@example(some=[b'"', b'"'], place=0, other=b"\xc3")
@settings(PLAIN, max_examples=3)
def test_a_line_leaves_all_others_as_they_are(
    read: Reader, some: list[bytes], place: int, other: bytes, tmp_path: Path
) -> None:
    assert holds(read, some, place % len(some), other, tmp_path)
    assert read(some, tmp_path).total() == sum(map(is_row, some))


def test_the_law_fails_for_a_lenient_reader(tmp_path: Path) -> None:
    some = [b"5,M,yes", b"15,F,no", b"25,M,yes"]
    assert holds(lenient, some, 0, b"35,F,no", tmp_path)
    assert not holds(lenient, some, 0, b'5,"M,yes', tmp_path)
    assert lenient([b'5,"M,yes', *some[1:]], tmp_path).total() == 1
    assert holds(as_file, some, 0, b'5,"M,yes', tmp_path)


def test_a_csv_of_another_name_is_read_by_the_same_rule(tmp_path: Path) -> None:
    some = [b'5,"a,b",yes'] * 5 + [b'15,"F,no'] + [b'5,"a,b",yes'] * 5
    (tmp_path / "t.txt").write_bytes(content(some))
    for source in (f"SELECT * FROM read_csv('{tmp_path / 't.txt'}')", duckdb.read_csv(str(tmp_path / "t.txt"))):
        assert codes(source) == as_file(some, tmp_path)


@given(some=any_lines, ended=st.booleans(), block=st.integers(1, 40), spans=st.integers(1, 12))
@example(some=[b'5," M ""x"" , y"  ,z', b'"a"b"c,d",e', b'"a,""b', b'  "" ,"""",x"y"'], ended=True, block=7, spans=3)
@example(some=[b"5,M\r\r", b"\r", b"\r5,a\rb,\r"], ended=False, block=3, spans=2)
@example(some=[HUGE + b"\r\r", b'"' + HUGE + b'"', b"5,M,yes"], ended=False, block=1 << 21, spans=1 << 20)
@settings(PLAIN, max_examples=120)
def test_lines_are_split_by_the_rule(some: list[bytes], ended: bool, block: int, spans: int, tmp_path: Path) -> None:
    """Against the same rule written by other means, wherever the blocks of the file end."""
    whole = content(some) if ended else content(some)[:-1]
    (tmp_path / "t.csv").write_bytes(whole)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_BLOCK", max(block, len(whole) // 50))
        patch.setattr(lines, "_SPANS", spans)
        file = read_header(tmp_path / "t.csv", NAMES)
        table = file.reader().read_all()
        tally = file.tally()
    table.validate(full=True)
    texts = [split(line) for line in some if is_row(line)]
    found = [list(row.values()) for row in table.to_pylist()]
    assert found == [[*row[:3], *[None] * (3 - len(row))] for row in texts]
    assert tally.rows == table.num_rows == len(texts)
    assert tally.wrong_fields == sum(len(row) != 3 for row in texts)
    assert tally.too_long == sum(len(line) > lines.LONGEST for line in some)


@given(some=st.lists(any_line, max_size=6))
@PLAIN
def test_in_a_file_of_one_column_every_line_is_a_row(some: list[bytes], tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(content(some, ("sex",)))
    found = codes(tmp_path / "t.csv", SINGLE)
    column = SINGLE.columns[0]
    assert found == Counter((column.code_of(split(line)[0], SINGLE.nulls),) for line in some)


def test_bytes_are_text_exactly_where_they_are_utf8(tmp_path: Path) -> None:
    """All pairs of bytes, and the edges of the longer signs."""
    replaced = [b"\xef\xbf\xbd".replace(b"\xbd", bytes((last,))) for last in (0xBC, 0xBE)]
    edges = [0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0]
    pairs = [bytes((first, second)) for first in range(128, 256) for second in (*edges, 0x41)]
    longer = [bytes((first, second, 0x80)) for first in range(0xE0, 0xF0) for second in edges]
    longest = [bytes((first, second, 0x80, 0xBF)) for first in range(0xF0, 0xF9) for second in edges]
    texts = [*pairs, *longer, *longest, *replaced]
    (tmp_path / "t.csv").write_bytes(content([b"1," + text for text in texts]))
    found = read_header(tmp_path / "t.csv", NAMES).reader([1]).read_all()
    found.validate(full=True)
    for text, raw in zip(found.column(0).to_pylist(), texts):
        assert text == mended(raw)
        try:
            assert text == raw.decode()
        except UnicodeDecodeError:
            assert "\ufffd" in text
    assert len(set(found.column(0).to_pylist())) == len(set(texts))


def test_the_owner_learns_how_many_lines_are_odd(tmp_path: Path) -> None:
    some = [b"5,M,yes", b'5,"M,yes', b'5,"M"x,yes', b'5,6"x,yes', b'5,"a,b" ,yes', b'5," ""M"" ",yes', b"", b"5", HUGE]
    (tmp_path / "t.csv").write_bytes(content([*some, b"5,M,yes,no"]))
    for source in (tmp_path / "t.csv", f"SELECT * FROM '{tmp_path / 't.csv'}' WHERE age > 50"):
        told = check_lines(SCHEMA, source)
        assert told is not None
        assert (told.rows, told.odd_quotes, told.wrong_fields, told.too_long) == (9, 3, 3, 1)
        assert str(told).startswith("NOT PRIVATE")
    assert check_lines(SCHEMA, pa.table({name: ["5"] for name in NAMES})) is None


def test_a_cut_file_is_refused_for_the_owner_too(tmp_path: Path) -> None:
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(content([b"5,M,yes"] * 99))[:-9])
    with pytest.raises(SourceError, match="cannot be read"):
        check_lines(SCHEMA, tmp_path / "t.csv.gz")
    with pytest.raises(SourceError, match="cannot be read"):
        codes(tmp_path / "t.csv.gz")
