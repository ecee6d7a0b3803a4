"""Korean noun endings: particles, honorifics and the copula, as one regular expression.

Both forms of a particle are taken after any noun (은 and 는, 이 and 가), since people mix them up after foreign names. They
combine as in grammars of Korean: adverbial particles (에서, 로부터), then one that closes (는, 도), then 요; or the copula.
Not every string of them is one: 로고 is a logo and no 로 + 고, 도로 a road, 의도 an intention, 와인 wine.
"""

from __future__ import annotations

from typing import Final

_ADVERBIAL: Final = (
    "에서부터|에게서|에서|에게|에다가|에다|에|께|한테서|한테|더러|으로부터|로부터|으로서|로서|으로써|로써|으로|로|와|과|이랑|랑"
    "|하고|처럼|같이|만큼|보다|까지|부터|대로|마다|조차|마저|밖에|뿐|만|끼리|말고|때문에"
)
_CLOSING: Final = (
    "은커녕|는커녕|커녕|은|는|이|가|께서는|께서도|께서|을|를|의|도|이나마|나마|이나|나|이라도|라도|이야말로|야말로|이든[지가]?|든[지가]?|이라든[지가]|라든[지가]|하면"
    "|에선|에겐|한텐|엔|으론|론|보단|까진|부턴|처럼은"
)
# Endings of the copula 이다 that do without 이 after a vowel.
_ENDINGS: Final = (
    "다|야|죠|지요?|지만|고요?|며|면서?|니까?|네요?|군요?|구나|거든요?|자|라|라고(?:는|도|요)?|라는(?:데|게|건|거)?|라서|라면|라며|라던데|래요?|란"
    "|에요|예요"
)
_COPULA: Final = (
    f"이?(?:{_ENDINGS})|(?:이었|였)(?:다|어요?|습니다|던|는데요?|고|지만|으면|을까요?|네요?)|이?여서|이어서"
    "|입니다만?|입니까|인데요?|인가요?|인지(?:는|도|를)?|인|일까요?|일지도?|일|임"
)
_COPULA_AFTER_PARTICLE: Final = f"(?:까지|부터|에서|처럼|대로|만큼|마다|보다|뿐|만)(?:이(?:{_ENDINGS})|이었(?:다|어요?|습니다)|예요|입니다|입니까|인데요?|인가요?|인지)"

PARTICLES: Final = (
    f"(?:씨|님)?들?(?:{_COPULA_AFTER_PARTICLE}|(?:{_COPULA})|(?:{_ADVERBIAL}){{0,3}}(?:{_CLOSING})?요?)"
)
"""Matches the empty string, too. To be followed by a look that the word ends there."""
