"""
An IMAP client that another program controls: reads JSON lines on standard input, and answers each with a JSON line. A
line is a method of Python's imaplib and its arguments; {"bytes": TEXT} stands for Latin-1 text as bytes.
"""

import imaplib
import json
import sys

client = None
account = None


def given(argument):
    return argument['bytes'].encode('latin-1') if isinstance(argument, dict) else argument


def sign_in(host, port, user, password):
    global client, account
    if client is not None:
        client.shutdown()
    account = host, port, user, password
    client = imaplib.IMAP4(host, port)
    return client.authenticate('PLAIN', lambda _: f'\0{user}\0{password}'.encode())


for line in sys.stdin:
    method, *arguments = json.loads(line)
    try:
        call = sign_in if method == 'sign_in' else getattr(client, method)
        status, _ = call(*map(given, arguments))
    except (imaplib.IMAP4.abort, OSError):
        # Dovecot disconnects a client whose selected folder is gone.
        sign_in(*account)
        status = 'BYE'
    except imaplib.IMAP4.error:
        # The server answered BAD, or a folder had to be selected first and is gone.
        status = 'BAD'
    print(json.dumps(status), flush=True)
