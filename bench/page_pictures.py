"""`python -m bench.page_pictures`: the pictures of docs/service.md, of both pages, light and dark, 1280 and 390 wide.

The pages are served from a folder of the demo's made patients, a release and a live session, with fresh noise, and
looked at in headless Chromium. The studio has a ledger from which two releases were paid.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.service.browsing import Browser, missing
from tests.service.conftest import Service, serve

import conspectus as cs
from conspectus.cli.people import write_people
from conspectus.privacy.guarantee import Budget
from conspectus.service.analysts import Analysts
from conspectus.sessions.opening import begin, session_problem

DOCS = Path(__file__).parent.parent / "docs" / "pages"
SHAPES = [(width, dark) for width in (1280, 390) for dark in (False, True)]


def main() -> None:
    if lacking := missing():
        raise SystemExit(lacking)
    DOCS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        write_people(folder)
        shelf = folder / "shelf"
        shelf.mkdir(mode=0o700)
        schema = cs.Schema.load(folder / "patients.toml")
        with cs.open_table(str(folder / "patients.csv"), schema) as table:
            ledger = cs.Ledger.create(
                folder / "patients.ledger",
                budget=Budget(epsilon=4.0, delta=1e-5),
                neighbours="replace",
                unit=str(schema.unit),
                schema_fingerprint=schema.fingerprint,
                table=schema.name,
            )
            cs.release(table, cs.marginals(schema, 1), epsilon=0.5, delta=1e-6, ledger=ledger)
            made = cs.release(table, cs.marginals(schema, 3), epsilon=1.0, delta=1e-6, ledger=ledger)
            made.save(shelf / "patients.conspectus")
            mechanism, budget = cs.mechanisms.Pmw(), Budget(epsilon=1.0, delta=1e-6)
            problem = session_problem(table, budget, mechanism, questions=1000, neighbours=None, rows=None)
            source = {"data": str(folder / "patients.csv"), "schema": str(folder / "patients.toml")}
            begin(table, problem, mechanism, path=shelf / "live.session", source=source).close()
        browser = Browser()
        try:
            _analyst(browser, shelf)
            _studio(browser, folder)
        finally:
            browser.close()


def _analyst(browser: Browser, shelf: Path) -> None:
    service = serve(shelf)
    try:
        service.wait()
        browser.open(service.address)
        browser.wait("document.querySelector('[data-column=smoker]')")
        browser.click("[data-column=diagnosis] button", "heart")
        browser.click("[data-column=smoker] button", "yes")
        browser.wait("document.querySelector('#out .sentence')")
        browser.wait("document.querySelectorAll('#chart .row').length > 4")
        _shoot(browser, "analyst", 1720)
        _session(browser, service, Analysts(shelf).add("ada"))
    finally:
        service.stop()


def _session(browser: Browser, service: Service, token: str) -> None:
    service.wait(sessions=True)
    for where in ("smoker", "diagnosis = 'lung' AND smoker", "age >= 58 AND returned AND region = 'east'"):
        assert service.call("/sessions/live/ask", {"where": where}, token=token)[0] == 200
    browser.shape(width=1280, dark=False)
    browser.open(f"{service.address}/#sessions/live")
    browser.wait("document.getElementById('token')")
    browser.type("#token", token)
    browser.click("form button")
    browser.wait("[...document.querySelectorAll('#served a')].some((one) => one.href.includes('sessions/live'))")
    browser.click("#served a", "live")
    browser.wait("document.querySelector('[role=meter]')")
    browser.click("[data-column=diagnosis] button", "heart")
    browser.click("[data-column=smoker] button", "yes")
    browser.wait("document.querySelector('#out .tag')?.innerText === 'Not asked yet'")
    browser.wait("document.querySelectorAll('#hist tbody tr').length === 3")
    _shoot(browser, "session", 2300)


def _studio(browser: Browser, folder: Path) -> None:
    command = [sys.executable, "-m", "conspectus", "studio", str(folder / "patients.csv"), "--no-browser"]
    command += ["--ledger", str(folder / "patients.ledger")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent / "src")}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder)
    try:
        assert process.stdout is not None
        browser.open(process.stdout.readline().split()[-1])
        browser.wait("document.querySelectorAll('.plan[aria-pressed]').length > 4", 120)
        for name in ("sex", "region", "smoker"):
            browser.click(f"[data-name={name}] .btn", "Confirm")
        browser.wait("document.getElementById('standing').innerText.includes('4 of 7')")
        # A confirmed column has the plan made again: until it is there, the page is shorter.
        time.sleep(1)
        browser.wait("document.querySelectorAll('.plan[aria-pressed]').length > 4", 120)
        browser.wait("document.getElementById('plans').style.opacity === '1'", 120)
        _shoot(browser, "studio", 4400)
    finally:
        process.terminate()
        process.wait()


def _shoot(browser: Browser, name: str, height: int) -> None:
    for width, dark in SHAPES:
        browser.shape(width=width, dark=dark)
        browser.run("window.scrollTo(0, 0); document.activeElement?.blur()")
        path = DOCS / f"{name}-{width}-{'dark' if dark else 'light'}.webp"
        browser.shot(path, height=height)
        print(path)


if __name__ == "__main__":
    main()
