"""Serialized XLA:CPU executables in canonical form: the same module gives the same bytes.

XLA compiles kernels on a thread pool and stores their object files in the order in which they finish, even on one
core. Loading looks symbols up by name, so the order means nothing; sorting it makes compilation reproducible, in a
process that compiles the same modules in the same order: XLA also numbers the modules of a process. The layout (a
length-prefixed header, then PjRt's ExecutableAndOptionsProto with xla.cpu.CompilationResultProto) was read off
jaxlib 0.10.2; an unexpected one is an error, never a silent pass.
"""

from __future__ import annotations

from ledger.errors import FoundryError
from recipes.wire import fields, message, read_varint

_EXECUTABLE = 1  # ExecutableAndOptionsProto.serialized_executable
_OBJECT_FILES = 8  # CompilationResultProto.object_files


def canonical(executable: bytes) -> bytes:
    """`executable` with its object files sorted; FoundryError when it is not laid out as expected."""
    try:
        length, start = read_varint(executable, 0)
        body = start + length
        rewritten = b"".join(
            message(_EXECUTABLE, _sorted_objects(payload)) if number == _EXECUTABLE else whole
            for number, payload, whole in fields(executable[body:])
        )
    except ValueError as error:
        raise FoundryError(f"serialized executable: {error}; jaxlib 0.10.2's layout is accepted") from error
    return executable[:body] + rewritten


def _sorted_objects(result: bytes) -> bytes:
    parts = list(fields(result))
    objects = iter(sorted(whole for number, _, whole in parts if number == _OBJECT_FILES))
    if not any(number == _OBJECT_FILES for number, _, _ in parts):
        raise ValueError("no object files")
    return b"".join(next(objects) if number == _OBJECT_FILES else whole for number, _, whole in parts)
