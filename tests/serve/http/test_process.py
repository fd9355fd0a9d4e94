"""Real processes on loopback, over a scripted model: OpenAI's own client, signals, spot notices, bad starts."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serve.http import checks
from tests.serve.http.notices import metadata
from tests.serve.http.process import Server, server


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    from tests.serve.http.scripted import write_text

    folder = tmp_path_factory.mktemp("process")
    write_text(folder)
    with server(folder, "--queue", "200") as running:
        yield running


def test_the_official_client(shared: Server) -> None:
    assert "The weather in Paris" in checks.official_client(shared, "The weather in Paris", 30)


def test_the_official_client_many_at_once(shared: Server) -> None:
    prompts = [f"weather {number}" for number in range(40)]
    for prompt, text in zip(prompts, checks.many_at_once(shared, prompts, 40), strict=True):
        assert prompt in text


def test_clients_that_hang_up_leave_nothing_open(shared: Server) -> None:
    checks.hang_ups(shared, "weather", 100)


def test_a_running_answer_survives_a_signal(folder: Path) -> None:
    with server(folder, batch=1) as running:
        assert checks.draining(checks.end(running, running.terminate, "weather", 100)) == "SIGTERM"


def test_a_running_answer_survives_a_spot_notice(folder: Path) -> None:
    with metadata() as service:
        with server(folder, "--spot", service.address, "--spot-seconds", "0.02", batch=1) as running:
            log = checks.end(running, service.noticed.set, "weather", 100)
        assert checks.draining(log).startswith("spot notice: ")


def test_an_idle_server_ends_at_once(folder: Path) -> None:
    with server(folder) as running:
        running.terminate()
        assert running.wait()[0] == 0


def test_a_port_in_use_is_one_sentence(folder: Path, shared: Server) -> None:
    command = [sys.executable, "-m", "tests.serve.http.process", str(folder), "--port", str(shared.port)]
    done = subprocess.run(command, capture_output=True, text=True, env={"SLOTS": "1"}, check=False, timeout=30)
    assert done.returncode == 2
    assert f"cannot listen on 127.0.0.1, port {shared.port}" in done.stderr.splitlines()[-1]


def test_damage_that_the_load_finds_ends_with_one_sentence(folder: Path) -> None:
    command = [sys.executable, "-m", "tests.serve.http.process", str(folder), "--port", "0"]
    environment = {"SLOTS": "1", "DAMAGE": "weights: sha256 is 1; the manifest accepts 2"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, timeout=30)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == "error: weights: sha256 is 1; the manifest accepts 2"
    assert '"ready"' not in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "nowhere/manifest.json: cannot be read"),
        (["nowhere", "--port", "x"], "--port is 'x'; whole numbers from 0 to 65535 are accepted"),
        (["nowhere", "--nothing"], "--nothing is not known; accepted: --host"),
        ([], "no artifact is named"),
    ],
)
def test_a_bad_start_is_one_sentence(arguments: list[str], words: str) -> None:
    command = [sys.executable, "-m", "serve", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("error: ")
    assert words in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
