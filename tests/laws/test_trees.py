"""Trees of intervals, joint tables and quantiles: sensitivities, least squares against linear algebra, and coverage."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from tests.reference import counts_of, true_sensitivity

import conspectus as cs
from conspectus.counting.counters import count
from conspectus.counting.evaluation import values_on
from conspectus.data.domain import Chunk, Domain
from conspectus.mechanisms.mechanism import NoMechanism
from conspectus.privacy.events import Noise
from conspectus.privacy.relation import Relation
from conspectus.privacy.tails import variance_of
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.dyadic_tree import DyadicTree
from conspectus.queries.formulas import any_box, opposite, predicate
from conspectus.queries.query import Literal, Predicate
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.releases.cells import tree_cells
from conspectus.releases.cells.tree_cells import TreeCells
from conspectus.synopses.noisy_vectors import NoisyVector
from conspectus.synopses.synopsis import Total
from conspectus.synopses.tree_counts import TreeCounts, solved

SURE = 1 - 2e-7
DOMAIN = Domain(("a", "b"), (2, 5))
TREES = [DyadicTree(DOMAIN, 1, (), 2), DyadicTree(DOMAIN, 1, (0,), 2), DyadicTree(DOMAIN, 1, (0,), 3)]


def matrix(tree: DyadicTree) -> np.ndarray:
    """A line for each node of one group, a column for each code."""
    return np.asarray(tree.sums(np.eye(tree.leaves))).T


@pytest.mark.parametrize("tree", TREES, ids=range(3))
def test_sensitivities_are_exact_and_counts_right(tree: DyadicTree) -> None:
    workload = Workload(DOMAIN, (tree,))
    for neighbours in ("replace", "add-remove"):
        found = workload.sensitivity(Relation(neighbours))
        assert (found.l1, found.l2_squared, found.linf) == true_sensitivity(workload, neighbours, 1, True)
    rng = np.random.default_rng(1)
    chunk = Chunk(tuple(rng.integers(0, size, 40).astype(np.uint8) for size in DOMAIN.sizes), 40)
    assert count(workload, [chunk])[0].tolist() == counts_of(workload, chunk)
    assert Workload.from_json(json.loads(json.dumps(workload.to_json()))) == workload
    assert list(workload[2:4].queries()) == [tree.query(2), tree.query(3)]


def test_trees_that_are_none_are_refused() -> None:
    stored = Workload(DOMAIN, (TREES[1],)).to_json()
    for changed in ({"fanout": 1}, {"column": 0}, {"column": 7}, {"columns": [1]}, {"columns": [0, 0]}):
        bad = {**stored, "blocks": [{**stored["blocks"][0], **changed}]}
        with pytest.raises(WorkloadError):
            Workload.from_json(bad)


@pytest.mark.parametrize(("size", "fanout"), [(5, 2), (9, 3), (16, 4), (17, 2), (7, 16)])
def test_two_passes_solve_the_normal_equations(size: int, fanout: int) -> None:
    tree = DyadicTree(Domain(("x",), (size,)), 0, (), fanout)
    lines = matrix(tree)
    right = np.random.default_rng(2).normal(size=(3, size))
    assert solved(tree, right) == pytest.approx(np.linalg.solve(lines.T @ lines, right.T).T)


@pytest.mark.parametrize("exact", [True, False])
def test_answers_are_the_least_squares_with_their_variance(exact: bool) -> None:
    tree = DyadicTree(Domain(("x",), (11,)), 0, (), 3)
    rng, law, lines = np.random.default_rng(3), Noise("gaussian", 4.0), matrix(tree)
    true = rng.integers(0, 50, 11).astype(float)
    noisy = lines @ true + rng.normal(0, 4, len(lines))
    total = (
        Total(value=float(true.sum()), exact=True)
        if exact
        else Total(
            value=float(noisy[: tree.level_sizes[0]].sum()),
            exact=False,
            kind="gaussian",
            scale=4.0,
            terms=tree.level_sizes[0],
        )
    )
    held = TreeCounts(tree.domain, tree, noisy, law, total)
    inverse = np.linalg.inv(lines.T @ lines)
    plain = inverse @ lines.T @ noisy
    if exact:
        along = inverse @ np.ones(11)
        plain = plain + along * (true.sum() - plain.sum()) / along.sum()
        inverse = inverse - np.outer(along, along) / along.sum()
    assert held.leaves[0] == pytest.approx(plain)
    query = Predicate(((Literal(0, (2, 3, 4, 5)),),))
    inside = np.zeros(11)
    inside[2:6] = 1
    vector = held.vector([query])
    assert vector.counts[0] == pytest.approx(inside @ plain)
    assert held.variance(query) == pytest.approx(inside @ inverse @ inside * variance_of(law))
    meta, tables = held.parts()
    again = TreeCounts.from_parts(tree.domain, meta, tables)
    assert again.leaves.tolist() == held.leaves.tolist()


THREE = Domain(("a", "x", "b"), (2, 5, 3))
ASKED = [
    Predicate(((Literal(1, (1, 2)),),)),
    Predicate(((Literal(0, (1,)),),)),
    Predicate(((Literal(1, (3,)), Literal(2, (0, 2))),)),
    Predicate(((Literal(0, (0,)), Literal(1, (0, 4)), Literal(2, (1,))),)),
    Predicate(((),)),
]


def fixed_tree(law: Noise, *, adding_up: bool = True) -> TreeCounts:
    """A tree of six groups with counts that say nothing about each other."""
    tree = DyadicTree(THREE, 1, (0, 2), 2)
    counts = np.random.default_rng(4).integers(0, 60, len(tree)).astype(float)
    return TreeCounts(THREE, tree, counts, law, Total(value=500.0, exact=True), adding_up)


@pytest.mark.parametrize("binding", [True, False])
def test_a_public_total_binds_all_groups_together(binding: bool) -> None:
    """Questions about some of the columns, by nodes that are added up first, against all nodes and linear algebra."""
    held = fixed_tree(Noise("laplace", 3.0), adding_up=binding)
    tree = held.tree
    every = np.kron(np.eye(tree.groups), matrix(tree))
    inverse = np.linalg.inv(every.T @ every)
    codes = inverse @ every.T @ held.counts
    if binding:
        along = inverse.sum(axis=1)
        codes = codes + along * (500 - codes.sum()) / along.sum()
        inverse = inverse - np.outer(along, along) / along.sum()
    values = np.stack([values_on(query, THREE, (0, 2, 1)) for query in ASKED])
    together = held.vector(ASKED)
    assert together.counts == pytest.approx(values @ codes)
    known = values @ inverse @ values.T * variance_of(held.noise)
    assert together.covariance == pytest.approx(known, abs=1e-9)
    for place, query in enumerate(ASKED):
        assert held.variance(query) == pytest.approx(known[place, place], abs=1e-9)
        assert held.vector([query]).counts[0] == pytest.approx(values[place] @ codes)
    assert held.leaves.ravel() == pytest.approx(codes)
    assert TreeCounts.from_parts(THREE, *held.parts()).leaves.tolist() == held.leaves.tolist()


@pytest.mark.parametrize("law", [Noise("laplace", 3.0), Noise("gaussian", 2.0), Noise("laplace", 0.1)])
def test_a_count_and_its_negation_add_up_to_a_public_total(law: Noise) -> None:
    held = fixed_tree(law)
    for query in ASKED:
        rest = predicate(THREE, opposite(THREE, any_box(THREE, query.boxes)))
        one, other = (held.estimate(Workload(THREE, (Conjunctions.of(THREE, [q]),)), 0.95) for q in (query, rest))
        assert one.count + other.count == pytest.approx(500)
        assert one.high - one.low == pytest.approx(other.high - other.low, rel=1e-6, abs=1e-9)
    assert (one.low, one.high) == pytest.approx((500, 500))
    assert held.marginal((0,)).sum() == pytest.approx(500)


def test_copies_of_a_noise_are_noises_of_their_own() -> None:
    """The law of a vector does not depend on whether equal weights are listed or counted."""
    weights = np.array([[0.5, -0.25], [1.0, 0.75]])
    for law in (Noise("laplace", 3.0), Noise("gaussian", 2.0), Noise("laplace", 0.1)):
        few = NoisyVector(np.zeros(2), weights, ((law, 1),) * 2, 3)
        many = NoisyVector(np.zeros(2), np.repeat(weights, 3, axis=1), ((law, 1),) * 6)
        assert few.covariance == pytest.approx(many.covariance)
        for line in (np.ones(2), np.array([1.0, -0.5])):
            assert few.margin(line, 0.95) == pytest.approx(many.margin(line, 0.95))


SCHEMA = cs.Schema.from_dict(
    {
        "name": "made",
        "columns": {
            "group": {"type": "categorical", "values": ["x", "y"]},
            "minute": {"type": "integer", "min": 0, "max": 299, "missing": True},
        },
    }
)
RNG = np.random.default_rng(5)
MINUTES = np.clip(RNG.normal(150, 50, 4000).astype(int), 0, 299)
GROUPS = RNG.choice(["x", "y"], 4000)
TABLE = cs.open_table(pa.table({"group": GROUPS, "minute": MINUTES}), SCHEMA)
PREFIXES = cs.prefixes(SCHEMA, "minute")


@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
@pytest.mark.parametrize("mechanism", ["tree", "histogram"])
def test_both_answer_what_was_asked_and_more(mechanism: str, neighbours: str, tmp_path) -> None:
    workload = PREFIXES + cs.marginal(SCHEMA, ["group"]) + cs.means(SCHEMA, "minute", by=["group"])
    release = cs.release(TABLE, workload, epsilon=5.0, mechanism=mechanism, neighbours=neighbours)
    true = np.cumsum(np.bincount(MINUTES, minlength=300)) / 4000
    assert release.answers[:300] == pytest.approx(true, abs=0.02)
    assert release.answers[302:] == pytest.approx([MINUTES[g == GROUPS].mean() for g in "xy"], abs=9)
    answer = release.ask("minute < 100 AND \"group\" = 'x'", confidence=SURE)
    assert answer.low <= ((MINUTES < 100) & (GROUPS == "x")).mean() <= answer.high
    mean = release.ask(cs.means(SCHEMA, "minute", by=["group"])[0], confidence=SURE)
    assert mean.low <= MINUTES[GROUPS == "x"].mean() <= mean.high
    release.save(tmp_path / "x.conspectus")
    again = cs.load(tmp_path / "x.conspectus")
    assert again.ask("minute < 100 AND \"group\" = 'x'", confidence=SURE) == answer
    assert again.quantile("minute", 0.5) == release.quantile("minute", 0.5)
    assert release.synthetic(100, public_seed=1).num_rows == 100


def test_the_planner_takes_them_where_they_are_best() -> None:
    long = cs.Schema.from_dict({"name": "l", "columns": {"minute": {"type": "integer", "min": 0, "max": 4095}}})
    assert cs.plan(long, cs.prefixes(long, "minute"), rows=4000, epsilon=1.0).best.mechanism == "tree"
    # Of 300 prefixes the largest error of 30 releases each was 51 in the mean for a tree, and 41 for a histogram.
    assert cs.plan(SCHEMA, PREFIXES, rows=4000, epsilon=1.0).best.mechanism == "histogram"
    flags = cs.Schema.from_dict({"name": "f", "columns": {f"c{i}": {"type": "boolean"} for i in range(6)}})
    many = cs.random_conjunctions(flags, 3, 150, 1)
    assert cs.plan(flags, many, rows=4000, epsilon=1.0).best.mechanism == "histogram"
    wide = cs.Schema.from_dict({"name": "w", "columns": {f"c{i}": {"type": "boolean"} for i in range(40)}})
    one = cs.open_table(pa.table({f"c{i}": [True] for i in range(40)}), wide)
    for mechanism, said in (("histogram", "fewer columns"), ("tree", "histogram")):
        with pytest.raises(NoMechanism, match=said):
            cs.release(one, cs.marginals(wide, 1), epsilon=1.0, mechanism=mechanism)


@pytest.mark.parametrize("mechanism", ["tree", "histogram", "laplace"])
def test_quantiles_and_their_intervals(mechanism: str) -> None:
    """Of 45 intervals that hold with probability 0.95 each, fewer than 33 hold with probability below 1e-6."""
    workload = PREFIXES if mechanism != "laplace" else cs.marginal(SCHEMA, ["minute"])
    held = 0
    for _ in range(15):
        release = cs.release(TABLE, workload, epsilon=1.0, mechanism=mechanism)
        for q in (0.1, 0.5, 0.9):
            found = release.quantile("minute", q)
            true = float(np.quantile(MINUTES, q, method="inverted_cdf"))
            held += found.low <= true <= found.high
            assert found.low <= found.value <= found.high
    assert held >= 33
    sharp = cs.release(TABLE, workload, epsilon=1000.0, mechanism=mechanism)
    assert sharp.quantile("minute", 0.5).value == float(np.quantile(MINUTES, 0.5, method="inverted_cdf"))


def test_box_plots_by_group_and_refusals() -> None:
    release = cs.release(TABLE, cs.marginal(SCHEMA, ["group", "minute"]), epsilon=100.0, mechanism="laplace")
    lines = release.box("minute", by=["group"], confidence=SURE).to_pylist()
    assert [line["group"] for line in lines] == ["x", "y"]
    for line in lines:
        assert line["q05"] <= line["q25"] <= line["median"] <= line["q75"] <= line["q95"]
        assert line["median_low"] <= np.median(MINUTES[line["group"] == GROUPS]) <= line["median_high"]
    where = release.quantile("minute", 0.5, where="\"group\" = 'x'", confidence=SURE)
    assert where.low <= np.median(MINUTES[GROUPS == "x"]) <= where.high
    with pytest.raises(WorkloadError, match="no order"):
        release.quantile("group", 0.5)
    with pytest.raises(WorkloadError, match="between 0 and 1"):
        release.quantile("minute", 1.5)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("tree", TREES, ids=range(3))
def test_cells_of_a_tree_have_the_noise_of_its_queries(tree: DyadicTree, exact: bool) -> None:
    """Sums, quotients and ranks over any cells, against the weights that single queries have over the nodes."""
    rng = np.random.default_rng(8)
    total = (
        Total(value=90.0, exact=True) if exact else Total(value=90.0, exact=False, kind="laplace", scale=2.0, terms=1)
    )
    held = TreeCounts(DOMAIN, tree, rng.integers(0, 30, len(tree)).astype(float), Noise("laplace", 3.0), total)
    for columns in {(1,), tree.columns}:
        shape = DOMAIN.shape(columns)
        cells = TreeCells.of(held, columns)
        some = rng.random(cells.counts.size) < 0.7
        taken, places = cells.taken(some), np.flatnonzero(some)
        codes = np.unravel_index(places, shape)
        asked = [
            Predicate((tuple(Literal(c, (int(codes[a][i]),)) for a, c in enumerate(columns)),))
            for i in range(len(places))
        ]
        vector = held.vector(asked)
        np.testing.assert_allclose(taken.measured, vector.counts)
        first, second = rng.normal(size=(2, len(places)))
        line = first - 0.4 * second
        deviation = np.sqrt(line @ vector.covariance @ line)
        assert taken.deviation(line) == pytest.approx(deviation)
        assert taken.along(first, second)(0.4) == pytest.approx(deviation)
        assert taken.margin(line, 0.05) == pytest.approx(vector.margin(line, 0.95), rel=0.01)
        ranked = codes[columns.index(1)]
        found = taken.rank_deviations(ranked, 5, 0.3, 1)
        for code in range(5):
            rank = (ranked <= code) - 0.3
            known = np.sqrt(max(rank @ vector.covariance @ rank, 0.0))
            assert found[code] == pytest.approx(known, abs=1e-6)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("fanout", [2, 3, 16])
def test_the_noise_of_every_rank_is_that_of_its_nodes(fanout: int, groups: int, exact: bool) -> None:
    """All at once from level to level, against one solution for each code; columns of any length and some rows."""
    rng = np.random.default_rng(fanout)
    for size in (2, 5, 17, 40):
        domain = Domain(("g", "x"), (groups, size))
        tree = DyadicTree(domain, 1, (0,) if groups > 1 else (), fanout)
        total = (
            Total(value=9.0, exact=True) if exact else Total(value=9.0, exact=False, kind="laplace", scale=2.0, terms=1)
        )
        cells = TreeCells.of(TreeCounts(domain, tree, np.zeros(len(tree)), Noise("laplace", 3.0), total), tree.columns)
        for some in (np.ones(groups * size, dtype=bool), rng.random(groups * size) < 0.7):
            taken, codes = cells.taken(some), np.flatnonzero(some) % size
            for q in (0.1, 0.5):
                one_by_one = [taken.deviation((codes <= code) - q) for code in range(size)]
                assert taken.rank_deviations(codes, size, q, 1) == pytest.approx(one_by_one, abs=1e-5)


def test_ranks_of_other_columns_are_bounded_by_sums_of_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    domain = Domain(("g", "x"), (12, 40))
    tree = DyadicTree(domain, 1, (0,), 3)
    held = TreeCounts(domain, tree, np.zeros(len(tree)), Noise("laplace", 3.0), Total(value=9.0, exact=True))
    for columns, some in (((0,), np.arange(12) < 12), ((0, 1), np.arange(480) % 3 == 1)):
        cells = TreeCells.of(held, columns).taken(some)
        codes = np.flatnonzero(some) // (40 if len(columns) > 1 else 1)
        for q in (0.1, 0.5):
            exact = cells.rank_deviations(codes, 12, q, 0)
            with monkeypatch.context() as patch:
                patch.setattr(tree_cells, "MOST_SOLVED", 0)
                bound = cells.rank_deviations(codes, 12, q, 0)
            assert (exact <= bound * (1 + 1e-9)).all()


def test_a_select_over_a_tree_has_the_intervals_of_its_nodes() -> None:
    """The same as `ask` says, and for medians, rates and some rows; at a confidence that does not fail by chance."""
    rng = np.random.default_rng(2)
    x, g = rng.integers(0, 30, 2000), rng.random(2000) < 0.4
    columns = {"x": {"type": "integer", "min": 0, "max": 29}, "g": {"type": "boolean"}}
    schema = cs.Schema.from_dict({"name": "t", "columns": columns})
    table = cs.open_table(pa.table({"x": x, "g": g}), schema)
    release = cs.release(table, cs.marginal(schema, ["x", "g"]), epsilon=1.0, mechanism="tree")
    select = "SELECT AVG(x) AS m, SUM(x) AS s, VAR_POP(x) AS v, MEDIAN(x) AS q, AVG(x < 9) AS r FROM t"
    for where, mine in (("", x), (" WHERE g", x[g])):
        found = {key: line[0] for key, line in release.query(select + where, confidence=SURE).to_dict().items()}
        true = {"m": mine.mean(), "s": mine.sum(), "v": mine.var(), "q": np.median(mine), "r": (mine < 9).mean()}
        for name, value in true.items():
            assert found[f"{name}_low"] <= value <= found[f"{name}_high"]
        assert found["m_high"] - found["m_low"] < 6
    mean = release.ask(cs.means(schema, "x", where="g"))
    found = release.query("SELECT AVG(x) AS m FROM t WHERE g").to_dict()
    assert (found["m_low"][0], found["m_high"][0]) == pytest.approx((mean.low, mean.high), rel=0.01)
