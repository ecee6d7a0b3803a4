"""Whether ONNX Runtime gives sentence-transformers' vectors, and how fast: `python -m benchmarks.embedding [FILE...]`.

FILE is a recall set, whose turns ("speaker: text") and questions are embedded; without one they are made up. Prints

- equality: the least and the mean cosine with the vectors of sentence-transformers itself, by group of texts, of
  ONNX fp32 and int8: turns, Korean, code, next to nothing, and turns of 5,000 words, whole (the model truncates them)
  and passage by passage. Ends with exit code 1 if a cosine is below LEAST_FP32 or LEAST_INT8;
- speed and memory of plain sentence-transformers ("torch") and of LocalEmbedder by ONNX fp32 and int8. Each measurement
  has a process of its own, one after the other, and the backends take turns, so that a drift of the machine meets all;
  each figure is the median of its rounds. A median of three does not outweigh another program at work on the same
  cores, which makes single figures two to four times as large: `others_busy` is the largest share of the machine's time
  that other processes took during a measurement, and figures hold only where it is at most MOST_OTHERS.

Peaks of memory are the kernel's VmHWM (Linux). getrusage's ru_maxrss is not used: a process starts with its parent's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import subprocess
import sys
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from benchmarks.measure import machine, peak_mib, percentiles
from benchmarks.meter import Others
from benchmarks.recall_sets import read_corpora
from benchmarks.texts import sentences
from memory_agent.models.local.atomic_build import Making
from memory_agent.models.local.choose import ModelChoiceRequest, choose, prepare
from memory_agent.models.local.embedder import LocalEmbedder
from memory_agent.models.local.find import find_model
from memory_agent.models.local.onnx import OnnxModel

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

MODEL: Final = "all-MiniLM-L6-v2"
BACKENDS: Final = ("torch", "onnx", "int8")
LEAST_FP32: Final = 0.9999
LEAST_INT8: Final = 0.97
BATCH: Final = 64
INGEST_BATCH: Final = 256
"""Texts that the worker embeds in one call."""
PACE_SECONDS: Final = 0.1
"""Before each question at the pace of a conversation: caches cool down and threads fall asleep."""
OTHERS_BUSY: Final = "others_busy"
MOST_OTHERS: Final = 0.05
CODE_CHUNKS: Final = 100
LONG_TEXTS: Final = 20
LONG_WORDS: Final = 5_000
CODE_LINES: Final = 24

KOREAN_FIRST: Final = (
    "어제 저녁에 동생이 갑자기 전화해서 깜짝 놀랐어요.",
    "다음 달에 부산으로 이사하려고 집을 알아보고 있어요.",
    "회의가 세 시에서 네 시 반으로 미뤄졌습니다.",
    "우리 고양이가 새로 산 커튼을 다 뜯어 놓았어.",
    "할머니께서 담그신 김치가 정말 맛있었습니다.",
    "요즘 잠을 통 못 자서 병원에 다녀왔어요.",
    "지난주에 빌린 책을 아직 반도 못 읽었네.",
    "비가 너무 많이 와서 등산은 포기했습니다.",
    "제 생일은 9월 14일이고 딸기 케이크를 좋아해요.",
    "자전거 앞바퀴에 구멍이 나서 걸어서 출근했어.",
)
KOREAN_SECOND: Final = (
    "주말에 시간이 되면 같이 영화 보러 갈까요?",
    "그래서 오늘은 일찍 퇴근하고 쉬려고요.",
    "혹시 좋은 방법을 알고 있으면 알려 주세요!",
    "엄마한테는 아직 말하지 못했어.",
    "생각보다 돈이 많이 들어서 걱정입니다.",
    "사진은 나중에 메일로 보내 드릴게요.",
    "땅콩 알레르기가 있으니까 꼭 기억해 줘.",
    "Python 공부도 다시 시작했는데 꽤 재미있어요 ㅎㅎ",
    "내일 오전 10시에 역 앞에서 만나기로 했어요.",
    "이번에는 절대로 잊어버리지 않을 거예요…",
)
NEXT_TO_NOTHING: Final = (
    *("", " ", "   ", "\n", "\t", "\r\n", "\u00a0", "\u200b", "\ufeff", "\0"),
    *(".", ",", "?", "!", "...", "…", "?!", "-", "—", "*", "#", "'", '""', "()", "[]", "~"),
    *("a", "I", "0", "7", "ok", "no", "네", "ㅋㅋ", "好", "да", "é", "👍", "🙏🏽", "👨‍👩‍👧", ":)", "<3"),
)

START_CODE: Final = """
import asyncio, sys
from memory_agent.models.local.choose import ModelChoiceRequest
from memory_agent.models.local.embedder import LocalEmbedder

async def main():
    model, backend, precision = sys.argv[1:]
    embedder = LocalEmbedder(ModelChoiceRequest(model=model, backend=backend, precision=precision))
    await embedder.embed(["Where did I leave the bicycle?"], purpose="query")
    print("embedded", flush=True)
    sys.stdin.read()
    await embedder.close()

asyncio.run(main())
"""


# --- texts ---------------------------------------------------------------------------------------------------
def read_texts(files: Sequence[Path]) -> tuple[list[str], list[str]]:
    """Turns in the order in which they come, and questions; each text once, since embedders know the second."""
    if not files:
        return [sentences(n) for n in range(4_000)], [
            f"Who said that {sentences(-n)}?" for n in range(1, 1_000)
        ]
    corpora = [corpus for file in files for corpus in read_corpora(file)]
    turns = (f"{turn.role}: {turn.text}" for corpus in corpora for turn in corpus.turns)
    questions = (question.text for corpus in corpora for question in corpus.questions)
    return list(dict.fromkeys(turns)), list(dict.fromkeys(questions))


def groups_of_texts(turns: Sequence[str], count: int) -> dict[str, list[str]]:
    """What equality is looked at on: `count` of the turns, and the groups made here."""
    korean = [f"{first} {second}" for first in KOREAN_FIRST for second in KOREAN_SECOND]
    return {
        "turns": spread(turns, count),
        "korean": korean,
        "code": spread(list(code_chunks()), CODE_CHUNKS),
        "next_to_nothing": list(NEXT_TO_NOTHING),
        "long_whole": [long_turn(turns, number) for number in range(LONG_TEXTS)],
    }


def spread(texts: Sequence[str], count: int) -> list[str]:
    """`count` of the texts, evenly from the first to the last; all if there are fewer."""
    picked = np.linspace(0, len(texts) - 1, min(count, len(texts))).astype(int)
    return [texts[i] for i in picked]


def code_chunks() -> Iterator[str]:
    """This package's own source, so many lines a chunk."""
    source = Path(__file__).parents[1] / "memory_agent"
    for file in sorted(source.rglob("*.py")):
        lines = file.read_text(encoding="utf-8").splitlines()
        for start in range(0, len(lines), CODE_LINES):
            yield "\n".join(lines[start : start + CODE_LINES])


def long_turn(turns: Sequence[str], number: int) -> str:
    """Turns one after the other, other ones for another number, until there are LONG_WORDS words."""
    pick, words = random.Random(number), list[str]()
    while len(words) < LONG_WORDS:
        words += pick.choice(turns).split()
    return " ".join(words[:LONG_WORDS])


def chunks(texts: Sequence[str], size: int) -> Iterator[list[str]]:
    """The texts in their order, `size` at a time."""
    return (list(texts[start : start + size]) for start in range(0, len(texts), size))


# --- equality ------------------------------------------------------------------------------------------------
def equality(model: str, groups: dict[str, list[str]]) -> dict[str, Any]:
    """Cosines with sentence-transformers' vectors, by group. Makes the ONNX files if they are not there yet."""
    asking = LocalEmbedder(_wanted(model, "onnx"))
    groups["long_passages"] = asyncio.run(_passages(asking, groups["long_whole"]))
    plain = _sentence_transformer(model)
    onnx = {"fp32": _onnx_model(model, "onnx"), "int8": _onnx_model(model, "int8")}
    report: dict[str, Any] = {}
    least = dict.fromkeys(onnx, 1.0)
    for name, texts in groups.items():
        wanted = plain.encode(texts, show_progress_bar=False)
        report[name] = {"texts": len(texts)}
        for precision, loaded in onnx.items():
            given = np.concatenate([loaded.encode(batch) for batch in chunks(texts, BATCH)])
            cosines = cosine(given, wanted)
            worst = float(cosines.min())
            report[name][precision] = {"least": round(worst, 6), "mean": round(float(cosines.mean()), 6)}
            # min() would let a NaN pass.
            least[precision] = worst if not worst >= least[precision] else least[precision]
        print(f"equality: {name}", file=sys.stderr)
    passed = least["fp32"] >= LEAST_FP32 and least["int8"] >= LEAST_INT8
    overall = {precision: round(worst, 6) for precision, worst in least.items()}
    return {
        "texts": sum(len(texts) for texts in groups.values()),
        "least": overall,
        "passed": passed,
        **report,
    }


def cosine(some: Vectors, others: Vectors) -> NDArray[np.float64]:
    """Of rows of the same number."""
    a, b = some.astype(np.float64), others.astype(np.float64)
    cosines: NDArray[np.float64] = (a * b).sum(axis=1) / (
        np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    )
    return cosines


async def _passages(embedder: LocalEmbedder, texts: Iterable[str]) -> list[str]:
    return [passage for text in texts for passage in await embedder.split(text)]


def _wanted(model: str, backend: str) -> ModelChoiceRequest:
    if backend == "torch":
        return ModelChoiceRequest(model=model, backend="torch")
    return ModelChoiceRequest(model=model, backend="onnx", precision="int8" if backend == "int8" else "fp32")


def _onnx_model(model: str, backend: str) -> OnnxModel:
    wanted = _wanted(model, backend)
    choice = prepare(choose(wanted), wanted, Making(progress=lambda stage: print(stage, file=sys.stderr)))
    assert choice.file is not None  # ONNX was asked for
    return OnnxModel(choice.folder, choice.file, one_by_one=choice.precision == "int8")


def _sentence_transformer(model: str) -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(find_model(model, weights=True)), device="cpu", local_files_only=True)


# --- speed, in a process of its own --------------------------------------------------------------------------
class Encoder(Protocol):
    """What is measured. Vectors are thrown away."""

    async def question(self, text: str) -> None:
        """One question."""

    async def in_order(self, turns: Sequence[str]) -> None:
        """Turns as they come in."""

    async def at_once(self, turns: Sequence[str]) -> None:
        """All turns in one call."""


class Plain:
    """sentence-transformers itself, as one would call it without this package."""

    def __init__(self, model: str) -> None:
        self._model = _sentence_transformer(model)

    async def question(self, text: str) -> None:
        """See Encoder."""
        self._model.encode([text], show_progress_bar=False)

    async def in_order(self, turns: Sequence[str]) -> None:
        """See Encoder: BATCH turns a call."""
        for batch in chunks(turns, BATCH):
            self._model.encode(batch, batch_size=BATCH, show_progress_bar=False)

    async def at_once(self, turns: Sequence[str]) -> None:
        """See Encoder: it sorts them by length, and takes BATCH at a time."""
        self._model.encode(list(turns), batch_size=BATCH, show_progress_bar=False)


class Local:
    """LocalEmbedder by ONNX, without its cache."""

    def __init__(self, embedder: LocalEmbedder) -> None:
        self._embedder = embedder

    async def question(self, text: str) -> None:
        """See Encoder."""
        await self._embedder.embed([text], purpose="query")

    async def in_order(self, turns: Sequence[str]) -> None:
        """See Encoder: INGEST_BATCH turns a call, as the worker does; the embedder makes batches of them."""
        for batch in chunks(turns, INGEST_BATCH):
            await self._embedder.embed(batch, purpose="document")

    async def at_once(self, turns: Sequence[str]) -> None:
        """See Encoder."""
        await self._embedder.embed(turns, purpose="document")


async def measure(
    model: str, backend: str, turns: Sequence[str], questions: Sequence[str]
) -> dict[str, float]:
    """All figures of one backend in this process, by name."""
    local = (
        None if backend == "torch" else LocalEmbedder(_wanted(model, backend), batch_size=BATCH, cache_size=0)
    )
    encoder: Encoder = Plain(model) if local is None else Local(local)
    await encoder.in_order(turns[:BATCH])
    busy = []

    async def seconds(*calls: Callable[[], Awaitable[None]], pause: float = 0.0) -> list[float]:
        others, each = Others(), []
        for call in calls:
            if pause:
                await asyncio.sleep(pause)
            began = time.perf_counter()
            await call()
            each.append(time.perf_counter() - began)
        busy.append(others.share())
        return each

    (in_order,) = await seconds(partial(encoder.in_order, turns))
    (at_once,) = await seconds(partial(encoder.at_once, turns))
    figures = {
        "batches_in_order_ms_per_turn": 1_000 * in_order / len(turns),
        "all_at_once_ms_per_turn": 1_000 * at_once / len(turns),
        "peak_after_batches_mib": peak_mib(),
    }
    # Questions come after the documents: for a while after a question documents leave a core to the next one.
    asked = [partial(encoder.question, question) for question in questions]
    for name, pause in (("question_back_to_back", 0.0), ("question_paced", PACE_SECONDS)):
        for call in asked[:5]:
            await call()
        given = percentiles(await seconds(*asked, pause=pause))
        figures |= {f"{name}_{key}": value for key, value in given.items()}
    if local is not None:
        await local.close()
    return figures | {OTHERS_BUSY: max(busy)}


# --- the process that starts the others ----------------------------------------------------------------------
def child(what: str, model: str, given: dict[str, Any]) -> dict[str, Any]:
    """What this module answers in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.embedding", "--child", what, "--model", model],
        input=json.dumps(given),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def start(model: str, backend: str) -> dict[str, float]:
    """From the start of a process until it has embedded a question, and its peak of memory then."""
    wanted = _wanted(model, backend)
    command = [sys.executable, "-c", START_CODE, model, wanted.backend, wanted.precision]
    began = time.perf_counter()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None  # asked for above
        assert process.stdout is not None
        said = process.stdout.readline()
        seconds = time.perf_counter() - began
        if not said:
            raise SystemExit(f"no embedding by {backend}; its process says why above")
        peak = peak_mib(process.pid)
        process.stdin.close()
    return {"start_to_first_embedding_s": seconds, "peak_after_one_question_mib": peak}


def speed(model: str, turns: list[str], questions: list[str], *, rounds: int, starts: int) -> dict[str, Any]:
    """Medians of all figures by backend, with the ratios; and those of each round."""
    given = {"turns": turns, "questions": questions}
    child("prepare", model, {})
    each: dict[str, list[dict[str, float]]] = {backend: [] for backend in BACKENDS}
    for number in range(rounds):
        for backend in BACKENDS:
            each[backend].append(child(backend, model, given))
            print(f"round {number + 1} of {rounds}: {backend}", file=sys.stderr)
    started: dict[str, list[dict[str, float]]] = {backend: [] for backend in BACKENDS}
    for _ in range(starts):
        for backend in BACKENDS:
            started[backend].append(start(model, backend))
    busy = max(figures[OTHERS_BUSY] for of in each.values() for figures in of)
    if busy > MOST_OTHERS:
        print(
            f"other processes took {busy:.0%} of the machine: measure again when it is quiet", file=sys.stderr
        )
    return {
        OTHERS_BUSY: busy,
        "quiet": busy <= MOST_OTHERS,
        "turns": len(turns),
        "characters_per_turn": round(float(np.mean([len(turn) for turn in turns])), 1),
        "questions": len(questions),
        "rounds": rounds,
        "starts": starts,
        **medians(each),
        **medians(started),
        "each_round": {backend: [_rounded(figures) for figures in of] for backend, of in each.items()},
    }


def medians(each: dict[str, list[dict[str, float]]]) -> dict[str, dict[str, float]]:
    """By figure: each backend's median, and torch's as a multiple of the others'."""
    report = {}
    for name in (name for name in each[BACKENDS[0]][0] if name != OTHERS_BUSY):
        of = {backend: float(np.median([figures[name] for figures in each[backend]])) for backend in BACKENDS}
        ratios = {f"torch/{backend}": round(of["torch"] / of[backend], 2) for backend in BACKENDS[1:]}
        report[name] = _rounded(of) | ratios
    return report


def _rounded(figures: dict[str, float]) -> dict[str, float]:
    return {name: round(value, 3) for name, value in figures.items()}


def answer(what: str, model: str) -> dict[str, Any]:
    """What `child` asks of this process."""
    given = json.load(sys.stdin)
    if what == "prepare":
        for backend in BACKENDS[1:]:
            _onnx_model(model, backend)
        return {}
    if what == "equality":
        return equality(model, given)
    return asyncio.run(measure(model, what, given["turns"], given["questions"]))


def run(arguments: argparse.Namespace) -> int:
    """Do what is asked for and print it; the exit code."""
    if arguments.child:
        print(json.dumps(answer(arguments.child, arguments.model)))
        return 0
    turns, questions = read_texts(arguments.file)
    packages = ("torch", "sentence-transformers", "onnxruntime", "tokenizers")
    report: dict[str, Any] = {
        "files": [file.name for file in arguments.file],
        "model": arguments.model,
        "machine": machine(),
        "versions": {name: version(name) for name in packages},
    }
    if "equality" in arguments.part:
        groups = groups_of_texts(turns, arguments.equality_turns)
        report["equality"] = child("equality", arguments.model, groups)
    if "speed" in arguments.part:
        report["speed"] = speed(
            arguments.model,
            turns[: arguments.turns],
            questions[: arguments.questions],
            rounds=arguments.rounds,
            starts=arguments.starts,
        )
    print(json.dumps(report, indent=2, ensure_ascii=False))
    return 0 if report.get("equality", {}).get("passed", True) else 1


def main() -> None:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument(
        "file", nargs="*", type=Path, help="recall sets: JSON lines, or the same packed as .xz"
    )
    parser.add_argument("--model", default=MODEL, help="a folder or a name (default %(default)s)")
    parser.add_argument("--part", nargs="+", choices=("equality", "speed"), default=["equality", "speed"])
    add = parser.add_argument
    add("--equality-turns", type=int, default=1_000, help="turns compared (default %(default)s)")
    add("--turns", type=int, default=1_024, help="turns embedded for speed (default %(default)s)")
    add("--questions", type=int, default=100, help="questions embedded for speed (default %(default)s)")
    add("--rounds", type=int, default=3, help="times each backend is measured (default %(default)s)")
    add("--starts", type=int, default=5, help="processes started by each backend (default %(default)s)")
    add("--child", choices=("prepare", "equality", *BACKENDS), help=argparse.SUPPRESS)
    sys.exit(run(parser.parse_args()))


if __name__ == "__main__":
    main()
