"""What a Korean question asks for, and whom and what time it is about."""

from __future__ import annotations

from typing import Final

from memory_agent.text.tables import pattern_of

KINDS: Final = {
    "when": pattern_of(r"언제|며칠(?! ?동안)|몇 ?월|몇 ?시(?!간)|몇 ?년도|무슨 요일"),
    "who": pattern_of(r"누구|누가|누굴|누군"),
    "where": pattern_of(r"어디|(?:어느|무슨) (?:나라|도시|곳|식당|가게)"),
    "how_many": pattern_of(r"몇|얼마"),
    "how_long": pattern_of(
        r"""
        얼마나 (?:오래|걸|지났|됐|되)
        며칠 ?동안
        몇 ?(?:년|개월|달|주|일|시간|분|주일) ?(?:동안|간|이나|걸|지)
        """
    ),
}
ABOUT_USER: Final = r"""
    (?<![가-힣])(?:나(?:는|도|를|한테|에게|랑|의|만)?|난|날|내가|내|제가|제|저(?:는|도|를|한테|에게|랑)?
      |우리(?:는|가|의|집)?|저희(?:는|가|의)?)(?![가-힣])
    """
ABOUT_ASSISTANT: Final = r"""
    (?:네가|너가|니가|당신이|너는|넌).{0,40}(?:말했|말한|추천|알려|제안|설명|얘기|가르쳐)
    (?:아까|지난번에|전에|저번에) (?:추천|말|알려|제안|설명)해? ?(?:준|줬|주셨)
    (?:너|네|당신)의? (?:추천|제안|조언|답변)
    """
LATEST: Final = "현재|지금|요즘|최근|아직|가장 새|최신|마지막으로|여전히|이제"
