"""The commands and their names. Nothing heavy is imported here: `--help` answers at once."""

from __future__ import annotations

from typing import Annotated

import typer

from . import (
    audit_command as audit,
)
from . import (
    demo_command as demo,
)
from . import (
    ledger_commands as ledger,
)
from . import (
    reading_commands as reading,
)
from . import (
    release_commands as releasing,
)
from . import (
    schema_commands as schema,
)
from . import (
    session_commands as session,
)


def _version(asked: bool) -> None:
    if asked:
        from conspectus import __version__

        print(f"conspectus {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Private query release: answer thousands of questions about a table of people, under differential privacy.

    A table, questions and a privacy budget go in; a synopsis that is safe to publish comes out.
    Begin with: conspectus demo
    """


def _group(help: str) -> typer.Typer:
    return typer.Typer(no_args_is_help=True, help=help, pretty_exceptions_enable=False)


app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
app.callback()(_root)

schemas = _group("Draft and check the schema file that declares a table.")
schemas.command("draft")(schema.draft)
schemas.command("check")(schema.check)
app.add_typer(schemas, name="schema")

app.command("plan")(releasing.plan)
app.command("release")(releasing.release)
app.command("ask")(reading.ask)
app.command("export")(reading.export)
app.command("synthesize")(reading.synthesize)
app.command("report")(reading.report)

app.command("session")(session.session)

ledgers = _group("Make and read the ledger that caps everything ever released about a table.")
ledgers.command("init")(ledger.init)
ledgers.command("show")(ledger.show)
app.add_typer(ledgers, name="ledger")

app.command("audit")(audit.audit)
app.command("demo")(demo.demo)
