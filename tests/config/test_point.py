"""A single point: what it keeps of its base, how it is named, and what it refuses."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from config.loading import load
from config.point import main, point
from ledger.errors import BadInput

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "config/demo.yaml"
REAL = ROOT / "config/variants.yaml"


def _refusal(*arguments: str) -> str:
    with pytest.raises(BadInput) as caught:
        main(arguments)
    return str(caught.value)


def test_point_keeps_the_checkpoint_and_replaces_its_variants(tmp_path: Path) -> None:
    out = tmp_path / "new/point.yaml"
    flags = ["--kv-max", "1024", "--kv-bucket", "256", "--tp", "4", "--slim", "--target", "inf2"]
    main([str(REAL), *flags, "--dtype", "bfloat16", "--batch", "4", "--kv", "device", "--out", str(out)])
    (checkpoint,) = load(out).checkpoints.values()
    (variant,) = checkpoint.variants
    assert (variant.size, variant.tp, variant.slim) == ((1024, 256), 4, True)
    assert (variant.target, variant.dtype, variant.kv, variant.batch) == ("inf2", "bfloat16", "device", 4)
    assert load(out).name == f"inf2-{variant.name}" == "inf2-1024-256-tp4-batch4-slim-bfloat16-inf2"
    base = next(iter(load(REAL).checkpoints.values()))
    kept = ("source", "geometry", "files", "reference", "licence")
    assert [getattr(checkpoint, key) for key in kept] == [getattr(base, key) for key in kept]
    assert checkpoint.release.latest == variant.name


def test_flags_left_out_take_the_defaults(tmp_path: Path) -> None:
    out = tmp_path / "point.yaml"
    main([str(REAL), "--kv-max", "1024", "--kv-bucket", "256", "--out", str(out)])
    (variant,) = next(iter(load(out).checkpoints.values())).variants
    assert variant.name == "1024-256"
    assert (variant.tp, variant.batch, variant.slim) == (1, 1, False)
    assert (variant.dtype, variant.target, variant.kv) == ("float32", "cpu", "device")


def test_a_builder_is_part_of_the_name_when_it_is_given(tmp_path: Path) -> None:
    out = tmp_path / "point.yaml"
    flags = ["--kv-max", "1024", "--kv-bucket", "16", "--target", "inf2", "--builder", "trace"]
    main([str(REAL), *flags, "--out", str(out)])
    (variant,) = next(iter(load(out).checkpoints.values())).variants
    assert (variant.name, variant.builder) == ("1024-16-inf2-trace", "trace")


def test_words_for_the_compiler_are_part_of_the_point_and_of_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "point.yaml"
    flags = ["--kv-max", "1024", "--kv-bucket", "256", "--target", "inf2", "--flag=-O1", "--flag=--lnc=1"]
    main([str(REAL), *flags, "--out", str(out)])
    (variant,) = next(iter(load(out).checkpoints.values())).variants
    assert (variant.name, variant.flags) == ("1024-256-inf2-o1-lnc-1", ("-O1", "--lnc=1"))
    assert capsys.readouterr().out == ""
    said = _refusal(str(REAL), *flags, "--flag=-O2", "--out", str(out))
    assert f"{REAL} with --kv-max 1024 --kv-bucket 256 --target inf2 --flag=-O1 --flag=--lnc=1 --flag=-O2: " in said
    assert "flags is -O twice" in said or "flags: found -O twice" in said


def test_many_words_are_a_digest_in_the_name_and_other_words_another(tmp_path: Path) -> None:
    names = set()
    for level in (1, 2):
        words = [f"--flag=xla_{key}={level}" for key in ("cpu_prefer_vector_width", "backend_optimization_level")]
        main([str(DEMO), "--kv-max", "256", "--kv-bucket", "64", *words, "--out", str(tmp_path / "point.yaml")])
        (variant,) = next(iter(load(tmp_path / "point.yaml").checkpoints.values())).variants
        names.add(variant.name)
    assert len(names) == 2
    assert all(re.fullmatch("256-64-flags-[0-9a-f]{8}", name) for name in names)


def test_words_that_a_variant_of_the_base_has_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = ROOT / "tests/config/good/flags.yaml"
    main([str(base), "--kv-max", "256", "--kv-bucket", "64", "--out", str(tmp_path / "point.yaml")])
    words = "--flag=xla_cpu_prefer_vector_width=256 --flag=xla_backend_optimization_level=1"
    assert capsys.readouterr().out.endswith(f"which would take {words}\n")


@pytest.mark.parametrize(
    ("flags", "parts"),
    [
        (
            ["--kv-max", "64", "--kv-bucket", "65"],
            ("--kv-max 64 --kv-bucket 65", "kv_bucket is 65", "1 to 64"),
        ),
        (["--kv-max", "4096", "--kv-bucket", "64"], ("kv_max is 4096", "at most 2048")),
        (
            ["--kv-max", "64", "--kv-bucket", "32", "--tp", "8"],
            ("tp is 8", "divisor of the 4 attention heads"),
        ),
        (["--kv-max", "64", "--kv-bucket", "32", "--batch", "65"], ("batch is 65", "equal to 64")),
        (["--kv-max", "64", "--kv-bucket", "32", "--tp", "3"], ("--tp", "3", "1, 2, 4, 8, 24")),
        (["--kv-max", "64", "--kv-bucket", "32", "--dtype", "f16"], ("--dtype", "f16", "float32")),
        (["--kv-max", "many", "--kv-bucket", "32"], ("--kv-max", "many", "int")),
        (["--kv-max", "64", "--kv-bucket", "32", "--kv-max", "128"], ("--kv-max", "64 and 128", "one value")),
        (["--kv-max", "64"], ("--kv-bucket", "required")),
        (["--kv-max", "64", "--kv-bucket", "32", "--kvmax", "1"], ("--kvmax", "unrecognized")),
    ],
)
def test_bad_flags_get_one_sentence(tmp_path: Path, flags: list[str], parts: tuple[str, ...]) -> None:
    out = tmp_path / "point.yaml"
    sentence = _refusal(str(DEMO), *flags, "--out", str(out))
    for part in parts:
        assert part in sentence
    assert not out.exists()


def test_base_is_checked_and_never_overwritten(tmp_path: Path) -> None:
    flags = ("--kv-max", "64", "--kv-bucket", "32", "--out")
    bad = ROOT / "tests/config/bad/batch_over_limit.yaml"
    assert f"{bad}: checkpoints.demo.variants.0.batch is 65" in _refusal(str(bad), *flags, str(tmp_path / "x"))
    copy = tmp_path / "base.yaml"
    copy.write_bytes(DEMO.read_bytes())
    assert "--out" in _refusal(str(copy), *flags, str(copy))
    assert copy.read_bytes() == DEMO.read_bytes()


def test_a_path_where_no_file_can_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    flags = (str(DEMO), "--kv-max", "64", "--kv-bucket", "32", "--out")
    assert _refusal(*flags, str(tmp_path)) == f"--out {tmp_path} is a folder; accepted: the path of a file"
    assert f"--out: {tmp_path}/file is a file" in _refusal(*flags, str(tmp_path / "file/point.yaml"))


@given(st.integers(129, 2048), st.integers(1, 2048), st.sampled_from([1, 2, 4]))
def test_every_point_within_the_limits_is_accepted(kv_max: int, kv_bucket: int, tp: int) -> None:
    flags = {"kv_max": kv_max, "kv_bucket": min(kv_max, kv_bucket), "tp": tp}
    (checkpoint,) = point(DEMO, flags)["checkpoints"].values()
    assert checkpoint["variants"] == [{"name": checkpoint["release"]["latest"], **flags}]


def test_command_line(tmp_path: Path) -> None:
    out = tmp_path / "point.yaml"
    command = [
        sys.executable,
        "-m",
        "config.point",
        "config/demo.yaml",
        "--kv-bucket",
        "8",
        "--out",
        str(out),
    ]
    for kv_max, code, start in (
        ("160", 0, ""),
        ("16", 2, "error: config/demo.yaml with "),
        ("4", 2, "error: config/demo.yaml with "),
    ):
        done = subprocess.run([*command, "--kv-max", kv_max], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == code and done.stderr.startswith(start), done.stderr
    assert yaml.safe_load(out.read_text(encoding="utf-8"))["name"] == "demo-160-8"
