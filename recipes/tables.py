"""Stage tables: the embedding tables that stay on the host, in the checkpoint's own bfloat16."""

from __future__ import annotations

from typing import IO, cast

from pydantic import BaseModel, ConfigDict

from ledger.errors import BadInput, run_cli
from ledger.stage import Job, Outcome, run_stage
from recipes.checkpoint import TEXT_PREFIX, opened
from recipes.tensorwriter import write_tensors
from serve.manifest import Parameter
from serve.tables import PER_LAYER, TOKENS


class TablesRecipe(BaseModel):
    """Tables depend on the checkpoint alone."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def work(job: Job[TablesRecipe]) -> Outcome:
    """Write the token table [V, H] and, where the model has one, the per-layer table [V, L * P]."""
    with opened(job.inputs["fetch"], job.store) as checkpoint:
        config = checkpoint.config["text_config"]
        shapes = {TOKENS: (config["vocab_size"], config["hidden_size"])}
        if width := config.get("hidden_size_per_layer_input"):
            shapes[PER_LAYER] = (config["vocab_size_per_layer_input"], config["num_hidden_layers"] * width)
        tables = []
        for name, shape in shapes.items():
            found = checkpoint.tensor(TEXT_PREFIX + name)
            if (str(found.dtype), found.shape) != ("bfloat16", shape):
                raise BadInput(
                    f"checkpoint key {TEXT_PREFIX}{name} is {found.dtype} {found.shape}; accepted: bfloat16 {shape}"
                )
            tables.append(Parameter(name=name, role="weight", shape=shape, dtype="bfloat16"))
        with job.store.writer() as file:
            write_tensors(cast("IO[bytes]", file), tables, lambda table: checkpoint.tensor(TEXT_PREFIX + table.name))
    return Outcome(outputs={"tables.safetensors": file.ref})


def main() -> int:
    """The stage."""
    return run_stage("tables", TablesRecipe, work, modules=("recipes.tables",), packages=("numpy", "ml_dtypes"))


if __name__ == "__main__":
    run_cli(main)
