"""Code is found where there is some, and prose about code, or with a keyword in it, is left alone."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_agent.errors import InvalidInput
from memory_agent.text.code.detect import CodeRules, code_priority, find_code, has_code

CODE: dict[str, tuple[str | None, str]] = {
    "issue-def": ("python", "def calculate():"),
    "python-function": ("python", "def add(a, b):\n    return a + b\n"),
    "python-async": ("python", "async def main() -> None:\n    await run()"),
    "python-class": ("python", "class Dog(Animal):\n    def bark(self):\n        print('woof')"),
    "python-import-as": ("python", "import numpy as np"),
    "python-import": ("python", "import os"),
    "python-from": ("python", "from collections import Counter, defaultdict"),
    "python-loop": ("python", "for i in range(10):\n    total += i"),
    "python-try": ("python", "try:\n    x = int(s)\nexcept ValueError:\n    x = 0"),
    "python-print": ("python", 'print("hello")'),
    "python-if": (None, "if x == 3:\n    y = 4"),
    "python-comprehension": (None, "squares = [n * n for n in numbers]"),
    "python-decorator": ("python", "@property\ndef name(self):\n    return self._name"),
    "python-lambda": (None, "key = lambda p: p.age"),
    "assigned-call": (None, "x = foo(bar)"),
    "assigned-text": (None, 'name = "Ada"'),
    "assigned-attribute": ("python", "self.total = 0"),
    "assigned-lines": (None, "a = 5\nb = 10\nc = a + b"),
    "augmented": (None, "counter += 1"),
    "method-call": (None, "items.append(value)"),
    "statement": (None, "doSomething(value);"),
    "js-const": ("javascript", "const total = items.length;"),
    "js-let": ("javascript", "let count = 0;"),
    "js-arrow": ("javascript", "const double = (n) => n * 2;"),
    "js-function": ("javascript", "function greet(name) {\n  return 'hi ' + name;\n}"),
    "js-log": ("javascript", "console.log('here')"),
    "js-import": ("javascript", "import React, { useState } from 'react';"),
    "js-require": ("javascript", "const fs = require('fs')"),
    "js-if": (None, "if (a === b) {\n  stop();\n}"),
    "js-for": (None, "for (let i = 0; i < n; i++) {"),
    "js-promise": ("javascript", "fetch(url).then(r => r.json())"),
    "js-filter": (None, "users.filter(u => u.active)"),
    "ts-interface": (None, "interface User {\n  id: number;\n  name: string;\n}"),
    "ts-const": ("typescript", "const limit: number = 5;"),
    "jsx": (None, 'return <Button onClick={save} label="Save" />;'),
    "java-main": ("java", "public static void main(String[] args) {"),
    "java-class": (
        "java",
        'public class Main {\n    public void run() {\n        System.out.println("x");\n    }\n}',
    ),
    "java-field": (None, "private final String name;"),
    "c-main": ("c", '#include <stdio.h>\nint main(void) {\n    printf("hi\\n");\n    return 0;\n}'),
    "cpp": ("cpp", '#include <iostream>\nint main() { std::cout << "hi" << std::endl; }'),
    "csharp": ("csharp", 'using System;\nConsole.WriteLine("hi");'),
    "csharp-property": ("csharp", "public string Name { get; set; }"),
    "go": ("go", 'package main\n\nfunc main() {\n\tfmt.Println("hi")\n}'),
    "go-error": ("go", "if err != nil {\n\treturn err\n}"),
    "rust": ("rust", 'fn main() {\n    let mut v = vec![1, 2];\n    println!("{}", v.len());\n}'),
    "ruby": ("ruby", 'def greet(name)\n  puts "Hello #{name}"\nend'),
    "ruby-block": ("ruby", "users.each do |user|\n  user.save\nend"),
    "php": ("php", "<?php\necho $name;\n?>"),
    "php-assignment": ("php", "$total = $price * 2;"),
    "kotlin": ("kotlin", "fun add(a: Int, b: Int): Int = a + b"),
    "kotlin-data": ("kotlin", "data class User(val id: Int, val name: String)"),
    "swift": ("swift", 'guard let user = user else { return }\nprint("ok")'),
    "swift-func": ("swift", "func greet(name: String) -> String {"),
    "r": ("r", "df <- read.csv('a.csv')\nsummary(df)"),
    "r-library": ("r", "library(ggplot2)"),
    "sql": ("sql", "SELECT * FROM users WHERE id = 1;"),
    "sql-lower": ("sql", "select id, name from users where age > 30"),
    "sql-insert": ("sql", "INSERT INTO users (name) VALUES ('Ann');"),
    "sql-update": ("sql", "UPDATE users SET name = 'x' WHERE id = 3"),
    "sql-lines": (
        "sql",
        "SELECT u.name, COUNT(*)\nFROM users u\nJOIN orders o ON o.user_id = u.id\nGROUP BY u.name",
    ),
    "sql-create": ("sql", "CREATE TABLE t (id INT PRIMARY KEY)"),
    "npm": ("bash", "npm install react"),
    "git": ("bash", 'git commit -m "fix the bug"'),
    "docker": ("bash", "docker run -it -p 80:80 nginx"),
    "curl": ("bash", "curl -X POST https://api.example.com/v1/items"),
    "prompt": ("bash", "$ ls -la"),
    "command-after-colon": ("bash", "Run this one: pip install -r requirements.txt"),
    "bash-script": ("bash", '#!/bin/bash\nfor f in *.txt; do\n  echo "$f"\ndone'),
    "export": ("bash", "export PATH=$PATH:/usr/local/bin"),
    "html": ("html", '<div class="box"><p>Hello</p></div>'),
    "html-script": ("html", '<script src="app.js"></script>'),
    "css": ("css", ".box {\n  color: red;\n  margin: 0 auto;\n}"),
    "css-line": ("css", "body { margin: 0; }"),
    "json": ("json", '{"name": "Ann", "age": 3}'),
    "issue-pair": ("javascript", "{key: value}"),
    "pairs": ("javascript", "{ id: userId, name: user.name, }"),
    "pair-in-a-sentence": ("javascript", "The config was {debug:on} all along."),
    "quoted-pair": (None, "{'key': value}"),
    "json-lines": ("json", '{\n  "name": "app",\n  "private": true\n}'),
    "yaml": ("yaml", "version: '3'\nservices:\n  web:\n    image: nginx:latest\n    ports:\n      - 80:80"),
    "yaml-k8s": ("yaml", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: x"),
    "toml": (None, "[tool.ruff]\nline-length = 110"),
    "regex": ("regex", r"^\d{3}-\d{4}$"),
    "regex-mail": ("regex", r"[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Z]{2,}"),
    "traceback": (
        "python",
        'Traceback (most recent call last):\n  File "a.py", line 3, in <module>\n    foo()\nKeyError: 1',
    ),
    "js-trace": (None, "TypeError: x is undefined\n    at run (/app/index.js:10:5)"),
    "java-trace": (None, 'Exception in thread "main" java.lang.NullPointerException\n\tat A.b(A.java:3)'),
    "diff": ("diff", "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,2 @@\n-old\n+new"),
    "dockerfile": ("dockerfile", "FROM python:3.11\nWORKDIR /app\nCOPY . .\nRUN pip install -r req.txt"),
    "inline-identifier": (None, "Please rename `user_id` everywhere."),
    "inline-call": (None, "What does `foo(1)` give?"),
    "inline-command": ("bash", "Start it with `npm run dev` first."),
    "inline-flag": (None, "I passed `--verbose` to it."),
    "inline-word-beside-a-noun": (None, "The `total` variable is wrong."),
    "inline-korean-noun": (None, "`total` 변수가 이상해요."),
    "inline-talk": (None, "In Python, what is `tuple` compared with `list`?"),
    "fenced": (None, "Look:\n```\nanything at all\n```"),
    "fenced-python": ("python", "```py\nx\n```"),
    "fenced-unterminated": ("javascript", "It is this:\n```js\nlet a"),
    "fenced-tildes": ("ruby", "~~~ruby\nputs 1\n~~~"),
    "fenced-one-line": (None, "I typed ```a b c``` there."),
    "fenced-quoted": ("go", "> ```go\n> x := 1\n> ```"),
    "korean-call": (None, "이 코드 df = pd.read_csv('a.csv') 에서 오류가 나요"),
    "korean-def": ("python", "파이썬에서 def calculate(): 이렇게 쓰면 되나요?"),
    "korean-print": ("python", "print('안녕')하면 뭐가 나와요?"),
    "korean-sql": ("sql", "SELECT * FROM users WHERE id = 1; 이 쿼리가 느려요"),
    "japanese-const": ("javascript", "次のコードです。const a = 1; と書きます"),
    "chinese-lines": ("python", "我的代码：\nfor x in items:\n    print(x)\n为什么不行？"),
    "english-around": ("python", "When I call print(total) it shows None, why is that?"),
}

CODE |= {
    "python-return-type": ("python", "def due(day: date) -> date"),
    "python-prompt": ("python", ">>> 1 + 1"),
    "python-swap": ("python", "a, b = b, a"),
    "python-for-item": ("python", "for item in items:"),
    "increment": (None, "i++;"),
    "assigned-dotted": (None, "user.name = value"),
    "return-expression": (None, "return x + y;"),
    "while-true": (None, "while (true) { i++; }"),
    "early-return": (None, "if (!x) return null;"),
    "go-struct": ("go", "type User struct {"),
    "cpp-template": ("cpp", "template <typename T>"),
    "keyword-argument": (None, "lm(y ~ x, data = df)"),
    "sql-in-lines": ("sql", "SELECT\n  a,\n  b\nFROM t"),
    "powershell": ("powershell", "Get-ChildItem -Path C:\\ -Recurse"),
    "tag": ("html", "<div>"),
    "css-declaration": ("css", "margin: 0 auto;"),
    "yaml-nested": ("yaml", "server:\n  port: 8080\n  host: localhost"),
    "error-line": (None, "Uncaught ReferenceError: x is not defined"),
    "command-quoting-korean": ("bash", 'git commit -m "메시지"'),
    "inline-statement": (None, "What does `return x` do?"),
    "korean-loop": ("python", "for i in range(5): print(i) 를 실행하면"),
    "korean-lines": ("python", "이 코드 좀 봐줘\ndef add(a,b):\n return a+b\n왜 에러나?"),
}

PROSE: dict[str, str] = {
    "issue-keywords": "I will return the import forms to the function manager",
    "remark-in-braces": "{smiling: she waves} Hello {note: not again!}",
    "gaps-in-braces": "Dear {first name: optional}, {name} or {name:}, {Ada: she won}",
    "brackets-of-other-kinds": "(key: value) and [key: value]",
    "class-action": "They joined a class action against the import company.",
    "let-me": "Let me know if you want to go, and let us try this for a while.",
    "select-menu": "Please select a dish from the menu where prices are low.",
    "select-short": "select one from the list",
    "return-policy": "What is the return policy for imports from China?",
    "return-line": "return policy;",
    "while-if": "while I was there, if I remember, they tried the for sale signs",
    "definition": "def. a definition, e.g. def of love",
    "function-key": "The function (of this class) is to import goods.",
    "const": "Stay const and var will follow; let it be.",
    "try-colon": "Try:\nto be kind",
    "for-colon": "For the following reasons:\n- it rains\n- it pours",
    "for-in-colon": "for help in Seoul:",
    "if-parens": "if (and only if) you can come, tell me",
    "class-colon": "Our class: we meet on Mondays",
    "import-line": "import duties",
    "from-import": "Goods from China import well, and from Japan import taxes rise.",
    "semicolons": "I came; I saw; I conquered; we left.",
    "semicolon-list": "apples;\npears;\nplums;",
    "abc": "a; b; c",
    "emoticons": "haha :) ;-) :D >.< ^^;; (^_^) <3 T_T ==3",
    "dollars": "$20 = 2 tickets, so $50 buys 5",
    "maths": "If x = 5 dollars and y = 3, then x + y = 8.",
    "maths-function": "the graph of y = f(x) rises for x > 3",
    "formula": "speed = distance / time",
    "legend": "A = apple\nB = banana\nC = cherry",
    "not-equal": "correlation != causation",
    "equals-words": "Monday = holiday",
    "dates": "2026-05-03, 3/5/2026 and 14:20:05 to 15:30",
    "phone": "+82 10-1234-5678 (call me)",
    "url": "See https://example.com/a?b=c&d=e#f and www.example.org/x_y(z)",
    "mail": "Write to ann.lee@example.com (work) or <bob@example.com>",
    "mail-header": "From: Ann <ann@example.com>\nTo: Bob\nSubject: Import forms\nDate: Mon, 4 May 2026 10:00",
    "bullets": "- milk\n- eggs\n* bread\n1. first\n2. second",
    "form": "name: Ann\nage: 30\ncity: Seoul",
    "nested-list": "shopping:\n  - milk\n  - eggs",
    "table": "| name | age |\n|---|---|\n| Ann | 3 |\n| Bob || 4 |",
    "heading": "# Plan\n## For the class\nWe return on Friday.",
    "quote": "> I think you are right\n>> so do I",
    "file-name": "open README.md",
    "file-names": "I sent report.pdf and notes.txt (both)",
    "windows-path": r"It is in C:\data\work on my disk",
    "command-in-prose": "Then run npm install and you are done.",
    "command-about": "git push fails on my laptop",
    "command-word": "cd collection of my father",
    "cat": "cat food is expensive",
    "make": "make sure you test it",
    "find": "find a good doctor",
    "go": "go get milk",
    "korean-words": "함수를 import 해서 return 하면 돼요",
    "korean-domain": "네이버(naver.com)에서 찾았어요, naver.com(네이버)",
    "korean-tilde": "안녕~~~ 잘 지내?\n~~~\n그래",
    "japanese-words": "この class を import して return するだけです",
    "chinese-words": "用 function 和 class 就可以了，然后 return",
    "backticks-word": "the `important` thing is to be kind",
    "backticks-apostrophes": "I don`t know, it`s fine, isn`t it",
    "backticks-document": "read `notes.txt` again",
    "plural": "Bring your item(s) and form(s) to the office(s).",
    "citation": "As Smith (2020, p. 3) says; see also Lee et al.(2019).",
    "ip": "the address fe80::1 or 192.168.0.1",
    "shouting": "SELECT YOUR SEAT FROM THE MAP NOW",
    "arrow": "Seoul => Busan -> Jeju",
    "angle": "Dear <your name>, I am < 30 years old and > 5 feet",
    "hash-tags": "#love #import @john thanks",
    "braces": "{smile} and [sic] (see note {3})",
    "music": "Class of '99: let it go, for a while (live)",
    "private": "a private company (Ltd) and a public school",
    "string-theory": "string theory; double espresso",
    "json-words": "The key is name and the value is null, true or false",
    "stars": "*really* **important** ~~not~~ __this__ ***",
    "ellipsis": "well... ok?! (no way)...",
    "empty": "",
    "blank": " \n\t\n",
    "empty-fence": "```\n```",
    "stray-fence": "thanks ```",
    "chat-log": "alice: hi\nbob: hello\nalice: how are you",
    "score": "Korea 2:1 Japan; 5-4 (pens)",
    "recipe": "For 4 people:\n  200 g flour\n  2 eggs (large)\nMix; then bake.",
    "signature": "--\nAnn Lee\nVP, Import & Export",
    "rule-of-equals": "LICENSING\n=========\n\nTerms\n-----",
    "printed": "I need print(ed) materials; call the print(er).",
    "maths-let": "now let x = 5 and solve for y",
    "korean-maths": "x = 3 일 때 y 값은?",
    "korean-colon": "오늘(5/3) 14:00 ~ 16:00 회의; 장소: 3층",
    "japanese-price": "価格 = 500円 (税込)",
    "weekdays": "monday: gym\ntuesday: rest\nwednesday: run",
    "footnotes": "[1] Smith, J. (2020). Title; [2] Lee, see Art. 5(1)(c).",
    "probability": "P(A|B) = P(A and B) / P(B) and sin(x) + cos(x) = 1",
    "handles": "I met @john_doe and @jane_smith at #pycon_2024, mine is iPhone_lover",
    "make-wish": "make test prep fun",
    "nested-quotes": "> let me know\n>> if you return\n>>> the import forms",
    "shouted-from": "SELECT SEATS FROM 5 DOLLARS",
    "wow-arrow": "Wow!!! (so good) => highly recommended",
    "versions": "Python 3.11 and Node.js(v20) are both fine",
}


@pytest.mark.parametrize(("language", "text"), CODE.values(), ids=CODE.keys())
def test_code_is_found_with_its_language(language: str | None, text: str) -> None:
    """Each text holds code; where a language is given, it is the one found."""
    found = find_code(text)
    assert found is not None
    assert language in (None, found.language)
    assert 0 < found.share <= 1


@pytest.mark.parametrize("text", PROSE.values(), ids=PROSE.keys())
def test_prose_is_not_code(text: str) -> None:
    """Keywords, punctuation and technical words make no code of a text."""
    assert find_code(text) is None


def test_the_reasons_are_given_in_order() -> None:
    """A fence, a span and a line each leave their word, sorted and once."""
    found = find_code("Use `user_id`:\n\nx = foo(bar)\n\n```py\nx\n```\nand `a.b`")
    assert found is not None
    assert found.kinds == ("assignment", "fenced", "inline")
    assert found.language == "python"


def test_the_share_is_that_of_the_code() -> None:
    """All of a bare snippet, the block of a text around one, the span of a sentence."""
    block = "```\nx = 1\n```"
    prose = "word " * 20
    assert find_code(block).share == 1.0  # type: ignore[union-attr]
    assert find_code(prose + "\n" + block).share == pytest.approx(len(block) / (101 + len(block)))  # type: ignore[union-attr]
    inline = find_code(prose + "`user_id`")
    assert inline is not None
    assert inline.share == pytest.approx(9 / 109)
    assert find_code("def f(x):\n    y = x\n    return y\n").share == 1.0  # type: ignore[union-attr]


def test_the_fence_names_the_language() -> None:
    """By the usual short names, whatever the content looks like; a fence of plain text names none."""
    for info, language in [
        ("js", "javascript"),
        ("C++", "cpp"),
        ("{.python}", "python"),
        ("abap", "abap"),
        ("ts title=a.ts", "typescript"),
        ("text", None),
    ]:
        found = find_code(f"```{info}\nsome words\n```")
        assert found is not None
        assert found.language == language
    assert find_code("```\ndef f():\n    pass\n```").language == "python"  # type: ignore[union-attr]


def test_a_users_pattern_finds_what_nothing_else_does() -> None:
    """Line by line, as regex.MULTILINE has it, in the order of the patterns; an empty match is none."""
    rules = CodeRules(patterns={"abap": r"^WRITE .*\.$", "cobol": r"^DISPLAY"})
    found = find_code("hello\nWRITE total.\nbye", rules)
    assert found is not None
    assert (found.language, found.kinds) == ("abap", ("pattern",))
    assert found.share == pytest.approx(12 / 22)
    assert not has_code("hello\nwrite total.", rules)
    assert not has_code("hello", CodeRules(patterns={"any": "x*"}))


def test_a_bad_pattern_is_refused_by_name() -> None:
    """The message says which language's pattern it is, shows it, and how to mend it."""
    with pytest.raises(InvalidInput, match=r"'abap'.*'\(WRITE'.*escape"):
        CodeRules(patterns={"abap": "(WRITE"})


@pytest.mark.parametrize("factor", [-1.0, math.inf, math.nan])
def test_a_bad_priority_is_refused_by_name(factor: float) -> None:
    """A factor is finite and not negative."""
    with pytest.raises(InvalidInput, match="'python'"):
        CodeRules(priorities={"python": factor})


def test_a_runaway_pattern_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts as not matching; the rest is found all the same."""
    monkeypatch.setattr("memory_agent.text.code.detect.PATTERN_SECONDS", 0.05)
    rules = CodeRules(patterns={"slow": "(a|aa)+$", "py": "^def"})
    found = find_code("a" * 80 + "b\ndef f():", rules)
    assert found is not None
    assert found.language == "py"


def test_the_priority_is_base_times_the_languages_factor() -> None:
    """Nothing without code, the base where no factor is set; short names mean the same language."""
    rules = CodeRules(priorities={"py": 1.5, "SQL": 0.0})
    assert code_priority("hello there", rules, base=2.0) == 0.0
    assert code_priority("def f():", rules, base=2.0) == 3.0
    assert code_priority("SELECT * FROM users;", rules, base=2.0) == 0.0
    assert code_priority("console.log(1)", rules, base=2.0) == 2.0


visible = st.text(min_size=1, max_size=60).filter(lambda body: body.strip() != "" and "`" not in body)


@settings(deadline=None)
@given(visible, st.text(max_size=40).filter(lambda before: "`" not in before and "~" not in before))
def test_fenced_text_is_always_code(body: str, before: str) -> None:
    """Closed or not, whatever stands in it and before it."""
    for text in (f"{before}\n```\n{body}\n```", f"{before}\n```\n{body}"):
        found = find_code(text)
        assert found is not None
        assert "fenced" in found.kinds


@settings(deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_a_users_pattern_always_wins(before: str, after: str) -> None:
    """Over fences and all that is found otherwise."""
    rules = CodeRules(patterns={"mine": "@@mine@@"})
    found = find_code(f"```python\n{before}\n```\n@@mine@@{after}", rules)
    assert found is not None
    assert found.language == "mine"
    assert "pattern" in found.kinds


pieces = st.sampled_from([*CODE, *PROSE]).map(lambda name: CODE[name][1] if name in CODE else PROSE[name])
marks = st.text("`~ \n\t:;=(){}[]<>\"'$#|\\.-_/*x1ㄱ", max_size=120)


@settings(deadline=None)
@given(st.lists(pieces | marks | st.text(max_size=40), max_size=6).map("".join))
def test_any_text_gets_an_answer_with_a_share_from_0_to_1(text: str) -> None:
    """Nothing raises; has_code and code_priority agree with find_code."""
    found = find_code(text)
    assert has_code(text) == (found is not None)
    assert code_priority(text, CodeRules(), base=2.0) == (0.0 if found is None else 2.0)
    if found is not None:
        assert 0 < found.share <= 1
        assert found.kinds == tuple(sorted(set(found.kinds)))


LONG = 200_000


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "unit",
    [
        *"a (`~<{[\n=.:;\"'|\\$#1가",
        "a.", "a ", "a(", "()", "a=", "```\n", "~~~a\n", "`a`", "``a", "a::", "<a ", "<a>", "x = ", "def a", "SELECT a ",
        "[a-z]", "\\d", "a_b", "aB(", "key: ", "key:\n", "a: b\n", "  a\n", "import a, ", "git -", "- ", "(\"", "$a", "for a in ",
        "https://a", "> ", "```a", "=>", "{a:", "\"a\":", "\"a\": 1,", "a.b(c)\n", "http", "\r", "\n \n", "def a(", "a, ", "class A ",
        "public a ", "function a(", "const a", "from a import ", "function ", "aA", "A a ", "a(b(c", "'a", "if a", "if (", "--a",
    ],
)  # fmt: skip
def test_long_repetitions_take_no_time_to_speak_of(unit: str) -> None:
    """200,000 characters, with an end that spoils a match, within the test's time."""
    find_code("def " + unit * (LONG // len(unit)) + "!\x00")
