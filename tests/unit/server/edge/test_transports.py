"""What goes out over a connection: together where it was written together, all of it before the end, nothing after."""

import asyncio
from collections.abc import Iterable

from memory_agent.server.edge.transports import Transport


class Recorded(asyncio.Transport):
    """A transport that keeps what it is given, by the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.closed = False

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.sent.append(b"".join(map(bytes, list_of_data)))

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close


def over(recorded: Recorded) -> Transport:
    return Transport(recorded, asyncio.get_running_loop(), lingers=lambda: False)


async def test_what_is_written_in_one_turn_of_the_loop_goes_out_together() -> None:
    recorded = Recorded()
    transport = over(recorded)
    for _ in range(2):
        transport.write(b"head ")
        transport.write(b"body")
        await asyncio.sleep(0)
    assert recorded.sent == [b"head body", b"head body"]


async def test_much_goes_out_at_once_so_that_the_transport_can_say_it_has_enough() -> None:
    recorded = Recorded()
    transport = over(recorded)
    transport.write(b"head ")
    transport.write(b"x" * 100_000)
    assert list(map(len, recorded.sent)) == [100_005]
    await asyncio.sleep(0)
    assert len(recorded.sent) == 1


async def test_an_answer_is_sent_before_the_connection_is_closed_and_nothing_is_after() -> None:
    recorded = Recorded()
    transport = over(recorded)
    transport.write(b"answer")
    transport.close()
    assert (recorded.sent, recorded.closed) == ([b"answer"], True)
    transport.write(b"more")
    await asyncio.sleep(0)
    assert recorded.sent == [b"answer"]
    transport.lost()


async def test_what_a_dropped_connection_was_to_be_sent_is_dropped_with_it() -> None:
    recorded = Recorded()
    transport = over(recorded)
    transport.write(b"answer")
    transport.abort()
    await asyncio.sleep(0)
    assert recorded.sent == []
