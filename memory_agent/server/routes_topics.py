"""Topics: listed, read, and put in order by people."""

from operator import itemgetter
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import Response

from memory_agent.checks import MAX_TAG_CHARS
from memory_agent.server.dependencies import THREAD, Cursor, Limit, Memory, PathText, WritableMemory, answer
from memory_agent.server.openapi import operation_id
from memory_agent.wire.encoding import json_of
from memory_agent.wire.pages import Page, page_of
from memory_agent.wire.requests import Feedback, Merge, SetImportance, Tags
from memory_agent.wire.topics import TopicContext, TopicStats, TopicTurn

router = APIRouter(tags=["topics"], generate_unique_id_function=operation_id)
TOPICS = f"{THREAD}/topics"
TOPIC = f"{TOPICS}/{{topic_id}}"


def _named(topic_id: str) -> str | None:
    return None if topic_id == "current" else topic_id


@router.get(TOPICS, response_model=Page[TopicStats])
async def list_topics(
    memory: Memory,
    archived: Annotated[bool, Query(description="Archived ones as well.")] = False,
    tag: Annotated[
        str | None, Query(min_length=1, max_length=MAX_TAG_CHARS, description="Only those that carry it.")
    ] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """The thread's topics, highest priority first, archived ones last."""
    found = await memory.topics(archived, tag=tag)
    return answer(page_of(TopicStats.of, found, key=lambda topic: topic.topic_id, cursor=cursor, limit=limit))


@router.get(TOPIC, response_model=TopicStats)
async def show_topic(memory: Memory, topic_id: PathText) -> Response:
    """A topic; `current` is the current one."""
    return answer(json_of(TopicStats, await memory.topic_stats(_named(topic_id))))


@router.get(f"{TOPIC}/context", response_model=TopicContext)
async def topic_context(memory: Memory, topic_id: PathText) -> Response:
    """Messages for a model to go on with the topic: its summary, then its recent turns."""
    return answer(TopicContext.of(await memory.topic_context(_named(topic_id))))


@router.get(f"{TOPIC}/history", response_model=Page[TopicTurn])
async def topic_history(
    memory: Memory,
    topic_id: PathText,
    include_compressed: Annotated[bool, Query(description="Turns whose text is packed, too.")] = True,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """All of the topic's turns in order, word for word."""
    turns = list(enumerate(await memory.topic_history(_named(topic_id), include_compressed)))
    page = page_of(lambda turn: TopicTurn.of(turn[1]), turns, key=itemgetter(0), cursor=cursor, limit=limit)
    return answer(page)


@router.post(f"{TOPIC}/merge", response_model=TopicStats)
async def merge_topics(memory: WritableMemory, topic_id: PathText, body: Merge) -> Response:
    """Make the topic a part of another, whose id stays. `split` undoes it."""
    return answer(json_of(TopicStats, await memory.merge_topics(topic_id, body.into)))


@router.post(f"{TOPIC}/split", response_model=TopicStats)
async def split_topic(memory: WritableMemory, topic_id: PathText) -> Response:
    """Take the topic out of the one it was merged into, with the turns that were its own."""
    return answer(json_of(TopicStats, await memory.split_topic(topic_id)))


@router.post(f"{TOPIC}/tags", response_model=TopicStats)
async def tag_topic(memory: WritableMemory, topic_id: PathText, body: Tags) -> Response:
    """Add and remove tags."""
    return answer(json_of(TopicStats, await memory.tag_topic(topic_id, body.add, body.remove)))


@router.post(f"{TOPIC}/importance", response_model=TopicStats)
async def set_topic_importance(memory: WritableMemory, topic_id: PathText, body: SetImportance) -> Response:
    """Set the topic's importance; null: as its turns say."""
    return answer(json_of(TopicStats, await memory.set_topic_importance(topic_id, body.importance)))


@router.post(f"{TOPIC}/restore", response_model=TopicStats)
async def restore_topic(memory: WritableMemory, topic_id: PathText) -> Response:
    """Bring an archived topic back into matching."""
    return answer(json_of(TopicStats, await memory.restore_topic(topic_id)))


@router.post(f"{TOPIC}/archive", response_model=TopicStats)
async def archive_topic(memory: WritableMemory, topic_id: PathText) -> Response:
    """Take the topic out of matching and compress it. `restore` undoes it."""
    return answer(json_of(TopicStats, await memory.archive_topic(topic_id)))


@router.post(f"{THREAD}/feedback", response_model=TopicStats)
async def give_feedback(memory: WritableMemory, body: Feedback) -> Response:
    """Say that a topic, or a turn of it, was useful or not; the opposite vote undoes it."""
    return answer(json_of(TopicStats, await memory.feedback(body.turn_or_topic, body.useful)))
