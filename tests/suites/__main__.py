"""Run the suites of envs/suites.in against a server: python -m tests.suites --tools .venv/suites/bin [NAME ...]

The server has the scripted model, whose every answer is known, unless --url names another one and --files the folder of
its tokenizer; then the scores of lm-eval need only be there. Exit code 1 when a suite fails.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.serve.http.process import server
from tests.serve.http.scripted import write_text

TASKS = "tests/suites/tasks"
REQUESTS = 100
"""Requests of guidellm."""
PROMPTS = ("The weather in Paris is fine", "Return the number of items in the list")


@dataclass(frozen=True, slots=True)
class Target:
    """A server, its model's name, the folder of its tokenizer, and whether its answers are known."""

    url: str
    model: str
    files: Path
    known: bool


class Failed(Exception):  # noqa: N818 - a verdict
    """A suite did not pass; `str()` says why."""


Run = Callable[[str, Sequence[str]], None]
"""Runs a tool with arguments; Failed when it exits with another code than 0."""


def openai(run: Run, target: Target, made: Path, seconds: int) -> None:
    """OpenAI's own client."""
    run("python", ["tests/suites/openai_client.py", f"{target.url}/v1"])


def schemathesis(run: Run, target: Target, made: Path, seconds: int) -> None:
    """Every operation of the OpenAPI document with data that it allows and data that it does not."""
    only = ["--exclude-checks", "positive_data_acceptance"]  # see tests/suites/hooks.py
    run("st", ["run", f"{target.url}/openapi.json", "--max-time", str(seconds), "--continue-on-failure", *only])


def lm_eval(run: Run, target: Target, made: Path, seconds: int) -> None:
    """Log-likelihoods and generation over completions, generation over chats."""
    tokenizer = f"tokenizer_backend=huggingface,tokenizer={target.files},tokenized_requests=False,max_length=128"
    completions = f"base_url={target.url}/v1/completions,{tokenizer}"
    _evaluate(run, target, made / "completions", "local-completions", completions, "foundry_choice,foundry_says")
    found = {task: values for path in made.rglob("results_*.json") for task, values in _scores(path).items()}
    for task, metric in (("foundry_choice", "acc,none"), ("foundry_says", "exact_match,none")):
        score = found[task][metric]
        if not (score == 1.0 if target.known else 0.0 <= score <= 1.0):
            raise Failed(f"{task}: {metric} is {score}; 1.0 is right for the scripted model")
    chats = f"base_url={target.url}/v1/chat/completions"
    _evaluate(run, target, made / "chat", "local-chat-completions", chats, "foundry_says", "--apply_chat_template")


def guidellm(run: Run, target: Target, made: Path, seconds: int) -> None:
    """Streams of four users; no request may fail."""
    rows = (json.dumps({"prompt": prompt, "output_tokens_count": 16}) for prompt in PROMPTS * (REQUESTS // 2))
    (made / "prompts.jsonl").write_text("\n".join(rows) + "\n")
    settings = {
        "--backend": f"kind=openai_http,target={target.url},model={target.model}",
        "--profile": "kind=concurrent,streams=4",
        "--constraint": f"kind=max_requests,count={REQUESTS}",
        "--tokenizer": f"kind=huggingface_auto,model={target.files}",
        "--data": f"kind=json_file,path={made / 'prompts.jsonl'}",
        "--output": f"kind=json,path={made / 'guidellm.json'}",
    }
    run("guidellm", ["run", "--disable-progress", *(word for pair in settings.items() for word in pair)])
    totals = json.loads((made / "guidellm.json").read_bytes())["benchmarks"][0]["metrics"]["request_totals"]
    if totals["successful"] != REQUESTS or totals["errored"]:
        raise Failed(f"of {REQUESTS} requests {totals['successful']} succeeded and {totals['errored']} failed")


SUITES = {one.__name__: one for one in (openai, schemathesis, lm_eval, guidellm)}


def main() -> int:
    """Run what was asked for; 1 when something failed."""
    parser = argparse.ArgumentParser("python -m tests.suites")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(SUITES)}; all when none is given")
    parser.add_argument("--tools", type=Path, required=True, help="folder with the suites' programs")
    parser.add_argument("--url", help="a server that runs already; one with the scripted model is started otherwise")
    parser.add_argument("--files", type=Path, help="with --url: folder with the tokenizer's files")
    parser.add_argument("--seconds", type=int, default=60, help="time for schemathesis")
    flags = parser.parse_args()
    if unknown := [name for name in flags.names if name not in SUITES]:
        parser.error(f"found {unknown[0]!r}; accepted: {', '.join(SUITES)}")
    if (flags.url is None) != (flags.files is None):
        parser.error("--url and --files go together")
    failed = 0
    with tempfile.TemporaryDirectory() as name, _target(flags.url, flags.files, Path(name)) as target:
        for suite in flags.names or SUITES:
            made = Path(name) / suite
            made.mkdir()
            try:
                SUITES[suite](_runner(flags.tools, made), target, made, flags.seconds)
                sys.stdout.write(f"passed: {suite}\n")
            except Failed as error:
                failed += 1
                sys.stdout.write(f"FAILED: {suite}: {error}\n")
    return 1 if failed else 0


@contextmanager
def _target(url: str | None, files: Path | None, made: Path) -> Iterator[Target]:
    if url is not None and files is not None:
        with urllib.request.urlopen(f"{url}/v1/models", timeout=30) as response:
            yield Target(url, json.load(response)["data"][0]["id"], files, known=False)
        return
    folder = made / "scripted"
    folder.mkdir()
    write_text(folder)
    with server(folder, "--queue", "200") as running:
        yield Target(running.url, "fake", folder, known=True)


def _runner(tools: Path, made: Path) -> Run:
    path = f"{Path.cwd()}:{os.environ.get('PYTHONPATH', '')}"
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(made / "datasets")}
    environment = os.environ | offline | {"PYTHONPATH": path, "SCHEMATHESIS_HOOKS": "tests.suites.hooks"}

    def run(tool: str, arguments: Sequence[str]) -> None:
        done = subprocess.run([tools / tool, *arguments], env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(f"{tool} ended with {done.returncode}\n{done.stdout[-6000:]}{done.stderr[-3000:]}")

    return run


def _evaluate(run: Run, target: Target, made: Path, kind: str, arguments: str, tasks: str, *more: str) -> None:
    model = f"model={target.model},num_concurrent=2,{arguments}"
    words = ["--model", kind, "--model_args", model, "--include_path", TASKS, "--tasks", tasks]
    run("lm_eval", [*words, "--output_path", str(made), *more])


def _scores(path: Path) -> dict[str, dict[str, float]]:
    results: dict[str, dict[str, float]] = json.loads(path.read_bytes())["results"]
    return results


if __name__ == "__main__":
    sys.exit(main())
