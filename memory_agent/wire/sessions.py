"""Sessions, and the role that the assistant plays in one."""

from memory_agent import domain as values
from memory_agent.wire.base import Answer

Session = Answer[values.Session]
