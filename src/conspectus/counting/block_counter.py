"""The role of a counter of one block: a vector of whole numbers that adds up over any split of the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from conspectus.data.domain import CodedRows
from conspectus.data.fold import Vectors


class BlockCounter(ABC):
    """Counts one block over a share of the rows.

    Attributes:
        gathers: Whether its vector is the rows themselves, which do not add: then it must see all rows.
        held: Its vector, where that is filled row by row.
    """

    gathers = False
    held: NDArray[np.int64]

    @abstractmethod
    def add(self, chunk: CodedRows) -> None:
        """Take in some rows."""

    def parts(self) -> Vectors:
        """What it holds: one vector."""
        return (self.held,)

    def of_parts(self, parts: Vectors, rows: int) -> NDArray[np.int64]:
        """The values of the block, in its own steps, from the sum of such vectors over all rows."""
        return parts[0].copy()
