"""What the workflow asks of stage rented: a part of the plan that only a configuration with `inf2` has.

Beside `recipes.workflow`, and of the same kind: the rule file stays a declaration.
"""

from __future__ import annotations

import json
from pathlib import Path

from ledger.digest import canonical_json, digest_json
from recipes.queues import pairs
from recipes.workflow import Plan, Wildcards

DEVICES = Path("/dev")


class Renting:
    """Which variants are judged and timed on rented machines, and with what.

    Those of target inf2, where the configuration has a section for it and this host has no NeuronCore of its own.
    """

    def __init__(self, plan: Plan, devices: Path = DEVICES) -> None:
        self._plan = plan
        cloud = plan.factory.inf2
        self.rents = cloud is not None and not any(devices.glob("neuron[0-9]*"))
        self._section = canonical_json(cloud.model_dump(mode="json") if cloud else None).decode()
        # The source of both stages, in that container; how it is rented makes no receipt another one.
        image = cloud.image if cloud else None
        self.code = digest_json([plan.code["parity"], plan.code["bench"], image])

    def pairs(self) -> str:
        """Constraint of {checkpoint}: those whose {variant}, the next folder of the path, is rented for."""
        checkpoints = self._plan.factory.checkpoints.values()
        every = ((one.name, variant) for one in checkpoints for variant in one.variants)
        return pairs((name, variant.name) for name, variant in every if self.rents and variant.target == "inf2")

    def section(self, wildcards: Wildcards, threads: int) -> str:
        """The section as JSON.

        Snakemake takes what a function makes of `threads` for no reason to run again, so another ceiling is none; the
        image is one, as part of `code`.
        """
        return self._section

    def recipe(self, wildcards: Wildcards) -> str:
        """The recipes of both stages, as JSON."""
        return canonical_json(
            {stage: json.loads(self._plan.recipe(stage)(wildcards)) for stage in ("parity", "bench")}
        ).decode()
