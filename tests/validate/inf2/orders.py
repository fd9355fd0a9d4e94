"""An order without an artifact, the receipts that a machine would make of it, and a caller that dies over it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from ledger.receipts import Receipt, Ref, Verdict
from tests.validate.inf2.world import Rented, World
from validate.inf2.order import Order, StageName, Step

MANIFEST = "c" * 64
SOURCE = {"parity": "d" * 64, "bench": "e" * 64}


def receipt(stage: str, **changes: Any) -> Receipt:
    """A receipt of a stage."""
    known: dict[str, Any] = {
        "stage": stage,
        "key": "1" * 64,
        "recipe": {},
        "inputs": {},
        "outputs": {},
        "facts": {},
        "measured": {},
        "toolchain": {},
        "source": "2" * 64,
        "verdict": "done",
    }
    return Receipt.model_validate(known | changes)


def order(image: str = f"registry.example/foundry@sha256:{'0' * 64}") -> Order:
    """Judge and time one artifact."""
    assembled = receipt(
        "assemble",
        recipe={"checkpoint": "demo", "variant": {"name": "tiny"}},
        outputs={"manifest.json": Ref(sha256=MANIFEST, bytes=2)},
    )
    inputs = {name: receipt(name) for name in ("fetch", "oracle", "prompts")}
    return Order(
        store="s3://foundry-test/store",
        image=image,
        inputs=inputs | {"assemble": assembled},
        steps={
            "parity": Step(recipe={"epsilon": 0.1}, source=SOURCE["parity"]),
            "bench": Step(recipe={"rounds": 5}, source=SOURCE["bench"]),
        },
    )


def answer(asked: Order, stage: StageName, verdict: Verdict | None = None, **changes: Any) -> Receipt:
    """The receipt that stage makes of the order."""
    given = asked.inputs
    inputs = {"parity": ("assemble", "oracle", "prompts"), "bench": ("fetch", "assemble")}[stage]
    digests = {name: given[name].digest for name in inputs}
    facts: dict[str, Any] = {"artifact": given["assemble"].outputs["manifest.json"].sha256}
    if stage == "bench":
        digests["parity"] = answer(asked, "parity").digest
        facts = {}
    known = {
        "recipe": asked.steps[stage].recipe,
        "inputs": digests,
        "source": asked.steps[stage].source,
        "facts": facts,
        "verdict": verdict or {"parity": "passed", "bench": "done"}[stage],
    }
    return receipt(stage, **(known | changes))


def data(made: Receipt) -> bytes:
    """A receipt as a file."""
    return made.model_dump_json().encode()


Work = list[tuple[float, Callable[[Rented], None]]]


def works(world: World, asked: Order, minutes: float = 30) -> Callable[[Rented], Work]:
    """A machine that needs `minutes` for each stage, starts where the last one was, and shuts itself down."""

    def program(machine: Rented) -> Work:
        def send(stage: StageName) -> Callable[[Rented], None]:
            return lambda one: world.leave(one, f"receipts/{stage}.json", data(answer(asked, stage)))

        def end(one: Rented) -> None:
            world.leave(one, f"status/{one.attempt}.json", json.dumps({"code": 0}).encode())
            world.take(one, "Client.InstanceInitiatedShutdown")

        done = world.files()
        left: list[StageName] = [
            stage for stage in ("parity", "bench") if f"{machine.address}/receipts/{stage}.json" not in done
        ]
        steps: Work = [(120, lambda one: world.leave(one, f"logs/{one.attempt}.txt", b"machine: at work\n"))]
        steps += [(120 + 60 * minutes * (index + 1), send(stage)) for index, stage in enumerate(left)]
        return [*steps, (steps[-1][0] + 30, end)]

    return program


def dies_after(here: World, seconds: float, asked: Order) -> None:
    """A caller rents, and after some seconds is no more: nothing it would have done at its end is done."""

    class Killed(BaseException):
        pass

    def kill(_: float) -> None:
        if here.rented and here.now > here.rented[0].start + seconds:
            raise Killed

    run = here.run(asked.run)
    here.on_sleep = kill
    run.release = list  # type: ignore[method-assign]  # a dead caller releases nothing
    with pytest.raises(Killed):
        here.rent(asked, run)
    here.on_sleep = lambda _: None
