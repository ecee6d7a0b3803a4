"""Which programming language a text's code is in: as its fence names it, else by its signs."""

import pytest

from memory_agent.text.code.lines import canonical_language, programming_language

CODE = {
    "python": "def total(items):\n    return sum(items)",
    "javascript": "const total = items => items.reduce((a, b) => a + b, 0);",
    "typescript": "interface Item { price: number }\nconst total: number = 0;",
    "java": "public class Main {\n  public static void main(String[] args) { System.out.println(1); }\n}",
    "csharp": 'using System;\nnamespace Shop { class A { void F() { Console.WriteLine("x"); } } }',
    "cpp": "#include <vector>\nint main() { std::vector<int> v; std::cout << v.size(); }",
    "c": '#include <stdio.h>\nint main(void) { printf("%d", 1); return 0; }',
    "go": "package main\n\nfunc main() {\n\tx := 1\n\tfmt.Println(x)\n}",
    "rust": 'fn main() {\n    let mut x = 1;\n    println!("{}", x);\n}',
    "ruby": "items.each do |item|\n  puts item\nend",
    "php": "<?php\n$this->total = 1;",
    "sql": "SELECT id FROM users WHERE id = 1;",
    "html": "<!DOCTYPE html>\n<body><p>Hi</p></body>",
    "css": ".menu {\n  color: red;\n}",
    "bash": "#!/bin/bash\nsudo apt install jq",
    "json": '{"name": "Ann", "age": 3}',
    "yaml": "services:\n  web:\n    image: nginx",
}


@pytest.mark.parametrize("language", CODE)
def test_a_language_is_told_by_its_signs_and_by_a_fence(language: str) -> None:
    assert programming_language(CODE[language]) == language
    assert programming_language(f"See:\n```{language.upper()} title\n{CODE['sql']}\n```") == language


def test_names_of_a_language_are_one_and_prose_has_none() -> None:
    assert {canonical_language(name) for name in ("py", "Python", " PYTHON3 ")} == {"python"}
    assert canonical_language("COBOL") == "cobol"
    assert programming_language("Just normal text, of a class that I import from.") == ""
    assert programming_language("```\nx = 1\n```") == ""


@pytest.mark.parametrize("piece", ["a", "<", "SELECT ", "{", "$", "{\n ", "x: \n", "\n\n", "public ", "[ "])
def test_no_text_is_slow_to_look_at(piece: str) -> None:
    """A pattern that goes back and forth would take hours here, and the time allowed for a test is minutes."""
    programming_language(piece * (200_000 // len(piece)))
