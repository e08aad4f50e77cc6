"""What a series of releases was opened with, for good, and the file that holds it. All of it is public."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from conspectus.data.schema import Schema
from conspectus.privacy.accounting import cap_of
from conspectus.privacy.guarantee import Budget
from conspectus.privacy.prices import scale_down
from conspectus.privacy.relation import Neighbours
from conspectus.queries.workload import Workload

VERSION = 1
MOST_PERIODS = 10_000
_ODD = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


class SeriesError(ValueError):
    """A series that cannot be used so: no such period, one that is over, an ended or a damaged one."""


@dataclass(frozen=True, kw_only=True)
class SeriesTerms:
    """What was agreed on; `shares` are relative sizes, one for each period."""

    schema: Mapping[str, Any]
    workload: Mapping[str, Any]
    periods: tuple[str, ...]
    shares: tuple[float, ...]
    budget: Budget
    neighbours: Neighbours
    mechanism: str
    objective: str | None
    settings: Mapping[str, Any]
    name: str

    @classmethod
    def of(
        cls,
        schema: Schema,
        workload: Workload,
        *,
        periods: int | Sequence[str],
        shares: Sequence[float] | None,
        budget: Budget,
        neighbours: Neighbours,
        mechanism: str,
        objective: str | None,
        settings: Mapping[str, Any],
    ) -> SeriesTerms:
        """Checked: from what the caller says alone."""
        if type(periods) is int:
            names = tuple(str(number) for number in range(1, min(periods, MOST_PERIODS + 1) + 1))
        else:
            names = tuple(periods) if isinstance(periods, Sequence) and not isinstance(periods, str) else ()
        texts = all(isinstance(name, str) and name.strip() for name in names)
        if not texts or not 1 <= len(names) <= MOST_PERIODS or len(set(names)) != len(names):
            raise SeriesError(
                f"periods is a number of releases from 1 to {MOST_PERIODS:,}, or a list of different names for them"
            )
        sizes = (1.0,) * len(names) if shares is None else tuple(shares)
        numbers = all(type(size) in (int, float) and math.isfinite(size) and size > 0 for size in sizes)
        if len(sizes) != len(names) or not numbers:
            raise SeriesError("shares holds one positive number for each period: leave it out for equal parts")
        if not isinstance(mechanism, str):
            raise SeriesError('a series names its mechanism, as in mechanism="gaussian", and its settings beside it')
        try:
            json.dumps(dict(settings), allow_nan=False)
        except (TypeError, ValueError):
            raise SeriesError("the settings of a series are numbers, texts, true or false: a file holds them") from None
        return cls(
            schema=schema.to_dict(),
            workload=workload.to_json(),
            periods=names,
            shares=tuple(float(size) for size in sizes),
            budget=budget,
            neighbours=neighbours,
            mechanism=mechanism,
            objective=objective,
            settings=dict(settings),
            name=os.urandom(8).hex(),
        )

    @property
    def label(self) -> str:
        """What the ledger calls it."""
        return f"series of {len(self.periods):,} releases, {self.name}"

    @property
    def digest(self) -> str:
        """All that was agreed on, in few letters, for the ledger to hold."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    def budget_of(self, period: str) -> Budget:
        """What one period may spend: its part, rounded down, so that all parts together keep the whole."""
        currency, cap = cap_of(self.budget)
        sizes = [Fraction(size) for size in self.shares]
        part = scale_down(cap * sizes[self.periods.index(period)] / sum(sizes))
        return Budget(epsilon=part) if currency == "pure" else Budget(rho=part, delta=self.budget.delta)

    def to_json(self) -> dict[str, Any]:
        return {
            "schema": dict(self.schema),
            "workload": dict(self.workload),
            "periods": list(self.periods),
            "shares": list(self.shares),
            "budget": {"epsilon": self.budget.epsilon, "delta": self.budget.delta, "rho": self.budget.rho},
            "neighbours": str(self.neighbours),
            "mechanism": self.mechanism,
            "objective": self.objective,
            "settings": dict(self.settings),
            "name": self.name,
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> SeriesTerms:
        """The inverse of `to_json`; what was changed since does not have the digest that the ledger holds."""
        texts = (stored["mechanism"], stored["name"], *stored["periods"])
        if not all(isinstance(text, str) for text in texts) or len(stored["shares"]) != len(stored["periods"]):
            raise ValueError("terms name a mechanism and periods")
        return cls(
            schema=dict(stored["schema"]),
            workload=dict(stored["workload"]),
            periods=tuple(stored["periods"]),
            shares=tuple(float(size) for size in stored["shares"]),
            budget=Budget(**stored["budget"]),
            neighbours=Neighbours.of(stored["neighbours"]),
            mechanism=stored["mechanism"],
            objective=stored["objective"],
            settings=dict(stored["settings"]),
            name=stored["name"],
        )


@dataclass(frozen=True, kw_only=True)
class StoredSeries:
    """What the file of a series says, and where its ledger was."""

    terms: SeriesTerms
    ledger: str
    reservation: int


@contextmanager
def write_terms(path: Path, terms: SeriesTerms) -> Iterator[Callable[[str, int], None]]:
    """A new file, never over an existing one, made before anything is reserved; written when the block says where the
    ledger is, and removed where the block fails."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        raise SeriesError(f"{path} already exists: resume it, or choose another name for a new series") from None
    except OSError as problem:
        raise SeriesError(f"no series can be made at {path}: {problem.strerror}") from None
    kept = False

    def keep(ledger: str, reservation: int) -> None:
        nonlocal kept
        content = {"series": VERSION, "ledger": ledger, "reservation": reservation, "terms": terms.to_json()}
        with os.fdopen(os.dup(handle), "w", encoding="utf-8") as file:
            file.write(json.dumps(content, indent=1) + "\n")
            file.flush()
            os.fsync(file.fileno())
        kept = True

    try:
        yield keep
    finally:
        os.close(handle)
        if not kept:
            path.unlink(missing_ok=True)


def read_terms(path: Path) -> StoredSeries:
    """What the file of a series says; `SeriesError` where there is none."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise SeriesError(f"there is no series at {path}: open one first") from None
    try:
        stored = json.loads(text)
        if stored["series"] != VERSION or type(stored["reservation"]) is not int or type(stored["ledger"]) is not str:
            raise ValueError("another file")
        terms = SeriesTerms.from_json(stored["terms"])
        return StoredSeries(terms=terms, ledger=stored["ledger"], reservation=stored["reservation"])
    except _ODD:
        raise SeriesError(f"{path} is not a series that this version can read") from None
