"""`python -m bench.page_pictures`: the pictures of docs/service.md, of both pages, light and dark, 1280 and 390 wide.

The pages are served from a folder of the demo's made patients, with fresh noise, and looked at in headless Chromium.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.service.browsing import Browser, missing
from tests.service.conftest import serve

import conspectus as cs
from conspectus.cli.people import write_people

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
            cs.release(table, cs.marginals(schema, 3), epsilon=1.0, delta=1e-6).save(shelf / "patients.conspectus")
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
    finally:
        service.stop()


def _studio(browser: Browser, folder: Path) -> None:
    command = [sys.executable, "-m", "conspectus", "studio", str(folder / "patients.csv"), "--no-browser"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent / "src")}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=folder)
    try:
        assert process.stdout is not None
        browser.open(process.stdout.readline().split()[-1])
        browser.wait("document.querySelectorAll('.plan[aria-pressed]').length > 4", 120)
        for name in ("sex", "region", "smoker"):
            browser.click(f"[data-name={name}] .btn", "Confirm")
        browser.wait("document.getElementById('standing').innerText.includes('4 of 7')")
        _shoot(browser, "studio", 4000)
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
