import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { pathOf, wireNameOf } from '../../src/imap/commands.ts';
import { seeded } from '../bench/seeded.ts';
import { jsonLines, mailkeep } from '../cli/child.ts';
import { letter } from './mirrored.ts';
import { type Script, ScriptedServer } from './scripted-server.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Folder {
  readonly epoch: number;
  /** Message n has the uid n, and in the folder with the epoch 7 the number 700 + n. */
  readonly messages: number;
}

interface Listed {
  readonly folder: string;
  readonly uid: number;
  /** Null if the message is incomplete. */
  readonly id: string | null;
}

/** A server with folders, by wire name, that closes the connection if `breaks` says so. */
async function startServer(
  folders: ReadonlyMap<string, Folder>,
  breaks: (wireName: string, uid: number, line: string) => boolean = () => false,
  answers: NonNullable<Script['answers']> = {},
) {
  const selected = new WeakMap<Socket, string>();
  const folderOf = (socket: Socket): Folder =>
    folders.get(selected.get(socket) ?? '') ?? { epoch: 1, messages: 0 };
  const uidsOf = ({ messages }: Folder, set: string): number[] => {
    const ranges = set
      .replace('*', '4294967295')
      .split(',')
      .map((part) => part.split(':').map(Number));
    return Array.from({ length: messages }, (_, i) => i + 1).filter((uid) =>
      ranges.some(([lo = 0, hi = lo]) => uid >= lo && uid <= hi),
    );
  };
  const server = await ScriptedServer.start({
    answers: {
      LIST: (tag) => {
        const lines = [...folders].map(
          ([name, { epoch, messages }]) =>
            `* LIST () "/" "${name}"\r\n* STATUS "${name}" (MESSAGES ${messages} ` +
            `UIDNEXT ${messages + 1} UIDVALIDITY ${epoch} UNSEEN 0)\r\n`,
        );
        return Buffer.from(`${lines.join('')}${tag} OK done\r\n`, 'latin1');
      },
      EXAMINE: (tag, line, socket) => {
        const name = /"([^"]*)"/.exec(line)?.[1] ?? '';
        const folder = folders.get(name);
        if (folder === undefined) return `${tag} NO [NONEXISTENT] Unknown Mailbox\r\n`;
        selected.set(socket, name);
        return (
          `* ${folder.messages} EXISTS\r\n* OK [UIDVALIDITY ${folder.epoch}] x\r\n` +
          `* OK [UIDNEXT ${folder.messages + 1}] x\r\n${tag} OK [READ-ONLY] done\r\n`
        );
      },
      'UID SEARCH': (tag, line, socket) => {
        const set = / UID ([\d:,*]+)/.exec(line.slice(line.indexOf('RETURN')))?.[1] ?? '1:*';
        const uids = uidsOf(folderOf(socket), set);
        const all = uids.length === 0 ? '' : ` ALL ${uids.join(',')}`;
        return `* ESEARCH (TAG "${tag}") UID COUNT ${uids.length}${all}\r\n${tag} OK done\r\n`;
      },
      'UID FETCH': (tag, line, socket) => {
        const { epoch } = folderOf(socket);
        for (const uid of uidsOf(folderOf(socket), line.split(' ')[3] ?? '')) {
          if (breaks(selected.get(socket) ?? '', uid, line)) {
            socket.destroy();
            return undefined;
          }
          const n = epoch * 100 + uid;
          const source = letter(n);
          socket.write(
            line.includes('BODY.PEEK')
              ? `* ${uid} FETCH (UID ${uid} BODY[]<0> {${source.length}}\r\n${source})\r\n`
              : `* ${uid} FETCH (UID ${uid} FLAGS (\\seen) INTERNALDATE "01-Jan-2026 00:00:00 +0000" ` +
                  `RFC822.SIZE ${source.length} ENVELOPE (NIL "letter ${n}" NIL NIL NIL NIL NIL NIL NIL ` +
                  `"<${n}@example.org>"))\r\n`,
          );
        }
        return `${tag} OK done\r\n`;
      },
      ...answers,
    },
  });
  closing.push(() => server.stop());
  const folder = mkdtempSync(path.join(tmpdir(), 'imap-broken-'));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  const imap = {
    ...{ host: '127.0.0.1', port: server.port, tls: 'none', user: 'ada@example.org' },
    password: { command: ['echo', 'secret'] },
  };
  const config = path.join(folder, 'mailkeep.json');
  writeFileSync(config, JSON.stringify({ accounts: [{ name: 'main', imap }] }));
  const run = (...args: readonly string[]) => mailkeep([...args, '--config', config]);
  const list = async (): Promise<string[]> =>
    (jsonLines((await run('list', '--json')).stdout) as Listed[])
      .filter(({ id }) => id !== null)
      .map(({ folder, uid }) => `${folder}/${uid}`)
      .sort();
  return { server, run, list };
}

test('a message that breaks every connection hides no other', async () => {
  const folders = new Map([
    ['INBOX', { epoch: 7, messages: 3 }],
    ['Work', { epoch: 8, messages: 2 }],
  ]);
  let isBroken = true;
  const { server, run, list } = await startServer(
    folders,
    (name, uid, line) => isBroken && name === 'INBOX' && uid === 2 && line.includes('BODY'),
  );
  const others = ['INBOX/1', 'INBOX/3', 'Work/1', 'Work/2'];
  const first = await run('sync');
  expect(first.code).toBe(1);
  expect(first.stderr).toContain('broke during UID FETCH');
  expect(await list()).toEqual(others);
  expect(server.connections).toBeLessThanOrEqual(6);
  // What has arrived since is stored, and the message itself once the server is mended.
  folders.set('INBOX', { epoch: 7, messages: 4 });
  await run('sync');
  expect(await list()).toEqual(['INBOX/1', 'INBOX/3', 'INBOX/4', 'Work/1', 'Work/2']);
  expect(server.connections).toBeLessThanOrEqual(12);
  isBroken = false;
  expect(await run('sync')).toMatchObject({ code: 0, stderr: '' });
  expect(await list()).toEqual([...others, 'INBOX/2', 'INBOX/4'].sort());
}, 60_000);

test('a folder that breaks every connection hides no other', async () => {
  const { run, list } = await startServer(
    new Map([
      ['INBOX', { epoch: 7, messages: 3 }],
      ['Work', { epoch: 8, messages: 2 }],
    ]),
    (name, _uid, line) => name === 'INBOX' && line.includes('ENVELOPE'),
  );
  const { code, stderr } = await run('sync');
  expect(code).toBe(1);
  expect(stderr).toContain('broke during UID FETCH');
  expect(await list()).toEqual(['Work/1', 'Work/2']);
}, 60_000);

test('no folder ends when the server begins to tell which ones are of others', async () => {
  let isRefused = true;
  const { run, list } = await startServer(
    new Map([
      ['INBOX', { epoch: 7, messages: 1 }],
      ['Other/bob', { epoch: 8, messages: 2 }],
    ]),
    () => false,
    {
      NAMESPACE: (tag) =>
        isRefused
          ? `${tag} NO no\r\n`
          : `* NAMESPACE (("" "/")) (("Other/" "/")) NIL\r\n${tag} OK done\r\n`,
    },
  );
  const all = ['INBOX/1', 'Other/bob/1', 'Other/bob/2'];
  for (const refused of [true, false, false, false]) {
    isRefused = refused;
    expect(await run('sync', '--accept-endings')).toMatchObject({ code: 0, stderr: '' });
    expect(await list()).toEqual(all);
  }
  // A server that has told it before cannot seem to have none.
  isRefused = true;
  const { code, stderr } = await run('sync', '--accept-endings');
  expect([code, stderr]).toEqual([1, expect.stringContaining('refused NAMESPACE')]);
  expect(await list()).toEqual(all);
  isRefused = false;
  expect(await run('sync', '--accept-endings')).toMatchObject({ code: 0, stderr: '' });
}, 60_000);

test('a folder whose name is encoded wrongly is never taken for another', async () => {
  const mislabelled = { epoch: 8, messages: 3 };
  const folders = new Map([
    ['INBOX', { epoch: 7, messages: 1 }],
    ['R&D', { epoch: 9, messages: 2 }],
    ['R&-D', mislabelled],
  ]);
  const { run, list } = await startServer(folders);
  const paths = ['INBOX/1', 'R&D/1', 'R&D/2', 'R&D/3', 'R&D\ufffd/1', 'R&D\ufffd/2'];
  for (let round = 0; round < 2; round += 1) {
    expect(await run('sync')).toMatchObject({ code: 0, stderr: '' });
    expect(await list()).toEqual(paths);
    // The other order.
    folders.delete('R&-D');
    folders.set('R&-D', mislabelled);
    folders.delete('R&D');
    folders.set('R&D', { epoch: 9, messages: 2 });
  }
  // Another client creates an empty folder with the name that is right.
  folders.set('&AOQ-', { epoch: 10, messages: 0 });
  folders.set('\xc3\xa4', { epoch: 11, messages: 1 });
  expect(await run('sync')).toMatchObject({ code: 0, stderr: '' });
  expect(await list()).toEqual([...paths, '\u00e4\ufffd/1']);
}, 60_000);

test('every name on the wire has a path of its own, which leads back to it', () => {
  const random = seeded('wire names', 1);
  const pieces = ['&', '-', '&-', '&AOk-', '&,,0-', 'a', '/', '\xef\xbf\xbd', '\xc3\xa9', '\xff'];
  const wireNameByPath = new Map<string, string>();
  for (let n = 0; n < 20_000; n += 1) {
    const wireName = Array.from(
      { length: 1 + random.below(5) },
      () => pieces[random.below(pieces.length)],
    ).join('');
    const path = pathOf(wireName);
    expect(wireNameOf(path)).toBe(wireName);
    expect(wireNameByPath.get(path) ?? wireName).toBe(wireName);
    wireNameByPath.set(path, wireName);
  }
  expect(['R&-D', 'R&D', '&AOk-', '\xc3\xa9'].map(pathOf)).toEqual([
    'R&D',
    'R&D\ufffd',
    '\u00e9',
    '\u00e9\ufffd',
  ]);
});
