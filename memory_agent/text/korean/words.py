"""Korean word lists that several rules need."""

from __future__ import annotations

from typing import Final

from memory_agent.text.word_set import word_set

KIN: Final = word_set(
    """
    고모 남동생 남자친구 남친 남편 누나 동생 둘째 딸 막내 부모님 사촌 삼촌 손녀 손자 시부모님 시아버지 시어머니 아기 아내
    아들 아버지 아빠 아이 애기 약혼자 어머니 언니 엄마 여동생 여자친구 여친 오빠 와이프 외할머니 외할아버지 이모 장모님
    장인어른 조카 첫째 할머니 할아버지 형
    """
)
"""Who belongs to somebody's family."""
