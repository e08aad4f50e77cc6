"""The steps of a stream in its ledger: what keeps an old copy of its file, or a changed one, from going on.

A file can be restored from a backup, and then knows nothing of the steps that were done since. The ledger is not
restored with it. A file can be changed, too, and then without its noises the next output would be a true count. So
each step leaves three marks in the ledger, which cost nothing:

    the file says durably under which random mark it begins a step          `StreamFile.intend`
    the ledger takes "begun STEP MARK", if it knows as many lines as we do  `StepMarks.begin`
    the noise of the step is drawn
    the ledger takes "drawn STEP SEAL", of what the file is about to hold   `StepMarks.drawn`
    output and state go to the file
    the ledger takes "done STEP"                                            `StepMarks.done`
    the output is shown

Before the first step it takes "opened SEAL". A file may go on only if the ledger's last step was begun under a mark of
its own, if it has as many steps as are done, or one more if it died between the last two lines of the above, and if it
has the seal that the ledger was told for this number of steps.
"""

from __future__ import annotations

from conspectus.privacy.events import Event
from conspectus.privacy.ledger.ledger import Ledger
from conspectus.privacy.ledger.reservation import Reservation, StaleCopy

from .stream_file import Step, StreamError, StreamFile

OTHER_LEDGER = "this ledger has no such stream: give the ledger with which the stream was opened"
CHANGED = "this file is not the one that its ledger knows: it was changed since, use the one that was written"
_SEALED = ("opened", "drawn")
OLD_COPY = "this file is an old copy of its stream, which went on without it: use the newest file"


class StepMarks:
    """The marks of one stream in its ledger, how many lines its owner knows there, and how many steps are done."""

    def __init__(self, reservation: Reservation, known: int, begun: str = "", done: int = 0) -> None:
        self._reservation, self._known, self._begun, self._done = reservation, known, begun, done

    @classmethod
    def of_new(cls, reservation: Reservation, first: Step) -> StepMarks:
        """Those of a stream whose one act was just debited, and whose file is about to be written."""
        marks = cls(reservation, 1)
        marks._mark(f"opened {first.seal}")
        return marks

    @classmethod
    def of_file(cls, file: StreamFile, ledger: Ledger, number: int, act: Event) -> StepMarks:
        """Those of a stream that goes on, after a look whether its file is the newest one, as it was written.

        Guarantee: of all copies of a file only those are gone on with that hold the outputs of every step that was
        shown; and only with the terms, outputs and state that were written there.
        """
        entries = ledger.entries_of(number)
        lines = [entry for entry in entries if entry.kind == "debit"]
        if not lines:
            raise StreamError(OTHER_LEDGER)
        if [entry.event for entry in lines if entry.event is not None] != [act]:
            raise StreamError(CHANGED)
        reservation = Reservation(ledger.going_on(entries[0]), number)
        labels = [entry.label.split() for entry in lines if entry.event is None]
        begun = [label[1:] for label in labels if label[0] == "begun"]
        done = sum(label[0] == "done" for label in labels)
        steps = file.steps()
        if not begun:
            if steps:
                raise StreamError(OLD_COPY)
            _check_seal(file, steps, labels)
            return cls(reservation, len(lines))
        last, mark = int(begun[-1][0]), begun[-1][1]
        marks = cls(reservation, len(lines), mark, done)
        if mark not in file.marks() or steps not in (last, last + 1) or done not in (last, last + 1) or steps < done:
            raise StreamError(OLD_COPY)
        _check_seal(file, steps, labels)
        if steps > done:  # it died after the step was in the file, and before the ledger knew
            marks.done(last)
        return marks

    def begin(self, step: int, file: StreamFile) -> None:
        """Say that a step is begun, before anything is drawn for it: in its file, and in the ledger.

        Guarantee: when this returns, no other copy of the file begins this step, and it was not done before.
        """
        if step != self._done:  # a file that lost a step while it was open would do it again
            raise StreamError(CHANGED)
        mark = file.intend(self._begun)
        self._mark(f"begun {step} {mark}")
        self._begun = mark

    def drawn(self, step: int, after: Step) -> None:
        """Say what the file is about to hold: from then on nothing else will do for this step.

        Guarantee: the mark tells nobody without the salt anything about the state.
        """
        self._mark(f"drawn {step} {after.seal}")

    def done(self, step: int) -> None:
        """Say that a step is in the file, before anybody is shown what it published."""
        self._mark(f"done {step}")
        self._done = step + 1

    def _mark(self, label: str) -> None:
        try:
            self._reservation.mark(label, after=self._known)
        except StaleCopy:
            raise StreamError(OLD_COPY) from None
        self._known += 1


def _check_seal(file: StreamFile, steps: int, labels: list[list[str]]) -> None:
    """Refuse a file that is not what the ledger was told of this number of steps, where it was told something."""
    seals = {int(label[1]) + 1 if label[0] == "drawn" else 0: label[-1] for label in labels if label[0] in _SEALED}
    # A stream of an earlier version told nothing of its opening, nor of the steps that it did under that version.
    known = file.seal() if steps in seals or 0 in seals else None
    if known != seals.get(steps) or (known is None and 0 in seals):
        raise StreamError(CHANGED)
