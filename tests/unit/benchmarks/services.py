"""A service as the recall benchmark uses one, which finds turns by shared words and notes what it was given."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from types import SimpleNamespace
from typing import Any

from memory_agent import TurnInput


@dataclass(slots=True)
class Data:
    """What services on one folder share: turns by user, everything they were given, and the settings of each opening."""

    turns: dict[str, list[Any]] = field(default_factory=dict)
    given: list[Any] = field(default_factory=list)
    opened: list[dict[str, Any]] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def open_service(self, store: str, **settings: Any) -> AsyncIterator[FakeService]:
        """In the place of `benchmarks.measure.open_service`."""
        self.opened.append({"store": store, **settings})
        yield FakeService(self, settings)


class FakeService:
    """Hands out agents on the same data. With the weight of words at 0 it finds the last turns, whatever is asked."""

    def __init__(self, data: Data, settings: dict[str, Any]) -> None:
        self.data = data
        self.core = SimpleNamespace(embedder=SimpleNamespace(current=SimpleNamespace(computed=0)))
        self.by_words = settings.get("search_weights", {}).get("words", 1.0) > 0

    def agent(self, user_id: str, thread_id: str) -> FakeAgent:
        self.data.given += [user_id, thread_id]
        return FakeAgent(self, user_id)


class FakeAgent:
    """One user's turns."""

    def __init__(self, service: FakeService, user_id: str) -> None:
        self.service = service
        self.turns = service.data.turns.setdefault(user_id, [])
        self.user_id = user_id

    async def add_turns(self, inputs: Sequence[TurnInput]) -> list[Any]:
        self.service.data.given += inputs
        first = len(self.turns)
        self.turns += [
            SimpleNamespace(id=f"{self.user_id}/{first + number}", content=one.content)
            for number, one in enumerate(inputs)
        ]
        return self.turns[first:]

    async def settle(self, timeout: float) -> None:
        assert timeout > 0

    async def fetch_long_term(self, query: str, top_k: int, *, now: datetime | None = None) -> list[Any]:
        self.service.data.given += [query, top_k]
        self.service.data.asked.append(query)
        words = set(query.split()) if self.service.by_words else set()
        last_first = list(reversed(self.turns))
        best = sorted(last_first, key=lambda turn: -len(words & set(turn.content.split())))
        return [SimpleNamespace(turn=turn) for turn in best[:top_k]]

    async def fetch_memory(self, query: str, *, max_tokens: int, preset: str) -> Any:
        found = await self.fetch_long_term(query, max_tokens)
        recalled = [
            SimpleNamespace(tier="long_term", item=one.turn.id, score=-rank) for rank, one in enumerate(found)
        ]
        last = SimpleNamespace(tier="short_term", item=self.turns[-1].id, score=None)
        return SimpleNamespace(ledger=[*reversed(recalled), last])
