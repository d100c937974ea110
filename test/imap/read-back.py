"""
Prints every folder of an IMAP account, with its messages, as JSON lines. The account comes as JSON on standard input.
\\Recent is left out: it belongs to a session, not to a message.
"""

import base64
import datetime
import hashlib
import imaplib
import json
import re
import ssl
import sys

MESSAGES_AT_ONCE = 200
LIST = re.compile(rb'\((?P<attributes>[^)]*)\) (?:"(?P<delimiter>\\?.)"|NIL) (?P<name>.*)', re.DOTALL)


def decoded(name):
    """Decodes modified UTF-7 (RFC 3501, section 5.1.3)."""

    def shifted(match):
        text = match[1]
        if not text:
            return '&'
        packed = text.replace(',', '/')
        return base64.b64decode(packed + '=' * (-len(packed) % 4), validate=True).decode('utf-16-be')

    return re.sub('&([^-]*)-', shifted, name.decode('ascii'))


def listed(answer):
    """Yields attributes, delimiter and raw name of each folder of a LIST or LSUB answer."""
    for item in answer:
        if item is None or item == b'':
            continue
        if isinstance(item, tuple):  # The name is a literal.
            fields = LIST.fullmatch(item[0][: item[0].rindex(b'{')])
            name = item[1]
        else:
            fields = LIST.fullmatch(item)
            name = fields['name']
            if name.startswith(b'"'):
                name = re.sub(rb'\\(.)', rb'\1', name[1:-1])
        delimiter = fields['delimiter']
        yield (
            fields['attributes'].decode().split(),
            None if delimiter is None else delimiter[-1:].decode(),
            name,
        )


def quoted(name):
    return b'"' + re.sub(rb'(["\\])', rb'\\\1', name) + b'"'


def checked(answer):
    status, data = answer
    if status != 'OK':
        raise SystemExit(f'{status} {data}')
    return data


def messages(client, count):
    """Yields the messages of the selected folder, a few at a time."""
    for first in range(1, count + 1, MESSAGES_AT_ONCE):
        last = min(count, first + MESSAGES_AT_ONCE - 1)
        items = '(UID FLAGS INTERNALDATE BODY.PEEK[])'
        data = checked(client.fetch(f'{first}:{last}', items))
        for at, item in enumerate(data):
            if not isinstance(item, tuple):
                continue
            head, source = item
            # What a server sends after the literal belongs to the same message.
            rest = data[at + 1] if at + 1 < len(data) and isinstance(data[at + 1], bytes) else b''
            facts = head + b' ' + rest
            flags = re.search(rb'FLAGS \(([^)]*)\)', facts)[1].decode().split()
            date = re.search(rb'INTERNALDATE "([^"]*)"', facts)[1].decode()
            received = datetime.datetime.strptime(date.strip(), '%d-%b-%Y %H:%M:%S %z')
            yield {
                'uid': int(re.search(rb'\bUID (\d+)', facts)[1]),
                'sha256': hashlib.sha256(source).hexdigest(),
                'size': len(source),
                'date': received.astimezone(datetime.timezone.utc).strftime('%Y-%m-%dT%H:%M:%SZ'),
                'flags': sorted(flag for flag in flags if flag != '\\Recent'),
            }


def main():
    account = json.load(sys.stdin)
    if account.get('certificate'):
        context = ssl.create_default_context(cafile=account['certificate'])
        client = imaplib.IMAP4_SSL(account['host'], account['port'], ssl_context=context)
    else:
        client = imaplib.IMAP4(account['host'], account['port'])
    client.authenticate('PLAIN', lambda _: f"\0{account['user']}\0{account['password']}".encode())
    subscribed = {name for _, _, name in listed(checked(client.lsub('""', '*')))}
    folders = sorted(listed(checked(client.list('""', '*'))), key=lambda folder: folder[2])
    # LIST alone need not show special use (RFC 6154).
    if 'SPECIAL-USE' in client.capabilities:
        typ, _ = client._simple_command('LIST', '""', '"*"', 'RETURN', '(SPECIAL-USE)')
        special = {name: found for found, _, name in listed(client._untagged_response(typ, [None], 'LIST')[1])}
        folders = [
            (sorted({*attributes, *special.get(name, [])}), delimiter, name)
            for attributes, delimiter, name in folders
        ]
    for attributes, delimiter, name in folders:
        folder = {
            'folder': decoded(name),
            'raw': name.decode('ascii'),
            'delimiter': delimiter,
            'attributes': attributes,
            'subscribed': name in subscribed,
        }
        if '\\Noselect' in attributes or '\\NonExistent' in attributes:
            print(json.dumps({**folder, 'messages': []}))
            continue
        status, data = client.select(quoted(name), readonly=True)
        # Dovecot lists a deleted maildir folder that had folders below it.
        if status == 'NO' and data[0].startswith(b"Mailbox doesn't exist"):
            print(json.dumps({**folder, 'messages': []}))
            continue
        count = int(checked((status, data))[0])
        folder['uidvalidity'] = int(client.response('UIDVALIDITY')[1][0])
        print(json.dumps({**folder, 'messages': list(messages(client, count))}))
    client.logout()


main()
