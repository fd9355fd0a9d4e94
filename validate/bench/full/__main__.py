"""Measure what config/full.yaml has built, and say which figures stand.

    python -m validate.bench.full config/full.yaml --out results/bench-full/summary.json

Departs from the stage bench, which compares one variant with transformers, in what it compares: contexts, slots and
the machine's own memory, at the size that users have. Needs about 20 GB of memory and nothing beside it.
"""

from __future__ import annotations

import os
import random
import tempfile
from pathlib import Path

from config.loading import load as load_config
from config.models import Checkpoint
from ledger.atomic import write_json
from ledger.errors import BadInput, run_cli
from ledger.flags import Parser, check_file, whole
from ledger.receipts import Receipt
from ledger.stage import say
from ledger.store import open_store
from serve.manifest import Manifest
from validate.bench import transformers_worker
from validate.bench.full import phases
from validate.bench.full.figures import contexts, figures, summary, table
from validate.bench.lines import WorkerFailed
from validate.bench.machine import machine
from validate.bench.stage import own_bytes
from validate.encode import Encoder
from validate.pool import Pool

RESULTS = Path("results")


def measured(folder: Path, artifacts: phases.Artifacts, threads: int, rounds: int) -> dict[str, object]:
    """The summary of `artifacts`, built of the checkpoint in `folder`."""
    encoder = Encoder.from_folder(folder)
    pool = Pool(encoder, room=phases.LONGEST, forbidden=encoder.placeholders, chooser=random.Random(0))
    reference = (transformers_worker.MODULE, str(folder), "bfloat16", str(threads))
    before = machine()
    steps = phases.steps(artifacts, pool.filled, threads, 3 * rounds)
    beside = phases.beside(artifacts, reference, pool.filled, threads, rounds)
    load = phases.load(artifacts["512-128"], threads)
    return summary(
        figures(steps, beside, load, added_bytes_ratio(artifacts)),
        {
            "contexts": contexts(steps, beside),
            "seconds": {"steps": steps, "beside": beside},
            "read_gb_s": round(steps["step_bytes"] / steps["probe_s"] / 1e9, 2),
            "machine": before | {"threads": threads},
        },
    )


def added_bytes_ratio(artifacts: phases.Artifacts) -> float:
    """The most that a further variant adds to the device's files, as a share of the first one's with its weights."""
    manifests = {name: Manifest.read(folder) for name, folder in artifacts.items()}
    added = {name: own_bytes(artifacts[name], manifest) for name, manifest in manifests.items()}
    weights = sum(ref.bytes for ref in manifests["512-128"].weights)
    return max(added.values()) / (added["512-128"] + weights)


def built(checkpoint: Checkpoint, run: Path) -> dict[str, Path]:
    """The folders of the variants that are timed; BadInput where one is not in the configuration or not built."""
    names = [variant.name for variant in checkpoint.variants]
    for name in phases.VARIANTS:
        if name not in names:
            raise BadInput(
                f"checkpoints.{checkpoint.name}.variants: found no {name}; "
                f"accepted by the full bench: {', '.join(phases.VARIANTS)}"
            )
    folders = {name: run / "build" / checkpoint.name / "variants" / name for name in phases.VARIANTS}
    for folder in folders.values():
        if not (folder / "manifest.json").is_file():
            raise BadInput(f"{folder} is not built; accepted: what `make bench-full` builds first")
    return folders


def main() -> int:
    """`python -m validate.bench.full`."""
    parser = Parser("validate.bench.full", "Measure the full-size variants and say which figures stand.")
    parser.add_argument("config", type=Path, metavar="CONFIG", help="config/full.yaml")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="where the summary goes, JSON")
    parser.add_argument("--rounds", type=whole(1), default=2, metavar="N", help="turns of each side, default 2")
    flags = parser.parse_args()
    check_file("--out", flags.out)
    factory = load_config(flags.config)
    run = RESULTS / factory.name
    checkpoint = next(iter(factory.checkpoints.values()))
    artifacts = built(checkpoint, run)
    fetched = Receipt.read(run / "receipts" / checkpoint.name / "fetch.json")
    with tempfile.TemporaryDirectory() as name:
        open_store(factory.store, factory.cache, flag="store").lay_out(fetched.outputs, Path(name))
        try:
            made = measured(Path(name), artifacts, len(os.sched_getaffinity(0)), flags.rounds)
        except WorkerFailed as error:
            raise BadInput(
                f"{flags.config}: cannot be measured ({error}); accepted: what `make bench-full` builds"
            ) from None
    write_json(flags.out, made)
    say(table(made))
    say(f"bench-full: {flags.out}")
    return 0


if __name__ == "__main__":
    run_cli(main)
