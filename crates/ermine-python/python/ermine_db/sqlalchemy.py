"""The dialect `ermine://` of SQLAlchemy 2: its PostgreSQL dialect, over `ermine_db.dbapi`.

    create_engine("ermine:///shop")        # the directory shop
    create_engine("ermine:////data/shop")  # the directory /data/shop
    create_engine("ermine://")             # a database in memory

What follows a `?` are options of `ermine_db.open`, such as `?durability=async`.
"""

from __future__ import annotations

import threading
from types import ModuleType
from typing import Any, Optional

from sqlalchemy import types, util
from sqlalchemy.dialects.postgresql import base, json
from sqlalchemy.engine import URL
from sqlalchemy.engine.interfaces import ConnectArgsType, DBAPIConnection, IsolationLevel

from . import dbapi
from ._database import Database
from ._database import open as _open

_AUTOCOMMIT = "AUTOCOMMIT"


class _Decoded:
    """Values of JSON arrive as Python's."""

    def result_processor(self, dialect: Any, coltype: Any) -> None:
        return None


class _Json(_Decoded, json.JSON):
    pass


class _Jsonb(_Decoded, json.JSONB):
    pass


class ErmineDialect(base.PGDialect):
    """SQLAlchemy's PostgreSQL dialect, in process."""

    driver = "ermine"
    default_paramstyle = "pyformat"
    supports_statement_cache = True
    supports_native_decimal = True
    supports_sane_multi_rowcount = True
    colspecs = {**base.PGDialect.colspecs, types.JSON: _Json, json.JSON: _Json, json.JSONB: _Jsonb}

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)  # type: ignore[no-untyped-call]
        self._lock = threading.Lock()
        self._memory: Optional[Database] = None

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        return dbapi

    def create_connect_args(self, url: URL) -> ConnectArgsType:
        options: dict[str, Any] = dict(url.query)
        util.coerce_kw_type(options, "memory_limit", int)
        util.coerce_kw_type(options, "create", bool)
        if url.database:
            return [url.database], options
        with self._lock:
            # The connections of an engine share it.
            if self._memory is None:
                self._memory = _open(**options)
        return [self._memory], {}  # type: ignore[list-item]

    def get_isolation_level_values(self, dbapi_connection: DBAPIConnection) -> list[IsolationLevel]:
        return [_AUTOCOMMIT, "SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED"]  # type: ignore[list-item]

    def set_isolation_level(self, dbapi_connection: Any, level: IsolationLevel) -> None:
        dbapi_connection.autocommit = level == _AUTOCOMMIT
        if level != _AUTOCOMMIT:
            super().set_isolation_level(dbapi_connection, level)  # type: ignore[no-untyped-call]

    def detect_autocommit_setting(self, dbapi_conn: Any) -> bool:
        return bool(dbapi_conn.autocommit)

    def is_disconnect(self, e: BaseException, connection: Any, cursor: Any) -> bool:
        return getattr(e, "sqlstate", None) == "08003" or isinstance(e, dbapi.InterfaceError) and "closed" in str(e)
