"""What a text shows at a glance, and how rows keep it."""

from hypothesis import given
from hypothesis import strategies as st

from memory_agent.domain import TurnFeatures
from memory_agent.text.corrections import SIGN_CHARS, features_of
from tests.unit.examples import examples, misses


def test_signs_are_seen() -> None:
    """Whether a turn asks, tells when, counts and tells of its speaker, and how many names it has."""
    for sign, rows in examples("text/signs.toml").items():
        assert misses(rows, lambda text, sign=sign: getattr(features_of(text), sign)) == [], sign


def test_the_beginning_of_a_text_is_read() -> None:
    """What stands behind the first 4,000 characters counts only if it asks."""
    text = "word " * (SIGN_CHARS // 5) + "last year I met Ann twice. Really?"
    assert features_of(text) == TurnFeatures(asks=True)


@given(st.integers(0, 127))
def test_packing_loses_nothing(packed: int) -> None:
    signs = TurnFeatures.unpacked(packed)
    assert signs.packed == packed
    assert TurnFeatures.unpacked(signs.packed) == signs
