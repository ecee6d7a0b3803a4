"""Scripts of texts and of vocabularies."""

import pytest

from memory_agent.text.writing import is_read, main_script, scripts_in

LATIN = frozenset({"LATIN"})


@pytest.mark.parametrize(
    ("text", "script"),
    [
        ("I moved to Lisbon.", "LATIN"), ("Ich wohne in Köln", "LATIN"), ("부산으로 이사했어요 (Busan)", "HANGUL"),
        ("我搬到了杭州", "CJK"), ("新しい電車", "HIRAGANA"), ("コーヒー", "HIRAGANA"), ("Я живу в Казани", "CYRILLIC"),
        ("ｆｕｌｌ", "LATIN"), ("👍🏽 …", ""),
    ],
)  # fmt: skip
def test_the_main_script_is_that_of_most_letters(text: str, script: str) -> None:
    assert main_script(text) == script


@pytest.mark.parametrize("text", ["", "12:30", "👍🏽", "café", "iPhone 을", "Sushi (寿司) again"])
def test_what_is_mostly_in_known_scripts_or_has_no_letters_is_read(text: str) -> None:
    assert is_read(text, LATIN)


@pytest.mark.parametrize(
    "text", ["집에 가고 싶어", "K팝 공연을 봤습니다", "我在 Google 上班的第一天", "ёлка"]
)
def test_what_is_mostly_in_other_scripts_is_not_read_but_by_a_model_of_all(text: str) -> None:
    assert not is_read(text, LATIN)
    assert is_read(text, None)


def test_a_vocabulary_knows_a_script_by_pieces_of_its_words() -> None:
    """Single letters are in many vocabularies; a hundred longer pieces, or a thousand characters, are in those trained on it."""
    letters = [chr(code) for code in range(ord("가"), ord("가") + 900)]
    latin = [f"##{a}{b}" for a in "abcdefghijk" for b in "abcdefghijk"]
    assert scripts_in([*letters, *latin, "[UNK]", "12"]) == LATIN
    words = [f"▁{a}다" for a in letters[:100]]
    assert scripts_in([*words, *latin]) == {"HANGUL", "LATIN"}
    characters = [chr(code) for code in range(0x4E00, 0x4E00 + 1_000)]
    assert scripts_in(characters) == {"CJK"}
    assert scripts_in(characters[:-1]) == frozenset()
