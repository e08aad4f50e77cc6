"""A real browser for the tests and the pictures of the documents: headless Chromium from the system's packages."""

from __future__ import annotations

import base64
import json
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
AXE = ROOT / ".browser" / "node_modules" / "axe-core" / "axe.min.js"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
)


def missing() -> str | None:
    """What is not installed, if something is not."""
    found = {"chromium": shutil.which("chromium"), "chromedriver": shutil.which("chromedriver")}
    try:
        import selenium

        assert selenium
    except ModuleNotFoundError:
        found["selenium"] = None
    lacking = [name for name, place in found.items() if place is None]
    return f"no {' and no '.join(lacking)} here: apt-get install chromium chromium-driver" if lacking else None


class Browser:
    """One tab."""

    def __init__(self, *, width: int = 1280, dark: bool = False) -> None:
        from selenium import webdriver
        from selenium.webdriver.chrome.options import Options
        from selenium.webdriver.chrome.service import Service

        self.downloads = Path(tempfile.mkdtemp(prefix="downloads-"))
        self._profile = tempfile.mkdtemp(prefix="profile-")
        options = Options()
        options.binary_location = str(shutil.which("chromium"))
        for flag in (*FLAGS, f"--user-data-dir={self._profile}", f"--window-size={width},900"):
            options.add_argument(flag)
        options.add_experimental_option("prefs", self._prefs())
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(str(shutil.which("chromedriver"))))
        self.driver.set_script_timeout(600)
        self.shape(width=width, dark=dark)

    def shape(self, *, width: int, dark: bool) -> None:
        """How wide the page is, and whether the reader likes it dark."""
        self._tell("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._tell("Emulation.setEmulatedMedia", features=scheme)

    def open(self, address: str) -> None:
        self.driver.get("about:blank")
        self.requested()
        self.driver.get(address)

    def run(self, script: str, *arguments: Any) -> Any:
        """What a script in the page returns."""
        return self.driver.execute_script(script, *arguments)

    def text(self, selector: str) -> str:
        return str(self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def click(self, selector: str, containing: str = "") -> None:
        """Click the first element that matches and contains a text."""
        script = (
            "const all = [...document.querySelectorAll(arguments[0])].filter((one) => one.offsetParent !== null);"
            "const one = all.find((one) => one.textContent.includes(arguments[1]));"
            "if (!one) return false; one.scrollIntoView({block: 'center'}); one.click(); return true"
        )
        assert self.run(script, selector, containing), (selector, containing)

    def type(self, selector: str, text: str) -> None:
        from selenium.webdriver.common.by import By

        place = self.driver.find_element(By.CSS_SELECTOR, selector)
        place.clear()
        place.send_keys(text)

    def _prefs(self) -> dict[str, Any]:
        several = {"profile.default_content_setting_values.automatic_downloads": 1}
        return {"download.default_directory": str(self.downloads), **several}

    def wait(self, script: str, seconds: float = 600.0) -> Any:
        """Until a script in the page returns something that is true."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if found := self.run(f"return {script}"):
                return found
            time.sleep(0.05)
        raise AssertionError(f"{script} did not come true; the page says: {self.text('main')[:2000]}")

    def downloaded(self, ending: str, seconds: float = 600.0) -> Path:
        """The file that a click has saved."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for path in self.downloads.iterdir():
                if path.name.endswith(ending) and path.stat().st_size:
                    return path
            time.sleep(0.05)
        raise AssertionError(f"nothing that ends in {ending} was saved: {list(self.downloads.iterdir())}")

    def violations(self) -> list[str]:
        """What axe-core finds wrong with the page as it stands."""
        # By the debugger, which the page's own policy does not bind.
        self._tell("Runtime.evaluate", expression=AXE.read_text(encoding="utf-8"))
        script = (
            "const done = arguments[arguments.length - 1];"
            "axe.run(document, {resultTypes: ['violations']}).then((found) => done(found.violations.map((one) =>"
            " `${one.id}: ${one.nodes.map((node) => node.target.join(' ')).slice(0, 5).join(', ')}`)))"
        )
        return list(self.driver.execute_async_script(script))

    def requested(self) -> set[str]:
        """The addresses that were asked for since the last look."""
        found = set()
        for entry in self.driver.get_log("performance"):  # type: ignore[no-untyped-call]
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                found.add(message["params"]["request"]["url"])
        return found

    def complaints(self) -> list[str]:
        """What the console says, but for refusals by the service, which the page shows."""
        said = [entry["message"] for entry in self.driver.get_log("browser")]  # type: ignore[no-untyped-call]
        return [text for text in said if "Failed to load resource" not in text]

    def overflow(self) -> int:
        """By how many pixels the page is wider than the window."""
        return int(self.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def shot(self, path: Path, *, height: int | None = None) -> None:
        """A picture of the page, all of it or its upper part."""
        size = self.driver.execute_cdp_cmd("Page.getLayoutMetrics", {})["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], height or 10**6), "scale": 1}
        kind: dict[str, Any] = {"format": "webp", "quality": 82} if path.suffix == ".webp" else {"format": "png"}
        made = self._tell("Page.captureScreenshot", **kind, captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(made["data"]))

    def close(self) -> None:
        self.driver.quit()
        for folder in (self.downloads, self._profile):
            shutil.rmtree(folder, ignore_errors=True)

    def _tell(self, method: str, **told: Any) -> Any:
        return self.driver.execute_cdp_cmd(method, told)
