"""Pictures as inline SVG: bars with whiskers, heat maps, numbers for pairs. Colours come from the page's own style."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from conspectus.plain_text import escape

MOST_BARS = 120
MOST_SIDE = 24
_LYING = 14  # up to this many bars lie down, so that their labels can be read


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One count with its interval; `noisy` where the interval is wide beside it; `words` to print it as."""

    label: str
    count: float
    low: float | None
    high: float | None
    noisy: bool
    words: str | None = None

    @property
    def top(self) -> float:
        return self.count if self.high is None else max(self.count, self.high)


def bars(bars: Sequence[Bar], *, title: str, standing: bool = False) -> str:
    """Bars with whiskers: lying where there are few, standing where there are many or they are ordered."""
    if not bars or len(bars) > MOST_BARS:
        return ""
    most = max(max(bar.top for bar in bars), 1.0)
    draw = _standing if standing or len(bars) > _LYING else _lying
    return draw(bars, most, title)


def _lying(bars: Sequence[Bar], most: float, title: str) -> str:
    left, width, step = 118.0, 236.0, 24
    parts = []
    for number, bar in enumerate(bars):
        y = number * step + 4
        middle = y + 8
        parts.append(text_at(left - 8, middle + 4, _short(bar.label, 17), "end", hover=bar.label))
        parts.append(_rect(left, y, width * bar.count / most, 16, bar))
        if bar.low is not None and bar.high is not None:
            parts.append(_whisker(left + width * bar.low / most, middle, left + width * bar.high / most, middle))
        parts.append(text_at(left + width + 62, middle + 4, bar.words or f"{bar.count:,.0f}", "end", "figure"))
    return _svg(420, len(bars) * step + 6, title, parts)


def _standing(bars: Sequence[Bar], most: float, title: str) -> str:
    left, width, height = 48.0, 366.0, 132.0
    most = _round_up(most)
    step = width / len(bars)
    gap = min(2.0, step * 0.2)
    parts = [line(left, height + 8, left + width, height + 8, "axis")]
    for share in (0.5, 1.0):
        y = height + 8 - height * share
        parts += [
            line(left, y, left + width, y, "grid"),
            text_at(left - 6, y + 4, _brief(most * share), "end", "figure"),
        ]
    for number, bar in enumerate(bars):
        x, tall = left + number * step, height * bar.count / most
        parts.append(_rect(x + gap / 2, height + 8 - tall, step - gap, tall, bar))
        if bar.low is not None and bar.high is not None:
            middle = x + step / 2
            ends = (height + 8 - height * end / most for end in (bar.low, bar.high))
            parts.append(_whisker(middle, next(ends), middle, next(ends)))
    for number in sorted({0, len(bars) // 2, len(bars) - 1}):
        anchor = "start" if number == 0 else "end" if number == len(bars) - 1 else "middle"
        place = left + (number + (0 if anchor == "start" else 1 if anchor == "end" else 0.5)) * step
        parts.append(text_at(place, height + 26, _short(bars[number].label, 18), anchor, hover=bars[number].label))
    return _svg(420, int(height) + 34, title, parts)


def spans(rows: Sequence[tuple[str, float, float, float]], *, title: str) -> str:
    """Shares of one as (label, where it stood, the least, the most): how far each can move."""
    left, width, step = 58.0, 640.0, 26
    ends = len(rows) * step + 2
    parts = [line(left + width * tick / 4, 2, left + width * tick / 4, ends, "grid") for tick in range(5)]
    for number, (label, middle, low, high) in enumerate(rows):
        y = number * step + step / 2
        span = f'x="{left + width * low:.1f}" y="{y - 6:.1f}" width="{width * (high - low):.1f}" height="12" rx="3"'
        parts.append(text_at(left - 10, y + 4, label, "end"))
        parts.append(f'<rect class="bar" {span}/>')
        place = left + width * middle
        parts.append(f'<circle class="dot" cx="{place:.1f}" cy="{y:.1f}" r="4"/>')
    parts += [text_at(left + width * tick / 4, ends + 14, f"{25 * tick} %", "middle", "figure") for tick in range(5)]
    return _svg(720, ends + 20, title, parts)


def heat_map(cells: Sequence[Sequence[Bar]], *, rows: Sequence[str], columns: Sequence[str], title: str) -> str:
    """A table of counts in shades; the numbers themselves where there is room and noise is small beside them."""
    if not rows or not columns or max(len(rows), len(columns)) > MOST_SIDE:
        return ""
    left, top, wide = 118.0, 8.0, 700.0
    cell, tall = min(wide / len(columns), 96.0), 26.0
    most = max(max(bar.count for row in cells for bar in row), 1.0)
    parts = []
    for i, (label, row) in enumerate(zip(rows, cells)):
        y = top + i * tall
        parts.append(text_at(left - 8, y + tall / 2 + 4, _short(label, 17), "end", hover=label))
        for j, bar in enumerate(row):
            shade, x = bar.count / most, left + j * cell
            kind = "cell unsure" if bar.noisy else "cell"
            opacity = (0.05 + 0.9 * shade) * (0.36 if bar.noisy else 1)
            parts.append(
                f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{cell - 2:.1f}" height="{tall - 2:.1f}" '
                f'fill-opacity="{opacity:.3f}">{_hover(bar)}</rect>'
            )
            if cell >= 40 and not bar.noisy:
                kind = "within bright" if shade > 0.5 else "within"
                parts.append(text_at(x + cell / 2 - 1, y + tall / 2 + 3, _brief(bar.count), "middle", kind))
    bottom = top + len(rows) * tall
    every = 1 if cell >= 40 else 3
    for j in range(0, len(columns), every):
        room = max(4, int(cell * every / 7))
        place = left + j * cell + cell / 2
        parts.append(text_at(place, bottom + 14, _short(columns[j], room), "middle", hover=columns[j]))
    return _svg(int(left + cell * len(columns)) + 8, int(bottom) + 22, title, parts)


def triangle(names: Sequence[str], values: Mapping[tuple[int, int], float | None], *, title: str) -> str:
    """Numbers from 0 to 1 for pairs of names, in shades below a diagonal; a dash where there is none."""
    left, side = 150.0, max(15.0, min(30.0, 560.0 / len(names)))
    parts = []
    for i, name in enumerate(names):
        y = i * side + 4
        parts.append(text_at(left - 8, y + side / 2 + 4, f"{_short(name, 17)} {i + 1}", "end", hover=name))
        for j in range(i):
            value, x = values.get((j, i)), left + j * side
            words = "not drawn" if value is None else f"{value:.2f}"
            shade = 0.0 if value is None else 0.05 + 0.9 * min(value, 1.0)
            parts.append(
                f'<rect class="cell" x="{x:.1f}" y="{y:.1f}" width="{side - 1:.1f}" height="{side - 1:.1f}" '
                f'fill-opacity="{shade:.2f}"><title>{escape(name)}, {escape(names[j])}: {words}</title></rect>'
            )
            if value is None or (side >= 24 and value >= 0.095):
                kind = "within bright" if value is not None and value > 0.6 else "within"
                shown = "–" if value is None else f"{value:.2f}".lstrip("0")
                parts.append(text_at(x + side / 2 - 0.5, y + side / 2 + 3.5, shown, "middle", kind))
    bottom = len(names) * side + 4
    for j in range(len(names) - 1):
        parts.append(text_at(left + (j + 0.5) * side, bottom + 12, str(j + 1), "middle", "figure"))
    return _svg(int(left + side * len(names)) + 8, int(bottom) + 20, title, parts)


def _svg(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
        f'aria-label="{escape(title)}">{"".join(parts)}</svg>'
    )


def _hover(bar: Bar) -> str:
    form = ",.0f" if bar.words is None else ".4g"
    interval = "" if bar.low is None or bar.high is None else f", interval {bar.low:{form}} to {bar.high:{form}}"
    return f"<title>{escape(bar.label)}: {bar.words or f'{bar.count:,.0f}'}{interval}</title>"


def _rect(x: float, y: float, width: float, height: float, bar: Bar) -> str:
    kind = "bar noisy" if bar.noisy else "bar"
    return (
        f'<rect class="{kind}" x="{x:.2f}" y="{y:.2f}" width="{max(width, 0.5):.2f}" height="{max(height, 0.5):.2f}">'
        f"{_hover(bar)}</rect>"
    )


def line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    """A line of a kind that the style knows."""
    return f'<line class="{kind}" x1="{x1:.2f}" y1="{y1:.2f}" x2="{x2:.2f}" y2="{y2:.2f}"/>'


def _whisker(x1: float, y1: float, x2: float, y2: float) -> str:
    flat = y1 == y2
    caps = ((x1, y1), (x2, y2))
    ends = "".join(
        line(x, y - 4, x, y + 4, "whisker") if flat else line(x - 2, y, x + 2, y, "whisker") for x, y in caps
    )
    return line(x1, y1, x2, y2, "whisker") + ends


def text_at(x: float, y: float, text: str, anchor: str, kind: str = "label", *, hover: str = "") -> str:
    """A text at a place; `hover` is all of it, where it was cut."""
    title = f"<title>{escape(hover)}</title>" if hover and hover != text else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}{title}</text>'


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _round_up(most: float) -> float:
    """The next number that halves into a round one."""
    size = 10.0 ** (len(str(int(most))) - 1)
    return next(step * size for step in (1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10) if step * size >= most)


def _brief(count: float) -> str:
    """A count in few characters."""
    for size, mark in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if count >= size:
            return f"{count / (1e3 if mark == 'k' else size):.3g}{mark}"
    return f"{count:,.0f}"
