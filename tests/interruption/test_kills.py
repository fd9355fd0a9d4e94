"""A line of eight variants that is killed again and again, at random moments, ends with what an undisturbed one makes.

Each kill is SIGKILL for the whole process group. After it everything under a final name is looked at, then the run
goes on as the Makefile would go on. A run that comes to its end is compared with the undisturbed one, and begins
anew: in a new folder, or without its results so that late stages come soon, or without its store's records.
Moments are drawn from a seed, and with each a stage that was not met yet: where it begins earlier, it dies then.
Which stages were at work is counted. About 20 minutes.
"""

from __future__ import annotations

import itertools
import random
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from ledger.sources import ROOT
from tests.interruption.line import STAGES, Kill, Line
from tests.interruption.made import digests

pytestmark = pytest.mark.soak

SEED = 20260
KILLS = 50
LEAST = 7  # stages, of the thirteen, that are found at work: most of a run is bench
# The longest time from a start to the next kill, as a share of a whole run: several kills in a run, some runs whole.
SHARE = 0.2
STAGE = 1.0  # seconds, in which no stage has ended: it has hardly started
VARIANTS: dict[str, dict[str, object]] = {
    "64-16": {},
    "slim": {"slim": True},
    "bf16": {"dtype": "bfloat16"},
    "tp2": {"tp": 2},
    "batch2": {"batch": 2},
    "host": {"kv": "host"},
    "bf16-tp2": {"dtype": "bfloat16", "tp": 2},
    "96-32": {"kv_max": 96, "kv_bucket": 32},
}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """The smallest run with eight variants."""
    given = yaml.safe_load((ROOT / "config" / "smoke.yaml").read_text())
    checkpoint = given["checkpoints"]["demo"]
    checkpoint["variants"] = [{"name": name, "kv_max": 64, "kv_bucket": 16} | more for name, more in VARIANTS.items()]
    checkpoint["release"]["latest"] = "64-16"
    given["parity"] = {"prompts": 4, "max_new": 8, "heldout_tokens": 64}
    given["bench"] = {"prompt_tokens": 16, "new_tokens": 8, "rounds": 1}
    path = tmp_path / "eight.yaml"
    path.write_text(yaml.safe_dump(given))
    return path


def anew(folder: Path) -> None:
    """A new folder."""
    shutil.rmtree(folder / "results")
    shutil.rmtree(folder / ".snakemake")


def without_results(folder: Path) -> None:
    """The store has all that was made, and every receipt is to be had again."""
    shutil.rmtree(folder / "results" / "smoke")


def without_verdicts(folder: Path) -> None:
    """Everything from parity on is to be made again."""
    for receipt in (folder / "results" / "smoke" / "receipts").rglob("*.json"):
        if receipt.stem in ("parity", "bench", "package"):
            receipt.unlink()
    shutil.rmtree(folder / "results" / "smoke" / "release")
    for record in (folder / "results" / "store" / "actions").rglob("*"):
        if record.is_file() and any(f'"stage": "{stage}"' in record.read_text() for stage in ("parity", "bench")):
            record.unlink()


def test_kills_at_random_moments(config: Path, tmp_path: Path) -> None:
    started = time.monotonic()
    undisturbed = Line(tmp_path / "undisturbed", config)
    undisturbed.folder.mkdir()
    assert undisturbed.run()
    whole = time.monotonic() - started
    wanted = digests(undisturbed.folder)
    assert sum("/release/" in name and name.endswith("/manifest.json") for name in wanted) == len(VARIANTS)

    line = Line(tmp_path / "disturbed", config)
    line.folder.mkdir()
    moments, stages = random.Random(SEED), sorted(STAGES.values())
    beginnings: itertools.cycle[Callable[[Path], None]] = itertools.cycle([without_results, without_verdicts, anew])
    kills = runs = 0
    while kills < KILLS:
        unseen = [stage for stage in stages if stage not in line.at_work]
        kill = Kill(moments.uniform(0, SHARE * whole), moments.choice(unseen or stages), moments.uniform(0, STAGE))
        if line.run(kill):
            assert digests(line.folder) == wanted
            runs += 1
            next(beginnings)(line.folder)
        else:
            kills += 1
            sys.stdout.write(f"kill {kills}: {dict(line.at_work)}\n")
            assert digests(line.folder).items() <= wanted.items()
    assert line.run()
    assert digests(line.folder) == wanted
    sys.stdout.write(
        f"seed {SEED}: {kills} kills, {line.unlocked} locks left, {runs + 1} runs came to their end; a whole run takes "
        f"{whole:.0f} s, the test {time.monotonic() - started:.0f} s; at work when killed: {dict(line.at_work)}\n"
    )
    assert len(set(line.at_work) - {"none"}) >= LEAST, line.at_work
