"""The HTTP client that huggingface_hub talks through here: every request is tried again in one place, by one rule.

The library tries some requests again (preupload, the LFS batch, the pages of a tree after the first, uploads to the
storage) and others not at all (refs, commit, branch, tag), waits without end for an answer, and retrying around it
would multiply. Here the client itself tries again what is worth it (408, 429, 5xx, a cut connection, no answer in
time), honours Retry-After, and in the end raises GateFailed, which no loop of the library catches. A request whose
body is a file cannot be repeated at this level: it passes, and the library, which can rewind the file, repeats it.
A permanent 4xx is answered as it is, after one try.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from logging import ERROR
from threading import Lock
from typing import Any

import httpx
from huggingface_hub import logging, set_client_factory

# Not public: the hook that refuses requests in offline mode, and what the library uses when nobody sets a factory.
from huggingface_hub.utils._http import default_client_factory, hf_request_event_hook, parse_ratelimit_headers
from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

from ledger.errors import GateFailed

PASSING = frozenset({408, 429, 500, 502, 503, 504})
# Seconds before each further try; those of the library.
WAITS = (1.0, 2.0, 4.0, 8.0, 8.0)
# The Hub counts requests in windows of five minutes (https://huggingface.co/docs/hub/rate-limits).
LONGEST_WAIT = 330.0
_TIMEOUT = httpx.Timeout(120, connect=10, pool=None)
_CUT = (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError)
_UNSENT = (httpx.ConnectError, httpx.ConnectTimeout)


class PatientClient(httpx.Client):
    """An httpx.Client that tries a request again when it failed in a way that passes."""

    def __init__(self) -> None:
        super().__init__(
            event_hooks={"request": [hf_request_event_hook]},
            follow_redirects=True,
            timeout=_TIMEOUT,
            verify=_certificates(),
        )

    def send(self, request: httpx.Request, **how: Any) -> httpx.Response:
        """The answer, which may be a refusal; GateFailed when there is still none after the last try."""
        # The library asks for no timeout at all in some places.
        asked = request.extensions.get("timeout", {})
        given = {key: seconds for key, seconds in asked.items() if seconds is not None}
        request.extensions["timeout"] = _TIMEOUT.as_dict() | given
        for wait in (*WAITS, None):
            try:
                response = super().send(request, **how)
            except _CUT as error:
                reason, least = _named(error), 0.0
                if not (_repeatable(request) or isinstance(error, _UNSENT)):
                    _note(request, reason)
                    raise
            else:
                if response.status_code not in PASSING:
                    return response
                reason, least = f"answer {response.status_code}", _asked_wait(response)
                if not _repeatable(request):
                    _note(request, reason)
                    return response
                response.close()
            if wait is None or least > LONGEST_WAIT:
                raise GateFailed(_given_up(request, reason, least))
            _note(request, f"{reason}, again in {max(wait, least):.0f} s")
            time.sleep(max(wait, least))
        raise AssertionError("the last try returns or raises")


# Reading them takes a tenth of a second.
_certificates = cache(httpx.create_ssl_context)


class _Shared:
    """How many users the client has at the moment: the library knows one factory per process."""

    lock = Lock()
    users = 0
    bars_were_off = False
    verbosity = 0


@contextmanager
def patient() -> Iterator[None]:
    """Within it huggingface_hub talks through PatientClient and is silent; after the last one it is as it was.

    Its warnings name addresses that are signed, and so are let nowhere.
    """
    with _Shared.lock:
        _Shared.users += 1
        if _Shared.users == 1:
            _Shared.bars_were_off, _Shared.verbosity = are_progress_bars_disabled(), logging.get_verbosity()
            disable_progress_bars()
            logging.set_verbosity(ERROR)
            set_client_factory(PatientClient)
    try:
        yield
    finally:
        with _Shared.lock:
            _Shared.users -= 1
            if not _Shared.users:
                set_client_factory(default_client_factory)
                logging.set_verbosity(_Shared.verbosity)
                if not _Shared.bars_were_off:
                    enable_progress_bars()


def attempts() -> Iterator[int]:
    """The numbers of the tries that a change gets when others change the same thing, with a pause between them."""
    yield 0
    for number, wait in enumerate(WAITS, start=1):
        time.sleep(wait)
        yield number


def where(request: httpx.Request) -> str:
    """Method and address of a request for people: without the query, in which signatures are."""
    return f"{request.method} {request.url.copy_with(query=None, fragment=None)}"


def _repeatable(request: httpx.Request) -> bool:
    return isinstance(request.stream, httpx.ByteStream)


def _asked_wait(response: httpx.Response) -> float:
    """Seconds that the server asks to wait, by the rate limit's headers or Retry-After; 0 when it does not say."""
    limit = parse_ratelimit_headers(response.headers)
    if response.status_code == httpx.codes.TOO_MANY_REQUESTS and limit is not None and limit.remaining == 0:
        return float(limit.reset_in_seconds)
    text = response.headers.get("retry-after", "")
    return float(text) if text.isascii() and text.isdecimal() else 0.0


def _named(error: httpx.TransportError) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _given_up(request: httpx.Request, reason: str, least: float) -> str:
    tries = f"it asks to wait {least:.0f} s" if least > LONGEST_WAIT else f"tried {len(WAITS) + 1} times"
    return (
        f"{where(request)}: {reason}, {tries}; accepted: an answer; run again later, what has arrived is not sent again"
    )


def _note(request: httpx.Request, reason: str) -> None:
    sys.stderr.write(f"hub: {where(request)}: {reason}\n")
