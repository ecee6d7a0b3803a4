"""The branch of a conversation that was last shown, among answers made anew and messages edited."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def last_shown(parents: Mapping[str, str | None], newest: Mapping[str, float], leaf: str | None) -> list[str]:
    """Nodes from a root to `leaf`, oldest first; without one, along the children whose subtrees hold the newest message.

    `parents`: of each node, in the file's order; one that is no node stands for none. `newest`: the time of each node that
    has a message. Of equal times the later node counts. Cycles are walked once.
    """
    if leaf is None or leaf not in parents:
        leaf = _newest_leaf(parents, newest)
    path: list[str] = []
    met: set[str] = set()
    while leaf is not None and leaf in parents and leaf not in met:
        met.add(leaf)
        path.append(leaf)
        leaf = parents[leaf]
    return path[::-1]


def _newest_leaf(parents: Mapping[str, str | None], newest: Mapping[str, float]) -> str | None:
    if not newest:
        return None
    order = {node: (newest.get(node, -1.0), place) for place, node in enumerate(parents)}
    children: dict[str | None, list[str]] = {}
    for node, parent in parents.items():
        children.setdefault(parent, []).append(node)
    # The newest message of all is in the subtree of each node above it. Below it there may be older ones.
    leaf = max(newest, key=order.__getitem__)
    seen = {leaf}
    while below := [node for node in children.get(leaf, ()) if node in newest and node not in seen]:
        leaf = max(below, key=order.__getitem__)
        seen.add(leaf)
    return leaf
