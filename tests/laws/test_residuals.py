"""Residuals: what is published is the projection and nothing else, at the price of the projection and no less.

The claim about privacy is compared with exact sums over the lattice of the noise, on tables of two to four cells.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference import noise_law, records, renyi_divergence

import conspectus as cs
from conspectus.counting.counters import Counting
from conspectus.curator.acts import residual_act, residual_scales
from conspectus.curator.curator import Curator
from conspectus.data.domain import Domain
from conspectus.data.sources import open_table
from conspectus.privacy.accounting import BudgetExceeded, Filter, price_rho
from conspectus.privacy.events import MixedGaussianNoise, from_json, to_json
from conspectus.privacy.noise import UnsafeSeededSampler
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries.blocks.grouped_marginal import GroupedMarginal
from conspectus.queries.blocks.residual import MOST_CELLS, MOST_PATTERNS, Residual, joint_shift
from conspectus.queries.query import Predicate
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload

DOMAIN = Domain(("a", "b", "c"), (4, 2, 3))
PAIRS = ((0, 0, 1, 1), (0, 1, 1, 1), (0, 1, 2, 2))


def projection(shape: tuple[int, ...]) -> np.ndarray:
    """P as a matrix of exact fractions."""
    matrix = np.array([[Fraction(1)]], dtype=object)
    for n in shape:
        matrix = np.kron(
            matrix, np.array([[Fraction(int(i == j)) - Fraction(1, n) for j in range(n)] for i in range(n)])
        )
    return matrix


def table_of(residual: Residual, rows: list[tuple[int, ...]]) -> np.ndarray:
    """The counts of its cells, by a plain loop."""
    counts = np.zeros(residual.shape, dtype=np.int64)
    for row in rows:
        place = (row[c] if g is None else g[row[c]] for c, g in zip(residual.columns, residual.groups))
        counts[tuple(place)] += 1
    return counts.ravel()


RESIDUALS = [
    Residual(DOMAIN, ()),
    Residual(DOMAIN, (0,)),
    Residual(DOMAIN, (1, 0)),
    Residual(DOMAIN, (0, 1, 2)),
    Residual(DOMAIN, (0, 2), (PAIRS[0], None)),
    Residual(DOMAIN, (2, 0, 1), ((0, 1, 1), PAIRS[2], None)),
]


@pytest.mark.parametrize("residual", RESIDUALS, ids=range(len(RESIDUALS)))
@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_the_projection_is_exact_and_sees_the_projection_alone(residual: Residual, data: st.DataObject) -> None:
    cells = residual.cells
    counts = data.draw(st.lists(st.integers(0, 1 << 36), min_size=cells, max_size=cells))
    noise = data.draw(st.lists(st.integers(-(1 << 55), 1 << 55), min_size=cells, max_size=cells))
    found = residual.projected(np.array(counts), np.array(noise))
    exact = projection(residual.shape) @ np.array([Fraction(c) + Fraction(z, cells) for c, z in zip(counts, noise)])
    size = max(map(abs, exact)) + 1
    assert max(abs(Fraction(float(f)) - e) for f, e in zip(found, exact)) <= size / 2**51
    # Whatever is constant along an axis lies in the kernel of P: not a bit of it may show, if it overflows or not.
    if residual.columns:
        shape = (1, *residual.shape[1:])
        much = st.integers(-(1 << 62), 1 << 62)
        along = np.array(data.draw(st.lists(much, min_size=math.prod(shape), max_size=math.prod(shape))))
        hidden = np.broadcast_to(along.reshape(shape), residual.shape).ravel()
        with np.errstate(over="ignore"):
            for moved in (np.array(noise) // 2 + hidden // 2, np.array(noise) // 2):
                assert np.array_equal(
                    residual.projected(np.array(counts), moved),
                    residual.projected(np.array(counts), np.array(noise) // 2),
                )


def test_a_float_projection_would_show_the_kernel() -> None:
    """The same test refutes what must not be done: projecting in floats rounds differently for the same P·noisy."""
    rng = np.random.default_rng(1)
    noise = rng.integers(-(1 << 50), 1 << 50, 3)

    def floats(z: np.ndarray) -> np.ndarray:
        return z / 3 - (z / 3).mean()

    assert any(not np.array_equal(floats(noise), floats(noise + shift)) for shift in range(1 << 20, 1 << 21, 1 << 14))


def published_law(
    counts: tuple[int, ...], shape: tuple[int, ...], sigma: float, *, refined: bool = True
) -> dict[int, float]:
    """The law of P(M + z), term by term: z on the lattice of 1/N, or, for comparison, on whole numbers.

    Noise is listed up to 14 deviations, and outcomes down to a chance of 1e-30: what is left out is smaller by far.
    """
    steps = math.prod(shape) if refined else 1
    most = math.ceil(14 * sigma * steps)
    law = noise_law("gaussian", sigma * steps, most)
    grids = np.meshgrid(*([np.arange(-most, most + 1)] * len(counts)), indexing="ij")
    chances = np.ones(1)
    for _ in counts:
        chances = np.multiply.outer(chances, law)
    noisy = np.stack([grid.ravel() + steps * count for grid, count in zip(grids, counts)])
    shown = (math.prod(shape) * projection(shape)).astype(np.int64) @ noisy
    # The last cell follows from the others, and one number is quicker to sort than several.
    keys = np.array([(1 << 40), (1 << 20), 1, 0][-len(counts) :]) @ shown if len(counts) > 1 else shown[0]
    named, places = np.unique(keys, return_inverse=True)
    sums = np.bincount(places.ravel(), weights=chances.ravel())
    return {key: chance for key, chance in zip(named.tolist(), sums.tolist()) if chance > 1e-30}


def divergence(here: dict[int, float], there: dict[int, float], alpha: float) -> float:
    return renyi_divergence({key: chance for key, chance in here.items() if key in there}, there, alpha)


def moves(cells: int, neighbours: str) -> list[tuple[int, ...]]:
    unit = np.eye(cells, dtype=int)
    if neighbours == "add-remove":
        return [tuple(sign * unit[i]) for i in range(cells) for sign in (1, -1)]
    return [tuple(unit[i] - unit[j]) for i, j in product(range(cells), repeat=2) if i != j]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@pytest.mark.parametrize(("shape", "sigma"), [((2,), 0.5), ((2,), 1.0), ((3,), 0.5), ((2, 2), 0.25)])
def test_the_divergence_of_what_is_published_keeps_the_price(
    shape: tuple[int, ...], sigma: float, neighbours: str
) -> None:
    """Exact sums over the lattice: the divergence is at most α·shift²/2σ², and it comes close."""
    columns = tuple(range(len(shape)))
    residual = Residual(Domain(tuple(map(str, columns)), shape), columns)
    shift = residual.shift_squared(Relation(neighbours))
    start = published_law((0,) * residual.cells, shape, sigma)
    nearest = 0.0
    for move in moves(residual.cells, neighbours)[:3]:
        there = published_law(move, shape, sigma)
        for alpha in (1.5, 2.0):
            bound = alpha * float(shift) / (2 * sigma**2)
            found = divergence(start, there, alpha)
            assert found <= bound * (1 + 1e-9)
            nearest = max(nearest, found / bound)
    assert nearest > 0.97


def test_without_the_refined_lattice_the_price_is_wrong() -> None:
    """Noise on whole numbers, projected: one unit moves one of three cells, and the claim is refuted."""
    sigma, shape = 0.25, (3,)
    start, there = (published_law(counts, shape, sigma, refined=False) for counts in ((0, 0, 0), (1, 0, 0)))
    shift = float(Residual(Domain(("a",), shape), (0,)).shift_squared(Relation("add-remove")))
    assert divergence(start, there, 1.1) > 1.2 * 1.1 * shift / (2 * sigma**2)


def brute_shift(residuals: list[Residual], weights: list[Fraction], neighbours: str) -> Fraction:
    """The largest weighted sum of squares over all pairs of records."""
    domain = residuals[0].domain
    columns = [[projection(r.shape) @ table_of(r, [record]) for r in residuals] for record in records(domain)]
    nothing = [np.zeros(r.cells, dtype=object) for r in residuals]
    pairs = product(columns, columns if neighbours == "replace" else [nothing])
    return max(sum(w * ((a - b) ** 2).sum() for w, a, b in zip(weights, one, other)) for one, other in pairs)


@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
@settings(max_examples=10, deadline=None)
@given(data=st.data())
def test_joint_shifts_are_those_of_the_worst_pair_of_records(neighbours: str, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.sampled_from(RESIDUALS), min_size=1, max_size=4, unique=True))
    weights = [Fraction(data.draw(st.integers(1, 50)), 7) for _ in chosen]
    true = brute_shift(chosen, weights, neighbours)
    found = joint_shift(chosen, weights, Relation(neighbours))
    slack = Fraction(1, 2**30) * sum(weights)
    assert true <= found <= true + slack
    several = joint_shift(chosen, weights, Relation(neighbours, 3, False))
    either = max(true, brute_shift(chosen, weights, "add-remove"))
    assert 9 * either <= several <= 9 * (either + slack)


def test_many_columns_are_bounded_by_each_residuals_own_maximum(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = [Fraction(1), Fraction(2), Fraction(3), Fraction(1, 2)]
    chosen = [RESIDUALS[i] for i in (1, 2, 3, 4)]
    true = brute_shift(chosen, weights, "replace")
    monkeypatch.setattr("conspectus.queries.blocks.residual.MOST_PATTERNS", 1)
    found = joint_shift(chosen, weights, Relation("replace"))
    alone = sum(brute_shift([r], [w], "replace") for r, w in zip(chosen, weights))
    assert true < found
    assert alone <= found <= alone + Fraction(1, 2**20)
    assert MOST_PATTERNS > 1


def opened(rows: list[tuple[int, ...]]) -> tuple[cs.Schema, object]:
    columns = {name: {"type": "integer", "min": 0, "max": n - 1} for name, n in zip(DOMAIN.names, DOMAIN.sizes)}
    schema = cs.Schema.from_dict({"name": "r", "columns": columns})
    data = {name: [row[i] for row in rows] for i, name in enumerate(DOMAIN.names)}
    return schema, open_table(pa.table(data), schema)


def test_the_door_publishes_the_residuals_with_the_noise_that_it_debits() -> None:
    rng = np.random.default_rng(4)
    rows = [tuple(int(rng.integers(n)) for n in DOMAIN.sizes) for _ in range(500)]
    _, table = opened(rows)
    spare = Filter("zcdp", Fraction(10**6), Neighbours.ADD_REMOVE)
    curator = Curator(table, spare, neighbours=Neighbours.ADD_REMOVE, sampler=UnsafeSeededSampler(3))
    precisions = [1.0, 0.5, 2.0, 1.0, 0.25, 3.0]
    scales = residual_scales(RESIDUALS, precisions, Fraction(1, 2), relation=curator.relation)
    seen: list[list[float]] = [[] for _ in RESIDUALS]
    for _ in range(300):
        for place, (residual, noisy) in enumerate(zip(RESIDUALS, curator.measure_residuals(RESIDUALS, scales))):
            true = (projection(residual.shape) @ table_of(residual, rows)).astype(float)
            table_now = noisy.reshape(residual.shape)
            for axis in range(len(residual.shape)):
                assert np.allclose(table_now.sum(axis=axis), 0, atol=1e-6)
            seen[place].append(float(((noisy - true) ** 2).sum()))
    act = curator._allowance.events[0]
    assert isinstance(act, MixedGaussianNoise)
    assert act == residual_act(RESIDUALS, scales, relation=curator.relation)
    assert Fraction(1, 2) * (1 - Fraction(1, 2**20)) < price_rho(act, Neighbours.ADD_REMOVE) <= Fraction(1, 2)
    for residual, scale, squares in zip(RESIDUALS, scales, seen):
        expected = (scale / residual.cells) ** 2 * residual.freedom
        # A mean of 300 sums of squares of `freedom` Gaussians, six deviations wide: misses once in 5·10⁸.
        assert abs(np.mean(squares) / expected - 1) < 6 * math.sqrt(2 / (300 * residual.freedom))


def test_scales_fit_their_price_under_both_relations_and_larger_units() -> None:
    for relation in (Relation("replace"), Relation("add-remove", 4, False), Relation("replace", 2, False)):
        for price in (Fraction(1, 10**6), Fraction(3), Fraction(10**6)):
            scales = residual_scales(RESIDUALS[1:], [1.0, 7.0, 0.01, 1.0, 2.0], price, relation=relation)
            spent = price_rho(residual_act(RESIDUALS[1:], scales, relation=relation), relation.neighbours)
            assert price * (1 - Fraction(1, 2**20)) < spent <= price


def test_an_act_that_is_not_paid_for_draws_nothing() -> None:
    _, table = opened([(0, 0, 0)])
    curator = Curator(table, Filter("zcdp", Fraction(1, 100), Neighbours.REPLACE), neighbours=Neighbours.REPLACE)
    with pytest.raises(BudgetExceeded):
        curator.measure_residuals(RESIDUALS[1:2], [1.0])
    assert curator._allowance.events == ()


def test_acts_are_read_back() -> None:
    act = residual_act(RESIDUALS[1:], [3.0, 2.5, 7.0, 1.0, 2.0], relation=Relation("add-remove"))
    assert from_json(to_json(act)) == act


def test_what_makes_no_residual_is_refused() -> None:
    single = Domain(("a", "b"), (1, 3))
    for columns, groups in (((0,), ()), ((1,), ((0, 0, 0),)), ((1, 1), ()), ((1,), ((0, 2, 2),)), ((1,), ((0, 1),))):
        with pytest.raises(WorkloadError):
            Residual(single, columns, groups)
    with pytest.raises(WorkloadError, match="too large"):
        Residual(Domain(("a", "b"), (MOST_CELLS, 2)), (0, 1))
    for scales in ([], [1.0, 1.0], [0.0], [-1.0]):
        with pytest.raises(ValueError, match="scale"):
            residual_act(RESIDUALS[:1], scales, relation=Relation("replace"))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(*(st.integers(0, n - 1) for n in DOMAIN.sizes)), max_size=30))
def test_groups_are_counted_alike_by_rows_and_from_the_marginal(rows: list[tuple[int, ...]]) -> None:
    for residual in RESIDUALS[4:]:
        block = residual.table
        assert isinstance(block, GroupedMarginal)
        _, table = opened(rows or [(0, 0, 0)])
        listed = rows or [(0, 0, 0)]
        workload = Workload(DOMAIN, (block,))
        found = np.asarray(table.fold(Counting(workload))[0])
        whole = Residual(DOMAIN, block.columns)
        assert found.tolist() == table_of(residual, listed).tolist()
        assert block.coarsened(table_of(whole, listed)).tolist() == found.tolist()
        for index, value in enumerate(found.tolist()):
            query = block.query(index)
            assert isinstance(query, Predicate)
            inside = [row for row in listed if all(row[lit.column] in lit.codes for lit in query.boxes[0])]
            assert len(inside) == value
