"""Noisy residuals: unbiased answers to everything that marginals over their columns say, each with its exact interval.

A question about some columns is a sum of functions f_S, one for each set S of them, that sum to 0 along every axis. Its
count is Σ_S ⟨f_S, R_S⟩, with R_S the residual of the marginal over S, and R_∅ the number of rows. The residuals were
measured apart, with independent noise, so this is the best linear estimate there is. P leaves f_S as it is: the noise
in ⟨f_S, P z⟩ is ⟨f_S, z⟩, a weighted sum of independent draws, whose law is known (`privacy/mixed_noise.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.counting.evaluation import indicator, values_on
from conspectus.data.domain import Chunk, Domain
from conspectus.privacy.events import Noise
from conspectus.privacy.mixed_noise import Term, mixed_margin
from conspectus.privacy.tails import variance_of
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.residual import Residual
from conspectus.queries.canonical_query import canonical_query
from conspectus.queries.query import Linear, Parity, Predicate, Query
from conspectus.queries.rules import possible
from conspectus.queries.sensitivity import WorkloadError, fixed
from conspectus.queries.workload import Workload
from conspectus.suggestions import suggest_keywords

from .estimate import Estimate
from .evidence import Evidence
from .noisy_vectors import NoisyVector
from .pooled_marginals import (
    MOST_CELLS,
    MOST_COLUMNS,
    TermsOfBoxes,
    Weighted,
    counted_terms,
    interactions_of,
    noise_terms,
)
from .synopsis import BadSynopsis, CannotAnswer, Ends, Synopsis, Total, checked_noise, knows, numbers_of, part

Table = NDArray[np.float64]
Columns = tuple[int, ...]
_LOST = 2.0**-48
"""The share of a number that floats may lose where means are taken away from it."""


@dataclass(frozen=True, eq=False)
class ResidualSum:
    """What residuals say of one query, with the law of its noise."""

    count: float
    terms: tuple[Term, ...]

    @property
    def variance(self) -> float:
        return math.fsum(variance_of(law) * weight**2 * times for law, weight, times in self.terms)

    def margin(self, confidence: float) -> float:
        """How far the noise has moved the count at most, with this probability."""
        return mixed_margin(self.terms, confidence)


@suggest_keywords
@dataclass(frozen=True, eq=False)
class ResidualAnswers(Synopsis):
    """Residuals of marginals as they were measured.

    Attributes:
        domain: The columns of the table.
        columns: The columns of each residual, ascending; each set once.
        scales: The scale of the noise on each, in steps of 1/N, where N is the number of cells of its table.
        values: The tables, flat, in counts and one after the other.
        total: The number of rows.

    Raises:
        BadSynopsis: The parts do not fit together.
    """

    domain: Domain
    columns: tuple[Columns, ...]
    scales: tuple[float, ...]
    values: Table
    total: Total

    kind: ClassVar[str] = "residual-answers"
    title: ClassVar[str] = "what was measured, marginal by marginal"
    all_measured: ClassVar[bool] = True

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64).ravel()
        ascending = all(list(columns) == sorted(columns) and columns for columns in self.columns)
        if not self.columns or not ascending or len(set(self.columns)) != len(self.columns):
            raise BadSynopsis("measured residuals name each set of columns once, in ascending order")
        for scale in self.scales:
            checked_noise("gaussian", scale)
        try:
            cells = sum(residual.cells for residual in self.residuals)
        except WorkloadError as problem:
            raise BadSynopsis("a measured residual does not fit its table") from problem
        if len(self.scales) != len(self.columns) or values.size != cells or not possible(values):
            raise BadSynopsis("measured residuals have a scale each, and a finite count for each of their cells")
        object.__setattr__(self, "values", fixed(values))

    @cached_property
    def residuals(self) -> tuple[Residual, ...]:
        """What was measured."""
        return tuple(Residual(self.domain, columns) for columns in self.columns)

    @cached_property
    def tables(self) -> dict[Columns, Table]:
        """The residuals by their columns, each in the shape of its table."""
        ends = np.cumsum([residual.cells for residual in self.residuals])[:-1]
        parts = np.split(self.values, ends)
        return {residual.columns: flat.reshape(residual.shape) for residual, flat in zip(self.residuals, parts)}

    @property
    def known_columns(self) -> Sequence[int]:
        """The columns of all residuals."""
        return sorted({column for columns in self.columns for column in columns})

    def answer(self, workload: Workload) -> Table:
        """The best linear estimates, as fractions; raises `CannotAnswer` where residuals are missing."""
        self._check_domain(workload)
        answers = np.empty(len(workload))
        for block, start, end in zip(workload.blocks, workload.offsets, workload.offsets[1:]):
            table = self.table(block.columns) if isinstance(block, Marginal) else None
            if table is not None:
                answers[start:end] = table
            else:
                answers[start:end] = [self._found(block.query(i)).count for i in range(len(block))]
        return answers / self.total.divisor

    def table(self, columns: Sequence[int]) -> Table | None:
        """The estimates of all cells of a marginal, row-major over columns in any order; None where one is missing."""
        told_apart = [c for c in sorted(columns) if self.domain.sizes[c] > 1]
        shape = self.domain.shape(told_apart)
        if len(told_apart) > MOST_COLUMNS or math.prod(shape) > MOST_CELLS:
            return None
        cells = np.full(shape, self.total.value / math.prod(shape))
        for size in range(1, len(told_apart) + 1):
            for chosen in combinations(told_apart, size):
                if chosen not in self.tables:
                    return None
                known = self.tables[chosen]
                there = [n if column in chosen else 1 for column, n in zip(told_apart, shape)]
                cells += known.reshape(there) * (known.size / cells.size)
        ordered = sorted(columns)
        whole = cells.reshape(self.domain.shape(ordered))
        return np.ascontiguousarray(whole.transpose([ordered.index(c) for c in columns])).ravel()

    def find(self, query: Query) -> ResidualSum | None:
        """The best linear estimate of a query; None where residuals do not determine it, or it is too large."""
        if not isinstance(query, Predicate | Parity):
            same = canonical_query(self.domain, query)
            return self.find(same) if isinstance(same, Predicate | Parity) else None
        if len(query.columns) > MOST_COLUMNS or math.prod(self.domain.shape(query.columns)) > MOST_CELLS:
            return None
        columns, inside = indicator(query, self.domain)
        parts = self.taken_apart(columns, inside.astype(np.float64))
        if parts is None:
            return None
        known = [(weights, self.tables[chosen] if chosen else self.total.value) for chosen, weights in parts.items()]
        count = math.fsum(float((weights * table).sum()) for weights, table in known)
        return ResidualSum(count, self._terms(query, parts))

    def taken_apart(self, columns: Columns, weights: Table) -> dict[Columns, Table] | None:
        """A weighted sum of the cells of some columns as a sum over residuals: the weights of each.

        Args:
            columns: In schema order.
            weights: One for each cell of their table, flat.

        Returns:
            By the columns of a residual its weights in the shape of its table, those of the number of rows under none;
            None where a residual that is needed was not measured.
        """
        held = tuple(column for column in columns if self.domain.sizes[column] > 1)
        parts: dict[Columns, Table] = {}
        # Weights may be in any unit: nothing is what floats lose of the largest of them.
        nothing = _LOST * float(np.abs(weights).max(initial=0.0))
        for chosen, share in interactions_of(held, weights.reshape(self.domain.shape(held))):
            if float(np.abs(share).max(initial=0.0)) <= nothing:
                continue
            if chosen and chosen not in self.tables:
                return None
            parts[chosen] = share
        return parts

    def noise_terms_of(self, parts: Mapping[Columns, Table]) -> tuple[Term, ...]:
        """The noises of a sum that takes these multiples of residuals, by law and size of weight."""
        return counted_terms(self._weighted(parts))

    def variance_of_part(self, chosen: Columns) -> float:
        """The variance that a weight of 1 on one entry of a residual brings; under no columns that of the total."""
        law: Noise | None
        law, steps, copies = self._laws.get(chosen, (self.total.law, self.total.averaged, self.total.terms))
        return 0.0 if law is None else variance_of(law) * copies / steps**2

    def vector(self, queries: Sequence[Query]) -> NoisyVector | None:
        """Queries as weighted sums of residuals, with the noise that they share; None where they are none."""
        asked = [query for query in queries if isinstance(query, Predicate | Parity | Linear)]
        if len(asked) < len(queries):
            return None
        columns = tuple(sorted({c for query in asked for c in query.columns}))
        if len(columns) > MOST_COLUMNS or math.prod(self.domain.shape(columns)) > MOST_CELLS:
            return None
        found = [self.taken_apart(columns, values_on(query, self.domain, columns)) for query in asked]
        known = [parts for parts in found if parts is not None]
        if len(known) < len(found):
            return None
        counts, weights, laws = np.zeros(len(known)), [np.zeros((len(known), 0))], list[tuple[Noise, int]]()
        for chosen in dict.fromkeys(chosen for parts in known for chosen in parts):
            values = self.tables[chosen] if chosen else np.array(self.total.value)
            lines = np.stack([parts.get(chosen, np.zeros(values.shape)).ravel() for parts in known])
            counts += lines @ values.ravel()
            law: Noise | None
            law, steps, copies = self._laws.get(chosen, (self.total.law, self.total.averaged, self.total.terms))
            if law is not None:
                weights.append(np.repeat(lines, copies, axis=1))
                laws += [(law, steps)] * (lines.shape[1] * copies)
        return NoisyVector(counts, np.concatenate(weights, axis=1), tuple(laws))

    def narrowest(self, query: Query) -> ResidualSum | None:
        """The best linear estimate of a query; see `evidence.Measured`."""
        return self.find(query)

    def estimate(self, query: Workload, confidence: float, beside: Evidence | None = None) -> Estimate:
        """The count of one query with the quantile of its noise; see `Synopsis.estimate`."""
        found = self._found(query.query(0))
        return Estimate.within(found.count, found.margin(confidence), basis="measured")

    def intervals(self, cells: Workload, confidence: float, beside: Evidence | None = None) -> Ends:
        """The intervals of all cells of a marginal: of one width, as the noise of one cell is that of any other."""
        block = cells.blocks[0]
        counts = self.table(block.columns)
        first = None if counts is None else self.find(cells.query(0))
        if counts is None or first is None:
            return np.full(len(cells), np.nan), np.full(len(cells), np.nan)
        margin = first.margin(confidence)
        return counts - margin, counts + margin

    def _found(self, query: Query) -> ResidualSum:
        found = self.find(query)
        if found is None:
            known = knows(self.domain, self.known_columns)
            raise CannotAnswer(f"no residuals that were measured answer this: ask about fewer columns ({known})")
        return found

    def _terms(self, query: Predicate | Parity, parts: Mapping[Columns, Table]) -> tuple[Term, ...]:
        """The noises of an estimate by law and weight."""
        return noise_terms(self._of_boxes, query, lambda: self._weighted(parts))

    @cached_property
    def _of_boxes(self) -> TermsOfBoxes:
        return {}

    def _weighted(self, parts: Mapping[Columns, Table]) -> Iterator[Weighted]:
        for chosen, weights in parts.items():
            law: Noise | None
            law, steps, copies = self._laws.get(chosen, (self.total.law, self.total.averaged, self.total.terms))
            if law is not None:
                yield law, weights, steps, copies

    @cached_property
    def _laws(self) -> dict[Columns, tuple[Noise, int, int]]:
        """For each residual the law of its noise, the steps to a count, and the draws on each cell."""
        listed = zip(self.residuals, self.scales)
        return {residual.columns: (Noise("gaussian", scale), residual.cells, 1) for residual, scale in listed}

    def sample(self, rows: int, *, public_seed: int | None = None) -> Chunk:
        """Residuals describe no distribution; this always raises `CannotAnswer`."""
        raise CannotAnswer("noisy residuals have no rows to give: take those of the synopsis that was fitted to them")

    def parts(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        columns = [list(each) for each in self.columns]
        meta = {"total": self.total.to_json(), "columns": columns, "scales": list(self.scales)}
        return meta, {"residuals": pa.table({"count": self.values})}

    @classmethod
    def from_parts(cls, domain: Domain, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Self:
        values = numbers_of(part(tables, "residuals", [("count", pa.float64())])["count"])
        columns, scales = meta.get("columns"), meta.get("scales")
        readable = (
            isinstance(columns, list)
            and isinstance(scales, list)
            and all(isinstance(each, list) and all(type(c) is int for c in each) for each in columns)
            and all(type(scale) is float and scale > 0 for scale in scales)
        )
        if columns is None or scales is None or not readable:
            raise BadSynopsis("the measured residuals of the synopsis are not readable")
        sets = tuple(tuple(each) for each in columns)
        return cls(domain, sets, tuple(scales), values, Total.from_json(meta.get("total")))
