"""neuronx-cc's command line: what it knows, and how it refuses the rest (section 4.1, code EARG in 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

# Option to its accepted values; () takes any value, None takes none.
OPTIONS: dict[str, tuple[str, ...] | None] = {
    "--framework": ("XLA",),
    "--target": ("inf2", "trn1", "trn1n", "trn2"),
    "--output": (),
    "--model-type": ("generic", "transformer", "transformer-inference", "unet-inference"),
    "--auto-cast": ("none", "matmult", "all"),
    "--auto-cast-type": ("bf16", "fp16", "tf32", "fp8_e4m3"),
    "--optlevel": ("1", "2", "3"),
    "--enable-mixed-precision-accumulation": None,
    "--disable-mixed-precision-accumulation": None,
    "--enable-saturate-infinity": None,
    "--enable-fast-loading-neuron-binaries": None,
    "--enable-fast-context-switch": None,
    "--enable-internal-neff-wrapper": None,
    "--logical-nc-config": ("1", "2"),
    "--lnc": ("1", "2"),
    "--distribution-strategy": ("llm-training",),
    "--logfile": (),
    "--verbose": (),
    "--disable-dge": None,
    "--tensorizer-options": (),
    "--internal-hlo2tensorizer-options": (),
    "--internal-backend-options": (),
    "--internal-enable-dge-levels": (),
    "--hbm-scratchpad-page-size": (),
    "--internal-disable-fma-on-ios": None,
    "--recursive-layer-det": (),
    "--experimental-unsafe-fp8e4m3fn-as-fp8e4m3": None,
}
_SHORT = {"-O1": "1", "-O2": "2", "-O3": "3"}


class RefusalError(Exception):
    """A diagnosed error: its text is printed, the exit code is 70."""


@dataclass(frozen=True)
class Arguments:
    """A parsed `compile` command."""

    model: Path
    options: dict[str, str]
    flags: tuple[str, ...]


def parse(words: Sequence[str]) -> Arguments:
    """The words after `compile`; RefusalError for what the compiler does not know."""
    options: dict[str, str] = {}
    models: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("-"):
            models.append(word)
            continue
        name, equals, value = word.partition("=")
        if word in _SHORT or name == "-O":
            name, value, equals = "--optlevel", _SHORT.get(word) or value or (rest.pop(0) if rest else ""), "="
        name = {"-o": "--output", "-lnc": "--lnc"}.get(name, name)
        if name not in OPTIONS:
            raise RefusalError(f"[NCC_EARG002] Unrecognized argument: {word}")
        accepted = OPTIONS[name]
        if accepted is None:
            if equals:
                raise RefusalError(f"[NCC_EARG002] {name} takes no value, got {value!r}")
            options[name] = ""
            continue
        if not equals:
            if not rest:
                raise RefusalError(f"[NCC_EARG002] {name} needs a value")
            value = rest.pop(0)
        if accepted and value not in accepted:
            raise RefusalError(f"[NCC_EARG002] {name}: invalid choice {value!r} (choose from {', '.join(accepted)})")
        options[name] = value
    return _complete(models, options, tuple(words))


def _complete(models: list[str], options: dict[str, str], words: tuple[str, ...]) -> Arguments:
    if len(models) != 1:
        raise RefusalError(f"[NCC_EARG002] one model file or directory is needed, got {models}")
    for needed in ("--framework", "--target"):
        if needed not in options:
            raise RefusalError(f"[NCC_EARG002] the following argument is required: {needed}")
    lnc = options.get("--logical-nc-config", options.get("--lnc", "1"))
    if lnc != "1" and options["--target"] != "trn2":
        raise RefusalError(f"[NCC_EARG001] logical-nc-config {lnc} is not supported on {options['--target']}")
    return Arguments(Path(models[0]), options, words)
