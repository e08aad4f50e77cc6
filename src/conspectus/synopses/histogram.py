"""A distribution over the universe, one weight per cell of the columns that matter: answers everything, makes rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.counting.evaluation import answers_from_marginals
from conspectus.counting.marginal_tree import MarginalTree, marginal_tree
from conspectus.data.domain import Chunk, Domain, code_dtype, in_words
from conspectus.queries.addresses import codes_at
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.sparse_queries import SparseQueries
from conspectus.queries.sensitivity import fixed
from conspectus.queries.workload import Workload
from conspectus.suggestions import suggest_keywords
from conspectus.synopses.fitting.max_entropy import Measurement, fit_histogram
from conspectus.synopses.fitting.rounding import integer_histogram, snake, systematic

from .estimate import Estimate
from .evidence import Evidence
from .intervals.simulated_errors import SimulatedErrors, simulated_ends, simulated_estimate
from .synopsis import BadSynopsis, CannotAnswer, Ends, Synopsis, Total, check_known, numbers_of, part, public_sampler

MOST_CELLS = 1 << 22
"""The largest universe over which a histogram is fitted to answers after the fact."""

_STEPS = 400


class HeldColumns(Synopsis):
    """A distribution over some `columns`; of the others nothing is known, and rows have them uniform.

    `errors` says how far its answers usually are from the truth, by reruns of what made it.
    """

    columns: tuple[int, ...] | None
    errors: SimulatedErrors | None

    def _hold_columns(self) -> None:
        """Set the columns, which are all of them where none are named; raises `BadSynopsis`."""
        held = tuple(range(len(self.domain))) if self.columns is None else tuple(self.columns)
        if list(held) != sorted(set(held)) or any(not 0 <= c < len(self.domain) for c in held):
            raise BadSynopsis(f"a synopsis of kind {self.kind} holds distinct columns of its table in schema order")
        object.__setattr__(self, "columns", held)

    @property
    def known_columns(self) -> Sequence[int]:
        """The columns held."""
        assert self.columns is not None
        return self.columns

    @cached_property
    def _places(self) -> dict[int, int]:
        return {column: place for place, column in enumerate(self.known_columns)}

    @property
    def simulated_columns(self) -> int:
        """Of how many columns a question may be at most to have an interval by reruns."""
        return 0 if self.errors is None else self.errors.most_columns

    def _completed(self, rows: int, codes_of: Callable[[int], NDArray[Any]], rng: np.random.Generator) -> Chunk:
        """Rows of all columns: the codes of those held, by their places; the others are uniform and independent."""
        columns = [
            codes_of(self._places[column]).astype(code_dtype(size), copy=False)
            if column in self._places
            else rng.integers(0, size, rows, dtype=code_dtype(size))
            for column, size in enumerate(self.domain.sizes)
        ]
        return Chunk(tuple(columns), rows)

    def _with_errors(
        self, meta: dict[str, Any], tables: dict[str, pa.Table]
    ) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        """The parts of the synopsis with what is common to all of them."""
        meta |= {"total": self.total.to_json(), "columns": list(self.known_columns)}
        if self.errors is not None:
            meta["errors"], tables["errors"] = self.errors.parts()
        return meta, tables


def read_errors(meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> SimulatedErrors | None:
    """The margins among the parts of a synopsis, where it has any; raises `BadSynopsis`."""
    return SimulatedErrors.from_parts(meta["errors"], tables, "errors") if "errors" in meta else None


@suggest_keywords
@dataclass(frozen=True, eq=False)
class Histogram(HeldColumns):
    """Weights over the cells of some columns in row-major order: zero or more, with sum 1.

    `columns` are the positions of the columns held, in schema order, all of them by default. Nothing is known about the
    others: questions about them are refused, and synthetic rows have them uniform and independent. `errors` says how
    far its answers usually are from the truth, by reruns of what made it; intervals come from there where those are
    narrower than the noise.
    """

    domain: Domain
    weights: NDArray[np.float64]
    total: Total
    columns: tuple[int, ...] | None = None
    errors: SimulatedErrors | None = None

    kind: ClassVar[str] = "histogram"
    title: ClassVar[str] = "a histogram over all combinations of values"

    def __post_init__(self) -> None:
        self._hold_columns()
        weights = np.array(self.weights, dtype=np.float64).ravel()
        if weights.size != self.held.cells:
            raise BadSynopsis(f"a histogram over {self.held.cells} cells was given {weights.size} weights")
        mass = float(weights.sum())
        if not np.isfinite(mass) or float(weights.min()) < 0 or mass <= 0:
            raise BadSynopsis("the weights of a histogram are finite, zero or more, and not all zero")
        # Weights that came from a file already have this sum and must stay the same to the bit.
        if abs(mass - 1) > 1e-12:
            weights /= mass
        object.__setattr__(self, "weights", fixed(weights))

    def answer(self, workload: Workload) -> NDArray[np.float64]:
        """Answer any workload over the columns held, each query from the smallest marginal that decides it."""
        self._check_asked(workload)
        if not workload.linear:
            detail = "not functions of a table: use boosting for them"
            if any(isinstance(block, SparseQueries) for block in workload.blocks):
                detail = "not lists of many records, or with weights: ask for shorter ones, or release sparse-project"
            raise CannotAnswer(f"a histogram answers counts of records, {detail}")
        sets = [block.columns for block in workload.blocks if isinstance(block, Marginal)]
        if len(sets) == len(workload.blocks) and all(list(columns) == sorted(columns) for columns in sets):
            return np.asarray(np.clip(self._tree(sets).marginals_flat(self.weights), 0.0, 1.0))
        known: dict[tuple[int, ...], NDArray[np.float64]] = {}
        # Whole marginals are worth computing together; other blocks ask for theirs one at a time.
        together = sorted({tuple(sorted(columns)) for columns in sets})
        if together:
            tables = self._tree(together).marginals(self.weights)
            known = {columns: table.reshape(self.domain.shape(columns)) for columns, table in zip(together, tables)}

        def marginal(columns: tuple[int, ...]) -> NDArray[np.float64]:
            return known[columns] if columns in known else self.marginal(columns)

        return np.asarray(np.clip(answers_from_marginals(workload, marginal), 0.0, 1.0))

    def marginal(self, columns: tuple[int, ...]) -> NDArray[np.float64]:
        """The marginal over some columns that are held, given in schema order, in the shape of their sizes."""
        (table,) = self._tree([columns]).marginals(self.weights)
        return table.reshape(self.domain.shape(columns))

    @property
    def held(self) -> Domain:
        """The domain of the columns held."""
        return self.domain.project(self.known_columns)

    def _tree(self, column_sets: Sequence[tuple[int, ...]]) -> MarginalTree:
        sets = tuple(tuple(self._places[c] for c in columns) for columns in column_sets)
        return marginal_tree(self.held.sizes, sets)

    def estimate(self, query: Workload, confidence: float, beside: Evidence | None = None) -> Estimate:
        """The count of one query; see `Synopsis.estimate`.

        Reruns know nothing of what the fit shrank away: tables drawn from it do not have it. So the interval of reruns,
        where there were any, is taken only if it lies inside that of the noise, which then does not contradict it.
        """
        proved = super().estimate(query, confidence, beside)
        if self.errors is None:
            return proved
        count = self._share(query) * self.total.divisor
        found = simulated_estimate(self.errors, self.domain, query, count, confidence, self.total)
        if found is None or found.low is None or found.high is None or proved.low is None or proved.high is None:
            return proved if found is None else found
        return found if proved.low <= found.low and found.high <= proved.high else proved

    def intervals(self, cells: Workload, confidence: float, beside: Evidence | None = None) -> Ends:
        """For every cell of one marginal, the ends of an interval in counts; see `Synopsis.intervals`."""
        low, high = super().intervals(cells, confidence, beside)
        ends = None
        if self.errors is not None:
            counts = self.answer(cells) * self.total.divisor
            ends = simulated_ends(self.errors, cells, counts, confidence, self.total)
        if ends is None:
            return low, high
        outside = (ends[0] < low) | (high < ends[1])  # False where there is no interval of noise
        return np.where(outside, low, ends[0]), np.where(outside, high, ends[1])

    def counts(self, total: int | None = None) -> NDArray[np.int64]:
        """One non-negative integer table near the histogram, over the columns held: all tables made from it agree."""
        rows = self.total.rows if total is None else total
        return integer_histogram(self.weights, rows, sizes=self.held.sizes)

    def integer_marginal(self, columns: Sequence[int]) -> NDArray[np.int64]:
        """A marginal of the one integer table near the histogram; see `Synopsis.integer_marginal`."""
        check_known(self.domain, columns, self.known_columns)
        others = tuple(place for column, place in self._places.items() if column not in columns)
        table = self._counts.reshape(self.held.sizes).sum(axis=others)
        order = np.argsort(np.argsort(np.array(columns, dtype=np.int64)))
        return np.ascontiguousarray(table.transpose(order) if table.ndim > 1 else table).ravel().astype(np.int64)

    @cached_property
    def _counts(self) -> NDArray[np.int64]:
        return self.counts()

    def sample(self, rows: int, *, public_seed: int | None = None) -> Chunk:
        """Rows by systematic sampling with a random start: each cell gets its expected count, rounded down or up."""
        rng = public_sampler(public_seed)
        path = snake(self.held.sizes)
        counts = systematic(self.weights[path], rows, float(rng.random()))
        cells = np.repeat(path, counts)
        rng.shuffle(cells)
        return self._rows_of(cells, rng)

    def drawn(self, rows: int, rng: np.random.Generator) -> Chunk:
        """Independent rows: like a table that it could have been fitted to."""
        return self._rows_of(np.repeat(np.arange(len(self.weights)), rng.multinomial(rows, self.weights)), rng)

    def _rows_of(self, cells: NDArray[np.int64], rng: np.random.Generator) -> Chunk:
        return self._completed(len(cells), cells_to_chunk(self.held, cells).column, rng)

    def parts(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        return self._with_errors({}, {"weights": pa.table({"weight": self.weights})})

    @classmethod
    def from_parts(cls, domain: Domain, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Self:
        table = part(tables, "weights", [("weight", pa.float64())])
        columns = meta.get("columns")
        if not isinstance(columns, list) or not all(type(c) is int and 0 <= c < len(domain) for c in columns):
            raise BadSynopsis("the histogram of the synopsis does not name the columns that it holds")
        if table.num_rows != domain.project(columns).cells:
            raise BadSynopsis("the histogram of the synopsis has another number of cells than its schema")
        total, errors = Total.from_json(meta.get("total")), read_errors(meta, tables)
        return cls(domain, numbers_of(table["weight"]), total, tuple(columns), errors)


def cells_to_chunk(domain: Domain, cells: NDArray[np.int64]) -> Chunk:
    """The records of these cells, column by column."""
    codes = zip(codes_at(domain, cells.astype(np.uint64)), domain.sizes)
    return Chunk(tuple(each.astype(code_dtype(size)) for each, size in codes), int(cells.size))


def fitted_to_marginals(
    domain: Domain, marginals: Sequence[tuple[tuple[int, ...], NDArray[np.float64], float]], total: Total
) -> Histogram:
    """The maximum-entropy histogram of some measured marginals: post-processing, and one source for every table.

    Args:
        domain: The columns of the table.
        marginals: For each marginal its columns, its noisy counts, and the standard deviation of each count.
        total: The number of rows.

    Raises:
        CannotAnswer: There is no marginal, or the columns of all of them have too many cells together.
    """
    held = tuple(sorted({c for columns, _, _ in marginals for c in columns})) or (0,)
    together = domain.project(held)
    measured = [
        Measurement(tuple(held.index(c) for c in columns), counts, sigma) for columns, counts, sigma in marginals
    ]
    if not measured:
        raise CannotAnswer("this release measured no marginal, so no rows or tables can be made: release marginals too")
    if together.cells > MOST_CELLS:
        raise CannotAnswer(
            f"{in_words(together.cells)} cells is too large to fit to noisy answers (limit {MOST_CELLS:,}): "
            "give a schema with fewer columns or wider bins"
        )
    fit = fit_histogram(together, measured, total.divisor, steps=_STEPS)
    return Histogram(domain, fit.weights, total, held)
