"""Printed tables agree wherever they overlap, keep the bound that was proved, and their intervals hold them."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.made import needed, people, truth

import conspectus as cs
from conspectus.mechanisms.mechanism import NoMechanism
from conspectus.mechanisms.registry import OFFLINE, ONLINE
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.noise import UnsafeSeededSampler
from conspectus.privacy.tails import sum_quantile
from conspectus.releases.planning import problem_of
from conspectus.releases.run import run
from conspectus.report.pictures import Bar, heat_map
from conspectus.synopses.synopsis import CannotAnswer

ID = {"kind": "id", "column": "person", "max_rows": 2}


def printed(release):
    """Every table that the release prints, by its columns, with its intervals; refused ones are left out."""
    names, sizes = release.schema.domain.names, release.schema.domain.sizes
    tables = {}
    for width in range(1, min(len(names), 4) + 1):
        for columns in itertools.combinations(range(len(names)), width):
            try:
                made = release.table([names[c] for c in columns])
            except CannotAnswer:
                continue
            count, low, high = (made[name].to_numpy(zero_copy_only=False) for name in ("count", "low", "high"))
            assert count.dtype == np.int64
            assert (count >= 0).all()
            known = ~np.isnan(low.astype(float))
            assert (low[known] <= count[known]).all()
            assert (count[known] <= high[known]).all()
            tables[columns] = count.reshape([sizes[c] for c in columns])
    return tables


def points(release):
    """Printed cells whose interval is a point, though they rest on noise."""
    names = release.schema.domain.names
    made = [release.table(list(pair)) for pair in itertools.combinations(names, 2)]
    return [row for table in made for row in table.to_pylist() if row["low"] is not None and row["low"] >= row["high"]]


def disagreements(tables):
    """Pairs of tables that count what they have in common in two ways."""
    found = []
    for first, second in itertools.combinations(tables, 2):
        common = set(first) & set(second)
        sums = [
            tables[columns].sum(axis=tuple(axis for axis, c in enumerate(columns) if c not in common))
            for columns in (first, second)
        ]
        if not np.array_equal(*sums):
            found.append((first, second))
    return found


def farthest(release, tables, counts):
    """The largest error of the printed tables of a release of marginals, in counts."""
    made = np.concatenate([tables[block.columns].ravel() for block in release.workload.blocks])
    return float(np.abs(made - counts).max())


@pytest.mark.parametrize("unit", [None, ID], ids=["rows", "ids"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("name", OFFLINE)
def test_tables_of_every_mechanism_agree_and_keep_its_bound(name, neighbours, unit):
    """With fixed noise: made rows are printed to within three rows of their answers, so that in one of 10⁴ releases the
    answers just keep a certificate that the tables pass."""
    schema, table = people(rows=1000, neighbours=neighbours, unit=unit)
    own = needed(name, schema)
    workload = cs.marginals(schema, 2)
    counts, rows = truth(table, workload)
    problem = problem_of(schema, workload, budget=Budget(epsilon=2, delta=1e-6), neighbours=None, rows=None)
    release = run(table, problem, mechanism=name, settings=own, sampler=UnsafeSeededSampler(1))
    tables = printed(release)
    assert len(tables) == 15
    assert not points(release)
    assert not disagreements(tables)
    sums = {int(made.sum()) for made in tables.values()}
    assert sums == {release.total.rows} or name == "stable-histogram"  # which prints what it published
    claimed = release.claim.bound if release.claim is not None else None
    if release.certificate is not None:
        bound = release.certificate.bound
    elif claimed is not None and claimed.statistic == "max":
        bound = claimed.value
    else:
        return
    # A bound may fail now and then; where the answers keep it, so do the tables, to a row.
    if np.abs(release.answers * release.total.divisor - counts).max() <= bound * rows:
        assert farthest(release, tables, counts) <= bound * rows + 1


@pytest.mark.parametrize("name", ONLINE)
def test_tables_of_a_session_agree(name):
    _, table = people(rows=1000)
    try:
        session = cs.open_session(table, mechanism=name, questions=20, epsilon=4.0, delta=1e-6)
    except NoMechanism:
        return
    with session:
        for question in ("smoker", "ill AND smoker", "age < 42", "region = 'north' AND ill"):
            session.ask(question)
        assert not disagreements(printed(session.release()))


def wide(rows=20_000, *, neighbours="replace"):
    """Columns that depend on each other, far too many for one joint, with values that nobody or hardly anybody has."""
    rng = np.random.Generator(np.random.PCG64(11))
    sizes = (3, 4, 4, 4, 3, 4, 3, 4, 4, 3, 4, 4)
    kind = rng.integers(0, 5, rows)
    data = {}
    for column, size in enumerate(sizes):
        shares = rng.dirichlet(np.full(size, 0.3), 5)
        drawn = (rng.random(rows)[:, None] > np.cumsum(shares, axis=1)[kind]).sum(axis=1)
        data[f"c{column}"] = np.minimum(drawn, size - 1)
    data["c3"][:] = np.where(np.arange(rows) < 3, 3, np.minimum(data["c3"], 2))  # three rows have this value
    columns = {f"c{column}": {"type": "integer", "min": 0, "max": size - 1} for column, size in enumerate(sizes)}
    schema = cs.Schema.from_dict({"name": "wide", "neighbours": neighbours, "columns": columns})
    return schema, cs.open_table(pa.table(data), schema)


def test_wide_tables_are_nearer_to_the_truth_than_what_was_measured():
    """All tables of three columns of a wide table: each cell cut and scaled on its own was far beyond the bound."""
    schema, table = wide()
    workload = cs.marginals(schema, 3)
    counts, rows = truth(table, workload)
    release = cs.release(table, workload, epsilon=1, delta=1e-6, mechanism="gaussian")
    names = schema.domain.names
    tables, covered = {}, 0
    for block in workload.blocks:
        made = release.table([names[c] for c in block.columns])
        place = slice(*workload.offsets[workload.blocks.index(block) :][:2])
        low, high = made["low"].to_numpy(), made["high"].to_numpy()
        covered += int(((low <= counts[place]) & (counts[place] <= high)).sum())
        tables[block.columns] = made["count"].to_numpy().reshape(schema.domain.shape(block.columns))
    ones = {(c,): release.table([name])["count"].to_numpy() for c, name in enumerate(names)}
    assert not disagreements(ones | dict(list(tables.items())[::5]))
    made = np.concatenate([tables[block.columns].ravel() for block in workload.blocks])
    raw = np.abs(release.answers * rows - counts)
    assert np.abs(made - counts).max() < raw.max()
    assert np.abs(made - counts).mean() < raw.mean() / 2
    assert np.abs(made - counts).max() <= release.claim.bound.value * rows
    assert release.synopsis.printed_within() <= 1.2 * release.claim.bound.value * rows
    assert covered >= 0.94 * len(counts)
    assert not points(release)
    assert {int(table.sum()) for table in tables.values()} == {rows}
    with pytest.raises(CannotAnswer):  # four columns were never measured together, and no joint can be made
        release.table(names[:4])


def test_no_interval_of_a_printed_cell_is_a_point():
    """Of many empty cells some have noise so far below 0 that all of their interval was cut away: 0 to 0."""
    columns = {name: {"type": "integer", "min": 0, "max": 29} for name in "ab"}
    schema = cs.Schema.from_dict({"name": "empty", "columns": columns})
    table = cs.open_table(pa.table({"a": [3] * 50, "b": [4] * 50}), schema)
    made = cs.release(table, cs.marginals(schema, 2), epsilon=0.5, mechanism="laplace").table(["a", "b"])
    count, low, high = (made[name].to_numpy() for name in ("count", "low", "high"))
    assert (low < high).all()
    assert (low <= count).all()
    assert (count <= high).all()
    true = np.zeros((30, 30))
    true[3, 4] = 50
    missed = (true.ravel() < low) | (true.ravel() > high)
    assert missed.mean() < 0.1  # 5 % at most, of 900 independent ones


def test_without_noise_the_printed_tables_are_the_true_ones():
    schema, table = people(rows=500)
    for width in (1, 2, 3):
        workload = cs.marginals(schema, width)
        release = cs.release(table, workload, epsilon=2000, mechanism="laplace")
        assert farthest(release, printed(release), truth(table, workload)[0]) == 0


def test_listed_cells_and_prefixes_agree_with_marginals():
    schema, table = people(rows=2000)
    cells = [f"{a} AND {b}" for a in ("smoker", "NOT smoker") for b in ("ill", "NOT ill")]
    workload = cs.sql(schema, cells) + cs.marginal(schema, ["ill", "region"]) + cs.prefixes(schema, "age")
    for name in ("laplace", "gaussian"):
        release = cs.release(table, workload, epsilon=2, delta=1e-6, mechanism=name)
        tables = printed(release)
        assert {(2, 3), (0, 3), (1,)} <= set(tables)
        assert not disagreements(tables)
        assert {int(made.sum()) for made in tables.values()} == {2000}


def test_published_records_are_printed_as_often_as_they_were_published():
    """Their counts used to be scaled up to all rows, those of other records included."""
    schema, table = people(rows=4000)
    release = cs.release(table, cs.marginals(schema, 4), epsilon=2, delta=1e-6, mechanism="stable-histogram")
    whole = release.table(list(schema.domain.names))["count"].to_numpy()
    assert sorted(whole[whole > 0].tolist()) == sorted(release.synopsis.counts.tolist())
    assert not disagreements(printed(release))


def test_an_empty_table_prints_zeros():
    schema, table = people(rows=0)
    release = cs.release(table, cs.marginals(schema, 2), epsilon=1, mechanism="laplace")
    assert {int(made.sum()) for made in printed(release).values()} == {0}


def test_large_counts_are_not_shrunk_for_the_sake_of_empty_cells():
    """One value has nearly all rows. Cutting off negative cells adds rows, which are taken from other noise: scaled
    down to the total, the large count would lose 5,000 rows. The noise of a cell is beyond its reach once in 10⁹."""
    columns = {"place": {"type": "integer", "min": 0, "max": 999}}
    schema = cs.Schema.from_dict({"name": "places", "columns": columns})
    data = pa.table({"place": np.concatenate([np.zeros(7600, dtype=np.int64), np.arange(400) % 3])})
    release = cs.release(cs.open_table(data, schema), cs.marginals(schema, 1), epsilon=0.05, mechanism="laplace")
    made = release.table(["place"]).to_pydict()
    reach = sum_quantile("laplace", 40.0, 1, 1 - 1e-9)
    assert sum(made["count"]) == 8000
    assert abs(made["count"][0] - 7734) <= reach
    assert max(made["count"][3:]) <= reach


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian", "histogram", "projection"])
def test_tables_and_rows_of_few_columns_lie_in_their_own_intervals(mechanism):
    """A marginal of 512 cells, most of them empty: what is cut off of these adds up in a table of one column, and in
    the rows that are made. Intervals are those of 99.9 %; the noise is fixed."""
    rng = np.random.Generator(np.random.PCG64(7))
    ill = rng.random(3000) < 0.3
    data = {f"c{n}": rng.random(3000) < np.where(ill, 0.6 - n / 20, 0.05) for n in range(9)}
    schema = cs.Schema.from_dict({"name": "ills", "columns": {name: {"type": "boolean"} for name in data}})
    table, budget = cs.open_table(pa.table(data), schema), Budget(epsilon=0.5, delta=1e-6)
    problem = problem_of(schema, cs.marginal(schema, list(data)), budget=budget, neighbours=None, rows=None)
    release = run(table, problem, mechanism=mechanism, settings={}, sampler=UnsafeSeededSampler(2))
    rows = release.synthetic(30_000, public_seed=1)
    for name in data:
        asked = release.ask(name, confidence=0.999)
        low, high = asked.low * 3000, asked.high * 3000
        printed_count = release.table([name]).to_pydict()["count"][1]
        assert low - 1 <= printed_count <= high + 1
        assert low - 1 <= pc.sum(rows[name]).as_py() / 10 <= high + 1


def test_maps_mark_noise_as_bars_do():
    sure = Bar(label="a, x", count=100, low=90, high=110, noisy=False)
    unsure = Bar(label="a, y", count=90, low=0, high=300, noisy=True)
    drawn = heat_map([[sure, unsure]], rows=["a"], columns=["x", "y"], title="t")
    assert 'class="cell unsure"' in drawn
    assert "interval 0 to 300" in drawn
    assert ">100</text>" in drawn
    assert ">90</text>" not in drawn
    assert not math.isnan(sure.top)


@pytest.mark.parametrize("mechanism", ["laplace", "histogram", "tree", "mwem", "projection"])
def test_cells_of_a_table_have_no_more_rows_than_there_are(mechanism):
    """With noise far larger than the table: no end leaves what is possible, and none shrinks to a point."""
    schema = cs.Schema.from_dict({"name": "made", "columns": {"x": {"type": "integer", "min": 0, "max": 3}}})
    table = cs.open_table(pa.table({"x": [0, 1, 2, 3] * 10}), schema)
    for _ in range(10):
        release = cs.release(table, cs.marginal(schema, ["x"]), epsilon=0.01, mechanism=mechanism)
        for line in release.table(["x"]).to_arrow().to_pylist():
            assert 0 <= line["low"] <= line["count"] <= line["high"] <= 40
            assert line["low"] < line["high"]
