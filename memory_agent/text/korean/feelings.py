"""What a Korean speaker feels, by the stems of words; the rules that weigh them are those of `moments.emotions`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from memory_agent.lazily import lazily
from memory_agent.text.moments.lexicon import DEGREE, ONE_MORE, SLIGHT, by_strength
from memory_agent.text.tables import pattern_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memory_agent.text.moments.lexicon import Shown
    from memory_agent.text.sentences import Sentence

_BY_EMOTION: Final[dict[str, Shown]] = {
    **by_strength(
        "joy",
        (0.85, "날아갈_것_같 최고의_날 인생_최고 최고로_행복 더할_나위_없이 꿈을_이뤘 꿈이_이루어졌 꿈만_같"),
        (0.55, "행복 기뻐 기쁘 기뻤 기쁩 기쁜"),
        (0.4, "즐거 신나 신난 신났 좋아_죽겠 기분이_좋 기분_좋"),
        (0.6, "합격했 붙었어 당첨됐 이겼어"),
    ),
    **by_strength("excitement", (0.5, "설레 설렌 설렜 흥분돼 기대돼 기대된 기대됩 두근두근"), (0.45, "대박")),
    **by_strength("gratitude", (0.3, "고마워 고맙 감사해 감사합 감사드"), (0.6, "감동")),
    **by_strength("pride", (0.5, "자랑스러 자랑스럽 뿌듯")),
    **by_strength("hope", (0.45, "희망이_생 희망이_보 희망을_"), (0.3, "기대하고")),
    **by_strength("love", (0.65, "사랑해 사랑한다 사랑합니다"), (0.5, "보고_싶어 보고_싶다 보고싶")),
    **by_strength("relief", (0.4, "다행 안심"), (0.5, "후련 속이_시원")),
    **by_strength(
        "surprise", (0.6, "충격"), (0.45, "놀라 놀랐 깜짝 믿기지_않 믿을_수가_없 믿을_수_없"), (0.3, "헐")
    ),
    **by_strength(
        "sadness",
        (1.0, "죽고_싶 살고_싶지_않 사라지고_싶 죽어버리고_싶"),
        (
            0.85,
            "절망 가슴이_찢어 가슴이_무너 마음이_무너 억장이_무너 세상이_무너 희망이_없 눈물이_멈추지 눈물이_그치지 눈물이_안_멈 최악의_날 펑펑_울 엉엉_울",
        ),
        (0.75, "돌아가셨 세상을_떠났 무지개다리"),
        (0.6, "눈물이 눈물만 울고_싶 울었 울고_있 울음"),
        (0.55, "슬퍼 슬프 슬펐 슬픈 슬픔 슬픕 우울 외로 괴로 괴롭 비참 서글"),
        (0.5, "속상 힘들 마음이_아파 마음이_아프 가슴이_아파 허무 쓸쓸 실망"),
    ),
    **by_strength("fear", (0.85, "공포에"), (0.55, "무서 무섭 두려 두렵 겁나 겁이_나 불안"), (0.35, "걱정")),
    **by_strength(
        "anger",
        (0.8, "분노 피가_거꾸로 미친_듯이_화 치가_떨"),
        (0.65, "빡쳐 빡친 빡쳤 열받 열_받"),
        (0.55, "화나 화난 화났 화가_나 화가_난 화가_났 억울 미워 밉"),
    ),
    **by_strength(
        "frustration",
        (0.75, "미치겠 미칠_것_같 돌아버리겠 못_참겠 지긋지긋"),
        (0.5, "짜증 답답 지쳤 지친 지쳐"),
        (0.4, "귀찮 피곤"),
    ),
    **by_strength("disgust", (0.6, "역겨 역겹 혐오 토_나 구역질"), (0.45, "징그러 징그럽")),
    **by_strength("remorse", (0.55, "후회 죄책감 자책"), (0.45, "미안 죄송"), (0.5, "부끄러 창피")),
}
"""An underscore stands for a space that may be missing."""


_STEMS: Final = {stem.replace("_", ""): found for stem, found in _BY_EMOTION.items()}
_STEM: Final = lazily(
    re.compile, "|".join(stem.replace("_", " ?") for stem in sorted(_BY_EMOTION, key=len, reverse=True))
)
_DEGREE: Final = pattern_of(
    r"""
    (?:너무|정말|진짜|완전|엄청|매우|몹시|무척|참|아주|굉장히|되게|존나|겁나|심하게|미치도록|죽도록
      |세상에서 제일|제일|가장)[가-힣]{0,2} (?:[가-힣]{1,4} )?$
    """
)
_TWICE: Final = lazily(
    re.compile, r"너무너무|너무 너무|정말 너무|진짜 너무|너무 정말|진짜 정말|정말정말|진짜진짜"
)
_SLIGHT: Final = lazily(re.compile, r"(?:조금|좀|약간|살짝|다소) (?:[가-힣]{1,3} )?$")
_TO_DEATH: Final = lazily(re.compile, r"[가-힣]{0,2} ?(?:죽겠|죽을 ?것 ?같|미치겠)")
_NOT_BEFORE: Final = lazily(re.compile, r"(?:(?<![가-힣])안|별로|하나도|전혀|덜|못) $")
_NOT_AFTER: Final = pattern_of(
    r"""
    [가-힣]{0,3}지(?:는|도|가|를)? ?(?:않|못|마|말|안)
    [가-힣]{0,3} ?(?:건|게|거|것은|것이|상태는)? ?(?:아니|아닌|아냐)
    (?:이|은|도|가|할 것)? ?없
    (?:은|는|을)? ?(?:마세요|마요|말고|마[.!]?$|말아)
    """
)
_OTHERS_AFTER: Final = pattern_of(
    r"""
    [가-힣]{0,2}(?:시|셨|세요|십|겠)
    [가-힣]{0,3}(?:으면|다면|라면|면 |면$|을까|까 봐|길 바라|기를|고 싶)
    (?:하|해|한)? ?(?:영화|노래|이야기|소설|드라마|책|결말)
    [가-힣]{0,2} ?(?:대요|래요|답니다|다고 (?:했|하|말))
    [가-힣]{0,2} (?:것|거) 같(?:으|네)
    """
)
_PERSON_BEFORE: Final = pattern_of(
    r"""
    (?:엄마|아빠|친구|그녀|그|걔|남편|아내|동생|언니|오빠|누나|형|사람들|딸|아들|선생님|상사|팀장님?
      |너|넌|당신|여자친구|남자친구|주인공|고객)(?:들)?(?:이|가|은|는|도
      |님이)? (?:너무 |정말 |많이 |진짜 |엄청 ){0,2}$
    """
)
_ME: Final = lazily(re.compile, r"(?<![가-힣])(?:저는|제가|나는|내가|난|전|저|나)(?![가-힣])")
# Stems that hold their honorific or negation themselves.
_WHOLE: Final = frozenset({"돌아가셨", "눈물이멈추지", "눈물이그치지", "살고싶지않", "믿기지않"})
_OTHERS_STATE: Final = frozenset("워퍼뻐러려")


def feelings(sentence: Sentence) -> Iterator[Shown]:
    """Each feeling that the sentence shows, by the stem of a word."""
    low = sentence.low
    asked = sentence.asks and not _ME.search(low)
    if asked:
        return
    for match in _STEM.finditer(low):
        before, after = low[max(0, match.start() - 16) : match.start()], low[match.end() : match.end() + 14]
        stem = match.group().replace(" ", "")
        if stem[-1] in _OTHERS_STATE and after[:1] in {"하", "해", "했", "합"}:
            continue  # 슬퍼해요: somebody else shows it
        if stem not in _WHOLE and (
            _NOT_BEFORE.search(before)
            or _NOT_AFTER.match(after)
            or _OTHERS_AFTER.match(after)
            or (not stem.startswith("자랑") and _PERSON_BEFORE.search(before))
        ):
            continue
        emotion, strength = _STEMS[stem]
        if _SLIGHT.search(before):
            strength *= SLIGHT
        elif _TWICE.search(before):
            strength *= DEGREE * ONE_MORE
        elif _DEGREE.search(before) or _TO_DEATH.match(after):
            strength *= DEGREE
        yield emotion, min(1.0, strength)
