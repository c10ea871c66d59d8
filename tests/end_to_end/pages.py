"""Pages of explore.py as a person opens them, which Chromium watches."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright import sync_api

TOP = Path(__file__).parents[2]


@contextmanager
def run_explore(*arguments: object) -> Iterator[str]:
    """Run explore.py on a free port, and yield the address that it prints."""
    command = [sys.executable, str(TOP / "pipeline" / "explore.py"), *map(str, arguments), "--port", "0"]
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "http://127.0.0.1:" in line
        try:
            yield line.split(": ", 1)[1].split()[0]
        finally:
            process.terminate()  # a test that failed would wait for it


@contextmanager
def open_watched(
    browser: "sync_api.Browser", address: str, ready: str = "body", console: bool = False, beside: str = "", **options: Any
) -> Iterator["sync_api.Page"]:
    """Open a page; at the end, fail on any script error or dialog, and on any request to another address.

    Args:
        browser: The browser.
        address: Address of the page.
        ready: Selector of an element that is there when the page can be used.
        console: Also fail on errors that the console shows, such as answers with an error status.
        beside: Where what the page asks for lies, other than below its address.
        options: Of the browser's context.
    """
    with browser.new_context(**{"viewport": {"width": 1280, "height": 900}} | options) as context:
        opened = context.new_page()
        troubles: list[str] = []
        opened.on("pageerror", lambda error: troubles.append(str(error)))
        if console:
            opened.on("console", lambda message: troubles.append(message.text) if message.type in ("error", "warning") else None)
        opened.on("dialog", lambda dialog: troubles.append(f"dialog {dialog.message}"))
        own = (beside or address, "data:")
        opened.on("request", lambda r: troubles.extend([] if r.url.startswith(own) else [f"request to {r.url}"]))
        opened.goto(address)
        opened.wait_for_selector(ready)
        yield opened
        assert troubles == []
