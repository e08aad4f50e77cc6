"""The role of a synopsis: what may leave the room where the rows are.

A synopsis answers workloads as fractions of the table, estimates a query with an interval, may make synthetic rows, and
can be taken apart into JSON and Arrow tables and put together again. It holds no reference to a source: everything here
is post-processing.
"""

from __future__ import annotations

import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, Protocol, Self, cast, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.domain import Chunk, Domain
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import noise_margin
from conspectus.queries.blocks.conjunction_list import Conjunctions
from conspectus.queries.canonical_query import canonical_query
from conspectus.queries.query import Predicate, Sparse
from conspectus.queries.rules import LARGEST, demand
from conspectus.queries.sensitivity import WorkloadError
from conspectus.queries.workload import Workload
from conspectus.suggestions import suggest_keywords

from .estimate import Estimate
from .evidence import Evidence, NoisyCount

NoiseKind = Literal["laplace", "gaussian"]


class BadSynopsis(ValueError):
    """The parts of a synopsis do not fit together."""


class CannotAnswer(ValueError):
    """A synopsis was asked for something that it does not hold; the message says what is missing."""


def checked_noise(kind: object, scale: object) -> Noise:
    """A noise from values that came from elsewhere, refused unless they make sense."""
    if kind not in get_args(NoiseKind) or isinstance(scale, bool) or not isinstance(scale, int | float):
        raise BadSynopsis("a noise is a kind, laplace or gaussian, with a scale")
    if not 0 <= scale <= LARGEST:
        raise BadSynopsis("the scale of a noise is a finite number, zero or more")
    return Noise(cast(NoiseKind, kind), float(scale))


@dataclass(frozen=True, kw_only=True)
class Total:
    """The number of rows that fractions are of: public, or paid for with noise.

    A paid total is the average of several sums of noisy counts. Its noise is the sum of `terms` independent draws of
    this kind and scale, divided by `averaged`.

    Attributes:
        value: The number of rows, as noise left it.
        exact: Whether it is public, and carries no noise.
        kind: The law of the noise of a paid total, "laplace" or "gaussian".
        scale: The scale of one draw of it.
        terms: How many draws are in the sum.
        averaged: What the sum is divided by.

    Raises:
        BadSynopsis: The fields do not fit together.

    Example:
        >>> Total(value=200.0, exact=True).margin(0.95)
        0.0
        >>> Total(value=203.7, exact=False, kind="laplace", scale=1.0, terms=1).margin(0.95)
        3.0
    """

    value: float
    exact: bool
    kind: NoiseKind | None = None
    scale: float = 0.0
    terms: int = 0
    averaged: int = 1

    def __post_init__(self) -> None:
        bare = self.kind is None and not self.terms and self.scale == 0 and self.value >= 0
        demand(
            BadSynopsis,
            (abs(self.value) <= LARGEST and self.averaged >= 1, "a total is a finite number of rows"),
            (self.exact or self.terms >= 1, "a noisy total has at least one draw of noise"),
            (bare or not self.exact, "an exact total is zero or more and carries no noise"),
        )
        if not self.exact:
            checked_noise(self.kind, self.scale)

    @property
    def divisor(self) -> float:
        """What counts are divided by: never below one row, so that an empty or noisy total divides safely."""
        return max(self.value, 1.0)

    @property
    def law(self) -> Noise | None:
        """The law of one draw of the noise of a paid total; None where it is public."""
        return None if self.kind is None else Noise(self.kind, self.scale)

    def margin(self, confidence: float) -> float:
        """How far it is from the true number of rows at most, with this probability."""
        if self.exact or self.kind is None:
            return 0.0
        return noise_margin(self.kind, self.scale, self.terms, confidence) / self.averaged

    @property
    def rows(self) -> int:
        """The total as a number of rows."""
        return max(round(self.value), 0)

    def to_json(self) -> dict[str, Any]:
        """The total as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: object) -> Total:
        """The inverse of `to_json`; raises `BadSynopsis` on anything else."""
        if (
            not isinstance(fields, Mapping)
            or set(fields) != {"value", "exact", "kind", "scale", "terms", "averaged"}
            or any(type(fields[name]) not in (int, float) for name in ("value", "scale"))
            or any(type(fields[name]) is not int for name in ("terms", "averaged"))
            or not isinstance(fields["exact"], bool)
        ):
            raise BadSynopsis("the total of a synopsis is not readable")
        return cls(**{**fields, "value": float(fields["value"]), "scale": float(fields["scale"])})


class ListedRecords(Protocol):
    """Records that are published as they are, because no schema lists them: what a synopsis of records offers."""

    @property
    def records(self) -> tuple[Any, ...]: ...

    @property
    def counts(self) -> NDArray[np.int64]: ...

    def bounds(self, confidence: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each record the least and the largest true count, given that it was published."""

    def drawn(self, rows: int, *, public_seed: int | None = None) -> NDArray[np.int64]:
        """The places of records, drawn at random, each as often as its count says."""


@suggest_keywords
class Synopsis(ABC):
    """What every synopsis can do: answer, estimate with an interval, make rows and tables, and be filed.

    A new kind is one module with a subclass, and one line in the list of kinds below. It must answer workloads and be
    taken apart into `parts`; the rest has a default that is right for a synopsis that answers in shares and does not
    know by itself how wrong it is.

    Attributes:
        domain: The columns of the table and how many codes each has.
        total: The number of rows that fractions are of.
        kind: What a file calls it.
        title: What a report calls it; the kind where it is empty.
        additive: Whether the answer to a union of disjoint queries is the sum of their answers.
        all_measured: Whether every answer was measured, so that the law of its noise gives an interval.
        answers_alone: Whether answers and intervals come from the synopsis alone. A file may then leave out the
            released questions, and still answers as it did.
        partial: Whether its counts are of some of the rows alone, so that they do not add up to the total.
    """

    domain: Domain
    total: Total

    kind: ClassVar[str]
    title: ClassVar[str] = ""
    additive: ClassVar[bool] = True
    all_measured: ClassVar[bool] = False
    answers_alone: ClassVar[bool] = False
    partial: ClassVar[bool] = False

    @abstractmethod
    def answer(self, workload: Workload) -> NDArray[np.float64]:
        """One fraction per query, in the workload's order; raises `CannotAnswer`."""

    @property
    def known_columns(self) -> Sequence[int]:
        """The positions of the columns that it was made from. Of any other column it could only invent an answer."""
        return range(len(self.domain))

    @property
    def simulated_columns(self) -> int:
        """Of how many columns a question may be at most to have an interval by reruns: 0 where there were none."""
        return 0

    def _check_domain(self, workload: Workload) -> None:
        """Refuse a workload about another table."""
        if workload.domain != self.domain:
            raise CannotAnswer("the workload asks about another table: build it from the schema of this synopsis")

    def _check_asked(self, workload: Workload) -> None:
        """Refuse a workload about another table, or about columns of which nothing is known."""
        self._check_domain(workload)
        check_known(self.domain, workload.columns, self.known_columns)

    def estimate(self, query: Workload, confidence: float, beside: Evidence | None = None) -> Estimate:
        """The count of one query with an interval.

        By default the answer is the synopsis's own. The interval is that of the noisy answers that add up to the same
        query; or the bound on released answers, where it covers the query; or there is none.

        Args:
            query: A workload of one query.
            confidence: The probability with which the interval holds, strictly between 0 and 1.
            beside: What a release publishes besides the synopsis.

        Returns:
            An estimate in counts of the total.

        Raises:
            CannotAnswer: The synopsis does not hold what the query asks for.
        """
        asked = query.query(0)
        noisy = None if beside is None else beside.noisy(asked)
        given = None if beside is None else beside.given(asked)
        share = self._share(query) if given is None else given
        if noisy is not None:
            return Estimate.within(noisy.count, noisy.margin(confidence), basis="measured", share=share)
        margin = None if beside is None else beside.reach(asked, confidence, additive=self.additive)
        if margin is None:
            return Estimate.unguaranteed(share, self.total.divisor)
        return Estimate.within(share * self.total.divisor, margin, basis="guessed")

    def _share(self, query: Workload) -> float:
        """The answer to one query. A short list of records is asked as the predicate that it is."""
        asked = query.query(0)
        if isinstance(asked, Sparse) and isinstance(same := canonical_query(self.domain, asked), Predicate):
            query = Workload(self.domain, (Conjunctions.of(self.domain, [same]),))
        return float(self.answer(query)[0])

    def intervals(self, cells: Workload, confidence: float, beside: Evidence | None = None) -> Ends:
        """For every cell of one marginal, the ends of an interval in counts, each with this confidence.

        Args:
            cells: A workload of one marginal.
            confidence: The probability with which the interval of a cell holds, cell by cell.
            beside: What a release publishes besides the synopsis.

        Returns:
            The low ends and the high ends; NaN where no interval would be honest.
        """
        noisy = None if beside is None or beside.measured is None else beside.measured.intervals(cells, confidence)
        if noisy is not None and not np.isnan(noisy[0]).any():
            return noisy
        centres = self.answer(cells) * self.total.divisor
        reach = np.nan if beside is None else beside.margins(cells, confidence, additive=self.additive)
        low, high = noisy or (np.nan, np.nan)  # what was not measured has the bound, as it has by `estimate`
        return np.where(np.isnan(low), centres - reach, low), np.where(np.isnan(high), centres + reach, high)

    def integer_marginal(self, columns: Sequence[int]) -> NDArray[np.int64]:
        """A table to print, over columns in the order given, flat: whole counts, zero or more.

        All are marginals of one table of whole rows, so that they agree wherever they overlap.

        Raises:
            CannotAnswer: There is no such table, or it has other columns.
        """
        raise CannotAnswer(f"a synopsis of kind {self.kind} holds no tables: ask it single questions")

    def printed_within(self) -> float | None:
        """How far printed counts of measured marginals are from the truth at most, in counts, with probability 0.95;
        None where nothing is proved of them beyond the intervals that are printed beside them."""
        return None

    @abstractmethod
    def sample(self, rows: int, *, public_seed: int | None = None) -> Chunk:
        """Synthetic rows as codes; the coins are public post-processing. Raises `CannotAnswer` when it holds none."""

    def source_of_rows(self) -> Synopsis:
        """The synopsis that synthetic rows are drawn from: itself, unless one was fitted to its answers."""
        return self

    def listed(self) -> ListedRecords | None:
        """The records that it publishes as they are; None where rows are in the values of a schema."""
        return None

    def measurements(self) -> list[tuple[Workload, Noise, int]]:
        """What it publishes as it was measured: questions, the law of their noise, how many steps make one count."""
        return []

    def published_at(self) -> tuple[Noise, int] | None:
        """Of keys of the table's own rows: the noise on their counts, and the least count that was shown."""
        return None

    @abstractmethod
    def parts(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        """The synopsis as JSON and Arrow tables."""

    @classmethod
    @abstractmethod
    def from_parts(cls, domain: Domain, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Self:
        """The inverse of `parts`; raises `BadSynopsis`."""


def check_known(domain: Domain, asked: Collection[int], known: Collection[int]) -> None:
    """Refuse questions about columns that were never seen, and name those that were; raises `CannotAnswer`."""
    if len(known) < len(domain) and (unseen := set(asked).difference(known)):
        raise CannotAnswer(f"nothing was released about {_named(domain, unseen)}: {knows(domain, known)}")


def knows(domain: Domain, columns: Collection[int]) -> str:
    """Which columns can be asked about, for a refusal."""
    return f"this release knows {_named(domain, columns) or 'no column'}"


def _named(domain: Domain, columns: Collection[int]) -> str:
    names = [domain.names[column] for column in sorted(columns)[:_MOST_NAMED]]
    more = len(columns) - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more else "")


_MOST_NAMED = 20

Ends = tuple[NDArray[np.float64], NDArray[np.float64]]
"""The low and the high ends of some intervals, in counts; NaN where there is none."""


def ends_of(noisy: Sequence[NoisyCount | None], confidence: float) -> Ends:
    """The intervals of some noisy counts."""
    known = [(np.nan, np.nan) if one is None else (one.count, one.margin(confidence)) for one in noisy]
    centres, margins = np.array(known, dtype=np.float64).reshape(len(known), 2).T
    return centres - margins, centres + margins


# A closed list: the kind read from a file chooses among these modules and can name no other.
_HOMES: dict[str, tuple[str, str]] = {
    "noisy-answers": ("noisy_answers", "NoisyAnswers"),
    "residual-answers": ("residual_answers", "ResidualAnswers"),
    "histogram": ("histogram", "Histogram"),
    "rows": ("rows", "Rows"),
    "product-mixture": ("product_mixture", "ProductMixture"),
    "random-projection": ("random_projection", "RandomProjection"),
    "sparse-table": ("sparse_table", "SparseTable"),
    "published-records": ("published_records", "PublishedRecords"),
    "record-weights": ("record_weights", "RecordWeights"),
    "tree": ("tree_counts", "TreeCounts"),
    "median-ensemble": ("median_ensemble", "MedianEnsemble"),
    "stream-answers": ("stream_answers", "StreamAnswers"),
}
KINDS: tuple[str, ...] = tuple(_HOMES)


def load_synopsis(domain: Domain, kind: str, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Synopsis:
    """Put a synopsis together from its parts, by the name of its kind."""
    if kind not in _HOMES:
        raise BadSynopsis(f"no synopsis is called {kind[:40]!r} in this version: known are {', '.join(KINDS)}")
    module, name = _HOMES[kind]
    home: type[Synopsis] = getattr(importlib.import_module(f".{module}", __package__), name)
    return home.from_parts(domain, meta, tables)


def part(tables: Mapping[str, pa.Table], name: str, fields: Sequence[tuple[str, pa.DataType]]) -> pa.Table:
    """The named table of a synopsis, refused unless it has exactly these typed columns and no nulls."""
    table = tables.get(name)
    if table is None or [(field.name, field.type) for field in table.schema] != list(fields):
        raise BadSynopsis(f"the table {name!r} of the synopsis is missing or has other columns")
    if any(column.null_count for column in table.columns):
        raise BadSynopsis(f"the table {name!r} of the synopsis has holes")
    return table


def numbers_of(column: pa.ChunkedArray) -> NDArray[Any]:
    """The numbers of a column of `part`. Arrow's own `to_numpy` imports pandas, which takes half a second."""
    return np.from_dlpack(column.combine_chunks())


def workload_part(workload: Workload) -> pa.Table:
    """A workload as a table of a synopsis."""
    text = json.dumps(workload.to_json(), separators=(",", ":"))
    return pa.table({"workload": pa.array([text], type=pa.large_string())})


def read_workload(tables: Mapping[str, pa.Table], name: str) -> Workload:
    """The inverse of `workload_part`, from the table of this name; refuses anything else."""
    stored = part(tables, name, [("workload", pa.large_string())])
    try:
        (text,) = stored["workload"].to_pylist()
        return Workload.from_json(json.loads(text))
    except (WorkloadError, ValueError, RecursionError) as problem:
        raise BadSynopsis(f"the workload {name!r} of the synopsis is not readable") from problem


def public_sampler(public_seed: int | None) -> np.random.Generator:
    """Coins for post-processing; a fresh seed comes from the operating system."""
    return np.random.Generator(np.random.PCG64(public_seed))
