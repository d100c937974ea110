import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { jsonLines, mailkeep } from '../cli/child.ts';
import { letter } from './mirrored.ts';
import { ScriptedServer } from './scripted-server.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Label {
  readonly use: string;
  /** Numbers of the messages. The uid of each is its position, from 1. */
  readonly messages: number[];
}

/** A server that shows labels as folders, as Gmail does. The test changes the labels. */
async function startGmail(labels: ReadonlyMap<string, Label>) {
  /** Numbers of the messages whose source was sent. */
  const sent: number[] = [];
  const selected = new WeakMap<Socket, Label>();
  const uidsOf = ({ messages }: Label, set: string): number[] => {
    const ranges = set.split(',').map((part) => part.split(':').map(Number));
    return messages
      .map((_, i) => i + 1)
      .filter((uid) => ranges.some(([lo = 0, hi = lo]) => uid >= lo && uid <= hi));
  };
  const status = ({ messages }: Label): string =>
    `(MESSAGES ${messages.length} UIDNEXT ${messages.length + 1} UIDVALIDITY 7 UNSEEN 0 HIGHESTMODSEQ ${messages.length + 1})`;
  const server = await ScriptedServer.start({
    capabilities:
      'IMAP4rev1 NAMESPACE ESEARCH LIST-EXTENDED LIST-STATUS UNSELECT SPECIAL-USE CONDSTORE X-GM-EXT-1',
    answers: {
      LIST: (tag) =>
        [...labels]
          .map(
            ([name, label]) =>
              `* LIST (${label.use}) "/" "${name}"\r\n* STATUS "${name}" ${status(label)}\r\n`,
          )
          .join('') + `* LIST (\\HasChildren \\Noselect) "/" "[Gmail]"\r\n${tag} OK done\r\n`,
      EXAMINE: (tag, line, socket) => {
        const label = labels.get(/"([^"]*)"/.exec(line)?.[1] ?? '');
        if (label === undefined) return `${tag} NO [NONEXISTENT] Unknown Mailbox\r\n`;
        selected.set(socket, label);
        const next = label.messages.length + 1;
        return (
          `* ${label.messages.length} EXISTS\r\n* OK [UIDVALIDITY 7] x\r\n` +
          `* OK [UIDNEXT ${next}] x\r\n* OK [HIGHESTMODSEQ ${next}] x\r\n${tag} OK [READ-ONLY] done\r\n`
        );
      },
      'UID SEARCH': (tag, line, socket) => {
        const label = selected.get(socket);
        const set = / UID ([\d:,]+)/.exec(line.slice(line.indexOf('RETURN')))?.[1] ?? '';
        const uids = label === undefined ? [] : uidsOf(label, set);
        const all = uids.length === 0 ? '' : ` ALL ${uids.join(',')}`;
        return `* ESEARCH (TAG "${tag}") UID COUNT ${uids.length}${all}\r\n${tag} OK done\r\n`;
      },
      'UID FETCH': (tag, line, socket) => {
        const label = selected.get(socket) ?? { use: '', messages: [] };
        const uids = uidsOf(label, line.split(' ')[3]?.replace('*', '4294967295') ?? '');
        const answers = uids.map((uid) => {
          const n = label.messages[uid - 1] ?? 0;
          const source = letter(n);
          if (line.includes('BODY.PEEK')) {
            sent.push(n);
            return `* ${uid} FETCH (UID ${uid} BODY[]<0> {${source.length}}\r\n${source})\r\n`;
          }
          const from = '((NIL NIL "ada" "example.org"))';
          return (
            `* ${uid} FETCH (UID ${uid} MODSEQ (${uid + 1}) FLAGS (\\Recent \\seen kw) ` +
            `INTERNALDATE "01-Jan-2026 00:00:00 +0000" RFC822.SIZE ${source.length} ` +
            `X-GM-MSGID ${1_278_455_344_230_334_865n + BigInt(n)} ENVELOPE (NIL "letter ${n}" ` +
            `${from} ${from} ${from} NIL NIL NIL NIL "<${n}@example.org>"))\r\n`
          );
        });
        return `${answers.join('')}${tag} OK done\r\n`;
      },
    },
  });
  closing.push(() => server.stop());
  const folder = mkdtempSync(path.join(tmpdir(), 'imap-gmail-'));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  const imap = {
    ...{ host: '127.0.0.1', port: server.port, tls: 'none', user: 'ada@example.org' },
    password: { command: ['echo', 'secret'] },
  };
  const config = path.join(folder, 'mailkeep.json');
  const account = { name: 'main', imap, folders: { exclude: ['[Gmail]/Spam'] } };
  writeFileSync(config, JSON.stringify({ accounts: [account] }));
  const run = (...args: readonly string[]) => mailkeep([...args, '--config', config]);
  return { run, sent };
}

test('labels and All Mail are folders, and each message is downloaded once', async () => {
  const numbers = Array.from({ length: 150 }, (_, i) => i + 1);
  const labels = new Map<string, Label>([
    ['INBOX', { use: '', messages: numbers.filter((n) => n % 2 === 0) }],
    ['Work', { use: '', messages: numbers.filter((n) => n % 3 === 0) }],
    ['[Gmail]/All Mail', { use: '\\All', messages: [...numbers] }],
    ['[Gmail]/Spam', { use: '\\Junk', messages: [900] }],
  ]);
  const { run, sent } = await startGmail(labels);
  const sync = async (): Promise<void> => {
    const { code, stderr } = await run('sync');
    expect(code, stderr).toBe(0);
  };
  await sync();
  expect(sent.toSorted((a, b) => a - b)).toEqual(numbers);
  const list = async () =>
    jsonLines((await run('list', '--json')).stdout) as {
      folder: string;
      uid: number;
      id: string;
      subject: string;
      flags: string[];
    }[];
  const places = await list();
  expect(places.length).toBe(150 + 75 + 50);
  expect(new Set(places.map(({ id }) => id)).size).toBe(150);
  for (const { folder, uid, subject, flags } of places) {
    expect(subject).toBe(`letter ${labels.get(folder)?.messages[uid - 1]}`);
    expect(flags).toEqual(['\\Seen', 'kw']);
  }
  // A label is added to an old message, and a new message arrives with two labels.
  labels.get('Work')?.messages.push(1, 151);
  labels.get('INBOX')?.messages.push(151);
  labels.get('[Gmail]/All Mail')?.messages.push(151);
  await sync();
  expect(sent.slice(150)).toEqual([151]);
  expect((await list()).length).toBe(150 + 75 + 50 + 4);
});
