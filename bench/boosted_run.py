"""`python -m bench.boosted_run`: one run of boosting taken apart, for docs/boosting.md, with its three pictures.

The table is made: sixteen coins in a row, but five of them are exclusive ors of two others. The truth is known here
because of that; the package itself never shows one beside the other.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import conspectus as cs
from bench import markdown
from bench.boosting import hidden_table
from bench.svg import bar, dot, drawing, line, logarithmic, path, text
from conspectus.counting.counters import count
from conspectus.curator.scores import ERROR_STEPS, LOG_WEIGHT_STEPS, Reweighting
from conspectus.mechanisms.iterative import Candidates
from conspectus.privacy.accounting import price_rho
from conspectus.privacy.events import ExponentialDraws, GaussianNoise

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "boosting.md"
EPSILON, DELTA, SEED = 1.0, 1e-6, 2


class Run:
    """A finished release beside the truth: errors, weights and answers of every round."""

    def __init__(self) -> None:
        schema, table, triples = hidden_table()
        self.workload = cs.marginals(schema, 3)
        self.counts, self.rows = count(self.workload, table.chunks())
        self.release = cs.release(
            table, self.workload, epsilon=EPSILON, delta=DELTA, mechanism="boosting", public_seed=SEED
        )
        self.alone = cs.release(
            table, self.workload, epsilon=EPSILON, delta=DELTA, mechanism="boosting", public_seed=SEED, rounds=1
        )
        said = self.release.parameters
        self.near, self.gap = round(said["near"] * ERROR_STEPS), round(said["gap"] * ERROR_STEPS)
        self.rates = [round(rate * LOG_WEIGHT_STEPS) for rate in said["rates"]]
        self.candidates = Candidates.of(self.workload)
        wanted = {tuple(sorted(map(int, triple))) for triple in triples}
        self.hidden = [i for i, block in enumerate(self.workload.blocks) if tuple(block.columns) in wanted]
        self.members = [member.answer(self.workload) for member in self.release.synopsis.members]
        self.errors = [self.worst(answers) for answers in (*self.members, self.release.answers)]
        self.weights = [self.distribution(turn) for turn in range(len(self.members) + 1)]

    def worst(self, answers) -> np.ndarray:
        """The largest error of each marginal, as a fraction."""
        return np.maximum.reduceat(np.abs(answers - self.counts / self.rows), self.candidates.starts)

    def score(self, turn: int) -> Reweighting:
        guesses = tuple(answers * self.rows for answers in self.members[:turn])
        return Reweighting(
            self.workload, self.candidates.starts, self.near, self.gap, guesses, tuple(self.rates[:turn])
        )

    def distribution(self, turn: int) -> np.ndarray:
        """D_{t+1}: the weights after so many rounds, normalised."""
        steps = self.score(turn).of(self.counts) / LOG_WEIGHT_STEPS**2
        weights = np.exp(steps - steps.max())
        return weights / weights.sum()

    @property
    def rounds(self) -> int:
        return len(self.members)


def weights_picture(run: Run) -> str:
    """One strip a round: the weight of each marginal as that round draws by it."""
    width, left, strip, top = 920, 98, 40, 92
    size, right = len(run.candidates), 800
    step = (right - left) / size
    height = top + run.rounds * (strip + 12) + 34
    most = max(float(weights.max()) for weights in run.weights[: run.rounds])
    parts = [
        text(28, 34, "The weights move to what is answered wrongly", kind="title"),
        text(28, 56, f"Each bar is one of {size} marginals, its height the root of its weight.", kind="soft"),
        text(28, 74, "Orange: the five triples that hang together, of which the first sample saw a part.", kind="soft"),
    ]
    for turn in range(run.rounds):
        floor = top + turn * (strip + 12) + strip
        weights = run.weights[turn]
        parts.append(text(28, floor - 2, f"round {turn + 1}"))
        parts.append(line(left, floor, right, floor, "axis"))
        tall = strip * np.sqrt(weights / most)
        # One outline for all: bars of equal height are one stretch of it.
        outline, before = f"M{left} {floor}", None
        for number in range(size):
            level = f"{floor - tall[number]:.1f}"
            if level != before:
                outline += f"H{left + number * step:.1f}V{level}"
            before = level
        parts.append(f'<path class="a faint" d="{outline}H{right}V{floor}Z"/>')
        parts += [bar(left + place * step - 1, floor - tall[place], 3, tall[place], "b") for place in run.hidden]
        share = 100 * float(weights[run.hidden].sum())
        parts.append(text(right + 14, floor - 2, f"{share:.0f} % orange", kind="soft"))
    return drawing(width, height, "Weights of the questions, round by round", parts)


def errors_picture(run: Run) -> str:
    """For each synopsis and for the median: where the errors of all marginals lie."""
    width, height, left, right, top, floor = 920, 420, 84, 880, 92, 366
    most, least = max(float(errors.max()) for errors in run.errors) * 1.3, 0.0004
    y = logarithmic(least, most, floor, top)
    step = (right - left) / (run.rounds + 1)
    parts = [
        text(28, 34, "Each round repairs what the rounds before got wrong", kind="title"),
        text(28, 56, "Largest error of each marginal. Bars: nine tenths of them; lines: all.", kind="soft"),
        text(28, 74, "Orange: the five triples.", kind="soft"),
    ]
    for level in (0.001, 0.003, 0.01, 0.03, 0.1):
        parts.append(line(left, y(level), right, y(level), "grid"))
        parts.append(text(left - 8, y(level) + 4, f"{level:g}", kind="soft", end="end"))
    marks = ((run.near, "λ"), (run.near + run.gap, "λ + μ"))
    for grid, name in marks:
        place = y(grid / ERROR_STEPS / run.rows)
        parts.append(line(left, place, right, place, "d dash"))
        parts.append(text(right, place - 5, name, kind="d", end="end"))
    for number, errors in enumerate(run.errors):
        last = number == run.rounds
        middle, kind = left + (number + 0.5) * step, "c" if last else "a"
        low, high = np.quantile(errors, (0.05, 0.95))
        parts.append(line(middle, y(max(float(errors.min()), least)), middle, y(float(errors.max())), kind))
        parts.append(bar(middle - 9, y(high), 18, y(low) - y(high), f"{kind} faint"))
        parts += [dot(middle + 18, y(max(float(errors[place]), least)), "b") for place in run.hidden]
        parts.append(text(middle, floor + 22, "median" if last else f"round {number + 1}", kind="soft", end="middle"))
    parts.append(line(left, floor, right, floor, "axis"))
    return drawing(width, height, "Errors of each synopsis and of their median", parts)


def shown_cell(run: Run) -> int:
    """The cell that the first synopsis gets most wrong."""
    return int(np.abs(run.members[0] - run.counts / run.rows).argmax())


def median_picture(run: Run) -> str:
    """One cell: what each synopsis says, how much its word weighs, and what half of the weight agrees on."""
    width, height, left, right, top, floor = 920, 360, 84, 740, 88, 312
    cell = shown_cell(run)
    said = [float(answers[cell]) for answers in run.members]
    truth, median = run.counts[cell] / run.rows, float(run.release.answers[cell])
    low, high = min(*said, truth) - 0.01, max(*said, truth) + 0.01

    def y(value: float) -> float:
        return floor - (value - low) / (high - low) * (floor - top)

    step = (right - left) / run.rounds
    parts = [
        text(28, 34, "One cell of one triple, as each synopsis answers it", kind="title"),
        text(28, 56, "Dots: what each synopsis says, as large as its weight in the median.", kind="soft"),
        line(left, floor, right, floor, "axis"),
        line(left, y(truth), right, y(truth), "b"),
        line(left, y(median), right, y(median), "c dash"),
    ]
    names = sorted(((y(truth), f"the truth, {truth:.4f}", "b"), (y(median), f"the median, {median:.4f}", "c")))
    for place, (at, words, kind) in enumerate(names):
        parts.append(text(right + 12, max(at + 4, names[0][0] + 4 + 18 * place), words, kind=kind))
    places = [(left + (turn + 0.5) * step, y(value)) for turn, value in enumerate(said)]
    parts.append(path(places, "a"))
    for turn, (x, at) in enumerate(places):
        parts.append(dot(x, at, "a", 3 + 12 * (run.rates[turn] / sum(run.rates)) ** 0.5))
        parts.append(text(x, floor + 22, f"round {turn + 1}", kind="soft", end="middle"))
        below = at + 28 if at < (top + floor) / 2 else at - 16
        parts.append(text(x, below, f"{said[turn]:.3f}", kind="soft", end="middle"))
    return drawing(width, height, "One cell as each synopsis and their weighted median answer it", parts)


def account(run: Run) -> str:
    """What each round paid and what it found, as a table."""
    events = list(run.release.events)
    draws = [event for event in events if isinstance(event, ExponentialDraws)]
    measured = [event for event in events if isinstance(event, GaussianNoise)][: run.rounds]
    whole = run.release.guarantee.rho
    lines = []
    for turn in range(run.rounds):
        spent = 0.0 if turn == 0 else float(price_rho(draws[turn - 1], "replace"))
        noise = float(price_rho(measured[turn], "replace"))
        asked = run.release.parameters["first"] if turn == 0 else run.release.parameters["draws"][turn - 1]
        lines.append(
            [
                f"{turn + 1}",
                f"{asked}",
                f"{100 * spent / whole:.1f} %",
                f"{100 * noise / whole:.1f} %",
                f"{run.rates[turn] / LOG_WEIGHT_STEPS:.2f}",
                f"{100 * float(run.weights[turn][run.errors[turn] * run.rows * ERROR_STEPS <= run.near].sum()):.0f} %",
                f"{float(run.errors[turn].max()):.4f}",
            ]
        )
    heads = ["round", "questions", "paid to draw", "paid to measure", "rate α", "of D_t within λ", "largest error"]
    return markdown(heads, lines)


def told(run: Run) -> str:
    """The generated part of the page."""
    said, held = run.release.parameters, run.release.certificate
    potential = held.potential
    proof = (
        f"It also bought ln Z ≤ {potential.upper:.2f} (λ + μ = {potential.inaccurate / run.rows:.4f}), which "
        f"{'proves all answers within λ + μ' if potential.holds else 'is above 0 here and proves nothing'}."
        if potential is not None
        else "ln Z would have proved nothing at its price and was not bought."
    )
    seen = sum(run.errors[0][place] * run.rows * ERROR_STEPS <= run.near + run.gap for place in run.hidden)
    return (
        f"{run.rows:,} rows, {len(run.workload):,} cells of {len(run.candidates)} marginals, ε = {EPSILON:g}, "
        f"δ = {DELTA:g}; λ = {said['near'] / run.rows:.4f}, μ = {said['gap'] / run.rows:.4f}. The first sample is "
        f"right about {seen} of the five triples.\n\n{account(run)}\n\n"
        f"The weighted median is within {float(run.errors[-1].max()):.4f} on every cell; the same base generator with "
        f"the whole budget and one round, {float(run.worst(run.alone.answers).max()):.4f}. The release certified "
        f"{held.bound:.4f} for itself, except with probability {held.failure_probability:g}. {proof}"
    )


def main() -> None:
    run = Run()
    for name, made in (("weights", weights_picture), ("errors", errors_picture), ("median", median_picture)):
        (DOCS / f"boosting-{name}.svg").write_text(made(run), encoding="utf-8")
    page = PAGE.read_text(encoding="utf-8")
    section = f"<!-- run -->\n{told(run)}\n<!-- /run -->"
    PAGE.write_text(re.sub("<!-- run -->.*?<!-- /run -->", lambda _: section, page, flags=re.DOTALL), encoding="utf-8")
    print(section)


if __name__ == "__main__":
    main()
