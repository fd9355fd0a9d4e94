"""Flags of neuronx-cc for a variant (SDK documentation, compiler/neuronx-cc/api-reference-guide).

    --target inf2             named, as the build host is no Inferentia2 instance
    --model-type transformer  as every published build of this model
    --auto-cast all           bfloat16 variants, to bf16: what published E2B builds ran, their tokens equal to a CPU's
    --auto-cast=none          float32 variants: casts would make them something else than float32
    -O2                       the compiler's default, and so what published builds ran; said aloud because ModelBuilder
                              adds -O1 where no level is given. If a graph has too many instructions, -O1 is what helps

Not given: --enable-saturate-infinity (ModelBuilder's own default has it), as masks hold finite numbers only and one
port suspects it of spoiling tanh; collective tilings of larger libraries, one of which crashed a compiler on inf2.
"""

from __future__ import annotations

from collections.abc import Sequence

_COMMON = "--target inf2 --model-type transformer"
# With an equals sign where ModelBuilder looks for these very letters and warns when it misses them.
_CASTS = {"bfloat16": "--auto-cast all --auto-cast-type bf16", "float32": "--auto-cast=none"}


def compiler_flags(dtype: str, more: Sequence[str] = ()) -> str:
    """The flags of every graph of a variant of that dtype, as one string; a level among `more` replaces -O2."""
    level = [] if any(flag.startswith(("-O", "--optlevel")) for flag in more) else ["-O2"]
    return " ".join([_COMMON, _CASTS[dtype], *level, *more])
