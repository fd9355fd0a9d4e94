"""skopeo, called so that a passing fault is tried again and a refusal is told at once, in one sentence.

Credentials come from the usual auth file and from nowhere else: `skopeo login`, `docker login` and the helpers of both
write it. What was sent before a fault stays in the registry, and the next try does not send it again.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

from ledger.errors import BadInput
from publish.image.reference import Reference
from publish.image.tools import Done, last_words, run

# Seconds between tries.
WAITS = (0.5, 1.0, 2.0, 4.0)
# What the registry answers with 5xx, and what is no answer: Go tells of the latter as `Put "https://...": reason`.
# 429 is not here: skopeo itself has waited five times, a minute in all, before it tells of one.
_PASSING = re.compile(
    r"(?i)(status|code)\D{0,24}5\d\d\b|\b5\d\d \(?(internal|bad gateway|service|gateway)|blob upload (unknown|invalid)"
    r'|\b(get|head|post|put|patch) "https?://[^"]*": (?!.*(no such host|certificate|x509|to HTTPS|did not match))'
    r"|connection (reset|refused)|broken pipe|\bEOF\b|i/o timeout"
)
_ABSENT = re.compile(
    r"manifest unknown|name unknown|repository name not known to registry|fetching tags list: .*\b404\b"
)
_MESSAGE = re.compile(r'level=fatal msg="((?:[^"\\]|\\.)*)"')
_HINTS = (
    (
        r"unauthorized|authentication required|no basic auth|status\D{0,10}401",
        "credentials of it in the auth file (skopeo login)",
    ),
    (r"denied|status\D{0,10}403", "credentials that may write there (skopeo login)"),
    (r"did not match", "blobs that are what their names say: remove the folder and make it again"),
    (r"no such host|lookup ", "the address of a registry that is reached"),
    (r"certificate|HTTP response to HTTPS", "a registry with a certificate that this host trusts"),
)


class Absent(BadInput):
    """The registry has no such image."""


def skopeo(verb: str, *arguments: str | Path, about: Reference, cwd: Path | None = None) -> Done:
    """Run skopeo; its messages are those of all tries. Raises Absent, or BadInput with one sentence, when it fails."""
    said = ""
    for wait in (*WAITS, None):
        done = run(["skopeo", "--debug", verb, *arguments], cwd=cwd)
        said += done.messages
        if not done.code:
            return Done(0, done.printed, said)
        reason = _reason(done.messages)
        if _ABSENT.search(reason):
            raise Absent(
                f"{about}: the registry has it not ({reason}); accepted: a repository and an image that are there"
            )
        if wait is None or not _PASSING.search(reason):
            break
        time.sleep(wait)
    raise BadInput(f"{about}: {reason}; accepted: {_accepted(reason)}")


def tls(flag: str, reference: Reference) -> list[str]:
    """The flag that lets skopeo speak plain HTTP, for a registry on this machine and for no other."""
    return [f"--{flag}=false"] if reference.loopback else []


def _reason(messages: str) -> str:
    found = _MESSAGE.findall(messages)
    if not found:
        return last_words(messages) or "skopeo failed"
    # Addresses of uploads and of what registries lend out may hold what nobody else should read.
    reason = re.sub(r"\?[^\s\"]*", "", str(found[-1]).replace('\\"', '"'))
    return re.sub(r'^Error parsing image name "[^"]*": ', "", reason)


def _accepted(reason: str) -> str:
    for pattern, words in _HINTS:
        if re.search(pattern, reason):
            return words
    return (
        "a registry that takes it"
        if not _PASSING.search(reason)
        else f"a registry that answers ({len(WAITS) + 1} tries)"
    )
