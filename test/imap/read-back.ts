import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import type { MailServer } from './server.ts';

/** A message as Python's imaplib reads it. */
export interface ReadMessage {
  readonly uid: number;
  readonly sha256: string;
  readonly size: number;
  /** INTERNALDATE, such as 2020-01-02T03:04:05Z. */
  readonly date: string;
  readonly flags: readonly string[];
}

export interface ReadFolder {
  /** Decoded, with the server's delimiter. */
  readonly folder: string;
  /** As the server sends it. */
  readonly raw: string;
  readonly delimiter: string | null;
  readonly attributes: readonly string[];
  readonly subscribed: boolean;
  /** Absent where the folder cannot be opened. */
  readonly uidvalidity?: number;
  readonly messages: readonly ReadMessage[];
}

/** Returns all folders of a user, by default the first, with all their messages, as Python's imaplib reads them. */
export async function readBack(server: MailServer, user = server.user): Promise<ReadFolder[]> {
  const script = fileURLToPath(new URL('read-back.py', import.meta.url));
  const python = spawn('python3', [script], { stdio: 'pipe' });
  const ended = once(python, 'close');
  const { host, tlsPort, port, password, certificate } = server;
  // With a certificate for another host there is no TLS to be had.
  const isTrusted = certificate.isForLoopback;
  const account = isTrusted
    ? { host, port: tlsPort, user, password, certificate: certificate.file }
    : { host, port, user, password };
  python.stdin.end(JSON.stringify(account));
  const [printed, complaints] = await Promise.all([text(python.stdout), text(python.stderr)]);
  const [code] = await ended;
  if (code !== 0) throw new Error(`read-back.py ended with ${code}: ${complaints}`);
  return printed
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as ReadFolder);
}

/** Returns the messages of all folders whose names begin like this, each with its folder. */
export async function mailBelow(server: MailServer, prefix = '') {
  return (await readBack(server))
    .filter(({ folder }) => folder.startsWith(prefix))
    .flatMap(({ folder, messages }) => messages.map((one) => ({ ...one, folder })));
}
