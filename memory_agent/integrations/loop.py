"""The event loop that a memory lives on, for frameworks that call from other threads and loops."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from memory_agent.errors import InvalidInput, NotOpen

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


class Loop:
    """The event loop on which the memory lives, for calls from anywhere."""

    def __init__(self, what: str) -> None:
        self._what = what
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            raise NotOpen(
                f"{what} is made where the memory's event loop runs, in an async function"
            ) from None

    async def reach(self, call: Coroutine[Any, Any, T]) -> T:
        """Await the call on the memory's loop."""
        if asyncio.get_running_loop() is self._loop:
            return await call
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call, self._loop))

    def wait(self, call: Coroutine[Any, Any, T]) -> T:
        """Wait for the call from another thread. Raises InvalidInput on a thread with a loop, which it would hold up."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run_coroutine_threadsafe(call, self._loop).result()
        call.close()
        raise InvalidInput(
            f"{self._what} was asked without await on an event loop's own thread; use its async methods"
        )
