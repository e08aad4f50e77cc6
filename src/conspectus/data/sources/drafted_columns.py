"""What a draft declares of one column, after all of its values were seen. NOT PRIVATE: for the owner alone."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from conspectus.data.columns.values import date_at, day_of, number_of, text_of, truth_of

MARKS = ("?", "NA", "N/A", "NULL", "null", "nan", "NaN")
"""Texts that are taken for missing values wherever they stand."""

LISTED = 200
"""More values than these are not listed."""

MANY = 50
"""More values than these are listed with a word of caution."""

EVEN_BINS, FITTED_BINS = 50, 20
"""How many bins a column gets at most, of equal width and fitted to its values."""

_KEPT = 20_000  # distinct values that are looked at before a column counts as one of many values
_POINTS = 200_000  # distinct numbers from which bins are fitted
_WORDS = 3  # so many texts among numbers may stand for missing ones
_ID = re.compile(r"(^|[^a-zA-Z])(id|nbr|key)$|[a-z](Id|ID)$|^(ID|Id)$")  # and not "paid"
_OPPOSITES = {"no": "yes", "n": "y", "f": "t", "false": "true", "0": "1"}


@dataclass
class Seen:
    """What a draft has seen of one column. `nulls` are texts that the owner says are missing."""

    nulls: frozenset[str] = frozenset()
    rows: int = 0
    empty: int = 0
    length: int = 0
    distinct: Counter[str] = field(default_factory=Counter)
    points: Counter[float] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    overflow: bool = False
    whole: bool = True
    days: bool = True
    truths: bool = True
    low: float = math.inf
    high: float = -math.inf
    marks: set[str] = field(default_factory=set)

    def add(self, values: Iterable[tuple[object, int]]) -> None:
        """Take in some values, each with how often it was there."""
        for value, count in values:
            self.rows += count
            text = text_of(value)
            if text is None or text in MARKS or text in self.nulls:
                self.empty += count
                if text is not None and text not in self.nulls:
                    self.marks.add(text)
                continue
            self._read(value, text, count)
            self.length += len(text) * count
            if len(self.distinct) < _KEPT or text in self.distinct:
                self.distinct[text] += count
            else:
                self.overflow = True

    def _read(self, value: object, text: str, count: int) -> None:
        # A guess that has failed is not tried again: reading every value in every way is what takes the time.
        number = number_of(value) if len(self.words) <= _WORDS else None
        day = day_of(value) if self.days else None
        self.days = day is not None
        self.truths = self.truths and truth_of(value) is not None
        if number is None and len(self.words) <= _WORDS:
            self.words[text] += count
        point = number if number is not None else day
        if point is not None:
            self.whole &= float(point).is_integer()
            self.low, self.high = min(self.low, point), max(self.high, point)
            if number is not None and (len(self.points) < _POINTS or number in self.points):
                self.points[number] += count

    @property
    def filled(self) -> int:
        return self.rows - self.empty

    @property
    def numbers(self) -> bool:
        """Whether it holds numbers: all of its values, or many different ones among a few words."""
        few = not self.words or (len(self.words) <= _WORDS and len(self.points) > 3 * len(self.words) + 6)
        return few and bool(self.points)


def drafted_column(name: str, seen: Seen, *, alone: bool, bins: int | None = None) -> list[str]:
    """The lines of a schema file for one column, or why it is left out.

    Args:
        name: The name of the column.
        seen: What was seen of it.
        alone: Whether it is the only column.
        bins: The most bins of a column of numbers.
    """
    head = f"[columns.{toml(name)}]"
    missing = ["missing = true"] if seen.empty else []
    if not name.strip():
        return ["# a column without a name, as an index that was written beside the rows: left out"]
    if not seen.filled:
        return [f"# {toml(name)} holds no value: left out"]
    if seen.truths:
        return [head, 'type = "boolean"', *_spelled(seen), *missing]
    if seen.days:
        first, last = date_at(int(seen.low)), date_at(int(seen.high))
        return [head, 'type = "date"', f"min = {first}", f"max = {last}", f'width = "{_span(first, last)}"', *missing]
    if alone and not seen.numbers and len(seen.distinct) > LISTED:
        # One column of many texts: nobody needs a list of them to ask about some.
        return [head, 'type = "record"                   # any text; cs.sparse and cs.overlap ask about named ones']
    if reason := _left_out(name, seen):
        return [f"# {toml(name)} {reason}"]
    if seen.numbers:
        if seen.words:
            listed = ", ".join(map(toml, sorted(seen.words)))
            missing = [f"null_values = [{listed}]      # words among numbers: say what they mean", "missing = true"]
        return [head, *_numeric(seen, bins), *missing]
    return [head, *_categorical(seen), *missing]


def _numeric(seen: Seen, bins: int | None) -> list[str]:
    """The type and the bins of a column of numbers."""
    whole = seen.whole and abs(seen.low) < 1e15 and abs(seen.high) < 1e15
    points = np.array(sorted(seen.points), dtype=np.float64)
    rows = np.array([seen.points[point] for point in sorted(seen.points)], dtype=np.float64)
    tailed = _long_tailed(points, rows)
    notes = [*_sentinel(points), *(_perhaps_codes(seen, points) if whole and not tailed else [])]
    kind = f'type = "{"integer" if whole else "number"}"'
    span = seen.high - seen.low + whole
    if whole and span <= (bins or 2 * EVEN_BINS):
        return [*notes, kind, f"min = {int(seen.low)}", f"max = {int(seen.high)}"]
    if tailed:
        edges = fitted_edges(points, rows, bins or FITTED_BINS, whole=whole)
        return [*notes, kind, f"edges = {edges}      # about as many rows in each bin"]
    if whole:
        width = max(int(nice(math.ceil(span / (bins or EVEN_BINS)))), 1)
        return [*notes, kind, f"min = {int(seen.low)}", f"max = {int(seen.high)}", f"width = {width}"]
    step = nice((seen.high - seen.low) / (bins or FITTED_BINS)) or 1.0
    start = math.floor(seen.low / step)
    even = [float(f"{step * k:.12g}") for k in range(start, math.ceil(seen.high / step) + 1)]
    if len(even) < 2:
        even.append(even[0] + step)
    return [*notes, kind, f"edges = {even}"]


def _long_tailed(points: NDArray[np.float64], rows: NDArray[np.float64]) -> bool:
    """Whether bins of equal width would put most rows into one of them."""
    if len(points) < 10:
        return False
    counts, _ = np.histogram(points, bins=EVEN_BINS, weights=rows)
    return bool(counts.max() > 0.5 * rows.sum())


def fitted_edges(
    points: NDArray[np.float64], rows: NDArray[np.float64], bins: int, *, whole: bool
) -> list[int] | list[float]:
    """Edges between which about as many rows lie, at round numbers; a value that many rows share has its own bin."""
    low, high = float(points[0]), float(points[-1])
    edges = {low, high}
    rest = rows.copy()
    for common in np.flatnonzero(rows > 0.2 * rows.sum()):
        after = points[common] + 1 if whole else (points[common + 1] if common + 1 < len(points) else high)
        edges |= {float(points[common]), float(min(after, high))}
        rest[common] = 0
    share = np.cumsum(rest) / max(rest.sum(), 1)
    left = max(bins - len(edges) + 1, 1)
    for k in range(1, left):
        point = float(points[min(int(np.searchsorted(share, k / left)), len(points) - 1)])
        rounded = float(f"{point:.2g}")
        if low < rounded < high:
            edges.add(rounded)
    top = float(f"{high:.2g}")
    edges = (edges - {high}) | {top if top >= high else nice_above(high)}
    ordered = sorted(edges)
    if len(ordered) < 2:
        ordered.append(ordered[0] + 1)
    return [int(edge) for edge in ordered] if whole else ordered


def _sentinel(points: NDArray[np.float64]) -> list[str]:
    """A word about a largest number of nines, far from all others."""
    if len(points) < 10:
        return []
    top, below = points[-1], points[-2]
    if top in (99, 999, 9999, 99999, 999999) and below < 0.5 * top:
        return [f"# if {top:.0f} means missing or never, write null_values = [{top:.0f}] and missing = true"]
    return []


def _perhaps_codes(seen: Seen, points: NDArray[np.float64]) -> list[str]:
    """A word about whole numbers that are few in their range and come often: they may be codes."""
    few = MANY < len(points) < 1000 and len(points) < 0.2 * (seen.high - seen.low) and seen.filled > 100 * len(points)
    if not few:
        return []
    return [
        f"# {len(points):,} different whole numbers in a wide range: if they are codes, write",
        '# type = "categorical" with values_file = a public list of them, one a line',
    ]


def _categorical(seen: Seen) -> list[str]:
    if seen.overflow or len(seen.distinct) > LISTED:
        listed = sorted(text for text, _ in seen.distinct.most_common(LISTED))
        note = [
            f"# only the {LISTED} most frequent values are listed; for a table of this column alone,",
            '# type = "record" lists none of them, and cs.sparse and cs.overlap ask about named ones',
        ]
    else:
        listed, note = sorted(seen.distinct), []
    if len(seen.distinct) > MANY:
        note.append(f"# {len(listed)} values from the data; better a public list: values_file = a file of one a line")
    values = [text for text in listed if text not in ("other", "missing")]
    return ['type = "categorical"', *note, f"values = [{', '.join(map(toml, values))}]", "other = true"]


def _left_out(name: str, seen: Seen) -> str:
    """Why a column is left out: an id, or free text."""
    many = seen.overflow or len(seen.distinct) > 0.9 * seen.filled
    named = _ID.search(name) is not None and len(seen.distinct) > LISTED
    whole = not seen.numbers or seen.whole
    if whole and seen.filled > LISTED and (named or (many and not seen.numbers and seen.length < 30 * seen.filled)):
        return "looks like an id: left out; as the unit of privacy it goes under [unit]"
    average = seen.length / seen.filled
    if not seen.numbers and len(seen.distinct) > LISTED and average >= 30:
        words = f"about {average:.0f} signs each"
        return f"looks like free text ({words}): left out, since nobody can list what it may hold"
    return ""


def _spelled(seen: Seen) -> list[str]:
    """The spellings of a boolean, where they are no plain truths."""
    texts = sorted(seen.distinct, key=lambda text: bool(truth_of(text)))
    if {text.casefold() for text in texts} <= {"true", "false"} or len(texts) > 2:
        return []
    if len(texts) == 1:
        known = {**_OPPOSITES, **{true: false for false, true in _OPPOSITES.items()}}
        other = known[texts[0].casefold()]
        other = other.upper() if texts[0].isupper() else other.title() if texts[0].istitle() else other
        texts = sorted([texts[0], other], key=lambda text: bool(truth_of(text)))
    if truth_of(texts[0]) or not truth_of(texts[1]):
        return []  # two spellings of one truth
    numbers = all(text in ("0", "1") for text in texts)
    return [f"values = [{', '.join(texts if numbers else map(toml, texts))}]"]


def _span(first: datetime.date, last: datetime.date) -> str:
    days = (last - first).days
    return "day" if days < 60 else "week" if days < 400 else "month" if days < 6000 else "year"


def nice(width: float) -> float:
    """The next number of the form 1, 2 or 5 times a power of ten."""
    if width <= 0:
        return 0.0
    power = 10.0 ** math.floor(math.log10(width))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= width * (1 - 1e-12))


def nice_above(number: float) -> float:
    """A number of two digits that is not below this one."""
    step = 10.0 ** (math.floor(math.log10(abs(number))) - 1) if number else 1.0
    return float(f"{math.ceil(number / step) * step:.12g}")


def toml(text: str) -> str:
    """A text as a TOML string; JSON's escapes are TOML's, but for the one control sign that JSON leaves bare."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
