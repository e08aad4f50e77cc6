"""The page around a report: one self-contained HTML file without scripts, in light and dark, on screen and paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from conspectus.plain_text import escape as escape

STYLE = """
:root { --paper: #fbfaf7; --ink: #23262b; --soft: #636a74; --rule: #dcd8cf; --card: #ffffff; --accent: #1f6f78;
        --warn: #9a4a10; --warn-paper: #fdf1e4; --bright: #ffffff; color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #16181b; --ink: #e7e5df; --soft: #a2a7ae; --rule: #363a40; --card: #1e2125; --accent: #62b8bf;
          --warn: #f0b27a; --warn-paper: #33261a; --bright: #0f1113; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
       font: 16px/1.6 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 920px; margin: 0 auto; padding: 48px 28px 80px; }
header { border-bottom: 3px solid var(--accent); padding-bottom: 20px; margin-bottom: 28px; }
header p { color: var(--soft); margin: 6px 0 0; }
h1, h2, h3 { font-family: Georgia, "Iowan Old Style", serif; font-weight: 600; line-height: 1.2; text-wrap: balance; }
h1 { font-size: 34px; margin: 0; } h2 { font-size: 24px; margin: 52px 0 12px; }
h3 { font-size: 17px; margin: 28px 0 8px; }
.eyebrow { text-transform: uppercase; letter-spacing: .12em; font-size: 12px; color: var(--accent); font-weight: 600; }
.facts { display: grid; grid-template-columns: repeat(auto-fit, minmax(190px, 1fr)); gap: 12px; margin: 24px 0; }
.fact { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: 14px 16px; }
.fact b { display: block; font-size: 20px; line-height: 1.25; overflow-wrap: anywhere; }
.fact span { font-size: 13px; color: var(--soft); }
.lead { font-size: 19px; line-height: 1.55; }
.promise { border-left: 4px solid var(--accent); padding: 4px 0 4px 20px; margin: 20px 0; font-size: 18px; }
.warning { background: var(--warn-paper); border-left: 4px solid var(--warn); border-radius: 0 6px 6px 0;
           padding: 12px 18px; margin: 14px 0; }
.warning b { color: var(--warn); }
table { border-collapse: collapse; width: 100%; margin: 12px 0 20px; font-size: 15px; }
th { text-align: left; font-size: 13px; color: var(--soft); font-weight: 600; }
thead th, thead td { border-bottom: 2px solid var(--rule); }
th, td { padding: 7px 14px 7px 0; vertical-align: top; }
tbody td { border-bottom: 1px solid var(--rule); overflow-wrap: anywhere; }
th.number, td.number { text-align: right; } td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
code { font: 13px/1.5 ui-monospace, Menlo, Consolas, monospace; overflow-wrap: anywhere; }
.note { color: var(--soft); font-size: 14px; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(380px, 100%), 1fr)); gap: 18px; }
figure { margin: 0; background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: 14px 16px 10px;
         break-inside: avoid; }
figure.wide { margin-top: 18px; } figcaption { font-weight: 600; margin-bottom: 8px; overflow-wrap: anywhere; }
svg { display: block; max-width: 100%; height: auto; }
svg text { font: 12px system-ui, "Segoe UI", Roboto, sans-serif; fill: var(--ink); }
svg .figure { fill: var(--soft); font-size: 11px; font-variant-numeric: tabular-nums; }
svg .bright.bright { fill: var(--bright); }
svg .within { font-size: 11px; font-variant-numeric: tabular-nums; } svg .dot { fill: var(--ink); }
svg .bar, svg .cell { fill: var(--accent); } svg .bar { fill-opacity: .78; } svg .noisy { fill-opacity: .28; }
svg .unsure { stroke: var(--accent); stroke-opacity: .5; stroke-dasharray: 3 3; }
svg .whisker { stroke: var(--ink); stroke-width: 1.2; } svg .axis { stroke: var(--soft); }
svg .grid { stroke: var(--rule); } svg .cap { stroke: var(--warn); stroke-width: 1.4; }
svg .spent { fill: none; stroke: var(--accent); stroke-width: 2.2; }
footer { margin-top: 60px; padding-top: 16px; border-top: 1px solid var(--rule); color: var(--soft); font-size: 13px; }
@media (max-width: 480px) {
  main { padding: 32px 16px 60px; } th, td { padding-right: 8px; } table { font-size: 14px; } }
@media print {
  :root { --paper: #fff; --ink: #000; --soft: #444; --rule: #bbb; --card: #fff; --accent: #1f6f78; --warn: #7a3a0c;
          --warn-paper: #fff; --bright: #fff; color-scheme: light; }
  body { font-size: 13px; } table, .lead, .promise { font-size: inherit; }
  .pictures { grid-template-columns: 1fr 1fr; } .facts { grid-template-columns: repeat(4, 1fr); }
  main { max-width: none; padding: 0; } h2 { break-after: avoid; } tr, .fact { break-inside: avoid; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; } }
"""


def page(title: str, body: Iterable[str]) -> str:
    """The whole file. Everything in `body` must have been escaped by who made it."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">"""
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n<body><main>\n"
        + "\n".join(part for part in body if part)
        + "\n</main></body></html>\n"
    )


def section(title: str, *parts: str) -> str:
    """A chapter of the report."""
    return f"<section><h2>{escape(title)}</h2>\n" + "\n".join(part for part in parts if part) + "</section>"


def paragraph(text: str, kind: str = "") -> str:
    """Plain text as a paragraph."""
    mark = f' class="{kind}"' if kind else ""
    return f"<p{mark}>{escape(text)}</p>"


def sentence(text: str) -> str:
    """A note as a sentence of its own."""
    return text[:1].upper() + text[1:] + "."


def heading(text: str) -> str:
    return f"<h3>{escape(text)}</h3>"


def warning(text: str, word: str = "Warning.") -> str:
    return f'<div class="warning"><b>{escape(word)}</b> {escape(text)}</div>'


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    """A grid of cards: a number, and what it is."""
    cards = "".join(
        f'<div class="fact"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for value, name in pairs
    )
    return f'<div class="facts">{cards}</div>'


def table(titles: Sequence[str], rows: Iterable[Sequence[str]], *, numbers: Sequence[int] = ()) -> str:
    """A table of plain texts; the columns in `numbers` are aligned to the right.

    A column without a title has an empty cell above it, and no heading: a screen reader would announce one.
    """

    def line(cells: Sequence[str], tag: str) -> str:
        tags = [tag if cell else "td" for cell in cells]
        kinds = [' class="number"' if place in numbers else "" for place in range(len(cells))]
        return (
            "<tr>" + "".join(f"<{t}{kind}>{escape(cell)}</{t}>" for t, kind, cell in zip(tags, kinds, cells)) + "</tr>"
        )

    body = "\n".join(line(row, "td") for row in rows)
    return f"<table><thead>{line(titles, 'th')}</thead><tbody>{body}</tbody></table>"


def bullets(items: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{escape(item)}</li>" for item in items) + "</ul>"


def figure(title: str, drawing: str, *, wide: bool = False) -> str:
    """A picture with its title; nothing where there is no drawing."""
    if not drawing:
        return ""
    return f"<figure{' class=wide' if wide else ''}><figcaption>{escape(title)}</figcaption>{drawing}</figure>"
