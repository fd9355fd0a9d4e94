"""How long the workflow itself takes, beside snakemake's own start: `python -m validate.bench.planning --out FILE`.

Dry runs of a matrix with nothing built, and a run of 24 variants in which everything is: what the Makefile starts then,
one command after the other. Snakemake's own start is a dry run of a file with one rule, with the same profile. All
sides take turns in one run, so that a busy machine is busy for each; medians. The 24 variants are copies of the one
that `make smoke` has built.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ledger.atomic import write_json
from ledger.columns import aligned
from ledger.errors import BadInput, FoundryError, run_cli
from ledger.flags import Parser, check_file, whole
from ledger.sources import ROOT
from ledger.stage import say

BASE = ROOT / "config" / "smoke.yaml"
START, NOTHING = "snakemake's own start", "nothing to do, 24 variants"
# Variants of a dry run, and the seconds that it may take above snakemake's own start; then those of nothing to do.
DRY_RUNS = {96: 1.5, 480: 4.0}
NOTHING_VARIANTS, NOTHING_SECONDS = 24, 5.0
_ONE_RULE = 'rule one:\n    output: "one"\n    shell: "touch {output}"\n'


@dataclass(frozen=True)
class Side:
    """Commands that are timed together, and the seconds they may take: above snakemake's own start, or at all."""

    name: str
    commands: Sequence[Sequence[str]]
    folder: Path
    most: float | None = None
    above: bool = True

    def seconds(self) -> float:
        """How long they take now; FoundryError when one fails."""
        started = time.perf_counter()
        for command in self.commands:
            run(command, self.folder)
        return time.perf_counter() - started


def run(command: Sequence[str], folder: Path) -> str:
    """What a Python module says on stdout; FoundryError when it fails."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise FoundryError(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.strip()[-1000:]}")
    return done.stdout


def snakemake(config: Path, *flags: str) -> list[str]:
    """The command that runs the workflow for `config`."""
    profile = ROOT / "profiles" / "default"
    given = ["--snakefile", str(ROOT / "Snakefile"), "--configfile", str(config), "--workflow-profile", str(profile)]
    return ["snakemake", *given, *flags]


def matrix(count: int, folder: Path, *, alike: bool, store: Path) -> Path:
    """A configuration of `count` variants; `alike` ones are of one size and one set of weights."""
    given: dict[str, Any] = yaml.safe_load(BASE.read_text())
    checkpoint = given["checkpoints"]["demo"]
    usual = {key: value for key, value in checkpoint["variants"][0].items() if key != "name"}
    variants: list[dict[str, Any]] = [{"name": f"v{number}"} | usual for number in range(count)]
    for number, variant in enumerate(() if alike else variants):
        variant |= {"kv_max": 128 + number % 24 * 16, "tp": 1 + number // 4 % 2, "batch": 1 + number % 8}
        variant |= {"dtype": ("float32", "bfloat16")[number // 8 % 2], "slim": bool(number // 16 % 2)}
    checkpoint |= {"variants": variants, "release": {"name": "planning", "latest": "v0"}}
    path = folder / f"{count}.yaml"
    path.write_text(yaml.safe_dump(given | {"name": f"planning-{count}", "store": str(store)}, sort_keys=False))
    return path


def finished(count: int, results: Path, folder: Path) -> Path:
    """The configuration of a matrix that looks built: copies of what `results` holds, and snakemake's records."""
    base = yaml.safe_load(BASE.read_text())
    name, variant = base["name"], base["checkpoints"]["demo"]["variants"][0]["name"]
    built = results / name
    config = matrix(count, folder, alike=True, store=(results / "store").resolve())
    for line in run(snakemake(config, "--summary"), folder).splitlines()[1:]:
        output = Path(line.split("\t")[0])
        source = built.joinpath(
            *(variant if part in {f"v{n}" for n in range(count)} else part for part in output.parts[2:])
        )
        if not source.is_file():
            raise BadInput(f"--results {results}: {source} is missing; accepted: what make smoke has built")
        (folder / output).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, folder / output)
    made = folder / "results" / f"planning-{count}"
    for part in ("build", "release"):
        shutil.copytree(built / part, made / part, dirs_exist_ok=True)
    variants = made / "build" / "demo" / "variants"
    for number in range(count):
        shutil.copytree(variants / variant, variants / f"v{number}", dirs_exist_ok=True)
    run(snakemake(config, "--touch", "--forceall"), folder)
    return config


def sides(results: Path, folder: Path) -> list[Side]:
    """Everything that is timed."""
    one_rule = folder / "one.smk"
    one_rule.write_text(_ONE_RULE)
    profile = ["--workflow-profile", str(ROOT / "profiles" / "default")]
    made = [Side(START, [["snakemake", "--snakefile", str(one_rule), *profile, "--dry-run"]], folder)]
    for count, most in DRY_RUNS.items():
        config = matrix(count, folder, alike=False, store=folder / "store")
        made.append(Side(f"dry run, {count} variants", [snakemake(config, "--dry-run")], folder, most))
    config = finished(NOTHING_VARIANTS, results, folder)
    commands = [["recipes.recover", str(config)], snakemake(config), ["validate.summary", "--show", str(config)]]
    return [*made, Side(NOTHING, commands, folder, NOTHING_SECONDS, above=False)]


def measure(of: Sequence[Side], rounds: int) -> list[dict[str, Any]]:
    """Seconds of each side, in turns: median, best, worst, above the first side and as a ratio to it."""
    timed: dict[str, list[float]] = {side.name: [] for side in of}
    for _ in range(rounds):
        for side in of:
            timed[side.name].append(side.seconds())
    start = statistics.median(timed[START])
    rows = []
    for side in of:
        median = statistics.median(timed[side.name])
        counted = median - start if side.above else median
        row = {"name": side.name, "median_s": median, "best_s": min(timed[side.name]), "worst_s": max(timed[side.name])}
        row |= {"above_start_s": median - start, "times_start": median / start, "most_s": side.most}
        rows.append(row | {"within": side.most is None or counted <= side.most, "above": side.above})
    return rows


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The figures for a person."""
    lines = [("", "seconds", "best", "above start", "times start", "may take")]
    for row in rows:
        most = "" if row["most_s"] is None else f"{row['most_s']} s {'above start' if row['above'] else ''}".strip()
        median, best, above, times = (
            f"{row[key]:.2f}" for key in ("median_s", "best_s", "above_start_s", "times_start")
        )
        lines.append((row["name"], median, best, above, times, f"{most}{'' if row['within'] else ': missed'}"))
    return "\n".join(aligned(lines, figures=range(1, 5)))


def main() -> int:
    """Measure, print the table, write the figures."""
    parser = Parser("validate.bench.planning", "how long the workflow itself takes, beside snakemake's own start")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="where the figures go, as JSON")
    parser.add_argument(
        "--results", type=Path, default=Path("results"), metavar="DIR", help="where make smoke has built"
    )
    parser.add_argument("--rounds", type=whole(1), default=5, metavar="N", help="repetitions of each (default 5)")
    flags = parser.parse_args()
    check_file("--out", flags.out)
    with tempfile.TemporaryDirectory(prefix="planning-") as folder:
        rows = measure(sides(flags.results.resolve(), Path(folder)), flags.rounds)
    write_json(flags.out, rows)
    say(table(rows))
    return 0


if __name__ == "__main__":
    run_cli(main)
