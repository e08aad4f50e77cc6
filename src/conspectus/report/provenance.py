"""The chapters that account for a release: private acts and their prices, ledger, mechanism, how to verify."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from conspectus import __version__
from conspectus.privacy.events import (
    ByRelation,
    Event,
    ExponentialDraws,
    FurtherHit,
    GaussianNoise,
    LaplaceNoise,
    MixedGaussianNoise,
    NoisyMaxima,
    RowTotal,
    StableKeys,
    StableValue,
    ThresholdWatch,
)
from conspectus.privacy.guarantee import Guarantee, printed
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.privacy.prices import Cost, Currency, Unpriced, cost_of
from conspectus.privacy.relation import Neighbours
from conspectus.real_path import as_text
from conspectus.releases.release import Release

from . import page
from .burn_picture import burn_picture
from .comparison import comparison
from .meaning import meaning_of
from .promise import Promised

MOST_LINES = 40


def acts(release: Promised) -> str:
    """Every private act with its price, and what several theorems make of the sum."""
    held = release.guarantee
    currency: Currency = "pure" if held.rho is None else "zcdp"
    sign = "ε" if currency == "pure" else "ρ"
    lines: list[tuple[str, ...]] = []
    total = Cost()
    for number, (act, times) in enumerate(Counter(release.events).items()):
        cost = _cost(act, currency, held.neighbours)
        all_of_them = Cost() if cost is None else Cost(price=cost.price * times, delta=cost.delta * times)
        total += all_of_them
        if number < MOST_LINES:
            each = "no price" if cost is None else _shown(cost)
            together = "" if cost is None else _shown(all_of_them)
            lines.append((describe(act, held.neighbours), f"{times:,}", each, together))
    hidden = len(set(release.events)) - MOST_LINES
    if hidden > 0:
        lines.append((f"{hidden:,} further kinds of act", "", "", ""))
    lines.append(("together" if release.declared else "spent", f"{len(release.events):,}", "", _shown(total)))
    return page.section(
        "What touched the data",
        page.paragraph(
            "The table was touched only by the acts below; everything else was computed from their noisy results, "
            "which cannot weaken the promise."
        ),
        page.table(("act", "times", f"{sign} each", f"{sign} together"), lines, numbers=(1, 2, 3)),
        *(_theorems(release) if release.declared else _adaptive(held)),
    )


def _theorems(release: Promised) -> tuple[str, ...]:
    """The same acts under several theorems: for acts that were fixed before the first draw, each of them holds."""
    held, meaning = release.guarantee, meaning_of(release.guarantee)
    prices = comparison(release.events, meaning.delta, held.neighbours)
    rows = [
        (each.theorem, "says nothing here" if each.epsilon is None else printed(each.epsilon, 4)) for each in prices
    ]
    stated = "—" if held.epsilon is None else printed(held.epsilon, 4)
    rows.append((f"as stated, by {held.theorem}", stated))
    return (
        page.heading("The same acts under several theorems"),
        page.table(
            ("composition theorem", f"ε at δ = {printed(meaning.delta, 3)}" if meaning.delta else "ε"),
            rows,
            numbers=(1,),
        ),
        page.paragraph(
            "The theorem is chosen before the first draw, never afterwards. The others are shown so that a reader "
            "can see what the choice is worth.",
            "note",
        ),
    )


def _adaptive(held: Guarantee) -> tuple[str, ...]:
    """Danger: the acts of a loop that stopped early, or of a session, look cheap. That they were few is an outcome."""
    stated = f"ε = {printed(held.epsilon, 4)}" if held.epsilon is not None else f"ρ = {printed(held.rho or 0.0, 4)}"
    return (
        page.paragraph(
            "These acts were not fixed in advance: which came next, or how many there were, followed from what was "
            f"seen before. Their sum is what was spent, and no promise. What holds is the stated one: {stated}.",
            "note",
        ),
    )


def _cost(act: Event, currency: Currency, neighbours: Neighbours) -> Cost | None:
    try:
        return cost_of(act, currency, neighbours)
    except Unpriced:
        return None


def _shown(cost: Cost) -> str:
    """A price, with the δ that is the acts' own where there is one."""
    return printed(float(cost.price), 4) + (f", δ = {printed(float(cost.delta), 3)}" if cost.delta else "")


def describe(act: Event, neighbours: Neighbours) -> str:
    """An act in words; sensitivities are in counts, or in steps of the grid that a score is put on."""

    def shown(bound: ByRelation) -> str:
        value = bound.under(neighbours)
        return "an unknown amount" if value is None else f"{float(value):.6g}"

    match act:
        case LaplaceNoise():
            moved = f"one unit moves them by {shown(act.l1)} in all"
            return f"counts published with Laplace noise of scale {float(act.scale):.5g}; {moved}"
        case GaussianNoise():
            sigma = float(act.sigma_squared) ** 0.5
            moved = f"the squares of what one unit moves sum to {shown(act.l2_squared)}"
            return f"counts published with Gaussian noise of deviation {sigma:.5g}; {moved}"
        case MixedGaussianNoise():
            moved = f"the squares of what one unit moves, over those of its noise, sum to {shown(act.shift_squared)}"
            return f"parts of tables published with Gaussian noise of several scales; {moved}"
        case ExponentialDraws() | NoisyMaxima():
            chosen = "one choice" if act.draws == 1 else f"{act.draws:,} choices"
            if isinstance(act, ExponentialDraws):
                return f"{chosen} by the exponential mechanism, of range {shown(act.range)}"
            return f"{chosen} of the largest of noisy counts, each with ε {shown(act.epsilon)}"
        case ThresholdWatch():
            return f"questions compared with a noisy threshold until the first hit, with ε {shown(act.epsilon)}"
        case FurtherHit():
            return f"questions compared with the same threshold until the next hit, with ε {shown(act.epsilon)}"
        case StableKeys():
            moved = f"one unit moves them by {shown(act.l1)} in all"
            noise = f"Laplace noise of scale {float(act.scale):.5g}"
            return f"keys published where their counts, with {noise}, reach {act.threshold:,}; {moved}"
        case StableValue():
            moved = f"one unit moves that distance by {shown(act.moved)}"
            own = f", with noise of ε {shown(act.epsilon)} on itself" if any(vars(act.epsilon).values()) else ""
            noise = f"Laplace noise of scale {float(act.scale):.5g}"
            far = f"where its distance to tables with another one, with {noise}, reaches {act.threshold:,}"
            return f"a value published{own} {far}; {moved}"
        case RowTotal():
            return "the number of rows used in the open, which is public here"


def ledger(kept: Ledger | None) -> str:
    """What the ledger of the table says."""
    if kept is None:
        return ""
    sign = "ε" if kept.currency == "pure" else "ρ"
    lines = kept.to_arrow().to_pylist()
    asked = [name for name in ("study", "by") if any(line[name] for line in lines)]
    rows = [
        (
            line["made"],
            line["label"],
            *(line[name] for name in asked),
            f"{line['acts']:,}",
            _shown(Cost(price=Fraction(line["price"]), delta=Fraction(line["delta"]))),
            "settled" if line["settled"] else "open: all of it counts",
        )
        for line in lines
    ]
    spent = kept.spending()
    share = float(spent.price / kept.cap)
    gone = f"{printed(float(spent.price), 4)} of {printed(float(kept.cap), 4)}"
    aside = ""
    if kept.delta_cap:
        own = f"{printed(float(spent.delta), 3)} of the {printed(float(kept.delta_cap), 3)}"
        aside = f", and δ = {own} set aside for published keys"
    left = ""
    if kept.retired is not None:
        left = f". It was retired on {kept.retired.made.partition('T')[0]}, and nothing more is released under it"
    elif sign == "ρ":
        left = f". A further release at δ = {kept.shown_delta:g} may ask for ε = {kept.epsilon_remaining:g}"
    rate = kept.burn_rate()
    return page.section(
        "The ledger",
        page.paragraph(
            f"Everything ever released about this table under its ledger keeps, together, {kept.guarantee()}. So "
            f"far {sign} = {gone} is spent ({share:.1%}){aside}{left}."
        ),
        page.table(("when (UTC)", "release", *asked, "acts", sign, ""), rows, numbers=(2 + len(asked), 3 + len(asked))),
        page.figure(f"Spent over time: {rate}", burn_picture(rate, table=kept.table), wide=True) if lines else "",
        *_studies(kept, sign),
    )


def _studies(kept: Ledger, sign: str) -> tuple[str, ...]:
    """What the ledger is spent for."""
    rows = [
        (
            study.name,
            study.purpose,
            printed(float(study.spent), 4),
            "the ledger’s" if study.cap is None else printed(float(study.cap), 4),
        )
        for study in kept.studies()
    ]
    if not rows:
        return ()
    return page.heading("Studies"), page.table(("study", "purpose", f"{sign} spent", "cap"), rows, numbers=(2, 3))


def mechanism(release: Release) -> str:
    """The mechanism, its parameters and the theorems it stands on."""
    claim = release.claim
    citations = claim.citations if claim is not None else ()
    # Winners have a chapter of their own: their positions would say nothing to a reader.
    rows = [(name, _value(value)) for name, value in release.parameters.items() if name != "winners"]
    kept = release.synopsis.title or release.synopsis.kind
    return page.section(
        "How it was made",
        page.paragraph(f"The mechanism is called {release.mechanism}; its result is kept as {kept}."),
        page.table(("parameter", "value"), rows) if rows else "",
        page.heading("Theorems and sources") if citations else "",
        page.bullets(citations) if citations else "",
        page.heading("Settings in words") if claim is not None and claim.notes else "",
        page.bullets(claim.notes) if claim is not None and claim.notes else "",
    )


def _value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return json.dumps(value) if isinstance(value, list | dict | Mapping) else str(value)


FILE_OF_ANSWERS = (
    "The file holds everything on this page: schema, questions, answers, guarantee, acts and citations. Check "
    "that its checksum is the one below; conspectus report writes this page again from the file alone, and "
    "conspectus ask answers further questions from it. The code that drew the noise can be attacked with "
    "conspectus audit."
)


def verification(release: Promised, source: Path | None, advice: str = FILE_OF_ANSWERS) -> str:
    """How a reader can check that this page belongs to a file, and the file to a schema."""
    rows = [("schema fingerprint (SHA-256)", release.schema.fingerprint), ("written by", f"conspectus {__version__}")]
    if source is not None:
        digest = hashlib.sha256(source.read_bytes()).hexdigest()
        rows = [("file", as_text(source.name)), ("checksum of the file (SHA-256)", digest), *rows]
    body = "".join(
        f"<tr><td>{page.escape(name)}</td><td><code>{page.escape(value)}</code></td></tr>" for name, value in rows
    )
    return page.section("How to verify", page.paragraph(advice), f"<table><tbody>{body}</tbody></table>")
