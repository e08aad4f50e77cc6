"""The role of a synopsis: what may leave the room where the rows are.

A synopsis answers workloads as fractions of the table, may make synthetic rows, and can be taken apart into JSON and
Arrow tables and put together again. It holds no reference to a source: everything here is post-processing.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self, cast, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.domain import Chunk, Domain
from conspectus.privacy.events import Noise
from conspectus.privacy.tails import sum_quantile
from conspectus.privacy.tails import variance_of as variance_of

if TYPE_CHECKING:
    from conspectus.queries.workload import Workload

NoiseKind = Literal["laplace", "gaussian"]


class BadSynopsis(ValueError):
    """The parts of a synopsis do not fit together."""


class CannotAnswer(ValueError):
    """A synopsis was asked for something that it does not hold; the message says what is missing."""


def checked_noise(kind: object, scale: object) -> Noise:
    """A noise from values that came from elsewhere, refused unless they make sense."""
    if kind not in get_args(NoiseKind) or isinstance(scale, bool) or not isinstance(scale, int | float):
        raise BadSynopsis("a noise is a kind, laplace or gaussian, with a scale")
    if not math.isfinite(scale) or scale < 0:
        raise BadSynopsis("the scale of a noise is a finite number, zero or more")
    return Noise(cast(NoiseKind, kind), float(scale))


@dataclass(frozen=True, kw_only=True)
class Total:
    """The number of rows that fractions are of: public (exact), or paid for.

    A paid total is the average of `averaged` estimates, each a sum of noisy counts, of `terms` counts together; so its
    noise is the sum of `terms` independent draws of this kind and scale, divided by `averaged`.
    """

    value: float
    exact: bool
    kind: NoiseKind | None = None
    scale: float = 0.0
    terms: int = 0
    averaged: int = 1

    def __post_init__(self) -> None:
        if not math.isfinite(self.value) or self.terms < 0 or self.averaged < 1:
            raise BadSynopsis("a total is a finite number of rows")
        if self.exact and (self.kind is not None or self.terms or self.scale != 0 or self.value < 0):
            raise BadSynopsis("an exact total is zero or more and carries no noise")
        if not self.exact:
            checked_noise(self.kind, self.scale)

    @property
    def divisor(self) -> float:
        """What counts are divided by: never below one row, so that an empty or noisy total divides safely."""
        return max(self.value, 1.0)

    def margin(self, confidence: float) -> float:
        """How far it may be from the true number of rows, at this confidence."""
        if self.exact or self.kind is None:
            return 0.0
        return sum_quantile(self.kind, self.scale, self.terms, confidence) / self.averaged

    @property
    def rows(self) -> int:
        """The total as a number of rows."""
        return max(round(self.value), 0)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: object) -> Total:
        """The inverse of `to_json`; refuses anything else."""
        if not isinstance(fields, Mapping) or set(fields) != {"value", "exact", "kind", "scale", "terms", "averaged"}:
            raise BadSynopsis("the total of a synopsis is not readable")
        numbers = all(type(fields[name]) in (int, float) for name in ("value", "scale"))
        whole = all(type(fields[name]) is int for name in ("terms", "averaged"))
        if not numbers or not whole or not isinstance(fields["exact"], bool):
            raise BadSynopsis("the total of a synopsis is not readable")
        return cls(**{**fields, "value": float(fields["value"]), "scale": float(fields["scale"])})


class Synopsis(Protocol):
    """What every synopsis can do. `kind` names its class in a file."""

    kind: ClassVar[str]

    @property
    def domain(self) -> Domain: ...

    @property
    def total(self) -> Total: ...

    def answer(self, workload: Workload) -> NDArray[np.float64]:
        """One fraction per query, in the workload's order; raises `CannotAnswer`."""
        ...

    def sample(self, rows: int, *, public_seed: int | None = None) -> Chunk:
        """Synthetic rows as codes; the coins are public post-processing. Raises `CannotAnswer` when it holds none."""
        ...

    def parts(self) -> tuple[dict[str, Any], dict[str, pa.Table]]:
        """The synopsis as JSON and Arrow tables."""
        ...

    @classmethod
    def from_parts(cls, domain: Domain, meta: Mapping[str, Any], tables: Mapping[str, pa.Table]) -> Self:
        """The inverse of `parts`; raises `BadSynopsis`."""
        ...


# A closed list: the kind read from a file chooses among these modules and can name no other.
_HOMES: dict[str, tuple[str, str]] = {
    "noisy-answers": ("noisy_answers", "NoisyAnswers"),
    "histogram": ("histogram", "Histogram"),
    "rows": ("rows", "Rows"),
    "random-projection": ("random_projection", "RandomProjection"),
    "sparse-table": ("sparse_table", "SparseTable"),
    "published-records": ("published_records", "PublishedRecords"),
    "record-weights": ("record_weights", "RecordWeights"),
    "median-ensemble": ("median_ensemble", "MedianEnsemble"),
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


def public_sampler(public_seed: int | None) -> np.random.Generator:
    """Coins for post-processing; a fresh seed comes from the operating system."""
    return np.random.Generator(np.random.PCG64(public_seed))
