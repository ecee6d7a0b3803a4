"""The sentences about files that Anthropic's memory tool tells the model, word for word as it was trained on them. Pure."""

from __future__ import annotations

import posixpath
from collections import defaultdict
from typing import TYPE_CHECKING, Final

from memory_agent.checks import is_whole
from memory_agent.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROOT: Final = "/memories"
_WIDTH: Final = 6
"""Of a line's number."""
_UNITS: Final = "BKMG"


def checked_path(path: str) -> str:
    """The path without `.`, `..` and doubled slashes. Raises InvalidInput if it is not below /memories.

    >>> checked_path("/memories/a/../b//c.md/")
    '/memories/b/c.md'
    """
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise InvalidInput(f"Path must start with {ROOT}, got: {path}")
    plain = posixpath.normpath(path)
    if plain != ROOT and not plain.startswith(f"{ROOT}/"):
        raise InvalidInput(f"Path {path} would escape {ROOT} directory")
    return plain


def not_there(path: str) -> NotFound:
    """The error for a path that is neither a file nor a directory."""
    return NotFound(f"The path {path} does not exist. Please provide a valid path.")


def listed(path: str, sizes: Mapping[str, int]) -> str:
    """A directory, two levels deep. `sizes`: bytes of all files below it, by their paths."""
    shown: dict[tuple[str, ...], int] = defaultdict(int)
    directories = set()
    for file, size in sizes.items():
        parts = tuple(file[len(path) + 1 :].split("/"))
        if any(part.startswith(".") for part in parts[:2]):
            continue
        for depth in range(1, min(len(parts), 2) + 1):
            shown[parts[:depth]] += size
            if depth < len(parts):
                directories.add(parts[:depth])
    lines = [
        f"{size_of(shown[parts])}\t{path}/{'/'.join(parts)}{'/' if parts in directories else ''}"
        for parts in sorted(shown)
    ]
    head = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
    return "\n".join([head, f"{size_of(sum(sizes.values()))}\t{path}", *lines])


def size_of(count: int) -> str:
    """A number of bytes as the tool shows it.

    >>> [size_of(count) for count in (0, 13, 1024, 1536, 5_000_000)]
    ['0B', '13B', '1K', '1.5K', '4.8M']
    """
    power = min(max(count.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    return f"{count / 1024**power:.1f}".removesuffix(".0") + _UNITS[power]


def numbered(path: str, text: str, view_range: object) -> str:
    """A file, or the lines from the first to the last one of `view_range` (-1: to the end). Raises InvalidInput for another."""
    lines, first = text.split("\n"), 1
    if view_range not in (None, []):
        if (
            not isinstance(view_range, list | tuple)
            or len(view_range) != 2
            or not all(is_whole(line, -1) for line in view_range)
        ):
            raise InvalidInput(f"Invalid `view_range` parameter: {view_range}. Pass two line numbers.")
        first, last = max(1, view_range[0]), view_range[1]
        lines = lines[first - 1 : len(lines) if last == -1 else last]
    return f"Here's the content of {path} with line numbers:\n{_lines(lines, first)}"


def replaced(path: str, text: str, old: str, new: str) -> tuple[str, str]:
    """The text with `new` in the one place where `old` stood, and what is told of that. Raises InvalidInput."""
    where = _found(text, old)
    lines = [text.count("\n", 0, at) + 1 for at in where]
    if not where:
        raise InvalidInput(
            f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}."
        )
    if text.count(old) > 1:
        raise InvalidInput(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: "
            f"{', '.join(map(str, lines))}. Please ensure it is unique"
        )
    changed = text.replace(old, new)
    first = max(1, lines[0] - 2)
    return changed, (
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
        + _lines(changed.split("\n")[first - 1 : lines[0] + 2], first)
    )


def inserted(text: str, below: int, new: str) -> str:
    """The text with `new` below a line of it, 0 for above the first. Raises InvalidInput."""
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    if not is_whole(below, 0, len(lines)):
        raise InvalidInput(
            f"Invalid `insert_line` parameter: {below}. It should be within the range [0, {len(lines)}]."
        )
    joined = "\n".join([*lines[:below], new.rstrip("\n"), *lines[below:]])
    return joined if joined.endswith("\n") else f"{joined}\n"


def _found(text: str, part: str) -> list[int]:
    """Where `part` begins in `text`."""
    found = []
    at = text.find(part) if part else -1
    while at != -1:
        found.append(at)
        at = text.find(part, at + 1)
    return found


def _lines(lines: Iterable[str], first: int) -> str:
    return "\n".join(f"{number:>{_WIDTH}}\t{line}" for number, line in enumerate(lines, first))
