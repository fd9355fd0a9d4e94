"""What the compiler refuses in an HLO module for inf2, with its codes (sections 4.2, 4.3, 5.3, 5.4 class error)."""

from __future__ import annotations

from collections.abc import Iterator

from neuron_standin.hlo import Instruction, Module


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


UNSUPPORTED = {"topk", "triangular-solve", "cholesky", "fft", "eigh"}
HOST = {"rng-get-and-update-state", "infeed", "outfeed", "send", "recv", "after-all"}
RESIZING = {"set-dimension-size", "get-dimension-size"}
DTYPES = {
    "float64": "NCC_ESPP004",
    "complex64": "NCC_EVRF004",
    "complex128": "NCC_EVRF004",
    "float8_e4m3fn": "NCC_EVRF051",
    "float8_e4m3fnuz": "NCC_EVRF005",
    "float8_e4m3b11fnuz": "NCC_EVRF005",
    "float8_e5m2fnuz": "NCC_EVRF005",
}
TARGETS = frozenset(
    _words(
        "AwsNeuronErf AwsNeuronGelu AwsNeuronGeluApprxTanh AwsNeuronGeluBackward AwsNeuronSilu AwsNeuronSiluBackward "
        "AwsNeuronRmsNorm AwsNeuronSoftmax AwsNeuronSoftmaxBackward AwsNeuronCollectiveMatmul AwsNeuronIntMatmult "
        "AwsNeuronArgMax AwsNeuronArgMin AwsNeuronTopK AwsNeuronDropoutMaskV1 AwsNeuronCustomNativeKernel "
        "AwsNeuronCustomOp AwsNeuronDevicePrint ResizeNearest ResizeBilinear ResizeNearestGrad "
        "AwsNeuronLNCShardingConstraint AwsNeuronTransferWithStaticRing AwsNeuronModuleMarkerStart-Forward "
        "AwsNeuronModuleMarkerEnd-Forward AwsNeuronModuleMarkerStart-Backward AwsNeuronModuleMarkerEnd-Backward "
        "NeuronBoundaryMarker-Start NeuronBoundaryMarker-End"
    )
)
# Printed by `neuronx-cc list-operators` (section 5.1, with what section 5.2 saw accepted).
LISTED = _words(
    "Abs Add AllGather AllReduce AllToAll And Atan2 BatchNormGrad BatchNormInference BatchNormTraining BitcastConvert "
    "Broadcast Ceil Clamp Compare Concatenate Constant Convert Cos CustomCall Divide Dot DynamicSlice "
    "DynamicUpdateSlice Exp Floor Gather GetTupleElement Iota Log Logistic Maximum Minimum Multiply Negate Not Or Pad "
    "Parameter Power Reduce ReduceScatter ReduceWindow Remainder Reshape Reverse Rng RngBitGenerator Rsqrt Scatter "
    "Select SelectAndScatter ShiftRightLogical Sign Sin Slice Sort Sqrt Subtract Tanh Transpose Tuple"
)
LARGEST_ID = 2**31 - 1


def _judge(one: Instruction) -> Iterator[str]:
    """The compiler's sentences about an instruction."""
    if one.opcode in UNSUPPORTED | HOST:
        yield f"[NCC_EVRF001] Operator {one.opcode} is not supported"
    if one.opcode == "custom-call" and one.target not in TARGETS:
        yield f"[NCC_EHCA005] Unrecognized custom call target '{one.target}'"
    if one.dynamic or one.opcode in RESIZING:
        yield "[NCC_EMOD025] Dynamic shapes are not supported"
    if one.dtype in DTYPES:
        yield f"[{DTYPES[one.dtype]}] Unsupported data type {one.dtype} of {one.opcode}"
    if one.opcode == "dot" and one.dtype in {"int64", "uint64"}:
        yield f"[NCC_EVRF035] Integer dot of {one.dtype} is not supported"
    if one.opcode == "shift-right-arithmetic" and not one.dtype.endswith("32"):
        yield f"[NCC_EVRF022] Arithmetic right shift of {one.dtype}, which is not 32-bit"


def refusals(module: Module) -> Iterator[str]:
    """Every refusal, in the module's order."""
    return (f"{text} ({one.name})" for one in module.instructions() for text in _judge(one))


def aborts(module: Module) -> bool:
    """Whether the compiler dies of instruction ids beyond 31 bits, as a current jaxlib writes them."""
    return any(one.id > LARGEST_ID for one in module.instructions())
