"""The process that the artifact is compared with: transformers' `generate` on the same checkpoint and dtype.

    python -m validate.bench.transformers_worker CHECKPOINT DTYPE THREADS

A request holds `prompts` of one length, the number of `steps`, and names one of MODES. Nothing is compiled, as
`generate` compiles for accelerators only.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from validate.bench.lines import Handler, Request, Tick, answer, pin

MODULE = "validate.bench.transformers_worker"

MODES: dict[str, tuple[str, str | None]] = {
    "eager": ("eager", None),
    "sdpa": ("sdpa", None),
    "static": ("sdpa", "static"),
}
"""Name -> attention implementation and cache implementation (None: the library's dynamic cache)."""


class _Ticker:
    """A streamer: `generate` hands it the prompts, then the tokens of every step."""

    def __init__(self, tick: Tick) -> None:
        self._tick = tick
        self._prompt_seen = False

    def put(self, _: Any) -> None:
        if self._prompt_seen:
            self._tick()
        self._prompt_seen = True

    def end(self) -> None:
        pass


def load(folder: Path, dtype: str, threads: int) -> Handler:
    """Load the checkpoint and give the handler of requests: greedy, no stop ids."""
    # transformers imports torch-xla where it is installed; nothing here runs on it.
    os.environ["USE_TORCH_XLA"] = "0"
    import torch
    from transformers import AutoModelForMultimodalLM

    torch.set_num_threads(threads)
    model = AutoModelForMultimodalLM.from_pretrained(folder, dtype=getattr(torch, dtype), local_files_only=True).eval()
    # In the model's own settings, as `generate` takes values that a call leaves out from here.
    model.generation_config.update(do_sample=False, temperature=None, top_k=None, top_p=None)
    model.generation_config.eos_token_id = None

    def handle(request: Request, tick: Tick) -> None:
        attention, cache = MODES[request["mode"]]
        model.set_attn_implementation(attention)
        prompts = torch.tensor(request["prompts"])
        with torch.inference_mode():
            model.generate(
                input_ids=prompts,
                attention_mask=torch.ones_like(prompts),
                max_new_tokens=request["steps"],
                streamer=_Ticker(tick),
                cache_implementation=cache,
            )

    return handle


if __name__ == "__main__":
    granted = pin(int(sys.argv[3]))
    answer(lambda: load(Path(sys.argv[1]), sys.argv[2], granted))
