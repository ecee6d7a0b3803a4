"""Korean statements: what is found, and what is left alone.

No recall set is Korean, so these sentences, written by hand, are all that the rules for Korean are held to.
"""

from __future__ import annotations

from typing import Any

import pytest

from memory_agent.text.patterns import extract_facts

Told = list[tuple[str, str, Any]]


def told(text: str) -> Told:
    """Operation, path and value of each fact, sorted."""
    facts = ((fact.op, ".".join(fact.path), fact.value) for fact in extract_facts(text))
    return sorted(facts, key=str)


def adds(path: str, *values: Any) -> Told:
    return sorted([("add", path, value) for value in values], key=str)


def likes(*values: str) -> Told:
    return adds("preferences.likes", *values)


def dislikes(*values: str) -> Told:
    return adds("preferences.dislikes", *values)


def ends(path: str, value: str | None = None) -> Told:
    return [("retract", path, value)]


def becomes(path: str, value: str) -> Told:
    return [("update", path, value)]


STATED: list[tuple[str, Told]] = [
    ("제 이름은 민수예요.", adds("name", "민수")),
    ("제 이름은 김지은입니다", adds("name", "김지은")),
    ("내 이름은 하늘이야.", adds("name", "하늘")),
    ("제 이름은 민철이에요!", adds("name", "민철")),
    ("제 이름은 서연이라고 합니다.", adds("name", "서연")),
    ("저는 김민수입니다.", adds("name", "김민수")),
    ("저는 이서연이라고 합니다.", adds("name", "이서연")),
    ("안녕하세요, 저는 박지훈이에요.", adds("name", "박지훈")),
    ("안녕하세요! 저는 민지라고 해요.", adds("name", "민지")),
    ("Hi, 저는 Daniel이라고 해요.", adds("name", "Daniel")),
    ("저는 간호사예요.", adds("occupation", "간호사")),
    ("저는 변호사입니다.", adds("occupation", "변호사")),
    ("나는 대학생이야", adds("occupation", "대학생")),
    ("저는 초등학교 교사예요", adds("occupation", "초등학교 교사")),
    ("제 직업은 회계사예요.", adds("occupation", "회계사")),
    ("저는 간호사로 일해요", adds("occupation", "간호사")),
    ("저는 소프트웨어 개발자로 일하고 있어요.", adds("occupation", "소프트웨어 개발자")),
    ("그래픽 디자이너로 일합니다.", adds("occupation", "그래픽 디자이너")),
    ("저는 요리사이고 부산에 살아요.", sorted(adds("occupation", "요리사") + adds("location", "부산"))),
    ("최근에 제품 관리자로 이직했어요", becomes("occupation", "제품 관리자")),
    ("저는 팀장으로 승진했어요.", becomes("occupation", "팀장")),
    ("저는 이제 약사예요", becomes("occupation", "약사")),
    ("저 이제 그림 그려요. 회사를 그만뒀어요", ends("employer") + ends("occupation")),
    ("지난달에 퇴사했어요.", ends("employer") + ends("occupation")),
    ("저는 더 이상 간호사가 아니에요.", ends("occupation")),
    ("이제 교사로 일하지 않아요", ends("occupation")),
    ("저는 간호사를 그만뒀어요", ends("occupation")),
    ("네이버에서 일해요.", adds("employer", "네이버")),
    ("저는 삼성전자에 다녀요", adds("employer", "삼성전자")),
    ("저는 카카오에 다니고 있어요.", adds("employer", "카카오")),
    ("저는 더 이상 네이버에서 일하지 않아요.", ends("employer")),
    ("서울에 살아요.", adds("location", "서울")),
    ("저는 부산 해운대구에 살고 있어요.", adds("location", "부산 해운대구")),
    ("지금은 대전에서 살고 있습니다.", adds("location", "대전")),
    ("저는 역삼동에 살아요", adds("location", "역삼동")),
    ("현재 캐나다 토론토에 거주하고 있습니다.", adds("location", "캐나다 토론토")),
    ("나는 제주도에 살아.", adds("location", "제주도")),
    ("저는 혼자 인천에 살아요.", adds("location", "인천")),
    ("부산으로 이사했어요", becomes("location", "부산")),
    ("저는 지난달에 대구로 이사 왔어요.", becomes("location", "대구")),
    ("저는 더 이상 서울에 살지 않아요.", ends("location")),
    ("저는 부산 출신이에요", adds("origin", "부산")),
    ("제 고향은 전주예요.", adds("origin", "전주")),
    ("저는 커피를 좋아해요.", likes("커피")),
    ("커피를 정말 좋아합니다.", likes("커피")),
    ("저는 정말 재즈를 좋아해요!", likes("재즈")),
    ("나는 떡볶이 좋아해", likes("떡볶이")),
    ("저도 등산을 좋아해요~", likes("등산")),
    ("저는 매운 음식을 좋아하고 서울에 살아요", sorted(likes("매운 음식") + adds("location", "서울"))),
    ("저는 커피와 빵을 좋아해요.", likes("커피", "빵")),
    ("저는 김치랑 라면, 만두를 좋아해요.", likes("김치", "라면", "만두")),
    ("저는 사과 주스를 좋아해요", likes("사과 주스")),
    ("저는 사랑 노래를 좋아해요.", likes("사랑 노래")),
    ("저는 영화 보는 걸 좋아해요.", likes("영화 보는 것")),
    ("저는 등산하기를 좋아해요.", likes("등산하기")),
    ("저는 고양이보다 강아지를 더 좋아해요.", likes("강아지")),
    ("저는 여름이 제일 좋아요.", likes("여름")),
    ("저는 오이를 싫어해요.", dislikes("오이")),
    ("저는 공포 영화를 정말 싫어합니다.", dislikes("공포 영화")),
    ("저는 고수를 별로 안 좋아해요.", dislikes("고수")),
    ("저는 회식을 좋아하지 않아요.", dislikes("회식")),
    ("이제 커피를 안 좋아해요", ends("preferences.likes", "커피")),
    ("저는 더 이상 커피를 좋아하지 않아요.", ends("preferences.likes", "커피")),
    ("커피를 더 이상 좋아하지 않아요.", ends("preferences.likes", "커피")),
    ("예전에는 커피를 좋아했는데 이제는 안 좋아해요.", ends("preferences.likes", "커피")),
    ("저는 커피가 싫어졌어요", sorted(dislikes("커피") + ends("preferences.likes", "커피"))),
    (
        "예전에는 오이를 싫어했는데 지금은 좋아해요.",
        sorted(likes("오이") + ends("preferences.dislikes", "오이")),
    ),
    ("제가 가장 좋아하는 색은 파란색이에요.", adds("preferences.favorites.color", "파란색")),
    ("제가 제일 좋아하는 음식은 김치찌개예요", adds("preferences.favorites.food", "김치찌개")),
    ("저는 아침 회의를 선호해요", adds("preferences.meeting_time", "아침")),
    ("저는 저녁 운동을 좋아해요", adds("preferences.workout_time", "저녁")),
    ("저는 서른 살이에요", adds("age", 30)),
    ("저는 32살이에요.", adds("age", 32)),
    ("저는 스물다섯 살입니다.", adds("age", 25)),
    ("제 나이는 41살입니다.", adds("age", 41)),
    ("제 생일은 5월 3일이에요.", adds("birthday", "5월 3일")),
    ("고양이를 키워요.", adds("pets", "고양이")),
    ("저는 강아지 두 마리를 키우고 있어요.", adds("pets", "강아지")),
    ("우리 강아지 이름은 초코예요.", adds("pets", "강아지 초코")),
    ("초코라는 강아지를 키워요", adds("pets", "강아지 초코")),
    ("강아지 이름은 보리예요.", adds("pets", "강아지 보리")),
    ("저는 커피는 좋아하지만 우유는 싫어해요.", likes("커피")),
    ("저는 오후 미팅이 더 좋아요.", adds("preferences.meeting_time", "오후")),
    ("카카오에서 개발자로 일하고 있어요.", sorted(adds("occupation", "개발자") + adds("employer", "카카오"))),
    ("저는 경기도 수원시에 삽니다.", adds("location", "경기도 수원시")),
    ("커피를 좋아하는데 요즘 못 마셔요.", likes("커피")),
    ("제 고양이 이름은 나비예요!", adds("pets", "고양이 나비")),
    ("땅콩 알레르기가 있어요.", adds("allergies", "땅콩")),
    ("저는 새우와 게에 알레르기가 있습니다.", adds("allergies", "새우", "게")),
    ("저는 복숭아 알러지가 있어요", adds("allergies", "복숭아")),
    ("저는 채식주의자예요", adds("diet", "채식주의자")),
    ("저는 비건입니다.", adds("diet", "비건")),
    ("더 이상 채식주의자가 아니에요", ends("diet")),
    ("저는 영어와 일본어를 할 줄 알아요.", adds("languages", "영어", "일본어")),
    ("제 모국어는 한국어예요.", adds("languages", "한국어")),
    ("제 딸 이름은 미아예요.", adds("family.daughter", "미아")),
    ("우리 남편 이름은 준호예요.", adds("family.husband", "준호")),
    (
        "Hi, 저는 민수라고 해요. I live in Seoul.",
        sorted(adds("name", "민수") + adds("location", "Seoul"), key=str),
    ),
    ("I love hiking. 저는 바다도 좋아해요.", sorted(likes("hiking", "바다"), key=str)),
    ("“저는 부산에 살아요”라고 민수가 썼어요. 저는 인천에 살아요.", adds("location", "인천")),
]

SILENT = [
    "제 이름은 뭐예요?",
    "제 이름은 비밀이에요",
    "제 이름은 중요하지 않아요.",
    "제 친구 이름은 민수예요.",
    "그 사람 이름은 김민수예요",
    "저는 한국인이에요.",
    "저는 정반대예요.",
    "저는 고양이예요",
    "저는 신입생입니다",
    "저는 오른손잡이예요",
    "민수라고 불렀어요.",
    "저는 의사가 아니에요.",
    "저는 의사였어요.",
    "저는 의사가 되고 싶어요.",
    "저는 의사가 꿈이에요.",
    "저는 전직 간호사예요.",
    "저는 좋은 의사인가요",
    "엄마는 간호사예요.",
    "제 동생은 간호사로 일해요.",
    "언니가 있어요. 간호사로 일해요.",
    "간호사예요",
    "예비 교사로 일해요?",
    "만약 제가 의사라면 좋겠어요.",
    "카페에서 일해요.",
    "집에서 일해요",
    "서울에서 일해요",
    "친구가 네이버에서 일해요.",
    "네이버에서 일했어요.",
    "네이버에서 일하고 싶어요.",
    "회사에 다녀요.",
    "친구가 퇴사했어요.",
    "서울에 살고 싶어요.",
    "서울에 살았어요.",
    "서울에 살면 좋겠어요.",
    "서울에 산다면 행복할 거예요.",
    "친구가 서울에 살아요.",
    "동생은 부산에 살고 커피를 좋아해요.",
    "동생이 부산에 살아요. 커피를 좋아해요.",
    "서울에 살아요?",
    "서울에 산대요.",
    "서울에 산다고 했어요.",
    "아파트에 살아요",
    "동네에 살아요",
    "부모님 집에 살아요.",
    "여기에 살아요.",
    "저는 서울에 안 살아요.",
    "10년 전에 부산으로 이사했어요.",
    "부산으로 이사 갈 거예요.",
    "부산으로 이사하고 싶어요",
    "커피를 좋아하세요?",
    "커피를 좋아해?",
    "커피를 좋아해",
    "커피 좋아해요",
    "엄마는 커피를 좋아해요.",
    "엄마가 커피를 좋아해요.",
    "민수는 커피를 좋아한대요.",
    "민수가 저는 커피를 좋아한다고 말했어요.",
    "커피를 좋아했어요.",
    "저는 커피를 좋아했어요.",
    "예전에 저는 커피를 좋아했어요.",
    "커피를 좋아하면 드세요.",
    "커피를 좋아하는 사람이 많아요.",
    "커피를 좋아하고 싶어요.",
    "저는 그것을 좋아해요.",
    "저는 이런 스타일을 좋아해요.",
    "저는 당신을 좋아해요.",
    "저는 모두 좋아해요",
    "저는 커피를 싫어하지 않아요.",
    "저는 안 싫어해요.",
    "저는 커피를 좋아하는 것 같아요.",
    "혹시 제가 커피를 좋아하나요",
    "저는 커피를 좋아할까요",
    "아마 저는 커피를 좋아해요",
    "고양이가 생선을 좋아해요.",
    "날씨가 좋아요.",
    "기분이 좋아요",
    "좋아요",
    "네, 좋아해요.",
    "'저는 커피를 좋아해요'를 영어로 번역해 줘",
    "“저는 커피를 좋아해요”라는 말을 들었어요.",
    "소설 주인공: 저는 서울에 살아요.",
    "이 소설에서 저는 서울에 살아요.",
    "농담이에요. 저는 서울에 살아요.",
    "제 아들이 있어요. 15살이에요.",
    "제 딸은 15살이에요.",
    "저는 서른 살이 되고 싶어요.",
    "저는 32살이었어요.",
    "32살이에요?",
    "제 생일은 다음 주예요.",
    "친구 생일은 5월 3일이에요.",
    "고양이를 키우고 싶어요.",
    "친구가 고양이를 키워요.",
    "고양이를 키웠어요.",
    "저는 알레르기가 없어요.",
    "저는 음식 알레르기가 있어요.",
    "땅콩 알레르기가 있는 친구가 있어요.",
    "동생은 땅콩 알레르기가 있어요.",
    "땅콩 알레르기가 있어요?",
    "비건 식당을 찾아 주세요.",
    "저는 비건이 아니에요.",
    "영어를 배우고 있어요.",
    "영어를 할 줄 알아요?",
    "친구가 영어를 잘해요.",
    "제가 가장 좋아하는 색은 뭐예요?",
    "친구가 가장 좋아하는 색은 파란색이에요.",
    "제가 가장 좋아하는 색은 파란색이 아니에요.",
    "아침 회의가 있어요.",
    "아침 회의를 좋아하지 않는 사람이 많아요",
    "저는 서울을 여행했어요.",
    "전 남자친구는 의사예요.",
    "전 여자친구 이름은 지수예요.",
    "전 직장 상사를 좋아해요.",
    "친구네 강아지 이름은 초코예요.",
    "저는 정말이에요.",
    "저는 아무거나 좋아해요.",
    "제가 아는 사람은 서울에 살아요",
    "저는 간호사로 일한 지 3년 됐어요.",
    "저는 서울 사람이에요.",
    "동생이랑 부산으로 이사했어요.",
    "운동을 그만뒀어요.",
    "저는 개를 안 키워요.",
    "강아지는 좋아해요.",
    "엄마가 오셨어요. 예전에는 커피를 좋아했는데 이제는 안 좋아해요.",
    "엄마는 예전에는 커피를 좋아했는데 이제는 안 좋아해요.",
]


@pytest.mark.parametrize(("text", "facts"), STATED, ids=[text for text, _ in STATED])
def test_what_is_stated_about_oneself_is_found(text: str, facts: Told) -> None:
    """A plain statement about the speaker becomes a fact, in the user's own Korean words."""
    assert told(text) == sorted(facts, key=str)


@pytest.mark.parametrize("text", SILENT, ids=SILENT)
def test_doubt_is_silence(text: str) -> None:
    """Others, questions, wishes, the past, hearsay and what needs its context yield nothing."""
    assert told(text) == []
