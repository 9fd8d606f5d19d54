"""A headless Chromium, and what the tests ask of it."""

import io
import json
import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from PIL import Image

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
#: How long a page may take on a machine that is busy.
PATIENCE_S = 30


def browser_path():
    """Of the browser; skips the test where there is none, with the way to get it."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None or shutil.which("chromedriver") is None:
        pytest.skip(
            "no Chromium with its chromedriver here; `make browser` installs them from Debian"
        )
    return found


@contextmanager
def chromium():
    """A driver of selenium; the browser ends with the block."""
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = browser_path()
    with tempfile.TemporaryDirectory(
        prefix="shardmill-chromium-", ignore_cleanup_errors=True
    ) as profile:
        for argument in (
            "--headless=new",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--disable-component-update",
            "--no-first-run",
            "--hide-scrollbars",
            "--force-device-scale-factor=1",
            "--window-size=1280,900",
            f"--user-data-dir={profile}",
        ):
            options.add_argument(argument)
        if os.geteuid() == 0:
            # Chromium refuses its own sandbox to root, as in containers.
            options.add_argument("--no-sandbox")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            yield driver
        finally:
            driver.quit()


class Window:
    """The page of one server."""

    def __init__(self, driver, address):
        self.driver = driver
        self.address = address

    def open(self, fragment=""):
        """Loads the page anew, and waits until it shows what it was asked for."""
        # A change of the fragment alone would not load it.
        self.driver.get("about:blank")
        self.driver.get(f"{self.address}#{fragment}")
        self.settle()

    def settle(self):
        """Waits until nothing is loading."""
        self.until(
            "return document.getElementById('content')?.getAttribute('aria-busy') === 'false'"
        )

    def until(self, script):
        """Waits until a script gives something true."""
        end = time.monotonic() + PATIENCE_S
        while not self.run(script):
            assert time.monotonic() < end, f"this never became true: {script}"
            time.sleep(0.02)

    def run(self, script, *arguments):
        """What a script gives."""
        return self.driver.execute_script(script, *arguments)

    def find(self, selector):
        """The elements of a selector."""
        return self.driver.find_elements("css selector", selector)

    def text(self, selector="main"):
        """Text of the first element, as it is seen."""
        return self.find(selector)[0].text

    def press(self, keys):
        """Types into whatever has the focus."""
        from selenium.webdriver import ActionChains

        ActionChains(self.driver).send_keys(keys).perform()

    def fill(self, selector, text):
        """Types into a field and submits it."""
        (field,) = self.find(selector)
        field.clear()
        field.send_keys(text)
        field.submit()
        self.settle()

    def rows(self, within="main"):
        """Numbers of the rows that are shown."""
        return [int(found.get_attribute("data-row")) for found in self.find(f"{within} [data-row]")]

    def requested(self):
        """Addresses that were asked for since the last time."""
        messages = [
            json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")
        ]
        sent = [
            message["params"]
            for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]
        return [parameters["request"]["url"] for parameters in sent]

    def screenshot(self, name):
        """A picture of a guide, if SHARDMILL_SCREENSHOTS names the directory of the pictures."""
        if directory := os.environ.get("SHARDMILL_SCREENSHOTS"):
            # Those that are further down are not loaded until they are scrolled into view.
            self.until(
                "return [...document.images].every((image) => "
                "image.complete || image.getBoundingClientRect().top > innerHeight)"
            )
            picture = Image.open(io.BytesIO(self.driver.get_screenshot_as_png())).convert("RGB")
            picture.quantize(128).save(Path(directory) / f"view-{name}.png", optimize=True)
