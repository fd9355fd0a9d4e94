"""The card has the front matter that a hub reads, and every figure with its host."""

from typing import Any

import yaml

from config.models import Release
from config.sources import HubSource, Source, TinySource
from publish.card import card
from publish.gate import admit
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
    assert front(text)["base_model"] == "google/gemma-4-E2B-it"
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
