"""`python -m tests.hub --root DIR --port N`: the stand-in until it is stopped; its address and token on stdout."""

from __future__ import annotations

from pathlib import Path

from ledger.errors import run_cli
from ledger.flags import Parser, check_folder, whole
from ledger.stage import say
from tests.hub import Hub


def main() -> int:
    """Serve in the foreground."""
    parser = Parser("tests.hub", "A local stand-in of the Hugging Face Hub.")
    parser.add_argument("--root", required=True, type=Path, metavar="DIR", help="where the repositories are kept")
    parser.add_argument("--port", default=0, type=whole(0), metavar="N", help="port at 127.0.0.1; 0 takes a free one")
    flags = parser.parse_args()
    check_folder("--root", flags.root)
    hub = Hub(flags.root, port=flags.port)
    for name, value in hub.environment.items():
        say(f"{name}={value}")
    hub.run()
    return 0


if __name__ == "__main__":
    run_cli(main)
