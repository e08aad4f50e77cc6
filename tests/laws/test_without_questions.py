"""Files that leave the questions out: small, checked, and of synopses alone that answer by themselves."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from tests.made import people

import conspectus as cs
from conspectus.queries.workload import Workload
from conspectus.releases.release import QuestionsNeeded
from conspectus.synopses import files
from conspectus.synopses.files import BadSynopsisFile

ROWS, QUERIES, EACH = 2000, 400, 100


@pytest.fixture(scope="module")
def asked():
    drawn = np.random.default_rng(1).integers(0, 1 << 40, (QUERIES, EACH))
    return cs.sparse(drawn.tolist())


@pytest.fixture(scope="module")
def release(asked):
    return cs.release(cs.open_records(list(range(ROWS))), asked, epsilon=1.0, delta=1e-6, mechanism="sparse-project")


def test_questions_take_more_than_the_projection_and_can_be_left_out(release, asked, tmp_path):
    release.save(tmp_path / "whole")
    release.save(tmp_path / "bare", questions=False)
    whole, bare = ((tmp_path / name).stat().st_size / release.parameters["size"] for name in ("whole", "bare"))
    assert bare <= 16 < whole
    # A list of records takes no more than the 8 bytes of each fingerprint.
    assert (whole - bare) * release.parameters["size"] <= 8.2 * QUERIES * EACH + 8 * QUERIES


def test_a_file_without_questions_answers_them(release, asked, tmp_path):
    release.save(tmp_path / "bare", questions=False)
    again = cs.load(tmp_path / "bare")
    assert (len(again.workload), len(again.answers), again.left_out, again.questions) == (0, 0, QUERIES, QUERIES)
    assert (release.left_out, release.questions) == (0, QUERIES)
    assert np.array_equal(again.synopsis.answer(asked), release.answers)
    assert again.ask(asked[7]) == release.ask(asked[7])
    assert again.guarantee == release.guarantee
    assert again.events == release.events
    again.save(tmp_path / "again")
    again.save(tmp_path / "twice", questions=False)
    assert (tmp_path / "again").read_bytes() == (tmp_path / "bare").read_bytes() == (tmp_path / "twice").read_bytes()


def test_what_rests_on_its_questions_keeps_them(tmp_path):
    schema, table = people(50)
    for mechanism in ("laplace", "projection"):
        made = cs.release(table, cs.marginals(schema, 1), epsilon=1.0, mechanism=mechanism)
        with pytest.raises(QuestionsNeeded, match="save the release with them"):
            made.save(tmp_path / "bare", questions=False)
        assert not (tmp_path / "bare").exists()


@pytest.mark.parametrize("wrong", [-1, True, 2.0, "2", None])
def test_a_number_that_is_none_is_refused(release, wrong, tmp_path):
    release.save(tmp_path / "bare", questions=False)
    held = files.read(tmp_path / "bare")
    files.write(tmp_path / "wrong", {**held.manifest, "left_out": wrong}, held.workload, held.tables)
    with pytest.raises(BadSynopsisFile):
        cs.load(tmp_path / "wrong")


def test_a_file_does_not_list_questions_that_it_says_it_leaves_out(release, tmp_path):
    release.save(tmp_path / "whole")
    held = files.read(tmp_path / "whole")
    files.write(tmp_path / "wrong", {**held.manifest, "left_out": 3}, held.workload, held.tables)
    with pytest.raises(BadSynopsisFile):
        cs.load(tmp_path / "wrong")
    with pytest.raises(QuestionsNeeded):
        dataclasses.replace(release, left_out=3)
    nothing = Workload(release.workload.domain, ())
    assert dataclasses.replace(release, workload=nothing, answers=np.zeros(0), left_out=3).questions == 3
