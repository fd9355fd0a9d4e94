"""What EC2 means when it refuses a machine: the error codes that an asking caller has to tell apart.

Source: the table of error codes in the EC2 API reference. A code that is not known stops the run, as asking again for
what AWS calls wrong would go on for hours.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError, PartialCredentialsError

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
    "ResourceCountExceeded": "region",
    # The zone never offers the kind, whatever its list said.
    "Unsupported": "never",
    "UnsupportedOperation": "never",
    "PendingVerification": "never",
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
    if isinstance(error, ClientError):
        code, status = code_of(error), error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code in SCOPES:
            return Refusal(code, SCOPES[code])
        if status >= _SERVER_ERROR:
            return Refusal(code, "unsure")
        raise sentence(error, "a machine")
    if hopeless(error):
        raise sentence(error, "a machine")
    return Refusal(type(error).__name__, "unsure")


def hopeless(error: Exception) -> bool:
    """Whether the credentials are missing or not let in, so that waiting is no use."""
    if isinstance(error, ClientError):
        return code_of(error) in _DENIED
    return isinstance(error, NoCredentialsError | PartialCredentialsError)


def sentence(error: Exception, what: str) -> BadInput:
    """An error of AWS as one sentence about `what` was asked for."""
    if isinstance(error, ClientError):
        said = " ".join(error.response.get("Error", {}).get("Message", "").split())[:300]
        reason = f"{code_of(error)}: {said}".rstrip(": ")
    else:
        reason = " ".join(str(error).split())[:300]
    accepted = "credentials that may ask for it" if hopeless(error) else "what AWS takes"
    return BadInput(f"AWS refuses {what} ({reason}); accepted: {accepted}")


def code_of(error: ClientError) -> str:
    """The code of an answer that is an error."""
    return str(error.response.get("Error", {}).get("Code", ""))


AWS_ERRORS = (ClientError, BotoCoreError)
"""What a call to AWS raises."""
