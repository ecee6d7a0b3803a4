"""S0, Conversation Memory System: topics that fade and come back."""

from memory_agent import MemoryService
from tests.documents.frame import says


@says("S0", "topic = conversation_memory_manager.add_user_message(", better="s0-add")
@says("S0", "conversation_memory_manager.add_assistant_message(")
@says("S0", "| `max_topics` | 20 |", "| `max_messages_per_topic` | 12 |")
async def test_a_message_is_stored_and_its_topic_is_told(service: MemoryService) -> None:
    memory = service.agent("user123", "adding")
    said = await memory.add_user_message("What are the key features?", importance=0.5)
    await memory.add_assistant_message("The key features are speed and a long memory.")
    topic = await memory.turn_topic(said.id)
    assert topic is not None
    assert (topic.importance_score, topic.total_messages) == (0.5, 2)
    assert (service.cfg.max_topics, service.cfg.max_messages_per_topic) == (20, 12)
