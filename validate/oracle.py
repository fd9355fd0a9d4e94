"""Stage `oracle`: greedy answers of the reference implementation, with the gap of every choice.

Also `python -m validate.oracle --checkpoint DIR --prompts FILE --out FILE`: the same without a store, for parity on
anyone's own prompts, in a process of its own, as the process under test must stay free of torch.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from config.reference import reference_path
from ledger.atomic import write_json
from ledger.digest import parse_json
from ledger.errors import run_cli
from ledger.flags import Parser
from ledger.stage import Job, Outcome, run_stage, say
from validate.oracle_checks import quality, reproduce, self_check
from validate.records import Answer, Heldout, HeldoutAnswer, Oracle, Prompt, PromptSet, read_record

if TYPE_CHECKING:
    from validate.oracle_model import OracleModel

Say = Callable[[str], None]


class Recipe(BaseModel):
    """`reference`: name of public vectors in config/reference that must come out first, or null."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    reference: str | None = None


def consult(
    folder: Path, asked: PromptSet, *, threads: int, reference: Mapping[str, Any] | None = None, say: Say
) -> tuple[Oracle, list[str]]:
    """The oracle's record for `asked`, and the sentences of the checks it failed (then it must not judge).

    Raises BadInput when the checkpoint in `folder` does not fit the model.
    """
    # transformers imports torch-xla where it is installed: seconds, and a second runtime in the oracle's process.
    os.environ["USE_TORCH_XLA"] = "0"
    from validate.oracle_model import OracleModel

    model = OracleModel(folder, threads=threads)
    facts: dict[str, Any] = {}
    failed: list[str] = []
    if reference is not None:
        facts["reference"], failed = reproduce(model, reference, bos=model.bos)
    if failed:
        return Oracle(library=_library(), answers=(), facts=facts), failed
    answers = []
    for number, prompt in enumerate(asked.prompts, 1):
        answers.append(_answer(model, prompt))
        if number % 16 == 0 or number == len(asked.prompts):
            say(f"oracle: {number} of {len(asked.prompts)} prompts answered")
    facts["self_check"], failed = self_check(model, answers)
    facts["quality"], flat = quality(answers)
    heldout = tuple(_heldout(model, window) for window in asked.heldout)
    return Oracle(library=_library(), answers=tuple(answers), heldout=heldout, facts=facts), [*failed, *flat]


def _answer(model: OracleModel, prompt: Prompt) -> Answer:
    made = model.generate(prompt.ids, max_new=prompt.max_new, stop=prompt.stop)
    return Answer(
        name=prompt.name,
        ids=prompt.ids,
        max_new=prompt.max_new,
        stop=prompt.stop,
        tokens=tuple(made.tokens),
        gaps=tuple(made.gaps),
        tops=tuple(made.tops),
    )


def _heldout(model: OracleModel, window: Heldout) -> HeldoutAnswer:
    picks, logprobs = model.scored(window.ids)
    return HeldoutAnswer(
        name=window.name,
        ids=window.ids,
        tokens=tuple(picks.tokens),
        gaps=tuple(picks.gaps),
        logprobs=tuple(logprobs),
    )


def _library() -> str:
    return f"transformers {version('transformers')}, torch {version('torch')}, float32"


def work(job: Job[Recipe], threads: int) -> Outcome:
    """The stage: fetched checkpoint and prompt set in, `oracle.json` out; failed when a check of the oracle fails."""
    asked = PromptSet.model_validate(job.store.read_json(job.inputs["prompts"].outputs["prompts.json"]))
    name = job.recipe.reference
    path = reference_path(name) if name else None
    reference = parse_json(path.read_bytes(), str(path)) if path else None
    with tempfile.TemporaryDirectory() as folder:
        job.store.lay_out(job.inputs["fetch"].outputs, Path(folder), verify=True)
        record, failed = consult(Path(folder), asked, threads=threads, reference=reference, say=say)
    return Outcome(
        outputs={"oracle.json": job.store.put_json(record.model_dump(mode="json"))},
        facts=record.facts | record.model_dump(include={"library"}),
        measured={"threads": threads},
        verdict="failed" if failed else "passed",
        message="\n".join(failed[:10]),
    )


def _standalone(flags: argparse.Namespace) -> int:
    asked = read_record(flags.prompts, PromptSet)
    record, failed = consult(flags.checkpoint, asked, threads=flags.threads, say=say)
    write_json(flags.out, record.model_dump(mode="json"))
    sys.stderr.writelines(f"error: {sentence}\n" for sentence in failed[:10])
    return 1 if failed else 0


def main() -> int:
    """`python -m validate.oracle`: on its own where --checkpoint is given, else a stage."""
    alone = any(flag.split("=")[0] == "--checkpoint" for flag in sys.argv[1:])
    parser = Parser("oracle", "Greedy answers of a checkpoint folder, with the gap of every choice.", add_help=alone)
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="threads of torch, default 2")
    if alone:
        parser.add_argument("--checkpoint", required=True, type=Path, metavar="DIR", help="official layout")
        parser.add_argument("--prompts", required=True, type=Path, metavar="FILE", help="a prompt set, JSON")
        parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="where the answers go")
        return _standalone(parser.parse_args())
    flags, rest = parser.parse_known_args()
    return run_stage(
        "oracle",
        Recipe,
        lambda job: work(job, flags.threads),
        modules=("validate.oracle",),
        packages=("transformers", "torch", "tokenizers", "safetensors"),
        argv=rest,
    )


if __name__ == "__main__":
    run_cli(main)
