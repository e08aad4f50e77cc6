"""A mixture of products, P(x) = Σ_k w_k Π_j P_kj(x_j): one consistent distribution over universes of any size.

It answers every table and every conjunction in closed form, so that tables agree wherever they overlap; and it makes
any number of rows. What it takes is a number for each component and code, however many cells the universe has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.compiled import one_thread, processors
from conspectus.counting.evaluation import answers_from_marginals
from conspectus.data.domain import Chunk, Domain
from conspectus.queries.addresses import codes_at, exact
from conspectus.queries.block import Block
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.blocks.interval_list import Intervals
from conspectus.queries.blocks.linear_queries import LinearQueries
from conspectus.queries.blocks.marginal import Marginal
from conspectus.queries.blocks.parity_list import Parities, ParityList
from conspectus.queries.blocks.sparse_queries import SparseQueries
from conspectus.queries.literals import LiteralArrays
from conspectus.queries.rules import demand
from conspectus.queries.sensitivity import fixed
from conspectus.queries.workload import Workload
from conspectus.suggestions import suggest_keywords
from conspectus.synopses.fitting.mixture_fit import MixtureFit
from conspectus.synopses.fitting.mixture_rows import spread_groups, stratified_rows
from conspectus.synopses.fitting.row_descent import Wanted, groups_of, moved, tables_to_meet

from .estimate import Estimate
from .evidence import Evidence
from .histogram import HeldColumns, read_errors
from .intervals.simulated_errors import SimulatedErrors, simulated_ends, simulated_estimate
from .mixture_answers import CoarseColumn, MixtureAnswers
from .rows import Rows
from .synopsis import BadSynopsis, CannotAnswer, Ends, Total, check_known, numbers_of, part, public_sampler

MOST_COMPONENTS = 1 << 16
FEWEST_MOVED = 1000
"""From so many synthetic rows on, they are moved to meet the tables of the mixture better."""

MOST_CELLS = 1 << 22
"""Up to so many cells of all their columns, sums of values come from tables."""

_SEED = 1
_UNREADABLE = "the mixture of the synopsis is not readable"


@suggest_keywords
@dataclass(frozen=True, eq=False)
class ProductMixture(HeldColumns):
    """Weights of components, and what each component says of every column by itself.

    Attributes:
        domain: The columns of the table.
        weights: One weight for each component: zero or more, with sum 1.
        tables: Components × codes: the conditional shares of all columns held, side by side. They are kept as 32-bit
            numbers, and each column of a component is scaled to sum 1 when it answers.
        total: The number of rows.
        columns: The positions of the columns held, in schema order, all of them by default. Questions about others are
            refused, and synthetic rows have them uniform and independent.
        coarse: For each column held how its codes are grouped, or None where they are not; None where no column's are.
        errors: How far its answers usually are from the truth, by reruns of what made it; None where nobody ran it
            again.

    Raises:
        BadSynopsis: The parts do not fit together.

    Example:
        >>> pair = Domain(("a", "b"), (2, 2))
        >>> tables = np.array([[1, 0, 1, 0], [0, 1, 0.5, 0.5]])
        >>> mixture = ProductMixture(pair, np.array([0.5, 0.5]), tables, Total(value=100.0, exact=True))
        >>> mixture.answer(Workload(pair, (Marginal(pair, (0, 1)),))).tolist()
        [0.5, 0.0, 0.25, 0.25]
    """

    domain: Domain
    weights: NDArray[np.float64]
    tables: NDArray[np.float32]
    total: Total
    columns: tuple[int, ...] | None = None
    coarse: tuple[CoarseColumn | None, ...] | None = None
    errors: SimulatedErrors | None = None

    kind: ClassVar[str] = "product-mixture"
    title: ClassVar[str] = "a mixture of products of single columns"

    def __post_init__(self) -> None:
        self._hold_columns()
        held = self.known_columns
        whole = held and all(type(c) is int for c in held)
        demand(BadSynopsis, (whole, "a mixture holds columns of its table, at least one"))
        coarse = (None,) * len(held) if self.coarse is None else self.coarse
        demand(BadSynopsis, (len(coarse) == len(held), "a mixture says of each of its columns how it is grouped"))
        checked = tuple(_checked_coarse(how, self.domain.sizes[c]) for how, c in zip(coarse, held))
        object.__setattr__(self, "coarse", checked)
        weights, tables = np.array(self.weights, dtype=np.float64), np.array(self.tables, dtype=np.float32)
        shape = (len(weights), sum(self._widths))
        demand(
            BadSynopsis,
            (weights.ndim == 1 and 0 < len(weights) <= MOST_COMPONENTS, "a mixture has a weight for each component"),
            (tables.shape == shape, f"the shares of a mixture are a table of {shape[0]} × {shape[1]} numbers"),
            (_shares(weights) and _shares(tables), "a mixture is made of numbers that are finite, and zero or more"),
        )
        mass = float(weights.sum())
        columns = np.add.reduceat(tables, self._offsets[:-1], axis=1, dtype=np.float64)
        demand(BadSynopsis, (mass > 0 and columns.min() > 0, "a mixture has weights and shares that are not all zero"))
        # Weights that came from a file already have this sum and must stay the same to the bit.
        object.__setattr__(self, "weights", fixed(weights if abs(mass - 1) <= 1e-12 else weights / mass))
        object.__setattr__(self, "tables", fixed(tables))

    @classmethod
    def of_fit(
        cls,
        domain: Domain,
        fit: MixtureFit,
        total: Total,
        *,
        columns: tuple[int, ...] | None = None,
        coarse: tuple[CoarseColumn | None, ...] | None = None,
    ) -> Self:
        """The synopsis of a fitted mixture; see the class for `columns` and `coarse`."""
        return cls(domain, fit.weights.astype(np.float64), fit.tables, total, columns, coarse)

    @property
    def components(self) -> int:
        """The number of components."""
        return len(self.weights)

    @property
    def _widths(self) -> list[int]:
        """How many groups or codes of each column are told apart."""
        assert self.coarse is not None
        sizes = self.domain.shape(self.known_columns)
        return [size if how is None else how.size for size, how in zip(sizes, self.coarse)]

    @property
    def _offsets(self) -> NDArray[np.int64]:
        return np.cumsum([0, *self._widths])

    @cached_property
    def _closed(self) -> MixtureAnswers:
        assert self.coarse is not None
        parts = [each.astype(np.float64) for each in np.split(self.tables, self._offsets[1:-1], axis=1)]
        return MixtureAnswers(self.weights, [each / each.sum(axis=1, keepdims=True) for each in parts], self.coarse)

    def marginal(self, columns: Sequence[int]) -> NDArray[np.float64]:
        """The table over some columns that are held, in the order given and in the shape of their sizes."""
        return self._closed.marginal([self._places[c] for c in columns])

    def answer(self, workload: Workload) -> NDArray[np.float64]:
        """Answer anything: tables, conjunctions, parities, sums and listed records in closed form, the rest from rows.

        Functions of the table (medians, distinct values and the like) are evaluated on as many synthetic rows as the
        table has, always the same ones.
        """
        self._check_asked(workload)
        answers = np.empty(len(workload))

        def fill(place: int) -> None:
            start, block = workload.offsets[place], workload.blocks[place]
            answers[start : start + len(block)] = self._block(block)

        # The first table makes what all others need.
        whole = [place for place, block in enumerate(workload.blocks) if isinstance(block, Marginal)][1:]
        for place in sorted(set(range(len(workload.blocks))) - set(whole)):
            fill(place)
        with one_thread(), ThreadPoolExecutor(processors()) as pool:
            list(pool.map(fill, whole))
        return answers

    def _block(self, block: Block) -> NDArray[np.float64]:
        found: NDArray[np.float64]
        if isinstance(block, Marginal):
            found = self.marginal(block.columns).ravel()
        elif isinstance(block, Parities | ParityList):
            held = np.array([self._places.get(c, -1) for c in range(len(self.domain))] + [-1])
            found = self._closed.parities(held[block.matrix])
        elif isinstance(block, Conjunctions):
            place = [self._places.get(c, -1) for c in range(len(self.domain))]
            boxes = self._closed.boxes(LiteralArrays(block.literals), block.terms, place)
            owner = np.repeat(np.arange(len(block)), np.diff(block.starts))
            found = np.zeros(len(block))
            np.add.at(found, owner, boxes)
        elif isinstance(block, SparseQueries):
            found = self._listed(block)
        elif isinstance(block, Intervals) or (
            isinstance(block, LinearQueries) and self.domain.project(block.columns).cells <= MOST_CELLS
        ):
            found = answers_from_marginals(Workload(self.domain, (block,)), self.marginal)
        else:
            return self._rows.answer(Workload(self.domain, (block,)))
        return np.clip(found, 0.0, 1.0)

    def _listed(self, block: SparseQueries) -> NDArray[np.float64]:
        """Sums over listed records, each with its own share."""
        if not exact(self.domain):
            raise CannotAnswer(
                "in a universe of more than 2^61 records a list names them by fingerprints, which a mixture cannot "
                "read: ask for conjunctions of all their values, or release with sparse-project"
            )
        return block.weighed(self._closed.records(codes_at(self.domain, block.index.distinct)))

    def estimate(self, query: Workload, confidence: float, beside: Evidence | None = None) -> Estimate:
        """The count of one query. Where nothing measured bounds it, its interval is that of reruns, if there were any.

        See `Synopsis.estimate`.
        """
        found = super().estimate(query, confidence, beside)
        if found.low is not None:
            return found
        return simulated_estimate(self.errors, self.domain, query, found.count, confidence, self.total) or found

    def intervals(self, cells: Workload, confidence: float, beside: Evidence | None = None) -> Ends:
        """For every cell of one marginal, the ends of an interval in counts; see `Synopsis.intervals`."""
        ends = super().intervals(cells, confidence, beside)
        if not np.isnan(ends[0]).all():
            return ends
        counts = self.answer(cells) * self.total.divisor
        return simulated_ends(self.errors, cells, counts, confidence, self.total) or ends

    def integer_marginal(self, columns: Sequence[int]) -> NDArray[np.int64]:
        """A marginal of one table of synthetic rows, as many as the total; see `Synopsis.integer_marginal`."""
        check_known(self.domain, columns, self.known_columns)
        if not self.total.rows:
            return np.zeros(int(np.prod(self.domain.shape(columns))), dtype=np.int64)
        return self._rows.integer_marginal(columns)

    @cached_property
    def _rows(self) -> Rows:
        """The one table of rows that printed tables are counted from, and functions of the table evaluated on."""
        drawn = self.sample(max(self.total.rows, 1), public_seed=_SEED)
        codes = tuple(drawn.column(position) for position in range(len(self.domain)))
        return Rows(self.domain, codes, self.total, None, self.columns)

    def sample(self, rows: int, *, public_seed: int | None = None) -> Chunk:
        """Rows with the tables of the mixture.

        They are drawn systematically, so that each row by itself has the law of the mixture. A thousand of them or more
        are then moved, value by value, until their tables of two and three columns are nearer to those of the mixture.
        """
        rng = public_sampler(public_seed)
        drawn = self._grouped_rows(rows, rng)
        return self._decoded(moved(drawn, self._wanted, rng) if rows >= FEWEST_MOVED else drawn, rng)

    def drawn(self, rows: int, rng: np.random.Generator) -> Chunk:
        """Rows of its law that are not moved towards its tables: like a table that it could have been fitted to."""
        return self._decoded(self._grouped_rows(rows, rng), rng)

    def _grouped_rows(self, rows: int, rng: np.random.Generator) -> NDArray[np.int32]:
        return stratified_rows(self.weights, np.concatenate(self._closed.sides, axis=1), self._widths, rows, rng)

    def _decoded(self, drawn: NDArray[np.int32], rng: np.random.Generator) -> Chunk:
        """Rows of groups as rows of codes; columns that are not held are uniform."""

        def codes_of(place: int) -> NDArray[np.int32]:
            assert self.coarse is not None
            how = self.coarse[place]
            return drawn[:, place] if how is None else spread_groups(drawn[:, place], how.groups, how.within, rng)

        return self._completed(len(drawn), codes_of, rng)

    @cached_property
    def _wanted(self) -> Wanted:
        """What rows are moved towards: tables of two and three columns, of the most common codes of each."""
        sides = self._closed.sides
        groups = [groups_of(self.weights @ side) for side in sides]
        merged = [side @ np.eye(int(group.max()) + 1)[group] for side, group in zip(sides, groups)]
        fine, coarser = (MixtureAnswers(self.weights, each, [None] * len(sides)) for each in (sides, merged))

        def table(columns: tuple[int, ...], whole: bool) -> NDArray[np.float64]:
            return (fine if whole else coarser).marginal(columns)

        return Wanted.of(tables_to_meet(len(sides), public_sampler(_SEED)), groups, table)

    def parts(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        assert self.coarse is not None
        tables = {
            "weights": pa.table({"weight": self.weights}),
            "shares": pa.table({"share": self.tables.ravel()}),
        }
        grouped = [place for place, how in enumerate(self.coarse) if how is not None]
        held = [how for how in self.coarse if how is not None]
        if held:
            groups = np.concatenate([how.groups for how in held])
            tables["coding"] = pa.table({"group": groups, "within": np.concatenate([how.within for how in held])})
        return self._with_errors({"grouped": grouped}, tables)

    @classmethod
    def from_parts(cls, domain: Domain, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Self:
        weights = numbers_of(part(tables, "weights", [("weight", pa.float64())])["weight"])
        shares = numbers_of(part(tables, "shares", [("share", pa.float32())])["share"])
        total, columns, grouped = Total.from_json(meta.get("total")), meta.get("columns"), meta.get("grouped")
        for listed, most in ((columns, len(domain)), (grouped, len(columns) if isinstance(columns, list) else 0)):
            if not isinstance(listed, list) or not all(type(c) is int and 0 <= c < most for c in listed):
                raise BadSynopsis(_UNREADABLE)
        assert isinstance(columns, list)
        assert isinstance(grouped, list)
        coarse: list[CoarseColumn | None] = [None] * len(columns)
        if grouped:
            coding = part(tables, "coding", [("group", pa.int32()), ("within", pa.float64())])
            ends = np.cumsum([0, *(domain.sizes[columns[place]] for place in grouped)])
            demand(BadSynopsis, (coding.num_rows == ends[-1] and grouped == sorted(set(grouped)), _UNREADABLE))
            groups, within = numbers_of(coding["group"]), numbers_of(coding["within"])
            for place, low, high in zip(grouped, ends, ends[1:]):
                coarse[place] = CoarseColumn(groups[low:high], within[low:high])
        demand(BadSynopsis, (len(weights) and len(shares) % len(weights) == 0, _UNREADABLE))
        errors = read_errors(meta, tables)
        return cls(domain, weights, shares.reshape(len(weights), -1), total, tuple(columns), tuple(coarse), errors)


def _shares(numbers: NDArray[Any]) -> bool:
    return bool(numbers.size and np.isfinite(numbers).all() and float(numbers.min()) >= 0)


def _checked_coarse(how: CoarseColumn | None, size: int) -> CoarseColumn | None:
    """A coding whose groups are numbered without a gap, and whose shares sum to 1 in each."""
    if how is None:
        return None
    groups, within = np.array(how.groups, dtype=np.int32), np.array(how.within, dtype=np.float64)
    right = groups.shape == within.shape == (size,) and groups.min() >= 0 and _shares(within)
    demand(BadSynopsis, (right, "a grouped column has a group and a share for each of its codes"))
    members = np.bincount(groups, minlength=1) if int(groups.max()) < size else np.zeros(1)
    demand(BadSynopsis, (members.min() > 0, "the groups of a column are numbered without a gap"))
    mass = np.bincount(groups, weights=within)
    demand(BadSynopsis, (mass.min() > 0, "each group of a column has codes with a share"))
    # Shares that came from a file already sum to 1 and must stay the same to the bit.
    if np.abs(mass - 1).max() > 1e-12:
        within = within / mass[groups]
    return CoarseColumn(fixed(groups), fixed(within))
