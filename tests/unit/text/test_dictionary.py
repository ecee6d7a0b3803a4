"""Known names are found under every alias, and nowhere else."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain.search import Entity
from memory_agent.errors import InvalidInput
from memory_agent.text.dictionary import EntityDictionary, united
from tests.unit.examples import examples, misses

EXAMPLES = examples("text/dictionary.toml")
KINDS: dict[str, dict[str, list[str]]] = EXAMPLES["names"]
DICTIONARY = EntityDictionary(KINDS)
BRAND_WORDS = ["LANEIGE", "COSRX", "TIRTIR", "Rare Beauty", "innisfree", "Sulwhasoo"]


def names(text: str, dictionary: EntityDictionary = DICTIONARY) -> list[str]:
    return [entity.name for entity in dictionary.find(text)]


def brand(name: str) -> Entity:
    return Entity(kind="brands", name=name)


# --- where an alias begins and ends --------------------------------------------------------------------------
def test_names_are_found_where_words_and_particles_end() -> None:
    assert misses(EXAMPLES["found"], names) == []


def test_nothing_is_found_inside_other_words() -> None:
    """A longer word of the same script, or an acronym in other case, is something else."""
    assert [text for text in EXAMPLES["not_found"] if names(text)] == []


PARTICLES = """
은 는 이 가 을 를 와 과 의 에 에서 로 으로 도 만 까지 부터 보다 처럼 랑 이랑 하고 께서 한테 에게 이라 라고 에서는 로부터 이에요 예요
입니다 에는 에도 에서도 에서의 으로는 로는 로도 만은 만의 까지는 까지도 부터는 보다는 처럼은 이나 나 이라도 라도 이란 란 이라는 라는
이라면 라면 이면 이고 고 이며 며 인 인데 인지 일까요 다 이다 야 이야 죠 이죠 네요 이네요 였고 조차 마저 밖에 대로 마다 야말로 든지 엔
에선 에겐 보단 까진 부턴 론 으론 이요 는요 은요 도요 에서요 하고는 와는 과의 와도 한테서 에게서는 로서는 으로써 은커녕 끼리
"""


def test_particle_may_follow_a_korean_name() -> None:
    for particle in PARTICLES.split():
        assert names(f"라네즈{particle} 점유율{particle}.") == ["LANEIGE", "SoS"], particle
        assert names(f"라네즈{particle}값") == [], particle


# --- which of several ----------------------------------------------------------------------------------------
def test_the_longest_alias_wins_and_every_alias_counts_towards_its_name() -> None:
    """ "share" inside "share of shelf" is not counted, but is where the longer one does not end; in order of the first."""
    counts = DICTIONARY.count("share of shelf, share, shelf, Share of shelf")
    assert {entity.name: count for entity, count in counts.items()} == {"SoS": 2, "share": 1, "shelf": 1}
    assert names("share of shelfs") == ["share"]
    counts = DICTIONARY.count("코스알엑스, LANEIGE, 라네즈는 laneige COSRX")
    assert list(counts.items()) == [(brand("COSRX"), 2), (brand("LANEIGE"), 3)]


def test_of_two_names_with_one_alias_the_first_kind_or_the_one_as_written_wins() -> None:
    """The order of kinds decides, not that of letters; an acronym and a word may differ in case alone."""
    one = EntityDictionary({"z": {"Mango": []}, "a": {"Mango": ["MANGO"]}})
    assert one.find("mango") == (Entity(kind="z", name="Mango"),)
    assert one.named("mango", kind="a") == Entity(kind="a", name="Mango")
    two = EntityDictionary({"indicators": {"SoS": []}, "calls": {"distress": ["sos"]}})
    assert names("SoS sos SOS", two) == ["SoS", "distress"]
    assert two.count("SoS sos SOS")[Entity(kind="calls", name="distress")] == 2


# --- the dictionary ------------------------------------------------------------------------------------------
def test_impossible_dictionary_is_refused_by_kind_and_name() -> None:
    refused: list[tuple[Any, list[str]]] = [
        ({"Brands": {"LANEIGE": []}}, ["'Brands'", "a-z"]),
        ({"brands": {"": []}}, ["name of an entity", "empty"]),
        ({"brands": {"A\nB": []}}, ["control character", r"'\n'"]),
        ({"brands": {"LANEIGE": [" "]}}, ["brands", "'LANEIGE'", "' '"]),
        ({"brands": {"LANEIGE": ["x" * 101]}}, ["brands", "'LANEIGE'", "100"]),
        ({"brands": {"LANEIGE": ["™"]}}, ["brands", "'LANEIGE'", "'™'"]),
        ({"brands": {"LANEIGE": [7]}}, ["brands", "'LANEIGE'", "7"]),
        ({"brands": {"LANEIGE": "라네즈"}}, ["brands", "'LANEIGE'", "list"]),
        ({"brands": {"One": ["wow"], "Two": ["WOW!", "Wow"]}}, ["'Wow'", "brands", "'One'", "'Two'"]),
        ({"brands": {"One": [], "Two": ["ｏｎｅ"]}}, ["'ｏｎｅ'", "'One'", "'Two'"]),
    ]
    for kinds, words in refused:
        with pytest.raises(InvalidInput) as caught:
            EntityDictionary(kinds)
        assert all(word in str(caught.value) for word in words), kinds


def test_entities_of_all_sources_are_united() -> None:
    """A caller's alias becomes the canonical name; a model's organisation that is a known brand is left out."""
    acme = Entity(kind="organisations", name="Acme")
    assert united(
        DICTIONARY.find("LANEIGE"),
        [brand("코스알엑스"), brand("Own"), Entity(kind="moods", name="라네즈")],
        [Entity(kind="organisations", name="laneige"), acme, Entity(kind="people", name="Own"), acme],
        DICTIONARY,
    ) == (brand("LANEIGE"), brand("COSRX"), brand("Own"), Entity(kind="moods", name="라네즈"), acme)


# --- properties ----------------------------------------------------------------------------------------------

PIECES = st.sampled_from([
    *BRAND_WORDS, "라네즈", "점유율", "SoS", "HHI", "은", "에서는", "와", "-", "'s", "™", "①", "ㅋ", "の", "中", "ß", "İ", " ", "\n",
])  # fmt: skip
TEXTS = st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=12).map("".join))


@given(
    st.lists(st.sampled_from(BRAND_WORDS), min_size=1, max_size=5),
    st.sampled_from([" ", ", ", "와 ", "の", "\n"]),
)
def test_case_and_width_make_no_difference_to_names(words: list[str], between: str) -> None:
    text = between.join(words)
    wide = text.translate({code: code + 0xFEE0 for code in range(0x21, 0x7F)})
    expected = [brand(word) for word in dict.fromkeys(words)]
    for variant in (text, text.upper(), text.lower(), text.swapcase(), wide):
        assert list(DICTIONARY.find(variant)) == expected


@given(TEXTS, TEXTS)
def test_what_stands_a_line_away_makes_no_difference(one: str, two: str) -> None:
    """Mentions of two texts add up. A sign in between keeps the two from making a name together. Find and count agree."""
    both = DICTIONARY.count(f"{one}\n|\n{two}")
    assert tuple(both) == DICTIONARY.find(f"{one}\n|\n{two}")
    first, second = DICTIONARY.count(one), DICTIONARY.count(two)
    assert both == {entity: first.get(entity, 0) + second.get(entity, 0) for entity in {**first, **second}}
