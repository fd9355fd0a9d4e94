"""`make bench-shared`: a matrix on one machine with an empty bucket, then on a second one with an empty disk.

    python -m tests.two_machines CONFIG [--out FILE]

Both machines are folders here, and the bucket is served on loopback (tests/aws.py). The second one may build nothing
but the folders that stages fill for it; how long it takes is told beside the bare download of the same objects by the
same client, and beside a run of the first machine that has nothing to do.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3

from config.loading import load
from ledger.atomic import write_json
from ledger.errors import GateFailed, run_cli
from ledger.flags import Parser, check_file
from ledger.receipts import Ref
from ledger.sources import ROOT
from ledger.stage import say
from ledger.store import open_store
from tests.aws import credentials

BUCKET = "foundry"
# What lays files out for the machine it runs on, whatever the store knows.
LAID_OUT = {"assemble"}
_BUILT = re.compile(r"^(\S+): building \(", re.M)


@dataclass(frozen=True)
class Machine:
    """A folder with nothing but what runs there made, and the one bucket behind it."""

    folder: Path
    config: Path

    def run(self) -> tuple[float, Counter[str]]:
        """Seconds that the line takes, and how often each stage worked. GateFailed when it fails."""
        command = [sys.executable, "-m", "snakemake", "--snakefile", str(ROOT / "Snakefile"), "--directory"]
        command += [str(self.folder), "--workflow-profile", str(ROOT / "profiles" / "default")]
        command += ["--configfile", str(self.config), "--config", f"store=s3://{BUCKET}/store"]
        started = time.monotonic()
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            raise GateFailed(f"{self.folder.name}: the line ended with {done.returncode}:\n{done.stdout[-4000:]}")
        return time.monotonic() - started, Counter(_BUILT.findall(done.stdout))

    def brought(self) -> list[Ref]:
        """The objects in the folder that this machine reads the bucket through."""
        files = (self.folder / "results" / "store" / "objects").rglob("*")
        return [Ref(sha256=path.name, bytes=path.stat().st_size) for path in files if path.is_file()]


@contextmanager
def aws() -> Iterator[None]:
    """A bucket on loopback, for this process and those that it starts."""
    command = [sys.executable, "-m", "tests.aws"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin
        assert process.stdout
        endpoint = process.stdout.readline().decode().strip()
        os.environ |= credentials(endpoint)
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield
        process.stdin.close()


def compared(config: Path, folder: Path) -> dict[str, Any]:
    """The figures of both machines; GateFailed when the second one built what was there."""
    first, second = (Machine(folder / name, config) for name in ("first", "second"))
    for machine in (first, second):
        machine.folder.mkdir()
    seconds, built = first.run()
    say(f"first machine: {seconds:.1f} s, {sum(built.values())} stages at work")
    idle, _ = first.run()
    again, rebuilt = second.run()
    brought = second.brought()
    size = sum(ref.bytes for ref in brought)
    say(f"second machine: {again:.1f} s, {len(brought)} objects of {size / 1e6:.1f} MB came")
    if wrong := sorted(rebuilt.keys() - LAID_OUT):
        raise GateFailed(f"second machine: {wrong[0]} was at work; accepted: {', '.join(sorted(LAID_OUT))}")
    bare = download(brought, folder / "bare")
    say(f"the same objects, bare: {bare:.1f} s; the first machine with nothing to do: {idle:.1f} s")
    return {
        "config": config.name,
        "first_seconds": round(seconds, 1),
        "first_stages": dict(built),
        "idle_seconds": round(idle, 1),
        "second_seconds": round(again, 1),
        "second_stages": dict(rebuilt),
        "second_over_first": round(again / seconds, 3),
        "objects": len(brought),
        "megabytes": round(size / 1e6, 1),
        "bare_seconds": round(bare, 1),
    }


def download(refs: list[Ref], cache: Path) -> float:
    """Seconds that one process takes to bring objects of the bucket into an empty folder."""
    store = open_store(f"s3://{BUCKET}/store", cache)
    started = time.monotonic()
    for ref in refs:
        store.path(ref)
    return time.monotonic() - started


def main() -> int:
    """`python -m tests.two_machines`; 1 when the second machine built anything."""
    parser = Parser("two_machines", "The same matrix on two machines that share a store.")
    parser.add_argument("config", type=Path, metavar="CONFIG", help="configuration of the run")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the figures go, as JSON")
    flags = parser.parse_args()
    if flags.out:
        check_file("--out", flags.out)
    load(flags.config)
    folder = Path(tempfile.mkdtemp(prefix="two-machines-"))
    try:
        with aws():
            figures = compared(flags.config.resolve(), folder)
    finally:
        shutil.rmtree(folder)
    if flags.out:
        write_json(flags.out, figures)
    return 0


if __name__ == "__main__":
    run_cli(main)
