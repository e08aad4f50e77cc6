"""What a release has bought about values inside bins: how they lie there, bin by bin, with the noise of it.

A synopsis knows how many rows are in each bin, and nothing of where in it. A part of the budget buys that, for all rows
of the table together: the sums of w², 2w(1 − w) and (1 − w)² for each bin, where w is the place of a value in its bin
(`queries/builders/inside_bins.py`). Everything here follows from these noisy sums.

Where a bin has few rows, noise would move its mean anywhere. So estimates are pulled towards the middle and towards an
even spread, the more the less is known; intervals are not, and rest on the noise alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.curator.acts import measurement
from conspectus.data.columns.finer_bins import FinerBins, finer_bins
from conspectus.data.columns.kinds import Column
from conspectus.data.domain import Chunk
from conspectus.data.schema import Schema
from conspectus.mechanisms.mechanism import ProblemError
from conspectus.privacy.accounting import calibrate_gaussian, cap_of, scale_up
from conspectus.privacy.events import Event, Noise
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.prices import scale_down
from conspectus.privacy.relation import Relation
from conspectus.privacy.tails import variance_of
from conspectus.queries.blocks.moments import Moments
from conspectus.queries.builders.inside_bins import inside_bins
from conspectus.queries.query import VALUE_STEPS
from conspectus.queries.workload import Workload
from conspectus.synopses.synopsis import part

if TYPE_CHECKING:  # a release that is read has no curator, and need not wait for databases
    from conspectus.curator.curator import Curator

Vector = NDArray[np.float64]
_MEAN_SPREAD = 1 / 36
"""How far means of bins are from the middle, squared, before anything is known: as of values that rise to one end."""
_SQUARE_SPREAD = 1 / 288
"""The same of their mean squared distances from the middle."""
_FIELDS = [("column", pa.int32()), ("high", pa.float64()), ("between", pa.float64()), ("low", pa.float64())]


@dataclass(frozen=True, eq=False)
class BinValues:
    """How values lie in the bins of one column.

    Attributes:
        finer: The bins, and how closely values were looked at.
        mean: The estimated mean of each bin, in the column's units.
        variance: The estimated variance inside each bin.
        sums: The noisy sums of w², 2w(1 − w) and (1 − w)², a line each; 0 for bins of one value.
        law: The law of their noise, in steps of 1/VALUE_STEPS.
    """

    finer: FinerBins
    mean: Vector
    variance: Vector
    sums: Vector
    law: Noise

    def drawn(self, codes: NDArray[np.int64], rng: np.random.Generator) -> Vector:
        """A value in the bin of each code, from the beta distribution with the mean and the variance of the bin."""
        return self._values(codes, lambda a, b: rng.beta(a, b))

    def quantile(self, code: int, share: float) -> float:
        """The value up to which this share of a bin's rows lies, by the same distribution."""
        from scipy.special import betaincinv  # a quarter of a second, which only a quantile needs

        return float(self._values(np.array([code]), lambda a, b: betaincinv(a, b, share))[0])

    def _values(self, codes: NDArray[np.int64], inside: Any) -> Vector:
        low, width = self.finer.low, self.finer.width
        place = np.divide(self.mean - low, width, out=np.zeros(len(low)), where=width > 0)
        spread = np.divide(self.variance, width**2, out=np.zeros(len(low)), where=width > 0)
        even = place * (1 - place)
        loose = (spread > 1e-7) & (spread < 0.999 * even)
        times = np.where(loose, even / np.where(loose, spread, 1.0) - 1, 1.0)[codes]
        at = place[codes]
        found = inside(np.maximum(at * times, 1e-3), np.maximum((1 - at) * times, 1e-3))
        return np.asarray(low[codes] + width[codes] * np.where(loose[codes], found, at))


@dataclass(frozen=True, eq=False, kw_only=True)
class InsidePlan:
    """What is bought about values inside bins, decided by public facts alone.

    Attributes:
        budget: The budget of the whole release.
        share: The part of it that is spent on this.
        columns: The positions of the columns.
        schema: The schema, with these columns in narrow bins.
        asked: The questions about them.
        law: The noise, in steps.
        act: The one private act.
    """

    budget: Budget
    share: float
    columns: tuple[int, ...]
    schema: Schema
    asked: Workload
    law: Noise
    act: Event

    @classmethod
    def of(
        cls, schema: Schema, workload: Workload, relation: Relation, *, budget: Budget, share: float
    ) -> tuple[InsidePlan, Budget]:
        """The plan, and what is left of the budget for everything else.

        Raises:
            ProblemError: the share is none, or no column of the workload has bins of several numbers.
        """
        rest, price = split(budget, share)
        columns = tuple(columns_asked(schema, workload))
        changed, asked = asked_inside(schema, columns)
        law = noise_for(asked, relation, budget, price)
        act = measurement(asked, law, relation=relation)
        made = cls(budget=budget, share=share, columns=columns, schema=changed, asked=asked, law=law, act=act)
        return made, rest

    def bought(self, schema: Schema, curator: Curator) -> WithinBins:
        """Measure it: one act of a curator whose table has the narrow bins."""
        noisy = curator.measure(self.asked, self.law) / self.asked.grid
        return WithinBins.of(schema, self.columns, noisy, self.law)

    def told(self) -> dict[str, Any]:
        """How it was run, for reports."""
        names = [self.schema.columns[column].name for column in self.columns]
        return {"share": self.share, "columns": names, "noise": self.law.kind, "scale": self.law.scale / VALUE_STEPS}


@dataclass(frozen=True, eq=False)
class WithinBins:
    """The noisy sums of all columns that were asked about.

    Attributes:
        columns: The positions of the columns.
        sums: For each of them a line for each of the three sums, with a number for each bin of several values.
        law: The law of the noise on each number, in steps of 1/VALUE_STEPS.
    """

    columns: tuple[int, ...]
    sums: tuple[Vector, ...]
    law: Noise
    schema: Schema

    @classmethod
    def of(cls, schema: Schema, columns: Sequence[int], noisy: Vector, law: Noise) -> WithinBins:
        """From the noisy counts of `asked_inside`, in its order."""
        found, at = [], 0
        for column in columns:
            bins = len(_finer(schema, column).wide)
            found.append(noisy[at : at + 3 * bins].reshape(bins, 3).T.copy())
            at += 3 * bins
        if at != len(noisy):
            raise ValueError("the noisy sums do not belong to these columns")
        return cls(tuple(columns), tuple(found), law, schema)

    def asked(self) -> tuple[Schema, Workload]:
        """What was measured: the schema in narrow bins, and the questions about it."""
        return asked_inside(self.schema, self.columns)

    @cached_property
    def _known(self) -> dict[int, BinValues]:
        return {column: self._estimated(column, sums) for column, sums in zip(self.columns, self.sums)}

    def values(self, column: int) -> BinValues | None:
        """How values lie in the bins of the column at a position; None where it was not asked about."""
        return self._known.get(column)

    def _estimated(self, column: int, sums: Vector) -> BinValues:
        finer = _finer(self.schema, column)
        wide = finer.wide
        noise = variance_of(self.law) / VALUE_STEPS**2
        high, between, low = sums
        rows = np.maximum(high + between + low, 0.0)
        # d = Σ (w − ½) has half of the noise's variance, and e = Σ (w − ½)² three sixteenths of it.
        d, e = (high - low) / 2, (high - between + low) / 4
        off = d * rows * _MEAN_SPREAD / (rows**2 * _MEAN_SPREAD + noise / 2)
        usual = _even_spread(self.schema.columns[column], finer)[wide]
        square = usual + (e - rows * usual) * rows * _SQUARE_SPREAD / (rows**2 * _SQUARE_SPREAD + noise * 3 / 16)
        off = np.clip(off, -0.5, 0.5)
        spread = np.clip(square - off**2, 0.0, 0.25 - off**2)
        mean, variance, every = finer.low.copy(), np.zeros(len(finer.low)), np.zeros((3, len(finer.low)))
        mean[wide] += finer.width[wide] * (0.5 + off)
        variance[wide] = finer.width[wide] ** 2 * spread
        every[:, wide] = sums
        return BinValues(finer, mean, variance, every, self.law)

    def parts(self) -> tuple[dict[str, Any], pa.Table]:
        """The manifest and the table of a file."""
        names = [name for name, _ in _FIELDS]
        columns = np.repeat(np.array(self.columns, dtype=np.int32), [sums.shape[1] for sums in self.sums])
        lines = np.concatenate(self.sums, axis=1)
        table = pa.table(dict(zip(names, [columns, *lines])), schema=pa.schema(_FIELDS))
        return {"columns": list(self.columns), "noise": list(self.law)}, table

    @classmethod
    def from_parts(cls, schema: Schema, meta: Mapping[str, Any], tables: Mapping[str, pa.Table], name: str) -> Any:
        """The inverse of `parts`; raises what `files.faithful` turns into a refusal."""
        lines = part(dict(tables), name, _FIELDS)
        columns = meta["columns"]
        kind, scale = meta["noise"]
        if columns != [column for column in binned(schema) if column in columns] or not columns:
            raise ValueError("values inside bins are those of columns with bins")
        if kind not in ("laplace", "gaussian") or type(scale) is not float or not 0 < scale < float("inf"):
            raise ValueError("the noise inside bins has no known law")
        places = lines["column"].to_numpy()
        bins = [len(_finer(schema, column).wide) for column in columns]
        sums = np.array([lines[field].to_numpy() for field, _ in _FIELDS[1:]])
        if not np.array_equal(places, np.repeat(columns, bins)) or not np.isfinite(sums).all():
            raise ValueError("the noisy sums do not belong to these columns")
        return cls.of(schema, columns, sums.T.ravel(), Noise(kind, scale))


def decoded_rows(schema: Schema, rows: Chunk, rng: np.random.Generator, within: WithinBins | None) -> pa.Table:
    """Synthetic rows in their own values: inside a bin as the rows of the table lie there, where that is known."""
    columns = {}
    for place, column in enumerate(schema.columns):
        known = None if within is None else within.values(place)
        codes = rows.column(place)
        columns[column.name] = column.decode(codes, rng) if known is None else _decoded(column, codes, rng, known)
    return pa.table(columns)


def _decoded(column: Column, codes: NDArray[Any], rng: np.random.Generator, known: BinValues) -> pa.Array:
    wide = np.asarray(codes).astype(np.int64)
    null = np.zeros(len(wide), dtype=bool) if column.missing_code is None else wide == column.missing_code
    regular = np.where(null, 0, wide)
    values = known.drawn(regular, rng)
    low, high = known.finer.low[regular], (known.finer.low + known.finer.width)[regular]
    if column.kind == "integer":
        # Whole numbers stay whole: up or down by a coin that keeps the mean.
        whole = np.clip(np.floor(values + rng.random(len(values))), low, high)
        return pa.array(whole.astype(np.int64), type=column.arrow_type, mask=null)
    return pa.array(np.clip(values, low, np.nextafter(high, low)), type=column.arrow_type, mask=null)


def _even_spread(column: Column, finer: FinerBins) -> Vector:
    """The mean squared distance from the middle of values that lie evenly in a bin, in widths of it."""
    if column.kind != "integer":
        return np.full(len(finer.low), 1 / 12)
    return np.divide(finer.width + 2, 12 * finer.width, out=np.zeros(len(finer.low)), where=finer.width > 0)


def _finer(schema: Schema, column: int) -> FinerBins:
    found = finer_bins(schema.columns[column])
    if found is None:
        raise ValueError(f'column "{schema.columns[column].name}" has no bins of several values')
    return found


def binned(schema: Schema) -> list[int]:
    """The positions of columns whose bins hold several numbers."""
    return [place for place, column in enumerate(schema.columns) if finer_bins(column) is not None]


def asked_inside(schema: Schema, columns: Sequence[int]) -> tuple[Schema, Workload]:
    """The schema with some columns in narrow bins, and what is asked about them: a block for each column."""
    finer = {column: _finer(schema, column) for column in columns}
    narrow = tuple(finer[i].column if i in finer else column for i, column in enumerate(schema.columns))
    changed = dataclasses.replace(schema, columns=narrow)
    blocks = tuple(inside_bins(changed.domain, column, finer[column]) for column in columns)
    return changed, Workload(changed.domain, blocks)


def columns_asked(schema: Schema, workload: Workload) -> list[int]:
    """The columns of a workload whose values inside bins can be bought.

    Refuses where there is none, or where the workload takes sums or means of one and never counts its bins: then nobody
    would know how many values lie where.
    """
    found = [column for column in binned(schema) if column in workload.columns]
    if not found:
        raise ProblemError(
            "within_bins buys where values lie inside bins, and no column of the workload has bins of several numbers: "
            "leave it out"
        )
    counted = {column for block in workload.blocks if not isinstance(block, Moments) for column in block.columns}
    for column in found:
        if column not in counted:
            name = schema.columns[column].name
            raise ProblemError(
                f"within_bins buys where values lie inside bins, and the workload does not count the bins of {name!r}: "
                f"add cs.marginal(schema, [{name!r}]) to it, or leave within_bins out"
            )
    return found


def split(budget: Budget, share: float) -> tuple[Budget, Fraction]:
    """A budget without this share of it, and the share: in ε where the budget is pure, else in ρ."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share < 1:
        raise ProblemError(
            f"within_bins is the share of the budget for values inside bins, above 0 and below 1, not {share!r}"
        )
    currency, cap = cap_of(budget)
    kept = Fraction(scale_down(cap * (1 - Fraction(share))))
    rest = cap - kept
    if currency == "pure":
        return Budget(epsilon=float(kept)), rest
    return Budget(rho=float(kept), delta=budget.delta), rest


def noise_for(asked: Workload, relation: Relation, budget: Budget, price: Fraction) -> Noise:
    """The noise that a price buys: Laplace where the budget is pure, else Gaussian."""
    moved = asked.sensitivity(relation)
    if budget.pure:
        return Noise("laplace", scale_up(Fraction(moved.l1) / price))
    return Noise("gaussian", float(calibrate_gaussian(Fraction(moved.l2_squared), price)))
