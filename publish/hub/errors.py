"""Whatever huggingface_hub raises as one sentence: what was asked of which repository, what came, what is accepted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import httpx
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalTokenNotFoundError,
    OfflineModeIsEnabled,
    RemoteEntryNotFoundError,
    RevisionNotFoundError,
)

from ledger.errors import BadInput, FoundryError, GateFailed
from publish.hub.client import PASSING, where

_TOKEN = "HF_TOKEN or the token file of `hf auth login`"
_LONGEST = 200


@contextmanager
def sentences(repo: str, asked: str) -> Iterator[None]:
    """Turn what the library raises into BadInput (to be mended here) or GateFailed (the Hub's side, for now).

    `asked` is what the Hub was asked for, as a noun: "the tree of abc". An OSError of this machine's disk passes.
    """
    try:
        yield
    except FoundryError as error:
        raise type(error)(f"Hub repository {repo}, {asked}: {error}") from None
    except (httpx.HTTPError, httpx.InvalidURL, OfflineModeIsEnabled, LocalTokenNotFoundError) as error:
        raise _translated(error, f"Hub repository {repo}, {asked}") from None
    except HFValidationError as error:
        raise BadInput(f"Hub repository {repo!r}: {_line(str(error))}; accepted: OWNER/NAME") from None
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        if isinstance(error.__cause__, HfHubHTTPError):
            # How the library passes on that the card's metadata is refused.
            problem = str(error).splitlines()[0].rstrip(".")
            raise _refused(error.__cause__, f"Hub repository {repo}, {asked}: {problem}") from None
        raise GateFailed(
            f"Hub repository {repo}, {asked}: what came back is not understood: {_line(str(error))}; "
            "accepted: an answer of the Hub's API"
        ) from None


def _translated(error: Exception, subject: str) -> FoundryError:
    if isinstance(error, OfflineModeIsEnabled):
        return BadInput(f"{subject}: HF_HUB_OFFLINE is set; accepted: unset, as the Hub is asked")
    if isinstance(error, LocalTokenNotFoundError):
        return BadInput(f"{subject}: no token is found; accepted: {_TOKEN}")
    if isinstance(error, HfHubHTTPError):
        return _refused(error, subject)
    if isinstance(error, (httpx.UnsupportedProtocol, httpx.InvalidURL)):
        return BadInput(
            f"{subject}: the endpoint is no address: {_line(str(error))}; accepted: HF_ENDPOINT as https://HOST"
        )
    return GateFailed(
        f"{subject}: the connection failed: {_line(str(error)) or type(error).__name__}; accepted: one that lasts"
    )


def _refused(error: HfHubHTTPError, subject: str) -> FoundryError:
    status = error.response.status_code
    said = f"{subject}: refused with {status}"
    if error.server_message:
        said += f" ({_line(error.server_message)})"
    if status in PASSING or status >= httpx.codes.INTERNAL_SERVER_ERROR:
        return GateFailed(f"{said} at {where(error.response.request)}; accepted: an answer; run again later")
    if isinstance(error, GatedRepoError):
        return BadInput(f"{said}; accepted: a token ({_TOKEN}) of an account that was granted access on the Hub's page")
    if isinstance(error, RevisionNotFoundError):
        return BadInput(f"{said}; accepted: a branch, tag or commit that the repository has")
    if isinstance(error, RemoteEntryNotFoundError):
        return BadInput(f"{said}; accepted: a file that the revision has")
    match status:
        case 401:
            accepted = f"a valid token ({_TOKEN}) of an account that may see the repository"
        case 403:
            accepted = f"a token ({_TOKEN}) with the right to do this"
        case 404:
            accepted = "a repository that exists (`hf repos create` makes one) and that the token may see"
        case 409 | 412:
            return GateFailed(f"{said}; accepted: no other change at the same time; run again")
        case _:
            accepted = "what the Hub's message asks for"
    return BadInput(f"{said}; accepted: {accepted}")


def _line(text: str) -> str:
    """`text` in one line of at most 200 characters."""
    flat = " ".join(text.split()).rstrip(".;")
    return flat if len(flat) <= _LONGEST else flat[: _LONGEST - 3] + "..."
