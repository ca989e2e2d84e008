"""Who may do what: tokens with roles, from a file that holds their hashes or themselves.

    # token                                   roles
    s3cr3t-of-the-dashboard                   read
    sha256:9f86d081884c7d659a2feaa0c55ad015…  read,write
    s3cr3t-of-a-guest                         read:may,read:role

A line is a token, or `sha256:` and its hash, and its roles: `read`, `write` (facts), `rules`, `admin`, which includes
all others, and `read:PREDICATE`, which lets somebody read facts of that predicate alone.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.errors import TidelogError

READ, WRITE, RULES, ADMIN = "read", "write", "rules", "admin"
ROLES = (READ, WRITE, RULES, ADMIN)

SHORTEST = 16


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody who asks. `predicates` are those whose facts he may read; None for all, if he may read."""

    roles: frozenset[str] = frozenset()
    predicates: frozenset[str] | None = None

    def may(self, role: str) -> bool:
        return role in self.roles

    def may_read_all(self) -> bool:
        """Whether nothing is hidden from him."""
        return READ in self.roles and self.predicates is None

    def readable(self, resolve: Callable[[str], str]) -> set[str] | None:
        """The predicates whose facts he may read, as `resolve` names them; None for all."""
        return None if self.predicates is None else set(map(resolve, self.predicates))


NOBODY = Caller()
EVERYBODY = Caller(frozenset(ROLES))


def caller_with(roles: str, place: str) -> Caller:
    """A caller with roles as a file spells them."""
    plain: set[str] = set()
    predicates: set[str] = set()
    for role in filter(None, (part.strip() for part in roles.split(","))):
        kind, colon, predicate = role.partition(":")
        if colon and kind == READ and predicate:
            predicates.add(predicate)
        elif role in ROLES:
            plain.add(role)
        else:
            raise TidelogError(f"{place}: {role!r} is no role; use {', '.join(ROLES)} or read:PREDICATE")
    if not plain and not predicates:
        raise TidelogError(f"{place}: a token without roles; write them behind it, such as read,write")
    if ADMIN in plain:
        plain |= set(ROLES)
    restricted = READ not in plain
    if predicates:
        plain.add(READ)
    return Caller(frozenset(plain), frozenset(predicates) if restricted else None)


@dataclass(frozen=True, slots=True)
class Tokens:
    """The callers by the hashes of their tokens. Without any, everybody may do everything."""

    callers: Mapping[bytes, Caller] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.callers)

    def caller(self, token: str | None) -> Caller:
        """Who has a token."""
        if not self.callers:
            return EVERYBODY
        if token is None or not token.isascii():
            return NOBODY
        digest = hashlib.sha256(token.encode()).digest()
        found = NOBODY
        for known, caller in self.callers.items():
            if hmac.compare_digest(known, digest):
                found = caller
        return found


def read_tokens(path: Path) -> Tokens:
    """The tokens of a file."""
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as problem:
        raise TidelogError(f"cannot read the tokens in {path}: {problem}") from None
    callers: dict[bytes, Caller] = {}
    for number, line in enumerate(lines, 1):
        place = f"{path}, line {number}"
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        token, *roles = line.split(maxsplit=1)
        digest = _digest(token, place)
        if digest in callers:
            raise TidelogError(f"{place}: the same token as in a line before; give its roles in one line")
        callers[digest] = caller_with("".join(roles), place)
    if not callers:
        raise TidelogError(f"{path} holds no token; write one a line, and its roles behind it")
    return Tokens(callers)


def _digest(token: str, place: str) -> bytes:
    if token.startswith("sha256:"):
        try:
            digest = bytes.fromhex(token.removeprefix("sha256:"))
        except ValueError:
            digest = b""
        if len(digest) != hashlib.sha256().digest_size:
            raise TidelogError(f"{place}: sha256: is followed by the 64 hexadecimal digits of a hash")
        return digest
    if not (token.isascii() and token.isprintable()):
        raise TidelogError(f"{place}: a token is of ASCII characters; others cannot be sent in a header")
    if len(token) < SHORTEST:
        raise TidelogError(f"{place}: a token of {len(token)} characters is easily guessed; use {SHORTEST} or more")
    return hashlib.sha256(token.encode()).digest()
