"""Requests of a move to another embedding model."""

from typing import Annotated, Literal

from pydantic import Field, StrictBool

from memory_agent.wire.base import Request
from memory_agent.wire.requests import example


class Model(Request):
    """An embedding model to which the memory is to move."""

    model_config = example({"model": "all-MiniLM-L6-v2", "precision": "int8"})

    model: Annotated[str, Field(min_length=1, max_length=1_000)]
    """A folder of the service's machine, or a hub name; with `api`, a model of the endpoint that its settings name."""
    precision: Literal["fp32", "int8"] | None = None
    api: StrictBool = False


class Compare(Request):
    """A comparison of both embedding models, on so many turns."""

    model_config = example({"questions": 50})

    questions: Annotated[int, Field(strict=True, ge=1, le=1_000)] = 100
