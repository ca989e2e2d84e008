"""Running a server: sockets, TLS, signals."""

from __future__ import annotations

import gc
import logging
import socket
import ssl
import sys
import time

import uvicorn

from tidelog.errors import TidelogError
from tidelog.server.commits.store import ServedStore
from tidelog.server.running.application import Application
from tidelog.server.running.connections import connections_with
from tidelog.server.running.logs import set_up_logs, tell
from tidelog.server.settings import Settings

# Seconds that requests have to end after SIGTERM.
FAREWELL = 30

# The event loop, the writer and readers share the interpreter, and kernels give it away at every call: seconds after
# which a thread that wants it back gets it. Python's own 5 ms are longer than a small update takes.
SWITCH = 0.00002

log = logging.getLogger("tidelog.server")


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
                scheme = "https" if self.config.ssl else "http"
                shown = f"[{host}]" if ":" in host else host
                tell("listening", url=f"{scheme}://{shown}:{port}/")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._application.hub.close()
        await super().shutdown(sockets)
        self._captured_signals.clear()  # All is done that a signal asked for: it is not raised again.


def serve(settings: Settings) -> int:
    """Serve a store until SIGTERM or SIGINT; the exit code."""
    settings.check()
    tls = _tls(settings)  # before a store is made
    set_up_logs(settings.json_logs)
    began = time.perf_counter()
    store = ServedStore(settings)
    try:
        if settings.program is not None and not store.is_new:
            tell("the store is there already, and the program is left alone", program=settings.program)
        seconds = round(time.perf_counter() - began, 3)
        tell("opened", store=settings.store, update=store.history.number, facts=len(store.kb), seconds=seconds)
        application = Application(settings, store)
        sys.setswitchinterval(SWITCH)
        _spare_what_stays()
        server = Server(_config(settings, application, tls), application)
        try:
            server.run()
        except SystemExit:
            raise TidelogError(
                f"cannot listen at {settings.listen}: is the address free, and of this machine?"
            ) from None
        tell("closed", update=store.history.number)
        return 0
    finally:
        store.close()


def _spare_what_stays() -> None:
    """Let the garbage collector look at what is made from now on alone: for all that a knowledge base consists of, it
    would stop everybody for 40 ms or more, again and again.
    """
    gc.collect()
    gc.freeze()


def _tls(settings: Settings) -> ssl.SSLContext | None:
    """What speaks TLS with the certificate of the settings, if there is one."""
    certificate, key = settings.certificate, settings.key
    if certificate is None or key is None:
        return None
    for path in (certificate, key):  # `ssl` does not say which of them it cannot read.
        try:
            path.open("rb").close()
        except OSError as problem:
            raise TidelogError(f"cannot read {path}: {problem.strerror or problem}") from None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as problem:
        raise TidelogError(
            f"{certificate} and {key} are no certificate and its key, both in PEM: {problem.reason or problem}"
        ) from None
    return context


def _config(settings: Settings, application: Application, tls: ssl.SSLContext | None) -> uvicorn.Config:
    host, port = settings.address
    config = uvicorn.Config(
        application.asgi,
        host,
        port,
        http=connections_with(settings.limits.stall),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=FAREWELL,
        timeout_keep_alive=75,
    )
    config.load()
    config.ssl = tls
    return config
