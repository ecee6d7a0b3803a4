"""Closed lists of Korean words, and what a word's last sound decides."""

from __future__ import annotations

from typing import Final

from memory_agent.text.tables import table
from memory_agent.text.word_set import word_set

SURNAMES: Final = "김이박최정강조윤장임한오서신권황안송류유전홍고문양손배백허남심노하곽성차주우구민진나지엄"
JOBS: Final = word_set(
    """간호사 의사 교사 선생님 초등교사 개발자 프로그래머 엔지니어 디자이너 변호사 회계사 요리사 셰프 학생 대학생 대학원생 고등학생
    중학생 회사원 직장인 공무원 군인 경찰 경찰관 소방관 기자 작가 화가 가수 배우 약사 수의사 치과의사 한의사 건축가 번역가
    통역사 교수 강사 연구원 과학자 사진작가 사진사 미용사 바리스타 승무원 조종사 기관사 택시기사 버스기사 운전기사 농부 어부 주부
    전업주부 프리랜서 마케터 기획자 영업사원 은행원 세무사 변리사 영양사 물리치료사 사회복지사 상담사 심리상담사 경비원
    배달원 자영업자 사업가 유튜버 감독 편집자 아나운서 성우 작곡가 음악가 피아니스트 판사 검사 간호조무사 요양보호사
    미술가 조각가 정비사 용접공 목수 전기기사 배관공 분석가 매니저 인턴 컨설턴트 트레이너 플로리스트 관리자 사서 통계학자
    경제학자 물리학자 화학자 심리학자 설계사 안무가 댄서 헤어디자이너 조리사 제빵사 파티시에 바텐더 큐레이터 에디터 팀장"""
)
NO_TITLE_START: Final = word_set(
    "전직 전 예비 미래의 가짜 좋은 나쁜 훌륭한 최고의 장래 진짜 제 내 우리 그 이 저 같은 다른 비슷한"
)

PLACES: Final = word_set(
    """서울 부산 대구 인천 광주 대전 울산 세종 수원 성남 고양 용인 부천 안산 안양 남양주 화성 평택 의정부 시흥 파주 김포 광명 군포
    하남 오산 이천 안성 구리 의왕 포천 양주 여주 동두천 과천 춘천 원주 강릉 동해 태백 속초 삼척 청주 충주 제천 천안 공주 보령 아산
    서산 논산 계룡 당진 전주 군산 익산 정읍 남원 김제 목포 여수 순천 나주 광양 포항 경주 김천 안동 구미 영주 영천 상주 문경 경산
    창원 진주 통영 사천 김해 밀양 거제 양산 제주 제주도 서귀포 경기도 강원도 충청북도 충청남도 전라북도 전라남도 경상북도 경상남도
    판교 분당 일산 강남 홍대 잠실 송도 해운대 한국 대한민국 미국 일본 중국 캐나다 호주 영국 독일 프랑스 스페인 이탈리아 베트남 태국
    싱가포르 뉴질랜드 네덜란드 스위스 스웨덴 덴마크 노르웨이 핀란드 포르투갈 폴란드 오스트리아 브라질 멕시코 인도 대만 홍콩 필리핀
    인도네시아 말레이시아 러시아 터키 뉴욕 런던 파리 베를린 도쿄 오사카 교토 후쿠오카 삿포로 베이징 상하이 하노이 호치민 다낭 방콕
    시드니 멜버른 토론토 밴쿠버 시애틀 보스턴 시카고 로스앤젤레스 샌프란시스코 뮌헨 함부르크 프랑크푸르트 마드리드 바르셀로나 로마
    밀라노 리스본 암스테르담 빈 프라하 바르샤바 코펜하겐 스톡홀름 오슬로 헬싱키 더블린 두바이 타이베이"""
)
NO_PLACE: Final = word_set(
    "도시 택시 다시 역시 잠시 친구 출구 입구 운동 행동 활동 아동 자동 이동 감동 노동 충동 동시 필시 즉시 임시 가구 도구 기구 연구 지구 인구"
)
COMPANIES: Final = word_set(
    """네이버 카카오 삼성 삼성전자 현대 현대차 현대자동차 기아 쿠팡 배달의민족 우아한형제들 토스 라인 당근마켓 넥슨 엔씨소프트 넷마블
    크래프톤 포스코 롯데 신세계 이마트 한화 두산 구글 애플 아마존 메타 마이크로소프트 테슬라 엔비디아 대한항공 아시아나항공 하이브
    스타벅스 한국전력 국민은행 신한은행 우리은행 하나은행 농협 삼성생명 삼성SDS SK하이닉스 LG전자"""
)
COMPANY_ENDING: Final = "전자|자동차|은행|항공|증권|대학병원|대학교병원|대병원|소프트|테크|건설|화학|그룹"

ANIMALS: Final = word_set(
    "고양이 강아지 개 반려견 반려묘 햄스터 토끼 앵무새 거북이 금붕어 고슴도치 기니피그 도마뱀 페럿 푸들 말티즈 진돗개 웰시코기 시바견 포메라니안 리트리버 골든리트리버"
)
RELATIONS: Final = {word: name for word, name in table("korean", "words").items("kin").items() if name}
SUBJECTS: Final = {
    "색": "color",
    "색깔": "color",
    "음식": "food",
    "영화": "movie",
    "노래": "song",
    "가수": "singer",
    "계절": "season",
    "책": "book",
    "운동": "sport",
    "스포츠": "sport",
    "과일": "fruit",
    "동물": "animal",
    "음료": "drink",
    "배우": "actor",
    "작가": "author",
    "게임": "game",
    "꽃": "flower",
    "도시": "city",
    "나라": "country",
    "숫자": "number",
    "과목": "subject",
    "밴드": "band",
    "드라마": "tv_show",
    "디저트": "dessert",
    "커피": "coffee",
    "취미": "hobby",
    "야구팀": "baseball_team",
    "축구팀": "football_team",
}
"""The names that English statements give these favourites, so that either language replaces the other's."""
DIETS: Final = word_set("채식주의자 비건 베지테리언 페스코")
TIMES: Final = "이른 아침|아침|오전|점심|오후|저녁|밤|새벽"
OCCASIONS: Final = {
    "회의": "meeting",
    "미팅": "meeting",
    "통화": "call",
    "전화": "call",
    "약속": "appointment",
    "예약": "appointment",
    "진료": "appointment",
    "운동": "workout",
    "비행기": "flight",
    "수업": "class",
    "산책": "walk",
}
LANGUAGES: Final = "한국어|영어|일본어|중국어|프랑스어|불어|독일어|스페인어|이탈리아어|포르투갈어|러시아어|베트남어|태국어|아랍어|힌디어|인도네시아어|터키어|네덜란드어|스웨덴어|폴란드어"

NOT_ITSELF: Final = word_set(
    """이것 그것 저것 이거 그거 저거 이걸 그걸 저걸 이게 그게 저게 이 그 저 이런 그런 저런 이렇게 그렇게 여기 거기 저기 뭐 무엇 뭘
    누구 어디 언제 어떤 무슨 몇 왜 어느 너 네 당신 님 그녀 그분 이분 걔 얘 쟤 그들 우리 다 둘 둘다 모두 전부 모든 아무 아무것 아무거나 아무거 뭐든 이것저것 여러가지 하나 것 거
    걸 게 점 때 수 중 더 덜 못 안 별로 같이 함께 혼자 자기 본인 아이디어 제안 추천 방법 대답 답변 설명 말 말씀 얘기 이야기 첫 두번째 첫번째
    또 또한 역시 그래서 그러면 만약 혹시 아마 만일"""
)
"""Words that only their context explains; no value may hold one."""

OTHERS: Final = (
    "엄마|아빠|어머니|아버지|부모님|친구|동생|언니|누나|오빠|형|아내|와이프|남편|아들|딸|아이|애|할머니|할아버지|이모|삼촌|고모|사촌|조카"
    "|동료|선생님|사장님|상사|팀장님|여자친구|남자친구|여친|남친|룸메이트|이웃|손님|고객|사람들?|그녀|그분|걔|얘|쟤|그들|너|당신|주인공|남자|여자|강아지|고양이|개|시어머니|장모님|후배|선배|커플"
)
"""Whoever is spoken of; a sentence without a subject that follows may be about them."""

_NATIVE_TENS: Final = {"스물": 20, "스무": 20, "서른": 30, "마흔": 40, "쉰": 50, "예순": 60, "일흔": 70, "여든": 80, "아흔": 90}  # fmt: skip
_NATIVE_ONES: Final = {"": 0, "한": 1, "두": 2, "세": 3, "네": 4, "다섯": 5, "여섯": 6, "일곱": 7, "여덟": 8, "아홉": 9}  # fmt: skip
NATIVE_NUMBER: Final = f"(?:{'|'.join(_NATIVE_TENS)}) ?(?:{'|'.join(one for one in _NATIVE_ONES if one)})?"


def native_number(text: str) -> int | None:
    """The number that "서른두" says; None if it says none."""
    for tens, value in _NATIVE_TENS.items():
        if text.startswith(tens):
            ones = _NATIVE_ONES.get(text[len(tens) :].strip())
            return None if ones is None else value + ones
    return None


def ends_in_consonant(word: str) -> bool:
    """Whether the last syllable has a final consonant, on which the form of a particle depends."""
    last = word[-1:]
    return "가" <= last <= "힣" and (ord(last) - ord("가")) % 28 != 0
