"""The lock of a folder that several machines see is removed on the machine of its run; elsewhere by whoever comes."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from ledger.errors import BadInput
from recipes import locks


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lock of a run that was started here."""
    monkeypatch.chdir(tmp_path)
    locks.LOCKS.mkdir(parents=True)
    made = tmp_path / locks.LOCKS / "0.output.lock"
    made.touch()
    locks.mark()
    return made


def on(monkeypatch: pytest.MonkeyPatch, folder: Path, kind: str) -> None:
    mounts = [SimpleNamespace(mountpoint="/", fstype="ext4"), SimpleNamespace(mountpoint=str(folder), fstype=kind)]
    monkeypatch.setattr(psutil, "disk_partitions", lambda **_: mounts)


def test_on_another_machine_a_shared_folder_stays_locked(
    lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, tmp_path, "nfs4")
    here = socket.gethostname()
    monkeypatch.setattr(socket, "gethostname", lambda: "login2")
    with pytest.raises(BadInput, match=rf"a run was started on {here}, which shares this folder; accepted: this com"):
        locks.unlock()
    assert lock.exists()


@pytest.mark.parametrize(("kind", "host"), [("nfs4", None), ("ext4", "another-container"), ("overlay", "another")])
def test_else_the_lock_of_a_killed_run_goes(
    kind: str, host: str | None, lock: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on(monkeypatch, tmp_path, kind)
    if host:
        monkeypatch.setattr(socket, "gethostname", lambda: host)
    locks.unlock()
    assert not lock.exists()


def test_this_machine_s_temporary_folder_is_its_own(tmp_path: Path) -> None:
    assert not locks.is_shared(tmp_path)
