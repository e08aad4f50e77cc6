"""The picture for a board: how much each attack recovers as ε grows, below the line that no attack can pass."""

from __future__ import annotations

import math
from collections.abc import Sequence

from conspectus.plain_text import escape

from .contest import AttackResult, success_bound

_STYLE = """
text { font: 12px system-ui, "Segoe UI", Roboto, sans-serif; fill: #23262b; }
.title { font-size: 14px; font-weight: 600; } .soft { fill: #636a74; } .paper { fill: #fbfaf7; }
.grid { stroke: #e7e3d9; } .bound { fill: none; stroke: #8a8f98; stroke-dasharray: 5 4; stroke-width: 2; }
.k0 { stroke: #1f6f78; fill: #1f6f78; } .k1 { stroke: #d9822b; fill: #d9822b; } .k2 { stroke: #7a5ea8; fill: #7a5ea8; }
.k3 { stroke: #b03a5b; fill: #b03a5b; } .k4 { stroke: #5b7f2b; fill: #5b7f2b; }
.line { fill: none; stroke-width: 2; } text.k0, text.k1, text.k2, text.k3, text.k4 { stroke: none; }
@media (prefers-color-scheme: dark) { text { fill: #e7e5df; } .soft { fill: #a2a7ae; } .paper { fill: #16181b; }
.grid { stroke: #2a2d32; } .k0 { stroke: #62b8bf; fill: #62b8bf; } .k1 { stroke: #ffb266; fill: #ffb266; }
.k2 { stroke: #b9a3e3; fill: #b9a3e3; } .k3 { stroke: #ec8fa8; fill: #ec8fa8; }
.k4 { stroke: #a7cf72; fill: #a7cf72; } }
"""
_COLOURS = 5
_WIDE, _TALL, _LEFT, _TOP, _GAP = 300.0, 190.0, 52.0, 62.0, 62.0


def picture(results: Sequence[AttackResult]) -> str:
    """Draw results: one panel for each attack, one line for each mechanism, and the bound.

    Args:
        results: What `cs.attacks.run` found.

    Returns:
        An SVG picture as text.

    Raises:
        ValueError: There is no result to draw.

    Example:
        >>> found = list(cs.attacks.run(["laplace"], epsilons=[1, 100], attacks=["differencing"], runs=1))
        >>> cs.attacks.picture(found).startswith("<svg")
        True
    """
    shown = [result for result in results if result.success is not None]
    if not shown:
        raise ValueError("there is no result to draw: every release was refused")
    attacks = list(dict.fromkeys(result.attack for result in shown))
    mechanisms = list(dict.fromkeys(result.mechanism for result in shown))
    low, high = (end(math.log10(result.epsilon) for result in shown) for end in (min, max))
    high = max(high, low + 1)
    parts = [_words(20, 24, "What an attacker gets right of people's secrets", "title")]
    for number, name in enumerate(mechanisms):
        parts.append(_words(20 + 100 * number, 44, name, f"k{number % _COLOURS}"))
    parts.append(_words(20 + 100 * len(mechanisms), 44, "- - -  no attacker can do better", "soft"))
    for number, attack in enumerate(attacks):
        left = _LEFT + (number % 2) * (_WIDE + _GAP)
        top = _TOP + 24 + (number // 2) * (_TALL + _GAP + 10)
        parts += _panel(attack, [r for r in shown if r.attack == attack], mechanisms, left, top, low, high)
    wide = _LEFT + min(len(attacks), 2) * (_WIDE + _GAP)
    tall = _TOP + 24 + -(-len(attacks) // 2) * (_TALL + _GAP + 10)
    paper = f'<rect class="paper" width="{wide:.0f}" height="{tall:.0f}"/>'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide:.0f} {tall:.0f}" role="img" '
        f'aria-label="success of attacks"><style>{_STYLE}</style>{paper}{"".join(parts)}</svg>\n'
    )


def _panel(
    attack: str,
    results: Sequence[AttackResult],
    mechanisms: Sequence[str],
    left: float,
    top: float,
    low: float,
    high: float,
) -> list[str]:
    def place(epsilon: float, success: float) -> tuple[float, float]:
        across = left + _WIDE * (math.log10(epsilon) - low) / (high - low)
        return across, top + _TALL * (1 - (min(max(success, 0.4), 1.0) - 0.4) / 0.6)

    parts = [_words(left, top - 8, attack, "title")]
    for tick in (0.5, 0.75, 1.0):
        _, y = place(10**low, tick)
        parts.append(f'<line class="grid" x1="{left:.1f}" y1="{y:.1f}" x2="{left + _WIDE:.1f}" y2="{y:.1f}"/>')
        parts.append(_words(left - 6, y + 4, f"{100 * tick:.0f} %", "soft", "end"))
    for tick in range(math.ceil(low), math.floor(high) + 1):
        x, _ = place(10.0**tick, 0.4)
        parts.append(_words(x, top + _TALL + 18, f"ε = {10.0**tick:g}", "soft", "middle"))
    steps = [low + (high - low) * i / 60 for i in range(61)]
    parts.append(_path([place(10**step, success_bound(10**step, results[0].delta)) for step in steps], "bound"))
    for number, name in enumerate(mechanisms):
        mine = sorted((r.epsilon, r.success) for r in results if r.mechanism == name and r.success is not None)
        points = [place(epsilon, success) for epsilon, success in mine]
        kind = f"k{number % _COLOURS}"
        if points:
            parts.append(_path(points, f"{kind} line"))
        parts += [f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in points]
    return parts


def _path(points: Sequence[tuple[float, float]], kind: str) -> str:
    return f'<path class="{kind}" d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in points)}"/>'


def _words(x: float, y: float, words: str, kind: str, anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
