"""python -m tests.ledger.kills SCENARIO FOLDER: run a scenario again and again, killed one line later each time.

The work runs in a forked child whose trace function counts the lines it runs in ledger/ and, before line n, sends
itself a SIGKILL: no handler, no `finally`. n goes up until a child comes through alive. FOLDER/n is what the
kill before line n leaves behind. This is a process of its own because a fork of a small process is fast and safe,
whatever libraries and threads the test session has.
"""

import itertools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import ledger
from ledger.atomic import replacing_folder, write_text
from ledger.receipts import Receipt
from ledger.store import Ref, Store

LEDGER = str(Path(ledger.__file__).parent)
CONTENT = bytes(range(256)) * 64
KEY = "ab" * 32
Step = Callable[[Path], object]


def receipt(outputs: dict[str, Ref]) -> Receipt:
    return Receipt(
        stage="lower",
        key=KEY,
        recipe={},
        inputs={},
        outputs=outputs,
        facts={},
        measured={},
        toolchain={},
        source="",
        verdict="done",
    )


def fill(folder: Path, text: str) -> None:
    (folder / "deep").mkdir(parents=True, exist_ok=True)
    for name in ("one", "deep/two"):
        (folder / name).write_text(text)


def prepare_source(root: Path) -> None:
    (root / "source").write_bytes(CONTENT)


def put_file(root: Path) -> None:
    Store(root / "store").put_file(root / "source")


def stream(root: Path) -> None:
    with Store(root / "store").writer() as file:
        file.write(CONTENT[:100])
        file.write(CONTENT[100:])


def record(root: Path) -> None:
    store = Store(root / "store")
    store.record_action(receipt({"a": store.put_bytes(CONTENT)}))


def link(root: Path) -> None:
    store = Store(root / "store")
    store.link(store.put_bytes(b"new"), root / "build/file")


def prepare_link(root: Path) -> None:
    store = Store(root / "store")
    store.link(store.put_bytes(b"old"), root / "build/file")
    store.put_bytes(b"new")


def replace_folder(root: Path) -> None:
    with replacing_folder(root / "release") as beside:
        fill(beside, "new")


# What is there before, and what is killed.
SCENARIOS: dict[str, tuple[Step, Step]] = {
    "put_file": (prepare_source, put_file),
    "stream": (lambda root: None, stream),
    "record": (lambda root: Store(root / "store").record_action(receipt({})), record),
    "link": (prepare_link, link),
    "replace_file": (
        lambda root: write_text(root / "file", "old" * 1000),
        lambda root: write_text(root / "file", "new" * 1000),
    ),
    "replace_folder": (lambda root: fill(root / "release", "old"), replace_folder),
}


def run_until(line: int, work: Step, root: Path) -> NoReturn:
    """Run `work`, killed before that line of the ledger; the exit code is 0 if it comes to its end."""
    left = line

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if not frame.f_code.co_filename.startswith(LEDGER):
            return None
        if event == "line":
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
        return trace

    code = 1
    try:
        sys.settrace(trace)
        work(root)
        code = 0
    finally:
        os._exit(code)


def main(scenario: str, folder: Path) -> int:
    # A killed process loses nothing of what it gave to the kernel, so flushing would only be slow.
    os.fsync = lambda fd: None
    prepare, work = SCENARIOS[scenario]
    for line in itertools.count():
        root = folder / str(line)
        root.mkdir(parents=True)
        prepare(root)
        child = os.fork()
        if child == 0:
            run_until(line, work, root)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code != -signal.SIGKILL:
            return code
    raise AssertionError("unreachable")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
