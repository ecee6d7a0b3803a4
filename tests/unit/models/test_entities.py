"""The entities file."""

from pathlib import Path

import pytest

from memory_agent.domain.entities import Entity
from memory_agent.errors import ConfigError
from memory_agent.models.entities import SHIPPED_ENTITIES, load_entities

# --- the shipped file ----------------------------------------------------------------------------------------


SHIPPED = {
    "LANEIGE와 COSRX 비교": "brands LANEIGE COSRX",
    "SoS와 HHI로": "indicators SoS HHI",
    "라네즈, 코스알엑스, 티르티르, 이니스프리, 설화수": "brands LANEIGE COSRX TIRTIR innisfree Sulwhasoo",
    "점유율과 집중도, 가격지수": "indicators SoS HHI CPI",
    "sos, SOS": "",
    "cpi and Hhi": "indicators CPI HHI",
    "cpi랑 hhi를": "indicators CPI HHI",
    "The cpis of scpi and cpi2 or hhis": "",
}


def test_shipped_example_finds_brands_and_indicators() -> None:
    shipped = load_entities(SHIPPED_ENTITIES)
    for text, found in SHIPPED.items():
        kind, *names = found.split() or [""]
        assert shipped.find(text) == tuple(Entity(kind=kind, name=name) for name in names), text
    both = [Entity(kind="indicators", name="SoS"), Entity(kind="brands", name="Rare Beauty")]
    assert list(shipped.find("share of shelf, rare beauty")) == both


# --- other files ---------------------------------------------------------------------------------------------
def written(tmp_path: Path, text: str | bytes) -> Path:
    file = tmp_path / "entities.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def test_file_without_names_is_an_empty_dictionary(tmp_path: Path) -> None:
    for text in ("", "# nothing\n", "---\n", "brands:\n", "~", "\ufeff"):
        assert not load_entities(written(tmp_path, text)), text


def test_scalars_are_read_as_they_are_written(tmp_path: Path) -> None:
    """YAML's booleans, numbers and dates are names and aliases here; a name may have no aliases."""
    dictionary = load_entities(
        written(
            tmp_path, "brands:\n  No: [on, 1.50]\n  1984: &a []\n  2026-01-05:\n  '~': *a\n  \"null\": ~\n"
        )
    )
    assert [entity.name for entity in dictionary.entities] == ["No", "1984", "2026-01-05", "~", "null"]
    assert dictionary.named("ON") == dictionary.named("1.50") == Entity(kind="brands", name="No")


REFUSED: list[tuple[str | bytes, list[str]]] = [
    ("brands: {A: []}\nbrands: {B: []}\n", ["line 2", "'brands'", "second time"]),
    ("brands:\n  LANEIGE: []\n  LANEIGE: [라네즈]\n", ["line 3", "'brands'", "'LANEIGE'", "join"]),
    ("brands:\n  One: [wow]\n  Two: [Wow]\n", ["brands", "'Wow'", "'One'", "'Two'", "keep"]),
    ("- brands\n", ["line 1", "mapping of kinds", "a list"]),
    ("just words\n", ["line 1", "mapping of kinds", "'just words'"]),
    ("brands: [LANEIGE]\n", ["line 1", "'brands'", "mapping of names"]),
    ("brands: LANEIGE\n", ["line 1", "'brands'", "'LANEIGE'"]),
    ("brands:\n  LANEIGE: 라네즈\n", ["line 2", "brands", "'LANEIGE'", "list", "'라네즈'"]),
    ("brands:\n  LANEIGE: {ko: 라네즈}\n", ["line 2", "brands", "'LANEIGE'", "a mapping"]),
    ("brands:\n  LANEIGE:\n  - [라네즈]\n", ["line 3", "brands", "'LANEIGE'", "a list"]),
    ("brands:\n  LANEIGE: [라네즈, ]\n  X: [~]\n", ["line 3", "brands", "'X'", "nothing"]),
    ("brands:\n  [a, b]: []\n", ["line 2", "'brands'", "a list"]),
    ("Brands:\n  LANEIGE: []\n", ["line 1", "'Brands'", "a-z"]),
    ("brands: {A: []}\nbad kind: {}\n", ["line 2", "'bad kind'", "a-z"]),
    ("brands: {A: []}\n\nBad:\n", ["line 3", "'Bad'", "a-z"]),
    ("brands:\n  ~: []\n  '': []\n", ["name of an entity", "empty"]),
    ('brands:\n  LANEIGE: [" "]\n', ["brands", "'LANEIGE'", "' '"]),
    ("brands: {A: [}\n", ["not valid YAML", "line 1"]),
    ("brands: {A: [@a]}\n", ["not valid YAML", "line 1"]),
    ("a: {}\n---\nb: {}\n", ["not valid YAML", "single document"]),
    (b"brands: {A: [\xff]}\n", ["not UTF-8"]),
]


def test_other_content_is_refused_with_its_place(tmp_path: Path) -> None:
    for text, words in REFUSED:
        file = written(tmp_path, text)
        with pytest.raises(ConfigError) as caught:
            load_entities(file)
        assert [word for word in (str(file), *words) if word not in str(caught.value)] == [], text


def test_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    """A missing file is no empty dictionary: a mistyped path would go unnoticed."""
    for name in ("missing.yaml", "."):
        with pytest.raises(ConfigError, match="cannot be read"):
            load_entities(tmp_path / name)
