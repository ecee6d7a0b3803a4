"""The pieces of Python in the pages, followed to the letter.

A page's pieces share one namespace, in their order, in which what the page takes for granted (`memory`, `service`) is there.
What a comment shows as a value must be the value. Whole programs are run by test_docs, as processes.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import inspect
import io
import tokenize
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from memory_agent import MemoryConfig
from memory_agent.models.local.embedder import LocalEmbedder
from memory_agent.testing import ScriptedLLM
from tests.documented import PAGES, Block, blocks, is_program
from tests.integration.conversations import opened
from tests.integration.documents import why_not_run
from tests.integration.reader import LONG, MIXED, talk
from tests.servers.openai_script import ScriptedOpenAI
from tests.servers.service import served

# What the readers of some pages have talked of, beside the conversation that all of them remember.
TALKED: Final = {
    "docs/long_term.md": (
        "The vet's appointment for Suki is on Thursday at ten.",
        "In May 2023 I planted three tomatoes and a fig tree.",
        "On 2 September 2023 Suki ran away and came back with a burr.",
    )
}
LOOKED_AT_SECONDS: Final = 60


def pieces(page: str) -> list[Block]:
    """The page's blocks of Python that are no programs, and not listed as such that aren't run."""
    return [
        block
        for block in blocks(page)
        if block.language == "python" and not is_program(block) and why_not_run(block.text) is None
    ]


@pytest.mark.parametrize("page", [page for page in PAGES if pieces(page)])
async def test_what_a_page_says_to_write_works(
    page: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shared_embedder: LocalEmbedder,
    openai_server: ScriptedOpenAI,
) -> None:
    """In a fresh folder, where the page's reader remembers a short conversation."""
    monkeypatch.chdir(tmp_path)
    openai_server.answer = lambda request: '{"facts": []}'
    settings = {
        "data_dir": tmp_path / "data",
        "openai_base_url": openai_server.base_url if "model=" in str(pieces(page)) else None,
    }
    async with opened(settings, embedder=shared_embedder) as service:
        memory = service.agent(user_id="ada", thread_id="main")
        await memory.add_turns(
            [*talk(MIXED), *({"role": "user", "content": text} for text in TALKED.get(page, ()))]
        )
        await memory.settle(timeout=120)
        async with _served_if_asked(page, service) as reached:
            names: dict[str, Any] = {"service": service, "memory": memory, **_taken_for_granted(), **reached}
            for piece in pieces(page):
                await _run(piece, names)


@contextlib.asynccontextmanager
async def _served_if_asked(page: str, service: Any) -> AsyncIterator[dict[str, Any]]:
    """The address and a key of the service, where a piece of the page connects to one; somebody talks meanwhile."""
    if "http://127.0.0.1:8080" not in str(pieces(page)):
        yield {}
        return

    async def talk() -> None:
        while True:
            await service.agent(user_id="ada", thread_id="holidays").add_user_message(
                "In June we go to Porto Covo."
            )
            await asyncio.sleep(0.2)

    async with served(service) as running:
        talking = asyncio.create_task(talk())
        yield {"key": await running.key(), "address": running.address}
        talking.cancel()


def _taken_for_granted() -> dict[str, Any]:
    """Values that pages name without making them."""
    return {
        "MemoryConfig": MemoryConfig,
        "question": "Where does the meeting take place?",
        "last_may": datetime(2025, 5, 1, tzinfo=UTC),
        "yesterday": datetime.now(UTC) - timedelta(days=1),
        "messages": [{"role": turn["role"], "content": turn["content"]} for turn in talk(LONG)],
        "llm": ScriptedLLM(lambda messages: "They chose tiles."),
    }


async def _run(piece: Block, names: dict[str, Any]) -> None:
    """Run a piece with `await` at its top, statement by statement, and compare values with what comments show."""
    text = piece.text.replace("http://127.0.0.1:8080", names.get("address", ""))
    comments = _comments(text)
    for statement in ast.parse(text).body:
        where = f"{piece.page}:{piece.line + statement.lineno - 1}"
        shown = comments.get(statement.end_lineno or 0, "")
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            running = asyncio.ensure_future(_value_of(statement, names))
            done = await _finished(running, printed)
            value = running.result() if done else None
        if isinstance(statement, ast.Expr) and _is_value(shown, value):
            assert repr(value) == shown, where


async def _value_of(statement: ast.stmt, names: dict[str, Any]) -> Any:
    tree: ast.Module | ast.Expression
    whole = isinstance(statement, ast.Expr)
    tree = ast.Expression(statement.value) if isinstance(statement, ast.Expr) else ast.Module([statement], [])
    code = compile(
        tree, "a page", "eval" if whole else "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True
    )
    value = eval(code, names)
    return await value if inspect.isawaitable(value) and code.co_flags & inspect.CO_COROUTINE else value


async def _finished(running: asyncio.Future[Any], printed: io.StringIO) -> bool:
    """Whether it ended by itself. What waits for events without end is left once it has printed some."""
    for _ in range(LOOKED_AT_SECONDS * 20):
        done, _waiting = await asyncio.wait([running], timeout=0.05)
        if done:
            return True
        if printed.getvalue().count("\n") >= 3:
            break
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert printed.getvalue(), "it neither ended nor printed anything"
    return False


def _comments(text: str) -> dict[int, str]:
    """The comments by their lines."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return {token.start[0]: token.string[1:].strip() for token in tokens if token.type == tokenize.COMMENT}


def _is_value(shown: str, value: object) -> bool:
    """Whether a comment shows a value and nothing else: a literal, or a call of the value's class. Not one with gaps."""
    if "…" in shown:
        return False
    if shown.startswith(f"{type(value).__name__}("):
        return True
    try:
        ast.literal_eval(shown)
    except (ValueError, SyntaxError):
        return False
    return True
