"""The module that the SDK is handed: what it takes, what it gives, and that nothing in it is left to chance."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from ledger.errors import FoundryError
from recipes.neuron.filling import fill, fill_empty
from recipes.neuron.module import StepModule, example, step_module
from serve.manifest import GraphName, Signature
from serve.tensorfile import TensorFile
from tests.build import TEXT_CONFIG
from tests.recipes.neuron.conftest import ReceiptsOf
from tests.recipes.steps import expected, steps


def signature_of(receipts_of: ReceiptsOf, graph: GraphName, **point: Any) -> Signature:
    store, receipts = receipts_of(**point)
    return Signature.model_validate(store.read_json(receipts["lower"].outputs[f"{graph}.signature.json"]))


def filled(receipts_of: ReceiptsOf, graph: GraphName, kv: str, file: Path) -> StepModule:
    module = step_module(TEXT_CONFIG, signature_of(receipts_of, graph), 1, "float32", kv)
    fill(module, file)
    return module


def test_cache_on_the_host_is_the_library(random_model: Any, receipts_of: ReceiptsOf, weight_file: Path) -> None:
    modules = {graph: filled(receipts_of, graph, "host", weight_file) for graph in ("prefill", "decode")}
    signatures = {graph: signature_of(receipts_of, graph) for graph in ("prefill", "decode")}
    state: dict[str, Tensor] = {
        p.name: torch.randn(p.shape) * 50 for p in signatures["prefill"].parameters if p.role == "state"
    }
    for (graph, inputs), wanted in zip(steps(random_model, one_graph=False), expected(random_model), strict=True):
        parameters = signatures[graph].parameters
        given = [inputs[p.name] for p in parameters if p.role == "input"]
        given += [state[p.name] for p in parameters if p.role == "state"]
        logits, *new = modules[graph](*given)
        state = dict(zip([o.name for o in signatures[graph].outputs if o.role == "state"], new, strict=True))
        torch.testing.assert_close(logits, wanted, rtol=0.0, atol=2e-4)


def test_one_graph_with_its_own_state_is_the_library(
    random_model: Any, receipts_of: ReceiptsOf, weight_file: Path
) -> None:
    module = filled(receipts_of, "prefill", "device", weight_file)
    names = [p.name for p in signature_of(receipts_of, "prefill").parameters if p.role == "input"]
    aliases = module.aliases()
    for (_, inputs), wanted in zip(steps(random_model, one_graph=True), expected(random_model), strict=True):
        outputs = module(*(inputs[name] for name in names))
        # What aliasing does on the device: each state takes the place of its output.
        for state, index in aliases.items():
            state.data = outputs[index]
        torch.testing.assert_close(outputs[0], wanted, rtol=0.0, atol=2e-4)


def test_states_are_one_list_in_the_order_of_the_outputs_in_both_graphs(receipts_of: ReceiptsOf) -> None:
    for graph in ("prefill", "decode"):
        signature = signature_of(receipts_of, graph)
        module = step_module(TEXT_CONFIG, signature, 1, "float32", "device")
        named = [name for name, _ in module.named_parameters() if name.startswith("states.")]
        outputs = [output for output in signature.outputs if output.role == "state"]
        assert named == [f"states.{index}" for index in range(len(outputs))]
        assert [tuple(state.shape) for state in module.states] == [output.shape for output in outputs]
        by_identity = {id(state): index for state, index in module.aliases().items()}
        assert [by_identity[id(state)] for state in module.states] == list(range(1, len(outputs) + 1))
        # The lowered module numbers its states otherwise: an order taken from there would swap keys and values.
        assert list(signature.named("state")) != [output.name for output in outputs]


def test_nothing_is_a_buffer_and_layer_scalars_are_the_checkpoints(receipts_of: ReceiptsOf, weight_file: Path) -> None:
    module = filled(receipts_of, "decode", "device", weight_file)
    assert list(module.named_buffers()) == []
    stored = TensorFile(weight_file)
    scalars = [name for name in module.weight_keys if name.endswith("layer_scalar")]
    assert len(scalars) == TEXT_CONFIG["num_hidden_layers"]
    for name in scalars:
        assert module.get_parameter(module.weight_keys[name]).tolist() == stored[name].tolist() != [1.0]
    assert not any(parameter.requires_grad for parameter in module.parameters())


def test_keys_name_every_parameter_once(receipts_of: ReceiptsOf) -> None:
    signature = signature_of(receipts_of, "prefill", tp=2)
    module = step_module(TEXT_CONFIG, signature, 2, "float32", "device")
    parameters = [name for name, _ in module.named_parameters() if not name.startswith("states.")]
    assert sorted(module.weight_keys.values()) == sorted(parameters)
    assert set(module.weight_keys) == set(signature.named("weight"))
    assert module.weight_keys["rank.onehot"] == "step.rank"


@pytest.mark.parametrize("kv", ["host", "device"])
def test_forward_names_its_tensors_and_takes_them_by_name_too(
    receipts_of: ReceiptsOf, weight_file: Path, kv: str
) -> None:
    module = filled(receipts_of, "decode", kv, weight_file)
    parameters = inspect.signature(module.forward).parameters
    assert {one.kind for one in parameters.values()} == {inspect.Parameter.POSITIONAL_OR_KEYWORD}
    tensors = example(signature_of(receipts_of, "decode"), kv)
    assert len(parameters) == len(tensors) == (13 if kv == "host" else 7)
    by_place, by_name = module(*tensors), module(**dict(zip(parameters, tensors, strict=True)))
    assert len(by_place) == 7 and all(map(torch.equal, by_place, by_name))
    with pytest.raises(TypeError):
        module(*tensors[:-1])


def test_another_models_signature_is_refused(receipts_of: ReceiptsOf) -> None:
    signature = signature_of(receipts_of, "decode")
    with pytest.raises(FoundryError, match=r"graph decode: weight layers\.0.* accepted: config.json of the checkpoint"):
        step_module(TEXT_CONFIG | {"intermediate_size": 256}, signature, 1, "float32", "host")


def test_without_weights_nothing_is_written_to_their_memory(receipts_of: ReceiptsOf) -> None:
    module = step_module(TEXT_CONFIG, signature_of(receipts_of, "decode"), 1, "float32", "device")
    fill_empty(module)
    assert {parameter.device.type for parameter in module.parameters()} == {"cpu"}
    assert all(not state.any() for state in module.states)
