"""Refusals as the Hub words them: a status, `X-Error-Code` and `X-Error-Message`, which the client goes by.

The client takes a 401 without a code for a missing repository, but only over https; here the code is always sent.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response


class Refusal(Exception):  # noqa: N818  (an answer)
    """An error answer."""

    def __init__(self, status: int, message: str, code: str | None = None, commit: str | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.code, self.commit = status, message, code, commit

    def response(self) -> Response:
        """The answer itself, without the headers that have nothing to say."""
        headers = {"X-Error-Message": self.message, "X-Error-Code": self.code, "X-Repo-Commit": self.commit}
        return JSONResponse({"error": self.message}, self.status, {key: text for key, text in headers.items() if text})


def refused(_: Request, error: Exception) -> Response:
    """The exception handler for Refusal."""
    assert isinstance(error, Refusal)
    return error.response()
