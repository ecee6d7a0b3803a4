"""What Korean speakers say of the two who talk, and how an acted gesture ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from memory_agent.text.tables import pattern_of

if TYPE_CHECKING:
    from memory_agent.text.sentences import Sentence

ACTS: Final = pattern_of("[가-힣 ]{0,30}(?:며|면서|는다|한다|으며|다|음|기|웃|미소)$")
"""An action as role play writes it: "조용히 웃으며"."""

_NOTE: Final = pattern_of(
    r"""
    (?:너|넌|네가|당신|우리|그대|자기|니가|너를|널|너는|너랑|너한테|당신을|당신은|나를|나한테
      |저를)[가-힣]{0,3} [^.!?]{0,24}(?:친구|사랑해|사랑합|좋아해|좋아합|믿어|믿습|믿는다|실망|고마|소중
      |보고 ?싶|미워|싫어|가족|연인|커플|사이|의지|이해해 ?주|존경|불러|위로|최고)
    (?:사랑해|믿어|좋아해|미워|보고 ?싶어|실망했어)(?:요)?[.!~ㅠㅜㅋㅎ ]*$
    (?:라고|이라고) 불러(?: ?줘|주세요|도 돼)?
    말 ?(?:놓|편하게 하)(?:자|아|을게|을까|세요|아도)
    (?:네|당신) 덕분에|나의 (?:친구|사랑|가족)
    """
)
_NO_NOTE: Final = pattern_of(
    r"""
    다면|라면|으면 좋|만약|척
    [을를] (?:정말 |제일 |진짜 |너무 )?좋아(?:해|합)(?<!너를 좋아해)(?<!널 좋아해)(?<!당신을 좋아해)
    (?:그|그녀|엄마|아빠|친구)(?:는|가|이)[ ]
    """
)


def is_note(sentence: Sentence) -> bool:
    """Whether a sentence is about the two; a question is not."""
    return not sentence.asks and _NOTE.search(sentence.low) is not None and not _NO_NOTE.search(sentence.low)
