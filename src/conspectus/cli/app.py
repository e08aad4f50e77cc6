"""The commands and their names. Nothing heavy is imported here: `--help` answers at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from . import (
    attack_command,
    audit_command,
    demo_command,
    evaluate_command,
    ledger_commands,
    printing,
    reading_commands,
    release_commands,
    schema_commands,
    series_commands,
    service_commands,
    session_commands,
    sql_command,
    value_command,
)
from .texts import checked


def _version(asked: bool) -> None:
    if asked:
        from conspectus import __version__

        printing.line(f"conspectus {__version__}")
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


serving = typer.Typer(
    cls=service_commands.FolderFirst,
    subcommand_metavar="FOLDER [--port P] … | token …",
    no_args_is_help=True,
    help=service_commands.folder.__doc__,
    pretty_exceptions_enable=False,
)


def _group(name: str, help: str, parent: typer.Typer = app) -> typer.Typer:
    group = typer.Typer(no_args_is_help=True, help=help, pretty_exceptions_enable=False)
    parent.add_typer(group, name=name)
    return group


schemas = _group("schema", "Draft and check the schema file that declares a table.")
several = _group("series", "Plan releases of a table that grows, such as one a month, and make them one by one.")
ledgers = _group("ledger", "Make and read the ledger that caps everything ever released about a table.")
tokens = _group("token", "The tokens of those who may ask.", serving)
COMMANDS: dict[typer.Typer, tuple[Callable[..., None], ...]] = {
    schemas: (schema_commands.draft, schema_commands.check),
    app: (
        release_commands.plan,
        release_commands.release,
        value_command.value,
        reading_commands.ask,
        sql_command.sql,
        reading_commands.export,
        reading_commands.synthesize,
        reading_commands.report,
        evaluate_command.evaluate,
        session_commands.session,
        service_commands.studio,
        audit_command.audit,
        attack_command.attack,
        demo_command.demo,
    ),
    several: (series_commands.open_, series_commands.release, series_commands.show, series_commands.end),
    ledgers: (ledger_commands.init, ledger_commands.show, ledger_commands.study, ledger_commands.retire),
    tokens: (service_commands.add, service_commands.list_, service_commands.revoke),
}
for group, commands in COMMANDS.items():
    for command in commands:
        group.command(command.__name__.rstrip("_"))(checked(command))
serving.command("folder", hidden=True)(checked(service_commands.folder))
app.add_typer(serving, name="serve")
