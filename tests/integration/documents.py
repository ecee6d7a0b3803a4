"""What readers can't type here, each with the reason: whatever else stands in a page must work."""

from __future__ import annotations

import re
from typing import Final

NOT_TYPED: Final[dict[str, str]] = {
    r"^(make|memory-agent) demo\b": "test_cli runs it, and types what it tells to type",
    r"^make test\b": "they are running",
    r"^from (agents|anthropic|google\.adk|langchain|llama_index|pydantic_ai)\b": "frameworks that are not installed here; tests/frameworks runs these programs",
    r"^pip (install|download) ": "fetches from a network; test_wheel builds and uses the package",
    r"^docker ": "containers; tests/unit/test_compose.py and test_dockerfile.py read what they are made of",
    r"^cp \.env\.example ": "for the compose file, in a clone",
    r"^memory-agent inspect\b": "waits for ctrl-C; inspect/test_command.py starts it",
    r"^git pull\b": "a clone's",
    r"^claude ": "another program's",
    r"^import asyncio\n\nfrom memory_agent\.integrations\.ollama": "a model that is not here; integrations/test_ollama.py speaks to a server",
    r"^(curl -fsSL https://ollama|ollama )|llama_cpp\.server": "another program's; tests/llm starts llama.cpp's server",
    r"hook uninstall claude-code --dry-run": "leaves with 1 where none are; test_hooks takes them out",
    r"python3? -m benchmarks\.": "takes minutes, and data that isn't ours; tests/unit/benchmarks runs their parts",
    r"^memory-agent topic split ": "undoes a merge; test_topics_cli types it",
    r"embedder export\b": "half a minute; test_embedder_cli runs it",
    r"MODEL=\./minilm-onnx ": "the folder that the export before it makes; test_embedder_cli goes on from there",
    r"--url https://memory\.example\.org --key-file": "an address that is nobody's; test_service_url asks services that run",
    r"\bmongodump\b": "another program's; test_rest_work pauses and resumes a worker",
    r"mcp --user ada --url https://": "an address that is nobody's; test_mcp asks a service that runs",
    r"erasures --scan ada": "leaves with 3 while Ada is there; test_erased_files looks at every byte",
    r"saved\.jsonl\.gz|--data-dir \./saved": "makes and reads a file; test_damaged_files types them",
    r"/backups/memory\.backup\.gz|backup\.gz|ada\.jsonl": "makes and reads files; test_backup and test_exports type them",
    r"memory-agent import \w+\.zip ": "somebody's chats; test_imports makes such a ZIP, and types this",
    r"memory-agent conformance my_": "a store of one's own; conformance/test_third_store.py follows it",
}
"""Regular expressions of command lines, and of programs."""

NOT_RUN: Final[dict[str, str]] = {
    "from dictionary_store import": "not of this package; conformance/test_third_store.py runs it",
    'import_chats(service, "ada", "export.zip"': "somebody's chats; test_imports calls it",
    "store = MemoryConversationStore(service": "of a framework; tests/frameworks tests the store",
    "import Memory  # was: from mem0": "opens its own memory in the folder; integrations/test_mem0.py runs it",
    "presidio_analyzer": "not installed; test_redaction hands in a redactor of the same shape",
}
"""Words of Python blocks."""

READ_ELSEWHERE: Final[dict[str, str]] = {
    "": "drawings and headers",
    "text": "forms of texts, which no program reads",
    "ini": "units of systemd",
    "yaml": "rules of Prometheus",
    "html": "a page of a browser's; documents/test_s1_endpoints.py speaks to the same WebSocket",
    "js": "for mongosh; test_mongo_forgetting asks the same of a real server, test_operations shards one",
}
"""Languages that nobody types here."""


def why_not_run(code: str) -> str | None:
    """The reason for which this Python isn't run; None if it is."""
    return next((reason for words, reason in NOT_RUN.items() if words in code), None)


def why_not_typed(line: str) -> str | None:
    """The reason for which this command line isn't typed; None if it is."""
    return next(
        (reason for pattern, reason in NOT_TYPED.items() if re.search(pattern, line, re.MULTILINE)), None
    )
