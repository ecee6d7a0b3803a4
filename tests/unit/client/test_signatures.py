"""A client has the methods of what it stands for: code moves from embedded to a service by changing one line."""

import inspect

from memory_agent import MemoryAgent, MemoryClient, MemoryService, ServiceClient

SHARED_BY_SERVICES = (
    "agent", "search", "users", "threads", "find_session", "forget_user", "status", "settle", "retry_parked",
    "rebuild_index", "rebuild_next", "reextract_facts", "sweep", "worker_status", "pause_worker", "resume_worker",
)  # fmt: skip


def public_methods(kind: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(member)
        for name, member in inspect.getmembers(kind, callable)
        if not name.startswith("_")
    }


def test_client_has_exactly_the_agent_s_methods() -> None:
    assert set(public_methods(MemoryClient)) == set(public_methods(MemoryAgent))


def test_method_takes_and_returns_what_the_agent_s_does() -> None:
    """Names, order, kinds, defaults and annotations; and it is awaited, or iterated, in the same way."""
    for name in sorted(public_methods(MemoryAgent)):
        theirs, ours = getattr(MemoryAgent, name), getattr(MemoryClient, name)
        assert inspect.signature(ours) == inspect.signature(theirs), name
        assert inspect.iscoroutinefunction(ours) == inspect.iscoroutinefunction(theirs)
        assert inspect.isasyncgenfunction(ours) == inspect.isasyncgenfunction(theirs)
        doc = inspect.getdoc(theirs)
        assert doc, name
        assert (inspect.getdoc(ours) or "").startswith(doc), "what is different over HTTP follows it"


def test_service_client_s_methods_are_the_service_s() -> None:
    """The tenant too, though only a key for all of them may name another one than its own."""
    for name in SHARED_BY_SERVICES:
        theirs, ours = (
            inspect.signature(getattr(MemoryService, name)),
            inspect.signature(getattr(ServiceClient, name)),
        )
        assert list(ours.parameters.values()) == list(theirs.parameters.values()), name
        doc = inspect.getdoc(getattr(MemoryService, name))
        assert doc
        assert (inspect.getdoc(getattr(ServiceClient, name)) or "").startswith(doc)
