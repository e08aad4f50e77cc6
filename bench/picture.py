"""`python -m bench.picture`: the picture of the README, made anew from the demo's people with fresh noise.

The truth is known here because the people are made; the package itself never shows one beside the other.
"""

from __future__ import annotations

import argparse
import tomllib
from html import escape
from pathlib import Path

import numpy as np

import conspectus as cs
from conspectus.cli.people import SCHEMA, made_people

FILE = Path(__file__).parent.parent / "docs" / "picture.svg"
STYLE = """
text { font: 13px system-ui, "Segoe UI", Roboto, sans-serif; fill: #23262b; } .soft { fill: #636a74; font-size: 12px; }
.title { font-size: 17px; font-weight: 600; } .bar { fill: #1f6f78; fill-opacity: .72; } .whisker { stroke: #23262b; }
.axis { stroke: #b9b4a8; } .truth { fill: #d9822b; } .paper { fill: #fbfaf7; }
@media (prefers-color-scheme: dark) { text { fill: #e7e5df; } .soft { fill: #a2a7ae; } .bar { fill: #62b8bf; }
.whisker { stroke: #e7e5df; } .axis { stroke: #4a4f56; } .truth { fill: #ffb266; } .paper { fill: #16181b; } }
"""
MARKS = "Bars are what is published, whiskers their 95 % intervals, dots the truth."
WIDTH, PANEL, LEFT, TOP, TALL = 920, 138, 28, 84, 190


def draw(epsilon: float) -> str:
    """One panel for each diagnosis: private counts by age with their intervals, and the true ones as dots."""
    people = made_people()
    schema = cs.Schema.from_dict(tomllib.loads(SCHEMA))
    with_noise = cs.release(
        cs.open_table(people, schema), cs.marginals(schema, 2), epsilon=epsilon, delta=1e-6, mechanism="gaussian"
    )
    made = with_noise.table(["diagnosis", "age"]).to_pydict()
    diagnosis, age = schema.column("diagnosis"), schema.column("age")
    codes = (diagnosis.encode(people["diagnosis"]).astype(int) * age.size) + age.encode(people["age"])
    truth = np.bincount(codes, minlength=diagnosis.size * age.size)
    most = max(max(made["high"]), truth.max())
    asked = f"{len(with_noise.workload):,} answers about {people.num_rows:,} made patients, ε = {epsilon:g}, δ = 1e-6"
    parts = [
        f'<rect class="paper" width="{WIDTH}" height="330" rx="10"/>',
        f'<text class="title" x="{LEFT}" y="34">Patients by diagnosis and age, from a private release</text>',
        f'<text class="soft" x="{LEFT}" y="56">{escape(asked)}. {MARKS}</text>',
    ]
    floor, step = TOP + TALL, (PANEL - 22) / age.size
    for place, label in enumerate(diagnosis.labels):
        left = LEFT + place * (PANEL + 8)
        parts.append(f'<line class="axis" x1="{left}" y1="{floor}" x2="{left + PANEL - 22}" y2="{floor}"/>')
        parts.append(f'<text x="{left}" y="{floor + 40}">{escape(label)}</text>')
        parts.append(f'<text class="soft" x="{left}" y="{floor + 18}">{escape(age.labels[0])}</text>')
        last = escape(age.labels[-1])
        parts.append(f'<text class="soft" x="{left + PANEL - 22}" y="{floor + 18}" text-anchor="end">{last}</text>')
        for code in range(age.size):
            cell = place * age.size + code
            x, middle = left + code * step, left + (code + 0.5) * step
            tall, low, high = (TALL * made[name][cell] / most for name in ("count", "low", "high"))
            dot = TALL * truth[cell] / most
            parts.append(
                f'<rect class="bar" x="{x + 1:.1f}" y="{floor - tall:.1f}" width="{step - 2:.1f}" height="{tall:.1f}"/>'
                f'<path class="whisker" d="M{middle:.1f} {floor - low:.1f}V{floor - high:.1f}"/>'
                f'<circle class="truth" cx="{middle:.1f}" cy="{floor - dot:.1f}" r="3"/>'
            )
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} 330" width="{WIDTH}" height="330" role="img" '
        f'aria-label="Private and true counts by diagnosis and age"><style>{STYLE}</style>\n{body}\n</svg>\n'
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("-o", "--output", type=Path, default=FILE)
    chosen = parser.parse_args()
    chosen.output.write_text(draw(chosen.epsilon), encoding="utf-8")
    print(f"wrote {chosen.output}")


if __name__ == "__main__":
    main()
