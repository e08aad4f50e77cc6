"""The plain table of noisy counts: unbiased answers to what was measured, and to sums of it.

A query that was measured is answered by its own measurement. Another one is answered when it is a sum of measured
cells of one block (a box of cells of a marginal, a union of intervals), or the public total minus such a sum, or what
all marginals together say about it. Where there are several ways, the one with the least variance is taken. The noises
are independent and their law is known, so every such answer has an interval from that law.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.domain import Chunk, Domain
from conspectus.data.records.field import P
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import deviation_of
from conspectus.queries.block import Block
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.builders.sparse import written_out
from conspectus.queries.canonical_query import canonical_query
from conspectus.queries.query import Linear, Parity, Predicate, Query, Sparse, TableFunction
from conspectus.queries.rules import possible
from conspectus.queries.sensitivity import fixed
from conspectus.queries.workload import Workload
from conspectus.suggestions import suggest_keywords

from .estimate import Estimate
from .evidence import Evidence
from .histogram import Histogram, fitted_to_marginals
from .measured_sums import Listing, NoisySum, Selection, averaged, not_measured, opposite_of, selection_in
from .noisy_vectors import WeightedSum, ends_of_block, noisy_vector
from .pooled_marginals import MeasuredMarginal, PooledMarginals, PooledSum
from .printed_tables import PrintedTables, listed_tables
from .synopsis import (
    BadSynopsis,
    CannotAnswer,
    Ends,
    Synopsis,
    Total,
    checked_noise,
    ends_of,
    knows,
    numbers_of,
    part,
    read_workload,
    workload_part,
)


@suggest_keywords
@dataclass(frozen=True, eq=False)
class NoisyAnswers(Synopsis):
    """Noisy counts of a workload.

    Attributes:
        domain: The columns of the table.
        workload: What was measured.
        counts: One noisy count for each query, in the workload's order.
        noise: The law of the noise, one for each block, or one for all. A law is in steps of the grid on which its
            noise was drawn.
        total: The number of rows.
        grids: For each block, how many steps of that grid make one count; the workload's own grid by default. Blocks
            that were measured apart have grids of their own, and the quantiles of small noise depend on them.
        pooled: Whether what all marginals say together may answer. Files from before it could go on as they did.
    """

    domain: Domain
    workload: Workload
    counts: NDArray[np.float64]
    noise: tuple[Noise, ...]
    total: Total
    grids: tuple[int, ...] = ()
    pooled: bool = True

    kind: ClassVar[str] = "noisy-answers"
    title: ClassVar[str] = "the noisy answers themselves"
    all_measured: ClassVar[bool] = True

    def __post_init__(self) -> None:
        counts = np.array(self.counts, dtype=np.float64).ravel()
        if self.workload.domain != self.domain or counts.size != len(self.workload):
            raise BadSynopsis("noisy answers need one count for each query of their workload")
        if not possible(counts):
            raise BadSynopsis("noisy counts are finite numbers")
        noise = tuple(checked_noise(kind, scale) for kind, scale in self.noise)
        noise *= len(self.workload.blocks) if len(noise) == 1 else 1
        if len(noise) != len(self.workload.blocks):
            raise BadSynopsis("noisy answers need one noise for each block of their workload")
        grids = self.grids or (self.workload.grid,) * len(noise)
        if len(grids) != len(noise) or any(type(grid) is not int or grid < 1 for grid in grids):
            raise BadSynopsis("noisy answers need one grid for each block of their workload")
        for name, value in (("counts", fixed(counts)), ("noise", noise), ("grids", grids)):
            object.__setattr__(self, name, value)

    def answer(self, workload: Workload) -> NDArray[np.float64]:
        """Fractions: plain noisy ones for what was measured, sums of them for what can be summed."""
        self._check_domain(workload)
        if workload == self.workload:
            return np.asarray(self.counts / self.total.divisor)
        asked_once = workload.distinct()
        if asked_once != workload:
            return self.answer(asked_once)[workload.positions_in(asked_once)]
        answers = np.empty(len(workload))
        for block, start, end in zip(workload.blocks, workload.offsets, workload.offsets[1:]):
            answers[start:end] = self._block_counts(block)
        return answers / self.total.divisor

    @property
    def known_columns(self) -> Sequence[int]:
        """The columns of what was measured."""
        return self.workload.columns

    def estimate(self, query: Workload, confidence: float, beside: Evidence | None = None) -> Estimate:
        """The count of one query, with the exact quantile of its noise; see `Synopsis.estimate`."""
        asked = query.query(0)
        found = self.find(asked) or self.best_for(asked)
        return Estimate.within(found.count, found.margin(confidence), basis="measured")

    def intervals(self, cells: Workload, confidence: float, beside: Evidence | None = None) -> Ends:
        """The intervals of cells by all measurements together or those of one block; see `Synopsis.intervals`."""
        best = self._pool.cells(cells.blocks[0].columns) if self.pooled else None
        margin = None if best is None else self.printed.margin(best, 1 - confidence)
        alone = self.find(cells.query(0)) if len(cells) else None
        if best is not None and margin is not None and (alone is None or margin < alone.margin(confidence)):
            return best.counts - margin, best.counts + margin
        same = None if self._lists or self.interval_blocks else ends_of_block(self, cells, alone, confidence)
        return same or ends_of([self.find(query) for query in cells.queries()], confidence)

    def narrowest(self, query: Query) -> NoisySum | PooledSum | WeightedSum | None:
        """What all counts together say of a query, or its own measurement; see `evidence.Measured`."""
        own, asked = self.find(query), canonical_query(self.domain, query) if isinstance(query, Sparse) else query
        return own if own is None or not self.pooled else self._pool.narrower(asked, own) or own

    def find(self, query: Query) -> NoisySum | PooledSum | WeightedSum | None:
        """What the counts add up to for this query, as it stands or in its canonical form; None where they do not."""
        with suppress(CannotAnswer):
            return self.best_for(query)
        same = canonical_query(self.domain, query)
        with suppress(CannotAnswer):
            return None if same == query else self.best_for(same)
        return None

    def best_for(self, query: Query) -> NoisySum | PooledSum | WeightedSum:
        """The noisy count of one query: its own measurement, or else the estimate of least variance.

        Raises:
            CannotAnswer: The counts do not determine it.
        """
        if isinstance(query, Linear):
            if (vector := noisy_vector(self, (query,))) is None:
                raise CannotAnswer(self._refusal(query))
            return WeightedSum(vector, source="a weighted sum of measured counts")
        own, other = self._ways(query)
        if own:
            return min(own, key=attrgetter("variance"))
        pooled = self._pool.find(query) if self.pooled and isinstance(query, Predicate | Parity) else None
        known: list[NoisySum | PooledSum] = [*other]
        # Of equal variances the simpler one: its quantile is exact.
        if pooled is not None and all(pooled.variance < (1 - 1e-9) * found.variance for found in other):
            known = [pooled]
        if not known:
            raise CannotAnswer(self._refusal(query))
        return min(known, key=attrgetter("variance"))

    def pooled_sum(self, query: Predicate) -> PooledSum | None:
        """What all measured marginals say of a query together; None where they do not determine it."""
        return self._pool.find(query)

    def sum_for(self, query: Query) -> NoisySum:
        """The noisy count of one query as a plain sum, with the law of its noise; raises `CannotAnswer`."""
        own, other = self._ways(query)
        if not own and not other:
            raise CannotAnswer(self._refusal(query))
        return min(own or other, key=attrgetter("variance"))

    def _ways(self, query: Query) -> tuple[list[NoisySum], list[NoisySum]]:
        """The measurements of a query itself, and the sums of others that it is equal to."""
        if isinstance(query, Predicate):  # without literals that hold every code, which ask for no column
            query = Conjunctions.of(self.domain, [query]).query(0)
        summed = [] if isinstance(query, TableFunction) else self._sums(query)
        own = [*self._listed_counts(query), *self._records_counts(query), *(one for one, direct in summed if direct)]
        return own, [] if own else averaged([found for found, _ in summed]) + self._from_total(query)

    @cached_property
    def _pool(self) -> PooledMarginals:
        """All measured marginals, with their columns in the order of the schema."""
        measured = [
            MeasuredMarginal.of(self.domain, self._block(n).columns, self._slice(n), self.noise[n], self.grids[n])
            for n in self._marginals.values()
        ]
        return PooledMarginals(self.domain, measured, self.total)

    def integer_marginal(self, columns: Sequence[int]) -> NDArray[np.int64]:
        """A marginal of the one table of whole rows that is nearest to all measurements together."""
        if not self.printed.knows(columns):
            self.answer(Workload(self.domain, (Marginal(self.domain, tuple(columns)),)))  # says what is missing
        return self.printed.integer_marginal(columns)

    def printed_within(self) -> float | None:
        """The bound that all printed counts of measured marginals have together; see `PrintedTables.within`."""
        return self.printed.within

    @cached_property
    def printed(self) -> PrintedTables:
        """What the answers make of tables."""
        others = listed_tables(self.domain, self._places, self._pool, self.find)
        return PrintedTables(domain=self.domain, pool=self._pool, others=others, total=self.total)

    def sample(self, rows: int, *, public_seed: int | None = None) -> Chunk:
        """Noisy answers describe no distribution; this always raises `CannotAnswer`."""
        raise CannotAnswer("noisy answers have no rows to give: release with a mechanism that makes a histogram")

    def source_of_rows(self) -> Synopsis:
        """The histogram that was fitted to the measured marginals; raises `CannotAnswer` where there is none."""
        return self._fitted

    @cached_property
    def _fitted(self) -> Histogram:
        return fitted_to_marginals(self.domain, self.measured_marginals(), self.total)

    def measured_marginals(self) -> list[tuple[tuple[int, ...], NDArray[np.float64], float]]:
        """The marginals that were measured: columns, noisy counts, and the standard deviation of each count."""
        spread = {n: deviation_of(self.noise[n]) / self.grids[n] for n in self._marginals.values()}
        return [(self._block(n).columns, self._slice(n), deviation) for n, deviation in spread.items()]

    def _block_counts(self, block: Block) -> NDArray[np.float64]:
        """The counts of a whole block: as measured, or one query at a time."""
        if block in self._places:
            return self._slice(self._places[block])
        if self.pooled and isinstance(block, Marginal) and not self._lists and not self.interval_blocks:
            columns = tuple(sorted(block.columns))
            if (table := self._pool.table(columns)) is not None:
                return table.transpose([columns.index(column) for column in block.columns]).ravel()
        return np.array([(self.find(q) or self.best_for(q)).count for q in map(block.query, range(len(block)))])

    def _listed_counts(self, query: Query) -> list[NoisySum]:
        """The measurements of exactly this query in blocks that list their queries."""
        found = ((number, listing.find(query)) for number, listing in self._lists.items())
        return [
            self._summed(number, Selection(np.array([place]), np.empty(0, dtype=np.int64)))
            for number, place in found
            if place is not None
        ]

    def _records_counts(self, query: Query) -> list[NoisySum]:
        """The measurements of a predicate on records of any kind, where these were listed."""
        if not isinstance(query, Predicate) or not self._of_records or not query.columns:
            return []
        asked = Workload(self.domain, (Conjunctions.of(self.domain, [query]),))
        return self._listed_counts(written_out(asked).query(0))

    @property
    def _of_records(self) -> bool:
        """Whether the table is one column of records of any kind, which nobody could list."""
        return self.domain.sizes == (P,)

    def listed_place(self, query: Query) -> tuple[int, int] | None:
        """Where exactly this query was measured with the least noise, as a block and a place in it."""
        found = [(number, listing.find(query)) for number, listing in self._lists.items()]
        spread = {number: deviation_of(self.noise[number]) / self.grids[number] for number, _ in found}
        known = [(number, place) for number, place in found if place is not None]
        return min(known, key=lambda key: spread[key[0]], default=None)

    def measured_block(self, number: int) -> tuple[Block, NDArray[np.float64], Noise, int]:
        """A measured block with its counts, their law and its grid."""
        return self._block(number), self._slice(number), self.noise[number], self.grids[number]

    def _sums(self, query: Query) -> list[tuple[NoisySum, bool]]:
        """One sum from each block that has one for this query, and whether it is a single measured count."""
        sums: list[tuple[NoisySum, bool]] = []
        if isinstance(query, Sparse | Linear):
            return sums
        for number in (*self.covering(query.columns), *self.interval_blocks):
            selection = selection_in(self._block(number), query)
            if selection is not None:
                direct = selection.terms == selection.added.size == 1
                sums.append((self._summed(number, selection, direct=direct), direct))
        return sums

    def _summed(self, number: int, selection: Selection, *, direct: bool = True) -> NoisySum:
        """The sum of some counts of a block, or what the public total leaves of it if that has fewer terms."""
        counts, block, noise = self._slice(number), self._block(number), self.noise[number]
        names = " × ".join(self.domain.names[column] for column in block.columns) or "the total"
        if not direct and self.total.exact and isinstance(block, Marginal) and 2 * selection.terms > len(block):
            outside = np.ones(len(block), dtype=bool)
            outside[selection.added] = False
            value, terms = float(self.total.value - counts[outside].sum()), int(outside.sum())
        else:
            value = float(counts[selection.added].sum() - counts[selection.subtracted].sum())
            terms = selection.terms
        source = f"{terms} measured {'count' if terms == 1 else 'counts'} of {names}"
        if terms == 0:
            return NoisySum(count=value, kind=None, scale=0.0, terms=0, source="the total")
        grid = self.grids[number]
        return NoisySum(count=value, kind=noise.kind, scale=noise.scale, terms=terms, averaged=grid, source=source)

    def _from_total(self, query: Query) -> list[NoisySum]:
        """What the total alone says: all rows, no rows, and the rest of a measured half."""
        total = self.total
        if query == Predicate(()):
            return [NoisySum(count=0.0, kind=None, scale=0.0, terms=0, source="nothing")]
        if query == Predicate(((),)):
            law = NoisySum(count=total.value, kind=total.kind, scale=total.scale, terms=total.terms, source="the total")
            return [replace(law, averaged=total.averaged)]
        if not total.exact or (rest := opposite_of(self.domain, query)) is None:
            return []
        parts = self._listed_counts(rest) + [found for found, _ in self._sums(rest)]
        return [
            replace(found, count=total.value - found.count, source=f"the total without {found.source}")
            for found in parts
        ]

    def _refusal(self, query: Query) -> str:
        if isinstance(query, TableFunction):
            return f"this function was not measured: release it too ({knows(self.domain, self.known_columns)})"
        if isinstance(query, Linear):
            return f"this sum of values was not measured: release it too ({knows(self.domain, self.known_columns)})"
        if isinstance(query, Sparse) or self._of_records:
            return "this sparse query was not measured: ask one of the workload, or release with sparse-project"
        return not_measured(self.domain, query.columns, self.known_columns, set().union(*self._marginals))

    def _block(self, number: int) -> Block:
        return self.workload.blocks[number]

    def _slice(self, number: int) -> NDArray[np.float64]:
        return self.counts[self.workload.offsets[number] : self.workload.offsets[number + 1]]

    @cached_property
    def _places(self) -> dict[Block, int]:
        """Each distinct block with its first place: repeated ones were paid once, so their noise is not independent."""
        places: dict[Block, int] = {}
        for number, block in enumerate(self.workload.blocks):
            places.setdefault(block, number)
        return places

    @cached_property
    def _marginals(self) -> dict[frozenset[int], int]:
        """The measured marginals, the first for each set of columns."""
        sets: dict[frozenset[int], int] = {}
        for block, number in self._places.items():
            if isinstance(block, Marginal):
                sets.setdefault(frozenset(block.columns), number)
        return sets

    @cached_property
    def interval_blocks(self) -> Sequence[int]:
        """The measured blocks of intervals or prefixes."""
        return [number for block, number in self._places.items() if isinstance(block, Intervals)]

    @cached_property
    def _lists(self) -> dict[int, Listing]:
        """The blocks that are neither marginals nor intervals: what they hold is found by looking it up."""
        return {n: Listing(block) for block, n in self._places.items() if not isinstance(block, Marginal | Intervals)}

    @cached_property
    def _covers(self) -> dict[tuple[int, ...], tuple[int, ...]]:
        return {}

    def covering(self, columns: tuple[int, ...]) -> tuple[int, ...]:
        """The measured marginals that hold all these columns."""
        if columns not in self._covers:
            wanted = set(columns)
            self._covers[columns] = tuple(number for held, number in self._marginals.items() if wanted <= held)
        return self._covers[columns]

    def measurements(self) -> list[tuple[Workload, Noise, int]]:
        """The blocks, each once, by the law and the grid of their noise; see `Synopsis.measurements`."""
        found: dict[tuple[Noise, int], list[Block]] = {}
        for block, number in self._places.items():
            found.setdefault((self.noise[number], self.grids[number]), []).append(block)
        return [(Workload(self.domain, tuple(blocks)), *law) for law, blocks in found.items()]

    def parts(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        laws, pooled = [list(law) for law in self.noise], {"pooled": True} if self.pooled else {}
        meta = {"total": self.total.to_json(), "noise": laws, "grids": list(self.grids), **pooled}
        return meta, {"counts": pa.table({"count": self.counts}), "measured": workload_part(self.workload)}

    @classmethod
    def from_parts(cls, domain: Domain, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Self:
        workload = read_workload(tables, "measured")
        counts = numbers_of(part(tables, "counts", [("count", pa.float64())])["count"])
        noise, grids, pooled = meta.get("noise"), meta.get("grids", []), meta.get("pooled", False)
        pairs = isinstance(noise, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in noise)
        if noise is None or not pairs or not isinstance(grids, list) or not isinstance(pooled, bool):
            raise BadSynopsis("the noisy answers of the synopsis are not readable")
        laws = tuple(checked_noise(*pair) for pair in noise)
        return cls(domain, workload, counts, laws, Total.from_json(meta.get("total")), tuple(grids), pooled)
