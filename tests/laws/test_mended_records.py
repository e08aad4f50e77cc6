"""Texts that are no UTF-8, and true U+FFFD, are one and the same record from every source, and mended once."""

from __future__ import annotations

import itertools

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import conspectus as cs
from conspectus.data.columns.arrays import mended, tidy
from conspectus.data.records.canonical_form import canonical, read
from conspectus.data.records.fingerprints import fingerprint

RAW = ["M\ufffdller".encode(), b"Meier", b"\xc3", b"\xef\xbf\xbd", "é".encode(), b"M\xef\xbf\xbdef", b"\xed\xa0\x80x"]
RAW += [mended(raw).encode() for raw in RAW[:4]]
"""The last ones spell out what the first ones are mended to, and are other texts."""
TEXTS = [raw.decode("utf-8", "surrogateescape") for raw in RAW]
SCHEMA = cs.Schema.from_dict({"name": "t", "columns": {"s": {"type": "record"}}})


def strings():
    held = pa.array(RAW, pa.binary())
    return pa.Array.from_buffers(pa.string(), len(held), held.buffers())


def sources(folder):
    (folder / "t.csv").write_bytes(b"s\n" + b"".join(raw + b"\n" for raw in RAW))
    pq.write_table(pa.table({"s": strings()}), folder / "t.parquet")
    frame = pa.table({"s": strings()})
    objects = pd.DataFrame({"s": pd.Series(TEXTS, dtype=object)})
    query = f"SELECT s FROM '{folder}/t."
    opened = {
        "list": cs.open_records(TEXTS),
        "csv": cs.open_records(folder / "t.csv"),
        "parquet": cs.open_records(folder / "t.parquet"),
        "arrow": cs.open_records(frame),
        "pandas": cs.open_records(objects),
    }
    files = {
        "csv": folder / "t.csv",
        "parquet": folder / "t.parquet",
        "query": query + "csv'",
        "dicts": query + "parquet'",
    }
    given = {**files, "arrow": frame, "pandas": objects}
    return opened | {f"schema {name}": cs.open_table(source, SCHEMA) for name, source in given.items()}


def test_every_source_reads_the_same_records(tmp_path):
    for name, table in sources(tmp_path).items():
        forms = [form for part in table.records() for form in part]
        assert forms == [canonical(text) for text in TEXTS], name
        codes = [code for chunk in table.chunks() for code in chunk.column(0).tolist()]
        assert codes == [fingerprint(text) for text in TEXTS], name
        assert [read(form) for form in forms] == TEXTS, name
    assert len({canonical(text) for text in TEXTS}) == len(set(TEXTS)) == 10


def test_rows_of_several_columns_are_mended_once(tmp_path):
    pairs = list(itertools.product(range(3), repeat=2))
    lines = [RAW[one] + b"," + RAW[other] + b"\n" for one, other in pairs]
    (tmp_path / "t.csv").write_bytes(b"a,b\n" + b"".join(lines))
    table = cs.open_records(tmp_path / "t.csv")
    forms = [form for part in table.records() for form in part]
    assert forms == [canonical((TEXTS[one], TEXTS[other])) for one, other in pairs]


@pytest.mark.parametrize("mechanism", ["stable-histogram", "sparse-project"])
def test_a_mended_record_is_found_by_its_question(mechanism, tmp_path):
    """Half the rows have it: the interval, at 1 − 1e-7, reaches there, and noise of a few rows leaves most of them."""
    (tmp_path / "t.csv").write_text("name\n" + "M\ufffdller\n" * 3000 + "Meier\n" * 3000, encoding="utf-8")
    asked = cs.sparse([["M\ufffdller"]])
    table = cs.open_records(tmp_path / "t.csv")
    hashed = {"public_seed": 1} if mechanism == "sparse-project" else {}
    release = cs.release(table, asked, epsilon=1.0, delta=1e-6, mechanism=mechanism, **hashed)
    answer = release.ask(asked, confidence=1 - 1e-7)
    assert answer.low <= 0.5 <= answer.high
    assert answer.count > 2000


def test_what_an_expression_cuts_is_still_a_record():
    """A piece of a sign that was spelled out reads back, whatever it is a piece of."""
    held = duckdb.connect()
    held.execute("CREATE TABLE t AS SELECT * FROM (VALUES (chr(65533) || 'a'), ('b')) v(s)")
    for cut in range(1, 10):
        relation = held.sql(f"SELECT substr(s, 1, {cut}) AS s FROM t")
        forms = [form for part in cs.open_table(relation, SCHEMA).records() for form in part]
        assert canonical("b") in forms
        assert all(canonical(read(form)) == form for form in forms)


def test_mended_texts_stay_as_they_are():
    once = tidy(strings())
    assert tidy(once, mended=True).to_pylist() == once.to_pylist() == [mended(raw) for raw in RAW]
    assert tidy(once).to_pylist() != once.to_pylist()
