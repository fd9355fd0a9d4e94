"""Files on their way to the Hub: how each is to come, what is there already, and sending the rest.

Large files go by Git LFS, one HTTP upload a file or a part. The library would choose Xet where hf_xet is installed;
LFS is chosen here on purpose: it names an object by the sha256 that the release lists, tells before sending what is
there, and is what the tests run. Uses names of huggingface_hub that are not public (its version is locked):
`_fetch_upload_modes`, the functions of `huggingface_hub.lfs`, and what they leave in an operation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from huggingface_hub import CommitOperationAdd
from huggingface_hub._commit_api import UPLOAD_BATCH_MAX_NUM_FILES, _fetch_upload_modes
from huggingface_hub.lfs import lfs_upload, post_lfs_batch_info

from ledger.errors import BadInput
from publish.hub.repository import Repository
from publish.hub.trees import LocalFile

_AT_ONCE = 4


@dataclass(frozen=True)
class Addition:
    """A file that a commit will write; `instruction` is how its LFS object is to be sent, None when it is not."""

    path: str
    file: LocalFile
    operation: CommitOperationAdd
    instruction: Mapping[str, Any] | None

    @property
    def large(self) -> bool:
        """Whether it goes by LFS, so that the commit itself holds a pointer only."""
        return self.operation._upload_mode == "lfs"

    @property
    def moves(self) -> bool:
        """Whether its bytes have to be sent, with the commit or before it."""
        return not self.large or self.instruction is not None


def survey(hub: Repository, branch: str, files: Mapping[str, LocalFile]) -> list[Addition]:
    """How each of `files` is to come to `branch`; nothing is sent but names, sizes, digests and first bytes."""
    operations = {path: _operation(path, file) for path, file in files.items()}
    headers = hub.headers
    with hub.asking(f"how files are to come to branch {branch}"):
        _fetch_upload_modes(
            additions=operations.values(),
            repo_type="model",
            repo_id=hub.name,
            headers=headers,
            revision=quote(branch, safe=""),
            endpoint=hub.api.endpoint,
        )
    for operation in operations.values():
        # The branch's file of now, which the library would leave out of the commit if it were the same; but the commit
        # is made for the parent that was compared with, and refused if that is no more the branch's.
        operation._remote_oid = None
        # A release is exactly its folder, whatever a .gitignore says.
        operation._should_ignore = False
    large = [operation for operation in operations.values() if operation._upload_mode == "lfs"]
    instructions = _instructions(hub, branch, large, headers)
    additions = []
    for path, operation in operations.items():
        # One object of several paths is sent once, for the first of them.
        instruction = instructions.pop(files[path].sha256, None) if operation._upload_mode == "lfs" else None
        additions.append(Addition(path, files[path], operation, instruction))
    return additions


def send(hub: Repository, additions: Sequence[Addition]) -> None:
    """Send the LFS objects that the Hub has not, some at once; the first that fails stops the rest.

    What has arrived stays on the Hub, whether a commit follows or not.
    """
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        missing = [addition for addition in additions if addition.instruction is not None]
        for done in as_completed([pool.submit(_send, hub, addition) for addition in missing]):
            done.result()
    finally:
        pool.shutdown(cancel_futures=True)
    for addition in additions:
        addition.operation._is_uploaded = addition.large


def _operation(path: str, file: LocalFile) -> CommitOperationAdd:
    try:
        operation = CommitOperationAdd(path, file.path)
    except ValueError as error:
        raise BadInput(f"{file.path} cannot be sent: {error}; accepted: the release as it was read") from None
    operation.upload_info.sha256 = bytes.fromhex(file.sha256)
    return operation


def _instructions(
    hub: Repository, branch: str, operations: Sequence[CommitOperationAdd], headers: dict[str, str]
) -> dict[str, Mapping[str, Any]]:
    """The LFS batch API's answers, by sha256, for the objects that the Hub has not."""
    objects = {operation.upload_info.sha256: operation.upload_info for operation in operations}
    infos = list(objects.values())
    found: dict[str, Mapping[str, Any]] = {}
    for start in range(0, len(infos), UPLOAD_BATCH_MAX_NUM_FILES):
        with hub.asking(f"which large files it has for branch {branch}"):
            answers, errors, _ = post_lfs_batch_info(
                upload_infos=infos[start : start + UPLOAD_BATCH_MAX_NUM_FILES],
                token=None,  # in the headers
                repo_type="model",
                repo_id=hub.name,
                revision=branch,
                endpoint=hub.api.endpoint,
                headers=headers,
            )
            if errors:
                raise BadInput(f"object {errors[0]['oid']} is refused: {errors[0]['error']['message']}; accepted: all")
        found.update({answer["oid"]: answer for answer in answers if answer.get("actions") is not None})
    return found


def _send(hub: Repository, addition: Addition) -> None:
    with hub.asking(f"the upload of {addition.path}"):
        lfs_upload(
            operation=addition.operation,
            lfs_batch_action=dict(addition.instruction or {}),
            headers=hub.headers,
            endpoint=hub.api.endpoint,
        )
