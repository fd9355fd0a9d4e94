"""What the workflow asks of the stages after package: a part of the plan that only a configuration with `publish` has.

Beside `recipes.workflow`, and of the same kind: the rule files stay declarations.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from snakemake.io import local  # type: ignore[import-untyped]

from config.models import Checkpoint
from config.publishing import KeySigner, Publish
from ledger.digest import canonical_json, digest_json, sha256_file
from ledger.errors import BadInput, FoundryError
from ledger.sources import ROOT, source_digest
from publish.promotion.decide import needed
from publish.promotion.destination import Destination, destination_of
from publish.trust.trusted import fingerprint, load_trusted, read_private
from recipes.workflow import Plan, Recipe, Wildcards

STAGES = {
    "image": "publish.promotion.image",
    "sign": "publish.sign",
    "stage": "publish.promotion.stage",
    "verify": "publish.promotion.verify",
    "promote": "publish.promotion.promote",
}
CACHE = "results/image-cache"
_HERE = {"package", *STAGES}
_LOCK = ROOT / "envs" / "cpu.txt"


class Publishing:
    """Paths, inputs and recipes of the stages image, sign, stage, verify and promote."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.code = {
            stage: digest_json([source_digest(module), sha256_file(_LOCK)]) for stage, module in STAGES.items()
        }
        images, signed, attestations = (
            f"{plan.results}/{name}/{{checkpoint}}" for name in ("images", "signed", "attestations")
        )
        self.layout = f"{images}/{{variant}}"
        self.signature = f"{signed}/model.sig"
        self.building = f"--release {plan.release()} --layout {self.layout} --cache {CACHE}"
        self.signing = f"--images {images} --signed {signed} --attestations {attestations}"
        self._staged = {"--release": signed, "--images": images, "--attestations": attestations}
        self.staging = " ".join(f"{flag} {folder}" for flag, folder in self._staged.items())
        self.scratch = f"{plan.results}/pulled/{{checkpoint}}"

    @property
    def section(self) -> Publish:
        """The section `publish` of the configuration; BadInput when it has none."""
        if self._plan.factory.publish is None:
            raise BadInput("publish: is missing in the configuration; accepted: a section as in config/defaults.yaml")
        return self._plan.factory.publish

    def check(self) -> None:
        """BadInput for a configuration that publishes nothing, or whose keys could not do what they are for."""
        section = self.section
        trusted = load_trusted([Path(path) for path in section.trusted], environ={})
        if isinstance(section.signer, KeySigner):
            own = fingerprint(read_private(Path(section.signer.key)).public_key())
            if own not in trusted.keys:
                raise BadInput(f"publish.trusted: lacks the key of publish.signer; accepted: one with sha256 {own} too")

    def all(self, stage: str) -> list[str]:
        """Paths of all receipts of a stage that runs once per checkpoint."""
        self.check()
        receipts: list[str] = local(self._plan.all_receipts(stage))
        return receipts

    def target(self, stage: str) -> Callable[[object], list[str]]:
        """The input of a target: `all` of a stage; ends snakemake with one sentence where nothing can be published."""

        def paths(_: object) -> list[str]:
            try:
                return self.all(stage)
            except FoundryError as error:
                sys.stderr.write(f"error: {error}\n")
                sys.exit(error.exit_code)

        return paths

    def inputs(self, stage: str) -> Callable[[Wildcards], dict[str, str]]:
        """The function that gives the receipts of a job, by the name they are handed over under."""

        def paths(wildcards: Wildcards) -> dict[str, str]:
            demanded = needed([variant.name for variant in self._plan.checkpoint(wildcards).variants])
            names = demanded if stage == "promote" else demanded[stage]
            receipts = {name: self._plan.receipt(name).format(checkpoint=wildcards.checkpoint) for name in names}
            # Not to be looked for in a bucket: the rules from package on run here.
            return {name: local(path) if name.split("/")[-1] in _HERE else path for name, path in receipts.items()}

        return paths

    def recipe(self, stage: str) -> Recipe:
        """The function that gives a job's recipe as JSON."""
        make: Callable[[Wildcards], Mapping[str, Any]] = getattr(self, f"_{stage}")
        return lambda wildcards: canonical_json(make(wildcards)).decode()

    def folders(self, wildcards: Wildcards) -> list[Path]:
        """The folders that are staged: the signed release, and those with one for each variant."""
        return [Path(folder.format(checkpoint=wildcards.checkpoint)) for folder in self._staged.values()]

    def arguments(self, stage: str, wildcards: Wildcards) -> list[str]:
        """The command line of stage `stage`, `verify` or `promote`, as its rule has it."""
        own = {"stage": self._staged, "verify": {"--scratch": self.scratch}, "promote": {}}[stage]
        flags = [word for pair in (own | {"--out": self._plan.receipt(stage)}).items() for word in pair]
        for name, path in self.inputs(stage)(wildcards).items():
            flags += ["--input", f"{name}={path}"]
        filled = (flag.format(checkpoint=wildcards.checkpoint) for flag in flags)
        return ["--recipe", self.recipe(stage)(wildcards), *self._plan.store, *filled]

    def signer(self, _: Wildcards) -> str:
        """Who signs, as JSON."""
        signer, more = self.section.signer, {}
        if not isinstance(signer, KeySigner):
            more = {"trust_config": self.section.trust_config}
        return canonical_json(signer.model_dump(mode="json") | more).decode()

    def keyfiles(self, _: Wildcards) -> list[tuple[str, int, int]]:
        """Name, size and time of each key, as another key may be in a file of the same name."""
        section = self.section
        own = [section.signer.key] if isinstance(section.signer, KeySigner) else []
        files = [path for path in map(Path, (*own, *section.trusted)) if path.is_file()]
        return [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]

    def destination(self, wildcards: Wildcards) -> Destination:
        """Where the release goes."""
        return destination_of(self.section, self._checkpoint(wildcards))

    def _checkpoint(self, wildcards: Wildcards) -> Checkpoint:
        return self._plan.checkpoint(wildcards)

    def _package(self, wildcards: Wildcards) -> dict[str, Any]:
        """The plan's own, and for the card the names that people will pull."""
        recipe: dict[str, Any] = json.loads(self._plan.recipe("package")(wildcards))
        if self._plan.factory.publish is None:
            return recipe
        to = self.destination(wildcards)
        return recipe | {"published": {"image": to.image, "repo": to.repo, "version": to.version, "tags": to.fixed}}

    def _image(self, wildcards: Wildcards) -> dict[str, Any]:
        to, variant = self.destination(wildcards), self._plan.variant(wildcards)
        return {
            "variant": variant.name,
            "version": to.version,
            "reference": to.image,
            "tag": to.fixed[variant.name],
            "runtime": self.section.runtime if variant.target == "inf2" else None,
        }

    def _sign(self, wildcards: Wildcards) -> dict[str, Any]:
        return {"checkpoint": wildcards.checkpoint}

    def _stage(self, wildcards: Wildcards) -> dict[str, Any]:
        return {"destination": self.destination(wildcards).model_dump(mode="json")}

    def _verify(self, wildcards: Wildcards) -> dict[str, Any]:
        section = self.section
        trusted = section.model_dump(mode="json", include={"trusted", "identities", "trust_config"})
        return {**self._stage(wildcards), **trusted}

    _promote = _stage
