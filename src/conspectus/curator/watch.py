"""A sparse vector as the curator hands it out: questions in, yes or no out, the noisy threshold kept inside."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from conspectus.queries.workload import Workload


class WatchOver(RuntimeError):
    """A watch was asked again after its last hit."""


class Watch:
    """A sparse vector: its noisy threshold is a secret, and it ends with its last hit.

    It answers in the process that opened it alone: a fork copies the threshold, and would have its own last hit.
    """

    def __init__(
        self,
        noisy_error: Callable[[Workload, float, float], int],
        threshold: int,
        scale: float,
        *,
        hits: int = 1,
        go_on: Callable[[], None] | None = None,
        affords: Callable[[], bool] | None = None,
    ) -> None:
        self._noisy_error = noisy_error
        self._threshold = threshold
        self._scale = scale
        self._left = hits
        self._go_on = go_on
        self._affords = affords
        self._unpaid = False
        self._process = os.getpid()
        self._lock = threading.Lock()

    @property
    def over(self) -> bool:
        """Whether it has had its last hit."""
        return self._left == 0

    @property
    def unpaid(self) -> bool:
        """Whether its next question is paid for first, since the one before was a hit. Public, as its answers are."""
        return self._unpaid

    @property
    def unaffordable(self) -> bool:
        """Whether its next stretch costs more than what is left."""
        return self._unpaid and self._affords is not None and not self._affords()

    def exceeds(self, query: Workload, guess: float) -> bool:
        """Whether the guess (in counts) for a workload of one query is off by more than the threshold, noisily."""
        if len(query) != 1:
            raise ValueError("a watch is asked one query at a time")
        if os.getpid() != self._process:
            raise WatchOver("this watch belongs to the process that opened it: open another one in this process")
        with self._lock:
            if self._left == 0:
                raise WatchOver("this watch ended with its last hit: open another one")
            if self._unpaid and self._go_on is not None:
                self._go_on()  # the next stretch is paid before its first coin
            self._unpaid = False
            hit = self._noisy_error(query, guess, self._scale) >= self._threshold
            self._left -= hit
            self._unpaid = hit
            return hit
