"""The table beside a NEFF: which HLO parameter is what, and which outputs are state (section 2.4 step 6).

The real one is a protocol buffer with the same content; product code has no business in it, so this one is JSON.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Literal

Kind = Literal["input", "weight", "state"]


@dataclass(frozen=True)
class Slot:
    """One HLO parameter. `name`: of the weight or state, else ""; `index`: number of the flat user input, else -1."""

    kind: Kind
    name: str
    index: int
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Result:
    """One HLO output; `alias` is the HLO parameter whose buffer it takes, or -1."""

    dtype: str
    shape: tuple[int, ...]
    alias: int


@dataclass(frozen=True)
class MetaNeff:
    """Parameters and outputs in HLO order; `user_inputs`: length of the flat example inputs, dropped ones included."""

    parameters: tuple[Slot, ...]
    outputs: tuple[Result, ...]
    user_inputs: int

    def numbers(self, *kinds: Kind) -> list[int]:
        """HLO parameter numbers of these kinds."""
        return [number for number, slot in enumerate(self.parameters) if slot.kind in kinds]

    def states(self) -> list[Slot]:
        """The states, in the order of the traced module's list."""
        return [slot for slot in self.parameters if slot.kind == "state"]

    def SerializeToString(self) -> bytes:  # noqa: N802 - the name protocol buffers give it
        """The bytes of the file `metaneff`."""
        return json.dumps(asdict(self), indent=1).encode()

    @classmethod
    def FromString(cls, data: bytes) -> MetaNeff:  # noqa: N802 - the name protocol buffers give it
        """What `SerializeToString` wrote."""
        found = json.loads(data)
        slots = tuple(Slot(**{**one, "shape": tuple(one["shape"])}) for one in found["parameters"])
        results = tuple(Result(**{**one, "shape": tuple(one["shape"])}) for one in found["outputs"])
        return cls(slots, results, found["user_inputs"])
