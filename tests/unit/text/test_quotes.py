"""What is quoted of a turn: whole sentences in which somebody tells something of their own."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.text.quotes import quotes_of
from memory_agent.text.sentences import MAX_SENTENCE_CHARS, sentences_of

LETTER = """Please make this warmer, I need it by 6 May:

Dear Ann,
I had to miss the book club meeting on December 5. My sister Ines was ill.
Yours, Bo"""
POST = "Meaning you will receive rewards for 7 years.\n**Example Social Media Post**\nDay 8-10:\n#### Error Handling in 2024"
CODE = "I want this in Flask 2.3.1 by 3 May.\n```python\napp = Flask(__name__)  # 2024\n```\n250: Path 1:\n- my item 3\n1. My sister Ines"
PASTED = "Subject: Your visit on 12 May\nMy name is Dr. Holm and I look forward to 12 May."
TELLING = {
    "We decided to go with Luso Van for 3,100 euros.": None,
    "Actually Luso Van offered 3,100. We switched.": ["Actually Luso Van offered 3,100.", "We switched."],
    "I lost my job today. I feel awful.": ["I lost my job today."],
    "I'm allergic to penicillin, so I need to tell the new health centre.": None,
    "We found it! Avenida da Igreja 41": ["Avenida da Igreja 41"],
    "I'm trying to meet the April 15 deadline, can you help me?": None,
    "저는 땅콩 알레르기가 있어요. 다음 달에 부산으로 이사하려고 해요.": ["저는 땅콩 알레르기가 있어요.", "다음 달에 부산으로 이사하려고 해요."],
    CODE: ["I want this in Flask 2.3.1 by 3 May."],
}  # fmt: skip
TELLS_NOTHING = (
    LETTER, POST, PASTED, "Let's do it!", "In high school I used to play this mobile game…", "I'm scared of nothing", "Nice job!",
    "Thanks, Caroline!", "Thank you, AI companion, for your help.", "Hey Mel!", "I'm so proud of you", "Wow, Caroline, you're doing great.", "What did Ines say on 3 May?",
    "I put the book down and went out to the garden.", "", "?!", f"I have 3 {'very ' * 80}long sentences in Porto",
)  # fmt: skip


def telling(text: str) -> list[str]:
    """The quotes that a summary would show."""
    return [quote.text for quote in quotes_of(text) if quote.weight >= 2]


def test_what_tells_something_is_quoted_whole_and_what_does_not_is_not() -> None:
    """Of names, numbers, relatives, decisions and plans; never a letter, a list, a heading, code or half a sentence."""
    assert {text: telling(text) for text in TELLING} == {
        text: quotes or [text] for text, quotes in TELLING.items()
    }
    assert {text: telling(text) for text in TELLS_NOTHING if telling(text)} == {}


def test_a_word_and_a_full_stop_are_no_item_of_a_list() -> None:
    """A list is numbered by figures, one letter or a Roman number."""
    said = "Wow. Bali looks amazing.\nYes. In May.\nHi. I'm Ines.\nix) not said\n2. nor this\nb. nor that"
    assert [sentence.text for sentence in sentences_of(said)] == [
        "Wow.", "Bali looks amazing.", "Yes.", "In May.", "Hi.", "I'm Ines.",
    ]  # fmt: skip


@given(st.text(st.sampled_from("aI my5.!?:\n-#*`>|가") | st.characters(codec="utf-8"), max_size=300))
def test_every_sentence_stands_in_its_turn(text: str) -> None:
    flat = "".join(text.split())
    for sentence in sentences_of(text):
        assert len(sentence.text) <= MAX_SENTENCE_CHARS
        assert len(sentence.low) == len(sentence.text)
    found = ["".join(quote.text.split()) for quote in quotes_of(text)]
    if text.isascii():
        assert all(quote in flat for quote in found)


@pytest.mark.timeout(60)
def test_a_book_is_read_in_no_time() -> None:
    """Its beginning and its end, without half of a line between."""
    book = "\n".join(f"My sister Ines paid {i} euros in Porto." for i in range(20_000))
    read = [sentence.text for sentence in sentences_of(book)]
    assert (len(read) < 200, read[0], read[-1]) == (
        True,
        "My sister Ines paid 0 euros in Porto.",
        "My sister Ines paid 19999 euros in Porto.",
    )
    assert all(text.startswith("My sister") and text.endswith("Porto.") for text in read[:90] + read[-5:])
