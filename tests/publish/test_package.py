"""The release folder, through the stage's command line."""

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from ledger.digest import sha256_file
from ledger.errors import BadInput, GateFailed
from ledger.receipts import Receipt
from ledger.sources import ROOT
from publish import package
from publish.contents import contents, locks
from publish.gate import admit
from serve.manifest import Manifest, verify
from serve.service.start import SelfCheck, read_selfcheck
from tests.publish.conftest import BIG, Line, make_line


class Command:
    """`python -m publish.package` in this process, on receipts that are files."""

    def __init__(self, line: Line, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.line, self.folder, self._patch = line, folder, patch
        self.release = folder / "release" / "demo"
        self.out = folder / "package.json"

    def __call__(self, variants: Sequence[str] = ("512-128", "bf16")) -> int:
        recipe = {
            "checkpoint": "demo",
            "source": {"kind": "tiny", "seed": 0, "steps": 1},
            "release": {"name": "demo", "latest": "512-128"},
            "variants": list(variants),
        }
        flags = ["--recipe", json.dumps(recipe), "--store", str(self.line.store.root), "--out", str(self.out)]
        for name, receipt in self.line.inputs.items():
            path = self.folder / "receipts" / f"{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            receipt.write(path)
            flags += ["--input", f"{name}={path}"]
        self._patch.setattr(sys, "argv", ["package", *flags, "--release", str(self.release)])
        return package.main()


@pytest.fixture
def run(line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    # Syncing hundreds of small files is most of their time; what a kill leaves behind is tested elsewhere.
    monkeypatch.setattr(os, "fsync", lambda _: None)
    return Command(line, tmp_path, monkeypatch)


def files(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_folder_holds_everything_and_no_link(run: Command) -> None:
    assert run() == 0
    found = files(run.release)
    assert {
        *("README.md", "LICENSE", "NOTICE", "release.json", "config.json", "generation_config.json"),
        *("tokenizer.json", "chat_template.jinja", "tables/tables.safetensors"),
        *("weights/cpu-float32/tp1-rank0.safetensors", "serve/engine.py", "serve/requirements.txt"),
        *("variants/bf16/manifest.json", "variants/bf16/decode.stablehlo", "variants/bf16/receipts/parity.json"),
    } <= found.keys()
    assert not [path for path in found if path.startswith("model")], "the checkpoint's own tensors are not shipped"
    assert not [path for path in run.release.rglob("*") if path.is_symlink()]
    assert found["weights/cpu-float32/tp1-rank0.safetensors"] == BIG


def test_every_manifest_resolves_inside_the_folder(run: Command) -> None:
    run()
    for name in ("512-128", "bf16"):
        folder = run.release / "variants" / name
        verify(folder, Manifest.read(folder).files())


def test_the_server_finds_the_answer_that_parity_recorded(run: Command) -> None:
    run()
    for name in ("512-128", "bf16"):
        assert read_selfcheck(run.release / "variants" / name) == SelfCheck(prompt=[2, 7, 5], tokens=[8, 6, 8])
    assert "variants/bf16/selfcheck.json" in json.loads((run.release / "release.json").read_text())["files"]


def test_a_variant_without_a_recorded_answer_ships_none(run: Command) -> None:
    facts = run.line.inputs["bf16/parity"].facts | {"selfcheck": None}
    run.line.record("bf16/parity", inputs=("bf16/assemble",), facts=facts, verdict="passed")
    run.line.record_bench("bf16")
    run()
    assert [path.parent.name for path in run.release.rglob("selfcheck.json")] == ["512-128"]


def test_the_list_names_every_other_file(run: Command) -> None:
    run()
    listed = json.loads((run.release / "release.json").read_text())
    digests = {path: entry["sha256"] for path, entry in listed["files"].items()}
    assert digests == {path: sha256_file(run.release / path) for path in files(run.release) if path != "release.json"}
    assert (listed["latest"], listed["variants"]) == ("512-128", ["512-128", "bf16"])


def test_the_receipts_in_the_folder_are_those_that_were_given(run: Command) -> None:
    run()
    shipped = Receipt.read(run.release / "variants/bf16/receipts/parity.json")
    assert shipped == run.line.inputs["bf16/parity"]


def test_the_licence_of_every_package_ships_with_it(run: Command) -> None:
    run()
    lock = (run.release / "serve/requirements.txt").read_text()
    wanted = {f"{name}-{version}.txt" for name, version in re.findall(r"^([a-z0-9-]+)==([^ ]+)", lock, re.M)}
    assert {path.name for path in (run.release / "licences").iterdir()} == wanted
    bill = json.loads((run.release / "sbom.cdx.json").read_bytes())
    packages = {one["name"] for one in bill["components"] if one["type"] == "library"}
    assert packages == {name.rpartition("-")[0] for name in wanted}


def test_a_package_without_a_licence_is_no_part_of_a_release(run: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("publish.trust.licences.SAID", {})
    with pytest.raises(GateFailed, match=r"licence of jinja2 [0-9.]+: its metadata names none; accepted: an SPDX"):
        run()
    assert not run.release.exists()


def test_two_builds_with_the_same_receipts_are_the_same_folder(
    run: Command, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    run()
    folder = tmp_path_factory.mktemp("elsewhere")
    other = Command(make_line(folder), folder, monkeypatch)
    other()
    assert files(other.release) == files(run.release)


def test_a_release_for_inferentia_waits_for_its_lock() -> None:
    said = r"envs/inf2-serve.txt is missing, .* for inf2 .*; accepted: as make lock-inf2 writes it"
    with pytest.raises(GateFailed, match=said):
        locks(["cpu", "inf2"])


def test_a_release_for_inferentia_ships_that_lock(line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line.record_variant("512-128", [], target="inf2")
    (tmp_path / "inf2-serve.txt").write_text("torch-neuronx==2")
    monkeypatch.setattr("publish.contents._ENVS", tmp_path)
    found = contents([admit("512-128", line.inputs, line.store)], line.inputs["fetch"], line.store, {})
    assert found["serve/requirements.txt"].sha256 == sha256_file(tmp_path / "inf2-serve.txt")


def test_each_target_has_requirements_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("serve-cpu.txt", "inf2-serve.txt"):
        (tmp_path / name).write_text("")
    monkeypatch.setattr("publish.contents._ENVS", tmp_path)
    cpu, inf2 = tmp_path / "serve-cpu.txt", tmp_path / "inf2-serve.txt"
    assert locks(["cpu"]) == {"serve/requirements.txt": cpu}
    assert locks(["inf2", "inf2"]) == {"serve/requirements.txt": inf2}
    assert locks(["inf2", "cpu"]) == {"serve/requirements.txt": cpu, "serve/requirements-inf2.txt": inf2}


def test_unchanged_inputs_leave_the_folder_alone(run: Command) -> None:
    run()
    before = run.release.stat().st_ino
    run()
    assert run.release.stat().st_ino == before


def test_a_deleted_or_damaged_folder_comes_back(run: Command) -> None:
    run()
    whole = files(run.release)
    (run.release / "README.md").write_text("shortened")
    (run.release / "tokenizer.json").unlink()
    (run.release / "stray").write_text("")
    run()
    assert files(run.release) == whole


def test_a_file_damaged_at_the_same_size_comes_back(run: Command) -> None:
    run()
    whole = files(run.release)
    text = (run.release / "LICENSE").read_bytes()
    (run.release / "LICENSE").write_bytes(text.swapcase())
    run()
    assert files(run.release) == whole


def test_a_link_in_place_of_a_file_is_replaced(run: Command) -> None:
    run()
    path = run.release / "LICENSE"
    path.unlink()
    path.symlink_to("L" * len(files(run.release)["NOTICE"]))
    run()
    assert not path.is_symlink()


def test_a_large_file_edited_in_place_is_found_and_made_anew(run: Command) -> None:
    run()
    whole, big = files(run.release), run.release / "weights/cpu-float32/tp1-rank0.safetensors"
    assert not big.stat().st_mode & 0o222
    big.chmod(0o644)
    big.write_bytes(BIG[::-1].replace(b"w", b"W", 1))
    with pytest.raises(BadInput, match=r"object .* is removed; run again to make it anew"):
        run()
    run.line.store.put_bytes(BIG)
    run()
    assert files(run.release) == whole


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [([], "package: the following arguments are required: --release"), (["--release", "file"], "--release: file is a")],
)
def test_a_missing_or_wrong_release_flag_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argv: list[str], sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    monkeypatch.setattr(sys, "argv", ["package", *argv])
    with pytest.raises(BadInput, match=sentence):
        package.main()


def test_editing_a_small_file_of_a_release_does_not_reach_the_store(run: Command) -> None:
    run()
    with (run.release / "README.md").open("a") as file:
        file.write("mine")
    run.line.store.verify(Receipt.read(run.out).outputs["README.md"])


def test_a_variant_that_did_not_pass_leaves_no_folder(run: Command) -> None:
    run.line.change("bf16/parity", verdict="failed")
    with pytest.raises(GateFailed, match="bf16/parity"):
        run()
    assert not run.release.exists()


def test_a_refusal_leaves_the_release_before_it_in_place(run: Command) -> None:
    run()
    whole = files(run.release)
    run.line.change("bf16/bench", measured={})
    run.line.change("bf16/parity", facts={})
    with pytest.raises(GateFailed, match="variant bf16"):
        run()
    assert files(run.release) == whole


def test_a_damaged_object_is_not_shipped(run: Command) -> None:
    stored = run.line.store.path(run.line.inputs["tables"].outputs["tables.safetensors"])
    stored.chmod(0o644)
    stored.write_bytes(b"TABLES")
    with pytest.raises(BadInput, match="sha256"):
        run()
    assert not run.release.exists()


def test_the_code_that_ships_imports_without_the_factory(run: Command) -> None:
    run()
    found = subprocess.run(
        [
            sys.executable,
            "-P",
            "-c",
            "import serve.engine, sys; print(serve.engine.__file__); print('ledger' in sys.modules)",
        ],
        cwd="/",
        env={"PYTHONPATH": str(run.release)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.splitlines() == [str(run.release / "serve" / "engine.py"), "False"]


def test_the_requirements_cover_what_serve_imports() -> None:
    locked = set(re.findall(r"^([a-z0-9-]+)==", (ROOT / "envs" / "serve-cpu.txt").read_text(), re.M))
    known = {name.replace("-", "_") for name in locked}
    # NeuronCores have requirements of their own: envs/inf2-serve.in, judged in tests/envs.
    files = [path for path in (ROOT / "serve").rglob("*.py") if "neuron" not in path.parts]
    trees = [ast.parse(path.read_text()) for path in files]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    named = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    named |= {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    foreign = {name.split(".")[0] for name in named} - sys.stdlib_module_names - {"serve"}
    assert foreign
    assert foreign <= known
