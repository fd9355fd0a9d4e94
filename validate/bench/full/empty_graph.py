"""An artifact whose graphs compute nothing: what is left of a step is the host's work and the dispatch.

Departs from timing the host's functions one by one, which would leave out what the client does with several hundred
arguments. The graphs take and return what the real ones do, with the same aliases.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from serve.manifest import MANIFEST, FileRef, Graph, Manifest, Signature

_TYPES = {"float32": "f32", "bfloat16": "bf16", "int32": "i32"}


def emptied(artifact: Path, folder: Path) -> Path:
    """Write such an artifact of `artifact` into the empty `folder`, which it returns; it refers to the same files."""
    manifest = Manifest.read(artifact)
    graphs = {name: _graph(graph, folder / f"{name}.stablehlo") for name, graph in manifest.graphs.items()}
    bare = manifest.model_copy(
        update={
            "graphs": graphs,
            "weights": tuple(_absolute(artifact, ref) for ref in manifest.weights),
            "tables": _absolute(artifact, manifest.tables),
            "tokenizer": {name: _absolute(artifact, ref) for name, ref in manifest.tokenizer.items()},
        }
    )
    (folder / MANIFEST).write_text(bare.model_dump_json(), encoding="utf-8")
    return folder


def _absolute(artifact: Path, ref: FileRef) -> FileRef:
    return ref.model_copy(update={"path": str((artifact / ref.path).resolve())})


def _graph(graph: Graph, path: Path) -> Graph:
    module = empty_module(graph.signature).encode()
    path.write_bytes(module)
    ref = FileRef(path=path.name, sha256=hashlib.sha256(module).hexdigest(), bytes=len(module))
    return Graph(signature=graph.signature, modules=(ref,))


def empty_module(signature: Signature) -> str:
    """StableHLO text: logits of zeros, and every state as it came in."""
    replaced = {parameter: output for output, parameter in signature.aliases.items()}
    arguments = []
    for number, parameter in enumerate(signature.parameters):
        alias = f" {{tf.aliasing_output = {replaced[number]} : i32}}" if number in replaced else ""
        arguments.append(f"%arg{number}: {_type(parameter.shape, parameter.dtype)}{alias}")
    results = [_type(output.shape, output.dtype) for output in signature.outputs]
    values = ["%zeros" if i not in signature.aliases else f"%arg{signature.aliases[i]}" for i in range(len(results))]
    logits = next(i for i, output in enumerate(signature.outputs) if output.role == "logits")
    return (
        f"module @empty {{\n  func.func public @main({', '.join(arguments)}) -> ({', '.join(results)}) {{\n"
        f"    %zeros = stablehlo.constant dense<0.0> : {results[logits]}\n"
        f"    return {', '.join(values)} : {', '.join(results)}\n  }}\n}}\n"
    )


def _type(shape: tuple[int, ...], dtype: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{_TYPES[dtype]}>"
