"""The machine's side, as far as it goes without a device: what it refuses before an hour is spent."""

from __future__ import annotations

import pytest

from ledger.errors import BadInput
from tests.validate.inf2.orders import order
from tests.validate.inf2.world import world
from validate.inf2 import hardware
from validate.inf2.order import ORDER, Order, Step, source_of


def test_an_image_of_another_commit_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = order()
    with world() as here:
        monkeypatch.setattr(hardware, "Clients", lambda: here.clients)
        folder = here.run(asked.run).folder
        folder.write(ORDER, asked.model_dump_json().encode())
        said = r"its source of stage parity is [0-9a-f]{12}; accepted: d{12}, that of the caller: an image of the same"
        with pytest.raises(BadInput, match=said):
            hardware.main([f"{folder.address}/{ORDER}"])


def test_an_order_that_is_not_there_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with world() as here:
        monkeypatch.setattr(hardware, "Clients", lambda: here.clients)
        with pytest.raises(BadInput, match=r"s3://foundry-test/runs/x/job\.json is not there"):
            hardware.main([f"s3://foundry-test/runs/x/{ORDER}"])


@pytest.mark.parametrize("address", ["job.json", "s3://foundry-test/runs/x/other.json", "/tmp/job.json"])
def test_what_is_no_order_is_refused(address: str) -> None:
    with pytest.raises(BadInput, match=r"accepted: the address of a run, s3://BUCKET/PREFIX/job\.json"):
        hardware.main([address])


def test_receipts_that_are_there_are_not_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that follows one that AWS took back: parity is there, so bench alone is run, on its receipt."""
    plain = order()
    steps = {stage: Step(recipe=step.recipe, source=source_of(stage)) for stage, step in plain.steps.items()}
    asked = Order.model_validate(plain.model_dump() | {"steps": {k: v.model_dump() for k, v in steps.items()}})
    started: list[str] = []
    with world() as here:
        monkeypatch.setattr(hardware, "Clients", lambda: here.clients)

        def fails(module: str, *_: str) -> int:
            started.append(module)
            return 1

        monkeypatch.setattr(hardware, "_run", fails)
        folder = here.run(asked.run).folder
        folder.write(ORDER, asked.model_dump_json().encode())
        folder.write("receipts/parity.json", b"{}")
        here.s3.put_object(Bucket="foundry-test", Key=f"runs/probes/{'0' * 64}.json", Body=b"{}")
        monkeypatch.setattr(hardware, "_doctor", lambda: None)
        with pytest.raises(Exception, match="stage bench ended with exit code 1"):
            hardware.main([f"{folder.address}/{ORDER}"])
        assert started == ["validate.bench.stage"]
