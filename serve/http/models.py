"""`GET /v1/models`."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from pydantic import BaseModel

from serve.http.openapi import desk_of, errors

router = APIRouter()


class ModelCard(BaseModel):
    """The model that is served."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "neff-foundry"
    max_model_len: int


class ModelList(BaseModel):
    """One model."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


def _card(request: Request) -> ModelCard:
    desk = desk_of(request)
    engine = desk.service.check()
    return ModelCard(id=desk.model, created=desk.created, max_model_len=engine.kv_max)


@router.get("/v1/models", responses=errors(401, 500, 503), summary="The models served")
async def models(request: Request) -> ModelList:
    """The one model of this server."""
    return ModelList(data=[_card(request)])


@router.get("/v1/models/{model:path}", responses=errors(401, 404, 500, 503), summary="One model")
async def model_card(request: Request, model: str) -> ModelCard:
    """The model of that name."""
    desk_of(request).check_model(model)
    return _card(request)
