"""The files of Anthropic's memory tool, kept in a memory: versioned, one user's own, and erased with the user.

A file is a thread of the user whose id is the file's path, and each version of it a turn; the newest one is the file. The text is
in the turn's metadata, where no search, summary or fact finds an older version of it. A deleted file leaves one turn without text.

Nothing written is lost when several write at once: a version carries the idempotency key "the first after …" of the one
that it was made from, so that of two made from the same one the second is refused, and made again from the first.
"""

from __future__ import annotations

import inspect
import itertools
import posixpath
import uuid
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from memory_agent.checks import MAX_METADATA_CHARS, is_whole
from memory_agent.domain import DEFAULT_TENANT, VERBATIM, TurnInput
from memory_agent.errors import IdempotencyKeyReused, InvalidInput, NotFound, TurnForgotten
from memory_agent.integrations.shared import side_by_side, turns_in

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from memory_agent.domain import Turn
    from memory_agent.integrations.shared import Memory, Service

# --- what the model is told, word for word as it was trained on it -------------------------------------------
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


# --- files ---------------------------------------------------------------------------------------------------
COMMANDS: Final = ("view", "create", "str_replace", "insert", "delete", "rename")
MAX_FILE_CHARS: Final = MAX_METADATA_CHARS - 1_000
"""Line breaks and quotation marks count twice."""
MAX_RENAMED_CHARS: Final = 1_000_000
"""Older versions that go along with a renamed file; those before them don't."""
_NOTHING_TO_FIND: Final = "-"
"""What the turns say, since a turn says something."""
_PAGE: Final = 100


@dataclass(frozen=True, kw_only=True, slots=True)
class FileVersion:
    """A text that a file had, from `written_at` on. `id`: for `restore`."""

    id: str
    text: str
    written_at: datetime


class MemoryFiles:
    """The files below /memories of one user. Each command returns, or raises as InvalidInput, what the tool tells the model.

    Over MemoryService, or ServiceClient over HTTP. A file holds up to 99,000 characters, a path up to 512.
    """

    def __init__(self, service: Service, user_id: str, *, tenant: str = DEFAULT_TENANT) -> None:
        self._service, self._user_id, self._tenant = service, user_id, tenant

    async def run(self, command: Mapping[str, Any]) -> str:
        """Run a tool call's input, such as `{"command": "view", "path": "/memories"}`.

        Raises InvalidInput for a call that makes no sense, too.
        """
        asked = dict(command)
        name = asked.pop("command", None)
        if name not in COMMANDS:
            raise InvalidInput(f"command is {name!r:.80}; use one of {', '.join(COMMANDS)}")
        method = getattr(self, name)
        try:
            inspect.signature(method).bind(**asked)
        except TypeError as exc:
            raise InvalidInput(f"{name}: {exc}") from None
        for argument, value in asked.items():
            if argument not in ("view_range", "insert_line") and not isinstance(value, str):
                raise InvalidInput(f"{argument} is {value!r:.80}; pass text")
        told: str = await method(**asked)
        return told

    # --- reading -----------------------------------------------------------------------------------------
    async def view(self, path: str, view_range: Sequence[int] | None = None) -> str:
        """A file with line numbers (`view_range`: first and last line, -1 for the end), or a directory two levels deep."""
        path = checked_path(path)
        newest = await self.newest(path)
        text = None if newest is None else text_of(newest)
        return await self._view_directory(path) if text is None else numbered(path, text, view_range)

    async def read(self, path: str) -> str:
        """The text of a file. Raises NotFound."""
        return (await self._file(checked_path(path)))[1]

    async def versions(self, path: str) -> list[FileVersion]:
        """The texts that a file had since it was created, oldest first; the last one is what it holds."""
        turns = await self._versions(checked_path(path))
        return [
            FileVersion(id=turn.id, text=text_of(turn) or "", written_at=turn.timestamp) for turn in turns
        ]

    async def _view_directory(self, path: str) -> str:
        sizes = {name: len((text_of(turn) or "").encode()) async for name, turn in self.files(path)}
        if not sizes and path != ROOT:
            raise not_there(path)
        return listed(path, sizes)

    # --- writing -----------------------------------------------------------------------------------------
    async def create(self, path: str, file_text: str) -> str:
        """A new file. Raises InvalidInput where there is one."""
        path = checked_path(path)
        if path == ROOT or await self._is_directory(path):
            raise InvalidInput(f"File {path} already exists")
        await self._check_above(path)
        newest = await self.newest(path)
        if _is_file(newest) or not await self.append(path, [file_text], newest):
            raise InvalidInput(f"File {path} already exists")
        if newest is not None:
            await self.erase(path, through=newest.seq - 1)  # what a deletion that was cut short left
        return f"File created successfully at: {path}"

    async def str_replace(self, path: str, old_str: str, new_str: str = "") -> str:
        """Replace what stands exactly once in a file."""
        path = checked_path(path)
        return await self._edit(path, lambda text: replaced(path, text, old_str, new_str))

    async def insert(self, path: str, insert_line: int, insert_text: str) -> str:
        """Insert text below a line of a file; 0 is above the first."""
        path = checked_path(path)
        edited = f"The file {path} has been edited."
        return await self._edit(path, lambda text: (inserted(text, insert_line, insert_text), edited))

    async def delete(self, path: str) -> str:
        """Erase a file with all its versions, or a directory; the path stays known until the user is forgotten."""
        path = checked_path(path)
        if path == ROOT:
            raise InvalidInput(f"Cannot delete the {ROOT} directory itself")
        if not await self._delete_all(path):
            raise NotFound(f"The path {path} does not exist")
        return f"Successfully deleted {path}"

    async def rename(self, old_path: str, new_path: str) -> str:
        """Move a file, or the files of a directory one after the other, with their versions."""
        old, new = checked_path(old_path), checked_path(new_path)
        if old == ROOT:
            raise InvalidInput(f"Cannot rename the {ROOT} directory itself")
        found = _is_file(await self.newest(old))
        names = [old] if found else [name async for name, _ in self.files(old)]
        if not names:
            raise NotFound(f"The path {old} does not exist")
        if new == ROOT or _is_file(await self.newest(new)) or await self._is_directory(new):
            raise InvalidInput(f"The destination {new} already exists")
        if new.startswith(f"{old}/"):
            raise InvalidInput(f"Cannot rename {old} to {new}, which is inside of it")
        await self._check_above(new)
        for name in names:
            await self._move(name, new + name[len(old) :])
        return f"Successfully renamed {old} to {new}"

    async def restore(self, path: str, version_id: str) -> str:
        """Write again what a version of the file (an id of `versions`) held. Raises NotFound."""
        path = checked_path(path)
        kept = {turn.id: text_of(turn) for turn in await self._versions(path)}
        if (text := kept.get(version_id)) is None:
            raise NotFound(
                f"version_id is {version_id!r:.80}, and {path} has no such version; see versions()"
            )
        return await self._edit(path, lambda _: (text, f"The file {path} has been edited."))

    async def clear(self) -> str:
        """Erase all files."""
        await self._delete_all(ROOT)
        return "All memory cleared"

    # --- threads and turns -------------------------------------------------------------------------------
    def _thread(self, path: str) -> Memory:
        return self._service.agent(self._user_id, path, tenant=self._tenant)

    async def newest(self, path: str) -> Turn | None:
        """The turn that says what a path holds; None if nothing ever did."""
        turns = await self._thread(path).fetch_short_term(1)
        return turns[0] if turns else None

    async def _file(self, path: str) -> tuple[Turn, str]:
        """The newest version of a file, and its text. Raises as commands on a single file do."""
        newest = await self.newest(path)
        if newest is not None and (text := text_of(newest)) is not None:
            return newest, text
        if path == ROOT or await self._is_directory(path):
            raise InvalidInput(f"The path {path} is not a file.")
        raise not_there(path)

    async def files(self, directory: str) -> AsyncIterator[tuple[str, Turn]]:
        """Each file below a directory, by its path, with its newest version."""
        after: str | None = f"{directory}/"
        while after is not None:
            page = await self._thread(ROOT).threads(after=after, limit=_PAGE)
            names = [t.thread_id for t in page.threads if t.thread_id.startswith(f"{directory}/") and t.turns]
            newest = await side_by_side(map(self.newest, names))
            for name, turn in zip(names, newest, strict=True):
                if turn is not None and _is_file(turn):
                    yield name, turn
            last = page.threads[-1].thread_id if page.threads else ""
            after = page.next if last.startswith(f"{directory}/") else None

    async def _is_directory(self, path: str) -> bool:
        async for _ in self.files(path):
            return True
        return False

    async def _check_above(self, path: str) -> None:
        """Raise InvalidInput if something above the path is a file."""
        above = posixpath.dirname(path)
        while above not in (ROOT, "/"):
            if _is_file(await self.newest(above)):
                raise InvalidInput(f"The path {above} is a file, so that {path} cannot be below it.")
            above = posixpath.dirname(above)

    async def _versions(self, path: str) -> list[Turn]:
        await self._file(path)
        found: list[Turn] = []
        async for turn in turns_in(self._thread(path), at_once=_PAGE):
            found = [*found, turn] if _is_file(turn) else []
        return found

    async def append(
        self,
        path: str,
        texts: Sequence[str | None],
        after: Turn | None,
        times: Sequence[datetime] = (),
    ) -> Turn | None:
        """The last of the versions that now follow `after`; None, with nothing written, if something else does.

        A text that is None: deleted. `times`: of versions that are moved.
        """
        call = uuid.uuid4().hex  # two calls never say the same
        turns = [
            TurnInput(
                role="tool",
                content=_NOTHING_TO_FIND,
                timestamp=at,
                metadata={VERBATIM: text, "call": call},
            )
            for text, at in itertools.zip_longest(texts, times)
        ]
        for count in itertools.count():
            key = f"{count}. after {'nothing' if after is None else after.id}"
            try:
                return (await self._thread(path).add_turns(turns, idempotency_key=key))[-1]
            except IdempotencyKeyReused:
                return None
            except (
                TurnForgotten
            ):  # what followed once was erased; the next key, unless others stand there now
                newest = await self.newest(path)
                if (newest and newest.id) != (after and after.id):
                    return None
            except InvalidInput as exc:  # not before: what is kept already may have grown by redaction
                for text in texts:
                    if text is not None and len(repr(text)) > MAX_FILE_CHARS:
                        raise InvalidInput(
                            f"File {path} would have {len(text):,} characters, and at most {MAX_FILE_CHARS:,} "
                            "fit (line breaks count twice); split it into several files"
                        ) from exc
                raise
        raise AssertionError

    async def _edit(self, path: str, change: Callable[[str], tuple[str, str]]) -> str:
        """Write what `change` makes of the file's text; what it tells of that."""
        while True:
            newest, text = await self._file(path)
            changed, told = change(text)
            if await self.append(path, [changed], newest):
                return told

    async def _move(self, old: str, new: str) -> None:
        turns = await self._versions(old)
        kept, room = [turns[-1]], MAX_RENAMED_CHARS
        for turn in turns[-2::-1]:
            room -= len(text_of(turn) or "")
            if room < 0:
                break
            kept.insert(0, turn)
        taken = await self.newest(new)
        moved = None
        if not _is_file(taken):
            times = [turn.timestamp for turn in kept]
            moved = await self.append(new, [text_of(turn) for turn in kept], taken, times)
        if moved is None:
            raise InvalidInput(f"The destination {new} already exists")
        while not (gone := await self.append(old, [None], turns[-1])):  # edited meanwhile: that goes along
            newest, text = await self._file(old)
            turns = [newest]
            moved = await self.append(new, [text], moved, [newest.timestamp])
            if moved is None:
                raise InvalidInput(f"{old} and {new} were both edited while one was renamed to the other")
        await self.erase(old, through=gone.seq - 1)

    async def _delete_all(self, path: str) -> int:
        names = [name async for name, _ in self.files(path)]
        if path != ROOT and _is_file(await self.newest(path)):
            names.append(path)
        await side_by_side(map(self._delete, names))
        return len(names)

    async def _delete(self, path: str) -> None:
        newest = await self.newest(path)
        while newest is not None and _is_file(newest):
            gone = await self.append(path, [None], newest)
            if gone is not None:
                await self.erase(path, through=gone.seq - 1)
                return
            newest = await self.newest(path)  # edited meanwhile

    async def erase(self, path: str, *, through: int) -> None:
        """Erase the versions of a path up to this number."""
        thread = self._thread(path)
        ids = [turn.id async for turn in turns_in(thread, at_once=_PAGE) if turn.seq <= through]
        if ids:
            await thread.forget(ids)


def text_of(turn: Turn) -> str | None:
    """The text of a version; None of a deletion, and of what is no file's."""
    text: str | None = turn.metadata.get(VERBATIM)
    return text


def _is_file(newest: Turn | None) -> bool:
    return newest is not None and text_of(newest) is not None
