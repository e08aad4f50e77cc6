"""The chapters about single values: what they are, how far they may be off, and how they were made."""

from __future__ import annotations

from conspectus.queries.blocks.subsample_results import Numbers
from conspectus.stability.aggregated import Aggregated
from conspectus.stability.value_release import SingleValue, ValueRelease, plain

from . import page, promise

FILE_OF_VALUES = (
    "The file holds everything on this page: schema, what was asked, the outcomes of the private acts, guarantee and "
    "acts. Values and intervals are computed from these when it is read. Check that its checksum is the one below; "
    "conspectus report writes this page again from the file alone. The code that drew the noise can be attacked with "
    "conspectus audit."
)
_BOOK = "Dwork and Roth, The Algorithmic Foundations of Differential Privacy (2014)"
_BASES = {
    "measured": "measured, with noise of a known law",
    "exact": "the exact value, published since it is stable",
    "chosen": "chosen by its rank, with noise",
    "nothing": "nothing was published",
}


def summary(release: ValueRelease) -> str:
    """The first lines: what this is, in a few numbers and sentences."""
    wanted, count = release.plan.wanted, len(release.values)
    named = "one value" if count == 1 else f"{count:,} values"
    what = f"the {wanted.kind} of {', '.join(wanted.names)}"
    if isinstance(wanted, Aggregated):
        what += f" over {wanted.subsampling.count:,} subsamples of the table"
    begin = f"This release holds {named}: {what}."
    return promise.opening(
        f"Release of “{release.schema.name}”",
        release,
        [(f"{count:,}", "value asked for" if count == 1 else "values asked for")],
        begin,
    )


def values(release: ValueRelease) -> str:
    """The values with their intervals, and what must be said of them."""
    rows = [
        (one.name, "nothing" if one.value is None else plain(one.value), _interval(one), _BASES[one.basis])
        for one in release.values
    ]
    said = dict.fromkeys(one.note for one in release.values if one.note)
    return page.section(
        "What was released",
        page.table(
            ("name", "value", f"{100 * release.confidence:.6g} % interval", "what it rests on"), rows, numbers=(1,)
        ),
        page.bullets([page.sentence(note) for note in (*said, *release.notes)]),
        page.paragraph(
            "An interval holds the true value with the stated probability, over the noise. Where there is none, the "
            "act has no law from which one would follow.",
            "note",
        ),
    )


def how(release: ValueRelease) -> str:
    """The mechanism, and what its owner declared."""
    wanted = release.plan.wanted
    rows = [("what", f"the {wanted.kind}"), ("of", ", ".join(wanted.names))]
    if isinstance(wanted, Aggregated):
        of, results = wanted.subsampling, wanted.subsampling.results
        rows += [
            ("blocks (subsamples of the table)", f"{of.count:,}"),
            ("longest run of the function on one", f"{of.seconds:g} s"),
            ("public seed of the subsamples", str(of.public_seed)),
        ]
        if isinstance(results, Numbers):
            rows += [
                (f"range of {name}", f"{low:g} to {high:g}") for name, (low, high) in zip(wanted.names, results.ranges)
            ]
        else:
            rows.append(("values that it may return", ", ".join(map(str, results.values))))
    if release.plan.within is not None:
        rows.append(("positions by which one person may move it", f"{release.plan.within:,}"))
    sources = [_SOURCES[release.mechanism]]
    sources += ["§7.1: subsample and aggregate"] if isinstance(wanted, Aggregated) else []
    return page.section(
        "How it was made",
        page.paragraph(f"The mechanism is called {release.mechanism}."),
        page.table(("parameter", "value"), rows),
        page.heading("Theorems and sources"),
        page.bullets([f"{_BOOK}, {source}" for source in sources]),
    )


_SOURCES = {
    "laplace": "Theorem 3.6: Laplace noise",
    "gaussian": "Theorem A.1: Gaussian noise",
    "permute-and-flip": "§3.4: the largest with one-sided noise",
    "exponential": "Theorem 3.10: the exponential mechanism",
    "noisy-max": "Claim 3.9, corrected: report noisy max",
    "stable": "§7.3, Algorithm 13: distance to instability",
    "propose-test-release": "§7.2: propose-test-release",
}


def _interval(one: SingleValue) -> str:
    return "none" if one.low is None else f"{plain(one.low)} to {plain(one.high)}"
