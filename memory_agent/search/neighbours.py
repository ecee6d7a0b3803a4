"""Neighbours of search rows: the turns before and after, and the session.

Rows come in the order in which they were indexed, which is nearly always the order in which they were said. Then a
new row costs one look; one that belongs between others has the links of its thread made anew at the next question.
"""

from __future__ import annotations

import sys
from array import array
from typing import TYPE_CHECKING

import numpy as np

from memory_agent.search.postings import Layout

if TYPE_CHECKING:
    from numpy.typing import NDArray


class TurnOrder:
    """Thread, session and `seq` of each row; positions are given from 0 upwards.

    `whole`: all rows of each thread are here, so that the nearest one is what was said before; else only the one
    numbered next to it is.
    """

    def __init__(self, *, whole: bool = True) -> None:
        self._most_apart = sys.maxsize if whole else 1
        self._threads: dict[str, int] = {}
        self._sessions: dict[tuple[str, str | None], int] = {}
        self._thread = array("i")
        self._session = array("i")
        self._seq = array("q")
        self._before = array("i")
        self._after = array("i")
        self._last: dict[int, int] = {}
        self._in_order = True
        self._layout: Layout | None = None

    def __len__(self) -> int:
        return len(self._seq)

    def add(self, thread_id: str, session_id: str | None, seq: int) -> int:
        """The next row; the position of the row before it in its session, -1 if it has none (so far)."""
        position, self._layout = len(self._seq), None
        thread = self._threads.setdefault(thread_id, len(self._threads))
        session = self._sessions.setdefault((thread_id, session_id), len(self._sessions))
        last = self._last.get(thread, -1)
        before = -1
        if last >= 0 and seq < self._seq[last]:
            self._in_order = False
        else:
            self._last[thread] = position
            if last >= 0 and self._session[last] == session and seq - self._seq[last] <= self._most_apart:
                before = last
                self._after[last] = position
        self._thread.append(thread)
        self._session.append(session)
        self._seq.append(seq)
        self._before.append(before)
        self._after.append(-1)
        return before

    @property
    def sessions(self) -> int:
        """Number of sessions that the rows are of."""
        return len(self._sessions)

    @property
    def in_order(self) -> bool:
        """False after a row that belongs between others, until the next `layout`."""
        return self._in_order

    def layout(self) -> Layout:
        """The current position of every row: the same object until there is another row."""
        if not self._in_order:
            self._link()
        if self._layout is None:
            self._layout = Layout(
                before=np.array(self._before, dtype=np.intp),
                after=np.array(self._after, dtype=np.intp),
                session=np.array(self._session, dtype=np.intp),
                sessions=len(self._sessions),
            )
        return self._layout

    def in_thread(self, thread_id: str) -> NDArray[np.bool_] | None:
        """Boolean mask of the thread's rows, shape (n,); None if all are."""
        if len(self._threads) == 1 and thread_id in self._threads:
            return None
        mask: NDArray[np.bool_] = np.array(self._thread, dtype=np.int32) == self._threads.get(thread_id, -1)
        return mask

    def before(
        self,
        positions: NDArray[np.intp],
        times: NDArray[np.float64],
        others: NDArray[np.intp] | slice = slice(None),
    ) -> NDArray[np.bool_]:
        """Boolean mask, shape (len(positions), len(others)), of the `others` (default: all rows) said before those at `positions`.

        Of other threads by their `times`, shape (n,).
        """
        thread, seq = np.array(self._thread), np.array(self._seq)
        mask: NDArray[np.bool_] = np.where(
            thread[others] == thread[positions, None],
            seq[others] < seq[positions, None],
            times[others] < times[positions, None],
        )
        return mask

    def _link(self) -> None:
        """Links of all rows, by thread and `seq`."""
        thread, session = np.array(self._thread), np.array(self._session)
        seq = np.array(self._seq)
        order = np.lexsort((seq, thread))
        before, after = np.full(len(order), -1, np.int32), np.full(len(order), -1, np.int32)
        together = np.flatnonzero(
            (session[order[1:]] == session[order[:-1]])
            & (seq[order[1:]] - seq[order[:-1]] <= self._most_apart)
        )
        before[order[together + 1]] = order[together]
        after[order[together]] = order[together + 1]
        self._before, self._after = array("i", before.tolist()), array("i", after.tolist())
        last = np.flatnonzero(np.append(thread[order[1:]] != thread[order[:-1]], True))
        self._last = {int(thread[order[i]]): int(order[i]) for i in last}
        self._in_order = True
