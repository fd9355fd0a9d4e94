"""Several files as one configuration: merged as snakemake merges --configfile, by its own function as the oracle."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from snakemake.utils import update_config  # type: ignore[import-untyped]

from config.loading import from_mapping, load
from config.models import Factory
from ledger.errors import BadInput

HERE = Path(__file__).parent
MINIMAL = HERE / "good" / "minimal.yaml"
KEYS = st.sampled_from(["name", "checkpoints", "demo", "source", "kind", "release", "latest", "variants", "parity"])
VALUES = st.sampled_from(["tiny", "one", "other", 129, 0, None, True]) | st.just([{"name": "one", "kv_max": 200}])
LAYERS = st.recursive(VALUES, lambda inner: st.dictionaries(KEYS, inner, max_size=3), max_leaves=6)


def outcome(made: Any) -> Factory | str:
    """The configuration, or the sentence that refuses it."""
    try:
        found: Factory = made()
        return found
    except BadInput as error:
        return str(error)


@given(layers=st.lists(st.dictionaries(KEYS, LAYERS, min_size=1, max_size=3), min_size=1, max_size=3))
def test_files_are_merged_as_snakemake_merges_them(
    layers: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp()
    files, merged = [MINIMAL], yaml.safe_load(MINIMAL.read_text())
    for number, layer in enumerate(layers):
        files.append(folder / f"layer{number}.yaml")
        files[-1].write_text(yaml.safe_dump(layer))
        update_config(merged, yaml.safe_load(files[-1].read_text()))
    assert outcome(lambda: load(*files)) == outcome(lambda: from_mapping(merged, " and ".join(map(str, files))))


def test_one_key_of_a_source_changes_and_the_others_stay(tmp_path: Path) -> None:
    layer = tmp_path / "layer.yaml"
    layer.write_text("checkpoints: {demo: {source: {seed: 7}}}")
    alone, both = load(MINIMAL), load(MINIMAL, layer)
    assert both.checkpoints["demo"].source.model_dump() == alone.checkpoints["demo"].source.model_dump() | {"seed": 7}
    assert both.checkpoints["demo"].variants == alone.checkpoints["demo"].variants


def test_every_file_is_read_strictly_and_named(tmp_path: Path) -> None:
    layer = tmp_path / "layer.yaml"
    layer.write_text("name: a\nname: b")
    with pytest.raises(BadInput, match=rf"^{layer}: not YAML \(line 2: key 'name' is given twice"):
        load(MINIMAL, layer)
    layer.write_text("nmae: a")
    with pytest.raises(BadInput, match=rf"^{MINIMAL} and {layer}: nmae is not a known key"):
        load(MINIMAL, layer)
