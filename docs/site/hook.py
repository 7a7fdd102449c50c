"""What mkdocs.yml cannot say: the site has the rooms and pages that docs/README.md lists, headings have the anchors that GitHub gives
them, and links to what is not in the site, such as sources, become text."""

import pathlib
import posixpath
import re

LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")


def on_config(config):
    rooms = (pathlib.Path(config.docs_dir) / "README.md").read_text(encoding="utf-8").split("\n## ")[1:]
    config.nav = [{"all pages": "README.md"}]
    for room in rooms:
        pages = [{name: target} for name, target in LINK.findall(room) if target.endswith(".md")]
        if pages:
            config.nav.append({room.partition("\n")[0]: pages})
    config.mdx_configs.setdefault("toc", {})["slugify"] = anchor
    return config


def anchor(heading, _separator):
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def on_page_markdown(markdown, page, config, files):
    """A link to nothing stays, so that mkdocs complains."""
    def linked(match):
        text, target = match.groups()
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page.file.src_uri), target.partition("#")[0]))
        in_site = target.startswith("#") or files.get_file_from_path(path)
        return match[0] if in_site or not (pathlib.Path(config.docs_dir) / path).exists() else text

    return LINK.sub(linked, markdown)
