"""The burn rate of a ledger as a picture: the share of its cap that was spent, over time, up to the line of the cap."""

from __future__ import annotations

from datetime import datetime

from conspectus.plain_text import escape
from conspectus.privacy.ledger.burn_rate import BurnRate

from .pictures import line, text_at

_LEFT, _TOP, _WIDE, _TALL = 52.0, 14.0, 640.0, 190.0
STYLE = """
svg { background: #fbfaf7; } text { font: 12px system-ui, "Segoe UI", Roboto, sans-serif; fill: #23262b; }
.figure { fill: #636a74; font-size: 11px; } .grid { stroke: #dcd8cf; } .axis { stroke: #636a74; }
.spent { fill: none; stroke: #1f6f78; stroke-width: 2.2; }
.cap { stroke: #9a4a10; stroke-width: 1.4; } .dot { fill: #23262b; }
@media (prefers-color-scheme: dark) { svg { background: #16181b; } text { fill: #e7e5df; } .figure { fill: #a2a7ae; }
.grid { stroke: #363a40; } .axis { stroke: #a2a7ae; } .spent { stroke: #62b8bf; } .cap { stroke: #f0b27a; }
.dot { fill: #e7e5df; } }
"""
"""The colours of a picture that stands alone; in a report those of the page."""


def burn_picture(rate: BurnRate, *, table: str, alone: bool = False) -> str:
    """Draw the burn rate of a ledger.

    Args:
        rate: What `ledger.burn_rate()` found.
        table: What the table is called.
        alone: Whether the picture stands alone, as a file, and not in a page with a style.

    Returns:
        An SVG picture as text, with its content in words for whoever does not see it.

    Example:
        >>> from datetime import UTC, datetime
        >>> from conspectus.privacy.ledger.burn_rate import BurnRate
        >>> days = [datetime(2026, month, 1, tzinfo=UTC) for month in (1, 4, 7)]
        >>> rate = BurnRate(made=days[0], now=days[2], steps=((days[1], "pairs", 0.5),))
        >>> "50 %" in burn_picture(rate, table="visits", alone=True)
        True
    """
    first, last = rate.made, max(rate.now, rate.made)
    most = max(1.0, rate.spent)

    def place(moment: datetime, share: float) -> tuple[float, float]:
        along = (moment - first) / (last - first) if last > first else 0.0
        return _LEFT + _WIDE * min(along, 1.0), _TOP + _TALL * (1 - share / most)

    parts = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        _, y = place(first, share)
        kind = "cap" if share == 1 else "axis" if share == 0 else "grid"
        parts.append(line(_LEFT, y, _LEFT + _WIDE, y, kind))
        parts.append(text_at(_LEFT - 6, y + 4, f"{100 * share:.0f} %", "end", "figure"))
    end = rate.retired or last
    corners, height = [place(first, 0.0)], 0.0
    for moment, _, share in rate.steps:
        corners += [place(moment, height), place(moment, share)]
        height = share
    corners.append(place(end, height))
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in corners)
    parts.append(f'<path class="spent" fill="none" d="M{path}"/>')
    for moment, label, share in rate.steps:
        x, y = place(moment, share)
        said = f"<title>{escape(label)}, {moment:%Y-%m-%d}: {100 * share:.1f} % spent by then</title>"
        parts.append(f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="3.5">{said}</circle>')
    if rate.retired is not None:
        x, _ = place(rate.retired, 0.0)
        parts += [line(x, _TOP, x, _TOP + _TALL, "cap"), text_at(x - 4, _TOP + 12, "retired", "end", "figure")]
    parts.append(text_at(_LEFT, _TOP + _TALL + 18, f"{first:%Y-%m-%d}", "start", "figure"))
    parts.append(text_at(_LEFT + _WIDE, _TOP + _TALL + 18, f"{last:%Y-%m-%d}", "end", "figure"))
    title = f"How much of the ledger of “{table}” was spent over time"
    many = len(rate.steps)
    words = (
        f"{many:,} release{'' if many == 1 else 's'}, {100 * rate.spent:.1f} % of the cap spent. It was spent: {rate}."
    )
    wide, tall = _LEFT + _WIDE + 14, _TOP + _TALL + 28
    space = ' xmlns="http://www.w3.org/2000/svg"' if alone else ""
    style = f"<style>{STYLE}</style>" if alone else ""
    return (
        f'<svg{space} viewBox="0 0 {wide:.0f} {tall:.0f}" width="{wide:.0f}" height="{tall:.0f}" role="img" '
        f'aria-label="{escape(title)}">{style}<title>{escape(title)}</title><desc>{escape(words)}</desc>'
        f"{''.join(parts)}</svg>"
    )
