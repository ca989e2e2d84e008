"""Log lines, for people or as JSON objects."""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from datetime import UTC, datetime

log = logging.getLogger("tidelog.server")


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


def set_up_logs(as_json: bool) -> None:
    """Write log lines to standard error, warnings among them."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if as_json else PlainLines())
    for name, level in (("tidelog.server", logging.INFO), ("uvicorn", logging.WARNING)):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)
    warnings.showwarning = lambda message, *_, **__: log.warning(str(message))


def tell(message: str, **fields: object) -> None:
    """Log what happens, with what there is to know about it."""
    log.info(message, extra={"fields": fields})
