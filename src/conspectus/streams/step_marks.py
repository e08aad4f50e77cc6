"""The steps of a stream in its ledger: what keeps an old copy of its file from drawing for a step a second time.

A file can be restored from a backup, and then knows nothing of the steps that were done since. The ledger is not
restored with it. So each step leaves two marks there, which cost nothing:

    the file says durably under which random mark it begins a step          `StreamFile.intend`
    the ledger takes "begun STEP MARK", if it knows as many lines as we do  `StepMarks.begin`
    the noise of the step is drawn; output and state go to the file
    the ledger takes "done STEP"                                            `StepMarks.done`
    the output is shown

A file may go on only if the ledger's last step was begun under a mark of its own, and it has as many steps as are done,
or one more if it died between the last two lines of the above.
"""

from __future__ import annotations

from conspectus.privacy.ledger.ledger import Ledger
from conspectus.privacy.ledger.reservation import Reservation, StaleCopy

from .stream_file import StreamError, StreamFile

OTHER_LEDGER = "this ledger has no such stream: give the ledger with which the stream was opened"
OLD_COPY = "this file is an old copy of its stream, which went on without it: use the newest file"


class StepMarks:
    """The marks of one stream in its ledger, and how many lines its owner knows there."""

    def __init__(self, reservation: Reservation, known: int, begun: str = "") -> None:
        self._reservation, self._known, self._begun = reservation, known, begun

    @classmethod
    def of_new(cls, reservation: Reservation) -> StepMarks:
        """Those of a stream whose one act was just debited."""
        return cls(reservation, 1)

    @classmethod
    def of_file(cls, file: StreamFile, ledger: Ledger, number: int) -> StepMarks:
        """Those of a stream that goes on, after a look whether its file is the newest one.

        Guarantee: of all copies of a file only those are gone on with that hold the outputs of every step that was
        shown.
        """
        entries = ledger.entries_of(number)
        lines = [entry for entry in entries if entry.kind == "debit"]
        if not lines:
            raise StreamError(OTHER_LEDGER)
        reservation = Reservation(ledger.going_on(entries[0]), number)
        labels = [entry.label.split() for entry in lines if entry.event is None]
        begun = [label[1:] for label in labels if label[0] == "begun"]
        done = sum(label[0] == "done" for label in labels)
        steps = file.steps()
        if not begun:
            if steps:
                raise StreamError(OLD_COPY)
            return cls(reservation, len(lines))
        last, mark = int(begun[-1][0]), begun[-1][1]
        marks = cls(reservation, len(lines), mark)
        if mark not in file.marks() or steps not in (last, last + 1) or done not in (last, last + 1) or steps < done:
            raise StreamError(OLD_COPY)
        if steps > done:  # it died after the step was in the file, and before the ledger knew
            marks.done(last)
        return marks

    def begin(self, step: int, file: StreamFile) -> None:
        """Say that a step is begun, before anything is drawn for it: in its file, and in the ledger.

        Guarantee: when this returns, no other copy of the file begins this step.
        """
        mark = file.intend(self._begun)
        self._mark(f"begun {step} {mark}")
        self._begun = mark

    def done(self, step: int) -> None:
        """Say that a step is in the file, before anybody is shown what it published."""
        self._mark(f"done {step}")

    def _mark(self, label: str) -> None:
        try:
            self._reservation.mark(label, after=self._known)
        except StaleCopy:
            raise StreamError(OLD_COPY) from None
        self._known += 1
