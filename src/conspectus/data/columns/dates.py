"""Dates in bins of days, weeks, months, quarters or years."""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from conspectus.data.domain import Codes

from .arrays import EPOCH
from .column import NO_NULLS
from .ordered import Ordered
from .values import Nulls, date_at, day_of, days

_MONTHS = {"month": 1, "quarter": 3, "year": 12}
WIDTHS = ("day", "week", *_MONTHS)


@dataclass(frozen=True)
class Date(Ordered):
    """Days from `min` to `max`, in bins of a `width`: calendar months, quarters and years; weeks start at `min`."""

    min: datetime.date
    max: datetime.date
    width: str = field(default="day", kw_only=True)

    kind: ClassVar[str] = "date"
    arrow_type = pa.date32()

    def __post_init__(self) -> None:
        for key, value in (("min", self.min), ("max", self.max)):
            if isinstance(value, datetime.datetime) or not isinstance(value, datetime.date):
                raise self._error(f"{key} is a date, as in {key} = 2020-01-31")
        if self.min > self.max:
            raise self._error(f"min = {self.min} is after max = {self.max}: exchange them")
        if self.width not in WIDTHS:
            raise self._error(f"width is one of {', '.join(WIDTHS)}")
        self._check()

    @property
    def _first(self) -> int:
        return day_of(self.min) or 0

    @property
    def _last(self) -> int:
        return day_of(self.max) or 0

    @property
    def _ends(self) -> tuple[int, int]:
        return self._first, self._last

    @cached_property
    def regular(self) -> int:
        return int(self._codes_of(np.array([self._last - self._first]))[0]) + 1

    @cached_property
    def _code_of_day(self) -> NDArray[np.uint32]:
        """The code of every day from min to max, counted from min."""
        return self._codes_of(np.arange(self._last - self._first + 1, dtype=np.int64))

    def _codes_of(self, offset: NDArray[np.int64]) -> NDArray[np.uint32]:
        """The codes of days, counted from min."""
        if self.width in ("day", "week"):
            return (offset // (1 if self.width == "day" else 7)).astype(np.uint32)
        codes: NDArray[np.uint32] = (self._period(offset + self._first) - self._first_period).astype(np.uint32)
        return codes

    @cached_property
    def _first_period(self) -> int:
        return int(self._period(np.array([self._first]))[0])

    def _period(self, days: NDArray[np.int64]) -> NDArray[np.int64]:
        months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
        return months // _MONTHS[self.width]

    @cached_property
    def lows(self) -> NDArray[np.int64]:
        return np.searchsorted(self._code_of_day, np.arange(self.regular)) + self._first

    @cached_property
    def highs(self) -> NDArray[np.int64]:
        return np.append(self.lows[1:] - 1, self._last)

    def _low(self, code: int) -> int:
        if self.width in ("day", "week"):
            return self._first + code * (1 if self.width == "day" else 7)
        months = (self._first_period + code) * _MONTHS[self.width]
        return max(self._first, datetime.date(1970 + months // 12, months % 12 + 1, 1).toordinal() - EPOCH)

    def _high(self, code: int) -> int:
        return self._last if code == self.regular - 1 else self._low(code + 1) - 1

    def _read(self, value: object) -> int | None:
        return day_of(value)

    def _value(self, point: Any) -> datetime.date:
        return date_at(int(point))

    def regular_label(self, code: int) -> str:
        day = date_at(self._low(code))
        if self.width == "week":
            return f"week of {day}"
        if self.width == "quarter":
            return f"{day.year:04}-Q{(day.month + 2) // 3}"
        return day.isoformat()[: {"day": 10, "month": 7, "year": 4}[self.width]]

    def encode(self, values: pa.Array | pa.ChunkedArray, *, nulls: Nulls = NO_NULLS) -> Codes:
        day, valid = days(values, nulls)
        return self._fill(self._code_of_day[np.clip(day, self._first, self._last) - self._first], valid)

    def _values(self, codes: NDArray[np.int64], rng: np.random.Generator) -> pa.Array:
        drawn = rng.integers(self.lows[codes], self.highs[codes], endpoint=True)
        return drawn.astype("datetime64[D]")

    def _declared(self) -> dict[str, Any]:
        return {"min": self.min.isoformat(), "max": self.max.isoformat(), "width": self.width}

    def _stored_default(self) -> str | None:
        return None if self.default is None else date_at(day_of(self.default) or 0).isoformat()
