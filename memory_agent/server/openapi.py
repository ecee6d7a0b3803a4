"""The OpenAPI document: every refusal that an operation may answer with is in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fastapi.openapi.utils import get_openapi

from memory_agent.server.access import GUARDED, METRICS
from memory_agent.wire.base import Answer, Request
from memory_agent.wire.problems import MEDIA_TYPE, Problem

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fastapi import FastAPI
    from fastapi.routing import APIRoute
    from pydantic import BaseModel
    from starlette.routing import BaseRoute

NOT_NEEDED: Final[dict[int | str, dict[str, Any]]] = {204: {"description": "Not needed."}}

NO_EVENTS: Final[dict[str, Any]] = {"description": "The document store tells no events."}

_REFUSALS: Final = {
    "400": "The path or the body cannot be read.",
    "401": "No valid API key was sent.",
    "403": "The key is not for this.",
    "404": "There is no such user, thread, topic, turn, session or event.",
    "408": "The body did not come in time.",
    "409": "Work is still owed, or keeps failing.",
    "410": "What was asked for was forgotten, or is not kept any more.",
    "413": "The body is too large.",
    "422": "A value cannot be stored or asked for; `errors` names the field.",
    "429": "The key has asked too much for now.",
    "431": "The address and the headers are too long together.",
    "500": "A fault of the service.",
    "502": "A model or a store refused.",
    "503": "A store or a model is unavailable for now.",
}
_HEADERS: Final = {
    "401": {"WWW-Authenticate": {"required": True, "schema": {"type": "string"}}},
    "429": {"Retry-After": {"required": True, "schema": {"type": "integer", "minimum": 1}}},
    "503": {"Retry-After": {"required": True, "schema": {"type": "integer", "minimum": 1}}},
}
_KEYS: Final = {
    "ApiKey": {
        "type": "http",
        "description": "A key that `memory-agent keys create` made.",
        "scheme": "bearer",
    }
}
_TAGS: Final = [
    {"name": "sessions", "description": "The sittings of a conversation."},
    {"name": "search", "description": "Find what was said."},
    {"name": "turns", "description": "Remember, and read word for word."},
    {"name": "facts", "description": "What is known about the user, with its history."},
    {"name": "topics", "description": "What the conversation is about."},
    {"name": "threads", "description": "The context for a prompt, and a thread as a whole."},
    {"name": "people", "description": "Who is remembered, and in which threads."},
    {"name": "work", "description": "What is owed, tried again or made anew; the worker; the sweep."},
    {"name": "events", "description": "What happens, as it happens."},
    {"name": "health", "description": "For those who run the service; no key is asked for."},
]
_INTRODUCTION: Final = """\
Call `fetch` before your model answers and `update` after. Ids of users and threads are yours: any visible text of at most
512 characters, percent-encoded in paths. Times are ISO 8601 with a zone. Errors are problem documents (RFC 9457);
`type` names the class of errors and never changes."""


def operation_id(route: APIRoute) -> str:
    """The handler's name, as generated clients call the operation."""
    return route.name


def describe(app: FastAPI, routes: Sequence[BaseRoute]) -> None:
    """Complete the application's OpenAPI document, in the order of `routes`."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = get_openapi(
                title=app.title,
                version=app.version,
                summary=app.summary,
                description=_INTRODUCTION,
                routes=routes,
                tags=_TAGS,
            )
            _add_refusals(found)
            _ask_for_keys(found)
            _restore_examples(found["components"]["schemas"])
            _name_optional_bodies(found)
            app.openapi_schema = found
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # FastAPI's documented way to extend it


def _add_refusals(document: dict[str, Any]) -> None:
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
    schemas = document["components"]["schemas"]
    schemas |= problem.pop("$defs", {}) | {"Problem": problem}
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    content = {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for path, operations in document["paths"].items():
        if not _asks_for_keys(path):
            continue
        for operation in operations.values():
            told = _REFUSALS | {
                status: response["description"]
                for status, response in operation["responses"].items()
                if status > "500"
            }
            for status, description in told.items():
                operation["responses"][status] = {"description": description, "content": content}
                if status in _HEADERS:
                    operation["responses"][status]["headers"] = _HEADERS[status]
            operation["responses"] = dict(sorted(operation["responses"].items()))


def _asks_for_keys(path: str) -> bool:
    return path.startswith((*GUARDED, METRICS))


def _ask_for_keys(document: dict[str, Any]) -> None:
    # Said here and not by a dependency of every handler, which FastAPI would call with every request.
    document["components"]["securitySchemes"] = _KEYS
    for path, operations in document["paths"].items():
        if _asks_for_keys(path):
            for operation in operations.values():
                operation["security"] = [{name: [] for name in _KEYS}]


def _restore_examples(schemas: dict[str, Any]) -> None:
    # FastAPI leaves every null out of the document, those within examples too, which makes some of them wrong.
    for model in (*_below(Request), *_below(Answer)):
        extra = model.model_config.get("json_schema_extra")
        if isinstance(extra, dict) and "examples" in extra and model.__name__ in schemas:
            schemas[model.__name__]["examples"] = extra["examples"]


def _name_optional_bodies(document: dict[str, Any]) -> None:
    # FastAPI writes a body that may be left out as "this or null", which generated clients trip over: theirs leave it
    # out, and then send what stands for that.
    for operations in document["paths"].values():
        for operation in operations.values():
            for media in operation.get("requestBody", {}).get("content", {}).values():
                named = [each for each in media["schema"].get("anyOf", ()) if each != {"type": "null"}]
                if len(named) == 1:
                    media["schema"] = named[0]


def _below(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    for each in model.__subclasses__():
        yield each
        yield from _below(each)
