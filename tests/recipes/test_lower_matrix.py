"""Full-size graphs from config.json alone: sizes that the geometry counts, within a builder's memory."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from config.geometry import load_text_config
from ledger.errors import BadInput
from recipes.lower import main
from recipes.lowering import LowerRecipe, lower
from tests.recipes.test_lower import DYNAMIC, hlo_text, opcodes

ROOT = Path(__file__).parents[2]
# torch's own count of the library's text model for google/gemma-4-E2B-it's config.json, built on the meta device: its
# parameters without the two tables, and the head; then one scalar a layer, and half a head's width of frequencies
# for sliding and full attention.
E2B_PARAMETERS = 2_279_759_104
E2B_SCALARS = 35
E2B_FREQUENCIES = 256 + 128


def test_a_full_size_graph_lowers_to_what_the_geometry_counts() -> None:
    config = load_text_config("gemma-4-E2B-it")
    recipe = LowerRecipe(kv_max=512, kv_bucket=128, tp=1, batch=1, dtype="bfloat16", target="inf2")
    found = lower(config, recipe, "decode")
    weights = found.signature.named("weight").values()
    elements = {
        dtype: sum(math.prod(w.shape) for w in weights if w.dtype == dtype) for dtype in ("bfloat16", "float32")
    }
    assert elements == {"bfloat16": E2B_PARAMETERS + E2B_SCALARS, "float32": E2B_FREQUENCIES}
    assert not opcodes(hlo_text(found.hlo)) & DYNAMIC


def _published(folder: Path) -> Path:
    """The five variants of E2B that are published, out of the real matrix."""
    given = yaml.safe_load((ROOT / "config/variants.yaml").read_text())
    checkpoint = given["checkpoints"]["gemma-4-e2b-it"]
    checkpoint["variants"] = checkpoint["variants"][:5]
    path = folder / "published.yaml"
    path.write_text(yaml.safe_dump({**given, "checkpoints": {"gemma-4-e2b-it": checkpoint}}))
    return path


def test_the_matrix_lowers_from_a_configuration_in_two_gigabytes(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "recipes.lower", str(_published(tmp_path)), "--json"]
    # Started by a small process: to the kernel, a child has been as large as whoever forked it.
    small = (
        "import json, resource, subprocess, sys\n"
        f"made = subprocess.run({command!r}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)\n"
        "print(json.dumps([json.loads(made.stdout), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]))"
    )
    done = subprocess.run([sys.executable, "-c", small], cwd=ROOT, capture_output=True, check=True)
    rows, largest = json.loads(done.stdout)
    assert largest < 2_000_000  # kB
    by_name = {(row["variant"], row["graph"]): row for row in rows}
    assert len(by_name) == len(rows) == 10
    whole = 2 * (E2B_PARAMETERS + E2B_SCALARS) + 4 * E2B_FREQUENCIES
    assert {by_name[variant, "decode"]["weight_bytes"] for variant in ("512-128", "2048-512", "slim")} == {whole}
    half = by_name["tp2-2048", "decode"]["weight_bytes"]
    assert 0.5 * whole < half < 0.52 * whole
    # 12 sliding and 3 full owners, with one KV head of 256 or 512, hold K and V in bfloat16.
    assert by_name["512-128", "decode"]["state_bytes"] == 2 * 2 * (12 * 512 * 256 + 3 * 512 * 512)
    assert by_name["2048-512", "decode"]["state_bytes"] == 2 * 2 * (12 * 1024 * 256 + 3 * 2048 * 512)
    assert {row["state_buffers"] for row in rows} == {30}


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ([], "recipes.lower: the following arguments are required: config"),
        (["config/demo.yaml", "--jsn"], "recipes.lower: unrecognized arguments: --jsn"),
    ],
)
def test_wrong_flags_are_one_sentence(monkeypatch: pytest.MonkeyPatch, argv: list[str], sentence: str) -> None:
    monkeypatch.setattr(sys, "argv", ["lower", *argv])
    with pytest.raises(BadInput, match=sentence):
        main()


def test_a_configuration_that_is_not_there_is_one_sentence() -> None:
    command = [sys.executable, "-m", "recipes.lower", "config/nowhere.yaml"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
    assert "config/nowhere.yaml" in done.stderr
