# ruff: noqa: F403  # all their names are the package's
"""The domain's values: frozen, keyword-only, free of any driver.

Times are timezone-aware UTC with millisecond precision (what every store keeps); `seq` counts from 1 within a
thread; similarities are cosines in [-1, 1]; tokens are counted by the configured token counter.
"""

from memory_agent.domain.base import *
from memory_agent.domain.compression import *
from memory_agent.domain.context import *
from memory_agent.domain.entities import *
from memory_agent.domain.facts import *
from memory_agent.domain.keys import *
from memory_agent.domain.language import *
from memory_agent.domain.moments import *
from memory_agent.domain.search import *
from memory_agent.domain.threads import *
from memory_agent.domain.topics import *
from memory_agent.domain.turns import *
from memory_agent.domain.work import *
