"""kill -9 before and after every write of a rebuild by another embedding model: whoever goes on brings it to the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from memory_agent import service as service_module
from memory_agent.testing import HashEmbedder
from tests.faults.killing import HOUR, kill_at_every_write
from tests.faults.nursery import Nursery
from tests.faults.topic_jobs import SETTINGS as OF_TOPICS
from tests.faults.topic_jobs import AheadClock, Database, opened, rebuild_all

SETTINGS = {**OF_TOPICS, "enable_topics": False}
USERS = ("ann", "bob", "cyd")
TEXTS = ("The gearbox stands behind the greenhouse.", "My violin lies beside the telescope.")


class Counting(HashEmbedder):
    """Counts the texts that it embeds."""

    embedded = 0

    async def embed(
        self, texts: Sequence[str], *, purpose: Literal["query", "document"]
    ) -> NDArray[np.float32]:
        self.embedded += len(texts)
        return await super().embed(texts, purpose=purpose)


@pytest.mark.timeout(1_200)
@pytest.mark.parametrize("database", ["embedded", "server"], indirect=True)
async def test_a_rebuild_killed_anywhere_is_gone_on_with(
    nursery: Nursery, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was embedded anew before the kill is not embedded once more, and nothing is left of the other model."""
    monkeypatch.setattr(service_module, "_TURNS_AT_ONCE", 1)
    async with opened(database.settings) as service:
        for user in USERS:
            memory = service.agent(user, "chat")
            await memory.add_turns([{"role": "user", "content": text} for text in TEXTS])
        await service.settle(60)
    database.keep()

    async def recover(_: int) -> None:
        model = Counting(seed="new")
        async with opened({**database.settings, "run_worker": False}, embedder=model) as service:
            left = (await service.status()).to_rebuild
        async with opened(database.settings, clock=AheadClock(HOUR), embedder=model) as service:
            await rebuild_all(service)
            assert (model.embedded, (await service.status()).to_rebuild) == (left, 0)
            rows = [row for user in USERS for row in await service.core.store.search_rows(user)]
            assert [row.embedder for row in rows] == [model.fingerprint] * len(USERS) * len(TEXTS)

    job = {"kind": "rebuild", "watched": ("turns", "search_rows", "meta"), "model": "new"}
    await kill_at_every_write(nursery, database, job, recover, least=4)
