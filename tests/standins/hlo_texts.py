"""HLO modules from text, for what torch-xla does not emit."""

from __future__ import annotations


def hlo(root: str, parameter: str = "f32[4]{0}", before: str = "") -> bytes:
    """A serialized module: parameter p0, instructions `before`, and the root instruction's text."""
    from jaxlib import _hlo

    lines = [f"p0 = {parameter} parameter(0)", *before.splitlines(), f"ROOT {root}"]
    module = _hlo.hlo_module_from_text("HloModule m\n\nENTRY main {\n  " + "\n  ".join(lines) + "\n}\n")
    data: bytes = module.as_serialized_hlo_module_proto()
    return data


def with_large_id(module: bytes) -> bytes:
    """The module with its root renumbered beyond 31 bits, as jaxlib's unique ids are."""
    from recipes.wire import fields, message, number

    def entry(data: bytes) -> bytes:
        kept = [whole for field, payload, whole in fields(data) if field not in {2, 6}]
        instructions = [payload for field, payload, _ in fields(data) if field == 2]
        last = b"".join(whole for field, _, whole in fields(instructions[-1]) if field != 35) + number(35, 2**33)
        return b"".join([*kept, *(message(2, one) for one in [*instructions[:-1], last]), number(6, 2**33)])

    return b"".join(message(3, entry(payload)) if field == 3 else whole for field, payload, whole in fields(module))
