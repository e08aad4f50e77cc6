"""The command line: parse, call one function, print. Exit codes and messages depend on public inputs alone."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence

from . import printing
from .exit_codes import BUG, DONE, explain


def main() -> None:
    """The entry point of `conspectus`."""
    if os.environ.get("CONSPECTUS_DEBUG") != "1":
        warnings.simplefilter("ignore")  # a library's warnings are for us, and may quote what it read
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code. One sentence on failure, never a traceback."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):  # a question that is no text is then refused as a question
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    from .app import app

    try:
        # The demo runs commands itself: it is handed this function, since importing it would close a circle.
        code = app(args=list(arguments), prog_name="conspectus", standalone_mode=False, obj=run)
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


def _fail(code: int, sentence: str) -> int:
    sys.stdout.flush()
    if sentence:  # a command without arguments has already been answered with its help
        printing.line(f"conspectus: {' '.join(sentence.split())}", aside=True)
    return code
