"""Texts by which models are compared: of every length, in several scripts, prose and code."""

from typing import Final

SAMPLES: Final = (
    "",
    "ok",
    "Where did I leave the bicycle?",
    "I moved to Lisbon in March, and the flat has a view of the river.",
    "저는 서울에 살고 있고, 주말마다 산에 올라가요.",
    "Mañana tengo cita con el médico a las 9:30. ¿Puedes recordármelo?",
    "def add(a: int, b: int) -> int:\n    return a + b  # wraps never",
    "👍🏽 !!! https://example.org/a?b=c&d=1",
    "The quarterly report is due on Friday, and nobody has started on it yet. " * 12,
    "One sentence follows another until no model reads any further than this. " * 60,
)
