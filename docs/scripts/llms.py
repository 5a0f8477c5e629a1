"""Hook of mkdocs: llms.txt beside the site, a list of its pages with what each is about."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_pages: list[tuple[str, str, str]] = []


def about(markdown: str) -> str:
    """The first sentence of the first paragraph of a page."""
    text = re.sub(r"```.*?```|^[#!|>].*?$", "", markdown, flags=re.DOTALL | re.MULTILINE)
    paragraph = next((part for part in text.split("\n\n") if part.strip()), "")
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(paragraph.split()))
    return re.split(r"(?<=[.]) ", words, maxsplit=1)[0]


def on_pre_build(config: Any) -> None:
    """Forget the pages of the build before."""
    _pages.clear()


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> None:
    """Note a page."""
    _pages.append((page.title, page.file.src_uri, about(markdown)))


def on_post_build(config: Any) -> None:
    """Write the list, in the order of the navigation; pages go by their sources, which are text."""
    order = re.findall(r"[\w/]+\.md", str(config["nav"]))
    _pages.sort(key=lambda page: order.index(page[1]) if page[1] in order else len(order))
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}", ""]
    lines += [f"- [{title}]({path}): {said}" for title, path, said in _pages]
    site, docs = Path(config["site_dir"]), Path(config["docs_dir"])
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for _, path, _ in _pages:
        target = site / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text((docs / path).read_text(encoding="utf-8"), encoding="utf-8")
