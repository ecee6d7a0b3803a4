"""What a question asks for: kinds, persons, whose it is, and whether the latest counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory_agent.text.question import Question, gist_of, persons_named, read_question
from tests.unit.examples import examples, misses

EXAMPLES = examples("text/questions.toml")
SPEAKERS = ("Caroline", "Melanie", "Will", "Hope", "May", "Jean-Luc Picard", "José García", "Al", "민수", "김영희", "田中", "ユキ")  # fmt: skip


def test_the_kinds_of_a_question() -> None:
    """What is asked for is told by the question's words, not by those of clauses, quotes and courtesy."""
    rows = [[question, set(kinds.split())] for question, kinds in EXAMPLES["kinds"]]
    assert misses(rows, lambda question: read_question(question).kinds) == []


def test_a_known_name_is_found() -> None:
    """Whole names, single parts and short forms, with possessives and particles, in any case and accent."""
    assert misses(EXAMPLES["named"], lambda question: list(persons_named(question, SPEAKERS))) == []


def test_a_word_that_looks_like_a_known_name_is_none() -> None:
    """Words, months and longer names that hold a known name don't name it."""
    assert [question for question in EXAMPLES["not_named"] if persons_named(question, SPEAKERS)] == []


def test_a_whole_name_outdoes_its_parts() -> None:
    """ "John Smith" is not John Doe, while "John" may be either."""
    known = ("John Smith", "John Doe")
    assert persons_named("What did John Doe eat?", known) == ("John Doe",)
    assert persons_named("What did John eat?", known) == known


def test_a_short_form_that_fits_two_names_is_nobody() -> None:
    """ "Mel" is not told from Melanie and Melissa, and nobody is known without names."""
    assert persons_named("What did Mel eat?", ("Melanie", "Melissa")) == ()
    assert persons_named("What did Mel eat?", ()) == ()


def test_whose_words_a_question_is_about() -> None:
    """The asker's own life, or what the assistant said; courtesy is neither."""
    rows = [[question, (user, assistant)] for question, user, assistant in EXAMPLES["about"]]
    read = {question: read_question(question) for question, _ in rows}
    assert misses(rows, lambda question: (read[question].about_user, read[question].about_assistant)) == []


def test_whether_the_latest_state_is_wanted() -> None:
    """Words for the present ask for it, unless the question names another time or means something else."""
    assert misses(EXAMPLES["latest"], lambda question: read_question(question).latest) == []


def test_the_gist_is_what_other_signals_leave() -> None:
    """Without the first question word and the names of persons; the question itself where nothing is left."""
    assert misses(EXAMPLES["gist"], gist_of) == []


@given(st.text(max_size=300), st.lists(st.text(max_size=12), max_size=4))
def test_any_text_has_a_gist(question: str, persons: list[str]) -> None:
    """No error; it is empty only for an empty question."""
    gist = gist_of(question, persons)
    assert bool(gist) == bool(question)


@given(st.text(max_size=300), st.lists(st.text(max_size=12), max_size=4))
def test_any_text_and_names_can_be_read(question: str, known: list[str]) -> None:
    """No error; whoever is named is known, once."""
    read = read_question(question, known=known)
    assert isinstance(read, Question)
    assert set(read.persons) <= set(known)
    assert len(set(read.persons)) == len(read.persons)


@given(st.lists(st.sampled_from(("Mel", "Caroline", "민수", "田中", "Jean-Luc")), unique=True, min_size=1))
def test_every_name_of_a_list_is_found_in_its_order(names: list[str]) -> None:
    """Names between commas are all found, in the order in which they are asked for."""
    assert list(persons_named(f"So who met {', '.join(names)}?", sorted(names))) == names


def test_only_the_first_2000_characters_are_read() -> None:
    """What stands behind them is not read, and a very long question is no burden."""
    assert persons_named("so " * 700 + "Caroline", SPEAKERS) == ()
    for word in ("what a ", "and what did ", '"', "?", "Will ", "1", "二", "é", "민수", "i'm "):
        read_question(word * (100_000 // len(word)), known=SPEAKERS)
