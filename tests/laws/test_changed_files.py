"""Files that somebody changed, digests and all: what contradicts itself, or unpacks, is refused."""

from __future__ import annotations

import io
import tracemalloc
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.made import people

import conspectus as cs
from conspectus.releases import release_file
from conspectus.synopses import arrow_messages, files
from conspectus.synopses.median_ensemble import MedianEnsemble

SCHEMA, TABLE = people(400)
RELEASES = {
    "laplace": {"workload": cs.marginals(SCHEMA, 2), "epsilon": 1.0},
    "gaussian": {"workload": cs.marginals(SCHEMA, 2), "epsilon": 1.0, "delta": 1e-6},
    "projection": {"workload": cs.marginals(SCHEMA, 2), "epsilon": 1.0, "delta": 1e-6},
    "mwem": {"workload": cs.marginals(SCHEMA, 1), "epsilon": 1.0, "neighbours": "add-remove", "rows": 400},
    "stable-histogram": {"workload": cs.marginals(SCHEMA, 1), "epsilon": 1.0, "delta": 1e-3},
    "sparse-project": {"workload": cs.sparse(cs.marginals(SCHEMA, 2)), "epsilon": 1.0},
    "tree": {"workload": cs.ranges(SCHEMA, "age"), "epsilon": 1.0},
    "stream": {"workload": cs.marginals(SCHEMA, 1), "epsilon": 1.0},
}


def released(mechanism: str) -> cs.Release:
    options = dict(RELEASES[mechanism])
    workload = options.pop("workload")
    if mechanism != "stream":
        return cs.release(TABLE, workload, mechanism=mechanism, **options)
    with cs.open_stream(SCHEMA, workload, **options) as stream:
        for _ in range(4):
            stream.append(TABLE)
        return stream.release()


def rewritten(path: Path, change: object) -> Path:
    """The same file with another manifest, packed as a release packs it."""
    contents = files.read(path)
    change(contents.manifest)
    files.write(path, contents.manifest, contents.workload, contents.tables)
    return path


@pytest.mark.parametrize("mechanism", RELEASES)
@pytest.mark.parametrize("change", ["scale", "bounds"])
def test_acts_that_did_not_draw_the_noise_of_a_file_are_refused(tmp_path: Path, mechanism: str, change: str) -> None:
    """Acts of ten times the noise, or of a tenth of what a unit moves, cost less: the promised ε could be anything."""
    path = tmp_path / "one.conspectus"
    released(mechanism).save(path)
    cs.load(rewritten(path, lambda manifest: None))

    def cheaper(manifest: dict) -> None:
        for act in manifest["events"]:
            if change == "scale":
                for name, factor in (("scale", 10), ("sigma_squared", 100)):
                    act.update({name: str(Fraction(act[name]) * factor)} if name in act else {})
                act.update({"threshold": act["threshold"] * 20} if "threshold" in act else {})
            elif act["event"] in ("laplace", "gaussian"):
                for name, factor in (("reach", 10), ("reach_squared", 100), ("reach_max", 10)):
                    bounds = act.get(name, {})
                    bounds.update({side: str(Fraction(bound) / factor) for side, bound in bounds.items()})

    rewritten(path, cheaper)
    if change == "bounds" and mechanism == "stable-histogram":
        cs.load(path)  # all that it states of an act with noise is its law: no questions are published with it
        return
    with pytest.raises(files.BadSynopsisFile, match="did not draw the noise"):
        cs.load(path)


ENSEMBLES = {
    "laplace": {"mechanism": "laplace", "epsilon": 1.0},
    "gaussian": {"mechanism": "gaussian", "rho": 0.5},
    "residuals": {"mechanism": "projection", "rho": 0.5},
    "keys": {"mechanism": "stable-histogram", "epsilon": 1.0, "delta": 1e-3},
}


def of_members(path: Path, kind: str, *, members: int, paid: int) -> None:
    """A file of an ensemble whose members publish noise, each as the release did that has such acts."""
    one = cs.release(TABLE, cs.marginals(SCHEMA, 1), **ENSEMBLES[kind])
    member = one.measured if one.synopsis.measurements() == [] and one.measured is not None else one.synopsis
    many = MedianEnsemble(SCHEMA.domain, (member,) * members, (1,) * members, one.workload, member.total)
    held = one.guarantee
    times = {
        name: None if (size := getattr(held, name)) is None else min(paid * size, 0.5 if name == "delta" else 1e6)
        for name in ("epsilon", "delta", "rho")
    }
    replace(
        one, synopsis=many, measured=None, events=one.events * paid, guarantee=replace(held, **times), certificate=None
    ).save(path)


@pytest.mark.parametrize("kind", ENSEMBLES)
def test_members_that_fit_their_acts_alone_and_not_together_are_refused(tmp_path: Path, kind: str) -> None:
    """Each member could have been drawn by the one act, and three of them could not."""
    for members, paid in ((1, 1), (3, 3), (2, 3)):
        of_members(tmp_path / f"{members}-{paid}", kind, members=members, paid=paid)
        assert len(cs.load(tmp_path / f"{members}-{paid}").synopsis.members) == members
    for members, paid in ((2, 1), (3, 1), (3, 2), (200, 3)):
        of_members(tmp_path / "doctored", kind, members=members, paid=paid)
        with pytest.raises(files.BadSynopsisFile, match="did not draw the noise"):
            cs.load(tmp_path / "doctored")


def test_members_have_one_noisy_total_together(tmp_path: Path) -> None:
    """A total is drawn once. Two that differ are two draws, for the price of one."""
    one = cs.release(TABLE, cs.marginals(SCHEMA, 1), mechanism="projection", epsilon=1.0, neighbours="add-remove")
    assert not one.synopsis.total.exact
    other = replace(one.synopsis, total=replace(one.synopsis.total, value=one.synopsis.total.value + 1))
    for member, fits in ((one.synopsis, True), (other, False)):
        many = MedianEnsemble(SCHEMA.domain, (one.synopsis, member), (1, 1), one.workload, one.synopsis.total)
        replace(one, synopsis=many, certificate=None).save(tmp_path / "file")
        if fits:
            cs.load(tmp_path / "file")
            continue
        with pytest.raises(files.BadSynopsisFile, match="did not draw the noise"):
            cs.load(tmp_path / "file")


def test_a_member_whose_noise_nobody_drew_is_refused(tmp_path: Path) -> None:
    one = cs.release(TABLE, cs.marginals(SCHEMA, 1), **ENSEMBLES["laplace"])
    other = cs.release(TABLE, cs.marginals(SCHEMA, 1), mechanism="laplace", epsilon=20.0)
    members = (one.synopsis, other.synopsis)
    many = MedianEnsemble(SCHEMA.domain, members, (1, 1), one.workload, one.synopsis.total)
    replace(one, synopsis=many).save(tmp_path / "doctored")
    with pytest.raises(files.BadSynopsisFile, match="did not draw the noise"):
        cs.load(tmp_path / "doctored")


@pytest.mark.parametrize("unit", ["household", {"kind": "id", "column": "person", "max_rows": 1}])
def test_a_promise_to_others_than_the_schema_protects_is_refused(tmp_path: Path, unit: object) -> None:
    """A file once said of a household what its noise kept of a row."""
    path = tmp_path / "one.conspectus"
    cs.release(TABLE, cs.marginals(SCHEMA, 1), mechanism="laplace", epsilon=1.0).save(path)
    part = "guarantee" if isinstance(unit, str) else "schema"
    rewritten(path, lambda manifest: manifest[part].update(unit=unit))
    with pytest.raises(files.BadSynopsisFile, match="than its schema protects"):
        cs.load(path)


def ipc(table: pa.Table, *, stream: bool, compression: str | None) -> bytes:
    out = io.BytesIO()
    make = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(out, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return out.getvalue()


@pytest.mark.parametrize("stream", [False, True])
def test_no_length_inside_an_arrow_table_ends_the_process(stream: bool) -> None:
    """Arrow believes the lengths that a message states: each word of a table becomes one that is far too large."""
    table = pa.table({"count": [1.0, 2.0, 3.0], "word": pa.array(["a", "b", None], pa.large_string())})
    read, whole = (
        arrow_messages.read_stream if stream else arrow_messages.read_file,
        ipc(table, stream=stream, compression=None),
    )
    refused = 0
    for at in range(len(whole) - 3):
        for word in (2, 0x10000000, 0x40000001, 0x7FFFFFFF, 0xFFFFFFFF):
            try:
                read(whole[:at] + word.to_bytes(4, "little") + whole[at + 4 :])
            except ValueError:
                refused += 1
    assert refused > len(whole)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_buffers_are_refused_before_they_are_unpacked(stream: bool, compression: str) -> None:
    table = pa.table({"count": np.zeros(10_000_000)})
    read = arrow_messages.read_stream if stream else arrow_messages.read_file
    packed, plain = (ipc(table, stream=stream, compression=each) for each in (compression, None))
    assert read(plain).equals(table)
    pool = pa.proxy_memory_pool(pa.default_memory_pool())
    before = pa.default_memory_pool()
    pa.set_memory_pool(pool)
    try:
        with pytest.raises(ValueError, match="plain record batches"):
            read(packed)
        assert (pool.max_memory() or 0) < 1 << 20
        assert read(plain).equals(table)
    finally:
        pa.set_memory_pool(before)


@pytest.mark.parametrize("stream", [False, True])
def test_a_table_without_its_schema_is_refused(stream: bool) -> None:
    """A file whose messages end where they begin, with a footer that speaks of a table."""
    whole = ipc(pa.table({"count": [1, 2]}), stream=stream, compression=None)
    end = b"\xff\xff\xff\xff\0\0\0\0"
    read = arrow_messages.read_stream if stream else arrow_messages.read_file
    with pytest.raises(ValueError, match="begins with its schema"):
        read(end + whole if stream else whole[:8] + end + whole[8 + len(end) :])


def test_answers_are_numbers_before_anything_is_made_of_them(tmp_path: Path) -> None:
    """A column of nothing has any length at no cost, and becomes an array of that length when it is read."""
    path = tmp_path / "one.conspectus"
    cs.release(TABLE, cs.marginals(SCHEMA, 1), mechanism="laplace", epsilon=1.0).save(path)
    contents = files.read(path)
    long = pa.table({"answer": pa.Array.from_buffers(pa.null(), 1 << 27, [None])})
    files.write(path, contents.manifest, contents.workload, {**contents.tables, release_file.ANSWERS: long})
    tracemalloc.start()
    try:
        with pytest.raises(files.BadSynopsisFile):
            cs.load(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 25
    finally:
        tracemalloc.stop()
