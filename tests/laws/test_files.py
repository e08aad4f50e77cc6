"""The file of a release: what was written comes back, and what was changed is noticed."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conspectus.data.domain import Domain
from conspectus.privacy.events import Noise
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.workload import Workload
from conspectus.synopses import files
from conspectus.synopses.files import BadSynopsisFile, CannotWriteFile
from conspectus.synopses.histogram import Histogram
from conspectus.synopses.median_ensemble import MedianEnsemble
from conspectus.synopses.mixture_answers import CoarseColumn
from conspectus.synopses.noisy_answers import NoisyAnswers
from conspectus.synopses.product_mixture import ProductMixture
from conspectus.synopses.residual_answers import ResidualAnswers
from conspectus.synopses.rows import Rows
from conspectus.synopses.synopsis import Total, load_synopsis

DOMAIN = Domain(("a", "b"), (2, 3))
WORKLOAD = Workload(DOMAIN, (Marginal(DOMAIN, (0, 1)), Marginal(DOMAIN, (1,))))
TOTAL = Total(value=30.0, exact=True)


def synopses():
    noisy = np.array([3.25, -1, 7, 0.1, 1e-300, 4, 5, 6, 1 / 3])
    members = tuple(Histogram(DOMAIN, np.roll([0.1, 0.2, 0.3, 0.15, 0.05, 0.2], turn), TOTAL) for turn in range(3))
    return [
        Histogram(DOMAIN, np.array([0.1, 0.2, 0.3, 0.15, 0.05, 0.2]), TOTAL),
        Rows(DOMAIN, (np.array([0, 1, 1]), np.array([2, 0, 1])), TOTAL, np.array([5, 1, 3])),
        NoisyAnswers(DOMAIN, WORKLOAD, noisy, (Noise("laplace", 0.1), Noise("gaussian", 1 / 3)), TOTAL),
        ResidualAnswers(
            DOMAIN,
            ((0,), (1,), (0, 1)),
            (1 / 3, 2.0, 0.5),
            np.array([1, -1, 0.1, 0.2, -0.3, 1, 2, -3, -1, -2, 3]),
            TOTAL,
        ),
        MedianEnsemble(DOMAIN, members, (1, 2, 4), WORKLOAD, TOTAL),
        ProductMixture(
            DOMAIN,
            np.array([0.1, 0.7, 1 / 3]),
            np.array([[1 / 3, 2 / 3, 0.1, 0.9], [1, 0, 0.5, 0.5], [0.3, 0.7, 1e-30, 1]]),
            TOTAL,
            coarse=(None, CoarseColumn(np.array([0, 1, 0]), np.array([0.3, 1, 0.1]))),
        ),
    ]


def saved(path, synopsis):
    meta, tables = synopsis.parts()
    manifest = {"synopsis": {"kind": synopsis.kind, "meta": meta}, "note": "é ✓", "budget": [1.0, None]}
    files.write(path, manifest, WORKLOAD.to_json(), tables)
    return manifest


def loaded(path):
    contents = files.read(path)
    stored = contents.manifest["synopsis"]
    return contents, load_synopsis(DOMAIN, stored["kind"], stored["meta"], contents.tables)


@pytest.mark.parametrize("synopsis", synopses(), ids=lambda synopsis: synopsis.kind)
def test_saving_and_loading_changes_no_answer(tmp_path, synopsis):
    path = tmp_path / "release.conspectus"
    manifest = saved(path, synopsis)
    contents, again = loaded(path)
    assert contents.manifest == manifest
    assert Workload.from_json(contents.workload) == WORKLOAD
    assert again.answer(WORKLOAD).tobytes() == synopsis.answer(WORKLOAD).tobytes()
    assert os.listdir(tmp_path) == ["release.conspectus"]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(max_size=5), json_values, max_size=4), json_values, st.lists(st.floats(width=64)))
def test_everything_written_is_read_back(tmp_path_factory, manifest, workload, numbers):
    path = tmp_path_factory.mktemp("files") / "x"
    column = np.array(numbers, dtype=np.float64)
    files.write(path, manifest, workload, {"numbers": pa.table({"x": column})})
    contents = files.read(path)
    assert contents.manifest == manifest
    assert contents.workload == workload
    assert contents.tables["numbers"]["x"].to_numpy().tobytes() == column.tobytes()


def test_the_bytes_are_a_function_of_the_contents(tmp_path):
    table = {"b": pa.table({"x": [1, 2]}), "a": pa.table({"y": [0.5]})}
    files.write(tmp_path / "1", {"x": 1, "y": (2, 3)}, [1], table)
    files.write(tmp_path / "2", {"y": [2, 3], "x": 1}, [1], dict(reversed(table.items())))
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_numbers_of_other_kinds_are_written_as_json(tmp_path):
    files.write(tmp_path / "x", {"n": np.float64(0.5), "k": np.int64(3), "q": Fraction(1, 3)}, None, {})
    assert files.read(tmp_path / "x").manifest == {"n": 0.5, "k": 3, "q": "1/3"}
    with pytest.raises(TypeError, match="no place for a set"):
        files.write(tmp_path / "y", {"n": {1}}, None, {})
    assert not (tmp_path / "y").exists()


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    path = tmp_path_factory.mktemp("small") / "release"
    saved(path, synopses()[0])
    return path.read_bytes(), path.with_name("changed")


def contents_of(path):
    contents = files.read(path)
    return contents.manifest, contents.workload, {name: table.to_pydict() for name, table in contents.tables.items()}


def test_every_changed_byte_is_harmless_or_noticed(small):
    whole, changed = small
    changed.write_bytes(whole)
    truth = contents_of(changed)
    noticed = 0
    for place in range(len(whole)):
        data = bytearray(whole)
        data[place] ^= 0xFF if place % 2 else 0x01
        changed.write_bytes(data)
        try:
            assert contents_of(changed) == truth, f"byte {place}"
        except BadSynopsisFile:
            noticed += 1
    # What may go unnoticed are times, attributes and versions in the headers of the zip.
    assert noticed > 0.7 * len(whole)


def test_every_cut_is_noticed(small):
    whole, changed = small
    for length in [*range(0, len(whole), 13), *range(len(whole) - 80, len(whole))]:
        changed.write_bytes(whole[:length])
        with pytest.raises(BadSynopsisFile):
            files.read(changed)


def repacked(path, whole, change):
    """The file with its members put through `change` (a dict of names to bytes), digests left as they were."""
    with zipfile.ZipFile(io.BytesIO(whole)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
        comment = archive.comment
    members = change(members)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.comment = comment
    return path


def resealed(path, whole, change):
    """The same with all digests made anew: a file that is consistent, and still not a release."""

    def seal(members):
        members = change(members)
        top = json.loads(members["manifest.json"])
        for name in set(top["members"]) & set(members):
            data = members[name]
            top["members"][name] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
        return {**members, "manifest.json": json.dumps(top).encode()}

    repacked(path, whole, seal)
    with zipfile.ZipFile(path, "a") as archive:
        digest = hashlib.sha256(archive.read("manifest.json")).hexdigest()
        archive.comment = b"conspectus manifest sha256 " + digest.encode()
    return path


def edited(**fields):
    def change(members):
        return {**members, "manifest.json": json.dumps({**json.loads(members["manifest.json"]), **fields}).encode()}

    return change


def test_resealing_alone_is_accepted(small):
    """The twin of the refusals below: what they refuse is the change and not the sealing."""
    whole, changed = small
    assert files.read(resealed(changed, whole, lambda members: members)).manifest["note"] == "é ✓"


TABLE = "tables/weights.arrow"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (edited(version=2), "newer Conspectus"),
        (edited(version=0), "file version"),
        (edited(format="other"), "not a Conspectus release"),
        (edited(release=[1]), "lists"),
        (lambda members: {**members, "extra.py": b"print()"}, "lists other members"),
        (lambda members: {k: v for k, v in members.items() if k != TABLE}, "lists other members"),
        (lambda members: {**members, TABLE: b"no arrow"}, "damaged"),
        (lambda members: {**members, TABLE: members[TABLE][:-40]}, "damaged"),
        (lambda members: {**members, "workload.json": b"{"}, "damaged"),
        (lambda members: {**members, "workload.json": b"[" * 100_000}, "damaged"),
    ],
)
def test_consistent_files_that_are_no_release_are_refused(small, change, sentence):
    whole, changed = small
    with pytest.raises(BadSynopsisFile, match=sentence):
        files.read(resealed(changed, whole, change))


def test_a_table_under_another_name_is_refused(small):
    whole, changed = small

    def rename(members):
        top = json.loads(members["manifest.json"])
        top["members"]["../../evil.arrow"] = top["members"].pop(TABLE)
        members["../../evil.arrow"] = members.pop(TABLE)
        return {**members, "manifest.json": json.dumps(top).encode()}

    with pytest.raises(BadSynopsisFile, match="no release has"):
        files.read(resealed(changed, whole, rename))


def test_changed_contents_under_old_digests_are_refused(small):
    whole, changed = small
    swap = {
        "workload.json": lambda data: data.replace(b"2", b"3", 1),
        "manifest.json": lambda data: data.replace(b"1.0", b"9.0", 1),
    }
    for name, edit in swap.items():
        path = repacked(changed, whole, lambda members, n=name, e=edit: {**members, n: e(members[n])})
        with pytest.raises(BadSynopsisFile, match="digest"):
            files.read(path)


def test_a_bomb_is_refused_before_it_is_unpacked(small, monkeypatch):
    whole, changed = small
    bomb = b"\0" * (files._SMALL + 1)
    path = repacked(changed, whole, lambda members: {**members, TABLE: bomb})
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("unpacked"))
    with pytest.raises(BadSynopsisFile, match="far more than its size"):
        files.read(path)


def test_a_large_even_table_is_no_bomb(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_SMALL", 1 << 16)
    files.write(tmp_path / "x", {}, None, {"weights": pa.table({"weight": np.zeros(1 << 16)})})
    assert files.read(tmp_path / "x").tables["weights"].num_rows == 1 << 16


def test_a_manifest_that_understates_a_member_gains_nothing(small):
    """The reader takes no more than the manifest says, whatever the zip holds."""
    whole, changed = small

    def understate(members):
        top = json.loads(members["manifest.json"])
        top["members"]["workload.json"]["bytes"] = 3
        return {**members, "manifest.json": json.dumps(top).encode()}

    path = repacked(changed, whole, understate)
    with zipfile.ZipFile(path, "a") as archive:
        digest = hashlib.sha256(archive.read("manifest.json")).hexdigest()
        archive.comment = b"conspectus manifest sha256 " + digest.encode()
    with pytest.raises(BadSynopsisFile, match="longer than it says"):
        files.read(path)


def test_what_is_no_release_is_refused(tmp_path):
    texts = {"empty": b"", "csv": b"a,b\n1,2\n", "short": b"PK", "zip": None}
    for name, data in texts.items():
        path = tmp_path / name
        if data is None:
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("word/document.xml", "<x/>")
        else:
            path.write_bytes(data)
        with pytest.raises(BadSynopsisFile, match="not a Conspectus release"):
            files.read(path)
    with pytest.raises(BadSynopsisFile, match="there is no file"):
        files.read(tmp_path / "nowhere")
    with pytest.raises(BadSynopsisFile, match="not a file"):
        files.read(tmp_path)


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "release"
    saved(path, synopses()[0])
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CannotWriteFile, match="No space left"):
        saved(path, synopses()[1])
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["release"]


def test_paths_that_cannot_be_written_are_refused(tmp_path):
    with pytest.raises(CannotWriteFile, match="not a folder"):
        files.check_writable(tmp_path / "none" / "x")
    with pytest.raises(CannotWriteFile, match="is a folder"):
        files.check_writable(tmp_path)
    files.check_writable(tmp_path / "x")
    with pytest.raises(ValueError, match="named in small letters"):
        files.write(tmp_path / "x", {}, None, {"../x": pa.table({"a": [1]})})


@pytest.mark.parametrize("error", [KeyError("x"), TypeError("x"), ValueError("x"), AttributeError("x")])
def test_contents_that_do_not_fit_are_one_sentence(error):
    with pytest.raises(BadSynopsisFile, match="do not fit together"), files.faithful():
        raise error
    with pytest.raises(BadSynopsisFile, match="mine"), files.faithful():
        raise BadSynopsisFile("mine")
    with pytest.raises(ZeroDivisionError), files.faithful():
        _ = 1 / 0
