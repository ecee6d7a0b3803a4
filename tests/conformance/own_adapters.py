"""Factories of the project's own adapters, as the conformance kit asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_agent.testing import BruteForceIndex, HashEmbedder
from tests.conformance.conftest import ScriptedStage

if TYPE_CHECKING:
    from pathlib import Path


def index(folder: Path, fingerprint: str) -> BruteForceIndex:
    return BruteForceIndex()


def embedder() -> HashEmbedder:
    return HashEmbedder()


def stage() -> ScriptedStage:
    return ScriptedStage()
