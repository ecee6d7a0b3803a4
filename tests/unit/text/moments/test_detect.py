"""What kinds of moment a turn is; the examples are in `moments.toml`."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain.moments import MOMENT_KINDS, MomentKind
from memory_agent.text.moments.detect import DECISION_CHARS, PREVIOUS_TURNS, decision_in, detect_moments
from memory_agent.text.sentences import HEAD_CHARS, MAX_SENTENCE_CHARS, TAIL_CHARS, sentences_of
from tests.unit.examples import examples, misses

EXAMPLES = examples("text/moments/moments.toml")
Turns = list[tuple[str, str]]


def turns(name: str) -> Turns:
    return [(role, text) for role, text in EXAMPLES["previous"][name]]


QUARREL, COOKIES = turns("quarrel"), turns("cookies")


def found_in(row: Any) -> frozenset[MomentKind]:
    """The kinds of moment in a row: what a user says, or a text with its role and the turns before it."""
    turn = row if isinstance(row, dict) else {"text": row}
    before = turn.get("previous", [])
    previous = turns(before) if isinstance(before, str) else [(role, text) for role, text in before]
    return detect_moments(turn["text"], role=turn.get("role", "user"), previous=previous)


@pytest.mark.parametrize("kind", MOMENT_KINDS)
def test_what_counts_is_found_and_what_only_looks_like_it_is_left_alone(kind: MomentKind) -> None:
    """Negated, supposed, asked about, or about somebody else: it doesn't count."""
    assert [row for row in EXAMPLES["passes"][kind] if kind not in found_in(row)] == []
    assert [row for row in EXAMPLES["fails"][kind] if kind in found_in(row)] == []


def test_only_people_and_assistants_have_moments() -> None:
    """What a tool returns or a system prompt says is no moment, whatever its words."""
    for role in ("system", "tool", "narrator"):
        assert detect_moments("I'm devastated! Let's go with Postgres. Why?", role=role) == frozenset(), role


def test_a_turn_can_be_several_kinds() -> None:
    """Each sentence adds its own."""
    text = (
        "I'm so happy!!! I've decided to take the job. By the way, my name is Anna. What do you think? haha"
    )
    assert detect_moments(text, role="user") == {*MOMENT_KINDS} - {
        "conflict_resolution",
        "character_defining",
    }


def test_code_links_and_quotes_say_nothing() -> None:
    """What stands in them is nobody's moment."""
    for text in (
        "```python\n# I've decided to use this?\n```",
        "Look at `let's go with it?`",
        "https://example.com/lets-go-with-it?why=haha",
        "> I've decided to take the job. Why?",
        'The sign read "I have decided to quit" in red.',
    ):
        assert detect_moments(text, role="assistant") == frozenset(), text
    # A quote that is a sentence by itself is the speaker's own.
    assert "character_defining" in detect_moments('*smiles* "I never lie."', role="assistant")


def test_an_apology_needs_a_quarrel_before_it() -> None:
    """The same words end a quarrel or are plain politeness."""
    apology = "I'm sorry, that was my mistake."
    assert "conflict_resolution" not in detect_moments(apology, role="assistant")
    assert "conflict_resolution" in detect_moments(apology, role="assistant", previous=QUARREL)
    four_later = (*QUARREL, *((("user", "And the second list?"), ("assistant", "Here it is.")) * 2))
    assert "conflict_resolution" not in detect_moments(apology, role="assistant", previous=four_later)


def test_only_the_last_turns_before_are_looked_at() -> None:
    """More than `PREVIOUS_TURNS` make no difference."""
    long_before = (*QUARREL, *COOKIES)
    text = "Okay, fair point."
    assert len(COOKIES) == PREVIOUS_TURNS
    assert detect_moments(text, role="user", previous=long_before) == detect_moments(
        text, role="user", previous=COOKIES
    )


def test_the_first_turn_with_a_subject_opens_it_and_the_second_goes_on() -> None:
    """A greeting opens nothing; what follows it does, once."""
    hello = (("user", "Hi!"), ("assistant", "Hello, how can I help?"))
    first = "I'm planning a trip to Japan in spring"
    assert "topic_introduction" not in detect_moments("Hi!", role="user")
    assert "topic_introduction" in detect_moments(first, role="user", previous=hello)
    before = (*hello, ("user", first), ("assistant", "Nice, for how long?"))
    assert "topic_introduction" not in detect_moments(
        "Two weeks in Japan, mostly Kyoto temples", role="user", previous=before
    )


def test_an_essay_of_an_assistant_has_no_feelings_of_its_own() -> None:
    """A story that it wrote is full of feelings, none of which happened."""
    story = "I am devastated. " + "The rain fell on the roof of the house. " * 60
    assert "emotional_peak" not in detect_moments(story, role="assistant")
    assert "emotional_peak" in detect_moments(story, role="user")


def test_a_decision_is_quoted_as_written() -> None:
    """The sentence that states it, in the words and the case of the turn."""
    rows: list[list[Any]] = [
        ["Let me see. Let's go with Postgres!", "Let's go with Postgres!"],
        ["I've decided to take the job", "I've decided to take the job"],
        ["고민했는데, 저는 이직하기로 했어요. 응원해 주세요.", "고민했는데, 저는 이직하기로 했어요."],
        ["Let's go with `sqlite`.", "Let's go with `sqlite`."],
        *([text, None] for text in ("I haven't decided yet.", "결정 못 했어요.", "")),
    ]
    assert misses(rows, decision_in) == []


def test_a_long_decision_is_cut_between_words() -> None:
    """At most `DECISION_CHARS`, with an ellipsis."""
    cut = decision_in("I've decided to " + "move far away " * 15)
    assert cut is not None
    assert len(cut) <= DECISION_CHARS
    assert cut.endswith((" move…", " far…", " away…"))


WORDS = [
    "i", "decided", "to", "go", "let's", "with", "not", "why", "how", "my", "name", "is", "sorry", "haha",
    "never", "lie", "저는", "했어요", "기로", "슬퍼요", "왜", "너무", "?", "!", ".", ",", "`", '"', "*", "http://a.b",
    "ㅋㅋ", "😂", "İ", "ﷺ",
]  # fmt: skip
texts = st.one_of(st.text(max_size=300), st.lists(st.sampled_from([*WORDS, "\n"]), max_size=40).map(" ".join))


@given(
    texts,
    st.sampled_from(["user", "assistant", "tool"]),
    st.lists(st.tuples(st.just("user"), texts), max_size=5),
)
def test_no_text_is_too_strange(text: str, role: str, previous: list[tuple[str, str]]) -> None:
    """Whatever comes in, kinds come out, the same ones each time, and a decision where there is one."""
    kinds = detect_moments(text, role=role, previous=previous)
    assert kinds <= set(MOMENT_KINDS)
    assert kinds == detect_moments(text, role=role, previous=previous)
    if role != "tool":
        assert (decision_in(text) is not None) == ("decision_made" in kinds)


@given(texts)
def test_sentences_are_bounded_and_keep_their_length(text: str) -> None:
    """What is read of a sentence is as long as what is written, so that places in one are places in the other."""
    for sentence in sentences_of(text):
        assert 0 < len(sentence.text) == len(sentence.low) <= MAX_SENTENCE_CHARS


PIECES = [
    "a", "?", "!", ". ", "haha", "ㅋ", "I ", "i decided ", '"', "`", "```", "*a", "* ", "so very ", "가", "슬퍼 ", "\n",
    "http://", "let's go with ", "was, ", "you are so ", "not ", "my ", "> ", "매우 ", "기로 ", "i will always ", "to ",
]  # fmt: skip


def test_a_hundred_kilobytes_of_anything_are_read_at_once() -> None:
    """No pattern grows with the square of a text: the beginning and the end are read, in bounded sentences."""
    for piece in PIECES:
        text = (piece * 100_000)[:100_000]
        started = time.process_time()
        detect_moments(text, role="user", previous=[("user", text)] * 4)
        detect_moments(text, role="assistant", previous=[("user", text)] * 4)
        decision_in(text)
        assert time.process_time() - started < 2, piece  # about 0.01 s


def test_the_end_of_a_long_turn_is_read() -> None:
    """A question below a pasted document is one; what stands in the middle is not looked at."""
    filler = "The quick brown fox rests. " * 400
    assert len(filler) > HEAD_CHARS + TAIL_CHARS
    assert "question_asked" in detect_moments(filler + "What do you think?", role="user")
    assert "decision_made" not in detect_moments(filler + "I've decided to go. " + filler, role="user")
