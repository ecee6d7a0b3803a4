"""The summary without a language model: what it picks, what it shortens, and what always holds."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_agent.errors import InvalidInput
from memory_agent.text.extractive_summary import (
    MAX_LINE_CHARS,
    MAX_TURN_CHARS,
    MIN_CHARS,
    extractive_summary,
)
from tests.unit.examples import examples, misses

PLANNING = [
    ("Ines", "Hi Tomasz! How are you doing?"),
    ("Tomasz", "Hey! Good, thanks. How was the meeting?"),
    ("Ines", "Long! We decided to move the bakery to Harbour Street on 14 March. Wow, finally."),
    ("Tomasz", "Great! What does the new place cost?"),
    ("Ines", "The rent is 1,450 a month. The landlord, Mr. Okafor, pays for the new oven."),
    ("Tomasz", "Sounds good."),
    ("Ines", "We still have no permit for the terrace, so I'm calling the town hall tomorrow."),
    ("Tomasz", "Okay, good luck!"),
]


def words(count: int, stem: str = "word") -> str:
    return " ".join(f"{stem}{i}" for i in range(count))


# --- what is picked ------------------------------------------------------------------------------------------


def test_what_was_said_is_kept_and_small_talk_is_not() -> None:
    """Sentences that state something, word for word, in their order, each with who said it."""
    assert extractive_summary(None, PLANNING).splitlines() == [
        "Ines: We decided to move the bakery to Harbour Street on 14 March.",
        "Tomasz: What does the new place cost?",
        "Ines: The rent is 1,450 a month.",
        "Ines: The landlord, Mr. Okafor, pays for the new oven.",
        "Ines: We still have no permit for the terrace, so I'm calling the town hall tomorrow.",
    ]


EXAMPLES = examples("text/summaries.toml")


@pytest.mark.parametrize(("better", "worse"), EXAMPLES["particulars"])
def test_statements_with_particulars_come_first(better: str, worse: str) -> None:
    """Of two sentences that say nearly the same, the one with a number, date or name, or that is no question."""
    for turns in ([("a", worse), ("a", better)], [("a", better), ("a", worse)]):
        assert extractive_summary(None, turns, max_chars=MIN_CHARS) == f"a: {better}"


def test_a_repeated_statement_is_kept_once() -> None:
    """The same words again, from whomever and in whatever order, add nothing."""
    turns = [
        ("a", "The ferry to Brodick leaves at seven from pier four."),
        ("b", "So from pier four the ferry leaves at seven?"),
        ("a", "The ferry to Brodick leaves at seven from pier four."),
        ("b", "I am bringing two bicycles and a tent."),
    ]
    assert extractive_summary(None, turns).splitlines() == [
        "a: The ferry to Brodick leaves at seven from pier four.",
        "b: I am bringing two bicycles and a tent.",
    ]


def test_a_long_answer_does_not_crowd_out_who_asked() -> None:
    """Sentences of one turn share its say."""
    answer = " ".join(f"Layer{i} needs mulch{i} and compost{i} around bed{i}." for i in range(60))
    turns = [
        ("user", "My raised beds flood every spring."),
        ("assistant", answer),
        ("user", "I only have clay soil from Dunmore."),
    ]
    kept = extractive_summary(None, turns, max_chars=300).splitlines()
    assert kept[0] == "user: My raised beds flood every spring."
    assert kept[-1] == "user: I only have clay soil from Dunmore."
    assert any(line.startswith("assistant: ") for line in kept)


def test_small_talk_alone_is_better_than_nothing() -> None:
    """What assistants always say tells nothing; but a summary of turns is only empty where nothing is said."""
    text = "As an AI language model, I have no hands. Prune the fig in March. I hope this helps, feel free to ask!"
    rows: list[list[Any]] = [
        [None, [("assistant", text)], "assistant: Prune the fig in March."],
        [None, [("a", "?!")], "a: ?!"],
        [None, [("a", "- - - ")], "a: - - -"],
        [None, [("a", "```\n```")], "a: …"],
        [None, [], ""],
        ["", [("a", " \n ")], ""],
        ["a: The oven arrives.", [("b", "\t")], "a: The oven arrives."],
        # Calling each other by name, also for short, makes no statement; "car" is not Caroline.
        [
            None,
            [
                ("Tomasz", "Right, Ines."),
                ("Ines", "Exactly, Tom!"),
                ("Tomasz", "The oven arrives on Monday."),
            ],
            "Tomasz: The oven arrives on Monday.",
        ],
        [None, [("Caroline", "I bought a car."), ("Tomasz", "Okay!")], "Caroline: I bought a car."],
    ]
    assert misses(rows, extractive_summary) == []
    assert extractive_summary(None, [("a", "Hi!"), ("b", "Hello, good morning!")])


def test_a_summary_of_much_is_shorter_than_it() -> None:
    """At most about half of what was said, also where everything would fit."""
    turns = [("a", f"Crate{i} holds lamp{i}, rope{i} and chain{i}.") for i in range(30)]
    said = sum(len(text) for _, text in turns)
    assert 0.3 * said < len(extractive_summary(None, turns, max_chars=100_000)) <= said / 2


# --- sentences -----------------------------------------------------------------------------------------------


def test_sentences_end_where_they_do() -> None:
    """Abbreviations and decimals don't end one; CJK punctuation, line ends and list items do. Small talk goes."""

    def kept(text: str) -> int:
        return sum(line != "a: Steps:" for line in extractive_summary(None, [("a", text)]).splitlines())

    assert misses(EXAMPLES["sentences"], kept) == []


def test_markup_is_left_out_and_code_shown_by_its_first_line() -> None:
    """What looks like markup within a formula stays; other lines of code are not taken for sentences."""
    text = "1. **Deposit**: two rents in cash\n- keys come from 2**3 lockers"
    assert extractive_summary(None, [("a", text)]).splitlines() == [
        "a: Deposit: two rents in cash",
        "a: keys come from 2**3 lockers",
    ]
    text = "This reads the sensor twice:\n```python\n\ndef read_twice(pin):\n    return [adc(pin), adc(pin)]\n```"
    assert "a: def read_twice(pin): …" in extractive_summary(None, [("a", text)]).splitlines()
    assert "return" not in extractive_summary(None, [("a", text)])


def test_a_long_sentence_is_cut_between_words_and_says_so() -> None:
    """With "…", within the length of a line; a text without spaces is cut anywhere."""
    line = extractive_summary(None, [("a", words(200))])
    assert len(line) <= MAX_LINE_CHARS
    assert line.endswith("…")
    assert line.removeprefix("a: ").removesuffix("…").split(" ") == words(200).split(" ")[: line.count(" ")]
    assert len(extractive_summary(None, [("a", "港" * 999)])) == MAX_LINE_CHARS


def test_of_a_long_text_the_beginning_is_read_and_of_a_long_name_shown() -> None:
    """And where reading stopped is shown."""
    pasted = "The lease runs for nine years." + " " * MAX_TURN_CHARS + "The tenant keeps a goat."
    assert extractive_summary(None, [("a", pasted)]) == "a: The lease runs for nine years."
    assert extractive_summary(None, [("a", " " * MAX_TURN_CHARS + "Unread.")]) == "a: …"
    line = extractive_summary(None, [("x" * 500, "The boiler leaks.")], max_chars=MIN_CHARS)
    assert line == f"{'x' * 39}…: The boiler leaks."


def test_an_impossible_length_is_refused() -> None:
    """The message names it and the least that is possible."""
    with pytest.raises(InvalidInput, match=f"max_chars is 12; .* {MIN_CHARS} "):
        extractive_summary(None, PLANNING, max_chars=12)


# --- with a previous summary ---------------------------------------------------------------------------------


def test_the_previous_summary_stays_where_nothing_new_is_said() -> None:
    """Small talk pushes nothing out; the same turns again are not said twice, but may fill the room that is left."""
    first = extractive_summary(None, PLANNING)
    assert extractive_summary(first, [("Tomasz", "Thanks!"), ("Ines", "Bye, see you!")]) == first
    again = extractive_summary(first, PLANNING).splitlines()
    assert set(first.splitlines()) <= set(again)
    assert len(again) == len(set(again))


def test_one_long_batch_does_not_wipe_out_the_start() -> None:
    """Each quarter of the previous summary is sure of its share, and so are the new turns."""
    previous = "\n".join(f"a: Gate{i} was painted amber{i} by crew{i} near dock{i}." for i in range(20))
    flood = [("b", f"Storm storm{i} hit valley{i}, bridge{i}, river{i}.") for i in range(400)]
    kept = extractive_summary(previous, flood, max_chars=len(previous)).splitlines()
    old = [int(line.split("Gate")[1].split()[0]) for line in kept if "Gate" in line]
    assert {number // 5 for number in old} == {0, 1, 2, 3}
    assert len(old) >= 12
    assert sum("Storm" in line for line in kept) >= 3


def test_a_telling_line_outlives_many_batches() -> None:
    """What states a name, a date and a number is kept longer than what states none."""
    summary = extractive_summary(
        None, [("Ines", "On Monday, 14 March 2031 we move to Harbour Street.")], max_chars=600
    )
    for i in range(12):
        batch = [("Tomasz", f"people{i}{j} walk slowly around lake{i}{j} and talk{i}{j}") for j in range(8)]
        summary = extractive_summary(summary, batch, max_chars=600)
    assert summary.startswith("Ines: On Monday, 14 March 2031 we move to Harbour Street.\n")


def test_a_language_model_s_summary_is_carried_on_by_its_sentences() -> None:
    """So a service may lose its language model and go on."""
    previous = (
        "Ines and Tomasz plan to move their bakery to Harbour Street on 14 March. The rent is 1,450 a month. "
        "Mr. Okafor, the landlord, pays for the oven. It is open whether the town hall permits a terrace; Ines "
        "calls there on Tuesday and tells Tomasz afterwards."
    )
    assert len(previous) > MAX_LINE_CHARS
    carried = extractive_summary(previous, [("Ines", "The permit came through on Tuesday.")])
    assert "The rent is 1,450 a month." in carried.splitlines()
    assert carried.endswith("\nInes: The permit came through on Tuesday.")


# --- what always holds ---------------------------------------------------------------------------------------

prose = st.text(
    st.one_of(st.sampled_from("ab1 AB.!?。？…\n*-:#`[]()"), st.characters(codec="utf-8")), max_size=400
)
who = st.sampled_from(["user", "assistant", "Ines (2031-03-14)", "민수", "", "a: b", "x" * 60])
conversations = st.lists(st.tuples(who, prose), max_size=6)
limits = st.integers(MIN_CHARS, 1_500)


def flat(text: str) -> str:
    """Without what the summary may leave out of a sentence: line ends and asterisks."""
    return "".join(text.replace("*", "").split())


@settings(deadline=None)
@given(st.none() | prose, conversations, limits)
def test_it_never_fails_nor_grows_too_long_nor_is_empty_and_every_line_was_said(
    previous: str | None, turns: list[tuple[str, str]], limit: int
) -> None:
    """By the one it names or in the previous summary, up to where "…" shows that it is shortened."""
    summary = extractive_summary(previous, turns, max_chars=limit)
    assert len(summary) <= limit
    assert bool(summary) == bool((previous or "").strip() or any(text.strip() for _, text in turns))
    assert summary == extractive_summary(previous, turns, max_chars=limit)
    sources = [flat(previous or ""), *(flat(f"{name}: {text}") for name, text in turns)]
    heads = {"", ":", *(flat(f"{name}:") for name, _ in turns if name)}
    for line in summary.splitlines():
        assert 0 < len(line) <= MAX_LINE_CHARS
        assert line == line.strip()
        pieces = [flat(piece) for piece in line.split("…")]
        assert any(
            all(piece.removeprefix(head) in source or piece in source for piece in pieces)
            for head in heads
            for source in sources
        )


@settings(max_examples=20, deadline=None)
@given(st.lists(conversations, min_size=1, max_size=4), limits)
def test_fifty_batches_later_it_is_no_longer_than_allowed(
    batches: list[list[tuple[str, str]]], limit: int
) -> None:
    """Folding goes on for ever within the limit, and repeated batches settle."""
    summary = ""
    for i in range(50):
        summary = extractive_summary(summary, batches[i % len(batches)], max_chars=limit)
        assert len(summary) <= limit


def test_every_process_picks_the_same() -> None:
    """The order of a set, which differs from process to process, decides nothing."""
    script = (
        "from memory_agent.text.extractive_summary import extractive_summary\n"
        "turns = [('a', ' '.join(f'w{i * j % 97} v{i + j}' for j in range(9)) + '.') for i in range(60)]\n"
        "print(extractive_summary(None, turns, max_chars=500))"
    )
    summaries = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(summaries) == 1
