"""The page of a server in a real browser: a server as a process of its own, and Chromium driven by Selenium."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

from selenium.common.exceptions import ElementClickInterceptedException, StaleElementReferenceException
from selenium.webdriver import ActionChains, Chrome, ChromeOptions, Keys
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

PATIENCE = 60.0

# The page draws anew whenever something happens, so that an element may be gone or covered when it is come to.
NOT_YET = (StaleElementReferenceException, ElementClickInterceptedException)

# Nothing of the browser itself is asked for over the network, and nothing is kept of an earlier run.
BROWSER_ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-prefers-reduced-motion",
)

# Counts what the content security policy has stopped, and what nobody has caught, from the first script on.
WATCH_FOR_FAULTS = """
window.faults = [];
addEventListener("securitypolicyviolation", event => faults.push(`${event.violatedDirective}: ${event.blockedURI}`));
addEventListener("error", event => faults.push(String(event.message)));
addEventListener("unhandledrejection", event => faults.push(String(event.reason)));
"""


def browser_paths() -> tuple[str, str] | None:
    """The browser and its driver; None where one of them is missing."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    return (browser, driver) if browser and driver else None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Served:
    """A server that can be stopped and started again on the same store and port."""

    def __init__(self, store: Path, *arguments: str, token: str = "") -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._command = [sys.executable, "-m", "tidelog", "serve", str(store), "--listen", f"127.0.0.1:{self.port}"]
        self._command += arguments
        self._log = store.with_suffix(".log")
        self._headers = {"content-type": "application/json", **({"authorization": f"Bearer {token}"} if token else {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        wait_until(self._answers, self._log.read_text)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text()
        try:
            with urlopen(f"{self.url}/health", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(PATIENCE)
            self._process = None

    def post(self, path: str, body: dict[str, Any]) -> Any:
        request = Request(self.url + path, json.dumps(body).encode(), self._headers)
        with urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def get(self, path: str) -> Any:
        with urlopen(Request(self.url + path, headers=self._headers), timeout=PATIENCE) as answer:
            return json.load(answer)

    def update(self, **body: Any) -> Any:
        return self.post("/update", body)


def wait_until(condition: Callable[[], Any], otherwise: Callable[[], str], patience: float = PATIENCE) -> Any:
    """What a condition gives, as soon as it is true. `otherwise` tells what is there instead, if it never is."""
    end = time.monotonic() + patience
    while True:
        with suppress(*NOT_YET):
            if found := condition():
                return found
        assert time.monotonic() < end, otherwise()
        time.sleep(0.03)


@contextmanager
def started_browser(profile: Path) -> Iterator[Chrome]:
    """A browser with nothing in it."""
    paths = browser_paths()
    assert paths is not None, "chromium and chromedriver are needed"
    options = ChromeOptions()
    options.binary_location = paths[0]
    for argument in (*BROWSER_ARGUMENTS, f"--user-data-dir={profile}"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
    browser = Chrome(options=options, service=Service(paths[1], log_output=os.devnull))
    try:
        browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH_FOR_FAULTS})
        yield browser
    finally:
        browser.quit()


class Page:
    """The page, as somebody uses it who sees texts and roles and no insides."""

    def __init__(self, browser: Chrome, url: str) -> None:
        self.browser = browser
        self.url = url
        self._told: list[dict[str, Any]] = []

    def open(self, path: str = "") -> None:
        """Load the page anew."""
        self.browser.get("about:blank")
        self.browser.get(f"{self.url}/{path}")

    def forget(self) -> None:
        """Forget what the page has kept in the browser."""
        self.browser.execute_cdp_cmd(
            "Storage.clearDataForOrigin", {"origin": self.url, "storageTypes": "local_storage"}
        )

    def go(self, path: str) -> None:
        """Go to another view, without loading the page anew."""
        self.browser.execute_script("location.hash = arguments[0]", path)

    def size(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def colours(self, scheme: str) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def all(self, selector: str) -> list[WebElement]:
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        """The first element that there is or will be."""
        found = wait_until(lambda: self.all(selector), lambda: f"there is no {selector} in:\n{self.text}")
        assert isinstance(found[0], WebElement)
        return found[0]

    def button(self, name: str, within: str = "") -> WebElement:
        path = f"//button[normalize-space()={name!r} or @aria-label={name!r}]"

        def found() -> WebElement | None:
            scope = self.all(within) if within else [self.browser]
            elements = [each for part in scope for each in part.find_elements(By.XPATH, "." + path)]
            return elements[0] if elements else None

        element = wait_until(found, lambda: f"there is no button {name!r} in:\n{self.text}")
        assert isinstance(element, WebElement)
        return element

    def press(self, name: str, within: str = "") -> None:
        """Press a button, as soon as it can be pressed."""

        def pressed() -> bool:
            button = self.button(name, within)
            if not button.is_enabled():
                return False
            button.click()
            return True

        wait_until(pressed, lambda: f"the button {name!r} cannot be pressed:\n{self.text}")

    def sees_disabled(self, name: str) -> None:
        """Wait until a button cannot be pressed."""
        wait_until(lambda: not self.button(name).is_enabled(), lambda: f"the button {name!r} can be pressed")

    def click(self, selector: str) -> None:
        """Click the first element that there is or will be."""

        def clicked() -> bool:
            self.one(selector).click()
            return True

        wait_until(clicked, lambda: f"{selector} cannot be clicked in:\n{self.text}")

    @property
    def text(self) -> str:
        return str(self.browser.execute_script("return document.body.innerText"))

    def text_of(self, selector: str) -> str:
        script = "return [...document.querySelectorAll(arguments[0])].map(each => each.innerText).join('\\n')"
        return str(self.browser.execute_script(script, selector))

    def sees(self, text: str, within: str = "body") -> None:
        """Wait until a text is there."""
        wait_until(lambda: text in self.text_of(within), lambda: f"{text!r} is not in {within}:\n{self.text}")

    def sees_no(self, text: str, within: str = "body") -> None:
        """Wait until a text is no longer there."""
        wait_until(lambda: text not in self.text_of(within), lambda: f"{text!r} is still in {within}:\n{self.text}")

    def keys(self, *keys: str) -> None:
        """Type into whatever has the focus; a key after Control is pressed together with it."""
        chain = ActionChains(self.browser, duration=0)
        for number, key in enumerate(keys):
            held = number > 0 and keys[number - 1] == Keys.CONTROL
            if held:
                chain.key_down(Keys.CONTROL).send_keys(key).key_up(Keys.CONTROL)
            elif key != Keys.CONTROL:
                chain.send_keys(key)
        chain.perform()

    def fill(self, selector: str, text: str) -> None:
        def filled() -> bool:
            box = self.one(selector)
            box.send_keys(Keys.CONTROL, "a")
            box.send_keys(Keys.DELETE)
            box.send_keys(text)
            return True

        wait_until(filled, lambda: f"{selector} cannot be filled in:\n{self.text}")

    def in_editor(self, script: str) -> Any:
        """Run a script with the `root` of the editor, which is a shadow root."""
        self.one(".editor")
        has_lines = "return !!document.querySelector('.editor')?.shadowRoot?.querySelector('.cm-content')"
        wait_until(lambda: self.browser.execute_script(has_lines), lambda: f"there is no editor in:\n{self.text}")
        return self.browser.execute_script("const root = document.querySelector('.editor').shadowRoot; " + script)

    def type_rules(self, text: str) -> None:
        """Put a text in place of all rules in the editor, by the keyboard."""
        self.in_editor("root.querySelector('.cm-content').focus()")
        self.keys(Keys.CONTROL, "a")
        self.keys(Keys.DELETE)
        for number, line in enumerate(text.splitlines()):
            self.keys(("\n" if number else "") + line)

    def focused(self) -> str:
        """The name of what has the focus."""
        script = "const it = document.activeElement; return it.ariaLabel ?? it.innerText"
        return str(self.browser.execute_script(script))

    def _network(self, method: str) -> list[dict[str, Any]]:
        """What the browser has told of its network since the last time."""
        self._told += [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        found = [event["params"] for event in self._told if event["method"] == f"Network.{method}"]
        self._told = [event for event in self._told if event["method"] != f"Network.{method}"]
        return found

    def requests(self) -> list[str]:
        """The addresses that have been asked for since the last time, without the server's own part."""
        sent = [event["request"] for event in self._network("requestWillBeSent")]
        return [str(request["url"]).removeprefix(self.url) for request in sent]

    def headers_sent(self, path: str, header: str) -> list[str]:
        """The values of a header in requests for a path, since the last time."""
        sent = [event["request"] for event in self._network("requestWillBeSent")]
        asked = [request["headers"] for request in sent if str(request["url"]).startswith(self.url + path)]
        return [headers[header] for headers in asked if header in headers]

    def received(self) -> int:
        """How many bytes have been received since the last time."""
        return sum(int(event["encodedDataLength"]) for event in self._network("dataReceived"))

    def faults(self) -> list[str]:
        """What the policy has stopped, and errors that nobody has caught, since the page was loaded."""
        return list(self.browser.execute_script("return window.faults ?? []"))
