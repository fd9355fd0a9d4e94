"""One build, in the process that does nothing else.

    python -m recipes.neuron.build JOB.json        writes BUILT beside it

The SDK is imported here and nowhere else in the foundry. Processes that it spawns import this module again before they
unpickle anything of neuronx_distributed, so the stub goes in at the top and the work behind the guard.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from ledger.atomic import write_text
from ledger.errors import run_cli
from serve.runtime.neuron.environment import stand_for_fx

stand_for_fx(sys.modules)

BUILT = "built.json"


def main(argv: Sequence[str] | None = None) -> int:
    """Build what the job asks for; errors of the SDK propagate with their traceback."""
    (name,) = sys.argv[1:] if argv is None else argv
    from recipes.neuron import nxd_builder, parallel_builder, trace_builder
    from recipes.neuron.job import BuildJob

    path = Path(name)
    job = BuildJob.read(path)
    if job.builder == "trace":
        built = trace_builder.build(job)
    elif job.builder == "nxd":
        built = nxd_builder.build(job)
    else:
        built = parallel_builder.build(job, path)
    write_text(job.work / BUILT, built.model_dump_json())
    return 0


if __name__ == "__main__":
    run_cli(main)
