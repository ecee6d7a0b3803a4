"""The entities file."""

from pathlib import Path

import pytest

from memory_agent.domain.search import Entity
from memory_agent.errors import ConfigError
from memory_agent.models.entities import SHIPPED_ENTITIES, load_entities

# --- the shipped file ----------------------------------------------------------------------------------------


SHIPPED = {
    "LANEIGE와 COSRX 비교": "brands LANEIGE COSRX",
    "SoS와 HHI로": "indicators SoS HHI",
    "라네즈, 코스알엑스, 티르티르, 이니스프리, 설화수": "brands LANEIGE COSRX TIRTIR innisfree Sulwhasoo",
    "점유율과 집중도, 가격지수": "indicators SoS HHI CPI",
    "sos, SOS": "indicators SoS",
    "sosyal kaos": "",
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
    file = tmp_path / "entities.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def test_file_without_names_is_an_empty_dictionary(tmp_path: Path) -> None:
    for text in ("", "# nothing\n", "[brands]\n", "\ufeff"):
        assert not load_entities(written(tmp_path, text)), text


REFUSED: list[tuple[str | bytes, list[str]]] = [
    ("[brands]\nA = []\n[brands]\nB = []\n", ["not valid TOML", "line 3", "brands"]),
    ("[brands]\nLANEIGE = []\nLANEIGE = ['라네즈']\n", ["not valid TOML", "line 3"]),
    ("[brands]\nOne = ['wow']\nTwo = ['Wow']\n", ["brands", "'Wow'", "'One'", "'Two'", "keep"]),
    ("brands:\n  LANEIGE: [라네즈]\n", ["not valid TOML", "line 1", "docs/entities.md"]),
    ("brands = ['LANEIGE']\n", ["'brands'", "table of names", "LANEIGE"]),
    ("[[brands]]\nLANEIGE = []\n", ["'brands'", "table of names"]),
    ("[brands]\nLANEIGE = '라네즈'\n", ["brands", "'LANEIGE'", "list", "'라네즈'"]),
    ("[brands]\nRare Beauty = []\n", ["not valid TOML", "line 2"]),
    ("[brands.LANEIGE]\nko = '라네즈'\n", ["brands", "'LANEIGE'", "{'ko'"]),
    ("[brands]\nLANEIGE = ['라네즈', 7]\n", ["brands", "'LANEIGE'", "7"]),
    ("[Brands]\n", ["'Brands'", "a-z"]),
    ("[brands]\n'' = []\n", ["name of an entity", "empty"]),
    ("[brands]\nLANEIGE = [' ']\n", ["brands", "'LANEIGE'", "' '"]),
    (b"[brands]\nA = ['\xff']\n", ["not UTF-8"]),
]


def test_other_content_is_refused_with_its_place(tmp_path: Path) -> None:
    for text, words in REFUSED:
        file = written(tmp_path, text)
        with pytest.raises(ConfigError) as caught:
            load_entities(file)
        assert [word for word in (str(file), *words) if word not in str(caught.value)] == [], text


def test_file_that_cannot_be_read_is_refused_by_name(tmp_path: Path) -> None:
    """A missing file is no empty dictionary: a mistyped path would go unnoticed."""
    for name in ("missing.toml", "."):
        with pytest.raises(ConfigError, match="cannot be read"):
            load_entities(tmp_path / name)
