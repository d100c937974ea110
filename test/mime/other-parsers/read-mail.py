"""Answers with what Python's email package finds in messages.

Input: messages, each behind its length in four bytes. Output: a line of JSON for each, null where Python raises.
"""

import email
import email.policy
import hashlib
import html.parser
import json
import sys

HIDDEN = ("script", "style", "title", "head", "template", "noscript")
INLINE = set("a abbr acronym b bdi bdo big cite code del dfn em font i ins kbd mark q s samp small span strike strong sub sup tt u var wbr".split())


class Text(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.words = []
        self.hidden = 0

    def handle_starttag(self, tag, attrs):
        self.hidden += tag in HIDDEN
        self.words.append("" if tag in INLINE else " ")

    def handle_endtag(self, tag):
        # A page may begin without <head>, and end it.
        self.hidden = 0 if tag == "head" else max(0, self.hidden - (tag in HIDDEN))
        self.words.append("" if tag in INLINE else " ")

    def handle_data(self, data):
        if self.hidden == 0:
            self.words.append(data)


def text_of(part, kind, content):
    charset = str(part.get_content_charset() or "us-ascii")
    try:
        text = content.decode(charset)
    except (UnicodeError, LookupError):
        # Not text: letters decoded that were never encoded.
        if "base64" in str(part.get("Content-Transfer-Encoding", "")).lower():
            return ""
        text = content.decode("us-ascii", "replace")
    if kind != "text/html":
        return text
    parser = Text()
    parser.feed(text)
    parser.close()
    return "".join(parser.words)


def walk(part, found, inside):
    kind = part.get_content_type()
    payload = part.get_payload()
    if part.get_content_maintype() == "multipart" and isinstance(payload, list):
        for child in payload:
            walk(child, found, inside)
        return
    name = part.get_filename()
    attached = part.get_content_disposition() == "attachment"
    leaf = {"type": kind, "name": None if name is None else str(name), "attached": attached, "inside": inside}
    if isinstance(payload, list):
        found.append(leaf | {"size": None, "sha256": None, "text": ""})
        if kind in ("message/rfc822", "message/global", "message/news"):
            for child in payload:
                walk(child, found, True)
        return
    content = part.get_payload(decode=True) or b""
    text = text_of(part, kind, content) if kind in ("text/plain", "text/html") else ""
    found.append(leaf | {"size": len(content), "sha256": hashlib.sha256(content).hexdigest(), "text": text})


def answer(source):
    try:
        found = []
        walk(email.message_from_bytes(source, policy=email.policy.default), found, False)
        return found
    except Exception:
        return None


while True:
    head = sys.stdin.buffer.read(4)
    if len(head) < 4:
        break
    line = json.dumps(answer(sys.stdin.buffer.read(int.from_bytes(head, "big"))))
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
