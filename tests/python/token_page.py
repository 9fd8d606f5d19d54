"""A page of `shardmill view`, and the tokens on it."""

from html.parser import HTMLParser


class Shown(HTMLParser):
    """Tokens of a page, as texts with their classes and tooltips."""

    def __init__(self, page):
        super().__init__()
        self.tokens, self.tags, self._depth = [], set(), 0
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        attributes = dict(attributes)
        if tag == "p":
            self._depth = "tokens" in (attributes.get("class") or "").split()
        if tag == "span" and self._depth:
            self.tokens.append(["", (attributes.get("class") or "").split(), attributes["title"]])

    def handle_endtag(self, tag):
        if tag == "p":
            self._depth = 0

    def handle_data(self, data):
        if self._depth:
            self.tokens[-1][0] += data


def page(client, **arguments):
    """The page of a running server, which must be there."""
    query = "&".join(f"{name}={value}" for name, value in arguments.items())
    status, headers, body = client.request(f"/{client.server.token}/view?{query}")
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    return body.decode()


def parts(cell):
    """Text and kind of each token of a cell."""
    return [
        ["".join(text for _, text in token["parts"]), token["kind"]] for token in cell["tokens"]
    ]
