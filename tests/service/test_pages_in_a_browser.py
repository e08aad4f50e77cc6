"""Both pages in a real browser: asked, answered, refused, downloaded; sound by axe-core; no request to elsewhere."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.csv
import pytest

import conspectus as cs
from conspectus.privacy.guarantee import Budget
from conspectus.service.analysts import Analysts

from .browsing import AXE, Browser, missing
from .conftest import Service, add_session, people_rows, serve

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    one = Browser()
    yield one
    one.close()


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory, release: cs.Release) -> Path:
    place = tmp_path_factory.mktemp("browser") / "shelf"
    place.mkdir(mode=0o700)
    release.save(place / "people.conspectus")
    add_session(place)
    return place


@pytest.fixture(scope="module")
def service(shelf: Path) -> Iterator[Service]:
    one = serve(shelf)
    one.wait(sessions=True)
    yield one
    one.stop()


def sound(browser: Browser, address: str) -> None:
    """The page as it stands, wide and narrow, light and dark: nobody complains, and no request goes elsewhere."""
    for width, dark in ((390, True), (1280, False)):
        browser.shape(width=width, dark=dark)
        assert browser.overflow() <= 0
        if AXE.is_file():
            assert browser.violations() == []
    assert browser.complaints() == []
    away = {one for one in browser.requested() if not one.startswith((address, "data:", "about:", "blob:", "chrome"))}
    assert away == set()


ANSWERED = "document.querySelector('#out .sentence')?.innerText"


def test_a_question_a_table_and_rows(browser: Browser, service: Service, release: cs.Release) -> None:
    browser.open(service.address)
    browser.wait("document.querySelector('[data-column=smoker]')")
    sound(browser, service.address)
    browser.click("[data-column=smoker] button", "yes")
    browser.click("[data-column=ill] button", "yes")
    sentence = browser.wait(f"{ANSWERED}?.includes('between') && {ANSWERED}")
    answer = release.ask("smoker AND ill")
    assert answer.low is not None
    assert answer.high is not None
    for end in (math.floor(answer.low * 2000 + 1e-6), math.ceil(answer.high * 2000 - 1e-6)):
        assert f"{end:,}" in sentence
    assert f"{round(answer.fraction * 2000):,}" in browser.text("#out .big")
    assert browser.text("#said").endswith(sentence)
    sound(browser, service.address)

    # A third column was never measured together with these: the number is not to be quoted, and has a reason.
    browser.click("[data-column=region] button", "north")
    assert "Do not quote" in browser.wait(f"{ANSWERED}?.includes('quote') && {ANSWERED}")
    assert "3 columns" in browser.text("#out .sentence")
    assert "no interval" in browser.text("#out .of")
    sound(browser, service.address)

    # By the keyboard alone: the other tab, a question that cuts a bin, and its repair.
    browser.run("document.getElementById('t-pick').focus()")
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    ActionChains(browser.driver).send_keys(Keys.ARROW_RIGHT, Keys.TAB).perform()
    assert browser.run("return document.activeElement.id") in ("clear", "q")
    browser.type("#q", "age BETWEEN 20 AND 33")
    browser.click("#go")
    browser.wait("document.querySelector('#out .tag.warn')?.innerText === 'Not answered'")
    assert "cuts a bin" in browser.text("#out h3")
    sound(browser, service.address)
    browser.click("#out .btn", "whole bins")
    browser.wait(f"{ANSWERED}?.includes('between')")
    assert "cuts" not in browser.text("#out")

    # A whole SELECT is answered by a table of numbers with their intervals.
    browser.type("#q", "SELECT region, count(*) AS people FROM people GROUP BY region")
    browser.click("#go")
    browser.wait("document.querySelectorAll('#out tbody tr').length === 4")
    found = release.query("SELECT region, count(*) AS people FROM people GROUP BY region").to_dict()
    assert f"{found['people'][0]:,.0f}" in browser.text("#out tbody tr")
    assert " to " in browser.text("#out tbody tr")
    sound(browser, service.address)

    # A table, as bars and as numbers, and its file.
    select = (
        "const [one, two] = document.querySelectorAll('#tables select'); one.value = 'region'; two.value = 'smoker';"
    )
    browser.run(f"{select} one.dispatchEvent(new Event('change'))")
    browser.wait("document.querySelectorAll('#chart [role=listitem]').length === 8")
    browser.click("#tables .seg button", "Table")
    browser.wait("document.querySelectorAll('#chart tbody tr').length === 8")
    made = release.table(["smoker", "region"]).to_pydict()
    shown = browser.run("return [...document.querySelectorAll('#chart tbody tr')].map((row) => row.innerText)")
    for text, number, low, high in zip(shown, made["count"], made["low"], made["high"]):
        assert f"{number:,}" in text
        assert f"{low:,}–{high:,}" in text
    sound(browser, service.address)
    browser.click("#tables .btn", "CSV")
    assert browser.downloaded("region.csv").read_text().count("\n") == 9
    browser.click("#csv")
    assert browser.downloaded("synthetic.csv").read_text().count("\n") == 1001


def test_the_report_of_a_release(browser: Browser, service: Service, release: cs.Release) -> None:
    """The page for an ethics board has no script and loads nothing; it is as sound as the others."""
    browser.open(f"{service.address}/synopses/people/report")
    browser.wait("document.querySelector('h1')")
    assert str(round(release.guarantee.epsilon)) in browser.text("body")
    assert browser.run("return document.scripts.length") == 0
    sound(browser, service.address)


def test_a_live_session(browser: Browser, service: Service, shelf: Path) -> None:
    token = Analysts(shelf).add("ada")
    browser.open(f"{service.address}/#sessions/live")
    browser.wait("document.getElementById('token')")
    sound(browser, service.address)
    browser.type("#token", "cs_wrong")
    browser.click("form button")
    browser.wait("document.querySelector('form .box')?.innerText.includes('not known')")
    browser.type("#token", token)
    browser.click("form button")
    browser.wait("[...document.querySelectorAll('#served a')].some((one) => one.href.includes('sessions/live'))")
    browser.click("#served a", "live")
    browser.wait("document.querySelector('[role=meter]')")
    sound(browser, service.address)

    # Picking asks nothing: it says what the question would cost at most.
    browser.click("[data-column=smoker] button", "yes")
    browser.wait("document.querySelector('#out .tag')?.innerText === 'Not asked yet'")
    assert "cost" in browser.text("#out h3")
    sound(browser, service.address)
    browser.click("#out .btn", "Ask")
    browser.wait(f"{ANSWERED}?.includes('between')")
    assert "Asking it again is free" in browser.text("#out .rests")
    browser.wait("document.querySelectorAll('#hist tbody tr').length === 1")
    sound(browser, service.address)
    browser.click("#go")
    browser.wait("document.querySelector('#out .rests')?.innerText.includes('asked before')")
    assert token not in browser.run(
        "return location.href + JSON.stringify({...localStorage, ...sessionStorage}) + document.cookie"
    )
    assert token not in service.log.read_text()


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[str]:
    """The address of a studio without a file."""
    source = Path(__file__).parent.parent.parent / "src"
    command = [sys.executable, "-m", "conspectus", "studio", "--no-browser", "--folder", str(tmp_path)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(source)}
    )
    assert process.stdout is not None
    yield process.stdout.readline().split()[-1]
    process.terminate()
    process.wait(600)


def test_the_studio_from_a_file_to_a_release(browser: Browser, studio: str, tmp_path: Path) -> None:
    """A CSV is dropped, its draft is declared, the plan compared, the release made; then it is asked."""
    address = studio.partition("#")[0]
    browser.open(address)
    browser.wait("document.querySelector('[role=alert]')?.innerText.includes('not whole')")
    browser.open(studio)
    browser.wait("document.getElementById('chosen')")
    sound(browser, address)
    rows = tmp_path / "people.csv"
    pyarrow.csv.write_csv(people_rows(1500), rows)
    from selenium.webdriver.common.by import By

    browser.driver.find_element(By.ID, "chosen").send_keys(str(rows))
    browser.wait("document.querySelectorAll('.plan[aria-pressed]').length > 2")
    assert "Not private: 4 of 4" in browser.text("#standing")
    assert "1,500 rows" in browser.text("#file")
    assert browser.run("return document.getElementById('spend').disabled")
    sound(browser, address)

    # What was read off the rows is replaced, or confirmed; a schema that is none is refused at once.
    age = browser.driver.find_element(By.CSS_SELECTOR, "[data-name=age] input[aria-label^=width]")
    age.clear()
    age.send_keys("nonsense\t")
    browser.wait("!document.getElementById('wrong').hidden")
    age = browser.driver.find_element(By.CSS_SELECTOR, "[data-name=age] input[aria-label^=width]")
    age.clear()
    age.send_keys("12\t")
    browser.wait("document.getElementById('wrong').hidden")
    for name in ("region", "smoker", "ill"):
        browser.click(f"[data-name={name}] .btn", "Confirm")
    browser.wait("document.getElementById('standing')?.innerText.includes('All 4 columns declared')")
    for place, noun in enumerate(("person", "people")):
        browser.driver.find_elements(By.CSS_SELECTOR, "#declare .inline input[placeholder^=row]")[place].send_keys(noun)
    browser.click("input[name=order][value='2']")
    browser.type("#own", "smoker AND ill\nsmoker AND ill AND region = 'north'")
    browser.wait("document.querySelectorAll('#cover li').length === 2")
    assert "Answered with an interval" in browser.text("#cover li")
    assert "3 columns" in browser.text("#cover li:nth-child(2)")
    browser.run("const one = document.getElementById('epsout'); one.value = 2; one.dispatchEvent(new Event('input'))")
    browser.wait("!document.getElementById('spend').disabled")
    assert "ε = 2" in browser.text("#spend")
    assert "interval of about" in browser.text("#seen")
    sound(browser, address)
    browser.click("#spend")
    browser.wait("document.getElementById('done')", 120)
    sound(browser, address)
    assert "Safe to publish" in browser.text("#release")
    release = cs.load(tmp_path / "people.conspectus")
    assert release.guarantee.epsilon == pytest.approx(2.0)
    assert not release.guarantee.warnings  # nothing of the draft is left
    assert release.ask("smoker AND ill").low is not None
    assert cs.Schema.load(tmp_path / "people.toml") == release.schema
    assert release.schema.nouns == ("person", "people")
    assert (tmp_path / "people-report.html").is_file()
    browser.click("#release .btn", "people.conspectus")
    assert browser.downloaded("people.conspectus").read_bytes() == (tmp_path / "people.conspectus").read_bytes()


# --- states that a service seldom is in

BUSY = {
    "error": "busy",
    "title": "Too many questions at once",
    "text": "The queue is full. Nothing was spent. Ask again in a moment.",
    "at": None,
    "repairs": [],
    "spent": 0,
}


def pretend(browser: Browser, path: str, status: int | None, body: object = None) -> None:
    """Answer what the page sends to an address in place of the service; with no status, never answer."""
    said = "new Promise(() => {})" if status is None else f"new Response(JSON.stringify(said), {{status: {status}}})"
    browser.run(
        "const [path, said] = arguments; window.real ??= window.fetch;"
        f"window.fetch = async (asked, how) => asked.endsWith(path) ? {said} : window.real(asked, how)",
        path,
        body,
    )


def test_a_session_that_is_busy_slow_at_its_end_or_away(
    browser: Browser, tmp_path_factory: pytest.TempPathFactory, release: cs.Release
) -> None:
    """Nothing published, no token, a full queue, an answer that takes long, a budget at its end, a token that was taken
    away, and a service that is gone: each says what it is, that nothing was spent, and what to do."""
    place = tmp_path_factory.mktemp("states") / "shelf"
    place.mkdir(mode=0o700)
    release.save(place / "people.conspectus")
    add_session(place, epsilon=1.0, priming=0.0, hits=1, threshold=0.01)
    token = Analysts(place).add("ada")
    service = serve(place, "--closed")
    try:
        service.wait(sessions=True)
        browser.open(service.address)
        browser.wait("document.getElementById('token')")
        assert "Nothing is published to everybody here." in browser.text("#choose")
        sound(browser, service.address)
        browser.type("#token", token)
        browser.click("form button")
        browser.wait("document.querySelectorAll('#served a').length === 2")
        sound(browser, service.address)
        browser.click("#served li:last-child a")
        browser.wait("document.querySelector('[role=meter]')")
        assert "Nothing asked yet." in browser.text("#hist")
        browser.click("[data-column=smoker] button", "yes")
        browser.wait("document.querySelector('#out .tag')?.innerText === 'Not asked yet'")
        pretend(browser, "/ask", None)
        browser.click("#out .btn", "Ask")
        browser.wait("document.querySelector('#out [role=status]')?.innerText.includes('Asking the session')")
        assert "the answer is kept" in browser.text("#out")
        sound(browser, service.address)
        pretend(browser, "/ask", 503, BUSY)
        browser.run("document.getElementById('go').disabled = false")
        browser.click("#go")
        browser.wait("document.querySelector('#out h3')?.innerText === 'Too many questions at once'")
        assert "Nothing" in browser.text("#out .rests")
        sound(browser, service.address)
        browser.run("window.fetch = window.real")
        for where in ("smoker AND ill", "NOT smoker AND ill", "age >= 42 AND ill", "region = 'east' AND ill"):
            service.call("/sessions/live/ask", {"where": where}, token=token)
        browser.click("#go")
        browser.wait(f"{ANSWERED}?.includes('Do not quote')")
        browser.wait("document.getElementById('gauge')?.innerText.includes('at its end')")  # asked for after the answer
        sound(browser, service.address)
        Analysts(place).revoke("ada")
        browser.click("[data-column=ill] button", "yes")
        browser.wait("document.querySelector('#out h3')?.innerText === 'Your token is not known any more'")
        assert "Nothing was spent" in browser.text("#out")
        sound(browser, service.address)
        browser.click("#out .btn", "another token")
        browser.wait("document.activeElement?.id === 'token'")
    finally:
        service.stop()
    browser.type("#token", token)
    browser.click("form button")
    browser.wait("document.querySelector('form .box')?.innerText.includes('does not answer')")
    for width, dark in ((390, True), (1280, False)):
        browser.shape(width=width, dark=dark)
        assert browser.overflow() <= 0
        assert not AXE.is_file() or browser.violations() == []


def test_the_studio_with_a_ledger_that_refuses(browser: Browser, tmp_path: Path) -> None:
    """The ledger over time, an ε that it refuses, a file that is none, a release that is being made."""
    rows, ledger = tmp_path / "people.csv", tmp_path / "people.ledger"
    pyarrow.csv.write_csv(people_rows(500), rows)
    command = [sys.executable, "-m", "conspectus", "studio", str(rows), "--no-browser", "--folder", str(tmp_path)]
    schema = cs.Schema.from_dict(
        {
            "name": "people",
            "neighbours": "replace",
            "columns": {
                "region": {"type": "categorical", "values": ["north", "east", "south", "west"]},
                "age": {"type": "integer", "min": 18, "max": 89, "width": 12},
                "smoker": {"type": "boolean"},
                "ill": {"type": "boolean"},
            },
        }
    )
    book = cs.Ledger.create(
        ledger,
        budget=Budget(epsilon=1.0, delta=1e-6),
        neighbours="replace",
        unit=str(schema.unit),
        schema_fingerprint=schema.fingerprint,
        table=schema.name,
    )
    with cs.open_table(str(rows), schema) as table:
        cs.release(table, cs.marginals(schema, 1), epsilon=0.5, delta=1e-6, ledger=book)
    source = Path(__file__).parent.parent.parent / "src"
    process = subprocess.Popen(
        [*command, "--ledger", str(ledger)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(source)},
    )
    try:
        assert process.stdout is not None
        studio = process.stdout.readline().split()[-1]
        address = studio.partition("#")[0]
        browser.open(studio)
        browser.wait("document.querySelectorAll('.plan[aria-pressed]').length > 2")
        assert browser.run("return document.querySelectorAll('#ledger tbody tr').length") == 1
        assert browser.run("return document.querySelector('#ledger [role=meter]').ariaValueNow") not in ("0", "100")
        browser.run(
            "const one = document.getElementById('epsout'); one.value = 4; one.dispatchEvent(new Event('input'))"
        )
        browser.wait("document.getElementById('release')?.innerText.includes('the ledger refuses more')")
        assert browser.run("return document.getElementById('spend').disabled")
        sound(browser, address)
        job = {"state": "running", "stage": 2, "of": 4, "label": "Drawing the noise and fitting", "done": 0.4}
        browser.run("progress(arguments[0])", {**job, "stages": ["Reading the rows", "Drawing", "Saving", "Report"]})
        browser.wait("document.querySelector('[role=progressbar]')")
        sound(browser, address)
        bad = tmp_path / "bad.parquet"
        bad.write_bytes(b"no parquet")
        from selenium.webdriver.common.by import By

        browser.driver.find_element(By.ID, "chosen").send_keys(str(bad))
        browser.wait("document.querySelector('#file .box, #file [role=alert]')")
        sound(browser, address)
    finally:
        process.terminate()
        process.wait(600)
