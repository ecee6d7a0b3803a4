"""The pairs of languages, and the figures made of what was found."""

from __future__ import annotations

from collections import Counter

from benchmarks.languages import DATA, found_within, table
from benchmarks.recall_sets import read_with_gold
from benchmarks.scoring import Result
from memory_agent.text.writing import main_script

SCRIPTS = {"english": "LATIN", "korean": "HANGUL", "chinese": "CJK"}


def result(question: str, rank: int | None) -> Result:
    return Result(
        set="languages",
        corpus="korean",
        question=question,
        type="English turn",
        gold_turns={"t1": rank},
        gold_sessions={},
        found=(),
        figures={},
    )


def test_korean_and_chinese_have_a_hundred_questions_of_which_thirty_cross_languages() -> None:
    """Each is about one turn, in the language that its type says, and no turn answers two."""
    for corpus, gold in read_with_gold(DATA):
        texts = {turn.id: turn.text for turn in corpus.turns}
        answers = [next(iter(gold.by_question[q.id].turns)) for q in corpus.questions]
        assert len(set(answers)) == len(answers), corpus.name
        if corpus.name not in ("korean", "chinese"):
            assert len(answers) == 20
            continue
        assert Counter(q.type for q in corpus.questions) == {
            "same language": 70,
            "English turn": 15,
            "English question": 15,
        }
        for question, answer in zip(corpus.questions, answers, strict=True):
            asked, told = main_script(question.text), main_script(texts[answer])
            own = SCRIPTS[corpus.name]
            expected = {
                "same language": (own, own),
                "English turn": (own, "LATIN"),
                "English question": ("LATIN", own),
            }
            assert (asked, told) == expected[question.type], question.text


def test_the_table_has_the_share_of_questions_whose_turn_is_first_and_among_five() -> None:
    found = [result("a", 1), result("b", 5), result("c", 6), result("d", None)]
    assert (found_within(found, 1), found_within(found, 5)) == (0.25, 0.5)
    assert table({"one": found}).splitlines()[-1] == "| korean, English turn | 4 | 0.25/0.50 |"
