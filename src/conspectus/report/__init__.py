"""The provenance of a release for people: one self-contained HTML page that an ethics board can read."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from conspectus.privacy.ledger.ledger import Ledger, LedgerMismatch
from conspectus.releases.release import Release
from conspectus.stability.value_release import ValueRelease

from . import contents, page, promise, provenance, usefulness, values_page, winners_page


def write_report(
    release: Release | ValueRelease,
    path: str | Path,
    *,
    ledger: Ledger | str | Path | None = None,
    source: str | Path | None = None,
    owner: str | None = None,
    purpose: str | None = None,
) -> None:
    """Write the report of a release, or of single values.

    `source` is the file that it was saved as, whose checksum the page then shows.

    `owner` is who answers for it, and `purpose` what it is for, in the owner's words.
    """
    kept = ledger if ledger is None or isinstance(ledger, Ledger) else Ledger.open(ledger)
    if kept is not None:
        ours = (release.schema.fingerprint, release.guarantee.neighbours, release.guarantee.unit)
        if ours != (kept.schema_fingerprint, kept.neighbours, kept.unit):
            raise LedgerMismatch("this ledger is bound to another table, unit or relation: give this release's own")
    file = None if source is None else Path(source)
    text = report_of(release, ledger=kept, source=file, owner=owner, purpose=purpose)
    Path(path).write_text(text, encoding="utf-8")


def report_of(
    release: Release | ValueRelease,
    *,
    ledger: Ledger | None = None,
    source: Path | None = None,
    owner: str | None = None,
    purpose: str | None = None,
) -> str:
    """The report as HTML: the promise in plain words and the pictures first, proofs and parameters last."""
    today = datetime.now(UTC).date().isoformat()
    footer = f"<footer>Written on {today} from the release alone; no row of the table was read.</footer>"
    title, named = f"Privacy report: {release.schema.name}", promise.answerable(owner, purpose, today)
    if isinstance(release, ValueRelease):
        chapters = [
            values_page.summary(release),
            named,
            values_page.values(release),
            promise.guarantee(release),
            promise.beliefs(release),
            provenance.acts(release),
            provenance.ledger(ledger),
            values_page.how(release),
            provenance.verification(release, source, values_page.FILE_OF_VALUES),
            footer,
        ]
        return page.page(title, chapters)
    return page.page(
        title,
        [
            promise.summary(release),
            named,
            *([winners_page.winners(release)] if release.chooses else _tables(release)),
            promise.guarantee(release),
            promise.beliefs(release),
            contents.schema(release),
            contents.accuracy(release),
            provenance.acts(release),
            provenance.ledger(ledger),
            provenance.mechanism(release),
            provenance.verification(release, source),
            footer,
        ],
    )


def _tables(release: Release) -> list[str]:
    """What it is good for, and its pictures."""
    return [usefulness.good_for(release), contents.pictures(release)]
