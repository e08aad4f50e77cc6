"""No record stops a release, fails it, or changes how another one is read, whatever it is made of."""

from __future__ import annotations

import datetime
import decimal
import fractions
import struct
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import conspectus as cs
from conspectus.data.domain import RECORDS
from conspectus.data.records.canonical_form import (
    CANONICAL,
    NotCanonical,
    OpaqueRecord,
    address,
    canonical,
    read,
    shortened,
)
from conspectus.data.records.fingerprints import fingerprint, fingerprints
from conspectus.data.records.forms import MISSING, MOST_PARTS, form_of
from conspectus.privacy.events import Noise
from conspectus.report import write_report
from conspectus.synopses.published_records import PublishedRecords
from conspectus.synopses.synopsis import Total, load_synopsis

MISSED = canonical(None)


def shared(depth):
    """A list of a few objects that holds 2**depth parts."""
    held = [1]
    for _ in range(depth):
        held = [held, held]
    return held


@pytest.mark.parametrize(
    "record",
    [
        shared(40),
        [["x" * 2**20] * 1000],
        np.broadcast_to(np.int8(1), (10**12,)),
        [0] * (MOST_PARTS + 1),
        {n: shared(12) for n in range(9)},
    ],
    ids=["shared", "bytes", "strides", "long", "mapping"],
)
def test_a_record_of_endless_parts_is_missing_by_itself(record):
    assert form_of(record) == MISSING
    rows = ["a", record, ("b", 1)]
    assert CANONICAL.of(rows).tolist() == [canonical("a"), MISSED, canonical(("b", 1))]
    table = cs.open_records(rows * 2)
    assert [form for part in table.records() for form in part] == CANONICAL.of(rows).tolist() * 2
    assert fingerprints(rows).tolist() == [fingerprint("a"), fingerprint(None), fingerprint(("b", 1))]


def test_a_record_of_as_many_parts_as_are_read_is_itself():
    most = list(range(MOST_PARTS))
    assert form_of(most) != MISSING
    assert form_of(most) != form_of(most[:-1])
    assert form_of(shared(14)) not in (MISSING, form_of(shared(13)))


NEAR = np.longdouble(1.5) + np.longdouble(2) ** -60
NUMBERS = st.sampled_from(
    [1, True, 1.5, NEAR, -NEAR, decimal.Decimal("1.5"), decimal.Decimal("0.1"), 0.1, 0, -0.0, False, np.True_]
    + [fractions.Fraction(3, 2), "3/2", np.float32(0.1), 10**400, 2**64, np.longdouble("1e4000"), None, float("nan")]
    + [decimal.Decimal("1E+999999999999999999"), np.datetime64("NaT"), 1 + 0j, 1.5j]
)
SIGNS = st.text("\udcc3\udca9\udcef\udcbf\udcbd\ufffd\ud800\udc80éc3a9", max_size=7)
ODD = st.recursive(
    NUMBERS | SIGNS | st.binary(max_size=3) | st.just(decimal.Decimal("sNaN")),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.frozensets(NUMBERS | SIGNS, max_size=4)
        | st.dictionaries(NUMBERS | SIGNS | st.tuples(NUMBERS), inner, max_size=3)
        | st.frozensets(st.tuples(NUMBERS, NUMBERS) | st.frozensets(NUMBERS, max_size=3), max_size=3)
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=400)
@given(ODD)
def test_every_record_reads_back_or_stays_its_form(record):
    raw = shortened(canonical(record))
    found = read(raw)
    assert address(raw) == fingerprint(record)
    if isinstance(found, OpaqueRecord):
        assert found.form == raw
    else:
        assert canonical(found) == raw
    held = PublishedRecords(RECORDS, (raw,), np.array([40]), 30, Noise("laplace", 2.0), Total(value=9.0, exact=True))
    assert load_synopsis(RECORDS, held.kind, *held.parts()).records == held.records


def test_what_python_does_not_have_is_opaque():
    both = frozenset([decimal.Decimal("1.5"), NEAR])
    assert read(canonical(both)) == OpaqueRecord(canonical(both))
    assert read(canonical((1, both))) == OpaqueRecord(canonical((1, both)))
    assert read(canonical("\udcc3\udca9")) == "\udcc3\udca9"
    parts = sorted(map(canonical, (decimal.Decimal("1.5"), 1.5)))
    for wrong in (parts[::-1], [parts[0]] * 2, [*parts, b"T\xff"]):
        held = b"{" + struct.pack(">Q", len(wrong)) + b"".join(struct.pack(">Q", len(raw)) + raw for raw in wrong)
        with pytest.raises(NotCanonical):
            read(held)


@pytest.mark.parametrize("record", ["\udcc3\udca9", frozenset([decimal.Decimal("1.5"), NEAR])], ids=["text", "set"])
def test_odd_records_are_released_once_they_are_paid_for(record, tmp_path):
    table = cs.open_records([record] * 2000 + ["b"] * 2000)
    asked = cs.sparse([["b"], [record]])
    release = cs.release(table, asked, epsilon=1.0, delta=1e-6, mechanism="stable-histogram")
    assert len(release.records) == 2
    assert release.ask(asked[1]).count > 1900
    release.save(tmp_path / "odd")
    assert cs.load(tmp_path / "odd").records == release.records
    assert release.table(["record"]).num_rows == 2


def test_numbers_of_too_many_digits_are_shown(tmp_path):
    long, digits = 10**5000, hex(10**5000)
    rows = [long, -long, (long,), (1, frozenset([long])), ((), (long, "a")), {"a": long}]
    table = cs.open_records([row for row in rows for _ in range(500)])
    release = cs.release(table, cs.sparse([[long]]), epsilon=1.0, delta=1e-6, mechanism="stable-histogram")
    assert len(release.records) == len(rows)
    assert all(record in rows for record, _ in release.records)
    nested = {f"({digits},)", f"(1, frozenset({{{digits}}}))", f"((), ({digits}, 'a'))", f"{{'a': {digits}}}"}
    spelled = nested | {digits, f"-{digits}"}
    assert set(release.table(["record"])["record"].to_pylist()) == spelled
    assert set(release.synthetic(50)["record"].to_pylist()) <= spelled
    path = tmp_path / "report.html"
    write_report(release, path)
    assert digits[:9] in path.read_text(encoding="utf-8")


class Comparing(type):
    """Types that are compared and not hashed."""

    def __eq__(self, other):
        return self is other


class Refusing(type):
    def __hash__(self):
        raise SystemExit("rare")

    def __eq__(self, other):
        raise SystemExit("rare")


class Unhashable(metaclass=Comparing):
    def __str__(self):
        return "x"


class Refused(metaclass=Refusing):
    def __str__(self):
        return "y"


class Leaving:
    def __str__(self):
        raise SystemExit("rare")


class Closing:
    def __str__(self):
        raise GeneratorExit("rare")


class Number(int):
    def __abs__(self):
        return "rare"


class Text(str):
    def encode(self, *_):
        return "rare"


class Day(datetime.date):
    def toordinal(self):
        return 10**30


class Endless(list):
    def __iter__(self):
        while True:
            yield 1


@pytest.mark.parametrize(
    ("record", "same"),
    [
        (Unhashable(), "x"),
        (Refused(), "y"),
        (Leaving(), None),
        (Closing(), None),
        ((1, Leaving()), (1, None)),
        (Number(5), 5),
        (Number(-(2**70)), -(2**70)),
        (Text("a"), "a"),
        (Day(2020, 1, 1), None),
        (Endless([1]), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_a_row_does_is_its_own_affair(record, same):
    rows = ["a"] * 12 + [record, ("b", record)] + [7] * 12
    plain = ["a"] * 12 + [same, ("b", same)] + [7] * 12
    if type(record) is Endless:
        plain[13] = None  # a tuple with endless parts within it has endless parts
    table = cs.open_records(rows)
    assert [form for part in table.records() for form in part] == [canonical(row) for row in plain]
    assert np.concatenate([chunk.column(0) for chunk in table.chunks()]).tolist() == [fingerprint(row) for row in plain]


def test_a_signalling_nan_warns_nobody():
    reals = np.array([1.5, 2.0, 0.0, 0.25])
    reals.view(np.uint64)[2] = 0x7FF0000000000001
    narrow = np.array([1.5, 2.0, 0.0, 0.25], dtype=np.float32)
    narrow.view(np.uint32)[2] = 0x7F800001
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for held in (reals, narrow, list(reals), list(narrow)):
            table = cs.open_records(held)
            assert [form for part in table.records() for form in part] == list(map(canonical, (1.5, 2, None, 0.25)))
            cs.release(table, cs.sparse([[2.0]]), epsilon=1.0, mechanism="sparse-project")


class Failing:
    def __str__(self):
        raise RuntimeError("rare")


@pytest.mark.parametrize("record", [Leaving(), Failing(), Unhashable()], ids=lambda value: type(value).__name__)
def test_objects_in_declared_columns_are_their_own_affair(record):
    schema = cs.Schema.from_dict(
        {"name": "t", "columns": {"v": {"type": "categorical", "values": ["a", "b"], "missing": True, "other": True}}}
    )
    frame = pd.DataFrame({"v": pd.Series(["a", record, "b"], dtype=object)})
    plain = pd.DataFrame({"v": pd.Series(["a", "x" if type(record) is Unhashable else None, "b"], dtype=object)})
    found = [[c.column(0).tolist() for c in cs.open_table(source, schema).chunks()] for source in (frame, plain)]
    assert found[0] == found[1]
