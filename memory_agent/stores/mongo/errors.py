"""Errors of the MongoDB driver, translated into ours in one place.

Temporary are lost connections, elections, timeouts, a server that is shutting down, overloaded, out of disk or
refusing our credentials, and lost races that the server asks to repeat. Everything else is a StoreError.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pymongo
from bson.errors import BSONError
from pymongo.errors import (
    BulkWriteError,
    ConnectionFailure,
    CursorNotFound,
    DuplicateKeyError,
    ExecutionTimeout,
    PyMongoError,
    WaitQueueTimeoutError,
    WriteConcernError,
)

from memory_agent.errors import StoreError, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_UNAVAILABLE: Final = (
    ConnectionFailure,
    CursorNotFound,
    ExecutionTimeout,
    WaitQueueTimeoutError,
    WriteConcernError,
)
# https://github.com/mongodb/mongo/blob/v6.0/src/mongo/base/error_codes.yml
_UNAVAILABLE_CODES: Final = frozenset(
    {
        6,  # HostUnreachable
        7,  # HostNotFound
        13,  # Unauthorized
        18,  # AuthenticationFailed
        24,  # LockTimeout
        43,  # CursorNotFound
        46,  # LockBusy
        50,  # MaxTimeMSExpired
        64,  # WriteConcernFailed
        70,  # ShardNotFound
        89,  # NetworkTimeout
        91,  # ShutdownInProgress
        100,  # UnsatisfiableWriteConcern
        112,  # WriteConflict
        133,  # FailedToSatisfyReadPreference
        134,  # ReadConcernMajorityNotAvailableYet
        150,  # StaleEpoch
        175,  # QueryPlanKilled
        189,  # PrimarySteppedDown
        202,  # NetworkInterfaceExceededTimeLimit
        237,  # CursorKilled
        262,  # ExceededTimeLimit
        290,  # TransactionExceededLifetimeLimitSeconds
        317,  # ConnectionPoolExpired
        391,  # ReauthenticationRequired
        462,  # IngressRequestRateLimitExceeded
        9001,  # SocketException
        10058,  # LegacyNotPrimary
        10107,  # NotWritablePrimary
        11600,  # InterruptedAtShutdown
        11601,  # Interrupted
        11602,  # InterruptedDueToReplStateChange
        13388,  # StaleConfig
        13435,  # NotPrimaryNoSecondaryOk
        13436,  # NotPrimaryOrSecondary
        14031,  # OutOfDiskSpace
    }
)
_TEMPORARY_LABELS: Final = ("RetryableWriteError", "TransientTransactionError", "SystemOverloadedError")
_CREDENTIALS: Final = re.compile(r"//\S*@")
_SETTINGS: Final = re.compile(r" \(configured timeouts: [^)]*\)|, Timeout: [\d.]+s$")
"""What the driver says of how it was set up, which mends nothing."""
_MAX_MESSAGE_CHARS: Final = 500


@contextmanager
def driver_errors(timeout_seconds: float) -> Iterator[None]:
    """Bound what runs inside to `timeout_seconds` and raise only our errors from it.

    The deadline is the driver's own (client-side operations timeout), so that it holds for a client with
    other options too, and the server stops working on what nobody waits for.
    """
    try:
        with pymongo.timeout(timeout_seconds):
            yield
    except (PyMongoError, BSONError, OverflowError) as exc:
        raise translated(exc) from exc


def translated(exc: Exception) -> StoreUnavailable | StoreError:
    """Our error for one of the driver's, with its message cleared of credentials and of what was to be stored."""
    said = str(exc)
    if isinstance(exc, BulkWriteError) and (report := first_write_error(exc)):
        said = f"{report.get('errmsg')} (code {report.get('code')})"
    # A selection of a server that failed ends with the driver's whole view of the deployment, which says it all again;
    # a write that was refused ends with the whole document, texts and all.
    said = said.partition(", Topology Description: ")[0].partition(", full error: ")[0]
    words = _SETTINGS.sub("", _CREDENTIALS.sub("//***@", said))
    words = words[:_MAX_MESSAGE_CHARS]
    if _temporary(exc):
        return StoreUnavailable(f"MongoDB is unavailable for now ({type(exc).__name__}): {words}")
    return StoreError(f"MongoDB refused an operation ({type(exc).__name__}): {words}")


def _temporary(exc: Exception) -> bool:
    if not isinstance(exc, PyMongoError):
        return False
    if isinstance(exc, _UNAVAILABLE) or exc.timeout:
        return True
    if any(exc.has_error_label(label) for label in _TEMPORARY_LABELS):
        return True
    return not _codes(exc).isdisjoint(_UNAVAILABLE_CODES)


def _codes(exc: PyMongoError) -> set[int]:
    details = getattr(exc, "details", None) or {}
    reports = [*details.get("writeErrors", ()), *details.get("writeConcernErrors", ())]
    codes = {report.get("code") for report in reports} | {getattr(exc, "code", None)}
    return {code for code in codes if isinstance(code, int)}


def violated_keys(exc: BulkWriteError | DuplicateKeyError) -> tuple[str, ...]:
    """The fields of the unique index that a write violated; empty if it failed for another reason."""
    report = first_write_error(exc) if isinstance(exc, BulkWriteError) else exc.details
    return tuple((report or {}).get("keyPattern", {}))


def first_write_error(exc: BulkWriteError) -> Mapping[str, Any] | None:
    """The error that stopped an ordered bulk write, with its position as `index`; None if every write was made."""
    reports: list[Mapping[str, Any]] = (exc.details or {}).get("writeErrors", [])
    return reports[0] if reports else None
