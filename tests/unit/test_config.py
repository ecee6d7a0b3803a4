"""Settings: where they come from, what is refused, and that secrets stay secret."""

import os
import re
import tomllib
import traceback
from pathlib import Path
from typing import Any

import pytest

from memory_agent import MemoryService
from memory_agent.config import GONE, SECRETS, MemoryConfig, nearest, setting_rows
from memory_agent.errors import ConfigError
from tests.unit.examples import examples

SHIPPED = Path(__file__).parents[2] / "config" / "memory.toml"
FIELDS = MemoryConfig.model_fields
# Unset by default in the shipped file: those without a value, and the one that follows another setting.
UNSET = {name for name, field in FIELDS.items() if field.default is None} | {
    "top_k_memories",
}


@pytest.fixture(autouse=True)
def _no_settings_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Each test starts in an empty folder and without variables of ours."""
    for name in list(os.environ):
        if name.upper().startswith("MEMORY_AGENT_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def use_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str) -> Path:
    file = tmp_path / "settings.toml"
    file.write_text(text, encoding="utf-8")
    monkeypatch.setenv("MEMORY_AGENT_CONFIG_FILE", str(file))
    return file


# --- the shipped file ----------------------------------------------------------------------------------------
def test_shipped_file_sets_exactly_the_settings_that_have_a_default() -> None:
    values = tomllib.loads(SHIPPED.read_text(encoding="utf-8"))
    assert set(values) == set(FIELDS) - UNSET


def test_shipped_value_is_the_default() -> None:
    """Of the same type as well."""
    for name, value in tomllib.loads(SHIPPED.read_text(encoding="utf-8")).items():
        default = FIELDS[name].default
        kind = type(default) if isinstance(default, Path | tuple) else lambda given: given
        assert (name, kind(value)) == (name, default)
        assert isinstance(value, bool) is isinstance(default, bool), name


def test_setting_without_a_value_is_shown_commented_out() -> None:
    text = SHIPPED.read_text(encoding="utf-8")
    assert [name for name in UNSET if not re.search(rf"^# {name} = .", text, flags=re.MULTILINE)] == []


def test_every_setting_has_its_reason_above_it() -> None:
    text = SHIPPED.read_text(encoding="utf-8")
    assert [
        name for name in FIELDS if not re.search(rf"^# .{{19,}}\n(# )?{name} = ", text, re.MULTILINE)
    ] == []


# --- where values come from ----------------------------------------------------------------------------------
def test_environment_wins_over_the_file_and_the_file_over_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_file(monkeypatch, tmp_path, "top_k_memories = 7\nshort_term_window = 3\n")
    monkeypatch.setenv("MEMORY_AGENT_TOP_K_MEMORIES", "9")
    cfg = MemoryConfig()
    assert (cfg.top_k_memories, cfg.short_term_window, cfg.max_attempts) == (9, 3, 5)


def test_file_in_the_config_folder_is_found_without_being_named(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "memory.toml").write_text("top_k_memories = 7\n")
    assert MemoryConfig().top_k_memories == 7


def test_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_AGENT_TOP_K_MEMORIES", "")
    monkeypatch.setenv("MEMORY_AGENT_CONFIG_FILE", "")
    assert MemoryConfig().top_k_memories == 5


def test_a_setting_is_assigned_and_checked_like_an_argument() -> None:
    cfg = MemoryConfig()
    cfg.top_k_memories = 3
    cfg.data_dir = "elsewhere"  # type: ignore[assignment]
    assert (cfg.top_k_memories, cfg.most_recollections, cfg.data_dir) == (3, 3, Path("elsewhere"))
    assert cfg == MemoryConfig(top_k_memories=3, data_dir="elsewhere")
    assert {row["setting"] for row in setting_rows(cfg) if row["from"] == "argument"} == {
        "top_k_memories",
        "data_dir",
    }
    with pytest.raises(ConfigError, match="top_k_memories: must be a whole number, at least 1"):
        cfg.top_k_memories = 0
    with pytest.raises(ConfigError, match=r"topk is no setting; did you mean top_k_memories\?"):
        cfg.topk = 3  # type: ignore[attr-defined]
    assert cfg.top_k_memories == 3


async def test_settings_that_a_service_runs_on_are_assigned_no_more(tmp_path: Path) -> None:
    cfg = MemoryConfig(data_dir=tmp_path, run_worker=False)
    async with MemoryService(cfg):
        with pytest.raises(ConfigError, match=r"cfg = cfg\.changed\(top_k_memories=…\)"):
            cfg.top_k_memories = 3
    assert cfg.top_k_memories == 5
    copy = cfg.changed(short_term_window=4)
    copy.top_k_memories = 3
    assert (copy.top_k_memories, copy.short_term_window) == (3, 4)


def test_changed_copy_keeps_the_others_as_they_were(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also where the environment says something else by now."""
    monkeypatch.setenv("MEMORY_AGENT_SHORT_TERM_WINDOW", "4")
    cfg = MemoryConfig(openai_api_key="sk-x")
    monkeypatch.setenv("MEMORY_AGENT_SHORT_TERM_WINDOW", "6")
    monkeypatch.setenv("MEMORY_AGENT_MAX_ATTEMPTS", "9")
    changed = cfg.changed(top_k_memories=8, data_dir=tmp_path)
    assert (changed.top_k_memories, changed.short_term_window, changed.max_attempts) == (8, 4, 5)
    assert changed.data_dir == tmp_path
    assert changed.openai_api_key == cfg.openai_api_key
    assert (cfg.top_k_memories, cfg.data_dir) == (5, Path("./data"))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"top_k_memories": 0}, "top_k_memories: must be a whole number, at least 1"),
        ({"topk": 8}, "did you mean top_k_memories"),
    ],
)
def test_changed_copy_is_checked_as_a_whole(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        MemoryConfig().changed(**values)


def test_impossible_copy_does_not_tell_secrets() -> None:
    cfg = MemoryConfig(mongo_uri="mongodb://ada:hunter2@h")
    with pytest.raises(ConfigError) as caught:
        cfg.changed(top_k_memories=0)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_the_truth_is_embedded_without_mongodb_and_a_key_or_base_url_makes_a_language_model() -> None:
    told = [
        (cfg.embedded, cfg.llm_configured)
        for cfg in (
            MemoryConfig(),
            MemoryConfig(chroma_host="h", openai_api_key="sk-x"),
            MemoryConfig(mongo_uri="mongodb://h", openai_base_url="http://127.0.0.1:1/v1"),
        )
    ]
    assert told == [(True, False), (True, True), (False, True)]


# --- unknown names -------------------------------------------------------------------------------------------
def test_unknown_argument_variable_or_name_in_the_file_is_refused_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without what a variable holds, which may be secret, and with the file's name."""
    with pytest.raises(ConfigError, match=r"^top_k_memory is no setting; did you mean top_k_memories\?"):
        MemoryConfig(top_k_memory=3)
    with monkeypatch.context() as patch:
        patch.setenv("MEMORY_AGENT_MONGO_URL", "mongodb://user:hunter2@h")
        meant = r"variable MEMORY_AGENT_MONGO_URL is no setting; did you mean MEMORY_AGENT_MONGO_URI\?"
        with pytest.raises(ConfigError, match=meant) as caught:
            MemoryConfig()
    assert "hunter2" not in str(caught.value)
    file = use_file(monkeypatch, tmp_path, "max_attempt = 3\n")
    with pytest.raises(ConfigError, match=rf"{file}.*max_attempt is no setting; did you mean max_attempts\?"):
        MemoryConfig()


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("topk", ["top_k_memories"]),
        ("TOP_K", ["top_k_memories"]),
        ("datadir", ["data_dir"]),
        ("window", ["short_term_window"]),
        ("lang", ["search_language"]),
        ("port", ["server_port", "chroma_port"]),
        ("api_key", ["openai_api_key", "service_api_key"]),
        ("mongodb_url", ["mongo_uri"]),
    ],
)
def test_guess_is_what_was_meant(given: str, meant: list[str]) -> None:
    found = nearest(given, FIELDS)
    assert found[: len(meant)] == meant
    assert len(found) <= 3


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"max_messages_per_topic": 3}, r"recent_message_keep is 4, more than max_messages_per_topic \(3\)"),
        (
            {"base_half_life_seconds": 3e6},
            "base_half_life_seconds is 3e.06, more than max_half_life_seconds",
        ),
    ],
)
def test_settings_of_topics_that_contradict_each_other_are_refused(values: Any, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        MemoryConfig(**values)


def test_a_setting_that_went_is_refused_with_what_to_do_instead(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(
        ConfigError, match=r"^fade_below is no setting any more; take it out: max_topics says"
    ):
        MemoryConfig(fade_below=0.1)
    file = use_file(monkeypatch, tmp_path, "compressed_share = 0.5\n")
    with pytest.raises(ConfigError, match=rf"^{file}: compressed_share is no setting any more"):
        MemoryConfig()
    monkeypatch.delenv("MEMORY_AGENT_CONFIG_FILE")
    monkeypatch.setenv("MEMORY_AGENT_PERSONA_MAX_TOKENS", "100")
    with pytest.raises(ConfigError, match="variable MEMORY_AGENT_PERSONA_MAX_TOKENS is no setting any more"):
        MemoryConfig()


def test_what_to_do_instead_of_a_setting_that_went_names_only_what_there_is() -> None:
    """None of them is a setting, and the words that look like one's name are settings, or arguments that are shown."""
    assert not GONE.keys() & FIELDS.keys()
    named = {name for said in GONE.values() for name in re.findall(r"[a-z]+(?:_[a-z]+)+", said)}
    assert named - FIELDS.keys() == {"add_turn", "entity_finder", "merge_topics"}


# --- impossible values ---------------------------------------------------------------------------------------
def test_impossible_value_is_refused_with_name_and_what_would_be_valid() -> None:
    for name, value, valid in [*examples("config.toml")["impossible"], ("db_name", "x" * 39, "1 to 38")]:
        with pytest.raises(ConfigError) as caught:
            MemoryConfig(**{name: value})
        message = str(caught.value)
        assert message.startswith(f"impossible setting: {name}: ")
        assert valid in message


def test_weights_of_signals_in_the_environment_go_over_those_of_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_file(monkeypatch, tmp_path, "search_weights = { dates = 0, words = 2.5 }\n")
    assert MemoryConfig().search_weights == {"dates": 0, "words": 2.5}
    monkeypatch.setenv("MEMORY_AGENT_SEARCH_WEIGHTS", '{"words": 1, "asks": -1}')
    assert MemoryConfig().search_weights == {"dates": 0, "words": 1, "asks": -1}


@pytest.mark.parametrize("value", ["{dates: 0}", "dates=0", "[1]", '{"dates": "much"}'])
def test_weights_that_are_none_are_refused_with_an_example(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("MEMORY_AGENT_SEARCH_WEIGHTS", value)
    with pytest.raises(ConfigError, match=r'search_weights: must be a number .* such as {"dates": 0}'):
        MemoryConfig()


def test_tilde_is_the_home_folder_wherever_a_path_comes_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No shell expands it in JSON, in a .env file or in Python."""
    monkeypatch.setenv("HOME", str(tmp_path))
    use_file(monkeypatch, tmp_path, 'entities_file = "~/names.toml"\nmodel_cache_dir = "~"\n')
    monkeypatch.setenv("MEMORY_AGENT_CONFIG_FILE", "~/settings.toml")
    monkeypatch.setenv("MEMORY_AGENT_DATA_DIR", "~/memory")
    cfg = MemoryConfig()
    of_paths = (cfg.data_dir, cfg.entities_file, cfg.model_cache_dir)
    assert of_paths == (tmp_path / "memory", tmp_path / "names.toml", tmp_path)
    assert cfg.changed(data_dir=Path("~/other")).data_dir == tmp_path / "other"
    assert MemoryConfig(data_dir="~nobody-of-this-name/x").data_dir == Path("~nobody-of-this-name/x")


def test_every_impossible_value_is_named_at_once() -> None:
    with pytest.raises(ConfigError, match=r"server_port: .*; max_attempts: "):
        MemoryConfig(server_port=-1, max_attempts=0)


def test_remote_embeddings_without_an_endpoint_are_refused() -> None:
    with pytest.raises(ConfigError, match="neither openai_api_key nor openai_base_url"):
        MemoryConfig(use_local_embeddings=False)


# --- the file itself -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("content", [b"max_attempts = ", b"[worker\n", b"\xff\xfe = 1", b"a = 1\na = 2\n"])
def test_broken_file_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes
) -> None:
    file = use_file(monkeypatch, tmp_path, "")
    file.write_bytes(content)
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        MemoryConfig()
    assert str(file) in str(caught.value)


@pytest.mark.parametrize("name", ["nowhere.toml", "."])
def test_file_named_by_the_variable_must_be_there(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("MEMORY_AGENT_CONFIG_FILE", name)
    with pytest.raises(ConfigError, match=r"MEMORY_AGENT_CONFIG_FILE names .* correct or unset it"):
        MemoryConfig()


def test_a_chroma_is_a_server_or_a_folder() -> None:
    """Both at once are refused by both names; either is one."""
    with pytest.raises(ConfigError, match=r"chroma_host \(h\) and chroma_db_dir \(f\).*leave one out"):
        MemoryConfig(chroma_host="h", chroma_db_dir="f")
    chosen = [MemoryConfig(), MemoryConfig(chroma_host="h"), MemoryConfig(chroma_db_dir="f")]
    assert [cfg.has_chroma for cfg in chosen] == [False, True, True]
    assert MemoryConfig(resident_memory_mb=0).most_resident_turns == 0


# --- secrets -------------------------------------------------------------------------------------------------

SECRET = "hunter2"


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_secret_is_never_shown(name: str) -> None:
    cfg = MemoryConfig(**{name: f"mongodb://user:{SECRET}@h"})
    assert SECRET in getattr(cfg, name).get_secret_value()
    assert SECRET not in f"{cfg!r} {cfg} {cfg.model_dump()} {cfg.model_dump_json()}"


@pytest.mark.parametrize(
    "others",
    [{}, {"embedding_backend": "torch", "embedding_precision": "int8"}, {"server_port": -1}],
    ids=["itself", "two settings at odds", "another setting"],
)
def test_secret_is_not_in_the_error_nor_in_its_traceback(others: dict[str, Any]) -> None:
    scheme = "mongodb" if others else "mongo"
    with pytest.raises(ConfigError) as caught:
        MemoryConfig(mongo_uri=f"{scheme}://{SECRET}", **others)
    assert SECRET not in "".join(traceback.format_exception(caught.value))
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


def test_secret_names_are_all_secret_strings() -> None:
    assert {name for name, field in FIELDS.items() if "SecretStr" in str(field.annotation)} == SECRETS
