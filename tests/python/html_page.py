"""What the tests ask of an HTML page, by the parser of the standard library."""

from html.parser import HTMLParser
from pathlib import Path

_VOID = {"meta", "img", "br", "hr", "link", "rect"}


class Page(HTMLParser):
    """Collects the elements of a page; a closing tag without its opening one is an error."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self._open: list[str] = []
        self.source = path.read_text(encoding="utf-8")
        self.feed(self.source)
        self.close()
        assert not self._open, f"never closed: {self._open}"

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag):
        # A rect with a title inside is closed, one without closes itself.
        if tag == "rect":
            return
        assert self._open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data):
        if not self._open or self._open[-1] != "style":
            self.text += data

    def attributes(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def assert_self_contained(self) -> None:
        """Nothing in it would be loaded from elsewhere, or run."""
        assert not self.attributes("script")
        assert not self.attributes("link")
        for _, attributes in self.elements:
            assert not any(name.startswith("on") for name in attributes), attributes
            for name in ("src", "href", "xlink:href", "action"):
                value = attributes.get(name, "data:")
                assert value.startswith(("data:", "#")), value
        assert "url(" not in self.source
        assert "@import" not in self.source
