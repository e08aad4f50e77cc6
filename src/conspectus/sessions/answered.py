"""Answers that a session has given, found beside the session while it is busy with other questions.

Post-processing: an answer that stands in the session's file is public, and may be told again at any time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

from conspectus.data.schema import Schema
from conspectus.queries.language import from_sql as language
from conspectus.queries.workload import Workload
from conspectus.synopses.synopsis import Total

from .given_answer import Given
from .live_answer import LiveAnswer, shown
from .questions import Question, canonical, stored
from .store import Store

_TEXTS = 8_192


class Answered:
    """A reader of a session's file. It never takes the session's lock, and sees an answer once it was committed.

    Its file is read by one thread at a time. Texts of questions are remembered with their meaning: to parse one takes
    twenty times as long as to find its answer. What one means, and the words of what was asked, may be found by any
    thread: they follow from texts and the schema alone.
    """

    def __init__(self, path: Path, schema: Schema, total: Total) -> None:
        self._store = Store.open(path)
        self._schema, self._total = schema, total
        self._texts: OrderedDict[tuple[str, bool], Question] = OrderedDict()
        self._lock = threading.Lock()

    def known(self, text: str, *, snap: bool = False) -> Question | None:
        """What a text asks that was read before; None for any other."""
        with self._lock:
            found = self._texts.get((text, snap))
            if found is not None:
                self._texts.move_to_end((text, snap))
            return found

    def question(self, text: str, *, snap: bool = False) -> Question:
        """What a text asks, in its one form; refused as `ask` would."""
        found = self.known(text, snap=snap)
        if found is None:
            found = canonical(self._schema, text, snap=snap)
            with self._lock:
                self._texts[text, snap] = found
                while len(self._texts) > _TEXTS:
                    self._texts.popitem(last=False)
        return found

    def find(self, asked: Question, *, confidence: float, bought: bool = False) -> LiveAnswer | None:
        """The answer that was given to a question; with `bought`, only one that was measured for itself."""
        given = self._store.find(asked.key)
        if given is None or (bought and not given.bought):
            return None
        return shown(given, asked, self._total, confidence=confidence, repeated=True)

    def kept(self, most: int) -> list[tuple[list[Any], Given]]:
        """The last questions with their answers, as the file has them."""
        return list(self._store.history(most))

    def history(self, kept: list[tuple[list[Any], Given]]) -> list[tuple[str, LiveAnswer, float]]:
        """The same in words, with what each cost, the newest first."""
        told = []
        for blocks, given in kept:
            workload = stored(self._schema.domain, blocks)
            asked = Question(workload, "", "", _words(self._schema, workload))
            answer = shown(given, asked, self._total, confidence=0.95, repeated=True)
            told.append((asked.words or "a question that no predicate says", answer, float(given.price)))
        return told[::-1]

    def close(self) -> None:
        """Let go of the file."""
        self._store.close()


def _words(schema: Schema, workload: Workload) -> str | None:
    try:
        return language.to_sql(schema, workload.query(0))
    except (ValueError, LookupError):  # a list of records, or a long parity
        return None
