"""The chapters about the promise: the guarantee in words, what it means for one person, what it does not promise."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Protocol

from conspectus.data.schema import Schema
from conspectus.privacy.events import Event
from conspectus.privacy.guarantee import LARGE_EPSILON, Guarantee, printed
from conspectus.privacy.relation import Neighbours
from conspectus.releases.release import Release
from conspectus.synopses.synopsis import Total

from . import page
from .meaning import PRIORS, Meaning, change_of, factor_text, group_of, meaning_of, percent, rarity
from .pictures import spans


class Promised(Protocol):
    """Whatever keeps a promise, and can account for its private acts: a release, or single values."""

    @property
    def schema(self) -> Schema: ...
    @property
    def guarantee(self) -> Guarantee: ...
    @property
    def mechanism(self) -> str: ...
    @property
    def events(self) -> tuple[Event, ...]: ...
    @property
    def declared(self) -> bool: ...


def summary(release: Release) -> str:
    """The first lines: what this is, in a few numbers and sentences."""
    own = [_rows(release.total)] if release.counts_rows else []
    about = _about(release)
    if release.chooses:
        found = len(release.winners)
        bought = "with fresh counts" if release.parameters["counts"] else "without their counts"
        own += [(f"{found:,}", "largest counts found"), (f"{release.questions:,}", "questions looked at")]
        begin = (
            f"This release looked at {_many(release.questions, 'question')}{about} and names {found:,} of them that "
            f"have the largest counts, or nearly so, {bought}. It answers no other question."
        )
    else:
        own.append((f"{release.answered:,}", "questions answered"))
        begin = f"This release answers {_many(release.answered, 'question')}{about}."
    return opening(f"Release of “{release.schema.name}”", release, own, begin)


def _about(release: Release) -> str:
    """How many columns the questions read; of questions that are left out it is not known, and any column may be."""
    columns = len(release.schema.columns) if release.left_out else len(release.workload.columns)
    return f" about {_many(columns, 'column')}" if columns else ""


def _many(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def opening(subject: str, release: Promised, own: Sequence[tuple[str, str]], begin: str) -> str:
    """The first lines of a report: its subject, the guarantee and its own facts in numbers, and a sentence."""
    guarantee, meaning = release.guarantee, meaning_of(release.guarantee)
    but = f", but for δ = {printed(guarantee.missing, 3)} of published keys" if guarantee.missing else ""
    head = (
        "<header>"
        + page.paragraph("Privacy report", "eyebrow")
        + f"<h1>{page.escape(subject)}</h1>"
        + page.paragraph(
            "What was published about this table, what it promises to the people in it, and how to check it."
        )
        + "</header>"
    )
    parts = [head]
    if not guarantee.private:
        parts.append(
            page.warning("its coins came from a seed, as only tests do: anyone can undo its noise.", "NOT PRIVATE:")
        )
    parts.append(
        page.facts(
            [
                (
                    printed(meaning.epsilon, 4),
                    "ε, the privacy loss" + (f" implied at δ = {printed(meaning.delta, 3)}" if meaning.implied else ""),
                ),
                (rarity(meaning.delta), "δ, the slack: what ε leaves out"),
                *(
                    [(printed(guarantee.rho, 4), f"ρ, concentrated privacy loss{but}")]
                    if guarantee.rho is not None
                    else []
                ),
                ("a row" if guarantee.unit == "row" else guarantee.unit, "the unit that is protected"),
                (
                    "replaced" if guarantee.neighbours is Neighbours.REPLACE else "added or removed",
                    "what may happen to one unit",
                ),
                *own,
                (release.mechanism, "mechanism"),
            ]
        )
    )
    parts.append(page.paragraph(_in_short(release, begin, meaning), "lead"))
    parts += [page.warning(page.sentence(text)) for text in guarantee.warnings]
    return "\n".join(parts)


def answerable(owner: str | None, purpose: str | None, today: str) -> str:
    """Who answers for the release, what it is for, and the day of the report."""
    told = [("Answers for it", owner or "not named"), ("Purpose", purpose or "not stated"), ("Report of", today)]
    return page.table(("", ""), told)


def _rows(total: Total) -> tuple[str, str]:
    if total.exact:
        return f"{total.rows:,}", "rows, a public number"
    return f"about {total.rows:,}", "rows, a noisy and paid estimate"


def _in_short(release: Promised, begin: str, meaning: Meaning) -> str:
    unit = "row" if release.schema.unit.kind == "row" else str(release.schema.unit.column)
    if not release.guarantee.private:
        return begin
    slack = f", up to a slack of δ = {printed(meaning.delta, 3)}" if meaning.delta else ""
    return (
        f"{begin} Random noise stands between it and the table: reading it changes the odds of any statement about "
        f"any one {unit} by a factor of at most {factor_text(meaning)}{slack}."
    )


def guarantee(release: Promised) -> str:
    """The guarantee, as it stands and in words."""
    held, meaning = release.guarantee, meaning_of(release.guarantee)
    if not held.private:
        return page.section("The guarantee", page.paragraph("There is none: this release was made for a test."))
    plain = dataclasses.replace(held, warnings=())
    outside = f", up to a probability of δ = {printed(meaning.delta, 3)}, for which nothing is promised"
    parts = [
        page.paragraph(f"The release keeps {plain}.", "promise"),
        page.paragraph(
            f"Imagine two versions of the table that differ in one thing: {change_of(held)}. The promise is that "
            f"every possible output was about as likely under both: within a factor of {factor_text(meaning)}, "
            f"which is e to the power ε{outside if meaning.delta else ''}. It holds whatever else an attacker "
            "knows, now or later, and whatever is computed from the release afterwards."
        ),
    ]
    if held.unit == "row":
        parts.append(
            page.paragraph(
                "The unit is a row. Where one person has several rows, the promise for that person is weaker: with "
                f"k rows, {_growth(held, meaning)}."
            )
        )
    if meaning.epsilon > LARGE_EPSILON:
        said = f"An ε of {printed(meaning.epsilon, 4)} is large: an attacker may learn a great deal about one unit."
        parts.append(page.warning(said, "A weak promise."))
    return page.section("The guarantee", *parts)


def _growth(held: Guarantee, meaning: Meaning) -> str:
    """How a promise grows with the number k of units that it is about."""
    linear = f"ε becomes k times {printed(meaning.epsilon, 4)}"
    if not meaning.delta:
        return linear
    power = f"{linear} and δ becomes k·e^((k−1)·{printed(meaning.epsilon, 4)}) times {printed(meaning.delta, 3)}"
    if held.rho is None or held.missing:
        return power
    return f"ρ becomes k² times {printed(held.rho, 4)}; without it, {power}"


def beliefs(release: Promised) -> str:
    """What ε means here: from what an attacker believed to what the release may make them believe."""
    if not release.guarantee.private:
        return ""
    meaning = meaning_of(release.guarantee)
    moved = [(prior, *meaning.beliefs(prior)) for prior in PRIORS]
    drawn = spans(
        [(f"{100 * prior:.0f} %", prior, low, high) for prior, low, high in moved], title="How far beliefs can move"
    )
    absent = "" if release.guarantee.neighbours is Neighbours.REPLACE else ", or had not been there at all"
    outside = f" All this is up to the slack δ = {printed(meaning.delta, 3)}." if meaning.delta else ""
    return page.section(
        "What ε means here",
        page.paragraph(
            "Take an attacker who knows everything about everyone else in the table, and believes something about "
            "one person. Here is how far this release can move that belief, beyond what it would have done had "
            f"that person’s data been something else{absent}."
        ),
        page.table(
            ("the attacker believed", "afterwards at least", "afterwards at most"),
            [(f"{100 * prior:.0f} %", percent(low, up=False), percent(high, up=True)) for prior, low, high in moved],
            numbers=(1, 2),
        ),
        page.figure("From each belief (dot), the furthest this release can move it (bar)", drawn, wide=True),
        page.paragraph(
            "Put as a bet: an attacker who must tell two such tables apart, when both are equally likely, is right "
            f"at most {percent(meaning.best_guess, up=True)} of the time, where blind guessing gives 50 %.{outside}"
        ),
        page.heading("What it does not promise"),
        page.bullets(_limits(release.guarantee)),
    )


def _limits(held: Guarantee) -> list[str]:
    return [
        "Facts about everyone remain facts about each: if smoking is shown to cause illness, a smoker’s risk is "
        "known, whether or not that person is in the table.",
        f"Groups are protected less than individuals: for two people together {_together(held, 2)}, for ten "
        f"{_together(held, 10)}.",
        "Other releases about the same people add to this one. A ledger keeps their sum below a cap; releases "
        "outside it are not counted.",
        "The schema itself (names, values and bins of the columns) is published as it stands and is not protected.",
    ]


def _together(held: Guarantee, people: int) -> str:
    found = group_of(held, people)
    if found is None:
        return "nothing is promised"
    return f"ε is {printed(found.epsilon, 4)}" + (f" and δ is {printed(found.delta, 3)}" if found.delta else "")
