"""What plans say of time and of files: of every mechanism, growing with the problem, and near the size of files."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.cli import run
from conspectus.mechanisms.effort import expected_effort
from conspectus.mechanisms.registry import OFFLINE

ROWS, WITHIN = 2_000, 3.0


def made_table(columns: int, size: int) -> tuple[cs.Schema, object]:
    rng = np.random.Generator(np.random.PCG64(2))
    names = [f"c{i}" for i in range(columns)]
    declared = {name: {"type": "integer", "min": 0, "max": size - 1} for name in names}
    schema = cs.Schema.from_dict({"name": "made", "columns": declared})
    values = {name: np.minimum(rng.geometric(0.3, ROWS) - 1, size - 1) for name in names}
    return schema, cs.open_table(pa.table(values), schema)


def test_every_mechanism_has_its_work():
    assert set(expected_effort._WORK) == set(OFFLINE)


@pytest.mark.parametrize(("columns", "size"), [(3, 12), (6, 3)])
def test_files_are_about_as_large_as_was_said(columns, size, tmp_path):
    schema, table = made_table(columns, size)
    asked = cs.marginals(schema, 2)
    plan = cs.plan(schema, asked, rows=ROWS, epsilon=1.0, delta=1e-6)
    names = {claim.mechanism for claim in plan.claims} - {"adaptive"}
    assert {"laplace", "gaussian", "histogram", "mwem", "projection", "boosting", "dual-query", "iterative"} <= names
    for name in sorted(names):
        release = cs.release(table, asked, epsilon=1.0, delta=1e-6, mechanism=name)
        release.save(tmp_path / f"{name}.synopsis")
        size_found = (tmp_path / f"{name}.synopsis").stat().st_size
        said = plan.efforts[name].file_bytes
        assert said / WITHIN <= size_found <= said * WITHIN, (name, said, size_found)


def test_more_of_anything_takes_longer():
    schema, _ = made_table(6, 4)
    few, many = cs.marginals(schema, 1), cs.marginals(schema, 3)

    def seconds(asked: cs.Workload, rows: int) -> dict[str, float]:
        plan = cs.plan(schema, asked, rows=rows, epsilon=1.0, delta=1e-6)
        return {name: effort.seconds for name, effort in plan.efforts.items()}

    base, longer, wider = seconds(few, 10_000), seconds(few, 10_000_000), seconds(many, 10_000)
    for name in base.keys() & longer.keys():
        assert 0 < base[name] < longer[name], name
    for name in ("laplace", "gaussian", "mwem", "projection"):
        assert base[name] < wider[name], name


def test_plans_show_time_and_size(capsys, tmp_path):
    schema, _ = made_table(3, 4)
    plan = cs.plan(schema, cs.marginals(schema, 2), rows=ROWS, epsilon=1.0)
    lines = plan.to_arrow().to_pylist()
    claims = plan.to_json()["claims"]
    for line, claim in zip(lines, claims):
        effort = plan.efforts[claim["mechanism"]]
        assert (line["seconds"], line["file_bytes"]) == (effort.seconds, effort.file_bytes)
        assert (claim["seconds"], claim["file_bytes"]) == (effort.seconds, effort.file_bytes)
        assert claim["synthetic_rows"] is line["synthetic_rows"]
    assert "file_bytes" in plan._repr_html_()
    path = tmp_path / "made.toml"
    columns = [f"[columns.c{i}]\ntype = 'integer'\nmin = 0\nmax = 3\n" for i in range(3)]
    path.write_text("\n".join(["name = 'made'", *columns]))
    given = ["plan", "--schema", str(path), "--marginals", "2", "--rows", str(ROWS), "--epsilon", "1"]
    assert run(given) == 0
    told = capsys.readouterr().out
    assert "seconds" in told
    assert "file" in told
    assert "within a factor of about three" in told
