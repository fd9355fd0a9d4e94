"""`GET /`: one plain page for people, with nothing on it that another server would have to send."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse

from serve.http.desk import Desk
from serve.http.metrics import resident_bytes
from serve.http.openapi import desk_of, errors

router = APIRouter()

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="5">
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<title>{title}</title><style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem;
  color: #222; background: #fff }}
h1 {{ font-size: 1.4rem }} h2 {{ font-size: 1.1rem; margin-top: 2rem }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ text-align: left; padding: .3rem .5rem; border-bottom: 1px solid #ddd; overflow-wrap: anywhere }}
th {{ font-weight: normal; color: #555; width: 16rem }}
@media (prefers-color-scheme: dark) {{ body {{ color: #ddd; background: #111 }}
  th {{ color: #aaa }} th, td {{ border-color: #333 }} }}
</style></head><body><h1>{title}: <span id="state">{state}</span></h1>
{tables}
<p>API: <code>/v1/chat/completions</code>, <code>/v1/completions</code>, <code>/v1/models</code>,
<code>/generate</code>; document at <a href="/openapi.json">/openapi.json</a>, figures at
<a href="/metrics">/metrics</a>.</p></body></html>
"""


@router.get("/", response_class=HTMLResponse, responses=errors(500), summary="The status page")
async def status(request: Request) -> HTMLResponse:
    """What is served and how it fares."""
    desk = desk_of(request)
    tables = "\n".join(
        f"<h2>{escape(name)}</h2><table>{''.join(_row(*row) for row in rows)}</table>"
        for name, rows in (("Model", desk.facts.items()), ("Load", _load(desk)), ("Recent answers", _recent(desk)))
    )
    title = escape(desk.model or "neff-foundry")
    return HTMLResponse(_PAGE.format(title=title, state=escape(desk.service.state), tables=tables))


def _load(desk: Desk) -> Iterable[tuple[str, str]]:
    service = desk.service
    slots = service.engine.slots if service.engine is not None else 0
    yield "slots in use", f"{service.running} of {slots}"
    yield "waiting", f"{service.waiting} of {service.limits.queue}"
    yield "tokens per second", f"{desk.metrics.tokens_per_second:.1f}"
    yield "resident memory", f"{resident_bytes() / 1e6:.0f} MB"


def _recent(desk: Desk) -> Iterable[tuple[str, str]]:
    metrics = desk.metrics
    answers = [answer for answer in metrics.recent if answer.generated]
    yield "answers looked at", str(len(metrics.recent))
    yield "time to first token", _spread(metrics.first_tokens)
    yield "whole answer", _spread([answer.seconds for answer in answers])
    yield "time per token", _spread([answer.seconds / answer.generated for answer in answers])


def _spread(seconds: Iterable[float]) -> str:
    ranked = sorted(seconds)
    if not ranked:
        return "none yet"
    middle, high = (ranked[min(len(ranked) - 1, int(len(ranked) * share))] for share in (0.5, 0.95))
    return f"{1000 * middle:.1f} ms at the median, {1000 * high:.1f} ms at the 95th percentile"


def _row(name: str, value: str) -> str:
    return f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>"
