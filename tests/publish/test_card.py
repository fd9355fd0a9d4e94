"""The card has the front matter that a hub reads, and every figure with its host."""

import shlex
from dataclasses import replace
from typing import Any

import yaml

from config.geometry import Geometry, load_geometry
from config.models import Release
from config.sources import HubSource, Source, TinySource
from publish.card import card
from publish.gate import Admitted, admit
from publish.use import Published, flags
from serve.http.schemas_chat import ChatRequest
from serve.manifest import Graph, GraphName, Output, Parameter, Signature
from tests.publish.conftest import FACTS, Line

RELEASE = Release(name="demo", latest="512-128")
TINY = TinySource(kind="tiny")


def written(line: Line, source: Source = TINY, facts: dict[str, Any] = FACTS) -> str:
    return card(RELEASE, source, facts, [admit(name, line.inputs, line.store) for name in ("512-128", "bf16")])


def rows(text: str, section: str) -> list[list[str]]:
    """Cells of the table rows in a section, its head left out."""
    body = text.partition(f"## {section}\n")[2].partition("\n## ")[0]
    lines = [line for line in body.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def front(text: str) -> dict[str, Any]:
    _, head, _ = text.split("---\n", 2)
    loaded: dict[str, Any] = yaml.safe_load(head)
    return loaded


def test_front_matter_of_a_trained_checkpoint_has_no_base_model(line: Line) -> None:
    head = front(written(line))
    assert head == {
        "license": "apache-2.0",
        "library_name": "neff-foundry",
        "pipeline_tag": "text-generation",
        "tags": ["gemma4", "neff-foundry", "target-cpu"],
    }


def test_front_matter_of_a_hub_checkpoint_names_it(line: Line) -> None:
    source = HubSource(kind="hub", repo="google/gemma-4-E2B-it", revision="9" * 40)
    text = written(line, source, FACTS | {"revision": "9" * 40})
    head = front(text)
    assert (head["base_model"], head["base_model_relation"]) == ("google/gemma-4-E2B-it", "quantized")
    assert "9" * 40 in text


def test_figures_stand_beside_their_host(line: Line) -> None:
    text = written(line)
    for section in ("Speed", "Hosts"):
        for row in rows(text, section)[2:]:
            assert row[-1].startswith("Example CPU 1234, 2 of 2 cores")
    assert rows(text, "Speed")[2][2:10] == ["12.5", "4321.0", "987.0", "1.01", "0.9", "1.2", "100.0 (eager)", "9.87"]
    assert rows(text, "Hosts")[2][:5] == ["512-128", "345.6", "17.5", "3.25", "1.25"]


def test_a_reference_that_could_not_run_says_why(line: Line) -> None:
    failed = {"eager": {"reason": "no memory"}}
    line.record_bench(
        "bf16",
        transformers=failed,
        transformers_best=None,
        transformers_decode_tok_s=None,
        decode_vs_transformers=None,
    )
    assert "could not run: no memory" in rows(written(line), "Speed")[3][8]


def test_every_exemption_is_listed(line: Line) -> None:
    text = written(line)
    assert "| bf16 | oracle | `emoji` | 7 | 11 | 12 | 0.1250 |" in text
    assert rows(text, "Parity")[2][:6] == ["512-128", "passed", "64", "8192", "0", "0"]
    assert rows(text, "Parity")[3][:6] == ["bf16", "passed", "64", "8192", "0", "1"]


def test_a_card_without_exemptions_says_so(line: Line) -> None:
    text = card(RELEASE, TINY, FACTS, [admit("512-128", line.inputs, line.store)])
    assert "No exemption was used." in text


def test_what_the_release_is_not(line: Line) -> None:
    text = written(line)
    assert "Nothing in this release ran on Inferentia" in text
    assert "Not affiliated with, sponsored or endorsed by Google or AWS" in text


def test_a_bar_in_a_cell_does_not_end_it(line: Line) -> None:
    facts = line.inputs["bf16/parity"].facts
    exemption = facts["exemptions"][0] | {"prompt": "<|turn>"}
    line.record("bf16/parity", inputs=("bf16/assemble",), facts=facts | {"exemptions": [exemption]}, verdict="passed")
    line.record_bench("bf16")
    assert "`<\\|turn>`" in written(line)


PUBLISHED = Published(
    image="registry.example/demo",
    repo="me/demo",
    version="v1",
    tags={"512-128": "v1-512-128-cpu", "bf16": "v1-bf16-cpu"},
)


def admitted(line: Line) -> list[Admitted]:
    return [admit(name, line.inputs, line.store) for name in ("512-128", "bf16")]


def for_inf2(variant: Admitted, *, tp: int = 1, weights: int = 0) -> Admitted:
    """The variant as if it were built for inf2, slim, with so many bytes of weights on each rank."""

    def graph(name: GraphName, tokens: int) -> Graph:
        signature = Signature(
            graph=name,
            batch=1,
            tokens=tokens,
            parameters=(
                Parameter(name="w", role="weight", shape=(weights // 2,), dtype="bfloat16"),
                Parameter(name="full_mask", role="input", shape=(1, 1, tokens, 512), dtype="bfloat16"),
            ),
            outputs=(Output(name="logits", role="logits", shape=(1, 9), dtype="float32"),),
            aliases={},
        )
        return variant.manifest.graphs[name].model_copy(update={"signature": signature})

    point = variant.manifest.variant.model_copy(
        update={"target": "inf2", "builder": "nxd", "kv": "device", "tp": tp, "slim": True}
    )
    graphs = {"prefill": graph("prefill", 128), "decode": graph("decode", 1)}
    return replace(variant, manifest=variant.manifest.model_copy(update={"variant": point, "graphs": graphs}))


def shown(variants: list[Admitted], geometry: Geometry | None = None) -> str:
    return card(RELEASE, TINY, FACTS, variants, PUBLISHED, geometry)


def test_two_lines_start_the_image_and_ask_it(line: Line) -> None:
    text = shown(admitted(line))
    run, ask = (one.strip() for one in text.splitlines() if one.strip().startswith(("docker run", "curl")))
    assert run == "docker run --rm -p 8080:8080 registry.example/demo:v1-512-128-cpu"
    words = shlex.split(ask)
    assert words[:2] == ["curl", "http://127.0.0.1:8080/v1/chat/completions"]
    ChatRequest.model_validate_json(words[words.index("-d") + 1])
    assert "`images.json`" in text and "registry.example/demo@sha256:" in text
    assert "python -m publish.verify hub:me/demo@v1" in text


def test_a_release_that_stays_here_names_no_image(line: Line) -> None:
    text = written(line)
    assert "docker" not in text and "publish.verify" not in text
    assert "python -m serve variants/512-128" in text


def test_an_image_for_inf2_gets_a_device_for_two_ranks_each_and_ipc_where_there_are_several(line: Line) -> None:
    one, two = admitted(line)
    assert list(flags(for_inf2(one))) == ["--device=/dev/neuron0", "-p 8080:8080"]
    assert list(flags(for_inf2(two, tp=2))) == ["--device=/dev/neuron0", "--ipc=host", "-p 8080:8080"]
    assert list(flags(for_inf2(two, tp=4)))[:3] == ["--device=/dev/neuron0", "--device=/dev/neuron1", "--ipc=host"]
    assert list(flags(one)) == ["-p 8080:8080"]


def test_swap_is_told_where_loading_needs_it_and_nowhere_else(line: Line) -> None:
    """14.5 GB are loaded for each 4.56 GB of weights, and an inf2.xlarge has 16 GiB."""
    one, two = admitted(line)
    geometry = load_geometry("gemma-4-E2B-it")
    small, large = for_inf2(one, weights=4_000_000_000), for_inf2(two, weights=6_000_000_000)
    text = shown([small, large], geometry)
    assert "| 512-128 | inf2.xlarge | 12 GiB | 17.5 MB | - |" in text
    assert "| bf16 | inf2.8xlarge | 18 GiB | 17.5 MB | inf2.xlarge with 2 GiB of swap |" in text
    assert "Loading bf16 takes more memory" in text and "fallocate -l 2G /swapfile" in text
    assert "fallocate" not in shown([small], geometry)
    assert "it was not measured" in text
