"""The commands and their names. Nothing heavy is imported here: `--help` answers at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from . import (
    attack_command as attack,
)
from . import (
    audit_command as audit,
)
from . import (
    demo_command as demo,
)
from . import (
    evaluate_command as evaluating,
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
    series_commands as series,
)
from . import (
    service_commands as service,
)
from . import (
    session_commands as session,
)
from . import (
    sql_command as selecting,
)
from . import (
    value_command as single,
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


app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
app.callback()(_root)


def _group(name: str, help: str) -> typer.Typer:
    group = typer.Typer(no_args_is_help=True, help=help, pretty_exceptions_enable=False)
    app.add_typer(group, name=name)
    return group


schemas = _group("schema", "Draft and check the schema file that declares a table.")
several = _group("series", "Plan releases of a table that grows, such as one a month, and make them one by one.")
ledgers = _group("ledger", "Make and read the ledger that caps everything ever released about a table.")
COMMANDS: dict[typer.Typer, tuple[Callable[..., None], ...]] = {
    schemas: (schema.draft, schema.check),
    app: (
        releasing.plan,
        releasing.release,
        single.value,
        reading.ask,
        selecting.sql,
        reading.export,
        reading.synthesize,
        reading.report,
        evaluating.evaluate,
        session.session,
        service.studio,
        audit.audit,
        attack.attack,
        demo.demo,
    ),
    several: (series.open_, series.release, series.show, series.end),
    ledgers: (ledger.init, ledger.show, ledger.study, ledger.retire),
}
for group, commands in COMMANDS.items():
    for command in commands:
        group.command(command.__name__.rstrip("_"))(command)

serving = typer.Typer(
    cls=service.FolderFirst,
    subcommand_metavar="FOLDER [--port P] … | token …",
    no_args_is_help=True,
    help=service.folder.__doc__,
    pretty_exceptions_enable=False,
)
serving.command("folder", hidden=True)(service.folder)
tokens = typer.Typer(no_args_is_help=True, help="The tokens of those who may ask.", pretty_exceptions_enable=False)
for command in (service.add, service.list_, service.revoke):
    tokens.command(command.__name__.rstrip("_"))(command)
serving.add_typer(tokens, name="token")
app.add_typer(serving, name="serve")
