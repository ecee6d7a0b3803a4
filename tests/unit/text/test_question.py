"""What a question asks for: kinds, persons, whose it is, and what is left of it."""

from hypothesis import given
from hypothesis import strategies as st

from memory_agent.text.question import Question, gist_of, persons_named, read_question
from tests.unit.examples import examples, misses

EXAMPLES = examples("text/questions.toml")
SPEAKERS = ("Caroline", "Melanie", "Will", "Hope", "May", "Jean-Luc Picard", "José García", "Al", "민수", "김영희", "田中", "ユキ")  # fmt: skip


def test_the_kinds_of_a_question() -> None:
    rows = [[question, set(kinds.split())] for question, kinds in EXAMPLES["kinds"]]
    assert misses(rows, lambda question: read_question(question).kinds) == []


def test_a_known_name_is_found_and_a_word_that_looks_like_one_is_none() -> None:
    """Whole names, parts and short forms, with particles, in any case; not words, months and longer names."""
    assert misses(EXAMPLES["named"], lambda question: list(persons_named(question, SPEAKERS))) == []
    assert [question for question in EXAMPLES["not_named"] if persons_named(question, SPEAKERS)] == []


def test_a_whole_name_outdoes_its_parts() -> None:
    """ "John Smith" is not John Doe, while "John" may be either."""
    known = ("John Smith", "John Doe")
    assert persons_named("What did John Doe eat?", known) == ("John Doe",)
    assert persons_named("What did John eat?", known) == known
    assert persons_named("What did Mary Ann Lee eat?", ("Mary Ann", "Mary Ann Lee")) == ("Mary Ann Lee",)
    # "Mel" is not told from Melanie and Melissa, and nobody is known without names.
    assert persons_named("What did Mel eat?", ("Melanie", "Melissa")) == ()
    assert persons_named("What did Mel eat?", ()) == ()


def test_whose_words_a_question_is_about() -> None:
    """The asker's own life, or what the assistant said; courtesy is neither."""
    rows = [[question, (user, assistant)] for question, user, assistant in EXAMPLES["about"]]
    read = {question: read_question(question) for question, _ in rows}
    assert misses(rows, lambda question: (read[question].about_user, read[question].about_assistant)) == []


def test_the_gist_is_without_the_first_question_word_and_names_of_persons() -> None:
    assert misses(EXAMPLES["gist"], gist_of) == []


def test_a_message_that_goes_on_with_a_conversation_is_no_question() -> None:
    """It answers, opens with the speaker's own or tells before it asks; then nothing in it asks for a kind."""
    rows = [[message, (tells, refers)] for message, tells, refers in EXAMPLES["messages"]]
    read = {message: read_question(message) for message, *_ in rows}
    assert misses(rows, lambda message: (read[message].tells, read[message].refers)) == []
    assert not any(question.kinds for question in read.values() if question.tells)


@given(st.text(max_size=300), st.lists(st.text(max_size=12), max_size=4))
def test_any_text_and_names_can_be_read(question: str, known: list[str]) -> None:
    assert bool(gist_of(question, known)) == bool(question)
    read = read_question(question, known=known)
    assert isinstance(read, Question)
    assert set(read.persons) <= set(known)
    assert len(set(read.persons)) == len(read.persons)


def test_only_the_first_2000_characters_are_read() -> None:
    assert persons_named("so " * 700 + "Caroline", SPEAKERS) == ()
    for word in ("what a ", "and what did ", '"', "?", "Will ", "1", "二", "é", "민수", "i'm "):
        read_question(word * (100_000 // len(word)), known=SPEAKERS)


def test_questions_about_before_are_told() -> None:
    """Not those about an age, or about what is before a day."""
    for formerly, rows in EXAMPLES["formerly"].items():
        assert [row for row in rows if read_question(row).formerly != (formerly == "yes")] == [], formerly
