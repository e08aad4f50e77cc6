"""Noisy counts of a tree of intervals, made consistent by least squares: ranges, prefixes, quantiles and sums.

Every level of a tree counts the same rows, so that the noisy levels contradict one another. The counts of single codes
that are nearest to all nodes together solve the normal equations AᵀA·x = Aᵀy, where A has a line for each node. On a
tree these are solved in two passes, up and down (`solved`). The estimate of c·x is then Σ w·y with w = A·(AᵀA)⁻¹·c: a
weighted sum of independent noises, whose variance and quantiles are known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@suggest_keywords
@dataclass(frozen=True, eq=False)
class TreeCounts(Synopsis):
    """The noisy nodes of a tree, with noise of one law: answers about its columns, from the nearest consistent counts.

    Attributes:
        domain: The columns of the table.
        tree: The nodes that were measured.
        counts: One noisy count for each node.
        noise: The law of the noise.
        total: The number of rows. Where it is public and there is one group, the counts are made to add up to it.
    """

    domain: Domain
    tree: DyadicTree
    counts: Table
    noise: Noise
    total: Total

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
        nodes = self.counts.reshape(self.tree.groups, self.tree.nodes)
        found = solved(self.tree, self._spread(nodes))
        if self.adds_up:
            found = found + self._along * (self.total.value - found.sum()) / self._along.sum()
        return found

    @cached_property
    def _along(self) -> Table:
        """What a table of one group changes by where only its size does."""
        return solved(self.tree, np.ones((1, self.tree.leaves)))

    @property
    def adds_up(self) -> bool:
        """Whether all nodes belong to one group, whose size is public."""
        return self.total.exact and self.tree.groups == 1

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
        found = [self.on_nodes(values_on(query, self.domain, self.order)) for query in queries]
        weights = np.stack([line for line, _ in found])
        nodes = weights @ self.counts + np.array([share for _, share in found]) * self.total.value
        used = np.flatnonzero(np.abs(weights).max(axis=0) > 1e-12)
        return NoisyVector(nodes, weights[:, used], ((self.noise, 1),) * len(used))

    def on_nodes(self, values: Table) -> tuple[Table, float]:
        """A sum with these weights of the codes, in the order of `order`, as one over nodes; and what share of the
        public total it has besides."""
        values = values.reshape(self.tree.groups, self.tree.leaves)
        weights = self.tree.sums(solved(self.tree, values)).ravel()
        if not self.adds_up:
            return weights, 0.0
        # The public total takes away from each query its share of what the nodes say about all rows.
        share = float((values * self._along).sum() / self._along.sum())
        return weights - share * self.tree.sums(self._along).ravel(), share

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
        meta = {"total": self.total.to_json(), "noise": list(self.noise)}
        measured = workload_part(Workload(self.domain, (self.tree,)))
        return meta, {"counts": pa.table({"count": self.counts}), "measured": measured}

    @classmethod
    def from_parts(cls, domain: Domain, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Self:
        blocks = read_workload(tables, "measured").blocks
        counts = numbers_of(part(tables, "counts", [("count", pa.float64())])["count"])
        noise = meta.get("noise")
        if len(blocks) != 1 or not isinstance(blocks[0], DyadicTree) or not isinstance(noise, list) or len(noise) != 2:
            raise BadSynopsis("the tree of the synopsis is not readable")
        return cls(domain, blocks[0], counts, checked_noise(*noise), Total.from_json(meta.get("total")))


def node_deviation(tree: DyadicTree, law: Noise, values: Table, *, adds_up: bool) -> Table:
    """The standard deviation of some combinations of codes of one group, each a line of `values`, in counts."""
    weights = tree.sums(solved(tree, values))
    if adds_up:
        along = solved(tree, np.ones((1, tree.leaves)))
        shares = (values @ along[0]) / along.sum()
        weights = weights - np.outer(shares, tree.sums(along)[0])
    return np.asarray(np.sqrt(np.square(weights).sum(axis=1) * variance_of(law)))
