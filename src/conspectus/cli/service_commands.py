"""`serve`, and the tokens of those who may ask."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from . import options, printing

if TYPE_CHECKING:
    from conspectus.service.analysts import Analysts

Folder = Annotated[Path, typer.Option("--folder", metavar="FOLDER", help="The folder that is served.")]
AnalystName = Annotated[str, typer.Argument(metavar="NAME", help="What you call the analyst.")]


class FolderFirst(TyperGroup):
    """`serve FOLDER` beside `serve token …`: a first word that is no command is the folder."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, "--help"):
            args = ["folder", *args]
        return super().parse_args(ctx, args)


def folder(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A folder with releases and session files.")],
    port: Annotated[int, typer.Option("--port", metavar="P", min=0, max=65535, help="0 for any that is free.")] = 8765,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Listen here; this machine alone unless told.")
    ] = "127.0.0.1",
    name: Annotated[
        list[str] | None,
        typer.Option("--name", metavar="HOST", help="A host name that a reverse proxy passes on; repeatable."),
    ] = None,
    workers: Annotated[int, typer.Option("--workers", metavar="N", min=1, max=64, help="Web workers.")] = 1,
    closed: Annotated[bool, typer.Option("--closed", help="Published synopses need a token, too.")] = False,
    log: Annotated[str, typer.Option("--log", metavar="LEVEL", help="debug, info, warning or error.")] = "info",
) -> None:
    """Serve the releases and live sessions of a folder over HTTP, with a page for people at /."""
    try:
        from conspectus.service import journal, supervisor
    except ModuleNotFoundError as missing:
        raise not_installed(missing) from None
    if log not in journal.LEVELS:
        raise options.OptionError(f"--log is one of {', '.join(journal.LEVELS)}, not {log}")
    plan = supervisor.Plan(
        folder=folder, host=host, port=port, workers=workers, closed=closed, names=tuple(name or ()), log=log
    )
    service = supervisor.Supervisor(plan)
    what = [f"{len(service.published):,} published", f"{len(service.hosted):,} live"]
    printing.line(f"Serving {folder} at {service.address} ({', '.join(what)}). Stop with Ctrl-C.")
    if host not in supervisor.LOOPBACK:
        printing.line("Others can reach this address, and HTTP hides nothing: put a TLS proxy in front of it.")
    service.run()


def studio(
    data: Annotated[
        Path | None, typer.Argument(metavar="[DATA]", help="A .csv, .csv.gz or .parquet file; or drop one on the page.")
    ] = None,
    folder: Annotated[Path, typer.Option("--folder", metavar="FOLDER", help="Where releases are written.")] = Path(),
    ledger: Annotated[
        Path | None, typer.Option("--ledger", metavar="L", help="The ledger of the table, which caps all releases.")
    ] = None,
    port: Annotated[int, typer.Option("--port", metavar="P", min=0, max=65535, help="0 for any that is free.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """The owner's page, for this computer alone: a schema, a plan, a release and its report."""
    try:
        from conspectus.service.studio_host import run_studio
    except ModuleNotFoundError as missing:
        raise not_installed(missing) from None

    def ready(address: str) -> None:
        printing.line(f"The studio is at {address}")
        printing.line("Whoever has this address sees your data: keep it to yourself. Stop with Ctrl-C.")
        if browser:
            import webbrowser

            webbrowser.open(address)

    run_studio(data=data, folder=folder, ledger=ledger, port=port, ready=ready)


def add(
    name: AnalystName,
    folder: Folder,
    questions: Annotated[
        int | None,
        typer.Option("--questions", metavar="N", min=0, help="New questions to live sessions; all unless told."),
    ] = None,
    share: Annotated[
        float | None,
        typer.Option("--share", metavar="S", min=0, max=1, help="The share of a session's budget they may spend."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="NAME", help="A synopsis or session they may use; repeatable. All unless told."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Make a token for an analyst, and show it once. Caps are fairness among analysts; the budget is the guarantee."""
    token = _analysts(folder).add(name, questions=questions, share=share, names=only)
    if as_json:
        printing.as_json({"name": name, "token": token})
        return
    printing.line(token)
    said = f"This is the token of {name}, shown this once: it is sent as Authorization: Bearer …"
    printing.line(said, aside=True)


def list_(folder: Folder, as_json: options.Json = False) -> None:
    """Show who has a token."""
    import dataclasses

    found = _analysts(folder).all()
    if as_json:
        printing.as_json({"analysts": [dataclasses.asdict(one) for one in found]})
        return
    cells = [
        (
            one.name,
            one.made,
            f"{one.asked:,}" + ("" if one.questions is None else f" of {one.questions:,}"),
            "all" if one.share is None else f"{one.share:.0%}",
            "all" if one.names is None else ", ".join(one.names),
        )
        for one in found
    ]
    printing.table(("analyst", "made", "asked", "budget", "may use"), cells)


def revoke(name: AnalystName, folder: Folder) -> None:
    """Take an analyst's token away. It is refused from the next request on."""
    _analysts(folder).revoke(name)
    printing.line(f"The token of {name} is refused from now on.")


def _analysts(folder: Path) -> Analysts:
    from conspectus.service.analysts import Analysts
    from conspectus.service.shelf import checked_folder

    return Analysts(checked_folder(folder))


def not_installed(missing: ModuleNotFoundError) -> options.OptionError:
    """What to install where the libraries of the service are not there."""
    if str(missing.name).split(".")[0] == "conspectus":
        raise missing
    return options.OptionError(
        f"the service needs {missing.name}, which is not installed: pip install 'conspectus[service]'"
    )
