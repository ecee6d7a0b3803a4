"""Real language models on this machine: the labelled talks, and the README's words from an empty folder (`make test-llm`)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_agent import MemoryConfig, MemoryService
from tests.documented import blocks
from tests.llm.models import LARGER, MODELS, LocalModel
from tests.llm.runs import BARS, EVERYDAY_LEAST, FACTS_ALONE, of_model, outcome_of, remember, run
from tests.llm.talks import EVERYDAY, TALK, invented, judged, lines_of, read_talk
from tests.servers.llama import LlamaServer

pytestmark = pytest.mark.timeout(7_200)
SECTION = "With a model on your own machine"
OLLAMA = "http://127.0.0.1:11434/v1"
OTHERS_PROGRAMS = ("curl ", "ollama ", "OLLAMA_")
PATIENCE_SECONDS = 1_800


@pytest.fixture(scope="module", params=MODELS, ids=lambda model: model.name)
def model(request: pytest.FixtureRequest) -> LocalModel:
    chosen: LocalModel = request.param
    return chosen


@pytest.fixture
def larger(tmp_path: Path) -> Iterator[LlamaServer]:
    with LlamaServer(LARGER, tmp_path / "llama.log") as server:
        yield server


async def test_a_model_notes_a_talk(model: LocalModel, tmp_path: Path) -> None:
    with LlamaServer(model, tmp_path / "llama.log") as server:
        settings = of_model(server.base_url, **FACTS_ALONE)
        outcome = await run(read_talk(TALK), tmp_path / "data", **settings)
    print(model.name, f"{outcome.seconds:.0f} s", dict(outcome.left))
    least, most = BARS[model.name]
    assert outcome.score.right >= least, outcome.score.missed
    assert outcome.score.wrong <= most, outcome.score.violated


def test_ten_messages_by_the_words_of_the_readme_from_an_empty_folder(
    larger: LlamaServer, tmp_path: Path
) -> None:
    """Its commands but for those that install Ollama, whose place another server takes."""
    (folder := tmp_path / "empty").mkdir()
    talk = read_talk(EVERYDAY)
    turns = [
        {"role": role, "content": text, "timestamp": said.at.isoformat()}
        for said in talk
        for role, text in (("user", said.text), ("assistant", said.reply))
    ]
    (folder / "chat.jsonl").write_text("".join(f"{json.dumps(turn)}\n" for turn in turns), "utf-8")
    typed = [
        line for block in blocks("README.md") if block.section == SECTION for line in block.text.splitlines()
    ]
    lines = [line.replace(OLLAMA, larger.base_url) for line in typed if not line.startswith(OTHERS_PROGRAMS)]
    assert any(line.startswith("memory-agent ingest chat.jsonl --user ada") for line in lines)
    script = "\n".join(["set -e", *lines, "memory-agent facts show --user ada --json > facts.json"])
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MEMORY_AGENT_")}
    environment |= {"PATH": f"{Path(sys.executable).parent}:{environment['PATH']}", "HF_HUB_OFFLINE": "1"}
    began = time.perf_counter()
    subprocess.run(["bash", "-c", script], cwd=folder, env=environment, check=True)
    print(f"{time.perf_counter() - began:.0f} s")
    facts = json.loads((folder / "facts.json").read_text("utf-8"))
    score = judged(talk, {talk[0].who: facts})
    assert len(score.found) >= EVERYDAY_LEAST, score.missed
    assert score.violated == []
    assert invented(talk, lines_of(facts)) == []


async def test_ten_messages_while_the_server_is_stopped_halfway_and_started_again(
    larger: LlamaServer, tmp_path: Path
) -> None:
    """It is killed in the middle of an answer; topics and compression ask it as well."""
    talk = read_talk(EVERYDAY)
    config = MemoryConfig(data_dir=tmp_path / "data", **of_model(larger.base_url))
    async with MemoryService(config) as service:
        began = time.perf_counter()
        await remember(service, talk[:5])
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await service.status()).extraction.requests == 0:
                await asyncio.sleep(0.1)
        await remember(service, talk[5:])
        await asyncio.sleep(5)
        larger.stop()
        await asyncio.sleep(5)
        larger.start()
        outcome = await outcome_of(service, talk, began=began)
    print(f"{outcome.seconds:.0f} s")
    assert len(outcome.score.found) >= EVERYDAY_LEAST, outcome.score.missed
    assert outcome.score.violated == []
