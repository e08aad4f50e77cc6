"""Values inside bins: sensitivities by brute force, right answers, honest intervals, and what is paid for them."""

from __future__ import annotations

from itertools import combinations_with_replacement, product

import numpy as np
import pyarrow as pa
import pytest

import conspectus as cs
from conspectus.counting.counters import count
from conspectus.data.columns.finer_bins import finer_bins
from conspectus.mechanisms.mechanism import ProblemError
from conspectus.privacy.accounting import BudgetExceeded
from conspectus.privacy.events import LaplaceNoise, Noise
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries.query import VALUE_STEPS
from conspectus.releases.cells import cell_estimates, cell_moments
from conspectus.releases.cells.binned_cells import with_inside
from conspectus.releases.within_bins import WithinBins, asked_inside
from conspectus.synopses import files

DECLARED = {
    "age": {"type": "integer", "min": 0, "max": 99, "width": 10, "missing": True},
    "pay": {"type": "number", "edges": [0, 1000, 5000, 20000]},
    "sex": {"type": "boolean"},
}
SCHEMA = cs.Schema.from_dict({"name": "made", "columns": DECLARED})
HUGE = 1e6


def made(rows: int = 3000) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    age = np.minimum(17 + rng.gamma(2, 10, rows), 99).astype(np.int64)
    return {"age": age, "pay": np.minimum(rng.lognormal(7.5, 0.8, rows), 19_999.0), "sex": rng.random(rows) < 0.4}


TRUE = made()
TABLE = cs.open_table(pa.table(TRUE), SCHEMA)
PAIRS = cs.marginals(SCHEMA, 2)


@pytest.mark.parametrize("edges", [None, [0, 2, 3, 6]])
@pytest.mark.parametrize("max_rows", [1, 2])
@pytest.mark.parametrize("neighbours", list(Neighbours))
def test_the_sensitivity_is_that_of_all_neighbours(neighbours, max_rows, edges):
    ordered = {"edges": edges} if edges else {"min": 0, "max": 6, "width": 4}
    schema = cs.Schema.from_dict(
        {
            "name": "tiny",
            "columns": {
                "a": {"type": "integer", "missing": True, **ordered},
                "b": {"type": "number", "edges": [0, 1, 4]},
            },
        }
    )
    narrow, asked = asked_inside(schema, [0, 1])
    values = list(product([0, 1, 2, 3, 5, 6, None], [0.0, 0.3, 1.0, 3.9]))
    moves = []
    for a, b in values:
        one = cs.open_table(pa.table({"a": pa.array([a], pa.int64()), "b": [b]}), narrow)
        moves.append(count(asked, one.chunks())[0])
    moves = np.array(moves)
    units = [moves[list(held)].sum(axis=0) for held in combinations_with_replacement(range(len(moves)), max_rows)]
    nothing = np.zeros(len(asked), dtype=np.int64)
    rows_are_units = max_rows == 1
    sides = units if rows_are_units else [nothing, *moves, *units]
    if neighbours is Neighbours.REPLACE:
        some = sides[:: max(1, len(sides) // 150)]
        apart = [x - y for x in some for y in some]
    else:
        apart = list(sides)
    proved = asked.sensitivity(Relation(neighbours, max_rows, rows_are_units))
    l1 = max(int(np.abs(x).sum()) for x in apart)
    assert l1 <= proved.l1
    assert max(int(np.square(x).sum()) for x in apart) <= proved.l2_squared
    assert max(int(np.abs(x).max()) for x in apart) <= proved.linf
    if rows_are_units:  # two columns, each at most one count, or two for a replaced row; and that is reached
        assert proved.l1 == l1 == 2 * VALUE_STEPS * (2 if neighbours is Neighbours.REPLACE else 1)


@pytest.mark.parametrize(
    "declared",
    [
        {"type": "integer", "min": -5, "max": 20, "width": 7},
        {"type": "integer", "min": 0, "max": 10_000, "width": 5_000},
        {"type": "integer", "edges": [0, 1, 10, 5000, 5001]},
        {"type": "number", "edges": [-1.5, 0, 1e-300, 7.25]},
    ],
)
def test_narrow_bins_lie_in_the_bins_of_the_same_values(declared):
    column = cs.Schema.from_dict({"columns": {"x": declared}}).columns[0]
    finer = finer_bins(column)
    assert finer is not None
    low, high = float(column.lows[0]), float(column.highs[-1])
    points = np.concatenate([np.linspace(low - 9, high + 9, 997), column.lows, column.highs]).astype(np.float64)
    if column.kind == "integer":
        points = np.floor(points)
    wide, narrow = column.encode(pa.array(points)).astype(int), finer.column.encode(pa.array(points)).astype(int)
    assert np.array_equal(finer.owner[narrow], wide)
    seen = finer.low[wide] + finer.place[narrow] * finer.width[wide]
    inside = np.clip(points, low, high)
    assert (np.abs(seen - inside) <= finer.slack[wide] * (1 + 1e-9) + 1e-9).all()
    assert ((finer.place >= 0) & (finer.place <= 1)).all()


def test_columns_without_wide_bins_have_none():
    for declared in ({"type": "integer", "min": 0, "max": 9}, {"type": "boolean"}):
        assert finer_bins(cs.Schema.from_dict({"columns": {"x": declared}}).columns[0]) is None


@pytest.mark.parametrize("budget", [{"epsilon": HUGE}, {"epsilon": 60.0, "delta": 1e-6}, {"rho": 1000.0}])
@pytest.mark.parametrize("mechanism", ["laplace", "histogram", "mwem"])
def test_averages_are_those_of_the_values(mechanism, budget):
    """Noise is far below what is called near, and the intervals fail once in 10⁹ runs."""
    settings = {"rounds": 12} if mechanism == "mwem" else {}
    release = cs.release(TABLE, PAIRS, mechanism=mechanism, within_bins=0.3, **budget, **settings)
    close = 0.2 if mechanism == "mwem" else 0.01
    age, pay = TRUE["age"], TRUE["pay"]
    found = release.query("SELECT AVG(age) a, SUM(age) s, VAR_POP(age) v, AVG(pay) p FROM made").to_dict()
    assert found["a"][0] == pytest.approx(age.mean(), rel=close)
    assert found["s"][0] == pytest.approx(age.sum(), rel=close)
    assert found["v"][0] == pytest.approx(age.var(), rel=5 * close)
    assert found["p"][0] == pytest.approx(pay.mean(), rel=close)
    high = release.query("SELECT AVG(age) a FROM made WHERE age >= 40").to_dict()
    assert high["a"][0] == pytest.approx(age[age >= 40].mean(), rel=close)
    asked = release.ask(cs.means(SCHEMA, "age"))
    assert asked.value == pytest.approx(age.mean(), rel=close)
    groups = release.query("SELECT sex, AVG(age) a FROM made GROUP BY sex", confidence=1 - 1e-9).to_dict()
    for sex, value, low, high in zip(groups["sex"], groups["a"], groups["a_low"], groups["a_high"]):
        truth = age[TRUE["sex"] == sex].mean()
        assert value == pytest.approx(truth, rel=0.03 + close)
        assert low <= truth <= high
    rows = release.synthetic(20_000, public_seed=3)
    values = rows["age"].drop_null().to_numpy()
    assert rows["age"].type == pa.int64()
    assert values.mean() == pytest.approx(age.mean(), rel=0.02 + close)
    assert values.std() == pytest.approx(age.std(), rel=0.05 + close)
    assert rows["pay"].to_numpy().mean() == pytest.approx(pay.mean(), rel=0.03 + close)
    median = release.quantile("pay", 0.5)
    assert median.value == pytest.approx(np.median(pay), rel=0.1)


def test_the_middles_of_bins_would_be_wrong():
    plain = cs.release(TABLE, PAIRS, mechanism="laplace", epsilon=HUGE)
    assert abs(plain.ask(cs.means(SCHEMA, "pay")).value / TRUE["pay"].mean() - 1) > 0.1


def test_workloads_of_moments_take_what_was_bought():
    workload = PAIRS + cs.means(SCHEMA, "age") + cs.variances(SCHEMA, "pay") + cs.covariances(SCHEMA, "age", "pay")
    release = cs.release(TABLE, workload, mechanism="laplace", epsilon=HUGE, within_bins=0.5)
    mean, variance, _ = release.answers[-3:]
    assert mean == pytest.approx(TRUE["age"].mean(), rel=1e-3)
    assert variance == pytest.approx(TRUE["pay"].var(), rel=0.02)
    assert release.ask(cs.means(SCHEMA, "age")).value == pytest.approx(mean)


@pytest.mark.parametrize("kind", ["csv", "frame"])
def test_of_an_id_the_same_rows_are_kept(tmp_path, kind):
    rng = np.random.default_rng(8)
    data = pa.table({"age": rng.integers(0, 100, 600), "who": np.arange(600) // 6})
    columns = {"age": {"type": "integer", "min": 0, "max": 99, "width": 20}}
    unit = {"kind": "id", "column": "who", "max_rows": 2}
    schema = cs.Schema.from_dict({"name": "ids", "unit": unit, "columns": columns})
    source: object = data
    if kind == "csv":
        data.to_pandas().to_csv(tmp_path / "ids.csv", index=False)
        source = tmp_path / "ids.csv"
    for neighbours in Neighbours:
        table = cs.open_table(source, schema)
        release = cs.release(
            table, cs.marginals(schema, 1), epsilon=HUGE, mechanism="laplace", within_bins=0.5, neighbours=neighbours
        )
        counts = release.answers * release.total.divisor
        assert np.allclose(release.within.values(0).sums.sum(axis=0), counts, atol=0.1)
        assert counts.sum() == pytest.approx(200, abs=0.5)


def test_it_is_paid_from_the_budget_and_declared():
    release = cs.release(TABLE, PAIRS, mechanism="laplace", epsilon=1.0, within_bins=0.25)
    assert release.guarantee.epsilon == 1.0
    assert release.declared
    acts = [event for event in release.events if isinstance(event, LaplaceNoise)]
    assert len(acts) == 2
    spent = [act.l1.under(Neighbours.REPLACE) / act.scale for act in acts]
    assert float(spent[0]) == pytest.approx(0.25)
    assert float(sum(spent)) == pytest.approx(1.0)
    assert release.parameters["within_bins"]["columns"] == ["age", "pay"]
    mixed = cs.release(TABLE, PAIRS, mechanism="gaussian", epsilon=1.0, delta=1e-6, within_bins=0.25)
    assert mixed.guarantee.epsilon <= 1.0
    assert mixed.guarantee.delta == 1e-6


def test_the_ledger_is_debited(tmp_path):
    ledger = Ledger.create(
        tmp_path / "made.ledger",
        budget=Budget(epsilon=1.0),
        neighbours="replace",
        unit=str(SCHEMA.unit),
        schema_fingerprint=SCHEMA.fingerprint,
        table=SCHEMA.name,
    )
    cs.release(TABLE, PAIRS, mechanism="laplace", epsilon=0.8, within_bins=0.5, ledger=ledger)
    with pytest.raises(BudgetExceeded):
        cs.release(TABLE, PAIRS, mechanism="laplace", epsilon=0.4, within_bins=0.5, ledger=ledger)


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, True, "0.1", float("nan")])
def test_a_share_that_is_none_is_refused(share):
    with pytest.raises(ProblemError, match="share"):
        cs.release(TABLE, PAIRS, epsilon=1.0, within_bins=share)


def test_without_bins_there_is_nothing_to_buy():
    with pytest.raises(ProblemError, match="no column of the workload has bins"):
        cs.release(TABLE, cs.marginal(SCHEMA, ["sex"]), epsilon=1.0, within_bins=0.1)


def test_bins_that_are_not_counted_are_refused():
    """Means alone do not say how many values lie in each bin, and what lies inside would be paid for and not used."""
    means = cs.means(SCHEMA, "pay")
    with pytest.raises(ProblemError, match=r"does not count the bins of 'pay': add cs\.marginal\(schema, \['pay'\]\)"):
        cs.release(TABLE, means + cs.marginal(SCHEMA, ["age"]), mechanism="laplace", epsilon=1.0, within_bins=0.3)
    asked = means + cs.marginal(SCHEMA, ["pay"])
    release = cs.release(TABLE, asked, mechanism="laplace", epsilon=HUGE, within_bins=0.3)
    assert release.ask(means).value == pytest.approx(TRUE["pay"].mean(), rel=1e-3)


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("end", [0.0, 0.02, 0.5, 0.98, 1.0])
def test_numbers_at_an_end_of_their_bins_are_held(end, neighbours):
    """All rows lie at one end of the bins: nothing is cut to the middles, by any door."""
    schema = cs.Schema.from_dict(
        {
            "name": "made",
            "neighbours": str(neighbours),
            "columns": {"x": {"type": "number", "edges": [-50, 0, 50, 100]}},
        }
    )
    for bins in ([0], [2], [0, 1, 2]):
        x = np.repeat([-50.0 + 50 * code + 49.999 * end for code in bins], 400)
        asked = cs.marginal(schema, ["x"]) + cs.sums(schema, "x") + cs.means(schema, "x") + cs.variances(schema, "x")
        release = cs.release(
            cs.open_table(pa.table({"x": x}), schema), asked, mechanism="laplace", epsilon=HUGE, within_bins=0.3
        )
        true = {"SUM": x.sum(), "AVG": x.mean(), "VAR_POP": x.var()}
        spread = {"SUM": 50.0 * len(x), "AVG": 50.0, "VAR_POP": 2500.0}
        for where in ("", " WHERE x >= -50"):
            told = release.query("SELECT " + ", ".join(f"{k}(x) AS {k}" for k in true) + " FROM made" + where)
            line = told.to_arrow().to_pylist()[0]
            for kind, value in true.items():
                rounded = 1e-5 * spread[kind]  # at this budget noise is smaller
                assert line[f"{kind}_low"] - rounded <= value <= line[f"{kind}_high"] + rounded, (kind, where)
                assert line[kind] == pytest.approx(value, abs=0.01 * spread[kind]), (kind, where)
        for build, kind in ((cs.sums, "SUM"), (cs.means, "AVG"), (cs.variances, "VAR_POP")):
            answer = release.ask(build(schema, "x"))
            rounded = 1e-5 * spread[kind]
            assert answer.low - rounded <= true[kind] <= answer.high + rounded, kind
            assert answer.value == pytest.approx(true[kind], abs=0.01 * spread[kind]), kind


def test_synthetic_numbers_stay_in_their_bins_and_missing_stays_missing():
    data = pa.table({"age": pa.array([3, 14, 14, 15, None, None, 77] * 40), "pay": [10.0] * 280, "sex": [True] * 280})
    table = cs.open_table(data, SCHEMA)
    release = cs.release(table, PAIRS, mechanism="histogram", epsilon=HUGE, within_bins=0.5)
    rows = release.synthetic(5000, public_seed=1)
    seen = rows["age"].drop_null().to_numpy()
    assert set(np.unique(seen // 10)) == {0, 1, 7}
    assert 0.2 < rows["age"].null_count / 5000 < 0.4
    assert np.abs(seen[seen // 10 == 1].mean() - 43 / 3) < 0.1
    assert np.abs(rows["pay"].to_numpy() - 10).max() < 60


def test_a_file_keeps_it_and_cannot_claim_less_noise(tmp_path):
    release = cs.release(TABLE, PAIRS + cs.means(SCHEMA, "age"), mechanism="laplace", epsilon=1.0, within_bins=0.3)
    path = tmp_path / "made.conspectus"
    release.save(path)
    again = cs.load(path)
    select = "SELECT AVG(age), VARIANCE(pay), MEDIAN(pay) FROM made"
    assert again.query(select).to_dict() == release.query(select).to_dict()
    assert again.synthetic(50, public_seed=2) == release.synthetic(50, public_seed=2)
    contents = files.read(path)
    contents.manifest["within"]["noise"][1] /= 100
    files.write(path, contents.manifest, contents.workload, contents.tables)
    with pytest.raises(files.BadSynopsisFile):
        cs.load(path)


def held(runs: int, law: str, seed: int) -> dict[str, float]:
    """How often 95 % intervals of a sum, a mean and a variance hold the truth, with noise of known laws."""
    rng = np.random.default_rng(seed)
    age = TRUE["age"]
    bins, place = age // 10, (age % 10) / 9
    parts = (place**2, 2 * place * (1 - place), (1 - place) ** 2)
    exact = np.array([np.bincount(bins, weights=part, minlength=10) for part in parts])
    counts = np.bincount(bins, minlength=10).astype(float)
    truth = {"sum": age.sum(), "mean": age.mean(), "variance": age.var()}
    found = dict.fromkeys(truth, 0)
    coarse, fine = Noise(law, 6.0), Noise(law, 20.0 * VALUE_STEPS)
    drawn = rng.laplace if law == "laplace" else rng.normal
    for _ in range(runs):
        noisy = exact + np.rint(drawn(0, fine.scale, exact.shape)) / VALUE_STEPS
        known = WithinBins.of(SCHEMA, [0], noisy.T.ravel(), fine).values(0)
        seen = counts + np.rint(drawn(0, coarse.scale, 10))
        cells = cell_estimates.CellCounts(counts=seen, measured=seen, law=coarse)
        both, values = with_inside(cells, known, np.arange(10))
        told = {
            "sum": cell_estimates.total(both, values, 0.05),
            "mean": cell_estimates.ratio(both, values, values.ones, 0.05),
            "variance": cell_moments.variance(both, values, 0.05),
        }
        for name, one in told.items():
            found[name] += one.low <= truth[name] <= one.high
    return {name: times / runs for name, times in found.items()}


def test_intervals_inside_bins_hold():
    for law in ("laplace", "gaussian"):
        assert min(held(6, law, 4).values()) >= 5 / 6  # a fixed seed


@pytest.mark.audit
def test_intervals_inside_bins_hold_as_often_as_they_say():
    """Over 200 runs with a fixed seed: between 93 and 99 % for sums and means; a variance shares its failures."""
    for law in ("laplace", "gaussian"):
        found = held(200, law, 9)
        assert 0.93 <= found["sum"] <= 0.99
        assert 0.93 <= found["mean"] <= 0.99
        assert found["variance"] >= 0.93
