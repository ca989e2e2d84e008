"""The built files of the page: they belong to the sources, and fetch nothing from elsewhere."""

import re
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WEB = ROOT / "web"
BUILT = ROOT / "src/tidelog/server/page/static"

# As in web/vite/stamp.ts.
SOURCES = ("index.html", "package-lock.json", "public", "src", "vite", "vite.config.ts")


def stamp_of_sources() -> str:
    tops = [WEB / name for name in SOURCES]
    files = [path for top in tops for path in ([top] if top.is_file() else top.rglob("*")) if path.is_file()]
    result = sha256()
    for name in sorted(path.relative_to(WEB).as_posix() for path in files):
        for part in (name.encode(), (WEB / name).read_bytes()):
            result.update(f"{len(part)}\n".encode() + part)
    return result.hexdigest()


def test_built_files_belong_to_the_sources() -> None:
    assert (BUILT / "sources.sha256").read_text().strip() == stamp_of_sources(), "build the page anew: `make page`"


def test_page_needs_nothing_inline_and_nothing_from_elsewhere() -> None:
    index = (BUILT / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son\w+=", index)
    assert set(re.findall(r'(?:src|href)="([^"]*)"', index)) == {"/favicon.svg", *_assets("page-*")}


def _assets(pattern: str) -> set[str]:
    return {f"/assets/{path.name}" for path in (BUILT / "assets").glob(pattern)}


def _kind(path: Path) -> str:
    """A name that does not change with the content."""
    return path.name.split("-")[0] + path.suffix


@pytest.mark.parametrize("path", sorted((BUILT / "assets").iterdir()), ids=_kind)
def test_addresses_in_built_files_are_names_only(path: Path) -> None:
    """What looks like an address is the name of a namespace, or a place to read on in an error message."""
    addresses = set(re.findall(r"https?://[\w.-]+", path.read_text()))
    assert addresses <= {"http://www.w3.org", "https://github.com"}
    assert not re.search(r"\beval\(|new Function\b", path.read_text())


def test_built_files_are_small() -> None:
    """Together at most 600 kB, before compression; editor and drawings are loaded when they are needed."""
    sizes = {path.name: path.stat().st_size for path in BUILT.rglob("*") if path.is_file()}
    assert sum(sizes.values()) < 600_000
    assert sum(size for name, size in sizes.items() if name.startswith("page-")) < 130_000


def test_licences_are_told() -> None:
    notice = (BUILT / "NOTICE").read_text()
    for package in ("preact", "@preact/signals", "@codemirror/view", "d3-dag"):
        assert re.search(rf"^{re.escape(package)} [\d.]+ \(MIT\)$", notice, re.MULTILINE)
