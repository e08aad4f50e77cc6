"""The command line: parse, call one function, print. Exit codes and messages depend on public inputs alone."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import partial

from . import printing
from .exit_codes import BUG, DONE, explain


class Output(io.TextIOWrapper):
    """A stream that goes on where nobody listens any more: what a command does must not end half way for that."""

    lost: tuple[type[OSError], ...] = (BrokenPipeError,)

    def write(self, text: str, /) -> int:
        return self._tried(partial(super().write, text)) or len(text)

    def flush(self) -> None:
        self._tried(super().flush)

    def _tried(self, act: Callable[[], int | None]) -> int | None:
        try:
            return act()
        except self.lost:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return None


class Aside(Output):
    """The stream of what only people look at: however it fails, that is no failure."""

    lost = (OSError,)


def _streams() -> None:
    """The three streams: those that were closed lead nowhere, before any file is opened in their place."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            os.set_inheritable(number, True)  # where the lowest free number was this one, nothing was doubled
            raw = io.FileIO(number, "r" if name == "stdin" else "w")
            setattr(sys, name, io.TextIOWrapper(io.BufferedReader(raw) if name == "stdin" else io.BufferedWriter(raw)))
    for name, kind in (("stdout", Output), ("stderr", Aside)):
        old = getattr(sys, name)
        setattr(sys, name, kind(old.detach(), old.encoding, old.errors, line_buffering=old.line_buffering))


def main() -> None:
    """The entry point of `conspectus`."""
    _streams()
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
    except SystemExit:  # the parser's own, of a pipe that broke: none of ours
        return _fail(BUG, "the other end of a connection went away before this was done")
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
