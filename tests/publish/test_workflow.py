"""The plan of publishing: what each stage gets, and that a configuration without `publish` gets nothing."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from config.loading import from_mapping, read_mapping
from ledger.errors import BadInput
from ledger.sources import ROOT, source_files
from publish.promotion.decide import needed
from publish.promotion.promote import PromoteRecipe
from publish.promotion.stage import StageRecipe
from publish.promotion.verify import VerifyRecipe
from publish.trust.keys import make_keys
from publish.workflow import STAGES, Publishing
from recipes.workflow import Plan, Wildcards
from tests.test_workflow import copied

SECTION: dict[str, Any] = {
    "version": "v1",
    "registry": "127.0.0.1:5000/gemma",
    "hub": "me",
    "signer": {"kind": "key", "key": "keys/publisher.key"},
    "trusted": ["keys/publisher.pub"],
}
MODELS: dict[str, Any] = {"stage": StageRecipe, "verify": VerifyRecipe, "promote": PromoteRecipe}


def planned(publish: dict[str, Any] | None = SECTION) -> Publishing:
    mapping = read_mapping(ROOT / "config" / "demo.yaml")
    return Publishing(Plan(from_mapping(mapping | {"publish": publish}, "demo.yaml")))


def wildcards(**names: str) -> Wildcards:
    return cast("Wildcards", SimpleNamespace(checkpoint="demo", **names))


def test_a_release_goes_to_its_own_repositories() -> None:
    to = planned().destination(wildcards())
    assert (to.image, to.repo) == ("127.0.0.1:5000/gemma/demo", "me/demo")
    assert to.fixed["512-128"] == "v1-512-128-cpu"
    assert to.staging_tag("512-128") == "staging-v1-512-128-cpu"
    assert (to.moving["latest-cpu"], to.moving["slim-cpu"]) == ("512-128", "slim")


def test_tags_of_one_release_are_all_different() -> None:
    to = planned().destination(wildcards())
    tags = [*to.fixed.values(), *to.moving, *map(to.staging_tag, to.variants)]
    assert len(set(tags)) == len(tags)


def test_every_stage_reads_the_recipe_that_its_rule_gives_it() -> None:
    publishing = planned()
    for stage, model in MODELS.items():
        recipe = model.model_validate_json(publishing.recipe(stage)(wildcards()))
        assert recipe.model_dump()["destination"] == publishing.destination(wildcards()).model_dump()


def test_the_command_line_without_the_workflow_is_that_of_the_rule() -> None:
    publishing = planned()
    arguments = publishing.arguments("promote", wildcards())
    given = {word.partition("=")[0] for word in arguments if "=results/demo/receipts/demo/" in word}
    assert given == set(needed(publishing.destination(wildcards()).variants))
    assert arguments[-1].endswith(".json") and "results/demo/receipts/demo/promote.json" in arguments


def test_the_card_is_told_the_names_that_people_pull() -> None:
    recipe = json.loads(planned().recipe("package")(wildcards()))
    assert recipe["published"]["tags"]["slim"] == "v1-slim-cpu"
    assert "published" not in json.loads(planned(None).recipe("package")(wildcards()))


def test_a_configuration_that_publishes_nothing() -> None:
    publishing = planned(None)
    for ask in (publishing.check, lambda: publishing.all("promote"), lambda: publishing.destination(wildcards())):
        with pytest.raises(BadInput, match="publish: is missing"):
            ask()


def test_the_command_says_it_in_one_sentence() -> None:
    command = [sys.executable, "-m", "publish.promotion", "config/smoke.yaml", "--dry-run"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: publish: is missing") and done.stderr.count("\n") == 1


def test_what_is_public_comes_last_and_is_no_part_of_the_default_target(tmp_path: Path) -> None:
    workflow = copied(tmp_path / "repo")
    make_keys(workflow.folder / "keys")
    (workflow.folder / "publish.yaml").write_text(yaml.safe_dump({"publish": SECTION}))
    files = ("--configfile", "config/smoke.yaml", "publish.yaml")
    assert not {*STAGES, "staged", "promoted"} & set(workflow.planned(*files))
    line = {
        "fetch",
        "tables",
        "weights",
        "prompts",
        "oracle",
        "lower",
        "compile",
        "assemble",
        "parity",
        "bench",
        "package",
    }
    assert set(workflow.planned(*files, "--", "staged", "promoted")) == line | {*STAGES, "staged", "promoted"}


def test_a_rule_watches_all_that_its_stage_keys_on() -> None:
    for stage, module in STAGES.items():
        calls = ast.walk(ast.parse(Path(ROOT, *module.split(".")).with_suffix(".py").read_text()))
        named = [
            ast.literal_eval(keyword.value)
            for call in calls
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "run_stage"
            for keyword in call.keywords
            if keyword.arg == "modules"
        ]
        assert len(named) == 1, stage
        assert set(source_files(*named[0])) <= set(source_files(module)), stage


def test_only_one_place_changes_what_is_public() -> None:
    """Tags and main change through a Move, and a Move is made of a Ticket: by nothing else in the project's code."""
    changes = {"registry.point", "hub.promote", "retag", "promote", "push"}
    used: dict[str, set[str]] = {name: set() for name in changes}
    for path in (ROOT / "publish").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            words = ast.unparse(node).split(".") if isinstance(node, ast.Name | ast.Attribute) else []
            if (name := ".".join(words[-2:])) in changes:
                used[name].add(path.relative_to(ROOT / "publish").as_posix())
    assert used["registry.point"] == used["hub.promote"] == {"promotion/moves.py"}
    assert used["retag"] == {"promotion/live.py"}
    # The second names the stage's module.
    assert used["promote"] == {"promotion/live.py", "promotion/__main__.py"}
    assert used["push"] <= {"promotion/live.py", "image/attest.py"}


def test_keys_that_would_fail_in_the_end_are_found_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    publishing = planned()
    with pytest.raises(BadInput, match=r"keys/publisher.pub cannot be read"):
        publishing.check()
    make_keys(Path("keys"))
    make_keys(Path("others"))
    publishing.check()
    with pytest.raises(BadInput, match=r"publish.trusted: lacks the key of publish.signer; accepted: one with sha256"):
        planned(SECTION | {"trusted": ["others/publisher.pub"]}).check()
    with pytest.raises(BadInput, match=r"keys/publisher.pub is no such private key"):
        planned(SECTION | {"signer": {"kind": "key", "key": "keys/publisher.pub"}}).check()
