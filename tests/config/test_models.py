"""What a loaded configuration offers, and the three configurations that ship."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from config.loading import from_mapping, load
from config.models import Factory, HubSource, TinySource, Variant
from ledger.errors import BadInput

CONFIG = Path(__file__).parents[2] / "config"
SHIPPED = ("demo", "smoke", "variants")


def _one_checkpoint(name: str) -> tuple[Factory, tuple[Variant, ...]]:
    factory = load(CONFIG / f"{name}.yaml")
    (checkpoint,) = factory.checkpoints.values()
    return factory, checkpoint.variants


def test_demo_is_six_cpu_variants_of_the_tiny_checkpoint() -> None:
    factory, variants = _one_checkpoint("demo")
    assert factory.name == "demo"
    assert [(v.name, v.size, v.slim, v.dtype, v.tp, v.batch) for v in variants] == [
        ("256-64", (256, 64), False, "float32", 1, 1),
        ("512-128", (512, 128), False, "float32", 1, 1),
        ("slim", (512, 128), True, "float32", 1, 1),
        ("bf16", (512, 128), False, "bfloat16", 1, 1),
        ("tp2", (512, 128), False, "float32", 2, 1),
        ("batch4", (512, 128), False, "float32", 1, 4),
    ]
    assert {v.target for v in variants} == {"cpu"} and {v.kv for v in variants} == {"device"}
    assert isinstance(factory.checkpoints["demo"].source, TinySource)
    assert factory.checkpoints["demo"].release.latest == "512-128"


def test_smoke_is_smaller_than_the_demo_in_everything() -> None:
    smoke, (variant,) = _one_checkpoint("smoke")
    demo, _ = _one_checkpoint("demo")
    assert variant.size == (128, 32) and variant.dtype == "float32"
    small, large = smoke.checkpoints["demo"].source, demo.checkpoints["demo"].source
    assert isinstance(small, TinySource) and isinstance(large, TinySource)
    assert small.steps * 4 <= large.steps
    assert smoke.parity.prompts < demo.parity.prompts
    # The timed request fits, so that nothing is cut without a word.
    assert smoke.bench.prompt_tokens + smoke.bench.new_tokens <= variant.kv_max


def test_variants_is_the_published_matrix_and_what_was_measured_beside_it() -> None:
    checkpoints = load(CONFIG / "variants.yaml").checkpoints
    every = {name: checkpoint.variants for name, checkpoint in checkpoints.items()}
    assert {name: [(v.name, v.size, v.tp, v.batch, v.slim, v.kv) for v in one] for name, one in every.items()} == {
        "gemma-4-e2b-it": [
            ("512-128", (512, 128), 1, 1, False, "host"),
            ("2048-512", (2048, 512), 1, 1, False, "host"),
            ("slim", (512, 128), 1, 1, True, "host"),
            ("tp2-2048", (2048, 512), 2, 1, False, "device"),
            ("tp2-slim", (2048, 512), 2, 1, True, "device"),
            ("2048-512-aliased", (2048, 512), 1, 1, False, "device"),
            ("batch4", (512, 128), 1, 4, False, "host"),
            ("batch8", (512, 128), 1, 8, False, "host"),
        ],
        "gemma-4-e4b-it": [
            ("tp2-512", (512, 128), 2, 1, False, "device"),
            ("tp2-2048", (2048, 512), 2, 1, False, "device"),
            ("tp2-slim", (512, 128), 2, 1, True, "device"),
        ],
        "gemma-4-12b-it": [
            ("tp2-256", (256, 64), 2, 1, False, "device"),
            ("tp2-slim", (256, 64), 2, 1, True, "device"),
        ],
    }
    assert {(v.target, v.dtype) for one in every.values() for v in one} == {("inf2", "bfloat16")}


def test_variants_pins_the_one_revision_that_is_known() -> None:
    checkpoints = load(CONFIG / "variants.yaml").checkpoints
    checkpoint = checkpoints["gemma-4-e2b-it"]
    assert isinstance(checkpoint.source, HubSource)
    reference = json.loads((CONFIG / "reference/gemma-4-E2B-it.json").read_text(encoding="utf-8"))
    assert (checkpoint.source.repo, checkpoint.source.revision) == (
        reference["model"],
        reference["revision"],
    )
    assert checkpoint.reference == "gemma-4-E2B-it" and checkpoint.release.latest == "tp2-2048"
    assert {one.source.kind for one in checkpoints.values() if one is not checkpoint} == {"path"}


@pytest.mark.parametrize("name", SHIPPED)
def test_configuration_survives_a_round_trip(name: str) -> None:
    factory = load(CONFIG / f"{name}.yaml")
    assert from_mapping(json.loads(factory.model_dump_json()), "round trip") == factory


@pytest.mark.parametrize("name", SHIPPED)
def test_checkpoint_knows_its_key(name: str) -> None:
    assert all(key == checkpoint.name for key, checkpoint in load(CONFIG / f"{name}.yaml").checkpoints.items())


def test_models_are_frozen() -> None:
    variant = Variant(name="a", kv_max=8, kv_bucket=4)
    with pytest.raises(ValidationError, match="frozen"):
        variant.kv_max = 4  # type: ignore[misc]


def test_path_source_without_geometry_reads_the_folder(tmp_path: Path) -> None:
    shape = json.loads((CONFIG / "geometry/tiny.json").read_text(encoding="utf-8"))
    shape["text_config"]["max_position_embeddings"] = 300
    (tmp_path / "config.json").write_text(json.dumps(shape), encoding="utf-8")
    mapping = {
        "name": "path",
        "checkpoints": {
            "mine": {
                "source": {"kind": "path", "path": str(tmp_path)},
                "release": {"name": "mine", "latest": "a"},
                "variants": [{"name": "a", "kv_max": 300, "kv_bucket": 100}],
            }
        },
    }
    assert from_mapping(mapping, "x").checkpoints["mine"].load_geometry().max_position_embeddings == 300
    shape["text_config"]["max_position_embeddings"] = 299
    (tmp_path / "config.json").write_text(json.dumps(shape), encoding="utf-8")
    with pytest.raises(BadInput, match=r"variants\.0\.kv_max is 300; accepted: at most 299"):
        from_mapping(mapping, "x")
