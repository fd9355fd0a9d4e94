"""Every package of a lock has a licence id and a text, or the release is refused."""

from importlib import metadata
from pathlib import Path

import pytest
from cyclonedx.spdx import is_expression

from ledger.errors import BadInput, GateFailed
from ledger.sources import ROOT
from publish.trust.licences import SAID, licences
from publish.trust.lockfile import Package, read_lock

LOCK = ROOT / "envs" / "serve-cpu.txt"


def test_the_lock_of_the_server_is_complete() -> None:
    found = licences(read_lock(LOCK))
    assert len(found) > 30
    for one in found:
        assert is_expression(one.expression), one.package
        assert len(one.text) > 500, one.package


def test_known_packages() -> None:
    found = {one.package.name: one for one in licences(read_lock(LOCK))}
    assert found["numpy"].expression.startswith("BSD-3-Clause AND ")
    assert "Copyright (c) 2005-2025, NumPy Developers" in found["numpy"].text
    # Its wheel has no licence file, and only a classifier.
    assert found["tokenizers"].expression == "Apache-2.0"
    assert "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION" in found["tokenizers"].text
    assert found["jinja2"].path == f"licences/jinja2-{metadata.version('jinja2')}.txt"


def test_what_is_said_here_is_what_metadata_does_not_say() -> None:
    """An entry that is no longer needed, or of a package that is no longer locked, has to go."""
    locked = {one.name for path in LOCK.parent.glob("*serve*.txt") for one in read_lock(path)}
    for name, expression in SAID.items():
        assert name in locked
        assert is_expression(expression)
        fields = metadata.metadata(name)
        assert not is_expression(fields["License-Expression"] or "?")
        assert not is_expression((fields["License"] or "?").partition("\n")[0])


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The metadata folder of a made-up package, complete."""
    folder = tmp_path / "madeup-1.0.dist-info"
    (folder / "licenses").mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.4\nName: madeup\nVersion: 1.0\nLicense-Expression: MIT\n")
    (folder / "licenses" / "COPYING").write_text("Do good.\r\n")
    (folder / "RECORD").write_text("madeup-1.0.dist-info/METADATA,,\nmadeup-1.0.dist-info/licenses/COPYING,,\n")
    monkeypatch.syspath_prepend(tmp_path)
    return folder


MADE_UP = Package("madeup", "1.0", ("0" * 64,))


def test_a_complete_package(installed: Path) -> None:
    (one,) = licences([MADE_UP])
    assert (one.expression, one.text) == ("MIT", "=== licenses/COPYING\n\nDo good.\n")


def test_a_package_without_a_licence_id(installed: Path) -> None:
    text = (installed / "METADATA").read_text()
    for line in ("", "License: see the web site\n", "Classifier: License :: OSI Approved :: BSD License\n"):
        (installed / "METADATA").write_text(text.replace("License-Expression: MIT\n", line))
        with pytest.raises(GateFailed, match=r"licence of madeup 1.0: its metadata names none; accepted: an SPDX"):
            licences([MADE_UP])


def test_a_package_without_a_text(installed: Path) -> None:
    (installed / "RECORD").write_text("madeup-1.0.dist-info/METADATA,,\n")
    with pytest.raises(GateFailed, match=r"licence of madeup 1.0: no licence text comes with it; accepted: "):
        licences([MADE_UP])


def test_another_version_than_the_locked_one(installed: Path) -> None:
    with pytest.raises(GateFailed, match=r"licence of madeup 2.0: version 1.0 is installed; accepted: the locked"):
        licences([Package("madeup", "2.0", ("0" * 64,))])


def test_a_package_that_is_not_installed() -> None:
    with pytest.raises(GateFailed, match=r"licence of madeup 1.0: the package is not installed; accepted: the locked"):
        licences([MADE_UP])


def test_a_lock_as_uv_writes_it(tmp_path: Path) -> None:
    one, two = "1" * 64, "2" * 64
    path = tmp_path / "lock.txt"
    path.write_text(
        f"# made by\nuvicorn[standard]==0.1 \\\n    --hash=sha256:{two} \\\n    --hash=sha256:{one}\n    # via\n"
        f"    #   -r x\nML_dtypes==2.0.post1+local \\\n    --hash=sha256:{one}\n"
    )
    assert read_lock(path) == [Package("ml-dtypes", "2.0.post1+local", (one,)), Package("uvicorn", "0.1", (one, two))]


@pytest.mark.parametrize("text", ["numpy==1.0\n", "numpy>=1 --hash=sha256:" + "1" * 64, "-r other.txt\n"])
def test_a_lock_without_pins_or_hashes(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lock.txt"
    path.write_text(text)
    with pytest.raises(BadInput, match=r"lock.txt: found .*; accepted: NAME==VERSION --hash"):
        read_lock(path)
    with pytest.raises(BadInput, match=r"none.txt cannot be read"):
        read_lock(tmp_path / "none.txt")
