"""The OpenAPI description is true: requests made from it, good ones and bad ones, are answered as it says."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import Case
from schemathesis.checks import CheckFunction
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from server_util import served
from soaking import soak_seconds, tell
from tidelog.server.requests.openapi import PATHS, description

EXAMPLES = 900 if soak_seconds() else 6  # for each operation: 10,000 requests in a soak
CHECKS: list[CheckFunction] = [status_code_conformance, content_type_conformance, response_schema_conformance]

schema = schemathesis.openapi.from_dict(description("1"))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with served(tmp_path_factory.mktemp("described") / "store", "--max-facts", "20000", "--timeout", "2") as server:
        yield server.url
        with httpx.Client(base_url=server.url, timeout=60) as http:
            assert http.get("/health").status_code == 200
            assert http.post("/query", json={"query": "path(a, c)"}).status_code == 200
            assert http.get("/statistics").json()["subscriptions"]["streams"] == 0
            counted = re.findall(r"^tidelog_http_requests_total{.*} (\d+)$", http.get("/metrics").text, re.MULTILINE)
            tell("requests from the description", sum(map(int, counted)))
        assert server.stop() == 0
        assert not [line for line in server.log if line["level"] == "error"]


def test_every_route_is_described(url: str) -> None:
    found = httpx.get(f"{url}openapi.json", timeout=60).json()
    assert found["paths"].keys() == PATHS.keys()


@schema.exclude(path_regex="^/(subscribe|updates)$").parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=not soak_seconds(),
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_requests_are_answered_as_described(case: Case, url: str) -> None:
    case.call_and_validate(base_url=url, checks=CHECKS, timeout=20)
