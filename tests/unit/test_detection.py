"""Code and moments are detected as well as they were when last measured (`benchmarks.detection`)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from benchmarks.detection import measure

# (precision, recall) of each kind as measured on 2026-11-22. To record anew after a change that is for the better:
#     python -m pytest tests/unit/test_detection.py -s -k printed
# prints the rows as they are written here. Don't lower a value to make a test pass: a rule has become worse.
RECORDED: Final[dict[str, dict[str, tuple[float, float]]]] = {
    "code": {
        "all": (0.987, 0.875),  # 78 found, 88 wanted
    },
    "moments, English, development": {
        "all": (0.969, 0.900),  # 65 found, 70 wanted
        "emotional_peak": (1.000, 0.600),  # 6 found, 10 wanted
        "conflict_resolution": (1.000, 1.000),  # 8 found, 8 wanted
        "decision_made": (1.000, 0.875),  # 7 found, 8 wanted
        "topic_introduction": (1.000, 1.000),  # 8 found, 8 wanted
        "user_information": (1.000, 1.000),  # 11 found, 11 wanted
        "character_defining": (1.000, 0.889),  # 8 found, 9 wanted
        "question_asked": (0.800, 1.000),  # 10 found, 8 wanted
        "humor_moment": (1.000, 0.875),  # 7 found, 8 wanted
    },
    "moments, Korean, development": {
        "all": (0.975, 0.975),  # 40 found, 40 wanted
        "emotional_peak": (1.000, 0.833),  # 5 found, 6 wanted
        "conflict_resolution": (1.000, 1.000),  # 5 found, 5 wanted
        "decision_made": (0.857, 1.000),  # 7 found, 6 wanted
        "topic_introduction": (1.000, 1.000),  # 4 found, 4 wanted
        "user_information": (1.000, 1.000),  # 8 found, 8 wanted
        "character_defining": (1.000, 1.000),  # 5 found, 5 wanted
        "question_asked": (1.000, 1.000),  # 3 found, 3 wanted
        "humor_moment": (1.000, 1.000),  # 3 found, 3 wanted
    },
    "moments, English, held-out": {
        "all": (0.966, 0.691),  # 58 found, 81 wanted
        "emotional_peak": (1.000, 0.833),  # 5 found, 6 wanted
        "conflict_resolution": (1.000, 0.556),  # 5 found, 9 wanted
        "decision_made": (1.000, 0.750),  # 9 found, 12 wanted
        "topic_introduction": (0.900, 0.818),  # 10 found, 11 wanted
        "user_information": (0.909, 0.714),  # 11 found, 14 wanted
        "character_defining": (1.000, 0.400),  # 4 found, 10 wanted
        "question_asked": (1.000, 1.000),  # 9 found, 9 wanted
        "humor_moment": (1.000, 0.500),  # 5 found, 10 wanted
    },
    "moments, Korean, held-out": {
        "all": (0.900, 0.667),  # 20 found, 27 wanted
        "emotional_peak": (1.000, 0.667),  # 2 found, 3 wanted
        "conflict_resolution": (1.000, 0.667),  # 2 found, 3 wanted
        "decision_made": (0.667, 0.667),  # 3 found, 3 wanted
        "topic_introduction": (1.000, 0.667),  # 2 found, 3 wanted
        "user_information": (0.667, 0.400),  # 3 found, 5 wanted
        "character_defining": (1.000, 0.333),  # 1 found, 3 wanted
        "question_asked": (1.000, 1.000),  # 4 found, 4 wanted
        "humor_moment": (1.000, 1.000),  # 3 found, 3 wanted
    },
}
LANGUAGE_RIGHT: Final = 0.803


@lru_cache(maxsize=1)
def measured() -> dict[str, dict[str, dict[str, Any]]]:
    """The figures by part and kind; code has one row, `all`."""
    report = measure()
    return {"code": {"all": report["code"]}} | {part: report[part] for part in report if part != "code"}


def test_precision_and_recall_have_not_fallen() -> None:
    """Neither is below the recorded value by more than one example of those found or wanted."""
    fallen = {}
    for part, kinds in RECORDED.items():
        for kind, (precision, recall) in kinds.items():
            now = measured()[part][kind]
            precise = now["precision"] >= precision - 1 / max(now["found"], 1) - 0.001
            if not precise or now["recall"] < recall - 1 / max(now["examples"], 1) - 0.001:
                fallen[part, kind] = now
    assert fallen == {}


def test_the_language_of_code_is_told_as_often() -> None:
    """The share of right languages is not below the recorded one by more than one example."""
    code = measured()["code"]["all"]
    assert code["language_right"] >= LANGUAGE_RIGHT - 1 / code["examples"] - 0.001


def test_false_moments_are_few_in_both_halves() -> None:
    """A false moment costs more than a missed one: of a hundred found, 85 at least are right."""
    for part, kinds in measured().items():
        assert kinds["all"]["precision"] >= 0.85, part


def test_every_measured_row_is_recorded_and_printed() -> None:
    """No kind and no half is left out; `-s` shows the rows."""
    report = measured()
    for part, kinds in report.items():
        print(f'\n    "{part}": {{')
        for kind, now in kinds.items():
            row = f'        "{kind}": ({now["precision"]:.3f}, {now["recall"]:.3f}),'
            print(f"{row:<52}# {now['found']} found, {now['examples']} wanted")
        print("    },", end="")
    print()
    assert {part: set(kinds) for part, kinds in report.items()} == {
        part: set(kinds) for part, kinds in RECORDED.items()
    }
