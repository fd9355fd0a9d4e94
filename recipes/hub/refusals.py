"""What the client library raises when a repository cannot be read, as one sentence that says what to do."""

from __future__ import annotations

import errno

from httpx import TransportError
from huggingface_hub import constants
from huggingface_hub.errors import (
    DisabledRepoError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)

from config.sources import HubSource
from ledger.errors import BadInput

UNAUTHORIZED = 401
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def refusal(error: Exception, source: HubSource) -> BadInput:
    """The sentence for `error`, raised while `source` was read."""
    if isinstance(error, LocalEntryNotFoundError) and isinstance(error.__cause__, HfHubHTTPError | TransportError):
        # The library looked into its cache because of it, and found nothing there.
        error = error.__cause__
    found, accepted = _answer(error, source) if isinstance(error, HfHubHTTPError) else _failure(error, source)
    return BadInput(f"source.repo {source.repo} {found}; accepted: {accepted}")


def _answer(error: HfHubHTTPError, source: HubSource) -> tuple[str, str]:
    """What is wrong and what is accepted, when the Hub answers with an error."""
    at, status = constants.ENDPOINT, error.response.status_code
    where = f"{at}/{source.repo}"
    match error:
        case GatedRepoError() if status == UNAUTHORIZED:
            return "is gated and no token is given", f"HF_TOKEN of an account that was let in at {where}"
        case GatedRepoError():
            return "is gated and the token's account was not let in", f"one that was, by its terms at {where}"
        case DisabledRepoError():
            answer = f"is disabled at {at}", "a repository that is open"
        case RepositoryNotFoundError():
            answer = f"is not at {at}, or private there", "a repository that the token, if any, may read"
        case HfHubHTTPError() if status == UNAUTHORIZED:
            answer = f"cannot be read, as {at} does not know the token", "a valid HF_TOKEN, or none"
        case _:
            answer = f"cannot be read, as {at} answers {status}", "another try later, which goes on from here"
    return answer


def _failure(error: Exception, source: HubSource) -> tuple[str, str]:
    """What is wrong and what is accepted, when no answer came or it could not be kept."""
    first_line = (str(error).strip() or type(error).__name__).splitlines()[0]
    at, cache = constants.ENDPOINT, constants.HF_HUB_CACHE
    match error:
        case LocalEntryNotFoundError() if constants.is_offline_mode():
            found = f"at revision {source.revision} is not whole in the cache {cache}"
            return found, "a whole one, as HF_HUB_OFFLINE is set"
        case TransportError():
            found = f"cannot be read, as {at} is out of reach ({first_line})"
            return found, "a network that reaches it, or HF_HUB_OFFLINE=1 with the revision in the cache"
        case OSError() if error.errno in FULL:
            return f"does not fit on the disk of {cache}", "room there, or HF_HOME elsewhere"
        case _:
            return f"at revision {source.revision} cannot be read ({first_line})", "one that can"
