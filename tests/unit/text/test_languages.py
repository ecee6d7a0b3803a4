"""Languages: whoever adds one follows `docs/languages.md`, and nothing outside of their folders knows one's words."""

import ast
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from memory_agent.errors import InvalidInput
from memory_agent.text import tables
from memory_agent.text.languages import all_words, any_of, languages, languages_with, plain_any_of
from memory_agent.text.tables import Table, alternatives

ROOT = Path(__file__).parents[3]
PACKAGE = ROOT / "memory_agent"
PAGE = (ROOT / "docs" / "languages.md").read_text(encoding="utf-8")
FILES = dict(
    re.findall(r"`(memory_agent/text/\w+/\w+\.toml)`[^\n]*\n\n```toml\n(.*?)```", PAGE, flags=re.DOTALL)
)
TABLE = PACKAGE / "text" / "languages.py"

# --- a language of its own -----------------------------------------------------------------------------------
ASKED = """
import json, sys
from datetime import UTC, datetime
from memory_agent import MemoryConfig
from memory_agent.text.patterns import extract_facts
from memory_agent.text.question import read_question
from memory_agent.text.quotes import quotes_of
from memory_agent.text.terms import count_terms
from memory_agent.text.times import time_spans
now = datetime(2023, 6, 15, tzinfo=UTC)
def days(question):
    return [f"{span.start:%Y-%m-%d}/{span.end:%Y-%m-%d}" for span in time_spans(question, now=now)]
json.dump({
    "setting": MemoryConfig(search_language="tala").search_language,
    "terms": count_terms("la katoj", "tala"),
    "month": days("Kio okazis dum floruno?"),
    "weekday": days("Kio okazis je lasta lunedo?"),
    "kinds": sorted(read_question("kiam venis Ana").kinds),
    "quotes": [quote.text for quote in quotes_of("Mi elektis la bluan. La blua estas bela.")],
    "facts": [[".".join(fact.path), fact.value] for fact in extract_facts("Mia patro Ivo dormas. Mi loĝas en Tarno.")],
    "english": [quote.weight for quote in quotes_of("I've decided to take it.")],
}, sys.stdout)
"""
SAID = {
    "setting": "tala",
    "terms": {"katoj": 1},
    "month": ["2023-05-01/2023-06-01"],
    "weekday": ["2023-06-12/2023-06-13"],
    "kinds": ["when"],
    "quotes": ["Mi elektis la bluan."],
    "facts": [["family.father", "Ivo"], ["location", "Tarno"]],
    "english": [2.5],
}


def with_the_page_followed(folder: Path) -> Path:
    """A copy of the package in `folder` to which the page's language was added as the page says."""
    shutil.copytree(PACKAGE, folder / "memory_agent", ignore=shutil.ignore_patterns("__pycache__"))
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (line,) = re.findall(r"```text\n(Language\(.*?\),)\n```", PAGE)
    listed = folder / "memory_agent" / "text" / "languages.py"
    source = listed.read_text(encoding="utf-8")
    last = source.rindex('        Language("')
    listed.write_text(f"{source[:last]}        {line}\n{source[last:]}", encoding="utf-8")
    return folder


DRIVER = """
import io, os, sys, json, traceback
from pathlib import Path
import memory_agent.config, memory_agent.text.patterns, memory_agent.text.times, memory_agent.text.question
import memory_agent.text.quotes
asked, cases = json.load(sys.stdin)
for file, old, new in cases:
    path = Path(f"memory_agent/text/tala/{file}.toml")
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    if (child := os.fork()) == 0:
        sys.stdout = said = io.StringIO()
        try:
            exec(asked, {})
        except BaseException:
            traceback.print_exc(file=said)
        os.write(1, json.dumps(said.getvalue()).encode() + b"\\n")
        os._exit(0)
    os.waitpid(child, 0)
    path.write_text(text, encoding="utf-8")
"""
"""Asks once for every change of a table, each in a process of its own that has imported everything."""
UNCHANGED = ("words", "", "")
WRONG = {
    ("words", "stop = ", "stop  "): r"tala/words.toml cannot be read: .*line \d+",
    ("facts", "path = ", "paths = "): "tala/facts.toml: fact 1: path is missing",
    ("facts", "pattern = '", "pattern = '("): r"tala/facts.toml: fact 1: pattern is no regular expression: .*",
    ("facts", "<kin>)", "<kim>)"): "tala/facts.toml: fact 2: pattern names the list <kim>, which is not there; lists: kin",
    ("times", "lunedo = 0", "lunedo = 'x'"): "tala/times.toml: weekdays.lunedo is 'x', which says no such thing",
}  # fmt: skip


def test_a_language_is_added_by_the_page_s_letter_and_what_is_wrong_in_a_table_is_named(
    tmp_path: Path,
) -> None:
    """All of it is known and English as before; an error names the file, the key and what is the matter."""
    folder = with_the_page_followed(tmp_path)
    given = json.dumps([ASKED, [UNCHANGED, *WRONG]])
    script = [sys.executable, "-c", DRIVER]
    done = subprocess.run(
        script, cwd=folder, input=given, capture_output=True, text=True, timeout=120, check=True
    )
    right, *wrong = map(json.loads, done.stdout.splitlines())
    assert json.loads(right) == SAID
    for said, words in zip(wrong, WRONG.values(), strict=True):
        assert re.search(words, said), said


def test_every_language_s_tables_say_what_they_should() -> None:
    """Each file can be read, and each expression in it compiled; all of them are read in a moment."""
    tables.table.cache_clear()
    started = time.process_time()
    read = [
        tables.table(each.name, file.name.removesuffix(".toml"))
        for each in languages()
        for file in sorted((PACKAGE / "text" / each.name).glob("*.toml"))
    ]
    assert len(read) > 15
    assert time.process_time() - started < 1  # about 20 ms; a format that is slow to read shows
    assert {file.parent.name for file in (PACKAGE / "text").glob("*/*.toml")} == {
        each.name for each in languages()
    }


def test_a_table_of_alternatives_and_its_lists() -> None:
    """A line is an alternative, an indented one goes on, and lists can name those before them."""
    table = Table(
        "x",
        {"lists": {"cat": "cat|kitten", "pet": "<cat>|dog"}, "kin": {"aunt": ""}, "a": "my <pet>\n  s\nno"},
    )
    assert table.alternatives("a") == "(?:my (?:(?:cat|kitten)|dog)s|no)"
    assert table.plain_pattern("missing").search("anything") is None
    assert alternatives("(?P<cat>x)<cat>", {"cat": "y"}) == "(?:(?P<cat>x)y)"
    with pytest.raises(InvalidInput, match="x: kin is no str"):
        table.value("kin")


# --- nothing outside knows a language ------------------------------------------------------------------------
OTHER_LETTERS = re.compile(r"[가-힣぀-ヿ㐀-鿿ก-๛]")
OUTSIDE = {
    "inspect/texts.py": "a language's name in that language",
    "llm/summaries.py": "names of the sections that models write, in whatever language",
    "llm/replies.py": "how models decline, in whatever language: about models, not a rule of a language",
    "models/entities.py": "an example within a message",
    "models/local/folder.py": "texts by which a model is tried",
    "models/tokens.py": "ranges of letters",
    "text/code/languages.py": "words of programming languages",
    "text/code/lines.py": "talk about code, in whatever language",
    "text/dictionary.py": "the mark of long vowels, a letter of kana",
    "text/names.py": "letters of scripts, and the vocative after a name in Hangul",
    "text/terms.py": "particles and syllables of kana: search terms of scripts without spaces",
    "text/time_spans.py": "ten in Chinese characters, by which numbers above it are written",
}
"""Files beyond the languages' folders that may have such literals, and why."""
ENGLISH = frozenset([
    "the", "and", "but", "for", "with", "that", "this", "you", "your", "she", "they", "his", "her", "was",
    "were", "are", "what", "when", "where", "who", "why", "how", "yesterday", "today", "tomorrow",
    "monday", "friday", "january", "december", "mother", "father", "wife", "husband", "happy", "sad",
    "love", "hate", "week", "month", "year",
])  # fmt: skip


def knows_a_language(source: str) -> list[str]:
    """Literals, docstrings apart, with letters of one language alone, or that list English words.

    Words are listed as alternatives, or between blanks that are split.
    """
    nodes = list(ast.walk(ast.parse(source)))
    docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    found = []
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            text = node.value
            listed = re.findall(r"[a-z']+(?:\|[a-z']+)+", text) if "|" in text else []
            words = {word for part in listed for word in part.split("|")}
            if OTHER_LETTERS.search(re.sub(".-.", "", text)) or len(words & ENGLISH) > 1:
                found.append(text)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split":
            value: Any = node.func.value
            if isinstance(value, ast.Constant) and len(set(str(value.value).split()) & ENGLISH) > 1:
                found.append(str(value.value))
    return found


def outside() -> list[Path]:
    """The package's modules that are in no language's folder."""
    folders = [PACKAGE / "text" / each.name for each in languages()]
    return [file for file in sorted(PACKAGE.rglob("*.py")) if not any(map(file.is_relative_to, folders))]


def test_no_words_of_a_language_outside_of_its_folder() -> None:
    known = {
        str(file.relative_to(PACKAGE)): knows_a_language(file.read_text(encoding="utf-8"))
        for file in outside()
    }
    assert {name: words for name, words in known.items() if words and name not in OUTSIDE} == {}
    assert set(OUTSIDE) <= {name for name, words in known.items() if words}, "an exception that none needs"


def test_the_check_would_notice_words_of_a_language() -> None:
    found = [
        're.compile(r"\\b(?:yesterday|today)\\b")',
        'x = "어제"',
        '"she they you".split()',
        'f"{x}|mother|wife"',
    ]
    assert [source for source in found if not knows_a_language(source)] == []
    assert not knows_a_language('"""어제"""\nx = "the name of your mother"\ny = "re|regex".split("|")')


def test_a_key_that_no_language_has_is_no_silence() -> None:
    for ask in (
        lambda: any_of("cues", "turn.plaid").search("x"),
        lambda: plain_any_of("word", "self").search("x"),
        lambda: all_words("words", "fillers", "small_walk"),
    ):
        with pytest.raises(KeyError, match="no language has"):
            ask()


def test_every_key_that_the_package_asks_for_is_some_languages() -> None:
    calls = [
        [argument.value if isinstance(argument, ast.Constant) else "" for argument in node.args]
        for file in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", "") in ("any_of", "plain_any_of", "all_words")
    ]
    asked = {
        (str(file), key) for file, *keys in calls for key in keys if isinstance(key, str) and file and key
    }
    assert len(asked) > 40
    assert {(file, key) for file, key in asked if not languages_with(file, key)} == set()
