"""Keyless signatures: a short-lived certificate that Sigstore gave to an OpenID Connect identity, with its log entry.

Everything is left to the sigstore library, which knows the certificate chain, the log and their times. Nothing here
has reached Sigstore: what is tested is what this file makes of the library's answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledger.errors import BadInput
from publish.trust.kinds import Refused
from publish.trust.release import SIGNATURE
from publish.trust.statement import PAYLOAD_TYPE, Statement, read_statement
from publish.trust.trusted import Identity, Trusted

if TYPE_CHECKING:
    from cryptography.x509 import Certificate
    from sigstore.verify import Verifier


class _OneOf:
    """A policy in sigstore's sense: the certificate is of one of the identities; `found` is that one afterwards."""

    def __init__(self, trusted: Trusted) -> None:
        self._trusted = trusted
        self.found: Identity | None = None

    def verify(self, cert: Certificate) -> None:
        from sigstore.errors import VerificationError
        from sigstore.verify.policy import Identity as Named

        for one in self._trusted.identities:
            try:
                Named(identity=one.subject, issuer=one.issuer).verify(cert)
            except VerificationError:
                continue
            self.found = one
            return
        raise Refused("unknown_signer", f"signed by another identity than is trusted; trusted: {self._trusted}")


def open_keyless(data: bytes, trusted: Trusted) -> Statement:
    """The statement in the keyless bundle `data`, once its signature holds and one of `trusted.identities` made it.

    Raises Refused: bad_signature, or unknown_signer; BadInput when Sigstore's own keys cannot be had.
    """
    from sigstore.errors import VerificationError
    from sigstore.models import Bundle, InvalidBundle

    if not trusted.identities:
        raise Refused("unknown_signer", f"signed by an identity and not with a key; trusted: {trusted}")
    try:
        bundle = Bundle.from_json(data)
    except InvalidBundle as error:
        raise Refused("bad_signature", f"{SIGNATURE} is no Sigstore bundle: {_line(error)}") from None
    policy = _OneOf(trusted)
    try:
        kind, payload = _verifier(trusted).verify_dsse(bundle, policy)
    except VerificationError as error:
        raise Refused("bad_signature", f"{SIGNATURE}: {_line(error)}") from None
    if kind != PAYLOAD_TYPE:
        raise Refused("bad_signature", f"{SIGNATURE} holds {kind}; accepted: {PAYLOAD_TYPE}")
    return read_statement(payload, str(policy.found))


def _verifier(trusted: Trusted) -> Verifier:
    from sigstore.errors import Error
    from sigstore.models import ClientTrustConfig
    from sigstore.verify import Verifier

    path = trusted.trust_config
    try:
        config = (
            ClientTrustConfig.from_json(path.read_text(encoding="utf-8")) if path else ClientTrustConfig.production()
        )
        return Verifier(trusted_root=config.trusted_root)
    except (Error, ValueError) as error:
        found = f"--trust-config {path}" if path else "Sigstore's own keys"
        raise BadInput(f"{found} cannot be used: {_line(error)}; accepted: --trust-config FILE, or a network") from None


def _line(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
