"""Who may do what: tokens with roles, TLS, and that nobody is let in by accident."""

from __future__ import annotations

import asyncio
import hashlib
import json
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from starlette.responses import Response

from server_util import ServerProcess, served
from tidelog.cli.command_line import main
from tidelog.errors import LimitError, TidelogError
from tidelog.server.requests.asking import Asked
from tidelog.server.requests.dispatch import ForCallers, answered
from tidelog.server.settings import Settings
from tidelog.server.tokens import Caller, Tokens, caller_with, read_tokens

NAMES = ("reader", "writer", "ruler", "admin", "guest")
READER, WRITER, RULER, ADMIN, GUEST = (f"{name}-0123456789abcdef" for name in NAMES)
TOKENS = f"""
# token                     roles
{READER} read
sha256:{hashlib.sha256(WRITER.encode()).hexdigest()} read,write
{RULER} rules
{ADMIN} admin
{GUEST} read:edge, read:node
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "tokens").write_text(TOKENS)
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", *names, *files]
    subprocess.run(made, check=True, capture_output=True)
    tls = ("--tls-certificate", str(folder / "cert.pem"), "--tls-key", str(folder / "key.pem"))
    with served(folder / "store", "--tokens", str(folder / "tokens"), *tls) as found:
        found.certificate = str(folder / "cert.pem")  # type: ignore[attr-defined]
        yield found


def client(server: ServerProcess, token: str | None) -> httpx.Client:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    context = ssl.create_default_context(cafile=server.certificate)  # type: ignore[attr-defined]
    return httpx.Client(base_url=server.url, headers=headers, verify=context, timeout=20)


@pytest.mark.parametrize(
    ("token", "query", "update", "rules", "save"),
    [
        (None, 401, 401, 401, 401),
        ("wrong-0123456789abcdef", 401, 401, 401, 401),
        (READER, 200, 403, 403, 403),
        (WRITER, 200, 200, 403, 403),
        (RULER, 403, 403, 200, 403),
        (ADMIN, 200, 200, 200, 200),
        (GUEST, 403, 403, 403, 403),
    ],
)
def test_roles(server: ServerProcess, token: str | None, query: int, update: int, rules: int, save: int) -> None:
    assert server.url.startswith("https://")
    with client(server, token) as http:
        assert http.post("/query", json={"query": "path(a, X)"}).status_code == query
        assert http.post("/update", json={"add": {"edge": [["a", "b"]]}}).status_code == update
        assert http.post("/update", json={"add_rules": "path(X, Y) :- edge(X, Y)."}).status_code == rules
        assert http.post("/save", json={}).status_code == save
        assert http.get("/health").status_code == 200


def test_some_predicates_alone(server: ServerProcess) -> None:
    with client(server, GUEST) as http:
        assert http.post("/query", json={"query": "edge(X, Y)"}).status_code == 200
        refused = http.post("/query", json={"query": "edge(X, Y), not lonely(X)"})
        assert refused.status_code == 403
        assert "lonely" in refused.json()["detail"]
        assert http.get("/facts/edge").status_code == 200
        assert http.get("/facts/path").status_code == 403
        assert [item["name"] for item in http.get("/predicates").json()["predicates"]] == ["edge", "node"]
        assert http.post("/explain", json={"fact": "edge(a, b)"}).status_code == 200
        assert http.post("/explain", json={"fact": "path(a, b)"}).status_code == 403
        assert http.get("/subscribe", params={"query": "path(a, X)"}).status_code == 403
        for hidden in ("/rules", "/graph", "/statistics", "/updates", "/metrics"):
            assert http.get(hidden).status_code == 403
        for path in ("/what-if", "/why-not", "/explain-change"):
            assert http.post(path, json={"fact": "path(a, b)"}).status_code == 403


def test_a_session_keeps_the_token_from_scripts(server: ServerProcess) -> None:
    with client(server, None) as http:
        assert http.get("/session").json()["roles"] == []
        for wrong in ("wrong", "wr\u2028ng", ""):
            assert http.post("/session", json={"token": wrong}).status_code == 401
        entered = http.post("/session", json={"token": WRITER})
        assert entered.status_code == 204
        cookie = entered.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert "secure" in cookie
        assert http.get("/session").json()["roles"] == ["read", "write"]
        update = {"add": {"edge": [["a", "b"]]}}
        assert http.post("/update", json=update).status_code == 200
        assert http.post("/update", json=update, headers={"Origin": "https://evil.example"}).status_code == 403
        assert http.delete("/session").status_code == 204
        assert http.get("/session").json()["roles"] == []


@pytest.mark.parametrize("host", ["0.0.0.0:0", "192.0.2.1:80", "[::]:0", "example.org:80"])
def test_off_loopback_somebody_has_to_say_so(tmp_path: Path, host: str) -> None:
    settings = Settings(tmp_path, listen=host)
    with pytest.raises(TidelogError, match="--insecure"):
        settings.check()
    Settings(tmp_path, listen=host, insecure=True).check()
    Settings(tmp_path, listen=host, tokens=Tokens({b"": caller_with("read", "here")})).check()
    assert not tmp_path.joinpath("CURRENT").exists()


def test_it_does_not_start_off_loopback(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(tmp_path / "store"), "--listen", "0.0.0.0:0"]) == 2
    assert "--insecure" in capsys.readouterr().err
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no token"),
        ("short read", "easily guessed"),
        ("schlüssel-0123456789abcdef read", "ASCII"),
        (f"{READER} reed", "no role"),
        (READER, "without roles"),
        ("sha256:12 read", "64 hexadecimal"),
        (f"{READER} read\n{READER} write", "the same token"),
    ],
)
def test_mistakes_in_a_file_of_tokens(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "tokens").write_text(text)
    with pytest.raises(TidelogError, match=said):
        read_tokens(tmp_path / "tokens")


def test_streams_need_a_token_too(server: ServerProcess) -> None:
    with client(server, None) as http:
        assert http.get("/subscribe", params={"query": "edge(a, X)"}).status_code == 401
        assert http.get("/updates").status_code == 401


@pytest.mark.parametrize(("predicates", "tells"), [(None, True), (frozenset({"edge"}), False)])
def test_a_limit_names_no_rule_to_those_who_may_not_read_it(predicates: frozenset[str] | None, tells: bool) -> None:
    async def answer(asked: Asked, caller: Caller) -> Response:
        raise LimitError("the update took more than 1 s; most of it: rich(X) :- secret(X, V)", "timeout")

    access = SimpleNamespace(caller=lambda asked: Caller(frozenset({"read"}), predicates))
    found = asyncio.run(answered(ForCallers(access)("read", answer)(None)))  # type: ignore[arg-type]
    problem = json.loads(bytes(found.body))
    assert (problem["status"], problem["limit"]) == (422, {"name": "timeout"})
    assert ("secret" in problem["detail"]) is tells
