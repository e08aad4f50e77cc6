"""What a session has learned, as a release."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from conspectus.mechanisms.online_mechanism import OnlineProposal, OnlineRun
from conspectus.privacy.events import Event
from conspectus.queries.block import Block
from conspectus.queries.workload import Workload
from conspectus.releases.guessed_answers import GuessedAnswers
from conspectus.releases.release import Release

from .given_answer import Given
from .questions import stored

if TYPE_CHECKING:
    from .session import Session


def what_was_learned(
    session: Session,
    loop: OnlineRun,
    given: Iterable[tuple[list[object], Given]],
    proposal: OnlineProposal,
    events: tuple[Event, ...],
) -> Release:
    """The synopsis of a run with all questions asked so far, under the session's guarantee.

    It answers these as the session did: guesses keep the bound that their watch proved.
    """
    history = list(given)
    domain = session.schema.domain
    asked = stored(domain, [block for question, _ in history for block in question])
    return Release(
        schema=session.schema,
        workload=Workload(domain, tuple(_joined(asked.blocks))),
        answers=np.array([one.count for _, one in history], dtype=np.float64) / loop.total.divisor,
        synopsis=loop.synopsis(),
        guarantee=session.guarantee,
        mechanism=session.mechanism,
        parameters=proposal.parameters(),
        claim=proposal.claim,
        certificate=None,
        measured=loop.measured(),
        events=events,
        guessed=GuessedAnswers.of([one.margin if one.basis == "guessed" else None for _, one in history]),
    )


def _joined(blocks: Sequence[Block]) -> Iterator[Block]:
    """Listed queries put together, so that a long history is a short list of blocks."""
    for kind, run in groupby(blocks, key=type):
        if hasattr(kind, "join"):
            yield kind.join(list(run))
        else:
            yield from run
