"""The language of texts in Latin letters is told of what somebody says taken together."""

import pytest

from memory_agent.search.fusion import EVERYDAY
from memory_agent.text.writing import latin_language


@pytest.mark.parametrize(
    ("language", "code"), [("english", "en"), ("german", "de"), ("french", "fr"), ("spanish", "es")]
)
def test_a_few_sentences_together_tell_their_language(language: str, code: str) -> None:
    assert latin_language([*EVERYDAY[language], *EVERYDAY["korean"]]) == code


def test_too_little_text_and_other_scripts_tell_none() -> None:
    assert latin_language(EVERYDAY["german"][:2]) == ""
    assert latin_language(EVERYDAY["russian"] * 5) == ""
    assert latin_language([]) == ""


def test_a_long_paste_does_not_outweigh_what_else_is_said() -> None:
    paste = " ".join(EVERYDAY["english"] * 50)
    assert latin_language([paste, *EVERYDAY["german"] * 4]) == "de"
