"""Statements of fact: what is found, above all what is left alone, and what holds of every extraction."""

import re
import sys
import time

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from memory_agent.domain import StatedFact
from memory_agent.text.cues import Sentence
from memory_agent.text.patterns import MAX_TEXT_CHARS, extract_facts
from memory_agent.text.tables import table as table_of
from tests.unit.examples import examples, misses

PIECES = [
    "I'm John,", "I’m John", "my name is", "Anna", "Mia", "I", "I'm", "love", "hate", "jazz", "my wife", "my dog",
    "Rex", "no longer", "used to like", "any more", "I moved to", "Lisbon", "a product role", "I work as a", "nurse",
    "at Google", "and", "but", ",", ".", "!", "?", "…", "\n", "\t", "  ", '"', "“", "”", "'", "`", "```", "[", "]", "*",
    "(", "because", "I prefer", "morning meetings", "32", "years old", "allergic to", "peanuts", "저는", "제 이름은",
    "민수예요", "간호사예요", "서울에 살아요", "커피를", "좋아해요", "이제", "안 좋아해요", "동생은", "고양이를 키워요", "😀", "\u200b",
    "My favorite color is", "blue", "I speak", "French", "I’ve", "stopped liking", "it's", "—", " - ", ":", "İ", "ß",
]  # fmt: skip
TEXTS = st.one_of(st.text(max_size=200), st.lists(st.sampled_from(PIECES), max_size=25).map(" ".join))

STATEMENTS = [
    "I'm John, I work as a software engineer. I prefer morning meetings.",
    "I   live\tin  Lisbon,  and I’m   32 years old!",
    "My wife “the boss” Anna said hi. I love hiking, cooking, and jazz!",
    "I no longer like coffee.",
    "제 이름은 민수예요. 저는  커피와 빵을   좋아해요!",
    "서울에 살아요. 이제 커피를 안 좋아해요",
]
PARAGRAPHS = [
    "The train leaves at nine and the weather is fine.",
    "Thanks for the long answer! The second table was useful.",
    "Which of the three is cheaper?",
    "내일 회의는 세 시에 시작합니다. 자료는 준비됐습니다.",
]


@pytest.mark.parametrize("language", ["english", "korean"])
def test_what_is_stated_about_oneself_is_found_and_doubt_is_silence(language: str) -> None:
    """In the user's own words; others, questions, wishes, the past, hearsay and what needs its context yield nothing."""
    table = examples(f"text/patterns/{language}.toml")
    rows = [[text, sorted(map(tuple, facts))] for text, *facts in table["stated"]]
    assert misses(rows, lambda text: sorted(map(told, extract_facts(text)))) == []
    assert [text for text in table["silent"] if extract_facts(text)] == []


def test_no_rule_finds_more_without_the_words_that_it_is_skipped_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """In all examples, and of each animal: `needs` may save a rule's time, and cost no fact."""
    tables = [examples(f"text/patterns/{name}.toml") for name in ("english", "plain")]
    texts = [
        row if isinstance(row, str) else row[0] for rows in tables for part in rows.values() for row in part
    ]
    animals = re.findall(
        r"(?:^|\|)([a-z ]+)", table_of("english", "facts").value("lists.animals"), re.MULTILINE
    )
    texts += [*(f"I have a {animal} called Rex." for animal in animals), "I LİKE JAZZ."]
    found = [extract_facts(text) for text in texts]
    monkeypatch.setattr(Sentence, "has", lambda *_: True)
    assert found == [extract_facts(text) for text in texts]
    assert all(found[-len(animals) - 1 :])


def test_what_must_never_be_missed_is_found_alone_and_among_other_things_and_nothing_is_made_up() -> None:
    """Allergies, names, homes, jobs and relatives said plainly in the first person; near misses say nothing."""
    table = examples("text/patterns/plain.toml")
    rows = [[text, sorted(map(tuple, facts))] for text, *facts in (*table["english"], *table["korean"])]

    def said(text: str) -> list[tuple[object, ...]]:
        paths = {path for row, facts in rows if row == text for path, _ in facts}
        return sorted(told(fact)[1:] for fact in extract_facts(text) if ".".join(fact.path) in paths)

    assert misses(rows, said) == []
    assert [(text, found) for text in table["traps"] if (found := list(map(told, extract_facts(text))))] == []


def told(fact: StatedFact) -> tuple[object, ...]:
    return (fact.op, ".".join(fact.path), *([] if fact.value is None else [fact.value]))


def key(fact: StatedFact) -> tuple[object, ...]:
    return fact.op, fact.path, fact.value


@given(TEXTS)
@example("I’m  John,\tI work as a nurse.")
@example('I live in Lisbon "or so" now.')
@settings(max_examples=250, deadline=None)
def test_every_fact_is_quoted_word_for_word_and_sound(text: str) -> None:
    """Nothing raises, the same text gives the same facts, each quote is in the text, each value is short."""
    facts = extract_facts(text)
    assert facts == extract_facts(text)
    for fact in facts:
        assert fact.quote
        assert fact.quote in text
        assert fact.turn_id == ""
        assert fact.path
        assert all(fact.path)
        assert fact.confidence is not None
        assert 0.7 <= fact.confidence <= 0.95
        if isinstance(fact.value, str):
            assert 0 < len(fact.value) <= 60
            assert fact.value == fact.value.strip()
    assert len({key(fact) for fact in facts}) == len(facts)


def test_what_else_is_said_changes_nothing() -> None:
    for text in STATEMENTS:
        alone = [key(fact) for fact in extract_facts(text)]
        assert alone, text
        for paragraph in PARAGRAPHS:
            assert [key(fact) for fact in extract_facts(f"{text}\n\n{paragraph}")] == alone, paragraph


def test_the_quote_is_the_turns_own_characters_and_of_a_long_sentence_the_clause() -> None:
    """Curly apostrophes and doubled blanks stay in the quote though patterns don't see them."""
    (fact,) = extract_facts("Hello again. I’m   from  Ohio, by the way. Bye")
    assert (fact.value, fact.quote) == ("Ohio", "I’m   from  Ohio, by the way")

    text = "I live in Lisbon, and " + "the weather is fine and " * 20 + "so it goes."
    (fact,) = extract_facts(text)
    assert fact.quote == "I live in Lisbon"


def test_a_pasted_document_is_nobodys_statement() -> None:
    said = "I live in Lisbon. "
    assert extract_facts(said + "x" * (MAX_TEXT_CHARS - len(said)))
    assert extract_facts(said + "x" * MAX_TEXT_CHARS) == []


ADVERSARIAL = [
    "I love ", "my name is ", "a, ", "I'm a very ", "\"", "- ", "[", "*a ", " ", "I'm John ",
    "I love a, b and c, ", "my wife, ", "my little dog ", "I moved to The New ", "Aa ", "I live in Aa ",
    "I work at Aa & ", "I work as a big ", "I used to like ", "I'm allergic to a, ", "I really ",
    "well, so, ok, ", "'a ", "저는 ", "커피를 ", "저는 커피와 ", "저는 의사 ", "좋아 ", "하고 ", "서울 ", "안녕, ", "제 이름은 가",
    "가",
]  # fmt: skip


def _effort(text: str) -> float:
    """CPU time of one extraction, the lesser of two, in seconds."""
    best = sys.float_info.max
    for _ in range(2):
        began = time.process_time()
        extract_facts(text)
        best = min(best, time.process_time() - began)
    return best


@pytest.mark.nightly
@pytest.mark.parametrize("piece", ADVERSARIAL)
def test_the_effort_grows_with_the_length_not_faster_than_its_square(piece: str) -> None:
    """Ten times the text may take a hundred times as long at the very most; a cube would take a thousand."""
    short, long = piece * (400 // len(piece)), piece * (4_000 // len(piece))
    assert _effort(long) <= 100 * max(_effort(short), 0.0005)
