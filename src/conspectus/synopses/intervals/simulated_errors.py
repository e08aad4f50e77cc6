"""How far answers of a fitted synopsis are off, as reruns of its own making have shown.

A mechanism that fits a synopsis to noisy tables can be run again on a table that is drawn from the synopsis. There the
truth is known: every answer of the rerun comes with its error. Pooled by the kind of question, by its number of columns
and by the size of the answer, these errors say how far answers of that size usually are from the truth; a factor for
each column says which are harder. All of it is post-processing. What is assumed: the table is like one drawn from its
synopsis. Real tables hold more than their synopsis does, so margins are widened before they are stored; by how much was
chosen on real tables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import NormalDist
from typing import Any, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.queries.canonical_query import canonical_query
from conspectus.queries.query import Predicate, cells_of
from conspectus.queries.rules import demand
from conspectus.queries.workload import Workload
from conspectus.synopses.estimate import Estimate
from conspectus.synopses.synopsis import BadSynopsis, Ends, Total, numbers_of, part

Vector = NDArray[np.float64]
Kind = Literal["cell", "sum"]
KINDS: tuple[Kind, ...] = ("cell", "sum")

LEVELS = (0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.999)
"""The confidences at which margins are kept; others lie between them."""

MOST_CONFIDENT = 0.9999
"""Up to here margins are drawn out from the last of the levels; reruns say nothing of rarer errors."""

FAILED = "the reruns that intervals come from failed"
"""How the warning of a release begins that was made, and whose reruns were not."""

_FIELDS = [
    ("kind", pa.int8()),
    ("columns", pa.int8()),
    ("size", pa.float64()),
    ("level", pa.float64()),
    ("below", pa.float64()),
    ("above", pa.float64()),
]


@dataclass(frozen=True, eq=False)
class Curve:
    """The margins of one kind of question.

    Attributes:
        sizes: Answers, in counts, rising.
        below: For each of them and each level, how far the truth may be below the answer.
        above: The same above it.
    """

    sizes: Vector
    below: Vector
    above: Vector

    def __post_init__(self) -> None:
        shape = (len(self.sizes), len(LEVELS))
        demand(
            BadSynopsis,
            (
                len(self.sizes) and self.below.shape == shape and self.above.shape == shape,
                "simulated margins have one number for each size and level",
            ),
            (
                np.isfinite(self.sizes).all() and (np.diff(self.sizes) > 0).all() and self.sizes[0] > 0,
                "simulated margins are kept for sizes above zero that rise",
            ),
            *(
                (
                    np.isfinite(side).all() and (side >= 0).all() and (np.diff(side, axis=1) >= 0).all(),
                    "simulated margins are zero or more, and do not fall with the confidence",
                )
                for side in (self.below, self.above)
            ),
        )

    def margins(self, counts: Vector, confidence: float) -> tuple[Vector, Vector]:
        """How far the truth may be below and above answers of these counts."""
        return _at(self.sizes, self.below, counts, confidence), _at(self.sizes, self.above, counts, confidence)


def _at(sizes: Vector, margins: Vector, counts: Vector, confidence: float) -> Vector:
    *normal, wanted = (NormalDist().inv_cdf((1 + level) / 2) for level in (*LEVELS, confidence))
    if wanted > normal[-1]:
        # Rarer errors may have heavier tails than those of a normal law.
        at_level = margins[:, -1] * (wanted / normal[-1]) ** 2
    else:
        at_level = np.array([np.interp(wanted, [0.0, *normal], [0.0, *line]) for line in margins])
    found = np.interp(np.log(np.clip(counts, sizes[0], sizes[-1])), np.log(sizes), at_level)
    # Beyond the largest answer that was seen, errors are taken to grow as answers do.
    return np.asarray(found * np.maximum(counts / sizes[-1], 1.0))


@dataclass(frozen=True, eq=False)
class SimulatedErrors:
    """Margins of answers by the kind of question, its number of columns and the size of the answer.

    Attributes:
        reruns: How often the mechanism was run again.
        curves: The margins, for each kind ("cell": one value of each column; "sum": sets of them) and number of
            columns.
        factors: By how much errors of questions about a column are larger than those of others, by its position.

    Example:
        >>> flat = Curve(np.array([1.0, 100.0]), np.ones((2, 7)), np.ones((2, 7)))
        >>> errors = SimulatedErrors(2, {("cell", 1): flat})
        >>> below, above = errors.margins("cell", (3,), np.array([50.0]), 0.95)
        >>> float(below[0]), float(above[0]), errors.margins("cell", (3, 4), np.array([50.0]), 0.95)
        (1.0, 1.0, None)
    """

    reruns: int
    curves: Mapping[tuple[Kind, int], Curve]
    factors: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = type(self.reruns) is int and self.reruns >= 1
        usable = all(
            type(column) is int and column >= 0 and 0 < factor < np.inf for column, factor in self.factors.items()
        )
        demand(
            BadSynopsis,
            (known and self.curves, "simulated margins come from one rerun or more"),
            (usable, "factors of simulated margins are positive numbers, by positions of columns"),
        )

    @cached_property
    def most_columns(self) -> int:
        """Of how many columns the questions were that reruns answered, at most."""
        return max(columns for _, columns in self.curves)

    def margins(
        self, kind: Kind, columns: Sequence[int], counts: Vector, confidence: float
    ) -> tuple[Vector, Vector] | None:
        """How far the truth may be below and above answers of these counts; None where no rerun says so."""
        curve = self.curves.get((kind, len(columns)))
        if curve is None or confidence > MOST_CONFIDENT:
            return None
        factor = math.prod(self.factors.get(column, 1.0) for column in columns)
        below, above = curve.margins(np.maximum(counts, 0.0), confidence)
        return factor * below, factor * above

    def parts(self) -> tuple[dict[str, Any], pa.Table]:
        """For a file."""
        lines = [
            (KINDS.index(kind), columns, size, level, low, high)
            for (kind, columns), curve in sorted(self.curves.items())
            for size, lows, highs in zip(curve.sizes.tolist(), curve.below.tolist(), curve.above.tolist())
            for level, low, high in zip(LEVELS, lows, highs)
        ]
        made = {name: pa.array(values, type=kind) for (name, kind), values in zip(_FIELDS, zip(*lines))}
        return {"reruns": self.reruns, "factors": [list(each) for each in sorted(self.factors.items())]}, pa.table(made)

    @classmethod
    def from_parts(cls, meta: object, tables: Mapping[str, pa.Table], name: str) -> Self:
        """The inverse of `parts`, the table by its name; raises `BadSynopsis`."""
        stored = part(tables, name, _FIELDS)
        many = len(LEVELS)
        readable = (
            isinstance(meta, Mapping)
            and set(meta) == {"reruns", "factors"}
            and isinstance(meta["factors"], list)
            and all(isinstance(each, list) and len(each) == 2 and type(each[0]) is int for each in meta["factors"])
            and all(type(factor) is float for _, factor in meta["factors"])
        )
        demand(
            BadSynopsis,
            (readable and stored.num_rows and stored.num_rows % many == 0, "the simulated margins are not readable"),
        )
        assert isinstance(meta, Mapping)
        kinds, columns, sizes, levels, below, above = (
            numbers_of(stored[field]).reshape(-1, many) for field, _ in _FIELDS
        )
        same = all((each == each[:, :1]).all() for each in (kinds, columns, sizes))
        known = same and (levels == np.array(LEVELS)).all() and np.isin(kinds, (0, 1)).all() and (columns >= 1).all()
        demand(BadSynopsis, (known, "the simulated margins are not readable"))
        curves: dict[tuple[Kind, int], Curve] = {}
        for kind, order in sorted(set(zip(kinds[:, 0].tolist(), columns[:, 0].tolist()))):
            here = (kinds[:, 0] == kind) & (columns[:, 0] == order)
            curves[KINDS[kind], order] = Curve(sizes[here, 0], below[here], above[here])
        return cls(meta["reruns"], curves, dict(meta["factors"]))


def kind_of(asked: Predicate) -> Kind:
    """What kind of question a predicate is."""
    single = len(asked.boxes) == 1 and all(len(literal.codes) == 1 for literal in asked.boxes[0])
    return "cell" if single else "sum"


def simulated_estimate(
    errors: SimulatedErrors | None, domain: Domain, query: Workload, count: float, confidence: float, total: Total
) -> Estimate | None:
    """The count of one query with the interval of reruns; None where they say nothing of it."""
    asked = None if errors is None else canonical_query(domain, query.query(0))
    if errors is None or not isinstance(asked, Predicate):
        return None
    held = sum(cells_of(box, domain.sizes, asked.columns) for box in asked.boxes)
    rest: Kind = "cell" if math.prod(domain.shape(asked.columns)) - held == 1 else "sum"
    margins = _of_either(errors, (kind_of(asked), rest), asked.columns, np.array([count]), confidence, total)
    if margins is None:
        return None
    return Estimate.within(count, float(margins[0][0]), float(margins[1][0]), basis="simulated")


def simulated_ends(
    errors: SimulatedErrors | None, cells: Workload, counts: Vector, confidence: float, total: Total
) -> Ends | None:
    """For every cell of one marginal the ends of an interval; None where reruns say nothing of it."""
    if errors is None:
        return None
    kinds: tuple[Kind, Kind] = ("cell", "cell" if len(cells) == 2 else "sum")
    margins = _of_either(errors, kinds, tuple(cells.columns), counts, confidence, total)
    return None if margins is None else (counts - margins[0], counts + margins[1])


def _of_either(
    errors: SimulatedErrors,
    kinds: tuple[Kind, Kind],
    columns: Sequence[int],
    counts: Vector,
    confidence: float,
    total: Total,
) -> tuple[Vector, Vector] | None:
    """The margins of answers, or those of what they leave of a public total, which is as wrong in the other direction.

    Which of the two is taken must not be which is narrower: the narrower of two intervals that hold in 95 % of all
    cases holds in fewer. A single cell is taken before a sum, by public facts; of two alike the one with the smaller
    answer. Margins are those of answers of a size, and hold at each size: so they do at the smaller one of the two.

    Args:
        errors: What reruns showed.
        kinds: The kind of the question, and that of its complement.
        columns: Of both.
        counts: The answers.
        confidence: The probability with which the margins hold.
        total: What the complement is left of.
    """
    own, rest = (
        errors.margins(kind, columns, each, confidence) for kind, each in zip(kinds, (counts, total.value - counts))
    )
    if own is None or rest is None or not total.exact or kinds == ("cell", "sum"):
        return own
    turned = counts > total.value / 2 if kinds[0] == kinds[1] else np.ones(len(counts), dtype=bool)
    return np.where(turned, rest[1], own[0]), np.where(turned, rest[0], own[1])
