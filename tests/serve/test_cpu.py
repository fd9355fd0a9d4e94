"""The engine on the real runtime: held to transformers' tokens and log-probabilities, and to the memory it promises."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from serve.engine import Engine
from serve.errors import ServeError
from serve.manifest import Manifest
from serve.runtime import cpu, pjrt
from serve.tensorfile import TensorFile
from tests.build import BOS, TEXT_CONFIG, WINDOW, continuation, point
from tests.conftest import ArtifactOf
from tests.serve.noise import fill_buffers

NO_STOP: frozenset[int] = frozenset()
VOCABULARY = TEXT_CONFIG["vocab_size"]
# Around the bucket, the window and the ring, a second turn of the ring, and the last position.
LENGTHS = {
    (44, 8): (1, 7, 8, 9, 11, 12, 13, 19, 20, 21, 28, 40, 41, 43),
    (24, 16): (1, 12, 15, 16, 17, 23),  # a bucket wider than the window, and a ring that never turns
}


def prompt(length: int) -> list[int]:
    return [BOS, *np.random.default_rng(length).integers(0, VOCABULARY, length - 1).tolist()]


def answer(engine: Engine, ids: list[int], count: int = 99) -> list[int]:
    return [token.id for token in engine.generate(ids, max_new=count, stop_ids=NO_STOP)]


def copied(artifact: Path, folder: Path, change: Callable[[dict[str, Any]], object] = dict.keys) -> Path:
    """A copy of the whole build tree, to damage, with its manifest changed."""
    shutil.copytree(artifact.parents[1], folder / "build")
    copy = folder / "build" / "variants" / artifact.name
    document = json.loads((copy / "manifest.json").read_bytes())
    change(document)
    (copy / "manifest.json").write_text(json.dumps(document))
    return copy


@pytest.mark.parametrize("size", LENGTHS)
def test_greedy_tokens_are_transformers(artifact_of: ArtifactOf, random_model: Any, size: tuple[int, int]) -> None:
    engine = Engine.load(artifact_of(point(*size)))
    for length in LENGTHS[size]:
        ids = prompt(length)
        made = answer(engine, ids)
        assert len(made) == size[0] - length
        with torch.no_grad():
            choices = random_model(torch.tensor([ids + made])).logits[0].argmax(-1).tolist()
        # By induction over positions this is greedy decoding, by one pass without any cache.
        assert made == choices[length - 1 : -1], f"a prompt of {length} tokens"


def test_an_answer_is_what_generate_gives(artifact: Path, random_model: Any) -> None:
    made = answer(Engine.load(artifact), prompt(18))
    assert made == continuation(random_model, prompt(18), len(made))


@pytest.mark.parametrize("tp", [2, pytest.param(4, marks=pytest.mark.soak)])
def test_ranks_answer_as_one(artifact_of: ArtifactOf, random_model: Any, tp: int) -> None:
    # Two KV heads: one each for two ranks, each one twice for four.
    engine = Engine.load(artifact_of(point(tp=tp, name=f"tp{tp}")))
    for length in (1, 13, 21):
        made = answer(engine, prompt(length))
        assert made == continuation(random_model, prompt(length), len(made))


def test_log_probabilities_are_transformers(artifact: Path, random_model: Any) -> None:
    ids = prompt(44)
    with torch.no_grad():
        expected = torch.log_softmax(random_model(torch.tensor([ids])).logits[0].double(), -1)
    engine = Engine.load(artifact)
    scores = engine.score(ids, top_logprobs=5)
    assert [score.argmax for score in scores] == expected.argmax(-1).tolist()
    found = [score.logprob for score in scores[:-1]]
    assert found == pytest.approx(expected[range(43), ids[1:]].tolist(), abs=1e-4)
    best = expected.topk(5)
    assert [[id_ for id_, _ in score.top] for score in scores] == best.indices.tolist()
    assert np.array([[value for _, value in score.top] for score in scores]) == pytest.approx(best.values, abs=1e-4)

    tokens = list(engine.generate(ids[:30], max_new=1, top_logprobs=5))
    assert tokens[0].logprob == pytest.approx(expected[29].max().item(), abs=1e-4)
    assert [id_ for id_, _ in tokens[0].top] == best.indices[29].tolist()


def test_bfloat16_is_as_near_to_float32_as_the_library_is(artifact_of: ArtifactOf, random_model: Any) -> None:
    from tests.build import random_model as build_model

    ids = prompt(44)
    engine = Engine.load(artifact_of(point(44, 16, dtype="bfloat16", name="bf16")))
    found = np.array([score.logprob for score in engine.score(ids)[:-1]], np.float64)
    rounded = build_model(TEXT_CONFIG, seed=0).bfloat16()
    with torch.no_grad():
        exact, library = (
            torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), -1)[range(43), ids[1:]].numpy()
            for model in (random_model, rounded)
        )
    assert 0 < np.abs(found - exact).mean() < 1.2 * np.abs(library - exact).mean()


def test_a_request_needs_no_reset(artifact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh = {length: answer(Engine.load(artifact), prompt(length)) for length in (5, 25)}
    fill_buffers(monkeypatch)
    engine = Engine.load(artifact)
    for length in (25, 5, 25):
        assert answer(engine, prompt(length)) == fresh[length]


def test_a_slim_variant_answers_alike(artifact: Path, tmp_path: Path) -> None:
    slim = copied(artifact, tmp_path, lambda document: document["variant"].update(slim=True))
    assert answer(Engine.load(slim), prompt(13)) == answer(Engine.load(artifact), prompt(13))


@pytest.mark.parametrize("lacks", [True, False])
def test_a_host_without_a_cpu_feature_compiles_the_module(
    artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacks: bool
) -> None:
    features = Manifest.read(artifact).graphs["decode"].cpu_features
    assert features
    copy = copied(artifact, tmp_path)
    for path in copy.glob("*.xla" if lacks else "*.stablehlo"):
        path.unlink()  # the form that this host must not need
    monkeypatch.setattr(cpu, "cpu_features", lambda: features[1:] if lacks else (*features, "avx999"))
    engine = Engine.load(copy, check_digests=False)
    assert answer(engine, prompt(13)) == answer(Engine.load(artifact), prompt(13))


def test_a_module_is_compiled_with_the_flags_of_its_variant(
    artifact: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flagged(document: dict[str, Any]) -> None:
        for graph in document["graphs"].values():
            graph["flags"] = ["xla_cpu_prefer_vector_width=256"]

    given: list[Sequence[str]] = []
    compiled = pjrt.Client.compile

    def spy(client: pjrt.Client, module: bytes, flags: Sequence[str] = ()) -> bytes:
        given.append(flags)
        return compiled(client, module, flags)

    monkeypatch.setattr(pjrt.Client, "compile", spy)
    monkeypatch.setattr(cpu, "cpu_features", tuple)
    Engine.load(copied(artifact, tmp_path, flagged))
    assert given == [("xla_cpu_prefer_vector_width=256",)] * 2


def test_weights_stay_in_the_page_cache(artifact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    placed: list[tuple[npt.NDArray[np.generic], Any]] = []
    put = pjrt.Client.put

    def spy(client: pjrt.Client, arrays: Sequence[npt.NDArray[np.generic]]) -> Any:
        placed.append((arrays[0], put(client, arrays)))
        return placed[-1][1]

    monkeypatch.setattr(pjrt.Client, "put", spy)
    engine = Engine.load(artifact)
    path = (artifact / engine.manifest.weights[0].path).resolve()
    weights = TensorFile(path)
    inside = [buffer for array, buffer in placed if mapped(path, array.ctypes.data)]
    assert len(inside) == len(weights.names())
    sizes = {id(buffer): buffer.on_device_size_in_bytes() for buffer in inside}
    large = [buffer for buffer in inside if sizes[id(buffer)] % 64 == 0]
    assert sum(sizes[id(buffer)] for buffer in large) > 0.99 * sum(weights[name].nbytes for name in weights.names())
    for buffer in large:
        assert mapped(path, buffer.unsafe_buffer_pointer())


def mapped(path: Path, address: int) -> bool:
    """Whether `address` of this process lies in a mapping of `path` (Linux)."""
    lines = [line.split() for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith(f" {path}")]
    ranges = [[int(edge, 16) for edge in line[0].split("-")] for line in lines]
    return any(begin <= address < end for begin, end in ranges)


def test_a_step_writes_state_where_it_is(artifact: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    addresses: list[tuple[list[int], list[int]]] = []
    run = pjrt.Program.run

    def spy(program: pjrt.Program, arguments: Any) -> list[Any]:
        before = [buffer.unsafe_buffer_pointer() for buffer in arguments]
        results = run(program, arguments)
        addresses.append((before, [buffer.unsafe_buffer_pointer() for buffer in results]))
        return results

    monkeypatch.setattr(pjrt.Program, "run", spy)
    engine = Engine.load(artifact)
    assert len(answer(engine, prompt(13), 4)) == 4
    graphs = ["prefill", "prefill", "decode", "decode", "decode"]
    state = set()
    # The first step cannot take over the zeros that it starts from: they are the host's.
    for (before, after), graph in list(zip(addresses, graphs, strict=True))[1:]:
        aliases = engine.manifest.graphs[graph].signature.aliases  # type: ignore[index]
        assert len(aliases) == 6  # K and V of three owning layers
        for output, parameter in aliases.items():
            assert after[output] == before[parameter]
        state.add(frozenset(after[output] for output in aliases))
    assert len(state) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda document: document["variant"].update(kv_max=45), "variant.kv_max: found 45; accepted: 44"),
        (lambda document: document["variant"].update(kv_bucket=7), "variant.kv_bucket: found 7; accepted: 8"),
        (lambda document: document["variant"].update(batch=2), "variant.batch: found 2; accepted: 1"),
        (lambda document: document["variant"].update(dtype="bfloat16"), "variant.dtype: .*bfloat16.*float32"),
        (lambda document: document.update(ring=19), "ring: found 19; accepted: 20"),
        (lambda document: document["model"].update(sliding_window=11), "ring, of model.sliding_window"),
        (lambda document: document["model"].update(hidden_size=3), "model.hidden_size: found 3"),
        (lambda document: document["model"].update(layers=1), "model.layers: found 1"),
        (lambda document: document["model"].update(vocab_size=10**6), "model.vocab_size: found 1000000"),
        (lambda document: document["tokens"].update(suppress=[10**9]), "tokens: found id 1000000000"),
        (lambda document: document["graphs"].pop("decode"), "graphs: found no decode"),
        (lambda document: document["variant"].update(tp=2), "variant.tp: found 2; accepted: 1"),
        (lambda document: document["variant"].update(target="inf2"), "built for target inf2"),
        (
            lambda document: document["variant"].update(builder="nxd"),
            r"manifest.json: variant.target: found cpu with variant.builder nxd; accepted: inf2, or builder xla$",
        ),
        (
            lambda document: document["graphs"]["decode"].update(executable=document["tables"]),
            r"^\S*tables\S*: XLA:CPU cannot load it \(INVALID_ARGUMENT: [^\n]*\); accepted: a graph built for target",
        ),
        (
            lambda document: document["graphs"]["decode"].update(executable=None, modules=[document["tables"]]),
            r"^\S*tables\S*: XLA:CPU cannot load it \([^\n]*\); accepted: a graph built for target cpu$",
        ),
        (lambda document: parameter(document, "norm.weight").update(shape=[97]), r"weight norm.weight is .*\(97,\)"),
        (
            lambda document: parameter(document, "norm.weight").update(dtype="bfloat16"),
            r"is float32 \(96,\); .* bfloat16",
        ),
        (lambda document: parameter(document, "norm.weight").update(name="nrm"), "weight nrm is missing"),
    ],
)
def test_an_artifact_that_this_host_cannot_run_is_refused(
    artifact: Path, tmp_path: Path, change: Callable[[dict[str, Any]], object], words: str
) -> None:
    with pytest.raises(ServeError, match=words):
        Engine.load(copied(artifact, tmp_path, change))


def parameter(document: dict[str, Any], name: str) -> dict[str, Any]:
    entries: list[dict[str, Any]] = document["graphs"]["decode"]["signature"]["parameters"]
    return next(entry for entry in entries if entry["name"] == name)


def test_a_flipped_bit_of_a_weight_is_refused(artifact: Path, tmp_path: Path) -> None:
    copy = copied(artifact, tmp_path)
    path = copy / Manifest.read(copy).weights[0].path
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.chmod(0o644)
    path.write_bytes(content)
    with pytest.raises(ServeError, match=r"rank0\.safetensors: sha256 is .*; the manifest accepts"):
        Engine.load(copy)
    Engine.load(copy, check_digests=False).close()


def test_the_window_matters_here() -> None:
    # The lengths above mean something only while these hold.
    assert WINDOW == TEXT_CONFIG["sliding_window"] == 12
    assert {kind.split("_")[0] for kind in TEXT_CONFIG["layer_types"][-2:]} == {"sliding", "full"}
