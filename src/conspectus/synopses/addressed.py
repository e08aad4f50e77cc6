"""What synopses that know records by their addresses have in common: sorted addresses, and a number for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import Domain
from conspectus.data.records.field import Elements, P
from conspectus.queries.sensitivity import fixed

from .synopsis import BadSynopsis, Synopsis


@dataclass(frozen=True, eq=False)
class Addressed(Synopsis):
    """Addresses of records of one table, sorted and distinct: `keys`."""

    domain: Domain
    keys: Elements

    def __post_init__(self) -> None:
        keys = np.array(self.keys, dtype=np.uint64)
        if keys.ndim != 1 or (keys[1:] <= keys[:-1]).any():
            raise BadSynopsis("the records of a synopsis are sorted and distinct")
        if len(keys) and int(keys[-1]) >= min(self.domain.cells, P):
            raise BadSynopsis("a record of the synopsis is no record of its table")
        self._keep("keys", keys)

    def _keep(self, name: str, values: NDArray[Any]) -> None:
        """Hold an array of one value for each record, which nobody writes to."""
        if values.shape != np.shape(self.keys):
            raise BadSynopsis("a synopsis of records has one number for each of them")
        object.__setattr__(self, name, fixed(values))

    def _taken(self, addresses: Elements, values: NDArray[Any], other: float) -> NDArray[np.float64]:
        """The values of some records, and `other` for those that are not among the keys."""
        places, there = self._found(addresses)
        if not len(self.keys):
            return np.full(len(addresses), other)
        return np.where(there, values[places], other).astype(np.float64)

    def _found(self, addresses: Elements) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Where some records stand among the keys, and which ones do."""
        if not len(self.keys):
            return np.zeros(len(addresses), dtype=np.int64), np.zeros(len(addresses), dtype=bool)
        places = np.minimum(np.searchsorted(self.keys, addresses), len(self.keys) - 1)
        return places, self.keys[places] == addresses
