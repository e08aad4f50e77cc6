"""Noisy counts of a tree of intervals, made consistent by least squares: ranges, prefixes, quantiles and sums.

Every level of a tree counts the same rows, so that the noisy levels contradict one another. The counts of single codes
that are nearest to all nodes together solve the normal equations AᵀA·x = Aᵀy, where A has a line for each node. On a
tree these are solved in two passes, up and down (`solved`). The estimate of c·x is then Σ w·y with w = A·(AᵀA)⁻¹·c: a
weighted sum of independent noises, whose variance and quantiles are known. Where the number of rows is public, the
counts of all groups together are held to it. `mechanisms/tree_of_intervals.proof.md` has the proofs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.counting.evaluation import answers_from_marginals, values_on
from conspectus.data.domain import Chunk, Domain
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import variance_of
from conspectus.queries.blocks.dyadic_tree import DyadicTree
from conspectus.queries.canonical_query import canonical_query
from conspectus.queries.query import Query, Sparse, TableFunction
from conspectus.queries.rules import possible
from conspectus.queries.sensitivity import fixed
from conspectus.queries.workload import Workload
from conspectus.suggestions import suggest_keywords
from conspectus.synopses.fitting.least_squares import project_simplex

from .estimate import Estimate
from .evidence import Evidence
from .histogram import Histogram
from .noisy_vectors import NoisyVector
from .synopsis import (
    BadSynopsis,
    CannotAnswer,
    Ends,
    Synopsis,
    Total,
    check_known,
    checked_noise,
    numbers_of,
    part,
    read_workload,
    workload_part,
)

Table = NDArray[np.float64]


def solved(tree: DyadicTree, right: Table) -> Table:
    """x with AᵀA·x = right, for each line of `right`: the sums over the levels above a code and its own.

    Below a node whose ancestors have the sum t in all, the sum of x is α − β·t: α and β follow from the children, and x
    from the top.
    """
    alphas, betas = [right], [np.ones(tree.leaves)]
    for size in tree.level_sizes[-2::-1]:
        short = ((0, 0), (0, size * tree.fanout - alphas[-1].shape[1]))
        a = np.pad(alphas[-1], short).reshape(len(right), size, tree.fanout).sum(axis=2)
        b = np.pad(betas[-1], short[1]).reshape(size, tree.fanout).sum(axis=1)
        alphas.append(a / (1 + b))
        betas.append(b / (1 + b))
    above = np.zeros((len(right), tree.level_sizes[0]))
    for place in range(len(alphas) - 1, 0, -1):
        here = above + alphas[place] - betas[place] * above
        above = np.repeat(here, tree.fanout, axis=1)[:, : alphas[place - 1].shape[1]]
    return alphas[0] - above


@dataclass(frozen=True, eq=False)
class TreeSums:
    """Sums over the codes of a tree as sums over its nodes: of all without bias those with the least variance.

    Attributes:
        tree: The nodes, in the groups that are told apart.
        copies: How many groups of the measured tree each of them is the sum of: so many noises are in each node.
        adds_up: Whether the number of rows below all nodes is public.
    """

    tree: DyadicTree
    copies: int
    adds_up: bool

    @classmethod
    def about(cls, tree: DyadicTree, columns: Collection[int], *, adds_up: bool) -> TreeSums:
        """What questions about some columns need: they weigh all groups alike that differ in other columns alone."""
        fewer = replace(tree, by=tuple(column for column in tree.by if column in columns))
        return cls(fewer, tree.groups // fewer.groups, adds_up)

    @property
    def order(self) -> tuple[int, ...]:
        """The columns as the lines and entries of its tables have them."""
        return (*self.tree.by, self.tree.column)

    @cached_property
    def along(self) -> Table:
        """What a group changes by where only the number of all rows does: one line, as all groups change alike."""
        return solved(self.tree, np.ones((1, self.tree.leaves)))

    @cached_property
    def _of_all(self) -> Table:
        """The weights of the nodes of a group in the number of all rows."""
        return self.tree.sums(self.along)

    def on_nodes(self, values: Table) -> tuple[Table, float]:
        """A sum with these weights of the codes, in the order of `order`, as one over nodes; and what share of the
        public total it has besides."""
        values = values.reshape(self.tree.groups, self.tree.leaves)
        weights = self.tree.sums(solved(self.tree, values))
        if not self.adds_up:
            return weights.ravel(), 0.0
        # The public total takes away from each query its share of what the nodes say about all rows.
        share = float((values @ self.along[0]).sum() / (self.tree.groups * self.along.sum()))
        return (weights - share * self._of_all).ravel(), share

    def deviation(self, values: Table, law: Noise) -> float:
        """The standard deviation of a sum with these weights of the codes, in counts."""
        return float(np.linalg.norm(self.on_nodes(values)[0])) * math.sqrt(self.copies * variance_of(law))


@suggest_keywords
@dataclass(frozen=True, eq=False)
class TreeCounts(Synopsis):
    """The noisy nodes of a tree, with noise of one law: answers about its columns, from the nearest consistent counts.

    Attributes:
        domain: The columns of the table.
        tree: The nodes that were measured.
        counts: One noisy count for each node.
        noise: The law of the noise.
        total: The number of rows. Where it is public, the counts are made to add up to it.
        adding_up: Whether those of several groups are, too. Files from before they were go on as they did.
    """

    domain: Domain
    tree: DyadicTree
    counts: Table
    noise: Noise
    total: Total
    adding_up: bool = True

    kind: ClassVar[str] = "tree"
    title: ClassVar[str] = "noisy counts of a tree of intervals"
    all_measured: ClassVar[bool] = True

    def __post_init__(self) -> None:
        counts = np.array(self.counts, dtype=np.float64).ravel()
        if self.tree.domain != self.domain or counts.size != len(self.tree) or not possible(counts):
            raise BadSynopsis("a tree of noisy counts has one finite count for each of its nodes")
        object.__setattr__(self, "noise", checked_noise(*self.noise))
        object.__setattr__(self, "counts", fixed(counts))

    @property
    def known_columns(self) -> Sequence[int]:
        """The columns of the tree."""
        return self.tree.columns

    @cached_property
    def leaves(self) -> Table:
        """The counts of codes that are nearest to all nodes together: a line for each group."""
        nodes, every = self.counts.reshape(self.tree.groups, self.tree.nodes), self.sums(self.tree.columns)
        found = solved(self.tree, self._spread(nodes))
        if self.adds_up:
            missing = self.total.value - found.sum()
            found = found + every.along * missing / (self.tree.groups * every.along.sum())
        return found

    @property
    def adds_up(self) -> bool:
        """Whether the counts are held to a public number of rows."""
        return self.total.exact and (self.adding_up or self.tree.groups == 1)

    @cached_property
    def _known_sums(self) -> dict[tuple[int, ...], TreeSums]:
        return {}

    def sums(self, columns: Collection[int]) -> TreeSums:
        """How questions about some columns are sums over nodes, of which those of the other columns are added up."""
        found = TreeSums.about(self.tree, columns, adds_up=self.adds_up)
        return self._known_sums.setdefault(found.tree.by, found)

    def _summed(self, sums: TreeSums) -> Table:
        """The noisy counts of its nodes."""
        nodes = self.counts.reshape(*self.domain.shape(self.tree.by), self.tree.nodes)
        others = tuple(place for place, column in enumerate(self.tree.by) if column not in sums.tree.by)
        return np.asarray(nodes.sum(axis=others)).ravel()

    def _spread(self, nodes: Table) -> Table:
        """Aᵀ: for each code the sum over the nodes above it."""
        found = np.zeros((len(nodes), self.tree.leaves))
        at = 0
        for width, size in zip(self.tree.widths, self.tree.level_sizes):
            found += np.repeat(nodes[:, at : at + size], width, axis=1)[:, : self.tree.leaves]
            at += size
        return found

    def answer(self, workload: Workload) -> NDArray[np.float64]:
        """Fractions: sums of the consistent counts."""
        self._check_asked(workload)
        if not workload.linear:
            raise CannotAnswer("a tree answers counts and sums over its columns, not functions of a table or records")
        return np.asarray(answers_from_marginals(workload, self.marginal) / self.total.divisor)

    @property
    def order(self) -> tuple[int, ...]:
        """The columns as the lines and entries of its tables have them."""
        return (*self.tree.by, self.tree.column)

    def marginal(self, columns: tuple[int, ...]) -> Table:
        """The consistent counts of some columns, in schema order; raises `CannotAnswer`."""
        check_known(self.domain, columns, self.known_columns)
        table = self.leaves.reshape(self.domain.shape(self.order))
        table = table.transpose([self.order.index(c) for c in self.tree.columns])
        return np.asarray(table.sum(axis=tuple(place for place, c in enumerate(self.tree.columns) if c not in columns)))

    def estimate(self, query: Workload, confidence: float, beside: Evidence | None = None) -> Estimate:
        """The count of one query, with the quantile of its noise; see `Synopsis.estimate`."""
        asked = canonical_query(self.domain, query.query(0))
        self._check_asked(query)
        if isinstance(asked, TableFunction | Sparse):
            raise CannotAnswer("a tree answers counts and sums over its columns, not functions of a table or records")
        vector = self.vector([asked])
        return Estimate.within(float(vector.counts[0]), vector.margin(np.ones(1), confidence), basis="measured")

    def intervals(self, cells: Workload, confidence: float, beside: Evidence | None = None) -> Ends:
        """The intervals of some cells; see `Synopsis.intervals`."""
        self._check_asked(cells)
        found = [self.estimate(cell, confidence) for cell in cells]
        return np.array([each.low for each in found], dtype=float), np.array([each.high for each in found], dtype=float)

    def vector(self, queries: Sequence[Query]) -> NoisyVector:
        """Queries about the tree's columns as weighted sums of its nodes."""
        # A list of records has no columns, and is refused below.
        sums = self.sums({column for query in queries if not isinstance(query, Sparse) for column in query.columns})
        found = [sums.on_nodes(values_on(query, self.domain, sums.order)) for query in queries]
        weights = np.stack([line for line, _ in found])
        counts = weights @ self._summed(sums) + np.array([share for _, share in found]) * self.total.value
        used = np.flatnonzero(np.abs(weights).max(axis=0) > 1e-12)
        return NoisyVector(counts, weights[:, used], ((self.noise, 1),) * len(used), sums.copies)

    def variance(self, query: Query) -> float:
        """The variance of the answer to a query, in counts."""
        return float(self.vector([query]).covariance[0, 0])

    def sample(self, rows: int, *, public_seed: int | None = None) -> Chunk:
        """Rows of the histogram that is nearest to the consistent counts."""
        return self.source_of_rows().sample(rows, public_seed=public_seed)

    def source_of_rows(self) -> Histogram:
        """The histogram over the tree's columns that is nearest to the consistent counts."""
        return self._fitted

    @cached_property
    def _fitted(self) -> Histogram:
        shares = project_simplex(self.marginal(self.tree.columns).ravel() / self.total.divisor)
        return Histogram(self.domain, shares, self.total, self.tree.columns)

    def integer_marginal(self, columns: Sequence[int]) -> NDArray[np.int64]:
        """A table to print, from the histogram nearest to the counts; see `Synopsis.integer_marginal`."""
        return self._fitted.integer_marginal(columns)

    def measurements(self) -> list[tuple[Workload, Noise, int]]:
        """The nodes; see `Synopsis.measurements`."""
        return [(Workload(self.domain, (self.tree,)), self.noise, 1)]

    def parts(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        adding_up = {"adding_up": True} if self.adding_up else {}
        meta = {"total": self.total.to_json(), "noise": list(self.noise), **adding_up}
        measured = workload_part(Workload(self.domain, (self.tree,)))
        return meta, {"counts": pa.table({"count": self.counts}), "measured": measured}

    @classmethod
    def from_parts(cls, domain: Domain, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Self:
        blocks = read_workload(tables, "measured").blocks
        counts = numbers_of(part(tables, "counts", [("count", pa.float64())])["count"])
        noise, adding_up = meta.get("noise"), meta.get("adding_up", False)
        written = isinstance(noise, list) and len(noise) == 2 and isinstance(adding_up, bool)
        if len(blocks) != 1 or not isinstance(blocks[0], DyadicTree) or noise is None or not written:
            raise BadSynopsis("the tree of the synopsis is not readable")
        return cls(domain, blocks[0], counts, checked_noise(*noise), Total.from_json(meta.get("total")), adding_up)
