"""How many tokens a text is: by tiktoken where its tables are on disk, else by an estimate."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import regex

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.ports import TokenCounter

DEFAULT_ENCODING: Final = "o200k_base"

_TABLES: Final = "https://openaipublic.blob.core.windows.net/encodings/{}.tiktoken"
"""tiktoken names a cached table by the SHA-1 of the address it came from."""

_PIECE: Final = regex.compile(
    r"(?P<wide>[\p{Han}\p{Hangul}\p{Hiragana}\p{Katakana}])"
    r"|(?P<word>[A-Z]?[a-z]+)"
    r"|(?P<capitals>[A-Z]+)"
    r"|(?P<digits>\d{1,3})"
    r"|(?P<letters>[\p{Latin}\p{Cyrillic}\p{Greek}]{1,12})"
    r"|(?P<space>\ (?=\S|\Z))"
    r"|(?P<blank>\n+|[^\S\n]+)"
    r"|(?P<mark>(?P<char>[!-/:-@\[-`{-~])(?P=char)*)"
    r"|(?P<pictograph>[\p{So}\p{Sk}\U00010000-\U0010FFFF])"
    r"|(?P<other>.)",
    regex.DOTALL,
)

_WORD_CHARS: Final = 7
_PIECE_CHARS: Final = 84  # a multiple of every length below


class EstimatedTokens:
    """`TokenCounter` without any table: a pure function, meant to err on the high side.

    One token for each Chinese, Japanese or Korean character; for each 7 letters of an English word (so nearly
    always one), 3 of a word with other Latin, Cyrillic or Greek letters, 2 capitals in a row; for 3 digits; for a
    punctuation mark (repeats: 4 to a token); for a run of line breaks or blanks (8 to a token; the one
    blank before a word belongs to the word); for any other character of the first Unicode plane; 3 for an emoji.
    Byte-pair encodings in use since 2023 need 4 to 4.5 characters a token of English; this says 3.5 to 4.
    """

    def count(self, text: str) -> int:
        """See `TokenCounter.count`."""
        return max(1, sum(weight for _, _, weight in estimated_pieces(text))) if text else 0


class TiktokenCounter:
    """`TokenCounter` by tiktoken. Made by `on_disk`, so that nothing is ever downloaded to count."""

    def __init__(self, encoding_name: str) -> None:
        import tiktoken

        self._encoding = tiktoken.get_encoding(encoding_name)

    @classmethod
    def on_disk(cls, encoding_name: str = DEFAULT_ENCODING) -> TiktokenCounter | None:
        """A counter if the encoding's table is on disk and sound, else None."""
        return cls(encoding_name) if table_on_disk(encoding_name) else None

    def count(self, text: str) -> int:
        """See `TokenCounter.count`. Text that looks like a special token is counted as the text it is."""
        return len(self._encoding.encode_ordinary(text))


def best_token_counter(encoding_name: str = DEFAULT_ENCODING) -> TokenCounter:
    """tiktoken's exact count if it can be had without a network, else the estimate."""
    return TiktokenCounter.on_disk(encoding_name) or EstimatedTokens()


def table_on_disk(encoding_name: str) -> bool:
    """Whether tiktoken would find this encoding's table without downloading it.

    An incomplete table counts as none: tiktoken would delete it and download another.
    """
    folder = os.environ.get("TIKTOKEN_CACHE_DIR", os.environ.get("DATA_GYM_CACHE_DIR"))
    if folder is None:
        folder = str(Path(tempfile.gettempdir()) / "data-gym-cache")
    if not folder:
        return False  # an empty name switches tiktoken's cache off
    address = _TABLES.format(encoding_name)
    table = Path(folder) / hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest()
    expected = _expected_hashes().get(encoding_name)
    if expected is None or not table.is_file():
        return False
    with table.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == expected


def estimated_pieces(text: str) -> Iterator[tuple[int, int, int]]:
    """`text` in pieces (start, end, tokens), without gaps; no piece is heavier than 42 tokens."""
    for match in _PIECE.finditer(text):
        start, end = match.span()
        kind = match.lastgroup or "other"
        for begin in range(start, end, _PIECE_CHARS):
            stop = min(end, begin + _PIECE_CHARS)
            yield begin, stop, _weight(kind, text[begin], stop - begin)


def _weight(kind: str, char: str, chars: int) -> int:
    if kind == "word":
        return -(-chars // _WORD_CHARS)
    if kind == "letters":
        return -(-chars // 3)
    if kind == "capitals":
        return -(-chars // 2)
    if kind == "space":
        return 0
    if kind == "blank":
        return -(-chars // 8)
    if kind == "mark":
        return -(-chars // 4)
    if kind == "pictograph" or (kind == "wide" and char > "\uffff"):
        return 3
    return 1


def _expected_hashes() -> dict[str, str]:
    """The SHA-256 of each table that this release of the format has; they never change."""
    return {
        "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
        "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
    }
