"""Every question, in the order of what depends most on its answer; sections are those of the notes on the SDK."""

from __future__ import annotations

from validate.probe.question import Question

TINY = Question(
    "tiny",
    "Does the smallest graph (x + 1) compile, load and run?",
    "11",
    "validate.probe.items.tiny:answer",
    seconds=240,
)

QUESTIONS = (
    Question(
        "aliased-outputs",
        "Does a plain trace return its aliased outputs, or are they stripped, and does the state last between calls?",
        "11.2, 2.2",
        "validate.probe.items.state:aliased_outputs",
        seconds=120,
    ),
    Question(
        "host-writes-copy",
        "Does parameter.copy_() into the state reach the graph, before the first call and between calls?",
        "11.3, 3.6",
        "validate.probe.items.state:write_by_copy",
    ),
    Question(
        "host-writes-data",
        "Does parameter.data.copy_() into the state reach the graph, before the first call and between calls?",
        "11.3, 3.6",
        "validate.probe.items.state:write_by_data",
    ),
    Question(
        "host-writes-replace",
        "Does another parameter in the state's place, put there before the move to the device, reach the graph?",
        "11.3, 3.6",
        "validate.probe.items.state:write_by_replacement",
    ),
    Question(
        "cpu-trace",
        "Does trace(cpu_backend=True) with torch.jit.save work without a driver?",
        "11.1, 2.5",
        "validate.probe.items.hosts:cpu_trace",
        device=False,
    ),
    Question(
        "serve-without-compiler",
        "Does a saved graph load and run where neuronx-cc is neither on PATH nor importable?",
        "11.4, 10.1",
        "validate.probe.items.hosts:serve_without_compiler",
    ),
    Question(
        "driver-version",
        "Does runtime-lib 2.30.51 work with a driver newer than 2.26.10?",
        "11.5, 6.2",
        "validate.probe.items.hosts:driver_version",
        seconds=10,
    ),
    Question(
        "builder-buffers",
        "Is a registered buffer a constant or a weight in ModelBuilder V1?",
        "11.9, 3.2",
        "validate.probe.items.builder:buffers",
        seconds=120,
    ),
    Question(
        "fx-import",
        "Does neuronx_distributed import beside transformers 5, which has no transformers.utils.fx?",
        "11.10",
        "validate.probe.items.hosts:fx_import",
        seconds=120,
        device=False,
    ),
    Question(
        "saved-weights",
        "Does torch.jit.save write weights that were kept out of the NEFF into the archive?",
        "2.1, 8",
        "validate.probe.items.archive:saved_weights",
    ),
    Question(
        "bf16-archive",
        "Does a graph with inlined bfloat16 weights come back from its archive with the same dtype and values?",
        "2.4, prior art 27",
        "validate.probe.items.archive:bf16",
    ),
    Question(
        "neff-compression",
        "Is a NEFF smaller than its weights by compression alone?",
        "4.2",
        "validate.probe.items.archive:compression",
        seconds=120,
        device=False,
    ),
    Question(
        "operator-while", "Does an HLO `while` compile and run?", "11.6, 5.4", "validate.probe.items.operators:loop"
    ),
    Question(
        "operator-conditional",
        "Does an HLO `conditional` compile and run?",
        "11.6, 5.4",
        "validate.probe.items.operators:branch",
    ),
    Question(
        "operator-sort", "Does an HLO `sort` compile and run?", "11.6, 5.4", "validate.probe.items.operators:sort"
    ),
    Question(
        "saturate-infinity",
        "Does --enable-saturate-infinity change a soft-cap, or a softmax under masks of the lowest finite value?",
        "11.7, 4.1",
        "validate.probe.items.numerics:saturate_infinity",
        seconds=120,
    ),
    Question(
        "num-parallel-jobs",
        "Does the compiler accept --num-parallel-jobs?",
        "4.1",
        "validate.probe.items.compiler:num_parallel_jobs",
        device=False,
    ),
    Question(
        "list-operators",
        "Which XLA operators does the compiler name as supported?",
        "5.4",
        "validate.probe.items.compiler:list_operators",
        device=False,
    ),
    Question(
        "host-writes-buffer",
        "Does NxDModel.write_to_neuron_buffer (ModelBuilder V2) reach the graph?",
        "11.3, 3.4",
        "validate.probe.items.builder:write_to_buffer",
        seconds=120,
    ),
    Question(
        "builder-buffers-v2",
        "Is a registered buffer that no graph assigns a constant or a weight in ModelBuilder V2?",
        "11.9, 3.4",
        "validate.probe.items.builder:buffers_v2",
        seconds=120,
    ),
    Question(
        "capacity-providers",
        "Are inf2 instances possible in AWS Batch compute environments and ECS capacity providers?",
        "11.8, 10.2",
        "validate.probe.items.hosts:capacity_providers",
        seconds=10,
        device=False,
    ),
)
