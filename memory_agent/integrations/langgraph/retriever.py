"""LangChain's retriever over a memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import PrivateAttr

from memory_agent.integrations.loop import Loop

if TYPE_CHECKING:
    from langchain_core.callbacks import AsyncCallbackManagerForRetrieverRun, CallbackManagerForRetrieverRun

    from memory_agent.domain import Recollection


class MemoryRetriever(BaseRetriever):
    """The turns of a memory as documents, best first: `MemoryRetriever(memory=service.agent("ada", "holidays"), k=5)`.

    `memory`: a MemoryAgent or MemoryClient. `k`: how many turns at most; `invoke(question, k=3)` for one question.
    """

    memory: Any
    k: int = 5
    _loop: Loop = PrivateAttr(default_factory=lambda: Loop("MemoryRetriever"))

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return self._loop.wait(self._documents(query, k))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        return await self._loop.reach(self._documents(query, k))

    async def _documents(self, query: str, k: int | None) -> list[Document]:
        found: list[Recollection] = await self.memory.fetch_long_term(query, self.k if k is None else k)
        return [_document(each) for each in found]


def _document(found: Recollection) -> Document:
    turn = found.turn
    return Document(
        id=turn.id,
        page_content=turn.content,
        metadata={
            **turn.metadata,
            "role": turn.role,
            "speaker": turn.speaker,
            "timestamp": turn.timestamp.isoformat(),
            "thread_id": turn.thread_id,
            "score": found.score,
            "confidence": found.confidence,
        },
    )
