"""Fixtures of tests that ask a service over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.integration.conversations import STORES, settings_on
from tests.integration.rest import Rest, rest_on

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path


@pytest.fixture(params=STORES)
def rest_settings(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    """A fresh database on each store, with topics and facts."""
    wanted = {"enable_topics": True, "enable_fact_extraction": True}
    return {**settings_on(request.param, request, tmp_path), **wanted}


@pytest.fixture
async def rest(request: pytest.FixtureRequest, rest_settings: dict[str, Any]) -> AsyncIterator[Rest]:
    """A client of a served service; the test must be answered by the operations that it says it shows."""
    async with rest_on(rest_settings) as client:
        yield client
        missing = set(getattr(request.function, "shows", ())) - client.answered
        assert not missing, f"the test says that it shows {sorted(missing)}, and was not answered by them"
