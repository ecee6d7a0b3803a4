"""The memory store of Pydantic AI's harness over files in a memory."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

from pydantic_ai_harness.memory import (
    MemoryConflictError,
    MemoryFile,
    MemoryMutation,
    MemoryOperation,
    MemoryOperationConflictError,
)

from memory_agent.domain import DEFAULT_TENANT
from memory_agent.errors import InvalidInput
from memory_agent.integrations.memory_file_texts import ROOT
from memory_agent.integrations.memory_files import MemoryFiles, text_of

if TYPE_CHECKING:
    from memory_agent.domain import Turn
    from memory_agent.integrations.values import Memory, Service

_PART: Final = re.compile(r"(?!\.$)(?!.*\.\.)[A-Za-z0-9_.-]{1,200}")
"""Of a path, by the rules of the harness' own stores."""
_RECEIPTS: Final = 64
"""Kept, at least, in each of sixteen threads: by them an operation that is called again is known."""


class HarnessMemoryStore:
    """One user's notebook: `Memory(HarnessMemoryStore(service, "ada"))`. `files` are its files, for the application.

    Each version of a file is kept until the file is deleted, and its id is the version. Of two that write from the same one the
    second gets MemoryConflictError, in whatever processes they are.
    """

    def __init__(self, service: Service, user_id: str, *, tenant: str = DEFAULT_TENANT) -> None:
        self.files = MemoryFiles(service, user_id, tenant=tenant)
        self._service, self._user_id, self._tenant = service, user_id, tenant

    def _receipts(self, operation: MemoryOperation) -> Memory:
        share = hashlib.sha256(operation.id.encode()).hexdigest()[0]
        return self._service.agent(self._user_id, f"/memory-operations/{share}", tenant=self._tenant)

    async def read(self, path: str, *, max_chars: int) -> MemoryFile | None:
        """A file, or its first characters; None if there is none."""
        _check_positive("max_chars", max_chars)
        newest = await self.files.newest(_checked(path))
        text = None if newest is None else text_of(newest)
        if newest is None or text is None:
            return None
        return MemoryFile(
            content=text[:max_chars],
            version=newest.id,
            operation_id=newest.metadata.get("operation"),
            truncated=len(text) > max_chars,
        )

    async def get_operation(self, operation: MemoryOperation) -> MemoryMutation | None:
        """The receipt of an operation that was done already; None of a new one. Raises MemoryOperationConflictError if another one had its id."""
        for turn in reversed(await self._receipts(operation).fetch_short_term(2 * _RECEIPTS)):
            if _is_of(operation, turn):
                receipt = turn.metadata
                return MemoryMutation(version=receipt["version"], replayed=True, existed=receipt["existed"])
        return None

    async def write(
        self,
        path: str,
        content: str,
        *,
        expected_version: str | None,
        operation: MemoryOperation | None = None,
    ) -> MemoryMutation:
        """Create or replace a file. Raises MemoryConflictError if another version stands than is expected."""
        return await self._change(_checked(path), content, expected_version, operation)

    async def delete(
        self, path: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        """Erase a file with all its versions. Raises MemoryConflictError as `write` does."""
        return await self._change(_checked(path), None, expected_version, operation)

    async def list_paths(self, prefix: str = "", *, limit: int) -> list[str]:
        """The paths that begin like this, sorted."""
        _check_positive("limit", limit)
        if prefix:
            _checked(prefix.removesuffix("/"))
        above, _, _ = f"{ROOT}/{prefix}".rpartition("/")
        names = [name.removeprefix(f"{ROOT}/") async for name, _ in self.files.files(above)]
        return sorted(name for name in names if name.startswith(prefix) and _is_path(name))[:limit]

    async def _change(
        self, path: str, text: str | None, expected_version: str | None, operation: MemoryOperation | None
    ) -> MemoryMutation:
        if operation and (receipt := await self.get_operation(operation)):
            return receipt
        newest = await self.files.newest(path)
        made = newest if newest and operation and _is_of(operation, newest) else None
        if made is None:  # else it was cut short before its receipt
            made = await self._append(path, text, newest, expected_version, operation)
        if made and (text is None or (newest and text_of(newest) is None)):
            await self.files.erase(
                path, through=made.seq - 1
            )  # also what a deletion that was cut short has left
        mutation = MemoryMutation(
            version=made.id if made and text is not None else None,
            replayed=False,
            existed=made.metadata["existed"] if made else False,
        )
        if operation:
            receipts = self._receipts(operation)
            done = {"version": mutation.version, "existed": mutation.existed}
            await receipts.add_turn("tool", "-", metadata={**_about(operation), **done})
            kept = await receipts.fetch_short_term(2 * _RECEIPTS)
            if len(kept) == 2 * _RECEIPTS:
                await receipts.forget([turn.id for turn in kept[:_RECEIPTS]])
        return mutation

    async def _append(
        self,
        path: str,
        text: str | None,
        newest: Turn | None,
        expected_version: str | None,
        operation: MemoryOperation | None,
    ) -> Turn | None:
        """The turn that now says what the path holds; None where there was nothing to delete."""
        current = newest if newest and text_of(newest) is not None else None
        if (current.id if current else None) != expected_version:
            raise MemoryConflictError(f"{path} has another version than {expected_version}")
        if text is None and current is None:
            return None
        about = {"existed": current is not None, **_about(operation)}
        made = await self.files.append(path, [text], newest, metadata=about)
        if made is None:
            raise MemoryConflictError(f"{path} was changed by somebody else at the same time")
        return made


def _about(operation: MemoryOperation | None) -> dict[str, str]:
    return {"operation": operation.id, "fingerprint": operation.fingerprint} if operation else {}


def _is_of(operation: MemoryOperation, turn: Turn) -> bool:
    """Whether the operation made the turn. Raises MemoryOperationConflictError if another one of its id did."""
    if turn.metadata.get("operation") != operation.id:
        return False
    if turn.metadata["fingerprint"] != operation.fingerprint:
        raise MemoryOperationConflictError(f"operation {operation.id} was another one before")
    return True


def _is_path(path: str) -> bool:
    return all(map(_PART.fullmatch, path.split("/")))


def _checked(path: str) -> str:
    if not _is_path(path):
        raise InvalidInput(
            f"path is {path!r:.80}; its parts are up to 200 letters, digits, _, - and ., without . and .."
        )
    return f"{ROOT}/{path}"


def _check_positive(name: str, value: int) -> None:
    if value <= 0:
        raise InvalidInput(f"{name} is {value}; pass 1 or more")
