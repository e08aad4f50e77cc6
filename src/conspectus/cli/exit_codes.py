"""What an error means to whoever called a command: an exit code and one sentence."""

from __future__ import annotations

import errno
import os
from typing import Any

DONE, BUG, BAD_INPUT, REFUSED, NO_MECHANISM = 0, 1, 2, 3, 4

# By class and home, so that nothing is imported before something went wrong; the first that fits decides.
_CODES: tuple[tuple[str, str, int], ...] = (
    ("conspectus.privacy.accounting", "BudgetExceeded", REFUSED),
    ("conspectus.privacy.ledger.ledger", "LedgerMismatch", REFUSED),
    ("conspectus.mechanisms.mechanism", "NoMechanism", NO_MECHANISM),
)

_OF_OUTPUTS = (errno.EAGAIN, errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC, errno.EPIPE)
"""What ends the writing of a result. Of other errors the system's words might tell which value was read."""


def explain(error: Exception) -> tuple[int, str]:
    """The exit code and the sentence for an error.

    Only errors of our own classes speak for themselves: the text of any other may quote what was read from a table.
    """
    if hasattr(error, "format_message"):  # the parser's own usage errors
        return BAD_INPUT, _of_parser(error)
    if type(error).__name__ == "Abort":
        return BUG, "interrupted"
    ours = [kind for kind in type(error).__mro__ if kind.__module__.split(".")[0] == "conspectus"]
    names = {(kind.__module__, kind.__name__) for kind in ours}
    for module, name, code in _CODES:
        if (module, name) in names:
            return code, str(error)
    if ours and isinstance(error, ValueError | LookupError):
        return BAD_INPUT, str(error)
    if isinstance(error, MemoryError):
        return BAD_INPUT, "this needs more memory than there is: ask for fewer rows, smaller marginals or wider bins"
    if isinstance(error, OSError) and error.strerror and isinstance(error.filename, str):
        return BAD_INPUT, f"{error.filename}: {error.strerror}"
    if isinstance(error, OSError) and error.errno in _OF_OUTPUTS:
        return BUG, f"the system says {os.strerror(error.errno)!r}: what was done before that stays done"
    advice = "set CONSPECTUS_DEBUG=1 to see where, away from strangers' eyes"
    return BUG, f"internal error ({type(error).__name__}): {advice}"


def _of_parser(error: Any) -> str:
    """What the parser says, and what a command takes that was given too much: for `plan` that is no table."""
    said, context = str(error.format_message()), getattr(error, "ctx", None)
    if "unexpected extra argument" not in said or context is None:
        return said
    takes = [
        (one.metavar or one.name or "").upper() for one in context.command.params if one.param_type_name == "argument"
    ]
    if takes:
        return f"{said}: {context.command_path} takes {', '.join(takes)}; write a text with spaces in quotes"
    what = "it reads no table, and --rows says how many rows to plan for; " if context.info_name == "plan" else ""
    return f"{said}: {context.command_path} takes options alone: {what}--help lists them"
