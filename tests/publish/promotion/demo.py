"""`make publish-demo`: a release from receipts to a registry and a Hub on this machine, and back as a puller gets it.

    python -m tests.publish.promotion.demo CONFIG [--folder DIR] [--registry-port N]

Builds what is missing of CONFIG, makes a key pair, starts Debian's docker-registry and the Hub's stand-in on loopback,
runs the workflow up to `promoted`, publishes once more to see that nothing moves, verifies both as a stranger would,
pulls the image back by its digest, and asks it something. Everything is stopped at the end; registry, Hub and keys stay
in the folder for the next run.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import yaml
from huggingface_hub import HfApi

from ledger.atomic import write_text
from ledger.errors import GateFailed, run_cli
from ledger.flags import Parser, check_folder, whole
from ledger.receipts import Receipt
from ledger.stage import say
from publish.image.registry import pull
from publish.image.run import Container
from publish.promotion.destination import Destination
from publish.trust.keys import make_keys
from publish.workflow import Publishing
from recipes.workflow import Wildcards, read_plan
from tests.hub import Hub
from tests.publish.image.loopback import HOST, serving

OWNER, VERSION = "foundry", "v1"
QUESTION = "What is a list?"
SECRET, PUBLIC = "publisher.key", "publisher.pub"


@dataclass(frozen=True)
class Demo:
    """A configuration and the folder of its state; `environment` tells programs where the Hub is."""

    config: Path
    folder: Path
    environment: Mapping[str, str]

    def program(self, module: str, *arguments: str | Path) -> float:
        """Run `python -m module`, its output here; the seconds it took. GateFailed when it fails."""
        started = time.monotonic()
        command = [sys.executable, "-m", module, *map(str, arguments)]
        say(f"$ python -m {module} {' '.join(map(str, arguments))}")
        if code := subprocess.run(command, check=False, env={**os.environ, **self.environment}).returncode:
            raise GateFailed(f"{module} ended with {code}; accepted: 0")
        return time.monotonic() - started

    def publish(self) -> None:
        """Tell what would move, let it move, then publish once more: GateFailed when that moves anything."""
        files = (self.config, self.folder / "publish.yaml")
        plan = read_plan(files, {})
        publishing = Publishing(plan)
        self.program("snakemake", "--configfile", *files, "--", *publishing.all("sign"))
        self.program("publish.promotion", *files, "--dry-run")
        self.program("snakemake", "--configfile", *files, "--", "promoted")
        seconds = self.program("publish.promotion", *files)
        for name in plan.factory.checkpoints:
            receipts = {
                stage: Receipt.read(Path(plan.receipt(stage).format(checkpoint=name))) for stage in ("stage", "promote")
            }
            sent, moved = receipts["stage"].measured, receipts["promote"].measured["moves"]
            counts = {key: sent[key] for key in ("blobs_sent", "files_sent", "bytes_sent")} | {"moves": moved}
            say(f"published again in {seconds:.1f} s: {counts}")
            if any(counts.values()):
                raise GateFailed(f"{name}: published again, it moved {counts}; accepted: nothing")
            latest = plan.factory.checkpoints[name].release.latest
            to = publishing.destination(cast("Wildcards", SimpleNamespace(checkpoint=name)))
            self.pull_back(to, receipts["promote"].facts["images"][latest])

    def pull_back(self, to: Destination, digest: str) -> None:
        """Verify and run what a stranger gets, with nothing but the public key; print the answer."""
        for reference in (f"hub:{to.repo}@{to.version}", f"docker://{to.image}@{digest}"):
            self.program("publish.verify", reference, "--key", self.folder / PUBLIC)
        layout, storage = self.folder / "pulled", self.folder / "containers"
        pull(f"{to.image}@{digest}", layout)
        try:
            with Container(layout, storage) as image:
                image.wait_ready()
                say(f"{to.image}@{digest} answers at {image.address}\n> {QUESTION}\n{image.ask(QUESTION)}")
        finally:
            shutil.rmtree(storage, ignore_errors=True)


def main() -> int:
    """Everything, and the end of what was started."""
    parser = Parser("publish-demo", "Publishes CONFIG to a registry and a Hub on this machine, and pulls it back.")
    parser.add_argument("config", type=Path, metavar="CONFIG", help="what is published; built first where it is not")
    parser.add_argument("--folder", type=Path, default=Path("results/publish-demo"), metavar="DIR", help="its state")
    parser.add_argument("--registry-port", type=whole(1), default=5580, metavar="N", help="port of the registry")
    flags = parser.parse_args()
    check_folder("--folder", flags.folder)
    configure(flags.folder, f"{HOST}:{flags.registry_port}")
    plan = read_plan([flags.config, flags.folder / "publish.yaml"], {})
    with ExitStack() as stack:
        stack.enter_context(serving(flags.folder / "registry", flags.registry_port))
        hub = stack.enter_context(Hub(flags.folder / "hub"))
        for checkpoint in plan.factory.checkpoints.values():
            api = HfApi(endpoint=hub.endpoint, token=hub.token)
            api.create_repo(f"{OWNER}/{checkpoint.release.name}", exist_ok=True)
        Demo(flags.config, flags.folder, hub.environment).publish()
    return 0


def configure(folder: Path, registry: str) -> None:
    """A key pair, and the section `publish` in publish.yaml."""
    if not (folder / SECRET).exists():
        make_keys(folder)
    section = {
        "version": VERSION,
        "registry": registry,
        "hub": OWNER,
        "signer": {"kind": "key", "key": str(folder / SECRET)},
        "trusted": [str(folder / PUBLIC)],
    }
    write_text(folder / "publish.yaml", yaml.safe_dump({"publish": section}, sort_keys=False))


if __name__ == "__main__":
    run_cli(main)
