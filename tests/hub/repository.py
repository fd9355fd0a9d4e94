"""One repository: immutable commits, branches and tags that point at them, and who may read.

    repository.json      private or gated, and the users let through the gate
    refs.json            {"branches": {name: commit}, "tags": {name: commit}}, replaced as a whole
    commits/<oid>.json   parent, title, date and the whole tree; written once

Departs from git: a commit is one JSON file and its id the sha1 of that, and there are no tree objects. What a
client sees of git is kept: 40 hexadecimal digits, blob ids, a parent that must be the branch's head.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Any, Literal
from uuid import uuid4

from tests.hub.objects import Entry, Objects

Tree = dict[str, Entry]
Kind = Literal["branches", "tags"]

# What the Hub writes into a new model repository, shortened to the kinds that weights come in.
ATTRIBUTES = "".join(
    f"{pattern} filter=lfs diff=lfs merge=lfs -text\n"
    for pattern in ("*.bin", "*.gz", "*.h5", "*.npy", "*.npz", "*.onnx", "*.pt", "*.safetensors", "*.tar", "*.zip")
)


class Moved(Exception):  # noqa: N818  (a state)
    """The branch's head is not the parent that the commit was made for."""


class Repository:
    """The repository in `folder`, which is made with a first commit if it is not there."""

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder, self.identity = folder, identity
        self.objects = Objects(folder)
        self.lock = RLock()
        (folder / "commits").mkdir(exist_ok=True)
        if not (folder / "refs.json").exists():
            tree = {".gitattributes": self.objects.keep(ATTRIBUTES.encode())}
            self._write_refs({"branches": {"main": self._record(None, tree, "initial commit")}, "tags": {}})

    @property
    def settings(self) -> dict[str, Any]:
        """`private`, `gated` (False, "auto" or "manual") and `accepted`, the users let through the gate."""
        path = self.folder / "repository.json"
        usual: dict[str, Any] = {"private": False, "gated": False, "accepted": [], "disabled": False}
        return usual | (json.loads(path.read_bytes()) if path.exists() else {})

    def change(self, **settings: Any) -> None:
        """Change some of the settings."""
        with self.lock:
            _write(self.folder / "repository.json", self.settings | settings)

    def refs(self, kind: Kind) -> dict[str, str]:
        """Commits by name of branch or tag."""
        found: dict[str, str] = json.loads((self.folder / "refs.json").read_bytes())[kind]
        return found

    def find(self, revision: str) -> str | None:
        """The commit that a branch, a tag or an id names."""
        named = self.refs("tags") | self.refs("branches")
        if revision in named:
            return named[revision]
        return revision if len(revision) == 40 and (self.folder / "commits" / f"{revision}.json").exists() else None

    def commit(self, oid: str) -> dict[str, Any]:
        """Parent, title, message and date of a commit."""
        found: dict[str, Any] = json.loads((self.folder / "commits" / f"{oid}.json").read_bytes())
        return found

    def tree(self, oid: str) -> Tree:
        """Every file of a commit."""
        return {path: Entry(**facts) for path, facts in self.commit(oid)["tree"].items()}

    def history(self, oid: str) -> list[str]:
        """The commit and its ancestors, newest first."""
        found = [oid]
        while parent := self.commit(found[-1])["parent"]:
            found.append(parent)
        return found

    def advance(self, branch: str, tree: Tree, title: str, message: str, parent: str) -> str:
        """Record a commit on `parent` and move the branch to it; Moved, and nothing done, if its head is another."""
        with self.lock:
            if self.refs("branches")[branch] != parent:
                raise Moved
            oid = self._record(parent, tree, title, message)
            self.point("branches", branch, oid)
            return oid

    def point(self, kind: Kind, name: str, oid: str | None) -> None:
        """Set a branch or tag, or with None remove it."""
        with self.lock:
            refs = {"branches": self.refs("branches"), "tags": self.refs("tags")}
            refs[kind].pop(name, None)
            if oid:
                refs[kind][name] = oid
            self._write_refs(refs)

    def _record(self, parent: str | None, tree: Tree, title: str, message: str = "") -> str:
        facts = {
            "parent": parent,
            "title": title,
            "message": message,
            "date": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "tree": {path: entry.facts() for path, entry in sorted(tree.items())},
        }
        oid = hashlib.sha1(json.dumps(facts).encode()).hexdigest()
        _write(self.folder / "commits" / f"{oid}.json", facts)
        return oid

    def _write_refs(self, refs: dict[str, Any]) -> None:
        _write(self.folder / "refs.json", refs)


def _write(path: Path, document: Any) -> None:
    aside = path.with_name(f"{path.name}.{uuid4().hex}.tmp")
    aside.write_text(json.dumps(document, indent=1))
    aside.replace(path)
