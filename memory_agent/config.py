"""Settings: environment (`MEMORY_AGENT_*`) over `config/memory.toml` over the defaults below.

Every setting's unit and reason stand in `config/memory.toml`; a test keeps that file, these defaults and the
documentation in step.
"""

from __future__ import annotations

import difflib
import functools
import ipaddress
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, get_args, get_origin
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from memory_agent.checks import MAX_RETENTION_DAYS, at_home
from memory_agent.domain import Preset, Reach, RecallPrice  # noqa: TC001 - pydantic reads it
from memory_agent.errors import ConfigError
from memory_agent.lazily import lazily

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from pydantic.fields import FieldInfo

    from memory_agent.domain import Stage


_MISSPELT: Final = 0.84
"""From this likeness on (difflib's, 0 to 1) a name is taken for a misspelling, and nothing else is guessed."""
_ALIKE: Final = 0.7
_GUESSES: Final = 3

GONE: Final[Mapping[str, str]] = {
    "access_threshold": "it is called access_threshold_for_lt",
    "base_half_life": "it is called base_half_life_seconds",
    "chroma_ssl": "write the scheme into chroma_host: https://chroma.example.com",
    "code_language_priorities": "a StrategyConfig has priorities by language; add_turn(…, importance=…) weighs a stored turn",
    "code_patterns": "a StrategyConfig has patterns of code; in a stored turn a fence (```) makes code of any text",
    "code_retention_priority": "a StrategyConfig has the bonus of code; add_turn(…, importance=…) weighs a stored turn",
    "compress_every_turns": "a conversation is compressed after 100 turns at the latest; context_limit_tokens says from which size on",
    "compressed_share": "context_limit_tokens bounds what a compressed context may take",
    "compressed_summary_tokens": "context_limit_tokens bounds what a compressed context may take",
    "compression_trigger_share": "at three quarters of context_limit_tokens a conversation is compressed",
    "continuation_bonus": "the score of a turn with the topic of the turn before gets .15 more; similarity_threshold says when one joins",
    "cross_encoder_model": "the embedding model compares the best turns with the question word by word",
    "embedding_batch_size": "64 texts go into a batch",
    "embedding_cache_size": "2,048 vectors are kept; the embedder of one's own that MemoryService takes may keep others",
    "enable_compaction": "a max_messages_per_topic above the number of turns packs none",
    "facts_batch_turns": "2 turns of a thread go into a request",
    "facts_budget_share": "context_preset divides the prompt",
    "facts_context_turns": "the turn before is shown with a message of few words",
    "facts_max_tokens": "a reply has 200 tokens for each message",
    "facts_patience_seconds": "patterns stand in once the language model has been away for five minutes",
    "fade_below": "max_topics says how many a thread may have before they fade",
    "importance_by": "rules say what kind of moment a turn is",
    "llm_max_retries": "a request is tried three times quickly, then by the worker; it waits five minutes at most",
    "max_half_life": "it is called max_half_life_seconds",
    "max_live_threads": "the analyses of 100 threads are kept in memory",
    "max_owed_turns": "a million turns may owe work; workers that run and keep up bring it down",
    "max_session_hours": "a session closes a day after its first turn at the latest; session_idle_seconds says after which pause",
    "max_turns_per_session": "a session closes after 1,000 turns; session_idle_seconds says after which pause",
    "merge_suggestion_similarity": "the sweep merges topics that are surely one; merge_topics merges any two",
    "min_importance_score": "a turn's own importance decides where it is passed: add_turn(…, importance=…)",
    "ner_model": "MemoryService(entity_finder=…) takes a finder of one's own; entities_file names the dictionary",
    "outage_patience_seconds": "a turn waits a day for a part that works for others; max_attempts is for other failures",
    "persona_max_tokens": "the reminder has 200 tokens; max_context_tokens bounds the whole prompt",
    "preserved_max_tokens": "context_preset divides the prompt, of which preserved turns have 1,000 tokens at most",
    "redact_before_llm": "a redactor is always applied to what a language model is shown",
    "rerank_model": "no language model orders turns; the best are compared with the question word by word",
    "resident_idle_seconds": "an unused index leaves memory after ten minutes; resident_memory_mb bounds them all",
    "retry_base_seconds": "the first retry comes after a second, and five minutes lie between two at most",
    "retry_max_seconds": "five minutes lie between two retries at most",
    "search_candidates": "500 are looked at; resident_max_turns says from which size on a user is searched by them",
    "second_stage": "the best turns are always compared word by word where the embedder has vectors of words; search_weights={'detail': 0} leaves that out of the score",
    "second_stage_candidates": "50 turns are compared word by word",
    "second_stage_seconds": "comparing word by word takes some milliseconds, and has no limit of its own",
    "server_body_seconds": "a proxy in front of the service bounds how long a body takes; config/nginx.conf is one's",
    "server_concurrent_requests": "256 requests of a key are answered at once; server_requests_per_minute bounds them over time",
    "server_event_queue": "a reader may be 1,000 events behind",
    "server_event_streams": "a process has 1,000 readers of events at most",
    "server_head_seconds": "a proxy in front of the service bounds how long a request's head takes; config/nginx.conf is one's",
    "server_idle_seconds": "a connection may be idle for 60 seconds",
    "server_key_cache_seconds": "a revoked key works for 5 seconds more at most",
    "server_max_connections": "a proxy in front of the service bounds connections; config/nginx.conf is one's",
    "short_term_budget_share": "context_preset divides the prompt, and short_term_window bounds the turns",
    "short_term_step": "the window moves on with each turn",
    "short_turn_terms": "a turn of fewer than 2 words of its own opens no topic",
    "summary_max_tokens": "a summary has 400 tokens at most",
    "vector_shards": "users are spread over 64 collections of a Chroma server; after another number, `memory-agent rebuild --all` fills them",
    "worker_batch_turns": "256 turns go into a batch",
    "worker_poll_seconds": "a worker looks for work of others every second",
}
"""Settings that there were once, each with what to do instead."""


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """Names that `name` may have been meant for, the likeliest first, three at most.

    A misspelling has one; else those that begin as it does, are alike or share its words, whatever the underscores.

    >>> nearest("topk", ["data_dir", "top_k_memories", "run_worker"])
    ['top_k_memories']
    """
    given, bare = name.lower(), name.lower().replace("_", "")
    words = set(given.split("_"))
    likeness: dict[str, tuple[bool, float, float]] = {}
    for one in known:
        alike = difflib.SequenceMatcher(None, given, one).ratio()
        if alike >= _MISSPELT:
            return [one]
        parts = one.split("_")
        shared = len(words.intersection(parts)) + (
            0.5 * any(part.startswith(bare) for part in parts) if len(bare) > 2 else 0
        )
        begins = len(bare) > 2 and "".join(parts).startswith(bare)
        if begins or shared or alike >= _ALIKE:
            likeness[one] = (begins, shared + (alike >= _ALIKE), alike)
    return sorted(likeness, key=lambda one: likeness[one], reverse=True)[:_GUESSES]


def unknown_name(name: str, guesses: Collection[str], *, where: str, instead: str | None = None) -> str:
    """That there is no setting of this name, and what may have been meant. All names would hide that.

    `instead`: of one that went, what to do now.
    """
    if instead is not None:
        return f"{where}{name} is no setting any more; take it out: {instead}"
    meant = f"did you mean {' or '.join(guesses)}? " if guesses else ""
    return f"{where}{name} is no setting; {meant}`memory-agent settings` lists them all"


def impossible_values(
    exc: ValidationError, fields: Mapping[str, FieldInfo], *, secret: Collection[str]
) -> str:
    """Every impossible value with its setting's name and what would be valid; no value of a `secret` setting."""
    lines = []
    for error in exc.errors(include_url=False, include_context=False):
        name = str(error["loc"][0]) if error["loc"] else ""
        given = "" if not name or name in secret else f" (given: {error['input']!r:.80})"
        if error["type"] == "value_error":
            message = error["msg"].removeprefix("Value error, ")
        else:
            message = f"must be {valid_values(fields[name])}"
        lines.append(f"{name}: {message}{given}" if name else message)
    return "impossible setting: " + "; ".join(lines)


def valid_values(field: FieldInfo) -> str:
    """The values that a setting takes, in words, from its type and its constraints."""
    if field.description:
        return field.description
    if field.annotation is bool:
        return "true or false"
    if field.annotation in _PATHS:
        return "a path"
    if get_origin(field.annotation) is Literal:
        return f"one of: {', '.join(get_args(field.annotation))}"
    if field.annotation not in (int, float):
        return "text"
    words = ["a whole number" if field.annotation is int else "a number"]
    for limit in field.metadata:
        for attribute, word in (("gt", "above"), ("ge", "at least"), ("le", "at most"), ("lt", "below")):
            if (bound := getattr(limit, attribute, None)) is not None:
                words.append(f"{word} {bound:,}")
    return words[0] + (", " + " and ".join(words[1:]) if words[1:] else "")


Seconds = Annotated[float, Field(gt=0, le=86_400)]

_ORIGIN: Final = lazily(re.compile, r"\*|https?://[A-Za-z0-9.\[\]:_-]+")


class ServerSettings(BaseSettings):
    """The part of the settings that `memory_agent.server` and `memory_agent.client` read."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid")

    server_host: Annotated[
        str, Field(pattern=r"^[^\s/@?#]+$", description="a host name or address alone, e.g. 127.0.0.1")
    ] = "127.0.0.1"
    server_port: Annotated[int, Field(ge=0, le=65_535)] = 8080
    server_max_body_bytes: Annotated[int, Field(ge=1_000, le=1_000_000_000)] = 8_000_000
    server_requests_per_minute: Annotated[int, Field(ge=0, le=10_000_000)] = 6_000
    server_shutdown_seconds: Seconds = 30.0
    server_cors_origins: Annotated[
        tuple[str, ...], NoDecode, Field(description="origins, such as ['https://app.example.org']")
    ] = ()
    server_metrics_open: bool = False
    server_trusted_proxies: Annotated[
        tuple[str, ...], NoDecode, Field(description="addresses or networks, such as ['10.0.0.0/8']")
    ] = ()
    service_url: str | None = None
    service_api_key: SecretStr | None = None

    @field_validator("server_cors_origins", "server_trusted_proxies", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """In the environment they are separated by commas."""
        return [origin.strip() for origin in value.split(",")] if isinstance(value, str) else value

    @field_validator("server_cors_origins")
    @classmethod
    def _origins_alone(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            if not _ORIGIN.fullmatch(origin):
                raise ValueError(
                    f"{origin!r} is no origin; give scheme, host and port alone, e.g. https://app.example.org, or *"
                )
        return value

    @field_validator("server_trusted_proxies")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for network in value:
            try:
                ipaddress.ip_network(network)
            except ValueError as exc:
                raise ValueError(
                    f"{network!r} is no address or network ({exc}); give one such as 10.0.0.7 or 10.0.0.0/8"
                ) from exc
        return value

    @field_validator("service_url")
    @classmethod
    def _web_address(cls, value: str | None) -> str | None:
        if value is not None and not re.match(r"https?://[^\s/?#]+[^\s?#]*$", value):
            raise ValueError(
                "must start with http:// or https:// and have no query, e.g. http://127.0.0.1:8080"
            )
        return value


# A description says in words what a pattern means; it ends up in the error of a value that does not match.
Name = Annotated[
    str,
    Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,31}$",
        description="1 to 32 ASCII letters, digits, '_' or '-', the first a letter or digit",
    ),
]
LongSeconds = Annotated[float, Field(gt=0, le=3_153_600_000)]
"""Up to 100 years."""


def listed(value: Any) -> Any:
    """The names of a list, which the environment separates by commas."""
    return [name.strip() for name in value.split(",")] if isinstance(value, str) else value


def of_signals(value: dict[str, float]) -> dict[str, float]:
    """The weights as they are. Raises ValueError for one of no signal."""
    from memory_agent.search.fusion import SIGNALS

    for name in value:
        if name not in SIGNALS:
            raise ValueError(f"no signal {name!r}; one of: {', '.join(SIGNALS)}")
    return value


def _mongo_scheme(value: SecretStr) -> SecretStr:
    if not value.get_secret_value().startswith(("mongodb://", "mongodb+srv://")):
        raise ValueError("must start with mongodb:// or mongodb+srv://, e.g. mongodb://127.0.0.1:27017")
    return value


def _http_scheme(value: str) -> str:
    if not value.startswith(("http://", "https://")):
        raise ValueError("must start with http:// or https://, e.g. http://127.0.0.1:11434/v1")
    return value


def _host_alone(value: str) -> str:
    if not re.fullmatch(r"(https?://)?[^\s/@?#]+", value):
        raise ValueError(
            "must be a host name or address, e.g. 127.0.0.1, with https:// before it where it speaks TLS; the port is"
            " chroma_port"
        )
    return value


def _with_words(value: str) -> str:
    from memory_agent.text.terms import search_languages

    known = search_languages()
    if value not in known:
        raise ValueError(f"no stemmer and no words for {value!r}; one of: {', '.join(known)}")
    return value


def _zone_known(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, ValueError, OSError) as exc:
        raise ValueError(
            f"no time zone {value!r} is known here; give an IANA name such as Europe/Lisbon (the system has them,"
            " or `pip install tzdata` brings them)"
        ) from exc
    return value


MongoUri = Annotated[SecretStr, AfterValidator(_mongo_scheme)]
HttpAddress = Annotated[str, AfterValidator(_http_scheme)]
HostName = Annotated[str, AfterValidator(_host_alone)]
SearchLanguage = Annotated[str, AfterValidator(_with_words)]


ENV_PREFIX = "MEMORY_AGENT_"
CONFIG_FILE_VARIABLE = f"{ENV_PREFIX}CONFIG_FILE"
DEFAULT_CONFIG_FILE = Path("config/memory.toml")

SECRETS = frozenset({"mongo_uri", "openai_api_key", "chroma_auth_token", "service_api_key"})
"""Settings whose value is never shown, not in errors either."""

_NUMBERS = (int, float, int | None, float | None)
_PATHS = (Path, Path | None)


class MemoryConfig(ServerSettings, BaseSettings):
    """All settings of a service. Raises ConfigError naming the setting if one is unknown or impossible.

    They can be assigned until a service runs on them; `changed` makes a copy that has others.

    >>> cfg = MemoryConfig(top_k_memories=8)
    >>> cfg.min_similarity = 0.6
    >>> cfg.top_k_memories, cfg.min_similarity
    (8, 0.6)
    """

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        extra="forbid",
        frozen=False,
        validate_default=True,
        env_ignore_empty=True,
        allow_inf_nan=False,
        hide_input_in_errors=True,
    )

    # Document store
    mongo_uri: MongoUri | None = None
    db_name: Annotated[
        str,
        Field(pattern=r"^[A-Za-z0-9_-]{1,38}$", description="1 to 38 ASCII letters, digits, '_' or '-'"),
    ] = "memory_agent"
    data_dir: Path = Path("./data")
    store_timeout_seconds: Seconds = 10.0

    # Vector index
    chroma_host: HostName | None = None
    chroma_port: Annotated[int, Field(ge=1, le=65_535)] = 8000
    chroma_auth_token: SecretStr | None = None
    chroma_db_dir: Path | None = None
    chroma_documents: bool = False
    memory_collection_prefix: Name = "memory"

    # Embeddings
    use_local_embeddings: bool = True
    local_embedding_model: Annotated[str, Field(min_length=1)] = "all-MiniLM-L6-v2"
    embedding_backend: Literal["auto", "onnx", "torch"] = "auto"
    embedding_precision: Literal["fp32", "int8"] = "fp32"
    embedding_threads: Annotated[
        int | None, Field(ge=1, le=256, description="a whole number from 1 to 256; without it, by the cores")
    ] = None
    model_cache_dir: Path | None = None
    openai_embedding_model: Annotated[str, Field(min_length=1)] = "text-embedding-3-small"

    # Language model
    openai_api_key: SecretStr | None = None
    openai_base_url: HttpAddress | None = None
    chat_model: Annotated[str, Field(min_length=1)] | None = None
    llm_timeout_seconds: Seconds = 300.0
    llm_concurrency: Annotated[int, Field(ge=1, le=256)] = 4
    llm_request_tokens: Annotated[int, Field(ge=1_000, le=2_000_000)] = 3_000

    # Facts
    enable_fact_extraction: bool = True
    fact_extraction_model: Annotated[str, Field(min_length=1)] = "gpt-4o-mini"
    facts_never: Annotated[
        tuple[Name, ...],
        NoDecode,
        BeforeValidator(listed),
        Field(description="names of categories, such as ['health', 'politics']"),
    ] = ()

    # Privacy
    redactor: Annotated[
        str | None,
        Field(
            pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$",
            description="where a function is, as 'package.module:function'",
        ),
    ] = None
    redact_before_storing: bool = False

    # Topics
    enable_topics: bool = True
    similarity_threshold: Annotated[float, Field(ge=-1, le=2)] = 0.35
    max_topics: Annotated[int, Field(ge=1, le=1_000_000)] = 20
    decay_policy: Literal["archive", "delete"] = "archive"
    retention_days: Annotated[
        float | None,
        Field(
            gt=0,
            le=MAX_RETENTION_DAYS,
            description="a number of days above 0; without it, nothing is forgotten by age",
        ),
    ] = None
    forget_facts: bool = False
    base_half_life_seconds: LongSeconds = 86_400.0
    max_half_life_seconds: LongSeconds = 2_592_000.0
    access_threshold_for_lt: Annotated[int, Field(ge=1, le=1_000_000)] = 5
    max_messages_per_topic: Annotated[int, Field(ge=1, le=100_000)] = 12
    recent_message_keep: Annotated[int, Field(ge=1, le=100_000)] = 4
    summary_model: Annotated[str, Field(min_length=1)] = "gpt-4o-mini"

    # Short-term memory and the prompt
    short_term_window: Annotated[int, Field(ge=0, le=1_000)] = 10
    max_context_tokens: Annotated[int, Field(ge=1, le=2_000_000)] = 4_000
    context_preset: Preset = "balanced"
    recall_price: RecallPrice = "balanced"
    memory_scope: Reach = "user"
    timezone: Annotated[str, AfterValidator(_zone_known)] | None = None

    # Sessions
    session_idle_seconds: LongSeconds = 14_400.0

    # Compression of conversations
    enable_compression: bool = True
    context_limit_tokens: Annotated[int, Field(ge=100, le=2_000_000)] = 8_000
    recent_messages_count: Annotated[int, Field(ge=1, le=1_000)] = 10
    summarization_threshold: Annotated[int, Field(ge=1, le=1_000_000)] = 20

    # Entities
    entities_file: Path | None = None

    # Search
    top_k_memories: Annotated[int, Field(ge=1, le=1_000)] = 5
    min_similarity: Annotated[
        float | None,
        Field(ge=-1, le=1, description="a number, at least -1 and at most 1; without it, no cut"),
    ] = None
    search_language: SearchLanguage = "english"
    resident_max_turns: Annotated[int, Field(ge=0)] = 50_000
    resident_memory_mb: Annotated[int, Field(ge=0)] = 512
    search_weights: Annotated[
        dict[str, Annotated[float, Field(ge=-100, le=100)]],
        AfterValidator(of_signals),
        Field(
            description='a number from -100 to 100 for each signal, such as {"dates": 0} (JSON in the environment)'
        ),
    ] = {}

    # Worker
    run_worker: bool = True
    lease_seconds: Annotated[float, Field(ge=1, le=3_600)] = 60.0
    max_attempts: Annotated[int, Field(ge=1, le=100)] = 5

    _given: frozenset[str] = PrivateAttr(frozenset())
    """Names of the settings that were arguments."""
    _in_use: bool = PrivateAttr(False)

    def __init__(self, **values: Any) -> None:
        for name in values:
            _refuse_unknown(name)
        _read(super().__init__, values)
        self._given = frozenset(values)

    def changed(self, **values: Any) -> Self:
        """A copy with these settings changed, the others as they are here, checked as a whole.

        Raises ConfigError.

        >>> MemoryConfig(short_term_window=4).changed(top_k_memories=8).short_term_window
        4
        """
        for name in values:
            _refuse_unknown(name)
        kept = {name: getattr(self, name) for name in self.model_fields_set}
        copy = type(self).__new__(type(self))
        # Not by our own `__init__`: the environment and the file may say something else by now.
        _read(functools.partial(BaseModel.__init__, copy), {**kept, **values})
        copy._given = self._given | values.keys()
        return copy

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """The settings as they may be logged: an address may hold a password."""
        for name, value in super().__repr_args__():
            yield name, _without_password(value) if isinstance(value, str) else value

    def use(self) -> None:
        """Refuse assignments from now on: a service runs on these settings, and would not see them change."""
        self._in_use = True

    if not TYPE_CHECKING:  # or else a type checker would let every name pass

        def __setattr__(self, name, value):
            """Check a value as at the start. Raises ConfigError, also where a service runs on these settings."""
            if name.startswith("_"):
                super().__setattr__(name, value)
                return
            _refuse_unknown(name)
            if self._in_use:
                raise ConfigError(
                    f"{name} can't be assigned any more, a service runs on these settings; start one with a changed"
                    f" copy: cfg = cfg.changed({name}=…)"
                )
            copy = self.changed(**{name: value})
            self.__dict__.update(copy.__dict__)
            self.__pydantic_fields_set__.add(name)
            self._given = copy._given

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then the environment, then the file; unknown names are refused in each."""
        for name in os.environ:
            if name.upper().startswith(ENV_PREFIX) and name.upper() != CONFIG_FILE_VARIABLE:
                _refuse_unknown(
                    name[len(ENV_PREFIX) :].lower(),
                    where="the environment variable ",
                    known=[CONFIG_FILE_VARIABLE.removeprefix(ENV_PREFIX).lower()],
                    prefix=ENV_PREFIX,
                )
        file = _config_file()
        if file is None:
            return init_settings, env_settings
        try:
            toml = TomlConfigSettingsSource(settings_cls, toml_file=file)
        except (OSError, ValueError) as exc:
            raise ConfigError(f"the settings file {file} cannot be read: {exc}") from exc
        for name in toml.toml_data:
            _refuse_unknown(name, where=f"{file}: ")
        return init_settings, env_settings, toml

    @field_validator("*", mode="before")
    @classmethod
    def _not_blank_nor_a_boolean(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, str) and not value.strip():
            raise ValueError("is empty; give it a value or leave it out")
        field = cls.model_fields[info.field_name or ""]
        if isinstance(value, bool) and field.annotation in _NUMBERS:
            raise ValueError(f"must be {valid_values(field)}, not a boolean")
        if isinstance(value, str | Path) and field.annotation in _PATHS:
            return at_home(value)
        return value

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        for least, most in (
            ("recent_message_keep", "max_messages_per_topic"),
            ("base_half_life_seconds", "max_half_life_seconds"),
        ):
            if getattr(self, least) > getattr(self, most):
                raise ValueError(
                    f"{least} is {getattr(self, least):g}, more than {most} ({getattr(self, most):g});"
                    f" lower {least} or raise {most}"
                )
        if self.embedding_backend == "torch" and self.embedding_precision == "int8":
            raise ValueError(
                "embedding_precision=int8 needs ONNX; set embedding_backend=auto or onnx, or embedding_precision=fp32"
            )
        if self.chroma_host is not None and self.chroma_db_dir is not None:
            raise ValueError(
                f"chroma_host ({self.chroma_host}) and chroma_db_dir ({self.chroma_db_dir}) are both set; leave one out:"
                " a Chroma server, or a folder with one of this process's own"
            )
        if not self.use_local_embeddings and self.openai_api_key is None and self.openai_base_url is None:
            raise ValueError(
                "use_local_embeddings is false but neither openai_api_key nor openai_base_url is set; "
                "set one of them, or use_local_embeddings=true"
            )
        return self

    @property
    def llm_configured(self) -> bool:
        """True if there is a language model to ask; without one, facts come from patterns."""
        return self.openai_api_key is not None or self.openai_base_url is not None

    @property
    def most_recollections(self) -> int | None:
        """Of a prompt: `top_k_memories` where that was set; by default their price alone bounds them."""
        return self.top_k_memories if "top_k_memories" in self.model_fields_set else None

    @property
    def most_resident_turns(self) -> int:
        """`resident_max_turns`, but none where there is no memory for any."""
        return self.resident_max_turns if self.resident_memory_mb else 0

    @property
    def zone(self) -> ZoneInfo | None:
        """The time zone of who sends UTC, or times without a zone."""
        return None if self.timezone is None else ZoneInfo(self.timezone)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The stages owed to a stored turn (facts to users' turns only), in the order in which they run."""
        wanted: dict[Stage, bool] = {
            "index": True,
            "topics": self.enable_topics,
            "facts": self.enable_fact_extraction,
            "compact": self.enable_topics,
            "compress": self.enable_compression,
        }
        return tuple(stage for stage, is_wanted in wanted.items() if is_wanted)

    @property
    def has_chroma(self) -> bool:
        """True if a Chroma is to have every turn's embedding."""
        return self.chroma_host is not None or self.chroma_db_dir is not None

    @property
    def embedded(self) -> bool:
        """True if the memory is kept in `data_dir`, so that only one process may use it."""
        return self.mongo_uri is None


def _read(init: Callable[..., None], values: Mapping[str, Any]) -> None:
    """`init(**values)`, with ConfigError in place of pydantic's error."""
    problem = None
    try:
        init(**values)
    except ValidationError as exc:
        problem = impossible_values(exc, MemoryConfig.model_fields, secret=SECRETS)
    except SettingsError as exc:  # what should be JSON in the environment is none
        name = next(name for name in MemoryConfig.model_fields if f'"{name}"' in str(exc))
        problem = f"impossible setting: {name}: must be {valid_values(MemoryConfig.model_fields[name])}"
    if problem is not None:
        # Outside the handler: the ValidationError holds every value given, secrets too, and must not be chained.
        raise ConfigError(problem)


def _config_file() -> Path | None:
    named = os.environ.get(CONFIG_FILE_VARIABLE)
    if named:
        file = at_home(named)
        if not file.is_file():
            raise ConfigError(
                f"{CONFIG_FILE_VARIABLE} names {file}, which is not a file; correct or unset it"
            )
        return file
    return DEFAULT_CONFIG_FILE if DEFAULT_CONFIG_FILE.is_file() else None


def _without_password(value: str) -> str:
    """An address as it may be shown; any other text as it is."""
    if "://" not in value:
        return value
    value = re.sub(r"(?<=://)[^/\s]+@", "(secret)@", value)
    return re.sub(r"(?<=[?&])([^=&\s]+)=[^&\s]+", r"\1=(secret)", value)


def setting_rows(cfg: MemoryConfig, part: str = "") -> list[dict[str, Any]]:
    """The settings with `part` in their names: `setting`, `value` in plain types (no secret's), `from`, `may_be`.

    `from`: environment, file, argument (of a command or of the program), or default.
    """
    rows = []
    in_environment = {variable.upper() for variable, value in os.environ.items() if value}
    for name, field in type(cfg).model_fields.items():
        if part.lower() not in name:
            continue
        value = getattr(cfg, name)
        if isinstance(value, SecretStr):
            value = "(secret)"
        elif isinstance(value, tuple):
            value = list(value)
        elif not isinstance(value, str | int | float | dict | None):
            value = str(value)
        if isinstance(value, str):
            value = _without_password(value)
        origin = "environment" if f"{ENV_PREFIX}{name.upper()}" in in_environment else "file"
        origin = "argument" if name in cfg._given else origin
        origin = origin if name in cfg.model_fields_set else "default"
        rows.append({"setting": name, "value": value, "from": origin, "may_be": valid_values(field)})
    return rows


def _refuse_unknown(name: str, *, where: str = "", known: Iterable[str] = (), prefix: str = "") -> None:
    """Raise ConfigError, with what may have been meant, if `name` is no setting.

    `prefix`: of names as they are said.
    """
    if name not in MemoryConfig.model_fields:
        guesses = [
            f"{prefix}{guess.upper() if prefix else guess}"
            for guess in nearest(name, [*MemoryConfig.model_fields, *known])
        ]
        said = f"{prefix}{name.upper() if prefix else name}"
        raise ConfigError(unknown_name(said, guesses, where=where, instead=GONE.get(name)))
