"""Function words that are no search terms: as all that question and turn share, they would make any turn look supported.

For the language that `search_language` names, and whatever it names for Korean, Japanese and Chinese, which their script
tells. Short on purpose: BM25 gives little weight to whatever is in most turns, so only the commonest words matter, and a
word with a content of its own (French "été", "pas" for step) is better kept than lost.
"""

from __future__ import annotations

from typing import Final

from memory_agent.text.word_set import word_set

_BY_LANGUAGE: Final = {
    "english": """
        a about am an and any are as at be been being but by can could did do does doing for from had has have
        having he her hers him his how i i'd i'll i'm i've if in into is it it's its just me my mine of on or
        our ours over shall she should so some than that that's the their theirs them then there these they this
        those to too us very was we were what what's when where which while who whom whose why will with would
        you your yours
    """,
    "german": """
        der die das den dem des ein eine einen einem einer eines und oder aber ich du er sie es wir ihr mich mir
        dich dir ihm ihn uns euch mein meine meinen meinem meiner dein deine deinen sein seine ihre ist bin bist
        sind war waren hat habe hast haben hatte wird werden in im am an auf zu zum zur von vom mit für bei nach
        aus um über was wer wen wem wie wo wann warum welche welcher welches dass wenn als auch nicht so sich
    """,
    "french": """
        le la les un une des du de d l et ou mais je tu il elle on nous vous ils elles me te se moi toi lui leur
        mon ma mes ton ta tes son sa ses notre nos votre vos ce cet cette ces c qu que qui quoi quel quelle quels
        quelles où quand comment pourquoi est es suis sont était ai as a ont avait dans en au aux à sur pour par
        avec ne pas y si
    """,
    "spanish": """
        el la los las un una unos unas y e o u pero yo tú él ella nosotros ellos ellas me te se le les lo nos mi
        mis tu tus su sus de del a al en con por para es soy eres son era fue he has ha han está estoy que qué
        quién cuál cuáles cómo cuándo dónde cuánto no si sí este esta esto ese esa eso como cuando donde muy
    """,
    "italian": """
        il lo la i gli le un uno una e o ma io tu lui lei noi voi loro mi ti si ci vi mio mia miei mie tuo tua suo
        sua di del dello della dei degli delle a al alla ai alle da dal dalla in nel nella nei su sul sulla con
        per è sono sei era ho hai ha hanno che chi cosa quale quali come quando dove perché non se questo questa
    """,
    "portuguese": """
        o a os as um uma uns umas e ou mas eu tu você ele ela nós vocês eles elas me te se lhe meu minha meus
        minhas teu tua seu sua de do da dos das em no na nos nas ao à por para com é sou são era foi está estou
        tem tenho que quem qual quais como quando onde não se este esta isto esse essa isso muito
    """,
    "dutch": """
        de het een en of maar ik jij je hij zij ze wij we jullie u mij me hem haar ons hun mijn jouw zijn uw is
        ben bent was waren heb hebt heeft hebben had wordt worden in op aan te van met voor bij naar uit om over
        tot door wat wie hoe waar wanneer waarom welke welk dat die dit deze als ook niet er zo
    """,
}
STOP_WORDS: Final = {language: word_set(words) for language, words in _BY_LANGUAGE.items()}
"""By the name that the stemmer has in Snowball, casefolded, with their accents."""

KOREAN: Final = word_set(
    """
    나 저 너 내 제 네 이 그 것 거 게 수 때 왜 뭐 안 못 더 잘 좀 또 우리 저희 당신 저는 나는 제가 내가 네가 너는 저도 나도
    무엇 무슨 언제 어디 어디서 누구 누가 어떤 어떻 떻게 얼마 뭐야 뭘 뭔가 이거 그거 저거 이것 그것 여기 거기 이번 그런 그래 그리
    있어 있는 있었 있습 있나 없어 없는 했어 했던 했다 했습 했는 했나 하는 하고 해요 해서 하지 하기 합니 된다 되는
    습니 니다 니까 나요 까요 어요 아요 아해 에요 예요 세요 네요 군요 지요 었어 았어 였어 었던 았던 었습 았습 었는 았는 었다 았다 었나 았나
    는데 은데 인데 던데 지만 어서 아서 려고 면서 정말 너무 그냥
    """
)
"""Whole words, what is left of words without their particles, and pairs of syllables that endings leave."""

JAPANESE: Final = word_set(
    """
    です ます した して しい いる いた いて ある あっ った って ない なか かっ たい から ので まで けど など とか という いう うこ こと もの
    ここ そこ どこ これ それ どれ この その どの いつ だれ なに なん どう どん んな でし まし ませ せん すか たか のか ので のは のが
    には では とは から より だっ だけ でも ても よう うに うな れる れて られ させ てい てる てく くれ だと ると たと との さん ちゃ
    あり りま しか たの なり
    私 僕 俺 何 誰 彼
    """
)
"""Pairs of hiragana that are grammar almost wherever they stand, and pronouns."""

THAI: Final = word_set("ที่ไหน อะไร ไหม ครับ ค่ะ คะ ฉัน เป็น อยู่ ของ และ แล้ว เมื่อไร เมื่อไหร่ ทำไม ใคร อย่างไร ยังไง")

# Traditional forms after the simplified ones. What a pair of these says is grammar: 什么, 哪里, 我们, 不是.
CHINESE_GRAMMAR: Final = frozenset(
    "的了着过吗呢吧啊嘛呀我你您他她它们这那哪谁什么怎样是在有和跟与也都就还又很太真不没要会能可以到给把被对从个些几里时候"
    "著過嗎們這誰麼樣還沒會給對從個幾裡時"
)
CHINESE_PARTICLES: Final = frozenset("的吗呢吧嘛呀嗎")
"""A pair with one of these is no word, but for a handful (目的)."""
CHINESE_LIGHT: Final = CHINESE_GRAMMAR | frozenset(
    "一二两三四五六七八九十百半每最大小好多少新老旧坏高低长短冷热贵远近快慢早晚更只再已正刚"
    "去来上下出进回走跑飞说讲问想看见听吃喝买卖养开关住叫做用让带送拿放打换修丢找种学教写读画坐站等爱怕懂帮当像"
    "个条本次位件张辆杯瓶碗块双套枚封部斤升棵朵座"
    "兩長熱貴遠來進說講問見聽買賣養開關讓帶換丟種學教寫讀畫愛懂幫當條張輛雙"
)
"""Characters that mostly are words of their own; what is left between them is a word as well (养|猫, 一只|猫|很)."""
CHINESE_FUNCTION_WORDS: Final = word_set(
    "为什么 什么 怎么样 怎么 怎样 多少 多久 时候 哪里 哪儿 我们 你们 他们 她们 这个 那个 这里 那里 没有 因为 所以 但是 还是 已经 可以"
    " 為什麼 什麼 怎麼樣 怎麼 怎樣 時候 哪裡 哪兒 我們 你們 他們 她們 這個 那個 這裡 那裡 沒有 因為 還是 已經"
)
