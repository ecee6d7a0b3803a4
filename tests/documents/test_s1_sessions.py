"""S1, Conversation Memory System Design Document: sessions, importance, compression."""

from memory_agent import MemoryService
from tests.documents.frame import says


@says("S1", "- [ ] Basic session management", "- [ ] Implement ConversationSession model")
@says("S1", "participants: List[str]  # User IDs", "total_turns: int")
async def test_a_session_counts_its_turns_and_names_who_takes_part(service: MemoryService) -> None:
    memory = service.agent("lee", "sitting")
    started = await memory.start_session(participants=["lee", "mia"])
    await memory.update_memory("Hello!", "Hello Lee, hello Mia!")
    (session,) = await memory.sessions()
    assert (session.id, session.total_turns, session.participants) == (started.id, 2, ("lee", "mia"))
