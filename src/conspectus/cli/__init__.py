"""The command line: parse, call one function, print. Exit codes and messages depend on public inputs alone."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence

DONE, BUG, BAD_INPUT, REFUSED, NO_MECHANISM = 0, 1, 2, 3, 4

# By class and home, so that nothing is imported before something went wrong; the first that fits decides.
_CODES: tuple[tuple[str, str, int], ...] = (
    ("conspectus.privacy.accounting", "BudgetExceeded", REFUSED),
    ("conspectus.privacy.ledger.ledger", "LedgerMismatch", REFUSED),
    ("conspectus.mechanisms.mechanism", "NoMechanism", NO_MECHANISM),
)


def main() -> None:
    """The entry point of `conspectus`."""
    if os.environ.get("CONSPECTUS_DEBUG") != "1":
        warnings.simplefilter("ignore")  # a library's warnings are for us, and may quote what it read
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. One sentence on failure, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    from .app import app

    try:
        code = app(args=list(arguments), prog_name="conspectus", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else DONE
    except (BrokenPipeError, SystemExit):
        # The reader of our output went away (the parser then exits by itself): nothing is wrong, and nobody listens.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except KeyboardInterrupt:
        return _fail(BUG, "interrupted")
    except Exception as error:
        if os.environ.get("CONSPECTUS_DEBUG") == "1":
            raise
        return _fail(*explain(error))


def explain(error: Exception) -> tuple[int, str]:
    """The exit code and the sentence for an error.

    Only errors of our own classes speak for themselves: the text of any other may quote what was read from a table.
    """
    if hasattr(error, "format_message"):  # the parser's own usage errors
        return BAD_INPUT, str(error.format_message())
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
    advice = "set CONSPECTUS_DEBUG=1 to see where, away from strangers' eyes"
    return BUG, f"internal error ({type(error).__name__}): {advice}"


def _fail(code: int, sentence: str) -> int:
    sys.stdout.flush()
    if sentence:  # a command without arguments has already been answered with its help
        print("conspectus:", " ".join(sentence.split()), file=sys.stderr)
    return code
