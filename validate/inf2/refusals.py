"""What EC2 means when it refuses a machine: the error codes that an asking caller has to tell apart.

Source: the table of error codes in the EC2 API reference. A code that is not known stops the run, as asking again for
what AWS calls wrong would go on for hours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    CredentialRetrievalError,
    NoCredentialsError,
    PartialCredentialsError,
    RefreshWithMFAUnsupportedError,
    SSOError,
    TokenRetrievalError,
)
from botocore.parsers import ResponseParserError

from ledger.errors import BadInput

Scope = Literal["zone", "region", "never", "unsure"]
"""Where to ask next: another zone now, another region now, never here again, or nowhere until it is known."""

SCOPES: dict[str, Scope] = {
    # No machine of the kind in this zone at this price, now.
    "InsufficientInstanceCapacity": "zone",
    "InsufficientHostCapacity": "zone",
    "InsufficientCapacity": "zone",
    "SpotMaxPriceTooLow": "zone",
    "InsufficientFreeAddressesInSubnet": "zone",
    "InsufficientVolumeCapacity": "zone",
    # The account's share of a region is used up, perhaps by another run of ours.
    "MaxSpotInstanceCountExceeded": "region",
    "SpotInstanceCountLimitExceeded": "region",
    "VcpuLimitExceeded": "region",
    "InstanceLimitExceeded": "region",
    "VolumeLimitExceeded": "region",
    "RequestLimitExceeded": "region",
    "Throttling": "region",
    "PendingVerification": "region",
    "ResourceCountExceeded": "region",
    # The zone never offers the kind, whatever its list said.
    "Unsupported": "never",
    "UnsupportedOperation": "never",
    "OptInRequired": "never",
    "VPCIdNotSpecified": "never",
    "MissingInput": "never",
    "DefaultSubnetDoesNotExistInAZ": "never",
    # AWS's own trouble: the machine may have been started before the answer was lost.
    "InternalError": "unsure",
    "InternalFailure": "unsure",
    "Unavailable": "unsure",
    "ServiceUnavailable": "unsure",
    "RequestExpired": "unsure",
    "IdempotentInstanceTerminated": "unsure",
}
_DENIED = {
    "AuthFailure",
    "UnauthorizedOperation",
    "AccessDenied",
    "AccessDeniedException",
    "InvalidClientTokenId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "ExpiredTokenException",
    "UnrecognizedClientException",
    "InvalidAccessKeyId",
}
_NO_CREDENTIALS = (
    CredentialRetrievalError,
    NoCredentialsError,
    PartialCredentialsError,
    RefreshWithMFAUnsupportedError,
    SSOError,
    TokenRetrievalError,
)
# What other services than EC2 say of a bad moment with a status below 500.
_PASSING = {
    "SlowDown",
    "ThrottlingException",
    "TooManyRequestsException",
    "RequestTimeout",
    "RequestTimeoutException",
    "PriorRequestNotComplete",
    "ConditionalRequestConflict",
    "OperationAborted",
}
_SERVER_ERROR = 500


@dataclass(frozen=True)
class Refusal:
    """What was said, and where it holds."""

    code: str
    scope: Scope


def refusal_of(error: Exception) -> Refusal:
    """What an error of RunInstances means; BadInput for one that asking again would not mend.

    Any error that is not an answer of AWS (a lost connection, a time-out) is "unsure".
    """
    if hopeless(error):
        raise sentence(error, "a machine")
    return Refusal(name_of(error), SCOPES.get(name_of(error), "unsure"))


def hopeless(error: Exception) -> bool:
    """Whether waiting is no use: nobody is let in, or what was asked for is wrong."""
    if not isinstance(error, ClientError):
        return denied(error)
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return denied(error) or (status < _SERVER_ERROR and code_of(error) not in SCOPES.keys() | _PASSING)


def denied(error: Exception) -> bool:
    """Whether the credentials are missing or not let in."""
    if isinstance(error, ClientError):
        return code_of(error) in _DENIED
    return isinstance(error, _NO_CREDENTIALS)


def sentence(error: Exception, what: str) -> BadInput:
    """An error of AWS as one sentence about `what` was asked for."""
    accepted = "credentials that may ask for it" if denied(error) else "what AWS takes"
    return BadInput(f"AWS refuses {what} ({reason(error)}); accepted: {accepted}")


def reason(error: Exception) -> str:
    """What an error says, with its code."""
    if not isinstance(error, ClientError):
        return " ".join(str(error).split())[:300]
    said = " ".join(error.response.get("Error", {}).get("Message", "").split())[:300]
    return f"{code_of(error)}: {said}".rstrip(": ")


def name_of(error: Exception) -> str:
    """The code of an answer, or the kind of an error that is none."""
    return code_of(error) if isinstance(error, ClientError) else type(error).__name__


def code_of(error: ClientError) -> str:
    """The code of an answer that is an error."""
    return str(error.response.get("Error", {}).get("Code", ""))


AWS_ERRORS = (ClientError, BotoCoreError, ResponseParserError)
"""What a call to AWS raises; the last for an answer that was cut, as BotoCoreError does not cover it."""
