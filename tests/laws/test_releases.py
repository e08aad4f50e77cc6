"""A release read back: the same to the bit, and refused when its own fields contradict each other."""

from __future__ import annotations

import hashlib
import json
import zipfile

import numpy as np
import pytest
from tests.made import needed, people

import conspectus as cs
from conspectus.mechanisms.registry import OFFLINE
from conspectus.synopses import files
from conspectus.synopses.synopsis import CannotAnswer


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    schema, table = people(rows=400)
    release = cs.release(table, cs.marginals(schema, 2), epsilon=1, delta=1e-6, mechanism="projection")
    path = tmp_path_factory.mktemp("saved") / "people.conspectus"
    release.save(path)
    return path


def tampered(path, target, change):
    """The same file with its manifest changed and every digest made right again."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
        comment = archive.comment
    manifest = json.loads(members["manifest.json"])
    change(manifest["release"])
    top = json.dumps(manifest).encode()
    before = hashlib.sha256(members["manifest.json"]).hexdigest().encode()
    members["manifest.json"] = top
    with zipfile.ZipFile(target, "w") as archive:
        archive.comment = comment.replace(before, hashlib.sha256(top).hexdigest().encode())
        for name, data in members.items():
            archive.writestr(name, data)
    return target


@pytest.mark.parametrize("name", OFFLINE)
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_a_loaded_release_answers_the_same_to_the_bit(tmp_path, name, neighbours):
    schema, table = people(rows=4000 if name == "stable-histogram" else 400, neighbours=neighbours)
    own = needed(name, schema)
    release = cs.release(table, cs.marginals(schema, 2), epsilon=1, delta=1e-6, mechanism=name, **own)
    release.save(tmp_path / "people.conspectus")
    loaded = cs.load(tmp_path / "people.conspectus")
    assert np.array_equal(loaded.answers, release.answers)
    assert loaded.guarantee == release.guarantee
    assert loaded.events == release.events
    assert loaded.certificate == release.certificate
    for question in ("smoker AND ill", "age < 42", "region IN ('north', 'west')"):
        assert loaded.ask(question) == release.ask(question)
    assert loaded.table(["age", "ill"]).equals(release.table(["age", "ill"]))
    if name == "sparse-project":
        with pytest.raises(CannotAnswer, match="no rows to give"):
            loaded.synthetic(50)
    else:
        assert loaded.synthetic(50, public_seed=3).equals(release.synthetic(50, public_seed=3))
    other = cs.marginals(schema, 1)
    assert np.array_equal(loaded.synopsis.answer(other), release.synopsis.answer(other))


def set_to(*keys, value):
    def change(fields):
        for key in keys[:-1]:
            fields = fields[key]
        fields[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        set_to("guarantee", "epsilon", value=-5),
        set_to("guarantee", "epsilon", value=0.01),
        set_to("guarantee", "rho", value=1e-6),
        set_to("guarantee", "delta", value=2),
        set_to("guarantee", "neighbours", value="none"),
        set_to("guarantee", "warnings", value=[1]),
        set_to("events", value=[]),
        set_to("claim", "expected_max", value="x"),
        set_to("claim", "bound", value={"value": "x"}),
        set_to("certificate", "law", value=["gaussian", -1.0]),
        set_to("certificate", "failure_probability", value=7.0),
        set_to("mechanism", value=3),
        set_to("parameters", value=3),
        set_to("synopsis", "meta", "total", "scale", value=-5.0),
        set_to("synopsis", "kind", value="elsewhere"),
        set_to("schema", "columns", value={}),
    ],
)
def test_fields_that_contradict_each_other_are_refused(saved, tmp_path, change):
    with pytest.raises(files.BadSynopsisFile):
        cs.load(tampered(saved, tmp_path / "changed.conspectus", change))


def test_tampering_alone_is_what_was_refused(saved, tmp_path):
    kept = cs.load(tampered(saved, tmp_path / "same.conspectus", lambda fields: None))
    assert np.array_equal(kept.answers, cs.load(saved).answers)


def test_answers_and_counts_lie_in_their_intervals():
    schema, table = people(rows=300)
    workload = cs.marginals(schema, 2)
    for name in ("laplace", "projection", "mwem"):
        release = cs.release(table, workload, epsilon=0.3, delta=1e-6, mechanism=name)
        for i in range(len(workload)):
            answer = release.ask(workload[i])
            assert answer.low <= answer.fraction <= answer.high
        made = release.table(["age", "region"]).to_pydict()
        assert all(low <= count <= high for low, count, high in zip(made["low"], made["count"], made["high"]))
        assert min(made["count"]) >= 0
        margins = [sum(release.table(["age", other])["count"].to_pylist()) for other in ("region", "ill")]
        assert margins[0] == margins[1] == release.total.rows
