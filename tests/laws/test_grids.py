"""Values that are not counts of 0/1 queries: blocks on a finer grid, alone and beside counting ones."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from tests.made import people, truth

import conspectus as cs
from conspectus.counting.block_counters import BLOCK_COUNTERS
from conspectus.counting.counters import count
from conspectus.curator.curator import Curator
from conspectus.curator.scores import ERROR_STEPS, error_sensitivity, query_errors, steps_of
from conspectus.data.domain import Chunk, Domain
from conspectus.mechanisms.mechanism import NoMechanism
from conspectus.privacy.accounting import Filter
from conspectus.privacy.events import Noise
from conspectus.privacy.relation import Relation
from conspectus.queries import proved_kinds
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.query import Indices
from conspectus.queries.sensitivity import Sensitivity, WorkloadError
from conspectus.queries.workload import Workload

ALPHA = 1e-6


@dataclass(frozen=True)
class Weighted:
    """For each code of a column one query: the number of rows with it, each weighing `weights[code]`/grid."""

    domain: Domain
    column: int
    weights: tuple[int, ...]
    grid: int = 64
    denominator: int | None = None

    @property
    def columns(self) -> tuple[int, ...]:
        return (self.column,)

    def __len__(self) -> int:
        return len(self.weights)

    def query(self, index: int) -> Any:
        return (self.column, index, self.weights[index])

    def take(self, indices: Indices) -> Weighted:
        raise NotImplementedError

    def sensitivity(self, relation: Relation) -> Sensitivity:
        max_rows = relation.max_rows
        top = sorted(self.weights)[-2:]
        one = Sensitivity(max_rows * top[-1], (max_rows * top[-1]) ** 2, max_rows * top[-1])
        if not relation.replace:
            return one
        both = max_rows * max_rows * (top[0] ** 2 + top[1] ** 2)
        return Sensitivity(max_rows * sum(top), both, max_rows * top[-1])

    def to_json(self) -> dict[str, Any]:
        raise WorkloadError("not stored")


class WeightedCounts:
    def __init__(self, block: Weighted) -> None:
        self._block = block
        self._counts = np.zeros(len(block), dtype=np.int64)

    def add(self, chunk: Chunk) -> None:
        self._counts += np.bincount(chunk.column(self._block.column), minlength=len(self._block))

    gathers = False

    def parts(self) -> tuple[np.ndarray]:
        return (self._counts,)

    def of_parts(self, parts: tuple[np.ndarray], rows: int) -> np.ndarray:
        return parts[0] * np.array(self._block.weights)


BLOCK_COUNTERS[Weighted] = WeightedCounts
DOMAIN = Domain(("x", "y"), (3, 2))


@pytest.fixture(autouse=True)
def _on_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """The doors take blocks of listed kinds alone; this one stands for the next that will be proved."""
    monkeypatch.setitem(proved_kinds.BLOCKS, Weighted, {})


BLOCK = Weighted(DOMAIN, 0, (64, 32, 7))
MIXED = Workload(DOMAIN, (Marginal(DOMAIN, (0, 1)), BLOCK))


def values(workload: Workload, rows: list[tuple[int, ...]]) -> np.ndarray:
    codes = np.array(rows, dtype=np.uint8).reshape(-1, 2)
    return count(workload, [Chunk((codes[:, 0], codes[:, 1]), len(codes))])[0]


def test_values_of_coarser_blocks_are_scaled_to_the_finest_grid() -> None:
    rows = [(0, 0), (0, 1), (2, 1)]
    assert MIXED.grid == 64
    assert values(MIXED, rows).tolist() == [64, 64, 0, 0, 0, 64, 128, 0, 7]
    assert not MIXED.counting
    assert Workload(DOMAIN, (Marginal(DOMAIN, (0,)),)).grid == 1


@pytest.mark.parametrize("workload", [Workload(DOMAIN, (BLOCK,)), MIXED], ids=["alone", "beside"])
def test_sensitivities_and_steps_cover_all_neighbours(workload: Workload) -> None:
    universe = list(product(range(3), range(2)))
    each = {record: values(workload, [record]) for record in universe}
    moves = {
        "add-remove": [each[record] for record in universe],
        "replace": [each[a] - each[b] for a, b in product(universe, universe)],
    }
    for relation, found in moves.items():
        declared = workload.sensitivity(Relation(relation))
        assert declared.l1 >= max(np.abs(move).sum() for move in found)
        assert declared.l2_squared >= max((move**2).sum() for move in found)
        assert declared.linf == max(np.abs(move).max() for move in found)
        assert workload.linf(Relation(relation)) == Fraction(declared.linf, workload.grid)
        # A score compares values rounded to its own, coarser grid.
        here = error_sensitivity(workload, Relation(relation)).under(relation)  # type: ignore[arg-type]
        for move in found:
            base = np.arange(len(move)) * 37 + 1000
            score = query_errors(workload, np.full(len(move), 11.0))
            assert np.abs(score.of(base + move) - score.of(base)).max() <= here


def test_rounding_to_the_scores_grid_is_down_and_by_less_than_a_step() -> None:
    fine = np.arange(-200, 200)
    assert np.all(steps_of(fine, 64) * (64 // ERROR_STEPS) <= fine)
    assert np.all(steps_of(fine, 64) * (64 // ERROR_STEPS) > fine - 64 // ERROR_STEPS)
    assert steps_of(fine, 1).tolist() == (fine * ERROR_STEPS).tolist()


@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize("neighbours", ["replace", "add-remove"])
def test_additive_noise_serves_any_grid_with_intervals_that_cover(mechanism: str, neighbours: str) -> None:
    schema, table = people(neighbours=neighbours)
    workload = Workload(schema.domain, (Marginal(schema.domain, (1,)), Weighted(schema.domain, 0, (64, 40, 9, 1))))
    exact, rows = truth(table, workload)
    release = cs.release(table, workload, epsilon=2.0, delta=1e-6, mechanism=mechanism)
    noise = release.answers * release.total.divisor - exact / 64
    scale = release.parameters["scale"]
    # Twelve draws: none is beyond 25 scales, and some beyond a thousandth of one, but for a probability of ALPHA.
    assert np.abs(noise).max() < 25 * scale
    assert np.abs(noise).max() > scale / 1000
    # The weighted block moves by no more than a marginal would in its place.
    two = Workload(schema.domain, (Marginal(schema.domain, (1,)), Marginal(schema.domain, (0,))))
    plain = cs.release(table, two, epsilon=2.0, delta=1e-6, mechanism=mechanism)
    assert scale < plain.parameters["scale"] * (0.999 if neighbours == "replace" else 1.001)
    assert release.total.margin(0.95) == 0 if neighbours == "replace" else release.total.margin(0.95) < 20 * scale * 9
    assert abs(release.total.value - rows) < 25 * scale * 9


def test_shares_of_something_else_than_rows_are_released_apart() -> None:
    with pytest.raises(WorkloadError, match="apart"):
        Workload(DOMAIN, (BLOCK, Weighted(DOMAIN, 0, (1, 2, 3), denominator=1024)))


def test_histograms_refuse_what_they_cannot_answer() -> None:
    schema, table = people()
    workload = Workload(schema.domain, (Weighted(schema.domain, 0, (1, 2, 3, 4)),))
    for mechanism in ("mwem", "iterative", "projection", "dual-query"):
        with pytest.raises(NoMechanism, match="not counts of records"):
            cs.release(table, workload, epsilon=1.0, delta=1e-6, mechanism=mechanism)


def test_a_block_that_was_counted_beside_a_finer_one_keeps_its_own_steps() -> None:
    """What was attended together may be measured apart, and the other way round: values never change their unit."""
    schema, table = people(rows=200)
    plain = Workload(schema.domain, (Marginal(schema.domain, (2,)),))
    fine = Workload(schema.domain, (Weighted(schema.domain, 0, (64, 40, 9, 1)),))
    asked = {"both": plain + fine, "plain": plain, "fine": fine}
    exact = {name: truth(table, workload)[0] for name, workload in asked.items()}
    for first in asked.values():
        curator = Curator(table, Filter("zcdp", Fraction(10**12), "replace"), neighbours="replace")
        curator.count_ahead(first)
        for name, workload in asked.items():
            # Noise of scale 1e-3 is zero but for a probability of 2·exp(-1000) a draw.
            assert curator.measure(workload, Noise("laplace", 1e-3)).tolist() == exact[name].tolist()
