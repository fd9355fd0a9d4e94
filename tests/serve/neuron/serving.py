"""A server's engine in a process of its own, as in the image: python -m tests.serve.neuron.serving ARTIFACT < job.json

The job is {"prompts": [ids, ...], "count": n}; its last line is {"answers": [ids, ...], "modules": [names, ...]}.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from serve.engine import Engine
from serve.errors import ServeError


def served(
    artifact: Path, prompts: list[list[int]], host: Mapping[str, str], count: int = 99
) -> subprocess.CompletedProcess[str]:
    """Answer `prompts`, all submitted at once, in a fresh process on that host."""
    return subprocess.run(
        [sys.executable, "-m", "tests.serve.neuron.serving", str(artifact)],
        input=json.dumps({"prompts": prompts, "count": count}),
        env=dict(host),
        capture_output=True,
        text=True,
        check=False,
    )


def answers(artifact: Path, prompts: list[list[int]], host: Mapping[str, str], count: int = 99) -> list[list[int]]:
    """The tokens of `served`, which must succeed."""
    done = served(artifact, prompts, host, count)
    assert done.returncode == 0, done.stderr
    found: list[list[int]] = json.loads(done.stdout.splitlines()[-1])["answers"]
    return found


def main() -> int:
    """Serve one job; a ServeError is printed and exits with its code."""
    task: dict[str, Any] = json.load(sys.stdin)
    try:
        engine = Engine.load(Path(sys.argv[1]))
        requests = [engine.submit(ids, max_new=task["count"], stop_ids=frozenset()) for ids in task["prompts"]]
        while engine.step():
            pass
        engine.close()
    except ServeError as error:
        sys.stderr.write(f"ServeError: {error}\n")
        return error.exit_code
    found = [[token.id for token in request.made] for request in requests]
    sys.stdout.write(json.dumps({"answers": found, "modules": sorted(sys.modules)}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
