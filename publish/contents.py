"""What a release folder holds: every file by its path, as an object of the store.

A release is a pure function of receipts and source: once this mapping is known the folder can be laid out again at
any time, and two builds with the same receipts are the same folder.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from ledger.errors import GateFailed
from ledger.receipts import Receipt, Ref
from ledger.store import Store
from publish.gate import Admitted
from serve.manifest import MANIFEST
from serve.service.start import SELFCHECK, SelfCheck

# The code that ships with a release is part of this stage's source.
DATA_FILES: tuple[str, ...] = ("../serve/*.py", "../serve/**/*.py", "../envs/*serve*.txt")
# By target: the lock of what a release folder needs to answer there, and what makes it.
LOCKS = {"cpu": ("serve-cpu.txt", "make lock"), "inf2": ("inf2-serve.txt", "make lock-inf2")}
# Everything in a checkpoint but its tensors: those are in weights/ and tables/.
_TENSORS = (".safetensors", ".safetensors.index.json")
_ROOT = Path(__file__).parent.parent
_ENVS = _ROOT / "envs"


def locks(targets: Iterable[str]) -> dict[str, Path]:
    """The lock files of a release for `targets`, by their path in it; GateFailed where one was never made.

    Each target has a lock of its own. The first is `serve/requirements.txt`, which the card tells people to install.
    """
    found: dict[str, Path] = {}
    for target in sorted(set(targets)):
        name, command = LOCKS[target]
        path = _ENVS / name
        if not path.is_file():
            raise GateFailed(
                f"envs/{name} is missing, which a release for {target} ships as its requirements; accepted: as "
                f"{command} writes it"
            )
        found[f"serve/requirements-{target}.txt" if found else "serve/requirements.txt"] = path
    return found


def contents(variants: Sequence[Admitted], fetch: Receipt, store: Store, texts: Mapping[str, str]) -> dict[str, Ref]:
    """Path in the release folder to object, with every object checked; `texts` are files made for the release.

    Raises GateFailed when two variants want different files at one path, or one outside of the folder.
    """
    files: dict[str, Ref] = {path: store.put_bytes(text.encode()) for path, text in texts.items()}
    found = [
        ((name, ref) for name, ref in fetch.outputs.items() if not name.endswith(_TENSORS)),
        ((path, store.put_bytes(data)) for path, data in _serve({one.manifest.variant.target for one in variants})),
        *(_variant(variant, store) for variant in variants),
    ]
    for path, ref in (pair for pairs in found for pair in pairs):
        if path.startswith(("/", "../")):
            raise GateFailed(f"release file {path} is outside of the release folder; accepted: a path inside of it")
        if files.setdefault(path, ref) != ref:
            raise GateFailed(f"release file {path} is wanted with two contents; accepted: one")
    for ref in set(files.values()):
        store.verify(ref)
    return dict(sorted(files.items()))


def _variant(variant: Admitted, store: Store) -> Iterator[tuple[str, Ref]]:
    """The manifest, the files it names (wherever they lie in the release), the known answer, and the receipts."""
    folder = f"variants/{variant.name}"
    yield f"{folder}/{MANIFEST}", variant.receipts["assemble"].outputs[MANIFEST]
    for file in variant.manifest.files():
        yield posixpath.normpath(f"{folder}/{file.path}"), Ref(sha256=file.sha256, bytes=file.bytes)
    # None where the oracle was decided nowhere: the server then says that it has nothing to check itself with.
    if (known := variant.receipts["parity"].facts["selfcheck"]) is not None:
        text = SelfCheck.model_validate(known).model_dump_json() + "\n"
        yield f"{folder}/{SELFCHECK}", store.put_bytes(text.encode())
    for stage, receipt in variant.receipts.items():
        text = json.dumps(receipt.model_dump(mode="json"), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        yield f"{folder}/receipts/{stage}.json", store.put_bytes(text.encode())


def _serve(targets: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    for path in sorted((_ROOT / "serve").rglob("*.py")):
        yield path.relative_to(_ROOT).as_posix(), path.read_bytes()
    for name, path in locks(targets).items():
        yield name, path.read_bytes()
