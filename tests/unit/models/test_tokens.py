"""Which token counter is picked, and that picking never downloads."""

from __future__ import annotations

import hashlib
import importlib.util
import socket
from pathlib import Path

import pytest

from memory_agent.models import tokens
from memory_agent.models.tokens import EstimatedTokens, best_token_counter, estimated_pieces, table_on_disk

ADDRESS = b"https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"


@pytest.fixture
def no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("DATA_GYM_CACHE_DIR", raising=False)
    return tmp_path


def table(folder: Path, content: bytes = b"table") -> None:
    (folder / hashlib.sha1(ADDRESS).hexdigest()).write_bytes(content)


@pytest.fixture
def small_table(monkeypatch: pytest.MonkeyPatch) -> None:
    digest = hashlib.sha256(b"table").hexdigest()
    monkeypatch.setattr(tokens, "_expected_hashes", lambda: {"o200k_base": digest})


@pytest.mark.usefixtures("no_cache")
def test_without_a_table_the_estimate_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """No table on disk: no attempt to fetch one."""

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    assert isinstance(best_token_counter(), EstimatedTokens)


@pytest.mark.usefixtures("small_table")
def test_a_sound_table_is_seen(no_cache: Path) -> None:
    """The table is looked for where tiktoken keeps it."""
    assert not table_on_disk("o200k_base")
    table(no_cache)
    assert table_on_disk("o200k_base")


@pytest.mark.usefixtures("small_table")
def test_a_torn_table_is_none(no_cache: Path) -> None:
    """A table with another content would be deleted and fetched anew by tiktoken."""
    table(no_cache, b"tab")
    assert not table_on_disk("o200k_base")


@pytest.mark.usefixtures("small_table")
def test_the_places_are_tiktokens(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """TIKTOKEN_CACHE_DIR goes before DATA_GYM_CACHE_DIR, that before the temporary folder; empty means none."""
    for name in ("first", "second", "third/data-gym-cache"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "third"))
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    monkeypatch.delenv("DATA_GYM_CACHE_DIR", raising=False)
    table(tmp_path / "third/data-gym-cache")
    assert table_on_disk("o200k_base")
    monkeypatch.setenv("DATA_GYM_CACHE_DIR", str(tmp_path / "second"))
    assert not table_on_disk("o200k_base")
    table(tmp_path / "second")
    assert table_on_disk("o200k_base")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path / "first"))
    assert not table_on_disk("o200k_base")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", "")
    assert not table_on_disk("o200k_base")


@pytest.mark.usefixtures("no_cache")
def test_an_unknown_encoding_has_no_table() -> None:
    """A name that we know no table of falls back to the estimate."""
    assert isinstance(best_token_counter("no_such_encoding"), EstimatedTokens)


def test_the_known_hashes_are_those_of_the_installed_tiktoken() -> None:
    """If tiktoken changes its tables, this shows it."""
    spec = importlib.util.find_spec("tiktoken_ext.openai_public")
    assert spec is not None
    text = Path(str(spec.origin)).read_text()
    for name, digest in tokens._expected_hashes().items():
        assert f"{name}.tiktoken" in text
        assert digest in text


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("hello", 1),
        ("hello world", 2),
        ("안녕하세요", 5),
        ("你好", 2),
        ("123456", 2),
        ("12", 1),
        ("a  b", 3),
        ("\n\n", 1),
        ("HTTP", 2),
        ("internationalization", 3),
        ("Übergröße", 3),
        ("!!!!", 1),
        ("?!", 2),
        ("😀", 3),
        ("x" * 700, 100),
    ],
)
def test_the_estimate_follows_its_table(text: str, count: int) -> None:
    """Each rule of the docstring, by example."""
    assert EstimatedTokens().count(text) == count


@pytest.mark.parametrize(
    "text", ["", "plain words, 12 of them", "한글 😀\n\n!!!!", "x" * 1_000, " " * 300 + "a"], ids=len
)
def test_pieces_cover_the_text_without_gaps(text: str) -> None:
    """Piece follows piece from the first character to the last, none heavy."""
    end = 0
    for start, stop, weight in estimated_pieces(text):
        assert start == end
        assert weight <= 42
        end = stop
    assert end == len(text)
