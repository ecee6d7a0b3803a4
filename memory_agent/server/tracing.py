"""Traces by OpenTelemetry: one span per request, none of what it is about. Nothing happens unless an SDK is set up."""

from __future__ import annotations

import contextlib
import logging
import os
from importlib import import_module
from typing import TYPE_CHECKING, Final

from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.routing import Match

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opentelemetry.sdk.trace.export import SpanExporter
    from starlette.types import Scope

log = logging.getLogger(__name__)

UNMATCHED: Final = "unmatched"
"""The route of a request that no route takes."""
METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_CARRIED: Final = (b"traceparent", b"tracestate")


def method_of(scope: Scope) -> str:
    """The request's method; OTHER for what no client of ours sends."""
    method: str = scope["method"]
    return method if method in METHODS else "OTHER"


def route_of(scope: Scope) -> str:
    """The template of the request's route, such as /api/sessions/{session_id}, also if it failed before."""
    route = scope.get("route")
    if route is None and "app" in scope:
        routes = scope["app"].router.routes
        route = next((each for each in routes if each.matches(scope)[0] is Match.FULL), None)
    return getattr(route, "path_format", None) or getattr(route, "path", None) or UNMATCHED


@contextlib.contextmanager
def server_span(scope: Scope, status: Callable[[], int | None]) -> Iterator[None]:
    """A span around the answer to an HTTP request, by OpenTelemetry's conventions, continuing the caller's trace.

    Attributes are the method, the route's template, the scheme, the status and the class of an error; no path, no query,
    no exception's text.
    """
    carrier = {
        name.decode("ascii"): value.decode("latin-1") for name, value in scope["headers"] if name in _CARRIED
    }
    provider = trace.get_tracer_provider()
    if not carrier and isinstance(provider, trace.ProxyTracerProvider):
        yield  # there is no trace to go on with, and nobody to tell of one
        return
    method = method_of(scope)
    with trace.get_tracer("memory_agent.server", tracer_provider=provider).start_as_current_span(
        method,
        TraceContextTextMapPropagator().extract(carrier),
        kind=SpanKind.SERVER,
        attributes={
            "http.request.method": "_OTHER" if method == "OTHER" else method,
            "url.scheme": scope.get("scheme", "http"),
        },
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        error = None
        try:
            yield
        except BaseException as exc:
            error = type(exc).__qualname__
            raise
        finally:
            if (code := status()) is not None:
                span.set_attribute("http.response.status_code", code)
                error = error or (str(code) if code >= 500 else None)
            if error is not None:
                span.set_attribute("error.type", error)
                span.set_status(StatusCode.ERROR)
            if (route := route_of(scope)) != UNMATCHED:
                span.set_attribute("http.route", route)
                span.update_name(f"{method} {route}")


def configure_tracing() -> bool:
    """Export spans to where OpenTelemetry's own variables say; True if this set it up.

    Only where OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set, OTEL_SDK_DISABLED is not true,
    OTEL_TRACES_EXPORTER is not none, no provider is set yet, and the SDK and its exporter are installed. Spans are sent
    by a thread of the SDK's, and the last ones when the process ends.
    """
    endpoint = _variable("EXPORTER_OTLP_TRACES_ENDPOINT") or _variable("EXPORTER_OTLP_ENDPOINT")
    is_off = _variable("SDK_DISABLED") == "true" or _variable("TRACES_EXPORTER") == "none"
    if not endpoint or is_off or not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return False
    try:
        from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        exporter = _exporter()
    except ImportError as exc:
        log.warning(
            "OTEL_EXPORTER_OTLP_ENDPOINT is set, but %s is not installed; there are no traces", exc.name
        )
        return False
    named = Resource.create({SERVICE_NAME: "memory-agent"}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=named)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return True


def _variable(name: str) -> str:
    return os.environ.get(f"OTEL_{name}", "").strip().lower()


def _exporter() -> SpanExporter:
    protocol = _variable("EXPORTER_OTLP_TRACES_PROTOCOL") or _variable("EXPORTER_OTLP_PROTOCOL")
    # One distribution for each, of which the one for HTTP may not be here.
    kind = "http" if protocol.startswith("http") else "grpc"
    exporter: SpanExporter = import_module(
        f"opentelemetry.exporter.otlp.proto.{kind}.trace_exporter"
    ).OTLPSpanExporter()
    return exporter
