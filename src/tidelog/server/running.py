"""Running a server: sockets, TLS, signals, log lines."""

from __future__ import annotations

import json
import logging
import socket
import sys
import time
import warnings
from datetime import UTC, datetime
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tidelog.errors import TidelogError
from tidelog.server.application import Application
from tidelog.server.settings import Settings
from tidelog.server.store import ServedStore

# Seconds that requests have to end after SIGTERM.
FAREWELL = 30

# The event loop, the writer and readers share the interpreter, and kernels give it away at every call: seconds after
# which a thread that wants it back gets it. Python's own 5 ms are longer than a small update takes.
SWITCH = 0.00002

log = logging.getLogger("tidelog.server")


class Connection(HttpToolsProtocol):
    """A connection that ends when the other end does not answer any more, even if nobody has said so."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        peer: socket.socket | None = transport.get_extra_info("socket")
        if peer is not None and peer.family in (socket.AF_INET, socket.AF_INET6):
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
                if hasattr(socket, name):
                    peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["tidelog.transport"] = self.transport  # type: ignore[typeddict-unknown-key]


class Server(uvicorn.Server):
    """Ends streams before it waits for requests to end."""

    def __init__(self, config: uvicorn.Config, application: Application) -> None:
        super().__init__(config)
        self._application = application

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for server in self.servers:
            for listening in server.sockets:
                host, port = listening.getsockname()[:2]
                scheme = "https" if self.config.is_ssl else "http"
                shown = f"[{host}]" if ":" in host else host
                _tell("listening", url=f"{scheme}://{shown}:{port}/")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._application.hub.close()
        await super().shutdown(sockets)
        self._captured_signals.clear()  # All is done that a signal asked for: it is not raised again.


class JsonLines(logging.Formatter):
    """Log lines as JSON objects."""

    def format(self, record: logging.LogRecord) -> str:
        content = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            content["error"] = self.formatException(record.exc_info)
        return json.dumps(content, ensure_ascii=False, default=str)


class PlainLines(logging.Formatter):
    """Log lines for people."""

    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{name}={value}" for name, value in getattr(record, "fields", {}).items())
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(record.created))
        text = f"{moment} {record.levelname.lower()}: {record.getMessage()}{' ' if fields else ''}{fields}"
        return f"{text}\n{self.formatException(record.exc_info)}" if record.exc_info else text


def _set_up_logs(as_json: bool) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else PlainLines())
    for name, level in (("tidelog.server", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    warnings.showwarning = lambda message, *_, **__: log.warning(str(message))


def serve(settings: Settings) -> int:
    """Serve a store until SIGTERM or SIGINT; the exit code."""
    settings.check()
    _set_up_logs(settings.json_logs)
    began = time.perf_counter()
    store = ServedStore(settings)
    try:
        if settings.program is not None and not store.is_new:
            _tell("the store is there already, and the program is left alone", program=settings.program)
        seconds = round(time.perf_counter() - began, 3)
        _tell("opened", store=settings.store, update=store.history.number, facts=len(store.kb), seconds=seconds)
        application = Application(settings, store)
        sys.setswitchinterval(SWITCH)
        server = Server(_config(settings, application), application)
        try:
            server.run()
        except SystemExit:
            raise TidelogError(
                f"cannot listen at {settings.listen}: is the address free, and of this machine?"
            ) from None
        _tell("closed", update=store.history.number)
        return 0
    finally:
        store.close()


def _tell(message: str, **fields: object) -> None:
    log.info(message, extra={"fields": fields})


def _config(settings: Settings, application: Application) -> uvicorn.Config:
    host, port = settings.address
    return uvicorn.Config(
        application.asgi,
        host,
        port,
        http=Connection,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=FAREWELL,
        timeout_keep_alive=75,
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.key,
    )
