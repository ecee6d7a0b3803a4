"""What a question asks for: kinds, persons, whose it is, and whether the latest counts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.text.question import Question, gist_of, persons_named, read_question

SPEAKERS = ("Caroline", "Melanie", "Will", "Hope", "May", "Jean-Luc Picard", "José García", "Al", "민수", "김영희", "田中", "ユキ")  # fmt: skip


@pytest.mark.parametrize(
    ("question", "kinds"),
    [
        ("When did I move to Oslo?", "when"),
        ("What year did I move?", "when"),
        ("In which month was the fair?", "when"),
        ("How long ago did I move?", "when how_long"),
        ("How many weeks ago did I call?", "when how_many how_long"),
        ("Do you remember when I moved?", "when"),
        ("Who lent me the bike?", "who"),
        ("According to Ann, who is the best singer?", "who"),
        ("With whom did I travel?", "who"),
        ("Which friend lent me the bike?", "who name"),
        ("Where do I keep the bike?", "where"),
        ("What city did Ann move to?", "where name"),
        ("How many bikes do I own?", "how_many"),
        ("How much did the bike cost?", "how_many"),
        ("What was the total number of bikes?", "how_many"),
        ("How long did the trip take?", "how_long"),
        ("How many hours did I sleep?", "how_many how_long"),
        ("What books have I read?", "name"),
        ("Which restaurants have I been to?", "where name"),
        ("Did I call Ann?", ""),
        ("What is Ann's reason for leaving?", ""),
        ("What inspired my song?", ""),
        ("What did I cook?", ""),
        ("What is the name of my dog?", "name"),
        ("What indie band did I like?", "name"),
        ("Which is my bike?", "name"),
        ("Which song did I write?", "name"),
        ("How is the garden?", ""),
        ("Could you recommend a book I would like?", ""),
        ("What book did Ann recommend to Bob?", "name"),
        ("When I lived in Rome, what did I eat?", ""),
        ("What did I feel when the bell rang?", ""),
        ("Who is the friend who lives where I was born?", "who"),
        ('Did I like "When the wind asks why"?', ""),
        ("언제 이사했지?", "when"),
        ("누구랑 여행 갔지?", "who"),
        ("내 자전거 어디 있지?", "where"),
        ("강아지가 몇 살이야?", "how_many"),
        ("뭘 요리했지?", ""),
        ("", ""),
        ("Hiking in the Alps", ""),
    ],
)
def test_the_kinds_of_a_question(question: str, kinds: str) -> None:
    """What is asked for is told by the question's words, not by those of clauses, quotes and courtesy."""
    assert read_question(question).kinds == frozenset(kinds.split())


@pytest.mark.parametrize(
    ("question", "named"),
    [
        ("What did Caroline's and MELANIE’s kids do?", ["Caroline", "Melanie"]),
        ("what did melanie do with caroline?", ["Melanie", "Caroline"]),
        ("What did Melanies dog eat?", ["Melanie"]),
        ("How long have Mel and Ann been friends?", ["Melanie"]),
        ("Did picard pour Jean-Luc's tea?", ["Jean-Luc Picard"]),
        ("Did Jean Luc pour tea?", ["Jean-Luc Picard"]),
        ("Did Jose or Mr Garcia write?", ["José García"]),
        ("What will Will eat?", ["Will"]),
        ("What did Will's dog eat?", ["Will"]),
        ("Will's dog: what did it eat?", ["Will"]),
        ("Did Hope call?", ["Hope"]),
        ("Did May call?", ["May"]),
        ("Is Al well?", ["Al"]),
        ("민수가 언제 이사했지?", ["민수"]),
        ("김민수는 뭘 좋아해?", ["민수"]),
        ("영희랑 민수한테 뭐라고 했지?", ["김영희", "민수"]),
        ("田中さんはいつ来ましたか？", ["田中"]),
        ("田中什么时候来的？", ["田中"]),
        ("ユキは何が好き？", ["ユキ"]),
        ("Caroline은 언제 와?", ["Caroline"]),
    ],
)
def test_a_known_name_is_found(question: str, named: list[str]) -> None:
    """Whole names, single parts and short forms, with possessives and particles, in any case and accent."""
    assert list(persons_named(question, SPEAKERS)) == named


@pytest.mark.parametrize(
    "question",
    [
        "",
        "Will it rain?",
        "What will happen? Will it rain?",
        "I hope so, but may I ask?",
        "Hope you are well.",
        "May I ask what happened in May?",
        "What happened on May 8?",
        "Who knows algebra, or all of it?",
        "al dente?",
        "Did I go to Melbourne?",
        "Which café in Williamsburg did I like?",
        "민수진은 누구야?",
        "영희망은 뭐지?",
        "ユキエは誰ですか？",
    ],
)
def test_a_word_that_looks_like_a_known_name_is_none(question: str) -> None:
    """Words, months and longer names that hold a known name don't name it."""
    assert persons_named(question, SPEAKERS) == ()


def test_a_whole_name_outdoes_its_parts() -> None:
    """ "John Smith" is not John Doe, while "John" may be either."""
    known = ("John Smith", "John Doe")
    assert persons_named("What did John Doe eat?", known) == ("John Doe",)
    assert persons_named("What did John eat?", known) == known


def test_a_short_form_that_fits_two_names_is_nobody() -> None:
    """ "Mel" is not told from Melanie and Melissa, and nobody is known without names."""
    assert persons_named("What did Mel eat?", ("Melanie", "Melissa")) == ()
    assert persons_named("What did Mel eat?", ()) == ()


@pytest.mark.parametrize(
    ("question", "user", "assistant"),
    [
        ("What did I eat?", True, False),
        ("What is my dog called?", True, False),
        ("What did Ann give us?", True, False),
        ("What did Ann eat in the US?", False, False),
        ("Can you remind me what Ann ate?", False, False),
        ("May I ask what Ann ate?", False, False),
        ("What did you recommend for my back?", True, True),
        ("Which hotel had you suggested?", False, True),
        ("Could you repeat your advice on Rome?", False, True),
        ("I was wondering what you told me about Rome.", False, True),
        ("Which book came up in our last conversation?", False, True),
        ("What do you think of Rome?", False, False),
        ("내가 뭐 먹었지?", True, False),
        ("네가 추천해 준 식당이 어디였지?", False, True),
        ("私は何を食べましたか？", True, False),
        ("あなたが勧めた本は何ですか？", False, True),
        ("我吃了什么？", True, False),
        ("你之前推荐的餐厅叫什么？", False, True),
        ("민수가 뭐 먹었지?", False, False),
    ],
)
def test_whose_words_a_question_is_about(question: str, user: bool, assistant: bool) -> None:
    """The asker's own life, or what the assistant said; courtesy is neither."""
    read = read_question(question)
    assert (read.about_user, read.about_assistant) == (user, assistant)


@pytest.mark.parametrize(
    ("question", "latest"),
    [
        ("Where do I currently live?", True),
        ("Where do I live now?", True),
        ("What is my latest weight?", True),
        ("Do I still own the bike?", True),
        ("When was the last time I swam?", True),
        ("What did I read recently?", True),
        ("내가 지금 어디 살지?", True),
        ("요즘 뭐 읽지?", True),
        ("今どこに住んでいますか？", True),
        ("我现在住在哪里？", True),
        ("Where did I live?", False),
        ("What did I know?", False),
        ("Which still life did I paint?", False),
        ("Would I still have gone?", False),
        ("What did I last say before now?", False),
        ("Which game did I currently play in May 2022?", False),
        ("今日は何曜日？", False),
    ],
)
def test_whether_the_latest_state_is_wanted(question: str, latest: bool) -> None:
    """Words for the present ask for it, unless the question names another time or means something else."""
    assert read_question(question).latest is latest


@pytest.mark.parametrize(
    ("question", "persons", "gist"),
    [
        ("When did Ann Lee adopt the cat?", ["Ann Lee"], "adopt the cat"),
        ("When did Lee adopt the cat?", ["Ann Lee"], "adopt the cat"),
        ("What kind of tea does Ann's sister drink?", ["Ann"], "tea does sister drink"),
        ("What's the name of Bo’s dog?", ["Bo"], "the name of dog"),
        ("Was Bob in Bobtown?", ["Bob"], "in Bobtown"),
        ("How many cats do I own?", [], "cats do I own"),
        ("where IS it", [], "it"),
        ("Tell me about Rome.", [], "Tell me about Rome"),
        ("Where did we eat when it rained?", [], "we eat when it rained"),
        ("언제 이사했지?", [], "언제 이사했지"),
        ("Who?", [], "Who?"),
        ("Ann?", ["Ann"], "Ann?"),
        ("", ["Ann"], ""),
        ("?!", [], "?!"),
    ],
)
def test_the_gist_is_what_other_signals_leave(question: str, persons: list[str], gist: str) -> None:
    """Without the first question word and the names of persons; the question itself where nothing is left."""
    assert gist_of(question, persons) == gist


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
