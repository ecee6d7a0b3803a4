"""The calls, blocking: each is that of MemoryAgent or MemoryService, whose signature and docstring it has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_agent.agent.agent import MemoryAgent
from memory_agent.service import MemoryService
from memory_agent.sync.blocking import Blocking, iterates, waits

if TYPE_CHECKING:
    from memory_agent.domain import Scope


class AgentCalls(Blocking):
    """The calls that MemoryAgent and MemoryClient have in common: all."""

    @property
    def scope(self) -> Scope:
        """Whose memory it is."""
        scope: Scope = self._async.scope
        return scope

    update_memory = waits(MemoryAgent.update_memory)
    add_turn = waits(MemoryAgent.add_turn)
    add_turns = waits(MemoryAgent.add_turns)
    # To mypy their **options might hold a `self`.
    add_user_message = waits(MemoryAgent.add_user_message)  # type: ignore[arg-type]
    add_assistant_message = waits(MemoryAgent.add_assistant_message)  # type: ignore[arg-type]

    fetch_memory = waits(MemoryAgent.fetch_memory)
    fetch_short_term = waits(MemoryAgent.fetch_short_term)
    fetch_long_term = waits(MemoryAgent.fetch_long_term)
    fetch_facts = waits(MemoryAgent.fetch_facts)

    set_fact = waits(MemoryAgent.set_fact)
    add_fact = waits(MemoryAgent.add_fact)
    retract_fact = waits(MemoryAgent.retract_fact)
    revert_fact = waits(MemoryAgent.revert_fact)
    fact_history = waits(MemoryAgent.fact_history)
    preview_facts = waits(MemoryAgent.preview_facts)
    extract_facts = waits(MemoryAgent.extract_facts)
    replay_facts = waits(MemoryAgent.replay_facts)
    apply_replay = waits(MemoryAgent.apply_replay)
    undo_replay = waits(MemoryAgent.undo_replay)

    topics = waits(MemoryAgent.topics)
    turn_topic = waits(MemoryAgent.turn_topic)
    topic_stats = waits(MemoryAgent.topic_stats)
    topic_context = waits(MemoryAgent.topic_context)
    topic_history = waits(MemoryAgent.topic_history)
    merge_topics = waits(MemoryAgent.merge_topics)
    split_topic = waits(MemoryAgent.split_topic)
    suggest_merges = waits(MemoryAgent.suggest_merges)
    tag_topic = waits(MemoryAgent.tag_topic)
    set_topic_importance = waits(MemoryAgent.set_topic_importance)
    feedback = waits(MemoryAgent.feedback)
    restore_topic = waits(MemoryAgent.restore_topic)
    archive_topic = waits(MemoryAgent.archive_topic)

    start_session = waits(MemoryAgent.start_session)
    current_session = waits(MemoryAgent.current_session)
    sessions = waits(MemoryAgent.sessions)
    history = waits(MemoryAgent.history)
    session_context = waits(MemoryAgent.session_context)
    compress = waits(MemoryAgent.compress)
    compress_if_needed = waits(MemoryAgent.compress_if_needed)
    compressions = waits(MemoryAgent.compressions)
    entities = waits(MemoryAgent.entities)

    events = iterates(MemoryAgent.events)
    settle = waits(MemoryAgent.settle)
    status = waits(MemoryAgent.status)
    threads = waits(MemoryAgent.threads)
    thread_summary = waits(MemoryAgent.thread_summary)
    forget = waits(MemoryAgent.forget)
    clear = waits(MemoryAgent.clear)


class ServiceCalls(Blocking):
    """The calls that MemoryService and ServiceClient have in common."""

    search = waits(MemoryService.search)
    users = waits(MemoryService.users)
    threads = waits(MemoryService.threads)
    find_session = waits(MemoryService.find_session)
    forget_user = waits(MemoryService.forget_user)
    status = waits(MemoryService.status)
    settle = waits(MemoryService.settle)
    retry_parked = waits(MemoryService.retry_parked)
    rebuild_index = waits(MemoryService.rebuild_index)
    sweep = waits(MemoryService.sweep)
    worker_status = waits(MemoryService.worker_status)
    pause_worker = waits(MemoryService.pause_worker)
    resume_worker = waits(MemoryService.resume_worker)
