"""What a turn is about: its words, how many there are, and the phrases that they stand in."""

from hypothesis import given
from hypothesis import strategies as st

from memory_agent.text.subjects import (
    everyday_sentences,
    languages_of,
    only_reacts,
    shared_phrase,
    subject_of,
)
from memory_agent.topics.projection import MatchSettings

SHORT_REPLIES = """👍|...|no|ok thanks!|haha|sounds good|yes, the second one|no no no no no|그래 좋아|감사합니다|ㅋㅋㅋㅋ|
好的，第二个|はい、二番目でお願いします|ありがとうございます"""
SUBJECTS = """Can you recommend a vegetarian lasagna recipe?|What is the capital of Mongolia?|에베레스트 산의 높이는 얼마나 되나요?|珠穆朗玛峰有多高？|
来月、京都に旅行するのでホテルを探しています。|ภูเขาเอเวอเรสต์สูงเท่าไหร่|Мы переезжаем в Казань следующим летом"""
PHRASES = {
    "Is there a tram to the old castle in Lisbon?": {"tram", "old castle", "Lisbon"},
    "We want to rent a bigger flat in Porto.": {"bigger flat", "Porto"},
    "My wife would love a night in a temple on Mount Koya.": {"wife", "temple", "Mount Koya"},
    "Run `rsync -a` and see https://example.org/manual": set(),
    "제주도에서는 렌터카를 빌려요.": {"제주도", "렌터카"},
    "회사에서 영어 발표를 해야 해요.": {"회사", "영어 발표"},
    # A verb ends a phrase, and what follows it may be a noun; behind a pronoun any word is a verb.
    "The landlord of the flat wants a deposit.": {"landlord", "flat", "deposit"},
    "I plan trips and we drink mint tea.": {"trips", "mint tea"},
    "The dealer offered repairs in the newly built garage.": {"dealer", "repairs", "garage"},
    # An adjective may begin one, and doesn't end it; before two nouns or a name it says nothing more.
    "It was a delicious Tiramisu for a healthy campus breakfast, and the tea was so relaxing.": {
        "Tiramisu",
        "campus breakfast",
        "tea",
    },
    # Of amounts, of time, of any request: nothing.
    "I have a lot of things to do this month, thanks for the tips and a piece of advice.": set(),
    "The history of Korea, a cup of tea and the deadline of March.": {
        "history of Korea",
        "cup of tea",
        "deadline",
    },
    # Names: of several words, and titles in quotes; not who is spoken to.
    "We flew from New York to Los Angeles.": {"New York", "Los Angeles"},
    'Have you seen the film "Summer of Soul"?': {"film", "Summer of Soul"},
    'She said to us, "I love the sea and the wind, always."': set(),
    "Thank you so much, Kate! That looks amazing Kate.": set(),
    "I fly to Porto.": {"Porto"},
    # As it was said, and no code.
    "I started a half-size cello lesson.": {"half-size cello lesson"},
    "We saw the crash of load_config in app.py and in myModule.": {"crash"},
    "맛있는 음식을 먹고 회의가 있는 회사로 갔어요.": {"음식", "회의", "회사"},
}


def test_short_replies_are_short_and_questions_with_a_subject_are_not() -> None:
    """In any script, also where words aren't parted by spaces."""
    enough = MatchSettings().short_turn_terms
    assert [text for text in ["", *SHORT_REPLIES.split("|")] if subject_of(text).size >= enough] == []
    assert [text for text in SUBJECTS.split("|") if subject_of(text).size < enough] == []


def test_noun_phrases_are_found() -> None:
    """Where what stands before or after them says that they are nouns; none in code and links."""
    found = {text: set(subject_of(text).words.values()) - {""} for text in PHRASES}
    assert found == PHRASES


def test_words_without_a_phrase_count_as_well() -> None:
    """Also who is spoken to, and a word in quotes that is spoken of."""
    assert subject_of("We rent bikes, Kate!").words == {"rent": "", "bike": "bikes", "kate": ""}
    asked = subject_of('What does the word "petrichor" mean?')
    assert asked.words["petrichor"] == "petrichor"
    assert asked.size >= MatchSettings().short_turn_terms


def test_noises_fillers_and_who_is_greeted_tell_nothing() -> None:
    """What a transcript notes between brackets, and a name of several words behind a greeting."""
    nothing = [
        "{vocalsound} Mm-hmm .", "Uh-huh, alright.", "[Music]", "*laughs* Erm", "Hi, AI companion.",
        "Thank you, AI friend!",
    ]  # fmt: skip
    assert {text: words for text in nothing if (words := subject_of(text).words)} == {}
    assert all(map(only_reacts, nothing[:4]))
    assert subject_of("Hi AI friend, I heard the music in Porto.").words == {
        "heard": "",
        "music": "music",
        "porto": "Porto",
    }
    told = {
        "Hi, Porto is great.": "porto",
        "Thanks, Lisbon works great!": "lisbon",
        "Hey, Rex died yesterday.": "rex",
        "My hobby is *music*.": "music",
        "Play (music) please": "music",
        "We need to fix the [gap] in it": "gap",
    }
    assert {text for text, word in told.items() if word not in subject_of(text).words} == set()
    assert subject_of("Oh. [pause]").words == {}


def test_forms_of_a_word_meet() -> None:
    """Endings of English and particles of Korean make no difference."""
    assert subject_of("raspberries").words.keys() == subject_of("Raspberry!").words.keys()
    assert "강아" in subject_of("강아지가").words.keys() & subject_of("강아지한테").words.keys()


def test_the_languages_of_a_text_are_those_of_its_letters() -> None:
    """Each with sentences of its own."""
    assert languages_of("Hello") == ("english",)
    assert "korean" in languages_of("Hello 안녕")
    assert languages_of("123") == ()
    for sentences in everyday_sentences().values():
        assert len(set(sentences)) == 6


@given(st.text(max_size=60), st.text(max_size=60))
def test_any_text_has_a_subject_however_small(text: str, other: str) -> None:
    subject = subject_of(text)
    assert subject.size >= 0
    assert "" not in subject.words
    assert set(shared_phrase(text, other).split()) <= set(text.split())
