"""Measure the server on real artifacts and say which figures stand.

    python -m validate.bench.serve ARTIFACT [ARTIFACT of several slots] --out results/serve/summary.json

Every comparison is made in one run, side by side, as a machine's speed drifts from hour to hour. Exit code 1 when a
figure misses its threshold; the summary is written all the same.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from ledger.atomic import write_json
from ledger.errors import BadInput, run_cli
from ledger.flags import CACHE, Parser, add_store, check_file, whole
from ledger.receipts import Receipt
from ledger.stage import say
from ledger.store import Store, open_store
from serve.engine import Engine
from serve.errors import ServeError
from validate.bench.machine import machine
from validate.bench.serve import beside, decode, judge, overload, served

STREAMS = 8
QUEUE = 16
"""Places in the queue under overload."""
NEW = 256
"""Tokens of an answer, where the context holds them."""
PROMPT = 32


def prompts(engine: Engine, chooser: random.Random) -> Callable[[], list[int]]:
    """Deals prompts: BOS and ids of text, any of them."""
    tokens = engine.manifest.tokens
    vocabulary = engine.manifest.model.vocab_size
    plain = range(vocabulary // 4, vocabulary // 2)
    length = min(PROMPT, engine.kv_max // 4)
    return lambda: [tokens.bos, *chooser.choices(plain, k=length - 1)]


def decoding(narrow: Path, wide: Path, rounds: int) -> dict[str, Any]:
    """The engine alone and through HTTP: one stream, all slots of `wide`, and eight streams."""
    found: dict[str, Any] = {}
    for folder in dict.fromkeys((narrow, wide)):
        engine = Engine.load(folder)
        deal, new = prompts(engine, random.Random(0)), _room(engine)
        try:
            with served.artifact(folder) as server:
                cases = {"one": (folder == narrow, 1), "slots": (folder == wide, engine.slots)}
                cases["eight"] = (folder == wide, STREAMS)
                for name, (asked, streams) in cases.items():
                    if asked:
                        found[name] = decode.compare(engine, server.url, deal, streams, new, rounds)
                        say(f"bench-serve: {name}, {streams} streams: {found[name]['ratio']} of the engine alone")
        finally:
            engine.close()
    return found


def overloaded(wide: Path, seconds: float) -> dict[str, Any]:
    """Ten times the load that `wide` can take."""
    engine = Engine.load(wide)
    deal, slots, new = prompts(engine, random.Random(1)), engine.slots, _room(engine)
    engine.close()
    with served.artifact(wide, "--queue", str(QUEUE), "--queue-seconds", "600") as server:
        return overload.overload(server, deal, slots, QUEUE, new, seconds)


def compared(wide: Path, fetched: Receipt | None, store: Store, rounds: int) -> dict[str, Any]:
    """`wide` and `transformers serve`, side by side."""
    with ExitStack() as stack:
        files = None
        if fetched is not None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            store.lay_out(fetched.outputs, folder)
            files = {path.name: path for path in folder.iterdir()}
        server = stack.enter_context(served.artifact(wide))
        return beside.beside(server.url, beside.model_name(server.url), files, 64, rounds)


def _room(engine: Engine) -> int:
    return min(NEW, engine.kv_max // 2)


def main() -> int:
    """`python -m validate.bench.serve`."""
    parser = Parser("validate.bench.serve", "Measure the server on real artifacts and say which figures stand.")
    parser.add_argument("artifact", type=Path, metavar="ARTIFACT", help="the artifact of batch 1")
    parser.add_argument("wide", type=Path, nargs="?", metavar="WIDE", help="an artifact of several slots")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="where the summary goes, JSON")
    parser.add_argument("--seconds", type=whole(1), default=60, metavar="N", help="length of the overload, default 60")
    parser.add_argument("--rounds", type=whole(1), default=7, metavar="N", help="turns of each side, default 7")
    parser.add_argument("--fetch", type=Path, metavar="RECEIPT", help="the checkpoint's, to run transformers serve on")
    add_store(parser, default=CACHE)
    flags = parser.parse_args()
    check_file("--out", flags.out)
    wide: Path = flags.wide or flags.artifact
    store = open_store(flags.store, flags.cache)
    fetched = Receipt.read(flags.fetch) if flags.fetch else None
    summary: dict[str, Any] = {"machine": machine(), "artifact": str(flags.artifact), "wide": str(wide)}
    try:
        summary["decode"] = decoding(flags.artifact, wide, flags.rounds)
        summary["overload"] = overloaded(wide, flags.seconds)
        summary["beside"] = compared(wide, fetched, store, max(1, flags.rounds // 2))
    except ServeError as error:
        raise BadInput(str(error)) from error
    summary["verdicts"] = judge.verdicts(summary)
    write_json(flags.out, summary)
    say(judge.table(summary["verdicts"]))
    say(f"bench-serve: {flags.out}")
    return 0 if all(one["holds"] for one in summary["verdicts"]) else 1


if __name__ == "__main__":
    run_cli(main)
