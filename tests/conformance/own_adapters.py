"""Factories of the project's own adapters, as the conformance kit asks for them."""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from memory_agent.testing import BruteForceIndex, HashEmbedder
from tests.conformance.conftest import ScriptedStage


class _OneOfSeveral(BruteForceIndex):
    """The index of one model among those of a folder, which erasing reaches as well."""

    def __init__(self, beside: list[BruteForceIndex]) -> None:
        super().__init__()
        self._beside = [*beside]
        beside.append(self)

    async def delete(self, user_id: str, turn_ids: Sequence[str]) -> int:
        others = [await other.delete(user_id, turn_ids) for other in self._beside]
        return await super().delete(user_id, turn_ids) + sum(others)

    async def turn_ids(self, user_id: str, *, searched: bool = False) -> set[str]:
        others = [] if searched else [await other.turn_ids(user_id) for other in self._beside]
        return (await super().turn_ids(user_id, searched=searched)).union(*others)


_IN_FOLDERS: dict[Path, list[BruteForceIndex]] = defaultdict(list)


def index(folder: Path, fingerprint: str) -> BruteForceIndex:
    return _OneOfSeveral(_IN_FOLDERS[folder])


def embedder() -> HashEmbedder:
    return HashEmbedder()


def stage() -> ScriptedStage:
    return ScriptedStage()
