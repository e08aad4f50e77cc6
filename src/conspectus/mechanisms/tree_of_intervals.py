"""A tree of intervals over one long ordered column: ranges, prefixes and quantiles from few noisy counts each.

Hay, Rastogi, Miklau and Suciu 2010, Boosting the accuracy of differentially private histograms through consistency:

    1. count the rows below every node of a tree of intervals
    2. add noise to every node; one row lies below one node of each level
    3. take the counts of single values that are nearest to all nodes together

A range of r values is a sum of few nodes where a table would sum r noisy counts, and a prefix is one question of many
that share one price. Step 3 solves the normal equations exactly (`synopses/tree_counts.py`), so every answer is a
weighted sum of independent noises whose law is known.

Privacy: composes one measurement of all nodes with their joint sensitivity (and the row total).
Accuracy: exact: the variance of each answer follows from the least squares; intervals are quantiles of that sum.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from conspectus.counting.evaluation import values_on
from conspectus.curator.acts import measurement
from conspectus.curator.curator import Curator
from conspectus.data.domain import in_words
from conspectus.privacy.events import Event, Noise, RowTotal
from conspectus.queries.blocks.dyadic_tree import DyadicTree
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.workload import Workload
from conspectus.synopses.synopsis import Total
from conspectus.synopses.tree_counts import TreeCounts, TreeSums

from .joint_table import cheaper_noise
from .mechanism import CannotServe, Claim, Mechanism, Outcome, Problem, not_linear, refuse_for
from .settings import check_settings
from .sums_of_noise import largest_of, typical_width

MOST_NODES = 1 << 21
FANOUTS = (2, 3, 4, 6, 8, 12, 16, 32)
"""The numbers of branches among which a plan chooses."""

SHORTEST = 3
"""Columns with fewer values make no tree worth having."""

PROBES = 24
"""Questions of a workload whose variance is computed to say what to expect of all of them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TreePlan:
    """The nodes that are measured, and the noise on each."""

    tree: DyadicTree
    law: Noise


@dataclass(frozen=True, kw_only=True)
class Tree(Mechanism[TreePlan]):
    """A tree of intervals over the longest column asked about, in each group of the other columns.

    Choose it for ranges, prefixes, quantiles and medians of columns with hundreds of values and more. Its answers agree
    with each other, are unbiased, and have intervals from the exact law of their noise.

    Args:
        fanout: How many branches a node has; by default the number of which prefixes are most accurate.

    Example:
        >>> import conspectus as cs, pyarrow as pa
        >>> columns = {"minutes": {"type": "integer", "min": 0, "max": 1439}}
        >>> schema = cs.Schema.from_dict({"name": "calls", "columns": columns})
        >>> table = cs.open_table(pa.table({"minutes": [i % 1440 for i in range(14400)]}), schema)
        >>> release = cs.release(table, cs.prefixes(schema, "minutes"), epsilon=5.0, mechanism="tree")
        >>> abs(release.ask("minutes < 720").fraction - 0.5) < 0.01
        True
    """

    fanout: int | None = None

    name: ClassVar[str] = "tree"
    answers_of_a_table: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_settings((self.fanout is None or 2 <= self.fanout <= 1 << 16, "fanout is a number of branches from 2 on"))

    def plan(self, problem: Problem) -> TreePlan:
        refuse_for(not_linear(problem))
        domain, held = problem.workload.domain, problem.held
        column = _column(problem.workload)
        if domain.sizes[column] < SHORTEST:
            raise CannotServe(
                f"it cuts a long column into intervals, and {domain.names[column]!r} has only "
                f"{domain.sizes[column]} values: use histogram"
            )
        by = tuple(c for c in sorted(held) if c != column)
        if (nodes := 2 * domain.project(held).cells) > MOST_NODES:
            raise CannotServe(
                f"it is planned with two nodes a cell, which makes {in_words(nodes)} (limit {MOST_NODES:,}): ask "
                "about fewer columns, or declare wider bins"
            )
        plans = [self._with(problem, column, by, f) for f in (FANOUTS if self.fanout is None else (self.fanout,))]
        return min(plans, key=lambda plan: _of_prefixes(problem, plan))

    def _with(self, problem: Problem, column: int, by: tuple[int, ...], fanout: int) -> TreePlan:
        tree = DyadicTree(problem.workload.domain, column, by, fanout)
        return TreePlan(tree=tree, law=cheaper_noise(dataclasses.replace(problem, workload=_nodes(tree))))

    def claim(self, problem: Problem, plan: TreePlan) -> Claim:
        spreads = _typical(problem, plan)
        several = np.zeros(len(spreads), dtype=bool)
        largest, mean = largest_of(spreads, plan.law, single=several)
        tree, law = plan.tree, plan.law
        return Claim(
            mechanism=self.name,
            expected_max=largest,
            expected_mean=mean,
            bound=None,
            memory=64 * len(tree),
            citations=("Hay, Rastogi, Miklau & Suciu 2010", "Dwork & Roth 2014, §12.3"),
            notes=(f"{law.kind} noise of scale {law.scale:.4g} counts on each of {len(tree):,} nodes",),
            expected_width=typical_width(spreads, law, single=several),
        )

    def declare(self, problem: Problem, plan: TreePlan) -> Sequence[Event]:
        act = measurement(_nodes(plan.tree), plan.law, relation=problem.relation)
        return (RowTotal(), act) if problem.total_is_public else (act,)

    def release(self, curator: Curator, problem: Problem, plan: TreePlan) -> Outcome:
        tree, law = plan.tree, plan.law
        measured = _nodes(tree)
        curator.count_ahead(measured)
        known = curator.rows() if curator.relation.total_is_public else None
        noisy = curator.measure(measured, law).astype(np.float64)
        total = _paid(tree, noisy, law) if known is None else Total(value=float(known), exact=True)
        synopsis = TreeCounts(problem.workload.domain, tree, noisy, law, total)
        parameters = {"noise": law.kind, "scale": law.scale, "nodes": len(tree), "fanout": tree.fanout}
        return Outcome(synopsis=synopsis, answers=synopsis.answer(problem.workload), total=total, parameters=parameters)


def _nodes(tree: DyadicTree) -> Workload:
    return Workload(tree.domain, (tree,))


def _column(workload: Workload) -> int:
    """The column to cut: one whose intervals are asked for, else the one with the most values."""
    asked = [block.column for block in workload.blocks if isinstance(block, Intervals)]
    return max(asked or workload.columns or (0,), key=lambda column: workload.domain.sizes[column])


def _paid(tree: DyadicTree, noisy: NDArray[np.float64], law: Noise) -> Total:
    """The number of rows where it is private: the sum of the highest level, in all groups."""
    top = tree.level_sizes[0]
    value = float(noisy.reshape(tree.groups, tree.nodes)[:, :top].sum())
    return Total(value=value, exact=False, kind=law.kind, scale=law.scale, terms=tree.groups * top)


def _prefixes(size: int, some: int) -> NDArray[np.float64]:
    """Some prefixes of a column, evenly spread."""
    ends = np.unique(np.linspace(1, size - 1, some).astype(np.int64))
    return (np.arange(size)[None, :] < ends[:, None]).astype(np.float64)


def _of_prefixes(problem: Problem, plan: TreePlan) -> float:
    """The mean variance of some prefixes, of the rows of all groups."""
    sums = TreeSums.about(plan.tree, (plan.tree.column,), adds_up=problem.total_is_public)
    prefixes = _prefixes(plan.tree.leaves, PROBES // 4)
    return float(np.mean([sums.deviation(values, plan.law) ** 2 for values in prefixes]))


def _typical(problem: Problem, plan: TreePlan) -> NDArray[np.float64]:
    """The deviations of the workload's answers: of some of each block, each standing for many."""
    domain = problem.workload.domain
    found = []
    for block in problem.workload.blocks:
        sums = TreeSums.about(plan.tree, block.columns, adds_up=problem.total_is_public)
        places = np.unique(np.linspace(0, len(block) - 1, PROBES).astype(np.int64))
        tables = (values_on(block.query(place), domain, sums.order) for place in places.tolist())
        spreads = [sums.deviation(values, plan.law) for values in tables]
        found.append(np.repeat(spreads, -(-len(block) // len(places)))[: len(block)])
    return np.concatenate(found) if found else np.zeros(0)
