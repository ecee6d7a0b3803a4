"""A facts document that knows what each of its values comes from.

Every leaf and every element of a list carries a mark: the key of what stated it. The operations say which marks they
ended and which they met again, and so the fold can tell what was superseded by what.
"""

from __future__ import annotations

import copy
import json
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from memory_agent.domain import FactEvent

Mark = Any
"""What stated a value: any key."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A value with the mark of what stated it."""

    value: Any
    mark: Mark


@dataclass(slots=True)
class Elements:
    """A list: its elements by what they say, in the order they came."""

    by_key: dict[str, Kept]


Node = dict[str, Any] | Elements | Kept
Leaf = tuple[tuple[str, ...], Kept, bool]
"""Where, what, and whether it is an element of a list."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """The effect of an operation: the plain value that gave way (None: nothing), marks that it ended, and met.

    What gave way stood at the path, or above it where an object is needed now.
    """

    old: Any = None
    ended: frozenset[Mark] = frozenset()
    met: frozenset[Mark] = frozenset()
    """Not empty: the same was there already, and the tree has not changed."""


def fact_json(value: Any) -> str:
    """A text that is equal for values that say the same: case and white space of texts don't matter."""
    if isinstance(value, str):
        return " ".join(unicodedata.normalize("NFKC", value).casefold().split())
    return "\0" + json.dumps(_plain_numbers(value), ensure_ascii=False, sort_keys=True)


def _plain_numbers(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _plain_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain_numbers(inner) for inner in value]
    return value


def fact_words(value: Any) -> str:
    """All texts, keys and numbers of `value` as one text, to look for words in."""
    if isinstance(value, dict):
        return " ".join(f"{key.replace('_', ' ')} {fact_words(inner)}" for key, inner in value.items())
    if isinstance(value, list):
        return " ".join(map(fact_words, value))
    return "" if value is None else str(value)


def leaves(document: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any, bool]]:
    """Every scalar and every element of a list: where, what, and whether it is an element."""
    if isinstance(document, dict):
        for key, value in document.items():
            yield from leaves(value, (*path, key))
    elif isinstance(document, list):
        for element in document:
            yield path, element, True
    else:
        yield path, document, False


class FactTree:
    """A facts document of marked values. Paths and values are normalised already."""

    def __init__(self) -> None:
        self._root: dict[str, Node] = {}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> FactTree:
        """A tree of a plain document, every value with the mark 0."""
        tree = FactTree()
        tree._root = {key: _node(value, 0) for key, value in document.items()}
        return tree

    def document(self) -> dict[str, Any]:
        """The plain document, nothing shared with the tree."""
        return {key: _plain(node) for key, node in self._root.items()}

    def marks(self) -> set[Mark]:
        """The marks of everything that stands."""
        return {kept.mark for _, kept, _ in _leaves(self._root)}

    def leaves(self, path: tuple[str, ...] = ()) -> Iterator[Leaf]:
        """The values at or below `path`, in order."""
        node = self._find(path)
        return iter(()) if node is None else _leaves(node, path)

    def __contains__(self, path: tuple[str, ...]) -> bool:
        return self._find(path) is not None

    def is_group(self, path: tuple[str, ...]) -> bool:
        """True if values stand below `path`, each by a key of its own."""
        return isinstance(self._find(path), dict)

    def is_list(self, path: tuple[str, ...]) -> bool:
        """True if a list stands at `path`."""
        return isinstance(self._find(path), Elements)

    def get(self, path: tuple[str, ...]) -> Any:
        """The plain value at `path`; None if nothing stands there."""
        node = self._find(path)
        return None if node is None else _plain(node)

    def in_the_way(self, path: tuple[str, ...]) -> Any:
        """The plain value that has to give way to one at `path`: what stands there, or above it by itself."""
        node: Node = self._root
        for key in path:
            if not isinstance(node, dict):
                break
            if key not in node:
                return None
            node = node[key]
        return _plain(node)

    def copy(self) -> FactTree:
        """An independent copy."""
        other = FactTree()
        other._root = {key: _copied(node) for key, node in self._root.items()}
        return other

    # --- operations ------------------------------------------------------------------------------------------
    def apply(self, event: FactEvent, mark: Mark, *, exactly: bool = False) -> Effect:
        """Apply `event` (anything but a revert)."""
        if event.op == "set":
            return self.set(event.path, event.value, mark, exactly=exactly)
        if event.op == "add":
            return self.add(event.path, event.value, mark)
        if event.op == "remove":
            return self.remove(event.path, event.value)
        return self.retract(event.path)

    def set(self, path: tuple[str, ...], value: Any, mark: Mark, *, exactly: bool = False) -> Effect:
        """`value` (a scalar, a list or an object; not empty) stands at `path`, instead of whatever stood there.

        The same again changes nothing, unless it has to stand there `exactly` as it is spelled.
        """
        before = self._find(path)
        old = self.in_the_way(path)
        after = _node(value, mark)
        if before is not None and _says(before) == _says(after) and (not exactly or old == _plain(after)):
            return Effect(old=old, met=_marks(before))
        return Effect(old=old, ended=self._put(path, after))

    def add(self, path: tuple[str, ...], value: Any, mark: Mark) -> Effect:
        """`value` is an element of the list at `path`; anything but a list there gives way."""
        node, key = self._find(path), fact_json(value)
        if isinstance(node, Elements):
            if (there := node.by_key.get(key)) is not None:
                return Effect(old=there.value, met=frozenset({there.mark}))
            node.by_key[key] = Kept(_own(value), mark)
            return Effect()
        old = self.in_the_way(path)
        return Effect(old=old, ended=self._put(path, Elements({key: Kept(_own(value), mark)})))

    def remove(self, path: tuple[str, ...], value: Any) -> Effect:
        """`value` is no element of the list at `path` any more (or no longer stands there by itself)."""
        node, key = self._find(path), fact_json(value)
        if isinstance(node, Elements) and key in node.by_key:
            gone = node.by_key.pop(key)
        elif isinstance(node, Kept) and fact_json(node.value) == key:
            gone = node
        else:
            return Effect()
        if not isinstance(node, Elements) or not node.by_key:
            self._cut(path)
        return Effect(old=gone.value, ended=frozenset({gone.mark}))

    def retract(self, path: tuple[str, ...]) -> Effect:
        """Nothing stands at or below `path` any more."""
        node = self._find(path)
        if not node:
            return Effect()
        effect = Effect(old=_plain(node), ended=_marks(node))
        if path:
            self._cut(path)
        else:
            self._root = {}
        return effect

    def restore(self, path: tuple[str, ...], earlier: FactTree) -> Effect:
        """Put back at `path` what `earlier` holds there, and nothing else. `met` are the marks that came back.

        Where a value stood above `path` instead of what goes now, it comes back.
        """
        before = self._find(path)
        old = _plain(before) if before else None
        had = frozenset() if before is None else _marks(before)
        node = earlier._find(path)
        if node is None:
            self.retract(path)
            met = self._restore_above(path, earlier) if had else frozenset()
            return Effect(old=old, ended=had, met=met)
        has = _marks(node)
        ended: frozenset[Mark] = had - has
        if path:
            ended |= self._put(path, _copied(node)) - has
        else:
            self._root = earlier.copy()._root
        return Effect(old=old, ended=ended, met=has - had)

    def drop(self, marks: Collection[Mark]) -> None:
        """Values with one of these marks stand no more."""
        for path, kept, _ in list(_leaves(self._root)):
            if kept.mark in marks:
                self.remove(path, kept.value)

    # --- inside ----------------------------------------------------------------------------------------------
    def _restore_above(self, path: tuple[str, ...], earlier: FactTree) -> frozenset[Mark]:
        for above in (path[:length] for length in range(1, len(path))):
            node = earlier._find(above)
            if node is not None and not isinstance(node, dict) and self.in_the_way(above) is None:
                self._put(above, _copied(node))
                return _marks(node)
        return frozenset()

    def _find(self, path: tuple[str, ...]) -> Node | None:
        node: Node = self._root
        for key in path:
            if not isinstance(node, dict) or key not in node:
                return None
            node = node[key]
        return node

    def _put(self, path: tuple[str, ...], new: Node) -> frozenset[Mark]:
        """Put `new` at `path`; the marks of what had to give way, also where an object is needed on the way."""
        ended: frozenset[Mark] = frozenset()
        inner = self._root
        for key in path[:-1]:
            below = inner.get(key, {})
            if not isinstance(below, dict):
                ended |= _marks(below)
                below = {}
            inner[key] = below
            inner = below
        ended |= _marks(inner.get(path[-1], {}))
        inner[path[-1]] = new
        return ended

    def _cut(self, path: tuple[str, ...]) -> None:
        """Take out what stands at `path`, and the objects around it that become empty."""
        parent: Node | None = {}
        while path and not parent:
            parent = self._find(path[:-1])
            if isinstance(parent, dict):
                parent.pop(path[-1])
            path = path[:-1]


def _node(value: Any, mark: Mark) -> Node:
    if isinstance(value, dict):
        return {key: _node(inner, mark) for key, inner in value.items()}
    if isinstance(value, list):
        elements: dict[str, Kept] = {}
        for element in value:
            elements.setdefault(fact_json(element), Kept(_own(element), mark))
        return Elements(elements)
    return Kept(value, mark)


def _own(value: Any) -> Any:
    """A copy of a value that can be changed; most can't, and `deepcopy` takes its time to find that out."""
    return copy.deepcopy(value) if isinstance(value, dict | list) else value


def _plain(node: Node) -> Any:
    if isinstance(node, dict):
        return {key: _plain(inner) for key, inner in node.items()}
    if isinstance(node, Elements):
        return [_own(kept.value) for kept in node.by_key.values()]
    return _own(node.value)


def _says(node: Node) -> Any:
    """Equal for nodes that say the same."""
    if isinstance(node, dict):
        return {key: _says(inner) for key, inner in node.items()}
    return list(node.by_key) if isinstance(node, Elements) else (fact_json(node.value),)


def _copied(node: Node) -> Node:
    if isinstance(node, dict):
        return {key: _copied(inner) for key, inner in node.items()}
    return Elements(dict(node.by_key)) if isinstance(node, Elements) else node


def _marks(node: Node) -> frozenset[Mark]:
    return frozenset(kept.mark for _, kept, _ in _leaves(node))


def _leaves(node: Node, path: tuple[str, ...] = ()) -> Iterator[Leaf]:
    if isinstance(node, dict):
        for key, inner in node.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(node, Elements):
        for kept in node.by_key.values():
            yield path, kept, True
    else:
        yield path, node, False
