"""The status page of a running server in headless Chromium: drawn, silent, and no request but for itself."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.serve.http.process import server
from tests.validate.report.browser import chromium

pytestmark = pytest.mark.browser
_LOADED = "new Promise(done => document.readyState === 'complete' ? done(1) : addEventListener('load', () => done(1)))"


@pytest.mark.parametrize("width", [1200, 400])
def test_the_page_is_drawn_and_asks_for_nothing_else(folder: Path, tmp_path: Path, width: int) -> None:
    with server(folder) as running, chromium(tmp_path) as browser:
        httpx.post(f"{running.url}/generate", json={"prompt": "weather", "max_tokens": 20})
        browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        browser.events.clear()
        assert "errorText" not in browser.call("Page.navigate", url=running.url)
        browser.ask(_LOADED)
        assert browser.ask("document.querySelector('h1').innerText") == "fake: ready"
        rows = browser.ask("[...document.querySelectorAll('tr')].map(row => row.innerText.split('\\t'))")
        found = {row[0]: row[1] for row in rows}
        assert found["slots in use"] == "0 of 4"
        assert found["answers looked at"] == "1"
        assert "ms at the median" in found["time to first token"]
        assert browser.ask("document.documentElement.scrollWidth") == width
        assert browser.said("Log.entryAdded") == browser.said("Runtime.consoleAPICalled") == []
        urls = {one["request"]["url"] for one in browser.said("Network.requestWillBeSent")}
        assert {url for url in urls if not url.startswith("data:")} == {running.url + "/"}
