"""The NEFF of the stand-ins: an uncompressed container of HLO and inlined constants (section 4.2, output).

Layout: magic, 8-byte little-endian length of a JSON header, header, HLO, payloads of the constants in header order.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

MAGIC = b"NEFF+standin\n"


@dataclass(frozen=True)
class Constant:
    """The value of HLO parameter `parameter`: raw little-endian elements."""

    parameter: int
    dtype: str
    shape: tuple[int, ...]
    data: bytes | memoryview


@dataclass(frozen=True)
class Neff:
    """A compiled graph; `compiler` is the version that made it, `flags` what it was told."""

    compiler: str
    target: str
    flags: tuple[str, ...]
    hlo: bytes
    constants: tuple[Constant, ...]


def pack(neff: Neff) -> bytes:
    """The bytes of a .neff file."""
    table = [
        {"parameter": c.parameter, "dtype": c.dtype, "shape": list(c.shape), "size": len(c.data)}
        for c in neff.constants
    ]
    header = json.dumps(
        {
            "compiler": neff.compiler,
            "target": neff.target,
            "flags": neff.flags,
            "hlo": len(neff.hlo),
            "constants": table,
        }
    ).encode()
    payloads = (bytes(constant.data) for constant in neff.constants)
    return b"".join([MAGIC, len(header).to_bytes(8, "little"), header, neff.hlo, *payloads])


def unpack(data: bytes | memoryview) -> Neff:
    """What `pack` wrote, its constants as views of `data`; ValueError for bytes that are no such file."""
    view = memoryview(data)
    if bytes(view[: len(MAGIC)]) != MAGIC:
        raise ValueError("not a NEFF of the stand-in compiler")
    start = len(MAGIC) + 8
    size = int.from_bytes(view[len(MAGIC) : start], "little")
    header: Mapping[str, object] = json.loads(bytes(view[start : start + size]))
    return _unpack(view[start + size :], header)


def _unpack(body: memoryview, header: Mapping[str, object]) -> Neff:
    found = dict(header)
    position = found["hlo"]
    assert isinstance(position, int)
    hlo = bytes(body[:position])
    constants = []
    table = found["constants"]
    assert isinstance(table, list)
    for entry in table:
        payload = body[position : position + entry["size"]]
        position += entry["size"]
        constants.append(Constant(entry["parameter"], entry["dtype"], tuple(entry["shape"]), payload))
    if position != len(body):
        raise ValueError(f"a NEFF of {position} bytes of content has {len(body)}")
    flags = found["flags"]
    assert isinstance(flags, list)
    return Neff(str(found["compiler"]), str(found["target"]), tuple(flags), hlo, tuple(constants))
