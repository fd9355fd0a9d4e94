"""Configuration files: a good and a bad corpus, and fuzzing that must end in a Factory or in one sentence.

A bad file starts with `# expect: part | part`; every part must be in the sentence. The parts name the key,
the value found and what is accepted.
"""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from config.loading import from_mapping, load, read_mapping
from config.models import Factory
from ledger.errors import BadInput

HERE = Path(__file__).parent
BAD = sorted((HERE / "bad").glob("*.yaml"))
GOOD = sorted((HERE / "good").glob("*.yaml"))


def sentence_of(path: Path) -> str:
    with pytest.raises(BadInput) as caught:
        load(path)
    return str(caught.value)


@pytest.mark.parametrize("path", BAD, ids=lambda path: path.stem)
def test_bad_file_gets_one_sentence(path: Path) -> None:
    first = path.read_text(encoding="utf-8").splitlines()[0]
    parts = first.removeprefix("# expect: ").split(" | ")
    assert first.startswith("# expect: ") and len(parts) >= 2
    sentence = sentence_of(path)
    for part in [str(path), "accepted: ", *parts]:
        assert part in sentence
    assert "\n" not in sentence
    assert "(and " not in sentence, "one mistake is reported once"


@pytest.mark.parametrize("path", GOOD, ids=lambda path: path.stem)
def test_good_file_loads(path: Path) -> None:
    assert load(path).name == path.stem.split("_")[0]


def test_corpora_are_not_empty() -> None:
    assert len(BAD) >= 40 and len(GOOD) >= 4


def test_date_like_name_stays_text() -> None:
    assert load(HERE / "good/limits.yaml").checkpoints["demo"].variants[0].name == "2048-08-12"


def test_merged_mappings_override() -> None:
    variants = load(HERE / "good/merged.yaml").checkpoints["demo"].variants
    assert [(v.name, v.kv_max, v.kv_bucket) for v in variants] == [
        ("small", 256, 64),
        ("middle", 512, 64),
        ("large", 1024, 64),
    ]


@pytest.mark.parametrize("content", [None, b"name: \xff\xfe\x00", b"a: &a [*a, \x00]", b"[" * 5000])
def test_unreadable_file_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "x.yaml"
    if content is not None:
        path.write_bytes(content)
    assert f"{path}: {'cannot be read' if content is None else 'not YAML'} (" in sentence_of(path)


def test_mapping_without_end_is_one_sentence() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(BadInput, match=r"^x: .*; accepted: "):
        from_mapping({"name": deep}, "x")


@pytest.mark.parametrize("text", ["&a [*a]", "a: &a {b: [*a]}", "a: &a {<<: *a}", "a: &a {<<: [*a]}", "&a {? *a : b}"])
def test_alias_of_what_it_is_a_part_of(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    assert f"{path}: not YAML (line 1: *a is a part of what it names); accepted: " in sentence_of(path)


def test_folder_is_no_configuration(tmp_path: Path) -> None:
    assert "Is a directory" in sentence_of(tmp_path)


@given(st.text(alphabet="ab:-{}[],&*!<>|#'\"0x_.~ \n\t%@", max_size=60))
def test_any_text_is_a_mapping_or_one_sentence(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_text(text, encoding="utf-8")
    try:
        assert isinstance(read_mapping(path), dict)
    except BadInput as error:
        assert "\n" not in str(error)


def _paths(node: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [here, *(path for key, value in items for path in _paths(value, (*here, key)))]


DEMO: dict[str, Any] = yaml.safe_load((HERE.parents[1] / "config/demo.yaml").read_text(encoding="utf-8"))
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 4000) | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=6), inner, max_size=2),
    max_leaves=4,
)


@given(path=st.sampled_from(_paths(DEMO)[1:]), value=ANYTHING)
def test_any_change_of_one_key_loads_or_names_where_it_is(path: tuple[Any, ...], value: Any) -> None:
    mapping = yaml.safe_load(yaml.safe_dump(DEMO))
    holder = mapping
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    try:
        assert isinstance(from_mapping(mapping, "fuzz.yaml"), Factory)
    except BadInput as error:
        assert str(error).startswith(f"fuzz.yaml: {path[0]}")
        assert "accepted: " in str(error)


def test_given_mapping_is_left_alone() -> None:
    mapping = yaml.safe_load(yaml.safe_dump(DEMO))
    from_mapping(mapping, "demo")
    assert mapping == DEMO
