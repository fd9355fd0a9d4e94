"""What the workflow asks of each stage: paths of receipts, recipes, source digests, memory.

The rule files stay declarations: everything in them that is a function of the configuration is here, typed
and tested without a workflow. No stage is imported, as this is read on every call and torch takes seconds.
"""

import re
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from config.builders import inlines_weights
from config.flags import canonical_flags
from config.geometry import Geometry
from config.loading import from_mapping, merge, read_mapping
from config.models import Checkpoint, Factory, PathSource, Variant
from ledger.digest import canonical_json, digest_json, sha256_file
from ledger.errors import BadInput
from ledger.location import bucket_of
from ledger.sources import ROOT, source_digest
from recipes.neuron.presence import presence

# The module of each stage; its import closure, wider than what the stage itself keys on, is what a rule watches.
STAGES = {
    "fetch": "recipes.fetch",
    "lower": "recipes.lower",
    "lint": "recipes.lint.stage",
    "weights": "recipes.weights",
    "tables": "recipes.tables",
    "compile": "recipes.compile",
    "assemble": "recipes.assemble",
    "prompts": "validate.prompts",
    "oracle": "validate.oracle",
    "parity": "validate.parity",
    "bench": "validate.bench.stage",
    "package": "publish.package",
    "summary": "validate.summary",
    "report": "validate.report.__main__",
}
# What a stage starts by name, which its own imports do not show.
STARTS = {"compile": ("recipes.neuron.build", "recipes.neuron.versions")}
PER_VARIANT = ("lower", "compile", "assemble", "parity", "bench")
# What compiled bytes of target inf2 depend on apart from the HLO: the SDK lowers the module again by itself.
_NEURON_POINT = {"target", "builder", "kv", "tp", "batch", "dtype", "kv_max", "kv_bucket"}
_LOCK = ROOT / "envs" / "cpu.txt"


class Wildcards(Protocol):
    """The part of snakemake's wildcards that a recipe may look at; a rule has only those of its paths."""

    checkpoint: str
    variant: str
    kv_max: str
    kv_bucket: str
    target: str
    dtype: str
    tp: str


Recipe = Callable[[Wildcards], str]


def _weights_of(variant: Variant) -> str:
    return f"weights/{variant.target}-{variant.dtype}-tp{variant.tp}"


def read_plan(files: Sequence[Path], overrides: Mapping[str, Any]) -> "Plan":
    """The plan of the files given with --configfile, merged as snakemake merges them, and of --config.

    Snakemake has read the files too, but without noticing a key that is given twice. Raises BadInput.
    """
    if not files:
        raise BadInput("--configfile is missing; accepted: a configuration such as config/demo.yaml")
    merged: dict[str, Any] = {}
    for file in files:
        merged = merge(merged, read_mapping(file))
    merged = merge(merged, overrides)
    return Plan(from_mapping(merged, " and ".join(str(file) for file in files)))


class Plan:
    """The matrix of one configuration, known before the first job runs."""

    def __init__(self, factory: Factory, lock: Path = _LOCK) -> None:
        self.factory = factory
        checkpoints = factory.checkpoints.values()
        # Asked for by several functions of every job.
        self._variants = {(checkpoint.name, v.name): v for checkpoint in checkpoints for v in checkpoint.variants}
        self._geometries = {checkpoint.name: checkpoint.load_geometry() for checkpoint in checkpoints}
        # Stages run with the interpreter that runs the workflow, from any working directory.
        interpreter, root = shlex.quote(str(Path(sys.executable).parent)), shlex.quote(str(ROOT))
        # What is importable stays importable: a host brings the Neuron SDK in its own way. (Doubled braces: a format.)
        path = f"PATH={interpreter}:$PATH PYTHONPATH={root}${{{{PYTHONPATH:+:$PYTHONPATH}}}}"
        self.prefix = f"set -euo pipefail; export {path}; "
        # Flags, each quoted by the rule that hands them on.
        self.store = ["--store", factory.store, *(["--cache", factory.cache] if bucket_of(factory.store) else [])]
        self.results = f"results/{factory.name}"
        self.logs = f"{self.results}/logs/{{checkpoint}}"
        self._receipts = f"{self.results}/receipts/{{checkpoint}}"
        # Snakemake sees neither an edit to an imported module nor a new version of a package; this does.
        self.code = {
            stage: digest_json([source_digest(module, *STARTS.get(stage, ())), sha256_file(lock)])
            for stage, module in STAGES.items()
        }

    def receipt(self, name: str) -> str:
        """Path of the receipt `name` (such as "{variant}/lower") with the wildcard {checkpoint}."""
        return f"{self._receipts}/{name}.json"

    def build(self) -> str:
        """Folder that artifacts of a checkpoint are assembled in; it has the shape of a release."""
        return f"{self.results}/build/{{checkpoint}}"

    def artifact(self) -> str:
        """Folder of a variant's artifact, with wildcards."""
        return f"{self.build()}/variants/{{variant}}"

    def release(self) -> str:
        """Release folder of a checkpoint."""
        return f"{self.results}/release/{{checkpoint}}"

    def releases(self) -> list[str]:
        """What every release folder must hold: the list of its files."""
        return [f"{self.release()}/release.json".format(checkpoint=name) for name in self.factory.checkpoints]

    def one_of(self, wildcard: str) -> str:
        """Regular expression of the values that {checkpoint} or {variant} has in this matrix."""
        names = set(self.factory.checkpoints) if wildcard == "checkpoint" else {name for _, name in self._variants}
        return "|".join(map(re.escape, sorted(names)))

    def all_receipts(self, stage: str) -> list[str]:
        """Paths of all receipts of a stage that runs once per variant, or once per checkpoint."""
        paths = []
        for checkpoint in self.factory.checkpoints.values():
            variants = [variant.name for variant in checkpoint.variants]
            names = [f"{name}/{stage}" for name in variants] if stage in PER_VARIANT else [stage]
            paths += [self.receipt(name).format(checkpoint=checkpoint.name) for name in names]
        return paths

    def of_size(self, stage: str) -> Callable[[Wildcards], str]:
        """Path of a receipt that the variants of one size share."""

        def path(wildcards: Wildcards) -> str:
            kv_max, kv_bucket = self.variant(wildcards).size
            return self.receipt(f"{stage}/{kv_max}-{kv_bucket}").format(checkpoint=wildcards.checkpoint)

        return path

    def weights_of(self, wildcards: Wildcards) -> str:
        """Path of the receipt of the weights that a variant runs on."""
        return self.receipt(_weights_of(self.variant(wildcards))).format(checkpoint=wildcards.checkpoint)

    def compile_inputs(self, wildcards: Wildcards) -> dict[str, str]:
        """Receipts that a variant is compiled from: its HLO, and for inf2 what the SDK traces and inlines itself."""
        variant = self.variant(wildcards)
        inputs = {"lower": self.receipt("{variant}/lower")}
        if variant.target == "inf2":
            inputs |= {"fetch": self.receipt("fetch"), "lint": self.receipt("{variant}/lint")}
            if inlines_weights(variant.builder):
                inputs["weights"] = self.receipt(_weights_of(variant))
        names = {"checkpoint": wildcards.checkpoint, "variant": variant.name}
        return {name: path.format(**names) for name, path in inputs.items()}

    def sdk(self, wildcards: Wildcards) -> list[str]:
        """Which Neuron SDK a compile would meet on this host; nothing for a variant that needs none."""
        return presence() if self.variant(wildcards).target == "inf2" else []

    def package_inputs(self, wildcards: Wildcards) -> dict[str, str]:
        """Receipts that a release is made from, by the name they are handed over under."""
        variants = self.checkpoint(wildcards).variants
        names = ["fetch", "tables", *(f"{v.name}/{stage}" for v in variants for stage in PER_VARIANT)]
        inputs = {name: self.receipt(name) for name in names}
        inputs |= {_weights_of(v): self.receipt(_weights_of(v)) for v in variants}
        return {name: path.format(checkpoint=wildcards.checkpoint) for name, path in inputs.items()}

    @staticmethod
    def flags(wildcards: Wildcards, input: Mapping[str, str]) -> str:  # noqa: A002  (snakemake's name)
        """The --input flags for a job's named input receipts."""
        return " ".join(f"--input {shlex.quote(f'{name}={path}')}" for name, path in input.items())

    def summary_inputs(self) -> list[str]:
        """Every receipt that the summary is made from."""
        stages = ("fetch", "compile", "assemble", "parity", "bench")
        return [path for stage in stages for path in self.all_receipts(stage)]

    def report_inputs(self) -> list[str]:
        """Every receipt of a run but those of releases: what its variants share, then each variant's."""
        paths = []
        for name, checkpoint in self.factory.checkpoints.items():
            variants = checkpoint.variants
            sizes = ["-".join(map(str, variant.size)) for variant in variants]
            names = ["fetch", *(f"{stage}/{size}" for stage in ("prompts", "oracle") for size in sizes)]
            names += ["tables", *map(_weights_of, variants)]
            names += [f"{variant.name}/{stage}" for variant in variants for stage in PER_VARIANT]
            names += [f"{variant.name}/lint" for variant in variants if variant.target == "inf2"]
            paths += [self.receipt(one).format(checkpoint=name) for one in names]
        return list(dict.fromkeys(paths))

    def found(self, wildcards: Wildcards) -> list[tuple[str, int, int]]:
        """Name, size and time of each file of a path source, which has no revision to tell that it has changed."""
        source = self.checkpoint(wildcards).source
        if not isinstance(source, PathSource):
            return []
        files = (path for path in sorted(Path(source.path).glob("*")) if path.is_file())
        return [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]

    def recipe(self, stage: str) -> Recipe:
        """The function that gives a job's recipe as JSON."""
        make: Callable[[Wildcards], dict[str, Any]] = getattr(self, f"_{stage}")
        return lambda wildcards: canonical_json(make(wildcards)).decode()

    def geometry(self, wildcards: Wildcards) -> Geometry:
        """The shape of the checkpoint a job works on."""
        return self._geometries[wildcards.checkpoint]

    def checkpoint(self, wildcards: Wildcards) -> Checkpoint:
        """The checkpoint a job works on."""
        return self.factory.checkpoints[wildcards.checkpoint]

    def variant(self, wildcards: Wildcards) -> Variant:
        """The variant a job works on."""
        return self._variants[wildcards.checkpoint, wildcards.variant]

    def _fetch(self, wildcards: Wildcards) -> dict[str, Any]:
        keys = {"source", "geometry", "licence", "files", "template_sha256"}
        return self.checkpoint(wildcards).model_dump(mode="json", include=keys)

    def _lower(self, wildcards: Wildcards) -> dict[str, Any]:
        keys = {"kv_max", "kv_bucket", "tp", "batch", "dtype", "target"}
        return self.variant(wildcards).model_dump(mode="json", include=keys)

    def _weights(self, wildcards: Wildcards) -> dict[str, Any]:
        # Bfloat16 weights may be in pieces, by target; float32 ones never are.
        target = wildcards.target if wildcards.dtype == "bfloat16" else "any"
        return {"dtype": wildcards.dtype, "tp": int(wildcards.tp), "target": target}

    def _tables(self, _: Wildcards) -> dict[str, Any]:
        return {}

    def _lint(self, wildcards: Wildcards) -> dict[str, Any]:
        return self.variant(wildcards).model_dump(mode="json", include={"target", "builder", "tp", "kv"})

    def _compile(self, wildcards: Wildcards) -> dict[str, Any]:
        variant = self.variant(wildcards)
        keys = _NEURON_POINT if variant.target == "inf2" else {"target"}
        flags = canonical_flags(variant.target, variant.flags)
        return variant.model_dump(mode="json", include=keys) | {"flags": flags}

    def _assemble(self, wildcards: Wildcards) -> dict[str, Any]:
        return {
            "checkpoint": wildcards.checkpoint,
            "variant": self.variant(wildcards).model_dump(mode="json", exclude={"flags"}),
        }

    def _prompts(self, wildcards: Wildcards) -> dict[str, Any]:
        parity = self.factory.parity
        return {
            "kv_max": int(wildcards.kv_max),
            "kv_bucket": int(wildcards.kv_bucket),
            "window": self._geometries[wildcards.checkpoint].sliding_window,
            "count": parity.prompts,
            "max_new": parity.max_new,
            "heldout_tokens": parity.heldout_tokens,
            "seed": parity.seed,
        }

    def _oracle(self, wildcards: Wildcards) -> dict[str, Any]:
        return {"reference": self.checkpoint(wildcards).reference}

    def _parity(self, wildcards: Wildcards) -> dict[str, Any]:
        parity = self.factory.parity
        return {
            "dtype": self.variant(wildcards).dtype,
            "epsilon": parity.bfloat16_epsilon,
            "logprob_tolerance": parity.float32_logprob_tolerance,
        }

    def _bench(self, wildcards: Wildcards) -> dict[str, Any]:
        return {**self.factory.bench.model_dump(mode="json"), "dtype": self.variant(wildcards).dtype}

    def _package(self, wildcards: Wildcards) -> dict[str, Any]:
        checkpoint = self.checkpoint(wildcards)
        return {
            "checkpoint": checkpoint.name,
            **checkpoint.model_dump(mode="json", include={"source", "release"}),
            "variants": [variant.name for variant in checkpoint.variants],
        }
