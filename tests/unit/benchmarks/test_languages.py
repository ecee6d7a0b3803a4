"""The pairs of languages, and the figures made of what was found."""

from collections import Counter

from benchmarks.languages import DATA
from benchmarks.recall_sets import read_with_gold
from memory_agent.text.writing import main_script

SCRIPTS = {"english": "LATIN", "korean": "HANGUL", "chinese": "CJK"}


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
