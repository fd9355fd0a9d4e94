"""The oracle against a plain loop over the library's cache-free forward, and the checks it makes while loading."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import BadInput
from ledger.receipts import Receipt
from ledger.store import Store
from tests.validate.conftest import BOS, SUPPRESSED, Writer
from validate import oracle, prompts
from validate.oracle import consult
from validate.oracle_model import OracleModel
from validate.records import Heldout, Oracle, Prompt, PromptSet

PROMPTS = [
    (BOS,),
    (BOS, *range(120, 130)),
    (BOS, 0, 0, 140, 0, 141, 105, 106, 107),  # padding and turn ids inside a prompt are tokens like any other
    (BOS, *range(108, 148)),  # five windows
]


@pytest.fixture(scope="module")
def library(checkpoint: Path) -> Any:
    """The checkpoint as the library loads it by itself."""
    import torch
    from transformers import Gemma4ForConditionalGeneration

    torch.set_num_threads(1)
    return Gemma4ForConditionalGeneration.from_pretrained(checkpoint, dtype=torch.float32, attn_implementation="eager")


@pytest.fixture(scope="module")
def model(checkpoint: Path) -> OracleModel:
    return OracleModel(checkpoint, threads=1)


def logits_after(library: Any, ids: list[int]) -> Any:
    """Logits of the whole forward after the last id, suppressed ids out of the race."""
    import torch

    with torch.no_grad():
        logits = library(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
    logits[SUPPRESSED] = -torch.inf
    return logits


@pytest.mark.parametrize("ids", PROMPTS, ids=["bos", "short", "padding-inside", "five-windows"])
def test_answers_are_those_of_a_loop_without_a_cache(model: OracleModel, library: Any, ids: tuple[int, ...]) -> None:
    made = model.generate(ids, max_new=12, stop=False)
    history = list(ids)
    for token, top, gap in zip(made.tokens, made.tops, made.gaps, strict=True):
        best, second = logits_after(library, history).sort(descending=True).values[:2].tolist()
        assert token == int(logits_after(library, history).argmax())
        assert (top, gap) == pytest.approx((best, best - second), abs=2e-4)
        history.append(token)
    assert len(made.tokens) == 12


def test_forced_choices_are_those_of_the_whole_forward(model: OracleModel, library: Any) -> None:
    ids = [BOS, *range(110, 140)]
    forced = model.forced(ids)
    assert forced.tokens == [int(logits_after(library, ids[: n + 1]).argmax()) for n in range(len(ids))]
    assert model.forced(ids, start=7).tokens == forced.tokens[7:]
    assert SUPPRESSED not in forced.tokens


def test_scores_are_those_of_the_whole_forward(model: OracleModel, library: Any) -> None:
    ids = [BOS, *range(110, 120), SUPPRESSED, 121]
    picks, logprobs = model.scored(ids)
    assert picks == model.forced(ids)
    expected = [float(logits_after(library, ids[:n]).log_softmax(-1)[ids[n]]) for n in range(1, len(ids))]
    assert logprobs[10] is None
    assert expected.pop(10) == float("-inf")
    assert [value for value in logprobs if value is not None] == pytest.approx(expected, abs=2e-4)


def test_stop_ids_end_an_answer_only_where_they_are_asked_for(model: OracleModel, write_checkpoint: Writer) -> None:
    free = model.generate(PROMPTS[1], max_new=12, stop=False).tokens
    stopping = OracleModel(write_checkpoint(eos_token_id=[free[3]]), threads=1)
    expected = free[: free.index(free[3]) + 1]
    assert stopping.generate(PROMPTS[1], max_new=12, stop=True).tokens == expected
    assert stopping.generate(PROMPTS[1], max_new=12, stop=False).tokens == free


def test_suppressed_ids_are_never_chosen(model: OracleModel, write_checkpoint: Writer) -> None:
    free = model.generate(PROMPTS[1], max_new=12, stop=False).tokens
    without = OracleModel(write_checkpoint(suppress_tokens=[free[0], SUPPRESSED]), threads=1)
    assert free[0] not in without.generate(PROMPTS[1], max_new=12, stop=False).tokens


def _altered(checkpoint: Path, folder: Path, change: Any) -> Path:
    from safetensors.torch import load_file, save_file

    shutil.copytree(checkpoint, folder, dirs_exist_ok=True)
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


LAYERS = "model.language_model.layers."


def _drop(tensors: dict[str, Any]) -> None:
    del tensors[f"{LAYERS}1.mlp.up_proj.weight"]


def _scalar(tensors: dict[str, Any]) -> None:
    del tensors[f"{LAYERS}1.layer_scalar"]


def _add(tensors: dict[str, Any]) -> None:
    tensors[f"{LAYERS}1.mlp.side_proj.weight"] = tensors[f"{LAYERS}1.mlp.up_proj.weight"].clone()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_drop, r"missing for the oracle, first model\.language_model\.layers\.1\.mlp\.up_proj\.weight"),
        (_scalar, r"missing for the oracle, first model\.language_model\.layers\.1\.layer_scalar"),
        (_add, r"unexpected for the oracle, first model\.language_model\.layers\.1\.mlp\.side_proj\.weight"),
    ],
    ids=["missing", "missing-buffer", "surplus"],
)
def test_a_checkpoint_that_does_not_fit(checkpoint: Path, tmp_path: Path, change: Any, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        OracleModel(_altered(checkpoint, tmp_path, change), threads=1)


def asked() -> PromptSet:
    """Two prompts and a window."""
    made = [Prompt(name=f"p{n}", kind="t", ids=ids, max_new=6, stop=False) for n, ids in enumerate(PROMPTS[:2])]
    return PromptSet(prompts=tuple(made), heldout=(Heldout(name="h", ids=tuple(range(110, 130))),))


def reference_of(library: Any, shift: float = 0.0) -> dict[str, Any]:
    """Public vectors for the test checkpoint, in the form of config/reference."""
    import torch

    base, length = [120, 121, 122], 9
    ids = [BOS, *(base * 3)[: length - 1]]
    with torch.no_grad():
        logits = library(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
    top = logits.topk(8)
    case = {"name": "nine", "length": length, "top8_ids": top.indices.tolist(), "greedy_ids": [int(logits.argmax())]}
    return {"base_ids": base, "cases": [case | {"top8_logits": [value + shift for value in top.values.tolist()]}]}


def test_the_oracle_reproduces_published_vectors_or_does_not_judge(checkpoint: Path, library: Any) -> None:
    said: list[str] = []
    record, failed = consult(checkpoint, asked(), threads=1, reference=reference_of(library), say=said.append)
    assert failed == []
    assert record.facts["reference"] == {"cases": 1, "failures": 0, "tolerance": 2e-2}
    assert said == ["oracle: 2 of 2 prompts answered"]

    record, failed = consult(checkpoint, asked(), threads=1, reference=reference_of(library, 0.05), say=said.append)
    assert failed[0].startswith("reference case nine: logit of id ")
    assert record.answers == ()


def _stage(
    module: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, recipe: dict[str, Any], **inputs: str
) -> Receipt:
    out = tmp_path / "receipts" / f"{module.__name__}.json"
    flags = [f"--input={name}={path}" for name, path in inputs.items()]
    argv = ["x", "--recipe", json.dumps(recipe), *flags, "--store", str(tmp_path / "store"), "--out", str(out)]
    monkeypatch.setattr("sys.argv", argv)
    assert module.main() == 0
    return Receipt.read(out)


def test_the_stages_from_fetched_files_to_answers(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "store")
    outputs = {path.name: store.put_file(path) for path in checkpoint.iterdir()}
    common: dict[str, Any] = {"recipe": {}, "inputs": {}, "facts": {}, "measured": {}, "toolchain": {}, "source": "s"}
    fetched = Receipt(stage="fetch", key="0" * 64, outputs=outputs, verdict="done", **common)
    fetched.write(tmp_path / "fetch.json")

    sizes = {"kv_max": 40, "kv_bucket": 8, "window": 8, "count": 3, "max_new": 4, "heldout_tokens": 30, "seed": 0}
    receipt = _stage(prompts, monkeypatch, tmp_path, sizes, fetch=str(tmp_path / "fetch.json"))
    made = PromptSet.model_validate(store.read_json(receipt.outputs["prompts.json"]))
    assert receipt.facts["prompts"] == len(made.prompts)
    assert receipt.facts["full_length"] >= 3

    at = {"fetch": str(tmp_path / "fetch.json"), "prompts": str(tmp_path / "receipts" / "validate.prompts.json")}
    receipt = _stage(oracle, monkeypatch, tmp_path, {"reference": None}, **at)
    record = Oracle.model_validate(store.read_json(receipt.outputs["oracle.json"]))
    assert receipt.verdict == "passed"
    assert [(a.name, a.ids, a.max_new, a.stop) for a in record.answers] == [
        (p.name, p.ids, p.max_new, p.stop) for p in made.prompts
    ]
    assert [window.ids for window in record.heldout] == [window.ids for window in made.heldout]
    assert receipt.facts["self_check"]["failures"] == 0
