"""Error messages about settings: unknown names with the nearest known ones, impossible values. Pure."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, get_args, get_origin

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pydantic import ValidationError
    from pydantic.fields import FieldInfo

_MISSPELT: Final = 0.84
"""From this likeness on (difflib's, 0 to 1) a name is taken for a misspelling, and nothing else is guessed."""
_ALIKE: Final = 0.7
_GUESSES: Final = 3

GONE: Final[Mapping[str, str]] = {
    "access_threshold": "five accesses double the half-life of a topic, a day at first",
    "base_half_life": "the priority of a topic that nobody came back to halves in a day; max_topics says how many a thread may have",
    "chroma_db_dir": "without chroma_host no index is kept beside the search rows; the folder of Chroma of before can be deleted",
    "chroma_ssl": "write the scheme into chroma_host: https://chroma.example.com",
    "code_language_priorities": "code counts the same in every language; add_turn(…, importance=…) weighs a turn",
    "code_patterns": "rules say what is code; add_turn(…, importance=…) weighs a turn, and a fence (```) makes code of any text",
    "code_retention_priority": "code has a bonus of 2; add_turn(…, importance=…) weighs a turn",
    "compress_every_turns": "a conversation is compressed after 100 turns at the latest; context_limit_tokens says from which size on",
    "compressed_share": "context_limit_tokens bounds what a compressed context may take",
    "compressed_summary_tokens": "context_limit_tokens bounds what a compressed context may take",
    "compression_trigger_share": "at three quarters of context_limit_tokens a conversation is compressed",
    "continuation_bonus": "the score of a turn with the topic of the turn before gets .15 more; similarity_threshold says when one joins",
    "cross_encoder_model": "the embedding model compares the best turns with the question word by word",
    "embedding_batch_size": "64 texts go into a batch",
    "embedding_cache_size": "2,048 vectors are kept; the embedder of one's own that MemoryService takes may keep others",
    "enable_compaction": "a max_messages_per_topic above the number of turns packs none",
    "facts_batch_turns": "8 turns of a thread go into a request",
    "facts_budget_share": "context_preset divides the prompt",
    "facts_context_turns": "6 earlier turns are shown with each",
    "facts_max_tokens": "a reply has 4,000 tokens at most",
    "facts_patience_seconds": "patterns stand in once the language model has been away for five minutes",
    "fade_below": "max_topics says how many a thread may have before they fade",
    "importance_by": "rules say what kind of moment a turn is",
    "llm_max_retries": "a request is tried three times quickly, then by the worker; it waits five minutes at most",
    "max_half_life": "a half-life grows from a day to 30 at most",
    "max_live_threads": "the analyses of 100 threads are kept in memory",
    "max_owed_turns": "a million turns may owe work; workers that run and keep up bring it down",
    "max_session_hours": "a session closes a day after its first turn at the latest; session_idle_seconds says after which pause",
    "max_turns_per_session": "a session closes after 1,000 turns; session_idle_seconds says after which pause",
    "merge_suggestion_similarity": "the sweep merges topics that are surely one; merge_topics merges any two",
    "min_importance_score": "a turn's own importance decides where it is passed: add_turn(…, importance=…)",
    "ner_model": "MemoryService(entity_finder=…) takes a finder of one's own; entities_file names the dictionary",
    "outage_patience_seconds": "a turn waits a day for a part that works for others; max_attempts is for other failures",
    "persona_max_tokens": "the reminder has 200 tokens; max_context_tokens bounds the whole prompt",
    "preserved_max_tokens": "context_preset divides the prompt, of which preserved turns have 1,000 tokens at most",
    "recent_message_keep": "a third of max_messages_per_topic stays as it is",
    "redact_before_llm": "a redactor is always applied to what a language model is shown",
    "rerank_model": "no language model orders turns; the best are compared with the question word by word",
    "resident_idle_seconds": "an unused index leaves memory after ten minutes; resident_memory_mb bounds them all",
    "retry_base_seconds": "the first retry comes after a second, and five minutes lie between two at most",
    "retry_max_seconds": "five minutes lie between two retries at most",
    "search_candidates": "500 are looked at; resident_max_turns says from which size on a user is searched by them",
    "second_stage": "the best turns are always compared word by word where the embedder has vectors of words; search_weights={'detail': 0} leaves that out of the score",
    "second_stage_candidates": "50 turns are compared word by word",
    "second_stage_seconds": "comparing word by word takes some milliseconds, and has no limit of its own",
    "server_body_seconds": "a proxy in front of the service bounds how long a body takes; config/nginx.conf is one's",
    "server_concurrent_requests": "256 requests of a key are answered at once; server_requests_per_minute bounds them over time",
    "server_event_queue": "a reader may be 1,000 events behind",
    "server_event_streams": "a process has 1,000 readers of events at most",
    "server_head_seconds": "a proxy in front of the service bounds how long a request's head takes; config/nginx.conf is one's",
    "server_idle_seconds": "a connection may be idle for 60 seconds",
    "server_key_cache_seconds": "a revoked key works for 5 seconds more at most",
    "server_max_connections": "a proxy in front of the service bounds connections; config/nginx.conf is one's",
    "short_term_budget_share": "context_preset divides the prompt, and short_term_window bounds the turns",
    "short_term_step": "the window moves on with each turn",
    "short_turn_terms": "a turn of fewer than 2 words of its own opens no topic",
    "summary_max_tokens": "a summary has 400 tokens at most",
    "vector_shards": "users are spread over 64 collections of a Chroma server; after another number, `memory-agent rebuild --all` fills them",
    "worker_batch_turns": "256 turns go into a batch",
    "worker_poll_seconds": "a worker looks for work of others every second",
}
"""Settings that there were once, each with what to do instead."""


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Names that `name` may have been meant for, the likeliest first, three at most.

    A misspelling has one; else those that begin as it does, are alike or share its words, whatever the underscores.

    >>> nearest("topk", ["data_dir", "top_k_memories", "run_worker"])
    ['top_k_memories']
    """
    given, bare = name.lower(), name.lower().replace("_", "")
    words = set(given.split("_"))
    likeness: dict[str, tuple[bool, float, float]] = {}
    for one in known:
        alike = difflib.SequenceMatcher(None, given, one).ratio()
        if alike >= _MISSPELT:
            return [one]
        parts = one.split("_")
        shared = len(words.intersection(parts)) + (
            0.5 * any(part.startswith(bare) for part in parts) if len(bare) > 2 else 0
        )
        begins = len(bare) > 2 and "".join(parts).startswith(bare)
        if begins or shared or alike >= _ALIKE:
            likeness[one] = (begins, shared + (alike >= _ALIKE), alike)
    return sorted(likeness, key=lambda one: likeness[one], reverse=True)[:_GUESSES]


def unknown_name(name: str, guesses: Collection[str], *, where: str, instead: str | None = None) -> str:
    """That there is no setting of this name, and what may have been meant. All names would hide that.

    `instead`: of one that went, what to do now.
    """
    if instead is not None:
        return f"{where}{name} is no setting any more; take it out: {instead}"
    meant = f"did you mean {' or '.join(guesses)}? " if guesses else ""
    return f"{where}{name} is no setting; {meant}`memory-agent settings` lists them all"


def impossible_values(
    exc: ValidationError, fields: Mapping[str, FieldInfo], *, secret: Collection[str]
) -> str:
    """Every impossible value with its setting's name and what would be valid; no value of a `secret` setting."""
    lines = []
    for error in exc.errors(include_url=False, include_context=False):
        name = str(error["loc"][0]) if error["loc"] else ""
        given = "" if not name or name in secret else f" (given: {error['input']!r:.80})"
        if error["type"] == "value_error":
            message = error["msg"].removeprefix("Value error, ")
        else:
            message = f"must be {valid_values(fields[name])}"
        lines.append(f"{name}: {message}{given}" if name else message)
    return "impossible setting: " + "; ".join(lines)


def valid_values(field: FieldInfo) -> str:
    """The values that a setting takes, in words, from its type and its constraints."""
    if field.description:
        return field.description
    if field.annotation is bool:
        return "true or false"
    if field.annotation in (Path, Path | None):
        return "a path"
    if get_origin(field.annotation) is Literal:
        return f"one of: {', '.join(get_args(field.annotation))}"
    if field.annotation not in (int, float):
        return "text"
    words = ["a whole number" if field.annotation is int else "a number"]
    for limit in field.metadata:
        for attribute, word in (("gt", "above"), ("ge", "at least"), ("le", "at most"), ("lt", "below")):
            if (bound := getattr(limit, attribute, None)) is not None:
                words.append(f"{word} {bound:,}")
    return words[0] + (", " + " and ".join(words[1:]) if words[1:] else "")
