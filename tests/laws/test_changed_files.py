"""Files that somebody changed, digests and all: what contradicts itself, or unpacks, is refused."""

from __future__ import annotations

import io
import tracemalloc
from dataclasses import replace
from fractions import Fraction
from functools import partial
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
            elif act["event"] in ("laplace", "gaussian", "stable-keys"):
                for name, factor in (("reach", 10), ("reach_squared", 100), ("reach_max", 10)):
                    bounds = act.get(name, {})
                    bounds.update({side: str(Fraction(bound) / factor) for side, bound in bounds.items()})

    rewritten(path, cheaper)
    with pytest.raises(files.BadSynopsisFile, match="did not draw the noise"):
        cs.load(path)


IDS = cs.Schema.from_dict(
    {
        "name": "visits",
        "columns": {"age": {"type": "integer", "min": 0, "max": 15}, "ill": {"type": "boolean"}},
        "unit": {"kind": "id", "column": "person", "max_rows": 3},
    }
)
VISITS = cs.open_table(
    pa.table({"age": [1, 5, 14] * 100, "ill": [True] + [False] * 299, "person": [*range(100)] * 3}), IDS
)
STATED = {
    "laplace": {"epsilon": 1.0},
    "gaussian": {"rho": 0.5},
    "projection": {"rho": 0.5},
    "tree": {"epsilon": 1.0},
    "sparse-project": {"epsilon": 1.0},
    "stable-histogram": {"epsilon": 1.0, "delta": 1e-3},
}
"""Mechanisms whose files speak of the noise of every one of their acts."""


def refused(path: Path, change: object) -> bool:
    """Whether the file is refused after a change; it is put back."""
    before, said = path.read_bytes(), ""
    try:
        cs.load(rewritten(path, change))
    except files.BadSynopsisFile as problem:
        said = str(problem)
    finally:
        path.write_bytes(before)
    return "did not draw the noise" in said


def of_act(manifest: dict, *, number: int, name: str, value: object) -> None:
    manifest["events"][number][name] = value


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("mechanism", STATED)
def test_every_bound_of_every_act_is_held_to_the_noise(tmp_path: Path, mechanism: str, neighbours: str) -> None:
    """Each bound alone, a little below what a unit of three rows moves: noisy totals and certificates are acts, too."""
    path, asked = tmp_path / "one", cs.marginals(IDS, 1)
    made = cs.release(VISITS, asked, mechanism=mechanism, neighbours=neighbours, **STATED[mechanism])
    assert not made.synopsis.total.exact
    made.save(path)
    cs.load(path)
    tried = 0
    for number, act in enumerate(files.read(path).manifest["events"]):
        for name in act:
            bounds = act[name]
            if name == "rows":
                lower: object = bounds - 1
            elif isinstance(bounds, dict):
                lower = {side: str(Fraction(bound) * Fraction(99, 100)) for side, bound in bounds.items()}
            else:
                continue
            changed = partial(of_act, number=number, name=name, value=lower)
            assert refused(path, changed), (number, name)
            tried += 1
    assert tried >= (1 if mechanism == "gaussian" else 2)


def narrowed(law: list, act: dict, by: int) -> None:
    """A law of noise with an act of the same law that says that hardly anybody moves what it drew: as cheap as before
    if its noise was Laplace noise, and cheaper else."""
    law[1] = law[1] / by
    if "scale" in act:
        act["scale"] = str(Fraction(law[1]))
    else:
        act["sigma_squared"] = str(Fraction(law[1]) ** 2)
    for name in ("reach", "reach_squared", "reach_max"):
        if name in act:
            act[name] = {side: str(Fraction(bound) / by**2) for side, bound in act[name].items()}


@pytest.mark.parametrize("budget", [{"epsilon": 1.0}, {"rho": 0.5}])
def test_noisy_totals_and_certificates_have_their_price(tmp_path: Path, budget: dict[str, float]) -> None:
    """Both once had to have an act of the same law alone, which could say that it cost nothing."""
    path = tmp_path / "one"
    made = cs.release(
        TABLE, cs.marginals(SCHEMA, 1), mechanism="projection", neighbours="add-remove", certificate=0.05, **budget
    )
    assert made.certificate is not None
    made.save(path)

    def total(manifest: dict) -> None:
        for part in (manifest["synopsis"]["meta"], manifest["measured"]):
            if part is not None:
                law = [part["total"]["kind"], made.synopsis.total.scale]
                narrowed(law, act := dict(manifest["events"][0]), 400)
                part["total"]["scale"] = law[1]
        manifest["events"][0] = act

    assert refused(path, total)
    assert refused(path, lambda manifest: narrowed(manifest["certificate"]["law"], manifest["events"][-1], 1000))
    cs.load(path)


def of_total(manifest: dict, *, name: str, value: float) -> None:
    manifest["synopsis"]["meta"]["total"][name] = value


def test_a_sum_of_cells_has_the_noise_of_its_cells(tmp_path: Path) -> None:
    """A total that follows from measured cells costs nothing more, and cannot be less noisy than they add up to."""
    path = tmp_path / "one"
    for mechanism in ("laplace", "tree"):
        made = cs.release(TABLE, cs.marginals(SCHEMA, 1), mechanism=mechanism, neighbours="add-remove", epsilon=1.0)
        assert made.synopsis.total.terms > 1
        made.save(path)
        cs.load(path)

        for name, value in (("terms", 1), ("averaged", 1000), ("value", made.synopsis.total.value + 1)):
            assert refused(path, partial(of_total, name=name, value=value)), name


def test_the_potential_of_boosting_has_its_price(tmp_path: Path) -> None:
    columns = {name: {"type": "boolean"} for name in "abc"}
    schema = cs.Schema.from_dict({"name": "bits", "columns": columns})
    table = cs.open_table(pa.table({name: [True, False] * 10_000 for name in "abc"}), schema)
    asked, path = cs.marginals(schema, 2), tmp_path / "one"
    made = cs.release(table, asked, epsilon=1.0, delta=1e-6, mechanism="boosting", theorem=True)
    assert made.certificate is not None
    assert made.certificate.potential is not None
    made.save(path)
    cs.load(path)
    assert refused(path, lambda file: narrowed(file["certificate"]["potential"]["law"], file["events"][-1], 1000))

    def lighter(manifest: dict) -> None:
        """The answers are medians, and the same for all weights in the same proportions."""
        for member in manifest["synopsis"]["meta"]["members"]:
            member["weight"] = max(member["weight"] // 10_000, 1)
        narrowed(manifest["certificate"]["potential"]["law"], manifest["events"][-1], 100)

    assert refused(path, lighter)


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
