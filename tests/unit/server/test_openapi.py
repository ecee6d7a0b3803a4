"""The OpenAPI document: complete, readable, and what code generators need."""

import functools
import re
from collections.abc import Iterator
from typing import Any

import jsonschema

from memory_agent import MemoryConfig
from memory_agent.wire.problems import KINDS


@functools.cache
def document() -> Any:
    """Made by the first test that asks, for it takes 10 MB."""
    from memory_agent.server.app import create_app

    return create_app(MemoryConfig(), insecure_no_auth=True).openapi()


def schemas() -> Any:
    return document()["components"]["schemas"]


@functools.cache
def operations() -> dict[str, tuple[str, str, Any]]:
    """Method, path and description of each by its id."""
    return {
        operation["operationId"]: (method, path, operation)
        for path, methods in document()["paths"].items()
        for method, operation in methods.items()
    }


def test_operations_have_names_of_their_own_and_are_described() -> None:
    """Each a verb and what it is about; in a few words and in a sentence, under a tag that the document explains."""
    assert len(operations()) == sum(len(methods) for methods in document()["paths"].values())
    assert {"update_memory", "fetch_memory", "search_memory", "set_fact", "merge_topics"} <= set(operations())
    for name, (_, _, operation) in operations().items():
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", name)
        assert operation["summary"], name
        assert operation["description"].rstrip().endswith((".", ")")), name
        (tag,) = operation["tags"]
        assert tag in {one["name"] for one in document()["tags"]}


def test_refusals_are_problems() -> None:
    """Whatever an operation may refuse with is a problem document; 401, 429 and 503 say what to do in a header."""
    for name, (_, path, operation) in operations().items():
        if not path.startswith("/api/"):
            continue
        for status, response in operation["responses"].items():
            if status >= "400":
                assert response["description"], name
                assert response["content"] == {
                    "application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}
                }
        statuses = {str(kind.status) for kind in KINDS.values()} - {"501"}
        assert statuses | {"400", "401", "408", "431"} <= set(operation["responses"]), name
        for status, header in (("401", "WWW-Authenticate"), ("429", "Retry-After"), ("503", "Retry-After")):
            assert operation["responses"][status]["headers"][header]["required"]
        assert ("501" in operation["responses"]) == (name == "stream_events")
        assert operation["security"] == [{"ApiKey": []}], name


def test_the_key_is_declared_and_health_needs_none() -> None:
    """A bearer token, under a name that OpenAPI allows for components."""
    (name, scheme), *_ = document()["components"]["securitySchemes"].items()
    assert re.fullmatch(r"[A-Za-z0-9._-]+", name)
    assert (scheme["type"], scheme["scheme"]) == ("http", "bearer")
    open_to_all = {path for _, path, operation in operations().values() if "security" not in operation}
    assert open_to_all == {"/healthz", "/readyz"}


def test_components_have_readable_names() -> None:
    """Words, not `Page_Turn_`; each is used, and none is FastAPI's own error."""
    assert all(re.fullmatch(r"([A-Z][a-z]+)+", name) for name in schemas())
    used = {ref.rpartition("/")[2] for ref in references(document())}
    assert used == set(schemas())


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        for key, value in node.items():
            if key == "$ref":
                yield value
            else:
                yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def test_bodies_have_examples_and_all_examples_fit() -> None:
    """One at least, valid by the document's own schema, with its nulls; answers may do without."""
    bodies = {
        next(one["$ref"].rpartition("/")[2] for one in (schema.get("anyOf", [schema])) if "$ref" in one)
        for _, _, operation in operations().values()
        if "requestBody" in operation
        for schema in [operation["requestBody"]["content"]["application/json"]["schema"]]
    }
    examples = [name for name, schema in schemas().items() if "examples" in schema]
    assert bodies <= set(examples)
    for name in examples:
        schema = {"$ref": f"#/components/schemas/{name}", "components": document()["components"]}
        for example in schemas()[name]["examples"]:
            jsonschema.Draft202012Validator(schema).validate(example)


def test_changes_take_an_idempotency_key() -> None:
    taking = {
        name
        for name, (_, _, operation) in operations().items()
        if any(one["name"] == "Idempotency-Key" for one in operation.get("parameters", ()))
    }
    assert taking == {
        "update_memory", "add_turn", "add_turns", "start_session", "start_thread_session", "set_fact", "add_fact",
        "retract_fact", "revert_fact",
    }  # fmt: skip


def test_lists_are_pages() -> None:
    for name, (_, _, operation) in operations().items():
        parameters = {one["name"] for one in operation.get("parameters", ())}
        schema = (
            operation["responses"]
            .get("200", {})
            .get("content", {})
            .get("application/json", {})
            .get("schema", {})
        )
        is_page = schema.get("$ref", "").endswith("Page")
        assert is_page == ({"limit", "cursor"} <= parameters), name
