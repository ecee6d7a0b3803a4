"""The dictionary of entities in a TOML file."""

from __future__ import annotations

import tomllib
from importlib import resources
from typing import TYPE_CHECKING, Any, Final

from memory_agent.domain.search import Entity
from memory_agent.errors import ConfigError, InvalidInput
from memory_agent.text.dictionary import EntityDictionary

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_SHAPE: Final = "see docs/entities.md for the format"

SHIPPED_ENTITIES: Final = resources.files("memory_agent.models").joinpath("entities.toml")
"""The dictionary that comes with the package, an example: what is used until the application has its own."""


def load_entities(path: Traversable) -> EntityDictionary:
    """The dictionary in a TOML file of kinds, names and lists of aliases; an empty file is an empty dictionary.

    Blocks while it reads. Raises ConfigError that names the file and the line or the kind and name: for a file that
    cannot be read or is no TOML, for another shape, for a kind or name given twice, and for an alias of two names of one kind.
    """
    try:
        kinds = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as exc:
        wrong = f"cannot be read ({exc.strerror or exc}); create it or name another"
        raise ConfigError(f"the entities file {path} {wrong}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"the entities file {path} is not UTF-8 ({exc}); save it as UTF-8") from exc
    except (tomllib.TOMLDecodeError, RecursionError) as exc:
        raise ConfigError(f"the entities file {path} is not valid TOML: {exc}; {_SHAPE}") from exc
    try:
        for kind, names in kinds.items():
            _check_kind(kind, names)
        return EntityDictionary(kinds)
    except InvalidInput as exc:
        raise ConfigError(f"the entities file {path}: {exc}") from exc


def _check_kind(kind: str, names: Any) -> None:
    """Raise InvalidInput unless this is a table of names with lists of aliases."""
    Entity(kind=kind, name="x")  # so that a kind without names is checked too
    if not isinstance(names, dict):
        raise InvalidInput(f"{kind!r} must be a table of names, [{kind}], not {names!r:.80}; {_SHAPE}")
    for name, aliases in names.items():
        if not isinstance(aliases, list) or not all(isinstance(alias, str) for alias in aliases):
            wanted = 'a list of texts such as ["라네즈"]'
            raise InvalidInput(
                f"the aliases of {kind} {name!r} must be {wanted}, not {aliases!r:.80}; {_SHAPE}"
            )
