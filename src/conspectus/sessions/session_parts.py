"""What the parts of a session share: each part is written beside what it does, and all are joined in one class."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from conspectus.curator.curator import Curator
from conspectus.data.schema import Schema
from conspectus.mechanisms.online_mechanism import OnlineRun, SessionProblem
from conspectus.privacy.accounting import Filter

from .account import Account
from .given_answer import Given
from .questions import Question
from .store import Standing, Store

ENDED = "this session was ended, and what it did not spend went back: open another one"


class SessionParts:
    """What `Session` has, for the parts that it is made of."""

    schema: Schema
    _problem: SessionProblem
    _curator: Curator
    _account: Account
    _store: Store
    _lock: threading.RLock
    _loop: OnlineRun | None
    _version: int
    _settled: bool
    _check_here: Callable[[], None]
    _alone: Callable[[], AbstractContextManager[Standing]]
    _learned: Callable[[], OnlineRun]
    _fresh: Callable[[], Filter]
    _over: Callable[[Standing], bool]
    _put: Callable[[Question], tuple[Given, bool]]
    _spending: Callable[[], AbstractContextManager[Filter]]
