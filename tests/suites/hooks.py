"""A check of schemathesis: what the OpenAPI document allows is refused only for what no schema can say.

Replaces `positive_data_acceptance`, which takes every 400 for a defect. How much fits the context, and which fields
exclude each other, is said in words; a bound of one field is the schema's to know. Refusals of the latter kind end
with the value that was found.
"""

from __future__ import annotations

from typing import Any

import schemathesis  # type: ignore[import-not-found]  # lives in an environment of its own

_FIELD = "; found "


@schemathesis.check  # type: ignore[untyped-decorator]
def refusal_beyond_the_schema(ctx: Any, response: Any, case: Any) -> None:
    """AssertionError for a 400 to data that the document allows, when a field's own type or bound is the reason."""
    if response.status_code != 400 or case.meta is None or not case.meta.generation.mode.is_positive:
        return
    error = response.json()["error"]
    assert error["code"] not in ("invalid_json", "missing_parameter", "unsupported_parameter"), error["message"]
    assert _FIELD not in error["message"], f"the document allows what is refused: {error['message']}"
