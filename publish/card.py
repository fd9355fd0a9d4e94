"""The model card, README.md of a release.

A figure in it comes from a receipt, and stands beside the host it was measured on. What was not measured is not
claimed: a cell that could not run says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from config.geometry import Geometry
from config.models import Release
from config.sources import HubSource, Source
from publish.gate import Admitted
from publish.licence import ACCEPTED, origin
from publish.markdown import table
from publish.use import Published, use

_ABOUT = """\
# {name}

Inference builds that [neff-foundry](#how-it-was-made) made and validated. The folder runs by itself: compiled graphs
(`variants/`), device weights (`weights/`), host tables (`tables/`), tokenizer and chat template, and the code that
runs them (`serve/`).

{origin}

{ran}
"""

_MADE = """\
## How it was made

The text model of transformers is traced with torch-xla, lowered to HLO and compiled; nothing is rewritten by hand.
Parity runs the very folder of a variant in a fresh process, through the code in `serve/`, against greedy answers of
transformers in float32. `variants/*/receipts/` holds what went into each stage, what came out, and the versions of
the tools; `release.json` lists every file with its sha256.
"""

_LIMITS = """\
## Limits

- Text only: the vision and audio parts of the checkpoint are not in this release.
- As many sequences at a time as a variant has slots; prompt and answer together fit in its context.
- Times hold for the host they were measured on and for nothing else.
- Parity says that the build computes what the checkpoint computes. It says nothing of what the checkpoint is good for.
- Not affiliated with, sponsored or endorsed by Google or AWS.
"""

_NOT_RUN = (
    "Nothing in this release ran on Inferentia: every variant is built for a CPU, and every figure below was measured "
    "on one."
)


def card(
    release: Release,
    source: Source,
    fetch: Mapping[str, Any],
    variants: Sequence[Admitted],
    published: Published | None = None,
    geometry: Geometry | None = None,
) -> str:
    """The text of README.md; `fetch` are the facts of the fetch receipt, `published` and `geometry` as for `use`."""
    about = _ABOUT.format(name=release.name, origin=origin(source, fetch["revision"]), ran=_ran(variants))
    sections = (
        _front_matter(source, variants),
        about,
        "## Variants\n\n" + _variants(release, variants),
        "## Use\n\n" + "\n".join(use(release, variants, published, geometry)),
        "## Parity\n\n" + _parity(variants),
        "## Speed\n\n" + _speed(variants),
        "## Hosts\n\n" + _hosts(variants),
        _MADE,
        _LIMITS,
    )
    return "\n".join(sections)


def _ran(variants: Sequence[Admitted]) -> str:
    """What ran where: parity and figures of a variant come from the runtime of its own target."""
    neuron = [variant for variant in variants if variant.manifest.variant.target == "inf2"]
    if not neuron:
        return _NOT_RUN
    names = ", ".join(variant.name for variant in neuron)
    sdk = neuron[0].manifest.neuron
    compiler = sdk.versions.get("neuronx-cc") if sdk else None
    return (
        f"Compiled for Inferentia2 with neuronx-cc {compiler}, and judged and measured there: {names}.\n"
        "The hosts are named beside the figures."
    )


def _front_matter(source: Source, variants: Sequence[Admitted]) -> str:
    targets = sorted({variant.manifest.variant.target for variant in variants})
    head: dict[str, Any] = {"license": ACCEPTED}
    if isinstance(source, HubSource):
        # Of the Hub's four relations, which it would guess otherwise ("finetune"), the one for weights that were not
        # trained further but stored and computed in another form.
        head |= {"base_model": source.repo, "base_model_relation": "quantized"}
    head |= {
        "library_name": "neff-foundry",
        "pipeline_tag": "text-generation",
        "tags": ["gemma4", "neff-foundry", *(f"target-{target}" for target in targets)],
    }
    return f"---\n{yaml.safe_dump(head, sort_keys=False)}---\n"


def _variants(release: Release, variants: Sequence[Admitted]) -> str:
    rows = []
    for variant in variants:
        point = variant.manifest.variant
        latest = " (latest)" if variant.name == release.latest else ""
        shape = (point.kv_max, point.kv_bucket, point.dtype, point.tp, point.batch, "yes" if point.slim else "no")
        rows.append((f"{variant.name}{latest}", *shape, point.target, _digest(variant)))
    head = ("variant", "context", "prefill bucket", "dtype", "tp", "slots", "slim", "target", "sha256 of manifest")
    return table(head, rows)


def _parity(variants: Sequence[Admitted]) -> str:
    rows, exempt = [], []
    for variant in variants:
        facts = variant.receipts["parity"].facts
        heldout = facts["heldout"]
        rows.append(
            (
                variant.name,
                variant.receipts["parity"].verdict,
                facts["prompts"],
                facts["tokens"],
                len(facts["mismatches"]),
                len(facts["exemptions"]),
                f"{100 * facts['agreement']:.3f} %",
                f"{100 * heldout['agreement']:.3f} % of {heldout['tokens']}",
                f"{heldout['logprob_difference']['max']:.1e}",
                "none" if facts["logprob_tolerance"] is None else facts["logprob_tolerance"],
                facts["epsilon"],
            )
        )
        exempt += [(variant.name, *_difference(one)) for one in facts["exemptions"]]
    counted = ("variant", "verdict", "prompts", "tokens", "mismatches", "exemptions", "agreement", "held-out")
    head = (*counted, "log-probabilities off by", "limit", "epsilon")
    return (
        "Greedy tokens against transformers in float32. A float32 variant has no exemption. A bfloat16 variant may "
        "differ only where\nthe oracle's own gap between its first and second choice is under epsilon (logits), which "
        "was declared before the run. Log-probabilities (nats) of held-out text are compared position by position; the "
        f"limit holds for float32.\n\n{table(head, rows)}\n{_exemptions(exempt)}"
    )


def _exemptions(rows: Sequence[tuple[object, ...]]) -> str:
    if not rows:
        return "No exemption was used.\n"
    head = ("variant", "check", "prompt", "position", "expected", "got", "gap")
    return f"Every use of the exemption:\n\n{table(head, rows)}"


def _difference(one: Mapping[str, Any]) -> tuple[object, ...]:
    gap = one["gap"]
    place = (one["check"], f"`{one['prompt']}`", one["position"])
    return (*place, one["expected"], one["got"], "none" if gap is None else f"{gap:.4f}")


def _speed(variants: Sequence[Admitted]) -> str:
    rows = []
    for variant in variants:
        measured, facts = variant.receipts["bench"].measured, variant.receipts["bench"].facts
        times = (measured["ttft_ms"], measured["prefill_tok_s"], measured["decode_tok_s"])
        steps = tuple(measured["step_ms"][key] for key in ("median", "p5", "p95"))
        rows.append((variant.name, facts["prompt_tokens"], *times, *steps, *_beside(measured), _host(variant)))
    head = (
        *("variant", "prompt tokens", "TTFT ms", "prefill tok/s", "decode tok/s", "step ms", "p5", "p95"),
        *("transformers decode tok/s", "x transformers", "measured on"),
    )
    return (
        "Medians; transformers ran in the same minutes on the same host, on the same checkpoint and dtype, in the best "
        f"of its modes.\n\n{table(head, rows)}"
    )


def _beside(measured: Mapping[str, Any]) -> tuple[object, object]:
    best = measured["transformers_best"]
    if best is None:
        reasons = {str(cell["reason"]) for cell in measured["transformers"].values()}
        return f"could not run: {'; '.join(sorted(reasons))}", "-"
    return f"{measured['transformers_decode_tok_s']} ({best})", measured["decode_vs_transformers"]


def _hosts(variants: Sequence[Admitted]) -> str:
    rows = []
    for variant in variants:
        measured, facts = variant.receipts["bench"].measured, variant.receipts["bench"].facts
        sizes = (facts["size_mb"], facts["added_mb"])
        rows.append((variant.name, measured["peak_rss_mb"], *sizes, measured["load_s"], _host(variant)))
    head = ("variant", "RAM MB (peak)", "disk MB", "of these its own", "load s", "measured on")
    return (
        "What a variant needs, as measured: the peak resident memory of the process that loaded and ran it (mapped "
        "files included), and its\nfiles; one set of weights and tables serves every variant of a dtype. Built for "
        "x86-64 Linux: a host whose CPU lacks a\nfeature that the executable was built for compiles the portable "
        f"module when it loads.\n\n{table(head, rows)}"
    )


def _host(variant: Admitted) -> str:
    measured = variant.receipts["bench"].measured
    return f"{measured.get('cpu_model', 'CPU')}, {measured['threads']} of {measured['cpus']} cores"


def _digest(variant: Admitted) -> str:
    return f"`{variant.receipts['parity'].facts['artifact'][:16]}`"
