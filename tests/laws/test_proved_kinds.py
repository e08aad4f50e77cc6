"""What says how far one unit moves it is one of our own classes: a stranger, or a subclass, is not believed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.made import people

import conspectus as cs
from conspectus.curator import acts, scores
from conspectus.curator.curator import Curator
from conspectus.curator.nets import ListedNet
from conspectus.curator.stream_counter import StreamCounter
from conspectus.data.domain import Domain
from conspectus.privacy.accounting import Filter
from conspectus.privacy.events import Noise
from conspectus.privacy.relation import Neighbours, Relation
from conspectus.queries import blocks, proved_kinds
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.linear_queries import LinearQueries
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.residual import Residual
from conspectus.queries.blocks.sparse_queries import SparseQueries
from conspectus.queries.blocks.statistic import Statistic
from conspectus.queries.query import Literal, Weighting
from conspectus.queries.sensitivity import Sensitivity, WorkloadError
from conspectus.queries.workload import Workload

SCHEMA, TABLE = people(60)
LAW = Noise("laplace", 8.0)
TINY = Fraction(1, 1000)


class LyingWorkload(Workload):
    """A thousand times the same question, said to move by one in all."""

    def sensitivity(self, relation: Relation) -> Sensitivity:
        return Sensitivity(1, 1, 1)

    def linf(self, relation: Relation) -> Fraction:
        return TINY

    @property
    def linear(self) -> bool:
        return True


class LyingMarginal(Marginal):
    def max_satisfied(self) -> int:
        return 0

    def max_differing(self) -> int:
        return 0


class LyingConjunctions(Conjunctions):
    def max_satisfied(self) -> int:
        return 0


class LyingLinear(LinearQueries):
    def sensitivity(self, relation: Relation) -> Sensitivity:
        return Sensitivity(0, 0, 0)


class LyingDomain(Domain): ...


class LyingLiteral(Literal): ...


class LyingWeighting(Weighting): ...


class LyingStatistic(Statistic):
    @property
    def replaced(self) -> int:
        return 0


class LyingResidual(Residual):
    def _moved(self) -> Fraction:
        return Fraction(0)


@dataclass(frozen=True)
class LooksLikeABlock:
    """Everything that the role of a block asks for, around a marginal."""

    inside: Marginal

    grid, denominator = 1, None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inside, name)

    def __len__(self) -> int:
        return len(self.inside)

    def sensitivity(self, relation: Relation) -> Sensitivity:
        return Sensitivity(0, 0, 0)


def conjunctions(kind: type[Conjunctions]) -> Conjunctions:
    (block,) = cs.sql(SCHEMA, ["smoker AND ill", "age >= 30"]).blocks
    return kind(block.domain, block.literals, block.terms, block.starts)


def liars() -> dict[str, Workload]:
    domain = SCHEMA.domain
    honest, lines = cs.marginal(SCHEMA, ["smoker"]), conjunctions(Conjunctions)
    weights = Weighting((3,), np.array([0, 7], dtype=np.int32))
    which = np.zeros(len(lines), dtype=np.int32)
    literal = LyingLiteral(2, (1,))
    statistic = cs.mode_shares(SCHEMA, ["region"]).blocks[0].functions[0]
    fields = {name: getattr(statistic, name) for name in ("kind", "given", "over", "classes", "numbers", "whole")}
    (statistics,) = cs.mode_shares(SCHEMA, ["region"]).blocks
    other = LyingDomain(domain.names, domain.sizes)
    one = np.zeros((1, 1), dtype=np.int32)
    return {
        "a workload": LyingWorkload(domain, honest.blocks * 1000),
        "a block": Workload(domain, (LyingMarginal(domain, (0,)),)),
        "a list": Workload(domain, (conjunctions(LyingConjunctions),)),
        "no block": Workload(domain, (LooksLikeABlock(Marginal(domain, (0,))),)),  # type: ignore[arg-type]
        "a literal": Workload(domain, (Conjunctions(domain, (literal,), one, np.array([0, 1])),)),
        "linear queries": Workload(domain, (LyingLinear(domain, lines, (weights,), which),)),
        "a given": Workload(domain, (LinearQueries(domain, conjunctions(LyingConjunctions), (weights,), which),)),
        "a weighting": Workload(domain, (LinearQueries(domain, lines, (LyingWeighting((3,), weights.steps),), which),)),
        "a statistic": Workload(domain, (type(statistics)(domain, (LyingStatistic(**fields),)),)),
        "a domain": Workload(other, (Marginal(other, (0,)),)),
    }


def curator() -> Curator:
    return Curator(TABLE, Filter("pure", Fraction(10**9), Neighbours.REPLACE), neighbours=Neighbours.REPLACE)


def watched(asked: Workload) -> None:
    curator()._noisy_error(asked, 0.0, 8.0)  # what a watch asks for, of one question at a time


def select(asked: Workload) -> None:
    curator().select(scores.query_errors(asked, np.zeros(len(asked))), Fraction(1))


def select_from_a_net(asked: Workload) -> None:
    curator().select(ListedNet(asked, np.zeros((1, len(asked))), (1,)), Fraction(1))


DOORS: dict[str, Callable[[Workload], Any]] = {
    "plan": lambda asked: cs.plan(SCHEMA, asked, epsilon=1.0, rows=60),
    "release": lambda asked: cs.release(TABLE, asked, epsilon=1.0, mechanism="laplace"),
    "session": lambda asked: cs.open_session(TABLE, epsilon=1.0, questions=3).ask(asked),
    "session.measure": lambda asked: cs.open_session(TABLE, epsilon=1.0, questions=3).measure(asked),
    "stream": lambda asked: cs.open_stream(SCHEMA, asked, horizon=4, epsilon=1.0),
    "act": lambda asked: acts.measurement(asked, LAW, relation=Relation("replace")),
    "measure": lambda asked: curator().measure(asked, LAW),
    "select": select,
    "net": select_from_a_net,
    "score": lambda asked: curator().measure(scores.worst_error(asked, np.zeros(len(asked))), LAW),
    "watch": watched,
    "counter": lambda asked: StreamCounter(asked, LAW, 2),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("liar", liars())
def test_a_stranger_is_refused_at_every_door(door: str, liar: str) -> None:
    with pytest.raises(WorkloadError, match="is not proved"):
        DOORS[door](liars()[liar])


def test_without_the_list_a_stranger_is_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The twin: a release of a thousand equal questions would print an ε a thousand times too small."""
    monkeypatch.setattr(acts, "proved", lambda asked: asked)
    lies = acts.measurement(liars()["a workload"], LAW, relation=Relation("replace"))
    monkeypatch.undo()
    truth = acts.measurement(Workload(SCHEMA.domain, liars()["a workload"].blocks), LAW, relation=Relation("replace"))
    assert truth.l1.replace == 2000 * lies.l1.replace  # type: ignore[attr-defined]


def test_residuals_of_a_stranger_are_refused() -> None:
    made = (LyingResidual(SCHEMA.domain, (0,)),)
    with pytest.raises(TypeError, match="understate"):
        curator().measure_residuals(made, (8.0,))


def test_the_list_has_every_kind_of_block_and_no_other() -> None:
    """A residual is measured by a door of its own."""
    folder = Path(blocks.__file__).parent
    modules = [import_module(f"conspectus.queries.blocks.{path.stem}") for path in folder.glob("[a-z]*.py")]
    found = {
        kind
        for module in modules
        for _, kind in inspect.getmembers(module, inspect.isclass)
        if kind.__module__ == module.__name__ and hasattr(kind, "sensitivity") and hasattr(kind, "take")
    }
    assert found == set(proved_kinds.BLOCKS)


def test_arrays_that_somebody_else_may_write_to_are_copied() -> None:
    """What is counted is what was priced, whatever happens to the array that a block was made of."""
    (block,) = cs.sql(SCHEMA, ["smoker AND ill", "age >= 30"]).blocks
    assert isinstance(block, Conjunctions)
    terms, starts = np.stack([block.terms] * 2), np.stack([block.starts] * 2)
    held = Conjunctions(block.domain, block.literals, terms[0], starts[0])
    which = np.zeros((2, len(block)), dtype=np.int32)
    weighed = LinearQueries(block.domain, block, (Weighting((3,), np.array([0, 7], dtype=np.int32)),), which[0])
    (listed,) = cs.sparse([["weather", "news"], ["shop"]]).blocks
    assert isinstance(listed, SparseQueries)
    entries = np.stack([listed.addresses] * 2)
    sparse = SparseQueries(listed.domain, listed.offsets, entries[0], listed.steps, listed.grid)
    for array in (terms, starts, which, entries):
        array[...] = 0
    assert held == block
    assert sparse == listed
    assert not np.shares_memory(weighed.which, which)
