"""Capabilities: what each test of the suites shows of an adapter."""

from __future__ import annotations

from typing import Final

_NOUN: Final = "test_document_store_"
_OF_MODULES: Final = {
    "entities": "rows",
    "compressed": "topics",
    "topics_changed": "topics",
    "compressions": "sessions",
    "facts_forgotten": "deletion",
    "topics_forgotten": "deletion",
    "forgetting": "deletion",
}
"""The capability of a module whose name is another word; of all others it is their name."""
ACROSS: Final = {
    "leakage": (
        "test_no_read_crosses_a_scope",
        "test_topics_of_others_are_out_of_reach",
        "test_tells_of_no_other_tenant_s_users",
        "test_a_watch_tells_of_its_scope_only",
        "test_refuses_rows_of_another_user",
        "test_other_users_views_are_theirs",
        "test_lists_by_number_by_id_and_within_limits",
        "test_no_user_sees_anothers_turns",
        "test_a_thread_sees_no_other_thread",
        "test_nobody_replaces_or_deletes_anothers_turn",
    ),
    "deletion": (
        "test_forgets_texts_in_segments",
        "test_clearing_a_thread_leaves_no_segment",
        "test_forgetting_a_turn_drops_what_came_of_it",
        "test_forgetting_a_scope_takes_its_compressions",
        "test_forgetting_a_scope_takes_its_sessions",
        "test_what_was_forgotten_is_not_told_afterwards",
        "test_what_was_forgotten_does_not_count",
        "test_delete_takes_all_passages_of_the_named_turns",
    ),
    "crash": (
        "test_the_next_process_reads_what_was_acknowledged",
        "test_opens_and_closes_again_and_again",
        "test_completes_a_call_that_was_cut_short",
        "test_another_call_under_a_key_completes_nothing",
        "test_sweeps_what_a_late_worker_wrote",
        "test_what_was_stored_is_there_after_reopening",
        "test_a_repeated_upsert_changes_nothing",
    ),
    "order": (
        "test_numbers_turns_from_one",
        "test_numbers_rise_as_calls_return",
        "test_nothing_appears_below_what_was_seen",
        "test_a_number_is_not_given_again",
        "test_turns_of_a_thread_are_told_by_rising_number",
        "test_index_numbers_rise_with_every_change",
        "test_longest_due_threads_come_first",
        "test_users_take_turns",
        "test_nearest_come_first_with_their_cosine",
        "test_vectors_are_unit_rows_in_order",
    ),
    "concurrency": (
        "test_concurrent_repeats_agree",
        "test_concurrent_changes_are_all_kept",
        "test_of_concurrent_saves_one_wins",
        "test_of_concurrent_saves_of_a_topic_one_wins",
        "test_of_many_that_append_one_wins",
        "test_of_many_that_put_sessions_one_wins",
        "test_several_open_one_new_database_at_once",
        "test_one_wins_where_several_put_what_is_new",
        "test_a_lease_has_one_holder",
        "test_forgetting_while_packing",
        "test_calls_at_once_do_not_disturb_each_other",
        "test_concurrent_calls_get_their_own_vectors",
        "test_calls_at_once_are_all_answered",
    ),
}
"""What tests of several modules show together, by the names of these tests."""


def capabilities_of(module: str, test: str) -> tuple[str, ...]:
    """The capabilities that a test of a module shows: that of its noun, and those across.

    >>> capabilities_of("test_document_store_turns", "test_concurrent_repeats_agree")
    ('turns', 'concurrency')
    """
    noun = module.removeprefix(_NOUN).removeprefix("test_")
    found = [_OF_MODULES.get(noun, noun), *(name for name, tests in ACROSS.items() if test in tests)]
    return tuple(dict.fromkeys(found))
