"""`python -m publish.verify REF [--key PUB.pem ...]`: may this be trusted?

Prints one line, the verdict and a sentence. Exit codes: 0 for ok, 1 for every other verdict, 2 for bad input.
"""

from __future__ import annotations

import json
from pathlib import Path

from ledger.errors import BadInput, run_cli
from ledger.flags import Parser
from ledger.stage import say
from publish.trust.trusted import KEYS_VARIABLE, Identity, load_trusted
from publish.verify.reference import ACCEPTED, judge


def main() -> int:
    """Judge the reference of the command line."""
    parser = Parser("publish.verify", "Judge what was published: its files, signer, receipts and parity.")
    parser.add_argument("reference", metavar="REF", help=ACCEPTED)
    parser.add_argument(
        "--key",
        action="append",
        default=[],
        type=Path,
        metavar="PUB.pem",
        help=f"public key of a publisher whom you trust, repeatable; else those in the folder {KEYS_VARIABLE}",
    )
    parser.add_argument(
        "--identity",
        action="append",
        default=[],
        metavar="SUBJECT@ISSUER",
        help="keyless signer whom you trust, repeatable: ci@example.com@https://accounts.example.com",
    )
    parser.add_argument("--trust-config", type=Path, metavar="FILE", help="Sigstore's own keys, for an offline check")
    parser.add_argument("--json", action="store_true", help="the verdict as one line of JSON")
    flags = parser.parse_args()
    trusted = load_trusted(flags.key, map(_identity, flags.identity), flags.trust_config)
    verdict = judge(flags.reference, trusted)
    facts = {"verdict": verdict.kind, "sentence": verdict.sentence, "digest": verdict.digest}
    say(json.dumps({"reference": flags.reference, **facts}) if flags.json else str(verdict))
    return 0 if verdict.ok else 1


def _identity(text: str) -> Identity:
    subject, _, issuer = text.rpartition("@")
    if not subject or not issuer.startswith("https://"):
        raise BadInput(f"--identity is {text!r}; accepted: SUBJECT@https://ISSUER")
    return Identity(issuer, subject)


if __name__ == "__main__":
    run_cli(main)
