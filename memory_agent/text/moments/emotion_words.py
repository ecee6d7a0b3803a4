"""The words that show a feeling, English and Korean, each with its emotion and its strength in (0, 1].

Strengths are in three steps that the rules in `recall.emotions` build on: about 0.3 a mild word, 0.5 a plain one, 0.8 and
more a word that is strong without any help. Chosen by hand; they are no measurement.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from memory_agent.text.word_set import word_set

if TYPE_CHECKING:
    from memory_agent.domain.moments import Emotion


def _table(emotion: Emotion, *groups: tuple[float, str]) -> dict[str, tuple[Emotion, float]]:
    return {word: (emotion, strength) for strength, words in groups for word in words.split()}


STATES: Final[dict[str, tuple[Emotion, float]]] = {
    **_table(
        "joy",
        (0.85, "overjoyed ecstatic elated euphoric blissful"),
        (0.55, "happy happiest happier joyful delighted"),
        (0.35, "glad pleased content cheerful"),
    ),
    **_table("excitement", (0.75, "thrilled"), (0.5, "excited pumped stoked hyped psyched"), (0.35, "eager")),
    **_table("gratitude", (0.5, "grateful thankful"), (0.4, "appreciate touched")),
    **_table("pride", (0.55, "proud prouder proudest")),
    **_table("hope", (0.45, "hopeful optimistic"), (0.3, "hope hoping")),
    **_table("love", (0.6, "adore cherish"), (0.35, "love loving")),
    **_table("relief", (0.55, "relieved"), (0.35, "reassured")),
    **_table(
        "surprise",
        (0.7, "flabbergasted stunned"),
        (0.6, "shocked astonished speechless"),
        (0.45, "surprised amazed"),
    ),
    **_table(
        "sadness",
        (0.9, "devastated heartbroken suicidal"),
        (0.8, "shattered inconsolable grieving miserable hopeless sobbing worthless"),
        (0.6, "depressed crying cried lonely grief broken heartache weeping mourning"),
        (0.5, "sad unhappy hurting hurt hurts alone empty down disappointed sadder"),
        (0.4, "upset gloomy"),
    ),
    **_table(
        "fear",
        (0.85, "terrified petrified horrified panicking"),
        (0.55, "scared afraid frightened panicked anxious dread dreading"),
        (0.4, "worried nervous uneasy worry worrying stressed"),
    ),
    **_table(
        "anger",
        (0.85, "furious livid enraged seething fuming outraged"),
        (0.55, "angry mad pissed resent"),
        (0.5, "hate"),
    ),
    **_table(
        "frustration",
        (0.6, "exasperated overwhelmed"),
        (0.5, "frustrated exhausted"),
        (0.4, "annoyed irritated drained"),
    ),
    **_table("disgust", (0.65, "disgusted repulsed revolted appalled"), (0.45, "grossed")),
    **_table(
        "remorse",
        (0.55, "ashamed guilty remorseful"),
        (0.45, "regret regretting"),
        (0.4, "sorry embarrassed"),
    ),
}
"""English words for what somebody feels: they count only where the speaker is the one who feels it."""

EXCLAMATIONS: Final[dict[str, tuple[Emotion, float]]] = {
    **_table("joy", (0.4, "yay hooray woohoo yippee amazing awesome fantastic wonderful incredible")),
    **_table("excitement", (0.4, "yesss")),
    **_table("gratitude", (0.3, "thanks thank")),
    **_table("surprise", (0.45, "wow whoa omg")),
    **_table("anger", (0.5, "damnit goddamn wtf infuriating")),
    **_table("frustration", (0.4, "ugh argh frustrating annoying")),
    **_table("disgust", (0.5, "disgusting revolting gross eww yuck")),
    **_table("sadness", (0.55, "heartbreaking"), (0.35, "alas")),
    **_table("fear", (0.5, "terrifying")),
}
"""English words that show a feeling wherever they stand, unless they are negated or asked about."""

# What politeness and fixed names say with a feeling's words.
BOILERPLATE: Final = re.compile(
    r"\b(?:(?:happy|glad|pleased|excited|delighted|love|thrilled) to (?:help|assist|hear|know that|learn that|meet|answer|discuss|see if)|happy (?:birthday|new year|holidays|hour|path|ending|anniversary|meal|friday|easter|halloween|thanksgiving)"
    r"|(?:i'm|i am|we're) afraid (?:that|so|not|i|we|it|there|this|you|the)\b|(?:so |very |really )?sorry (?:to hear|for your|about that|about your|you're|that you|for the (?:inconvenience|confusion|delay|late|trouble|wait))|(?:hope|hoping) (?:this|that|it|you|to|your|so|everything)\b"
    r"|love (?:to|it|that|this|your|how|the)\b|no worries|don't worry|never mind|not to worry|sad to say|mad (?:scientist|skills|max)|to be (?:happy|sad|proud|angry|scared)|down(?:load| to| the| for| with| by| in)|alone time|thank(?:s| you) in advance"
    r"|guilty (?:of|pleasure)|empty (?:the|list|string|array|file|room)|broken (?:link|build|test|leg|arm|code|into)|hate to (?:say|ask|break|bother|interrupt)|hurt (?:to|my (?:back|knee|foot|leg|arm|hand|shoulder|ankle))|afraid of (?:nothing)|content (?:of|is|type|page|for|and|creation|creator|on|from|that|in|warning)|love (?:story|letter|song|life|handles))\b"
)

INTENSIFIERS: Final = word_set(
    """so very really extremely absolutely incredibly totally completely utterly beyond super too truly
    insanely deeply terribly unbelievably freaking fucking damn crazy such more never"""
)
EXTREMES: Final = word_set(
    "extremely absolutely incredibly totally completely utterly beyond insanely unbelievably deeply fucking"
)
DIMINISHERS: Final = word_set("""bit little slightly somewhat kinda sorta mildly fairly kind sort almost""")
NEGATIONS: Final = word_set(
    """not never no none nobody nothing without hardly barely isn't wasn't aren't weren't don't doesn't didn't
    won't can't cannot couldn't ain't haven't hasn't nor neither stop stopped quit anymore"""
)
UNREAL: Final = word_set(
    """if would could might may wish should unless whether i'd you'd we'd wouldn't imagine pretend when maybe
    perhaps"""
)
FIRST_PERSON: Final = word_set("i i'm im i've i'll me we we're we've us myself")
OTHER_PERSON: Final = word_set(
    """you he she they you're he's she's they're it it's you've they've your his her their that's who everyone
    everybody people someone somebody anyone nobody this that these those there yourself"""
)
# What may come before a feeling in a sentence that leaves out "I am".
LEADS: Final = word_set(
    """feeling feel felt just still oh god my and also well yeah yes honestly now wow man today currently
    always been ok okay hi hey omg ugh am extremely beyond absolutely pretty quite all genuinely simply
    literally being"""
)
POSITIVE: Final = frozenset({"joy", "excitement", "gratitude", "pride", "hope", "love", "relief"})

EMOJI: Final[dict[str, tuple[Emotion, float]]] = {
    **_table("joy", (0.4, "🎉 🥳"), (0.3, "😊 😄 😁 😀 😃 ☺ 🙂")),
    **_table("excitement", (0.4, "🤩")),
    **_table("love", (0.4, "❤ 🥰 😍 💕 💖 😘 💗 ♥")),
    **_table("gratitude", (0.3, "🙏")),
    **_table("sadness", (0.6, "💔"), (0.45, "😭"), (0.4, "😢 😞 😔 ☹ 🥺 😿 ㅠㅠ ㅜㅜ ㅠㅜ ㅜㅠ")),
    **_table("anger", (0.6, "🤬"), (0.5, "😡 😠")),
    **_table("frustration", (0.4, "😤 😩 😫 🙄")),
    **_table("fear", (0.45, "😨 😰"), (0.5, "😱")),
    **_table("surprise", (0.35, "😲 😮 🤯")),
    **_table("disgust", (0.5, "🤮 🤢")),
}

KOREAN_STEMS: Final[dict[str, tuple[Emotion, float]]] = {
    **_table(
        "joy",
        (0.85, "날아갈_것_같 최고의_날 인생_최고 최고로_행복 더할_나위_없이 꿈을_이뤘 꿈이_이루어졌 꿈만_같"),
        (0.55, "행복 기뻐 기쁘 기뻤 기쁩 기쁜"),
        (0.4, "즐거 신나 신난 신났 좋아_죽겠 기분이_좋 기분_좋"),
        (0.6, "합격했 붙었어 당첨됐 이겼어"),
    ),
    **_table("excitement", (0.5, "설레 설렌 설렜 흥분돼 기대돼 기대된 기대됩 두근두근"), (0.45, "대박")),
    **_table("gratitude", (0.3, "고마워 고맙 감사해 감사합 감사드"), (0.6, "감동")),
    **_table("pride", (0.5, "자랑스러 자랑스럽 뿌듯")),
    **_table("hope", (0.45, "희망이_생 희망이_보 희망을_"), (0.3, "기대하고")),
    **_table("love", (0.65, "사랑해 사랑한다 사랑합니다"), (0.5, "보고_싶어 보고_싶다 보고싶")),
    **_table("relief", (0.4, "다행 안심"), (0.5, "후련 속이_시원")),
    **_table(
        "surprise", (0.6, "충격"), (0.45, "놀라 놀랐 깜짝 믿기지_않 믿을_수가_없 믿을_수_없"), (0.3, "헐")
    ),
    **_table(
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
    **_table("fear", (0.85, "공포에"), (0.55, "무서 무섭 두려 두렵 겁나 겁이_나 불안"), (0.35, "걱정")),
    **_table(
        "anger",
        (0.8, "분노 피가_거꾸로 미친_듯이_화 치가_떨"),
        (0.65, "빡쳐 빡친 빡쳤 열받 열_받"),
        (0.55, "화나 화난 화났 화가_나 화가_난 화가_났 억울 미워 밉"),
    ),
    **_table(
        "frustration",
        (0.75, "미치겠 미칠_것_같 돌아버리겠 못_참겠 지긋지긋"),
        (0.5, "짜증 답답 지쳤 지친 지쳐"),
        (0.4, "귀찮 피곤"),
    ),
    **_table("disgust", (0.6, "역겨 역겹 혐오 토_나 구역질"), (0.45, "징그러 징그럽")),
    **_table("remorse", (0.55, "후회 죄책감 자책"), (0.45, "미안 죄송"), (0.5, "부끄러 창피")),
}
"""Korean stems by their emotion; an underscore stands for a space that may be missing."""
