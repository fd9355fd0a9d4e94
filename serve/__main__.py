"""`python -m serve ARTIFACT [flags]`: serve an artifact over HTTP; --help lists the settings.

Exit code 0 after a signal or spot notice, 2 for anything that a person has to set right, 1 when the engine fails.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from serve.errors import ServeError


def main(arguments: Sequence[str]) -> int:
    """Serve; the exit code."""
    from serve.http.log import configure
    from serve.http.settings import parse

    try:
        settings = parse(arguments)
        configure()
        for line in settings.lines():
            sys.stderr.write(f"setting: {line}\n")
        import uvloop

        from serve.http.opening import Artifact
        from serve.http.server import serve

        return uvloop.run(serve(settings, Artifact(settings.artifact)))
    except ServeError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # A load that was interrupted goes on in its thread, and libraries do not survive the interpreter's end beside it.
    os._exit(code)
