"""neuron-ls and neuron-monitor of the stand-ins against the fields that the SDK document (7.3) names."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

BIN = Path(__file__).with_name("bin")
HOLD = """
import os, sys
file = open(sys.argv[1], "w")
file.write(f"{os.getpid()}\\n")
file.flush()
ballast = bytearray(64 << 20)
print("held", flush=True)
sys.stdin.read()
"""


def run(tool: str, *arguments: str, root: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a tool of the stand-ins to its end."""
    environment = {**os.environ, "STANDIN_ROOT": str(root), **variables}
    command = [sys.executable, str(BIN / tool), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20, check=False)


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds core 1 of the host whose files are in `tmp_path`."""
    (tmp_path / "cores").mkdir()
    command = [sys.executable, "-c", HOLD, str(tmp_path / "cores/1")]
    environment = {**os.environ, "NEURON_PROCESS_TAG": "server"}
    with subprocess.Popen(command, env=environment, stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout
        process.stdout.readline()
        yield process
        process.communicate()


def reports(root: Path, config: dict[str, Any], count: int) -> list[Any]:
    """The first documents of a neuron-monitor that is then stopped by closing its pipe."""
    (root / "monitor.json").write_text(json.dumps(config))
    command = [sys.executable, str(BIN / "neuron-monitor"), "-c", str(root / "monitor.json")]
    environment = {**os.environ, "STANDIN_ROOT": str(root)}
    with subprocess.Popen(command, env=environment, stdout=-1, text=True) as process:
        assert process.stdout
        found = [json.loads(process.stdout.readline()) for _ in range(count)]
        process.stdout.close()
        assert process.wait(timeout=20) == 0
    return found


def test_ls_lists_a_chip_and_who_holds_it(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    done = run("neuron-ls", "-j", root=tmp_path, STANDIN_DEVICES="2")
    first, second = json.loads(done.stdout)
    assert (first["nc_count"], first["memory_size"], first["neuroncore_ids"]) == (2, 34359738368, [0, 1])
    (process,) = first["neuron_processes"]
    assert process["pid"] == holder.pid
    assert "cores/1" in process["command"]
    assert process["neuron_runtime_version"].startswith("2.30.")
    assert (second["neuron_device"], second["neuron_processes"]) == (1, [])


def test_a_dead_holder_is_not_listed(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.communicate()
    (chip,) = json.loads(run("neuron-ls", "--json-output", root=tmp_path).stdout)
    assert chip["neuron_processes"] == []


def test_ls_without_a_device_fails(tmp_path: Path) -> None:
    done = run("neuron-ls", "-j", root=tmp_path, STANDIN_DEVICES="0")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Failed to discover neuron devices" in done.stderr


def test_ls_has_a_table_for_people(tmp_path: Path) -> None:
    title, row = run("neuron-ls", root=tmp_path).stdout.splitlines()
    assert "NEURON MEMORY" in title
    assert "32 GB" in row


def test_monitor_reports_the_memory_of_the_holder(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    config = {"period": "50ms", "neuron_runtimes": [{"tag_filter": "serv", "metrics": [{"type": "memory_used"}]}]}
    for document in reports(tmp_path, config, count=2):
        (runtime,) = document["neuron_runtime_data"]
        assert (runtime["pid"], runtime["neuron_runtime_tag"], list(runtime["report"])) == (
            holder.pid,
            "server",
            ["memory_used"],
        )
        host = runtime["report"]["memory_used"]["neuron_runtime_used_bytes"]["host"]
        assert host == pytest.approx(psutil.Process(holder.pid).memory_info().rss, rel=0.1)
        assert host > 64 << 20
        assert document["neuron_hardware_info"]["neuroncore_per_device_count"] == 2
        assert document["system_data"] == {}


def test_monitor_leaves_out_what_the_tag_filter_does_not_match(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    metrics = [{"type": "neuroncore_counters"}]
    config = {
        "period": "50ms",
        "neuron_runtimes": [{"tag_filter": "^other$", "metrics": metrics}],
        "system_metrics": [{"type": "memory_info"}],
    }
    (document,) = reports(tmp_path, config, count=1)
    assert document["neuron_runtime_data"] == []
    assert document["system_data"]["memory_info"]["memory_total_bytes"] == psutil.virtual_memory().total


def test_monitor_without_a_configuration_reports_every_group(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    command = [sys.executable, str(BIN / "neuron-monitor")]
    with subprocess.Popen(command, env={**os.environ, "STANDIN_ROOT": str(tmp_path)}, stdout=-1, text=True) as process:
        assert process.stdout
        document = json.loads(process.stdout.readline())
        process.terminate()
    (runtime,) = document["neuron_runtime_data"]
    assert runtime["report"]["neuroncore_counters"]["neuroncores_in_use"].keys() == {"1"}
    assert runtime["report"]["execution_stats"]["latency_stats"]["total_latency"] is None
    assert set(document["system_data"]) == {"neuron_hw_counters", "vcpu_usage", "memory_info"}


def test_monitor_names_a_period_it_cannot_read(tmp_path: Path) -> None:
    (tmp_path / "monitor.json").write_text('{"period": "soon"}')
    done = run("neuron-monitor", "-c", str(tmp_path / "monitor.json"), root=tmp_path)
    assert done.returncode == 1
    assert "'soon'" in done.stderr
