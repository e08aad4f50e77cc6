"""The chapters about the promise: the guarantee in words, what it means for one person, what it does not promise."""

from __future__ import annotations

from conspectus.releases import Release

from . import page
from .meaning import PRIORS, Meaning, change_of, factor_text, meaning_of, percent

WEAK = 10.0
"""Above this ε the worst case is no comfort, and the page says so."""


def summary(release: Release) -> str:
    """The first lines: what this is, in a few numbers and sentences."""
    guarantee, meaning = release.guarantee, meaning_of(release.guarantee)
    subject = f"Release of “{release.schema.name}”"
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
    total = release.total
    rows = f"{total.rows:,}" if total.exact else f"about {total.rows:,}"
    parts.append(
        page.facts(
            [
                (
                    f"{meaning.epsilon:.4g}",
                    "ε, the privacy loss" + (f" implied at δ = {meaning.delta:g}" if meaning.implied else ""),
                ),
                (f"{meaning.delta:.3g}" if meaning.delta else "0", "δ, the chance that ε is exceeded"),
                *([(f"{guarantee.rho:.4g}", "ρ, concentrated privacy loss")] if guarantee.rho is not None else []),
                ("a row" if guarantee.unit == "row" else guarantee.unit, "the unit that is protected"),
                (guarantee.neighbours, "what the promise compares"),
                (rows, "rows, a public number" if total.exact else "rows, a noisy and paid estimate"),
                (f"{len(release.workload):,}", "questions answered"),
                (release.mechanism, "mechanism"),
            ]
        )
    )
    parts.append(page.paragraph(_in_short(release, meaning), "lead"))
    parts += [page.warning(text[0].upper() + text[1:] + ".") for text in guarantee.warnings]
    return "\n".join(parts)


def _in_short(release: Release, meaning: Meaning) -> str:
    queries = f"{len(release.workload):,} question{'s' if len(release.workload) != 1 else ''}"
    return (
        f"This release answers {queries} about {len(release.schema.columns)} columns. Random noise was added so "
        f"that whoever reads it can hardly tell whether any one {_unit(release)} was different: it changes the "
        "odds of any "
        f"statement about one of them by a factor of at most {factor_text(meaning)}."
    )


def _unit(release: Release) -> str:
    unit = release.schema.unit
    return "row" if unit.kind == "row" else f"{unit.column}"


def guarantee(release: Release) -> str:
    """The guarantee, as it stands and in words."""
    held, meaning = release.guarantee, meaning_of(release.guarantee)
    parts = [page.paragraph(f"The release keeps {_exact(release)}", "promise")]
    parts.append(
        page.paragraph(
            f"Imagine two versions of the table that differ in one thing: {change_of(held)}. The promise is that every "
            f"possible output was about as likely under both, up to a factor of {factor_text(meaning)} (that is "
            "e to the "
            f"power ε){_exception(meaning)} It holds whatever else an attacker knows, now or later, and whatever is "
            "computed from the release afterwards."
        )
    )
    if held.unit == "row":
        parts.append(
            page.paragraph(
                "The unit is a row. Where one person has several rows, the promise for that person is weaker: with k "
                f"rows, ε becomes k times {meaning.epsilon:.4g}."
            )
        )
    if meaning.epsilon > WEAK:
        parts.append(
            page.warning(
                f"An ε of {meaning.epsilon:.4g} is large: in the worst case an attacker may learn a great deal "
                "about one unit.",
                "A weak promise.",
            )
        )
    return page.section("The guarantee", *parts)


def _exact(release: Release) -> str:
    import dataclasses

    return str(dataclasses.replace(release.guarantee, warnings=(), private=True)) + "."


def _exception(meaning: Meaning) -> str:
    if not meaning.delta:
        return ", without exception."
    return f", up to a probability of δ = {meaning.delta:.3g}, for which nothing is promised."


def beliefs(release: Release) -> str:
    """What ε means here: from what an attacker believed to what the release may make them believe."""
    meaning = meaning_of(release.guarantee)
    rows = []
    for prior in PRIORS:
        low, high = meaning.beliefs(prior)
        rows.append((percent(prior), percent(low), percent(high)))
    outside = (
        ""
        if not meaning.delta
        else f" The bounds may fail with a probability of at most about δ = {meaning.delta:.3g}."
    )
    return page.section(
        "What ε means here",
        page.paragraph(
            "Whatever an attacker believed about one person before reading this release, here is how far the "
            "release itself "
            "can move that belief, compared with a release in which that person’s data had been something else"
            + _or_absent(release)
            + "."
        ),
        page.table(("the attacker believed", "afterwards at least", "afterwards at most"), rows, numbers=(0, 1, 2)),
        page.paragraph(
            "Put as a bet: an attacker who must tell two such tables apart, when both are equally likely, is "
            "right at most "
            f"{percent(meaning.best_guess)} of the time, where blind guessing gives 50 %.{outside}"
        ),
        page.heading("What it does not promise"),
        page.bullets(
            [
                "Facts about everyone remain facts about each: if smoking is shown to cause illness, a "
                "smoker’s risk is "
                "known, whether or not that person is in the table.",
                "Groups are protected less than individuals: for two people together ε is "
                f"{2 * meaning.epsilon:.4g}, for ten "
                f"{10 * meaning.epsilon:.4g}.",
                "Other releases about the same people add to this one. A ledger keeps their sum below a cap; releases "
                "outside it are not counted.",
                "The schema itself (names, values and bins of the columns) is published as it stands and is "
                "not protected.",
            ]
        ),
    )


def _or_absent(release: Release) -> str:
    return "" if release.guarantee.neighbours == "replace" else ", or had not been there at all"
