"""Whether what came back from a machine is what was asked for.

A receipt travels over S3 and was written by a container, so nothing of it is believed that can be compared: stage,
recipe, digests of the inputs, of the source and of the artifact. Its verdict is then its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from ledger.errors import BadInput
from ledger.receipts import Receipt
from serve.manifest import MANIFEST
from validate.inf2.failed import RentFailed
from validate.inf2.folder import Folder
from validate.inf2.order import STAGES, Order, StageName, failed_name, receipt_name


class Foreign(RentFailed):
    """What is on S3 is no answer to this order."""


def results(folder: Folder, order: Order) -> dict[StageName, Receipt]:
    """The receipts of a run, in the order of the stages: all of them, or those up to one that says failed.

    None at all where these do not decide it; a failed one that stands alone, as it was left by an earlier run, is then
    removed. Foreign when one of them does not belong to the order: it is removed, and the next run makes it again.
    """
    found: dict[StageName, Receipt] = {}
    for stage in STAGES:
        for name in (receipt_name(stage), failed_name(stage)):
            if (data := folder.read(name)) is None:
                continue
            try:
                receipt = Receipt.parse(data, f"{folder.address}/{name}")
                said = next(_against(receipt, order, stage, found, failed=name == failed_name(stage)), "")
            except BadInput as error:
                said = f"cannot be read ({error})"
            if said:
                folder.remove(name)
                raise Foreign(f"{order.name}: {folder.address}/{name} {said}; it is removed, and the next run makes it")
            found[stage] = receipt
            break
        if stage not in found:
            break
        if found[stage].verdict == "failed":
            return found
    if set(found) == set(STAGES):
        return found
    for stage in STAGES:
        folder.remove(failed_name(stage))
    return {}


def _against(
    receipt: Receipt, order: Order, stage: StageName, before: dict[StageName, Receipt], *, failed: bool
) -> Iterator[str]:
    """What speaks against a receipt, as the end of a sentence."""
    step, given = order.steps[stage], order.inputs | before
    inputs = {label: given[label].digest for label in STAGES[stage]}
    verdict = "failed" if failed else {"parity": "passed", "bench": "done"}[stage]
    compared: dict[str, tuple[object, object]] = {
        "stage": (receipt.stage, stage),
        "recipe": (receipt.recipe, step.recipe),
        "inputs": (receipt.inputs, inputs),
        "source": (receipt.source, step.source),
        "verdict": (receipt.verdict, verdict),
    }
    if stage == "parity":
        compared["artifact"] = (receipt.facts.get("artifact"), order.inputs["assemble"].outputs[MANIFEST].sha256)
    for what, (is_, wanted) in compared.items():
        if is_ != wanted:
            yield f"is another run's: its {what} is {is_!r}; accepted: {wanted!r}"
