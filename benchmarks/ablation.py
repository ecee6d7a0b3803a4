"""What each part of the search adds: the settings that switch it off (or on).

Signals and their weights are the product's own (`memory_agent.search.fusion.DEFAULT_WEIGHTS`, the setting `search_weights`), so a
new signal appears here by itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from memory_agent import ConfigError, EmbedderError, InvalidInput, LLMError, ModelNotFound

if TYPE_CHECKING:
    from collections.abc import Mapping

NOT_AVAILABLE: Final = (ConfigError, EmbedderError, InvalidInput, LLMError, ModelNotFound)
"""How a variant says that this installation can't run it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Variant:
    """One part of the search switched off or on. `settings`: what differs from the run that it is compared with."""

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)


def variants(
    defaults: Mapping[str, float], given: Mapping[str, float], *, late_interaction: bool | None
) -> list[Variant]:
    """Each signal with a weight switched off, and late interaction the other way round.

    `defaults`: the weights by signal; `given`: those that the run set itself; `late_interaction`: the run's, None if the product
    has none. A signal that weighs nothing already has no variant.
    """
    made = [
        Variant(name=f"without {signal}", settings={"search_weights": {**given, signal: 0.0}})
        for signal, weight in {**defaults, **given}.items()
        if weight
    ]
    if late_interaction is not None:
        name = "without late interaction" if late_interaction else "with late interaction"
        made.append(
            Variant(name=name, settings={"second_stage": "off" if late_interaction else "late_interaction"})
        )
    return made


def variants_of(settings: Mapping[str, Any]) -> list[Variant]:
    """The variants of a run with these settings, by what the installed product knows."""
    from memory_agent import MemoryConfig
    from memory_agent.search.fusion import DEFAULT_WEIGHTS, DETAILED_WEIGHTS

    late = settings.get("second_stage", MemoryConfig.model_fields["second_stage"].default) != "off"
    return variants(
        DETAILED_WEIGHTS if late else DEFAULT_WEIGHTS,
        settings.get("search_weights", {}),
        late_interaction=late,
    )
