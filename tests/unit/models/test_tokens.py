"""The estimate of a text's tokens; what is exact is in with_table.py."""

from memory_agent.models import tokens
from memory_agent.models.tokens import EstimatedTokens, estimated_pieces

EXACT = {
    (
        "Could you remind me what we decided about the kitchen tiles, and whether the plumber is coming "
        "on Thursday or Friday?"
    ): 23,
    (
        "The build failed with exit code 137 (out of memory) after 42 minutes; see "
        "https://example.com/logs/8841 for details."
    ): 31,
    "저는 다음 달에 부산으로 이사하려고 집을 알아보고 있어요. 혹시 좋은 방법을 알고 있으면 알려 주세요!": 29,
    "땅콩 알레르기가 있으니까 꼭 기억해 줘. 내일 오전 10시에 역 앞에서 만나기로 했어요.": 29,
    "我下个月要搬到上海,因为公司给我安排了新的工作。你能帮我找一间离地铁站近的房子吗?": 34,
    "来月、大阪に引っ越すので、駅の近くで静かな部屋を探しています。何かいい方法があれば教えてください。": 35,
    "В следующем месяце я переезжаю в Казань и ищу квартиру недалеко от станции метро.": 24,
    ("Nächsten Monat ziehe ich nach München und suche eine ruhige Wohnung in der Nähe der Straßenbahn."): 22,
    "El mes que viene me mudo a Sevilla y busco un piso tranquilo cerca de la estación de autobuses.": 23,
    (
        "def merge(left: list[int], right: list[int]) -> list[int]:\n    result = []\n"
        "    while left and right:\n        side = left if left[0] <= right[0] else right\n"
        "        result.append(side.pop(0))\n    return result + left + right\n"
    ): 59,
    (
        '{"user": {"id": 4711, "name": "Ana", "tags": ["admin", "beta"], "created_at": '
        '"2026-11-21T09:30:00Z"}}'
    ): 44,
    (
        "for (let i = 0; i < items.length; i++) {\n    if (!items[i].visible) continue;\n"
        "    total += items[i].price * items[i].quantity;\n}\n"
    ): 40,
    (
        "name        count    share\n----------  -----  -------\napples         12    40.0%\n"
        "pears           9    30.0%\nplums           9    30.0%\n"
    ): 44,
    (
        "        if found:\n                return None\n\n\n\n        else:\n"
        "                yield from rest\n"
    ): 16,
}
"""Texts with what o200k_base makes of them, from its table."""


def test_the_estimate_is_near_the_exact_count() -> None:
    """Within the margin either way, in every language and for code and blanks; errors partly make up for each other."""
    estimate = EstimatedTokens()
    counts = {text: (exact, estimate.count(text)) for text, exact in EXACT.items()}
    off = [
        name
        for name, (exact, count) in counts.items()
        if not exact / (1 + estimate.margin) <= count <= exact * 1.25
    ]
    assert off == []
    exact, estimated = (sum(column) for column in zip(*counts.values(), strict=True))
    assert exact <= estimated <= 1.1 * exact


RULES = {
    "hello": 1, "hello world": 2, "안녕하세요": 4, "你好": 2, "123456": 2, "12": 1, "a  b": 3, "\n\n": 1, "HTTP": 2,
    "getHTTPResponse": 5, "don't": 1, "Übergröße": 3, "!!!!": 1, "?!": 1, "-" * 40: 5, "😀": 2, " " * 40: 1,
    "a" + " " * 800 + "b": 12, "9f8c2e1d7ab34c": 12, "x" * 700: 154,
}  # fmt: skip


def test_the_estimate_follows_its_rules() -> None:
    assert {text: EstimatedTokens().count(text) for text in RULES} == RULES


def test_longer_words_never_cost_less() -> None:
    for word in ("a", "A", "z", "é", "я", "한", "漢", "_a", "1a"):
        counts = [tokens._hundredths(word[:-1] + word[-1] * letters) for letters in range(1, 40)]
        assert counts == sorted(counts), word


def test_pieces_cover_the_text_without_gaps() -> None:
    """Piece follows piece from the first character to the last, each as heavy as its rule says and none heavier than 3."""
    for text in ("", "plain words, 12 of them", "한글 😀\n\n!!!!", "x" * 1_000, " " * 300 + "a"):
        end = 0
        for start, stop, weight in estimated_pieces(text):
            assert start == end
            assert weight <= 3
            end = stop
        assert end == len(text)
    pieces = {text: [weight for _, _, weight in estimated_pieces(text)] for text in WEIGHTS}
    assert pieces == WEIGHTS


WEIGHTS = {
    "": [], "unhappily": [1, 1], "ABC": [1, 1], "12345": [1, 1], "Grüße": [1, 1], "привет": [1, 1], "한글": [1, 1],
    "a b": [1, 0, 1], "\n" * 9: [1, 1], "-----": [1, 1], "😀": [3], "𠀀": [3],
}  # fmt: skip
