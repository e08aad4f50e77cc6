"""The terms of a session: what it was opened with, for good."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from conspectus.privacy.guarantee import Budget
from conspectus.privacy.relation import Neighbours


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a session was opened with, for good. `ledger` and `reservation` say where its acts are debited."""

    session: str
    mechanism: str
    settings: Mapping[str, Any]
    budget: Budget
    neighbours: Neighbours
    questions: int
    rows: int | None
    fingerprint: str
    unit: str
    filtered: bool
    concentrated: bool = False
    ledger: str | None = None
    reservation: int | None = None
    source: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "settings": dict(self.settings), "source": dict(self.source)}

    @property
    def digest(self) -> str:
        """All that was agreed on, in few letters, for the ledger to hold. Where the ledger is comes later, and is not.

        A term at its default is left out, so that a term added in later versions leaves older digests as they are.
        """
        usual = {term.name: term.default for term in fields(self)}
        agreed = {name: value for name, value in self.to_json().items() if value not in (usual[name], {})}
        kept = {name: value for name, value in agreed.items() if name not in ("ledger", "reservation")}
        return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()

    @classmethod
    def from_json(cls, stored: Any) -> Terms:
        read = {"budget": Budget(**stored["budget"]), "neighbours": Neighbours.of(stored["neighbours"])}
        terms = cls(**{**stored, **read})
        numbers = (terms.questions, *(value for value in (terms.rows, terms.reservation) if value is not None))
        texts = (terms.session, terms.mechanism, terms.fingerprint, terms.unit)
        if any(type(number) is not int or number < 0 for number in numbers):
            raise ValueError("terms hold whole numbers")
        if not all(isinstance(text, str) for text in texts) or type(terms.filtered) is not bool:
            raise ValueError("terms name a session, a mechanism, a schema and a unit")
        if not isinstance(terms.settings, dict) or not isinstance(terms.source, dict):
            raise ValueError("terms hold settings")
        if not all(isinstance(text, str | None) for text in (terms.ledger, *terms.source.values())):
            raise ValueError("terms say in words where things are")
        return terms
