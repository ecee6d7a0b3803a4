"""S4, ConversationMemory Implementation: brands and indicators that a conversation names."""

from memory_agent import MemoryService, by_kind
from tests.documents.frame import says


@says("S4", 'memory.add_turn("s1", "user", "LANEIGE와 COSRX 비교")', '"brands": ["LANEIGE", "COSRX"],')
@says("S4", '"indicators": ["SoS", "HHI"]')
async def test_entities_of_several_turns_are_kept_together(service: MemoryService) -> None:
    memory = service.agent("kim", "s1")
    await memory.add_turn("user", "LANEIGE와 COSRX 비교")
    await memory.add_turn("user", "SoS와 HHI로")
    await memory.settle()
    assert by_kind(await memory.entities()) == {"brands": ["LANEIGE", "COSRX"], "indicators": ["SoS", "HHI"]}
