"""A distribution over the whole universe, one weight per cell: answers everything, makes rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.domain import Chunk, Domain, code_dtype
from conspectus.queries.evaluation import answers_from_marginals
from conspectus.queries.marginal_tree import marginal_tree
from conspectus.queries.marginals import Marginal
from conspectus.queries.query import Workload

from .rounding import integer_histogram, snake, systematic
from .synopsis import BadSynopsis, CannotAnswer, Total, part, public_coins


@dataclass(frozen=True, eq=False)
class Histogram:
    """Weights over the cells of the domain in row-major order: zero or more, with sum 1."""

    domain: Domain
    weights: NDArray[np.float64]
    total: Total

    kind: ClassVar[str] = "histogram"

    def __post_init__(self) -> None:
        weights = np.array(self.weights, dtype=np.float64).ravel()
        if weights.size != self.domain.cells:
            raise BadSynopsis(f"a histogram over {self.domain.cells} cells was given {weights.size} weights")
        mass = float(weights.sum())
        if not np.isfinite(mass) or float(weights.min()) < 0 or mass <= 0:
            raise BadSynopsis("the weights of a histogram are finite, zero or more, and not all zero")
        # Weights that came from a file already have this sum and must stay the same to the bit.
        if abs(mass - 1) > 1e-12:
            weights /= mass
        weights.flags.writeable = False
        object.__setattr__(self, "weights", weights)

    def answer(self, workload: Workload) -> NDArray[np.float64]:
        """Answer any workload over the domain, each query from the smallest marginal that decides it."""
        if workload.domain != self.domain:
            raise CannotAnswer("the workload asks about another table: build it from the schema of this synopsis")
        sets = [block.columns for block in workload.blocks if isinstance(block, Marginal)]
        if len(sets) == len(workload.blocks) and all(list(columns) == sorted(columns) for columns in sets):
            flat = marginal_tree(self.domain.sizes, tuple(sets)).marginals_flat(self.weights)
            return np.asarray(np.clip(flat, 0.0, 1.0))
        known: dict[tuple[int, ...], NDArray[np.float64]] = {}
        # Whole marginals are worth computing together; other blocks ask for theirs one at a time.
        sets = sorted({tuple(sorted(columns)) for columns in sets})
        if sets:
            tables = marginal_tree(self.domain.sizes, tuple(sets)).marginals(self.weights)
            known = {columns: table.reshape(self.domain.shape(columns)) for columns, table in zip(sets, tables)}

        def marginal(columns: tuple[int, ...]) -> NDArray[np.float64]:
            return known[columns] if columns in known else self.marginal(columns)

        return np.asarray(np.clip(answers_from_marginals(workload, marginal), 0.0, 1.0))

    def marginal(self, columns: tuple[int, ...]) -> NDArray[np.float64]:
        """The marginal over some columns, given in schema order, in the shape of their sizes."""
        (table,) = marginal_tree(self.domain.sizes, (columns,)).marginals(self.weights)
        return table.reshape(self.domain.shape(columns))

    def counts(self, total: int | None = None) -> NDArray[np.int64]:
        """One non-negative integer table near the histogram; every table published from it agrees with the others."""
        rows = self.total.rows if total is None else total
        return integer_histogram(self.weights, rows, sizes=self.domain.sizes)

    def sample(self, rows: int, *, public_seed: int | None = None) -> Chunk:
        """Rows by systematic sampling with a random start: each cell gets its expected count, rounded down or up."""
        coins = public_coins(public_seed)
        path = snake(self.domain.sizes)
        counts = systematic(self.weights[path], rows, float(coins.random()))
        cells = np.repeat(path, counts)
        coins.shuffle(cells)
        return cells_to_chunk(self.domain, cells)

    def parts(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        return {"total": self.total.to_json()}, {"weights": pa.table({"weight": self.weights})}

    @classmethod
    def from_parts(cls, domain: Domain, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Self:
        table = part(tables, "weights", [("weight", pa.float64())])
        if table.num_rows != domain.cells:
            raise BadSynopsis("the histogram of the synopsis has another number of cells than its schema")
        return cls(domain, table["weight"].to_numpy(), Total.from_json(meta.get("total")))


def cells_to_chunk(domain: Domain, cells: NDArray[np.int64]) -> Chunk:
    """The records of these cells, column by column."""
    columns: list[NDArray[np.unsignedinteger[Any]]] = []
    rest = cells
    for size in reversed(domain.sizes):
        rest, codes = np.divmod(rest, size)
        columns.append(codes.astype(code_dtype(size)))
    return Chunk(tuple(reversed(columns)), int(cells.size))
