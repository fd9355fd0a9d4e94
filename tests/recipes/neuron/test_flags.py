"""Compiler flags by dtype."""

from __future__ import annotations

from recipes.neuron.flags import compiler_flags


def test_bfloat16_is_cast_as_published_builds_were_and_float32_is_not_cast() -> None:
    words = {dtype: compiler_flags(dtype) for dtype in ("bfloat16", "float32")}
    assert "--auto-cast all --auto-cast-type bf16" in words["bfloat16"]
    assert "--auto-cast=none" in words["float32"] and "bf16" not in words["float32"]
    # Without a level of its own ModelBuilder adds -O1; without a target the compiler looks for the host's device.
    assert all("--target inf2" in one and "-O2" in one and "--model-type transformer" in one for one in words.values())


def test_what_a_variant_adds_comes_last_and_its_level_replaces_the_usual_one() -> None:
    assert compiler_flags("float32", ["--lnc=1"]) == f"{compiler_flags('float32')} --lnc=1"
    assert compiler_flags("float32", ["-O1"]).split()[-1] == "-O1"
    assert "-O2" not in compiler_flags("float32", ["--optlevel=1"])
