"""Real text by kind, to measure token counting on: what is installed on a machine, and the recall sets."""

from __future__ import annotations

import ast
import gettext
import json
import lzma
import re
import sysconfig
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

PROJECT: Final = Path(__file__).parents[1]
PACKAGES: Final = Path(sysconfig.get_path("purelib"))
MOST_CHARS: Final = 1_200_000
"""Of one kind and part; sources are read in an order that mixes them, so what is left out is no kind of its own."""
MOST_OF_A_FILE: Final = 60_000
LEAST_MESSAGE: Final = 40
"""Characters of a translated message: shorter ones are labels and names."""

LANGUAGES: Final = {
    "korean": ("ko",),
    "chinese": ("zh_CN", "zh_TW"),
    "japanese": ("ja",),
    "russian": ("ru",),
    "german": ("de",),
    "french": ("fr",),
    "spanish": ("es",),
    "latin script, accents": ("it", "pt_BR", "sv", "pl", "cs", "tr", "vi", "hu", "fi", "ro"),
    "latin script, hardly any accents": ("nl", "id", "ms", "eu"),
    "other scripts": ("uk", "bg", "el", "ar", "fa", "he", "hi", "bn", "ta", "th", "ka"),
}
"""Kinds of text by the names that gettext has for their languages."""

FILES: Final = {
    "english prose": ("*.dist-info/METADATA", "**/*.md", "**/*.rst"),
    "python": ("**/*.py",),
    "json": ("**/*.json",),
    "html, css, javascript": ("**/*.html", "**/*.css", "**/*.js", "**/*.mjs"),
    "c, c++": ("**/*.h", "**/*.c", "**/*.cpp", "**/*.hpp", "**/*.cuh"),
    "tables": ("**/*.csv", "**/*.tsv", "**/*.dat", "**/*.yaml", "**/*.yml"),
}

_HANGUL: Final = re.compile(r"[\uac00-\ud7a3]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """The texts of one origin, in order: a conversation, a file's paragraphs, a program's messages."""

    kind: str
    name: str
    texts: tuple[str, ...]

    @property
    def held_out(self) -> bool:
        """Whether the constants were not fitted on it: by its name, so that it never changes sides."""
        return zlib.crc32(self.name.encode()) % 2 == 1


def read_sources(data: Path, locale: Path, note: Callable[[str], None]) -> list[Source]:
    """All sources found; `note` is told of what is missing. `data`: recall sets; `locale`: gettext's folder."""
    found = [*_conversations(data, note), *_korean_conversation()]
    for kind, patterns in FILES.items():
        found += _limited(_files(kind, patterns))
    for kind, codes in LANGUAGES.items():
        translated = _limited(_translations(kind, codes, locale))
        if not translated:
            note(f"no {kind}: no translations into {', '.join(codes)} in {locale.name}/")
        found += translated
    return found


def chunks(text: str, chars: int) -> Iterator[str]:
    """`text` cut between lines into parts of at least `chars` characters where it is that long."""
    part: list[str] = []
    size = 0
    for line in text.splitlines(keepends=True):
        part.append(line)
        size += len(line)
        if size >= chars:
            yield "".join(part)
            part, size = [], 0
    if part:
        yield "".join(part)


def _limited(sources: Iterable[Source]) -> list[Source]:
    """Of fitted and held-out sources so many each that they have MOST_CHARS."""
    taken = []
    room = {False: MOST_CHARS, True: MOST_CHARS}
    for source in sorted(sources, key=lambda source: zlib.crc32(source.name[::-1].encode())):
        size = sum(map(len, source.texts))
        if size and room[source.held_out] > 0:
            taken.append(source)
            room[source.held_out] -= size
    return taken


def _conversations(data: Path, note: Callable[[str], None]) -> Iterator[Source]:
    for name in ("locomo", "longmemeval"):
        file = data / f"{name}-dev.jsonl.xz"
        if not file.is_file():
            note(f"no {name} conversations: no {file.name} in {data.name}/")
            continue
        found = []
        with lzma.open(file, "rt", encoding="utf-8") as lines:
            for line in lines:
                corpus = json.loads(line)
                turns = tuple(dict.fromkeys(turn["text"] for turn in corpus["turns"]))
                found.append(
                    Source(kind=f"english turns, {name}", name=f"{name} {corpus['corpus']}", texts=turns)
                )
        yield from _limited(found)


def _korean_conversation() -> Iterator[Source]:
    """What people say in Korean, written for this project's tests and benchmarks."""
    for file in (*sorted(PROJECT.glob("tests/**/*korean*.py")), PROJECT / "benchmarks" / "embedding.py"):
        strings = [
            node.value
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        said = [text for text in dict.fromkeys(strings) if _HANGUL.search(text) and " " in text]
        for part in (0, 1):
            texts = tuple(" ".join(said[i : i + 5]) for i in range(5 * part, len(said), 10))
            yield Source(kind="korean turns", name=f"said in {file.name} {part}", texts=texts)


def _files(kind: str, patterns: tuple[str, ...]) -> Iterator[Source]:
    files = [(PACKAGES, file) for pattern in patterns for file in PACKAGES.glob(pattern)]
    if kind in ("english prose", "python"):
        own = "**/*.md" if kind == "english prose" else "memory_agent/**/*.py"
        files += [(PROJECT, file) for file in PROJECT.glob(own) if ".venv" not in file.parts]
    for folder, file in files:
        name = file.relative_to(folder).as_posix()
        if zlib.crc32(name.encode()) % 16 not in _read_of(kind):
            continue
        try:
            text = file.read_text(encoding="utf-8")[:MOST_OF_A_FILE]
        except (UnicodeDecodeError, OSError):
            continue
        yield Source(kind=kind, name=name, texts=tuple(chunks(text, 600)))


def _read_of(kind: str) -> range:
    return range(2) if kind == "python" else range(4) if kind == "c, c++" else range(16)


def _translations(kind: str, codes: tuple[str, ...], locale: Path) -> Iterator[Source]:
    for code in codes:
        for file in sorted((locale / code / "LC_MESSAGES").glob("*.mo")):
            with file.open("rb") as stream:
                try:
                    catalog = gettext.GNUTranslations(stream)._catalog  # type: ignore[attr-defined]
                except (OSError, UnicodeDecodeError, ValueError):
                    continue
            messages = [
                text
                for key, text in catalog.items()
                if key and isinstance(text, str) and len(text) >= LEAST_MESSAGE and text != key
            ]
            if messages:
                joined = "\n".join(messages)[:MOST_OF_A_FILE]
                yield Source(kind=kind, name=f"{code} {file.name}", texts=tuple(chunks(joined, 300)))
    for code in codes:
        for file in sorted(Path(locale.parent, "vim").glob(f"vim*/tutor/tutor.{code.lower()}.utf-8")):
            text = file.read_text(encoding="utf-8")
            for number, part in enumerate(chunks(text, 5_000)):
                name = f"{file.name} {number}"
                yield Source(kind=kind, name=name, texts=tuple(chunks(part, 300)))
