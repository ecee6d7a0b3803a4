"""The dictionary of entities in a YAML file."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING, Final

import yaml

from memory_agent.domain.entities import Entity
from memory_agent.errors import ConfigError, InvalidInput
from memory_agent.text.dictionary import EntityDictionary

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

# In C where PyYAML has it: about ten times as fast.
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULL: Final = "tag:yaml.org,2002:null"
_SHAPE: Final = "see docs/entities.md for the format"

SHIPPED_ENTITIES: Final = resources.files("memory_agent.models").joinpath("entities.yaml")
"""The dictionary that comes with the package, an example: what is used until the application has its own."""


def load_entities(path: Traversable) -> EntityDictionary:
    """The dictionary in a YAML file of kinds, names and lists of aliases; an empty file is an empty dictionary.

    Every scalar is read as the text it is written as: `No` and `1984` are names. Blocks while it reads.
    Raises ConfigError that names the file and, where there are such, line, kind and name: for a file that cannot be
    read or is no YAML, for another shape, for a kind or name given twice, and for an alias of two names of one kind.
    """
    try:
        # Nodes instead of values: they know their lines, and keep a key that is given twice.
        root = yaml.compose(path.read_text(encoding="utf-8-sig"), Loader=_LOADER)
    except OSError as exc:
        wrong = f"cannot be read ({exc.strerror or exc}); create it or name another"
        raise ConfigError(f"the entities file {path} {wrong}") from exc
    except UnicodeDecodeError as exc:
        raise ConfigError(f"the entities file {path} is not UTF-8 ({exc}); save it as UTF-8") from exc
    except (yaml.YAMLError, RecursionError) as exc:
        raise ConfigError(f"the entities file {path} is not valid YAML: {exc}") from exc
    kinds: dict[str, dict[str, list[str]]] = {}
    for key, names in _pairs(path, root, "the file", "kinds"):
        try:
            kind = Entity(kind=key.value, name="x").kind  # also one without names is checked
        except InvalidInput as exc:
            raise _refused(path, key, exc) from exc
        kinds[kind] = {
            name.value: _aliases(path, aliases, kind, name.value)
            for name, aliases in _pairs(path, names, f"kind {kind!r}", "names")
        }
    try:
        return EntityDictionary(kinds)
    except InvalidInput as exc:
        raise ConfigError(f"the entities file {path}: {exc}") from exc


def _pairs(
    path: Traversable, node: yaml.Node | None, what: str, of: str
) -> Iterator[tuple[yaml.ScalarNode, yaml.Node]]:
    """The keys of a mapping, each once, with what stands under them; none of an empty one."""
    if node is None or _is_empty(node):
        return
    if not isinstance(node, yaml.MappingNode):
        raise _refused(path, node, f"{what} must be a mapping of {of}, not {_kind(node)}; {_SHAPE}")
    seen: set[str] = set()
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise _refused(path, key, f"{what} has {_kind(key)} for one of its {of}; {_SHAPE}")
        if key.value in seen:
            raise _refused(path, key, f"{what} has {key.value!r} a second time; join the two entries")
        seen.add(key.value)
        yield key, value


def _aliases(path: Traversable, node: yaml.Node, kind: str, name: str) -> list[str]:
    what = f"the aliases of {kind} {name!r}"
    if _is_empty(node):
        return []
    if not isinstance(node, yaml.SequenceNode):
        wanted = "a list such as [라네즈]"
        raise _refused(path, node, f"{what} must be {wanted}, not {_kind(node)}; {_SHAPE}")
    for alias in node.value:
        if not isinstance(alias, yaml.ScalarNode) or _is_empty(alias):
            remedy = "write each as text, in quotes if it has signs that YAML reads otherwise"
            raise _refused(path, alias, f"{what} hold {_kind(alias)}; {remedy}")
    return [alias.value for alias in node.value]


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == _NULL


def _kind(node: yaml.Node) -> str:
    if _is_empty(node):
        return "nothing"
    if isinstance(node, yaml.ScalarNode):
        return f"the text {node.value!r:.80}"
    return "a mapping" if isinstance(node, yaml.MappingNode) else "a list"


def _refused(path: Traversable, node: yaml.Node, why: object) -> ConfigError:
    return ConfigError(f"the entities file {path}, line {node.start_mark.line + 1}: {why}")
