"""What browsers may do with what a server sends: headers of every answer.

Nothing inline is allowed, and nothing from elsewhere. The one style sheet that stands inside a document is that of
drawn graphs (`/graph`), which is named by its hash.
"""

from __future__ import annotations

import base64
import hashlib

from tidelog.program.drawing.frames import STYLE

_DRAWN = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

CONTENT_POLICY = (
    f"default-src 'none'; script-src 'self'; style-src 'self' 'sha256-{_DRAWN}'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY = [
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
]

# The same as they go over the wire.
SECURITY_LINES = b"".join(name + b": " + value + b"\r\n" for name, value in SECURITY)
