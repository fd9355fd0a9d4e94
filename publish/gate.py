"""What may be published: a variant whose own artifact passed parity, as the stages recorded it.

Receipts are plain files, and anybody can edit one. The gate does not believe a receipt: it must equal the record that
its stage left in the store (which a failed run never leaves), and every link of the chain must name the receipt
before it by digest, down to the manifest whose graphs were judged. How long a stage took is the one thing that may
differ, as a stage can run twice and make the same thing; figures that a card prints are held by their digest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from config.sdk import foreign
from ledger.digest import digest_json
from ledger.errors import GateFailed
from ledger.receipts import Receipt
from ledger.store import Store
from serve.manifest import MANIFEST, Manifest

STAGES = ("lower", "compile", "assemble", "parity", "bench")
# What each receipt must have been made from, among the receipts of the same variant.
_MADE_FROM = {
    "compile": ("lower",),
    "assemble": ("lower", "compile"),
    "parity": ("assemble",),
    "bench": ("assemble", "parity"),
}


@dataclass(frozen=True)
class Admitted:
    """A variant that may be published, with its manifest and its receipts by stage."""

    name: str
    manifest: Manifest
    receipts: Mapping[str, Receipt]


def admit(name: str, inputs: Mapping[str, Receipt], store: Store) -> Admitted:
    """The variant `name` of `inputs` (receipts by "variant/stage"), once everything about it holds.

    Raises GateFailed with the first thing that does not hold.
    """
    receipts: dict[str, Receipt] = {}
    for stage in STAGES:
        receipt = inputs.get(f"{name}/{stage}")
        if receipt is None or receipt.stage != stage:
            found = "none" if receipt is None else f"one of stage {receipt.stage}"
            raise GateFailed(
                f"variant {name}: the {stage} receipt is missing, found {found}; accepted: a {stage} receipt"
            )
        receipts[stage] = _recorded(name, stage, receipt, store)
    manifest = receipts["assemble"].outputs[MANIFEST]
    check_chain(name, receipts, manifest.sha256)
    check_figures(name, receipts["bench"])
    return Admitted(name, Manifest.model_validate(store.read_json(manifest)), receipts)


def check_chain(name: str, receipts: Mapping[str, Receipt], artifact: str) -> None:
    """GateFailed unless the receipts of a variant are of one build, and parity passed for its `artifact`.

    `receipts` by stage, all of STAGES; `artifact` is the sha256 of the manifest that would be published.
    """
    parity = receipts["parity"]
    if parity.verdict != "passed" or parity.facts.get("mismatches") != []:
        raise GateFailed(f"variant {name}: parity is {parity.verdict} with mismatches; accepted: passed, and none")
    for stage, earlier in ((stage, earlier) for stage, all_ in _MADE_FROM.items() for earlier in all_):
        if receipts[stage].inputs.get(earlier) != receipts[earlier].digest:
            raise GateFailed(
                f"variant {name}: the {stage} receipt speaks of another {earlier}; accepted: receipts of one build"
            )
    if parity.facts.get("artifact") != artifact:
        raise GateFailed(
            f"variant {name}: parity judged the artifact {parity.facts.get('artifact')}; "
            f"accepted: {artifact}, the one to publish"
        )
    if said := foreign(receipts["compile"].toolchain):
        # Parity was real, but of a program that only stands in for the compiler.
        raise GateFailed(f"variant {name}: built with other than the Neuron SDK: {said}")


def check_figures(name: str, bench: Receipt) -> None:
    """GateFailed unless the figures of a bench receipt are those that its stage measured."""
    if bench.facts.get("measurement") != _figures_digest(bench):
        raise GateFailed(
            f"variant {name}: the figures of the bench receipt were edited; accepted: as they were measured"
        )


def _recorded(name: str, stage: str, receipt: Receipt, store: Store) -> Receipt:
    record = store.find_action(receipt.key)
    if record is None or _unmeasured(record) != _unmeasured(receipt):
        raise GateFailed(
            f"variant {name}: the {stage} receipt ({receipt.verdict}) is not what the stage recorded in the store, or "
            f"what it made is gone; accepted: the receipt as it was written; delete it and run again"
        )
    return receipt


def _unmeasured(receipt: Receipt) -> Receipt:
    return receipt.model_copy(update={"measured": {}})


def _figures_digest(bench: Receipt) -> str:
    """What validate.bench.stage calls its measurement; the driver adds the time of the stage to the same mapping."""
    return digest_json({key: value for key, value in bench.measured.items() if key != "stage_seconds"})
