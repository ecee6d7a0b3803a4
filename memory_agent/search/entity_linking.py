"""Entity linking in turns and questions: by dictionary, by the caller, and by a model where one is set."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from memory_agent.errors import BackendError
from memory_agent.text.dictionary import united

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memory_agent.domain import Entity, Turn
    from memory_agent.ports import EntityFinder
    from memory_agent.text.dictionary import EntityDictionary

log = logging.getLogger(__name__)


class EntitySpotter:
    """Finds entities; what it finds are the canonical names."""

    def __init__(self, dictionary: EntityDictionary, finder: EntityFinder | None = None) -> None:
        """`finder`: for names that no dictionary knows."""
        self._dictionary = dictionary
        self._finder = finder

    async def of_turns(self, turns: Sequence[Turn]) -> list[tuple[Entity, ...]]:
        """The entities of each turn, each once, in order of mention; the caller's own included."""
        recognised: list[list[Entity]] = [[] for _ in turns]
        if self._finder is not None and turns:
            try:
                recognised = await asyncio.to_thread(self._finder.find, [turn.content for turn in turns])
            except BackendError as exc:
                # Names that only it knows are missing then; the turns are searchable all the same.
                log.warning("%s failed, its names are left out: %s", self._finder.name, type(exc).__name__)
        return [
            united(self._dictionary.find(turn.content), turn.entities, names, self._dictionary)
            for turn, names in zip(turns, recognised, strict=True)
        ]

    def of_unindexed(self, turn: Turn) -> tuple[Entity, ...]:
        """Those of a turn that was not indexed yet: without the model, which takes its time."""
        return united(self._dictionary.find(turn.content), turn.entities, (), self._dictionary)

    def by_dictionary(self, text: str) -> tuple[Entity, ...]:
        """The entities that a text names by the dictionary alone."""
        return self._dictionary.find(text)

    async def of_question(self, text: str) -> tuple[Entity, ...]:
        """The entities that a question names. Raises BackendError if the model fails."""
        names: list[Entity] = []
        if self._finder is not None:
            names = (await asyncio.to_thread(self._finder.find, [text]))[0]
        return united(self._dictionary.find(text), (), names, self._dictionary)
