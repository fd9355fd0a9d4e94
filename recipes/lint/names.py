"""Names as data: element types, opcodes and custom-call targets, as XLA and the Neuron documentation write them."""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    """The words of `text`: a table of names reads better in lines than in a column of quotes."""
    return tuple(text.split())


# xla/xla_data.proto, PrimitiveType.
TYPES = dict(
    pair.split(":")
    for pair in words(
        "1:pred 30:s1 26:s2 21:s4 2:s8 3:s16 4:s32 5:s64 31:u1 27:u2 22:u4 6:u8 7:u16 8:u32 9:u64 10:f16 11:f32 "
        "16:bf16 12:f64 19:f8e5m2 28:f8e4m3 20:f8e4m3fn 23:f8e4m3b11fnuz 29:f8e3m4 24:f8e5m2fnuz 25:f8e4m3fnuz "
        "32:f4e2m1fn 33:f8e8m0fnu 15:c64 18:c128 13:tuple 14:opaque 17:token 34:buffer"
    )
)
INTEGERS = frozenset(words("pred s1 s2 s4 s8 s16 s32 s64 u1 u2 u4 u8 u16 u32 u64"))
WIDE_INTEGERS = frozenset(words("s64 u64"))
FLOAT8_FNUZ = words("f8e4m3fnuz f8e4m3b11fnuz f8e5m2fnuz")
# Types of NeuronCore-v2, types that a rule judges, and what has no data.
JUDGED_TYPES = frozenset(
    words("pred s8 s16 s32 s64 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128 f8e4m3fn token opaque") + FLOAT8_FNUZ
)

# neuronx-cc's list of supported operators (release notes), and what AWS's own inf2 libraries emit besides.
LISTED = frozenset(
    words(
        "abs add all-gather all-reduce all-to-all and atan2 batch-norm-grad batch-norm-inference batch-norm-training "
        "bitcast-convert broadcast ceil clamp compare concatenate constant convert cosine custom-call divide dot "
        "dynamic-slice dynamic-update-slice exponential floor gather get-tuple-element iota log logistic maximum "
        "minimum multiply negate not or pad parameter power reduce reduce-scatter reduce-window remainder reshape "
        "reverse rng rng-bit-generator rsqrt scatter select select-and-scatter shift-right-logical sign sine slice "
        "sort sqrt subtract tanh transpose tuple"
    )
)
# Not in the list, and seen in graphs or named by third parties.
MISSING = words("round-nearest-even cbrt tan erf is-finite popcnt count-leading-zeros")
# Interaction with the host.
HOST = words("rng-get-and-update-state infeed outfeed send send-done recv recv-done after-all")
LINEAR_ALGEBRA = words("triangular-solve cholesky fft")
RESIZING = words("set-dimension-size get-dimension-size")
# The list, and opcodes that have a rule of their own; complex, real and imag come with complex types.
KNOWN = LISTED.union(
    words("topk while conditional shift-right-arithmetic convolution complex real imag"),
    *(MISSING, HOST, LINEAR_ALGEBRA, RESIZING),
)
COLLECTIVES = words(
    "all-reduce all-reduce-start all-gather all-gather-start reduce-scatter all-to-all ragged-all-to-all "
    "collective-permute collective-permute-start collective-broadcast"
)

# Custom-call targets in the documentation of EHCA005 and EVRF015.
TARGETS = frozenset(
    words(
        "AwsNeuronErf AwsNeuronGelu AwsNeuronGeluApprxTanh AwsNeuronGeluBackward AwsNeuronSilu AwsNeuronSiluBackward "
        "AwsNeuronRmsNorm AwsNeuronSoftmax AwsNeuronSoftmaxBackward AwsNeuronCollectiveMatmul AwsNeuronIntMatmult "
        "AwsNeuronArgMax AwsNeuronArgMin AwsNeuronTopK AwsNeuronDropoutMaskV1 AwsNeuronCustomNativeKernel "
        "AwsNeuronCustomOp AwsNeuronDevicePrint ResizeNearest ResizeBilinear ResizeNearestGrad "
        "AwsNeuronLNCShardingConstraint AwsNeuronTransferWithStaticRing AwsNeuronModuleMarkerStart-Forward "
        "AwsNeuronModuleMarkerEnd-Forward AwsNeuronModuleMarkerStart-Backward AwsNeuronModuleMarkerEnd-Backward "
        "NeuronBoundaryMarker-Start NeuronBoundaryMarker-End"
    )
)
