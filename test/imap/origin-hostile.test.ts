import { readdirSync } from 'node:fs';
import { inspect } from 'node:util';
import { afterEach, describe, expect, test } from 'vitest';
import type { Clock } from '../../src/core/concurrency.ts';
import { describeError, MailkeepError } from '../../src/core/errors.ts';
import { Secret } from '../../src/core/secrets.ts';
import type { Credential } from '../../src/imap/connection.ts';
import '../../src/imap/errors.ts';
import { connectImap } from '../../src/transfer/imap-connection.ts';
import { openAccount, type TestAccount } from './account.ts';
import {
  type Answer,
  askedUids,
  type Script,
  ScriptedServer,
  writeForever,
} from './scripted-server.ts';

const signal = new AbortController().signal;
const at = { host: '127.0.0.1', mailbox: 'm', folder: 'INBOX' };
const newest = { page: 1, perPage: 100, order: 'descending' } as const;
const MIB = 1024 * 1024;

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

async function against(
  script: Script,
  options: Parameters<typeof openAccount>[1] = {},
): Promise<TestAccount & { server: ScriptedServer }> {
  const server = await ScriptedServer.start(script);
  closing.push(() => server.stop());
  const account = openAccount({ port: server.port }, { silenceMs: 3_000, ...options });
  closing.push(() => account.connections.close());
  return { ...account, server };
}

/** The error of a call, which must have a sentence and no text of the server. */
async function errorOf(call: Promise<unknown>): Promise<MailkeepError> {
  const error = await call.then(
    (value) => {
      throw new Error(`succeeded: ${JSON.stringify(value)}`);
    },
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof MailkeepError)) throw error;
  const { message, hint } = describeError(error);
  expect(message).toMatch(/^[\x20-\x7e]+\.$/);
  expect(`${message} ${hint}`).not.toMatch(/undefined|NaN|<script>|\[object/);
  return error;
}

function fetching(items: string): Answer {
  return (tag) => `* 1 FETCH (${items})\r\n${tag} OK done\r\n`;
}

const LISTED = 'FLAGS (\\seen \\Recent) INTERNALDATE "17-Jul-1996 02:44:25 -0700" RFC822.SIZE 5';

describe('literals and lines', () => {
  test('an endless literal ends the connection before it is read', async () => {
    let sent = 0;
    const { origin } = await against({
      answers: {
        'UID FETCH': async (_tag, _line, socket) => {
          socket.write('* 1 FETCH (UID 1 BODY[]<0> {4000000000}\r\n');
          sent += await writeForever(socket, 'x'.repeat(1_000));
          return undefined;
        },
      },
    });
    const error = await errorOf(origin.source(at, 1, signal));
    expect(error).toMatchObject({ code: 'imap.too-large', facts: { what: 'literal' } });
    expect(sent).toBeLessThan(32 * MIB);
  });

  test('a line of 10 MB and one without an end are refused', async () => {
    for (const isEndless of [false, true]) {
      const { origin, server } = await against({
        answers: {
          LIST: async (tag, _line, socket) => {
            socket.write('* LIST () "/" "');
            if (isEndless) await writeForever(socket, 'y'.repeat(1_000));
            else socket.write(`${'y'.repeat(10_000_000)}"\r\n${tag} OK done\r\n`);
            return undefined;
          },
        },
      });
      const before = process.memoryUsage().rss;
      const error = await errorOf(origin.folders('', signal));
      expect(error).toMatchObject({ code: 'imap.too-large', facts: { what: 'line' } });
      expect(process.memoryUsage().rss - before).toBeLessThan(200 * MIB);
      server.stop();
    }
  });

  test.each([
    ['shorter', '* 1 FETCH (UID 1 BODY[]<0> {5}\r\nhello world)\r\n', 'imap.malformed'],
    ['longer', '* 1 FETCH (UID 1 BODY[]<0> {500}\r\nhello)\r\n', 'imap.connection-lost'],
    ['not a number', '* 1 FETCH (UID 1 BODY[]<0> {5x}\r\nhello)\r\n', 'imap.malformed'],
    ['unclosed', '* 1 FETCH (UID 1 BODY[]<0> "hello)\r\n', 'imap.malformed'],
  ])('a literal that is %s yields no source', async (_name, line, code) => {
    const answers = { 'UID FETCH': ((tag) => `${line}${tag} OK done\r\n`) satisfies Answer };
    const { origin } = await against({ answers }, { silenceMs: 400 });
    expect((await errorOf(origin.source(at, 1, signal))).code).toBe(code);
  });

  test('a message that changes while its pieces are fetched is no source', async () => {
    let fetches = 0;
    const piece = (tag: string, offset: number, bytes: Buffer): Buffer =>
      Buffer.concat([
        Buffer.from(`* 1 FETCH (UID 1 BODY[]<${offset}> {${bytes.length}}\r\n`),
        bytes,
        Buffer.from(`)\r\n${tag} OK done\r\n`),
      ]);
    const { origin, spoolDir } = await against({
      answers: {
        'UID FETCH': (tag, line) => {
          fetches += 1;
          const offset = Number(/<(\d+)\./.exec(line)?.[1]);
          return piece(tag, offset, Buffer.alloc(offset === 0 ? MIB : 5, fetches));
        },
      },
    });
    expect((await errorOf(origin.source(at, 1, signal))).code).toBe('imap.message-changed');
    expect(fetches).toBe(3);
    expect(readdirSync(spoolDir)).toEqual([]);
  });

  test('another piece than was asked for is no source', async () => {
    const wrong: Answer = (tag, line) =>
      line.includes('<0.')
        ? Buffer.concat([
            Buffer.from(`* 1 FETCH (UID 1 BODY[]<0> {${MIB}}\r\n`),
            Buffer.alloc(MIB, 1),
            Buffer.from(`)\r\n${tag} OK done\r\n`),
          ])
        : `* 1 FETCH (UID 1 BODY[]<7> {1}\r\nx)\r\n${tag} OK done\r\n`;
    const { origin, spoolDir } = await against({ answers: { 'UID FETCH': wrong } });
    expect((await errorOf(origin.source(at, 1, signal))).code).toBe('imap.malformed');
    expect(readdirSync(spoolDir)).toEqual([]);
  });

  test('a flood of responses ends the connection', async () => {
    const { origin } = await against({
      answers: {
        NOOP: (tag) => `${tag} OK done\r\n`,
        EXAMINE: async (_tag, _line, socket) => {
          await writeForever(socket, '* 5 EXISTS\r\n* 3 FETCH (FLAGS ())\r\n');
          return undefined;
        },
      },
    });
    const before = process.memoryUsage().rss;
    const error = await errorOf(origin.list(at, newest, signal));
    expect(error).toMatchObject({ code: 'imap.too-large', facts: { what: 'responses' } });
    expect(process.memoryUsage().rss - before).toBeLessThan(200 * MIB);
  }, 60_000);

  test('many small responses of one command end the connection as well', async () => {
    const item = 'x'.repeat(1_000_000);
    const { origin } = await against({
      answers: {
        'UID FETCH': async (_tag, _line, socket) => {
          await writeForever(socket, `* 1 FETCH (UID 1 BODY[] "" X ${item})\r\n`);
          return undefined;
        },
      },
    });
    const before = process.memoryUsage().rss;
    expect(await errorOf(origin.source(at, 1, signal))).toMatchObject({
      ...{ code: 'imap.too-large', facts: { what: 'answer' } },
    });
    expect(process.memoryUsage().rss - before).toBeLessThan(500 * MIB);
  }, 60_000);

  test.each([
    ['LOGIN', { signInMs: 300 }],
    ['LIST', { commandMs: 300 }],
  ])('a server that is never silent does not hold up %s', async (command, times) => {
    const talkative: Answer = (_tag, _line, socket) => {
      const timer = setInterval(() => socket.write('* OK still here\r\n'), 20);
      socket.once('close', () => clearInterval(timer));
      return undefined;
    };
    const { origin } = await against({ answers: { [command]: talkative } }, { times });
    const error = await errorOf(origin.folders('', signal));
    expect(error).toMatchObject({ family: 'origin', facts: { reason: 'ETIMEDOUT' } });
  });

  test('a folder whose name is no valid UTF-7 is opened by the bytes of its name', async () => {
    const listed = Buffer.from(
      '* LIST () "/" {2}\r\n\xc3\xa4\r\n* STATUS {2}\r\n\xc3\xa4 (MESSAGES 3 UIDNEXT 4 UIDVALIDITY 7 UNSEEN 0)\r\n',
      'latin1',
    );
    const { origin, server } = await against({
      answers: { LIST: (tag) => Buffer.concat([listed, Buffer.from(`${tag} OK done\r\n`)]) },
    });
    const { folders } = await origin.folders('', signal);
    expect(folders.map(({ path }) => path)).toEqual(['ä\ufffd']);
    await origin.uids?.({ ...at, folder: 'ä\ufffd' }, signal);
    expect(server.lines).toContain('EXAMINE "\xc3\xa4"');
  });

  test('deeply nested lists are refused', async () => {
    const nested = `* LIST ${'('.repeat(100_000)}\r\n`;
    const { origin } = await against({ answers: { LIST: (tag) => `${nested}${tag} OK x\r\n` } });
    expect((await errorOf(origin.folders('', signal))).code).toBe('imap.malformed');
  });
});

test.each([
  ['UID 1 FLAGS (\\Seen) MODSEQ (9)', 1],
  ['UID 1 FLAGS (\\Seen)', null],
  ['UID 1 MODSEQ (9)', null],
])('changed flags of %s are %s', async (items, count) => {
  const { origin } = await against({
    capabilities: 'IMAP4rev1 NAMESPACE LIST-STATUS CONDSTORE',
    answers: {
      EXAMINE: (tag) =>
        `* 3 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\n* OK [HIGHESTMODSEQ 9] x\r\n${tag} OK done\r\n`,
      'UID FETCH': fetching(items),
    },
  });
  const since = { uidValidity: '7', modSeq: '5' };
  const answer = await origin.changedSince?.(at, since, signal);
  expect(answer?.changes.length ?? null).toBe(count);
});

describe('listing records', () => {
  const envelope = (text: string) => `UID 1 ${LISTED} ENVELOPE ${text}`;
  const only = { uids: '1', perPage: 10, order: 'ascending' } as const;
  const answers = (items: string): Script => ({
    answers: {
      'UID SEARCH': (tag) => `* ESEARCH (TAG "x") UID COUNT 1 ALL 1\r\n${tag} OK done\r\n`,
      'UID FETCH': fetching(items),
    },
  });

  test.each([
    'NIL',
    '()',
    '(NIL NIL NIL NIL NIL NIL NIL NIL NIL NIL)',
    '(((())) "" NIL ((NIL NIL NIL NIL)) "x" (("a" NIL "group" NIL) NIL) ("b") "c" () ())',
  ])('an ENVELOPE of %s has empty fields', async (text) => {
    const { origin } = await against(answers(envelope(text)));
    const { items } = await origin.search(at, only, signal);
    expect(items).toMatchObject([
      {
        uid: 1,
        date: '1996-07-17T09:44:25Z',
        flags: ['\\Seen'],
        from: null,
        to: [],
        cc: [],
        bcc: [],
        messageId: null,
        extra: {},
      },
    ]);
  });

  test('an ENVELOPE with too many values or lists is left out', async () => {
    for (const inner of ['()'.repeat(30_000), 'a '.repeat(300_000)]) {
      const { origin } = await against({
        answers: {
          ...answers('').answers,
          'UID FETCH': (tag, line, socket) =>
            fetching(line.includes('ENVELOPE') ? envelope(`(${inner})`) : `UID 1 ${LISTED}`)(
              tag,
              line,
              socket,
            ),
        },
      });
      const { items } = await origin.search(at, only, signal);
      expect(items).toMatchObject([{ uid: 1, size: 5, from: null }]);
    }
  });

  test('other attributes of NIL are no listing', async () => {
    for (const items of [
      'UID 1 FLAGS NIL INTERNALDATE NIL RFC822.SIZE 5 ENVELOPE NIL',
      'UID 1 FLAGS () INTERNALDATE NIL RFC822.SIZE NIL ENVELOPE NIL',
      'UID NIL FLAGS () RFC822.SIZE 5',
      'UID 4294967297 FLAGS () RFC822.SIZE 5',
      'NIL NIL',
      'UID',
    ]) {
      const { origin } = await against(answers(items));
      expect((await errorOf(origin.search(at, only, signal))).code).toBe('imap.malformed');
    }
    const { origin } = await against(answers('UID 1 BODY[]<0> NIL'));
    expect((await errorOf(origin.source(at, 1, signal))).code).toBe('imap.message-gone');
  });

  test('an unreadable ENVELOPE hides no other message', async () => {
    const { origin, server } = await against({
      answers: {
        'UID FETCH': (tag, line) => {
          const lines = askedUids(line).map((uid) => {
            const bad = uid === 2 ? '("open' : '(NIL "fine" NIL NIL NIL NIL NIL NIL NIL NIL)';
            const items = line.includes('ENVELOPE') ? ` ENVELOPE ${bad}` : '';
            return `* ${uid} FETCH (UID ${uid} ${LISTED}${items})\r\n`;
          });
          return `${lines.join('')}${tag} OK done\r\n`;
        },
      },
    });
    const page = await origin.list(at, newest, signal);
    expect(page.items.map(({ uid, subject }) => [uid, subject])).toEqual([
      [3, 'fine'],
      [2, null],
      [1, 'fine'],
    ]);
    const before = server.connections;
    await origin.list(at, newest, signal);
    expect(server.connections).toBe(before);
  });

  test('the same uid for two messages is no answer', async () => {
    const line = `FETCH (UID 1 ${LISTED} ENVELOPE NIL)\r\n`;
    const twice: Answer = (tag) => `* 1 ${line}* 2 ${line}${tag} OK done\r\n`;
    const { origin } = await against({ answers: { 'UID FETCH': twice } });
    expect((await errorOf(origin.list(at, newest, signal))).code).toBe('imap.malformed');
  });
});

describe('sets of uids', () => {
  test.each([
    ['twice the same', '* ESEARCH (TAG "x") UID COUNT 2 ALL 1,1', 'imap.malformed'],
    ['beyond 32 bits', '* ESEARCH (TAG "x") UID COUNT 1 ALL 4294967296', 'imap.malformed'],
    ['all numbers', '* ESEARCH (TAG "x") UID COUNT 4294967295 ALL 1:4294967295', 'imap.malformed'],
    ['of 0', '* ESEARCH (TAG "x") UID COUNT 1 ALL 0', 'imap.malformed'],
    ['more than counted', '* ESEARCH (TAG "x") UID COUNT 2 ALL 1:4000000', 'imap.malformed'],
    ['fewer than counted', '* ESEARCH (TAG "x") UID COUNT 3 ALL 1:2', 'imap.malformed'],
    ['without a count', '* ESEARCH (TAG "x") UID ALL 1:3', 'imap.malformed'],
    ['missing', '* OK nothing', 'imap.malformed'],
    ['sent twice', '* ESEARCH UID COUNT 1 ALL 1\r\n* ESEARCH UID COUNT 1 ALL 2', 'imap.malformed'],
  ])('a set that is %s counts for nothing', async (_name, line, code) => {
    const { origin } = await against({
      answers: { 'UID SEARCH': (tag) => `${line}\r\n${tag} OK done\r\n` },
    });
    expect((await errorOf(origin.list(at, newest, signal))).code).toBe(code);
  });

  test.each(['MESSAGELIMIT 1000 23221', 'LIMIT', 'EXPUNGEISSUED'])(
    'a set with [%s] counts for nothing',
    async (code) => {
      const set = '* ESEARCH (TAG "x") UID COUNT 3 ALL 1:3\r\n';
      const { origin, server } = await against({
        answers: { 'UID SEARCH': (tag) => `${set}${tag} OK [${code}] part\r\n` },
      });
      expect((await errorOf(origin.list(at, newest, signal))).code).toBe('imap.incomplete');
      expect(server.lines.filter((line) => line.startsWith('UID SEARCH'))).toHaveLength(2);
    },
  );

  const plain = 'IMAP4rev1 NAMESPACE UNSELECT';
  test.each([
    ['1 2 2', 'imap.malformed'],
    ['1 2 4294967296', 'imap.malformed'],
    ['1 0 3', 'imap.malformed'],
    ['1 x 3', 'imap.malformed'],
    ['1 2', 'imap.count-differs'],
  ])('without ESEARCH, a set of %s counts for nothing', async (set, code) => {
    const { origin } = await against({
      capabilities: plain,
      answers: { 'UID SEARCH': (tag) => `* SEARCH ${set}\r\n${tag} OK done\r\n` },
    });
    expect((await errorOf(origin.list(at, newest, signal))).code).toBe(code);
  });

  test('without ESEARCH, an EXISTS that shrinks makes the set count for nothing', async () => {
    const { origin } = await against({
      capabilities: plain,
      answers: { NOOP: (tag) => `* 1 EXISTS\r\n${tag} OK done\r\n` },
    });
    expect((await errorOf(origin.list(at, newest, signal))).code).toBe('imap.count-differs');
  });
});

describe('folders', () => {
  test.each([
    ['missing', '', 'imap.no-uid-epoch'],
    ['0', '* OK [UIDVALIDITY 0] x\r\n', 'imap.no-uid-epoch'],
    ['not a number', '* OK [UIDVALIDITY x] x\r\n', 'imap.no-uid-epoch'],
    ['beyond 32 bits', '* OK [UIDVALIDITY 4294967296] x\r\n', 'imap.no-uid-epoch'],
    ['not sticky', '* OK [UIDVALIDITY 7] x\r\n* NO [UIDNOTSTICKY] x\r\n', 'imap.no-uid-epoch'],
  ])('a UIDVALIDITY that is %s makes the folder an error', async (_name, line, code) => {
    const { origin } = await against({
      answers: { EXAMINE: (tag) => `* 3 EXISTS\r\n${line}${tag} OK done\r\n` },
    });
    expect((await errorOf(origin.list(at, newest, signal))).code).toBe(code);
  });

  test('a UIDVALIDITY that LIST lacks is asked for by STATUS', async () => {
    const status = (epoch: number) =>
      `* STATUS INBOX (MESSAGES 3 UIDNEXT 4 UIDVALIDITY ${epoch} UNSEEN 0)\r\n`;
    const { origin } = await against({
      answers: {
        LIST: (tag) => `* LIST () "/" INBOX\r\n${status(0)}${tag} OK done\r\n`,
        STATUS: (tag) => `${status(7)}${tag} OK done\r\n`,
      },
    });
    const { states } = await origin.folders('', signal);
    expect(states?.get('INBOX')?.uidValidity).toBe('7');
  });

  test('a folder that does not open is an error of its own', async () => {
    const { origin } = await against({
      answers: { EXAMINE: (tag) => `${tag} NO [NONEXISTENT] <script>\r\n` },
    });
    expect(await errorOf(origin.list(at, newest, signal))).toMatchObject({
      code: 'imap.folder-refused',
      facts: { folder: 'INBOX', code: 'NONEXISTENT' },
    });
  });

  test.each([
    ['ends with NO', '* LIST () "/" INBOX\r\n', 'NO failed', 'imap.refused'],
    ['is partial', '* LIST () "/" INBOX\r\n', 'OK [LIMIT] some', 'imap.incomplete'],
    ['has a warning', '* LIST () "/" INBOX\r\n* NO disk error\r\n', 'OK done', 'imap.incomplete'],
    ['has no name', '* LIST () "/" NIL\r\n', 'OK done', 'imap.malformed'],
    ['has no attributes', '* LIST NIL "/" INBOX\r\n', 'OK done', 'imap.malformed'],
    ['does not parse', '* LIST () "/ INBOX\r\n', 'OK done', 'imap.malformed'],
  ])('a LIST that %s is no list', async (_name, lines, status, code) => {
    const { origin } = await against({
      answers: { LIST: (tag) => `${lines}${tag} ${status}\r\n` },
    });
    expect((await errorOf(origin.folders('', signal))).code).toBe(code);
  });

  test('folders that cannot be asked about make the list incomplete', async () => {
    const inbox = '* LIST () "/" INBOX\r\n* STATUS INBOX (MESSAGES 3 UNSEEN 0 UIDVALIDITY 7)\r\n';
    const others =
      '* LIST () "/" locked\r\n* LIST (\\NoSelect) "/" parent\r\n* LIST () "/" {5}\r\na\r\nbc\r\n';
    const { origin, server } = await against({
      answers: {
        LIST: (tag) => `${inbox}${others}${tag} OK done\r\n`,
        STATUS: (tag) => `${tag} NO [NOPERM] no\r\n`,
      },
    });
    const listing = await origin.folders('', signal);
    expect(listing.folders.map(({ path }) => path)).toEqual(['INBOX']);
    expect(listing).toMatchObject({ complete: false, problem: { code: 'imap.folders-refused' } });
    // The name with a line break was sent nowhere.
    expect(server.lines.filter((line) => line.startsWith('STATUS'))).toHaveLength(1);
  });

  const NO_SUCH = "NO Mailbox doesn't exist: gone (0.001 secs).";
  test.each([
    ['STATUS and EXAMINE say so', NO_SUCH, NO_SUCH, true],
    ['both have the code', 'NO [NONEXISTENT] x', 'NO [NONEXISTENT] y', true],
    ['only STATUS says so', NO_SUCH, 'OK [READ-ONLY] done', 'imap.folders-refused'],
    ['EXAMINE may not look', NO_SUCH, 'NO [NOPERM] no', 'imap.folders-refused'],
    ['EXAMINE has no reason', 'NO [NONEXISTENT] x', 'NO failed', 'imap.folders-refused'],
    ['STATUS may not look', 'NO [NOPERM] no', NO_SUCH, 'imap.folders-refused'],
    ['it is a BAD', 'BAD [NONEXISTENT] x', 'BAD [NONEXISTENT] x', 'imap.folders-refused'],
  ])('a folder without a status is left out if %s', async (_name, status, examine, outcome) => {
    for (const warning of ['', "* NO Mailbox doesn't exist: gone\r\n"]) {
      const inbox = '* LIST () "/" INBOX\r\n* STATUS INBOX (MESSAGES 3 UNSEEN 0 UIDVALIDITY 7)\r\n';
      const { origin } = await against({
        answers: {
          LIST: (tag) => `${inbox}* LIST () "/" gone\r\n${warning}${tag} OK done\r\n`,
          STATUS: (tag) => `${tag} ${status}\r\n`,
          EXAMINE: (tag) => `${tag} ${examine}\r\n`,
        },
      });
      const listing = await origin.folders('', signal);
      expect(listing.folders.map(({ path }) => path)).toEqual(['INBOX']);
      expect([listing.complete, listing.problem?.code ?? true]).toEqual([
        outcome === true,
        outcome,
      ]);
    }
  });

  test('INBOX exists, and a warning needs a folder that does not', async () => {
    const list =
      (lines: string): Answer =>
      (tag) =>
        `${lines}${tag} OK done\r\n`;
    const refused: Answer = (tag) => `${tag} NO [NONEXISTENT] x\r\n`;
    const without = await against({
      answers: { LIST: list('* LIST () "/" INBOX\r\n'), STATUS: refused, EXAMINE: refused },
    });
    expect(await without.origin.folders('', signal)).toMatchObject({ complete: false });
    const unexplained = await against({
      answers: {
        LIST: list(
          '* LIST () "/" INBOX\r\n* STATUS INBOX (MESSAGES 3 UNSEEN 0 UIDVALIDITY 7)\r\n* NO Mailbox doesn\'t exist: x\r\n',
        ),
      },
    });
    expect((await errorOf(unexplained.origin.folders('', signal))).code).toBe('imap.incomplete');
  });

  const OTHERS =
    '* LIST () "/" INBOX\r\n* STATUS INBOX (MESSAGES 3 UNSEEN 0 UIDVALIDITY 7)\r\n' +
    '* LIST () "/" Other/bob\r\n* STATUS Other/bob (MESSAGES 1 UNSEEN 0 UIDVALIDITY 8)\r\n';

  test.each([
    ['NO [UNAVAILABLE] later', 'imap.throttled'],
    ['NO [SERVERBUG] Internal error', 'imap.throttled'],
    ['NO [INUSE] later', 'imap.throttled'],
    ['NO temporary failure', 'imap.throttled'],
  ])('are not listed while NAMESPACE is answered with %s', async (status, code) => {
    const { origin } = await against({
      answers: { NAMESPACE: (tag) => `${tag} ${status}\r\n` },
    });
    const error = await errorOf(origin.folders('', signal));
    expect(error).toMatchObject({ code, facts: { command: 'NAMESPACE' } });
  });

  test('a warning that a folder of others does not exist concerns no other', async () => {
    const gone = '* LIST () "/" Other/x\r\n* NO Mailbox doesn\'t exist: Other/x\r\n';
    const { origin, server } = await against({
      answers: {
        LIST: (tag) => `${OTHERS}${gone}${tag} OK done\r\n`,
        NAMESPACE: (tag) => `* NAMESPACE (("" "/")) (("Other/" "/")) NIL\r\n${tag} OK done\r\n`,
      },
    });
    const { folders, leftOut, complete } = await origin.folders('', signal);
    expect([folders.length, leftOut, complete]).toEqual([1, ['Other/bob', 'Other/x'], true]);
    expect(server.lines.filter((line) => /^(STATUS|EXAMINE)/.test(line))).toEqual([]);
  });

  test.each(['NO not here', 'BAD what?'])(
    'of others count as own while NAMESPACE is refused with %s, and are then left out',
    async (refusal) => {
      let refusals = 4;
      const { origin, connections } = await against({
        answers: {
          LIST: (tag) => `${OTHERS}${tag} OK done\r\n`,
          NAMESPACE: (tag) => {
            refusals -= 1;
            const others = '* NAMESPACE (("" "/")) (("Other/" "/")) NIL\r\n';
            return refusals >= 0 ? `${tag} ${refusal}\r\n` : `${others}${tag} OK done\r\n`;
          },
        },
      });
      // Refused twice in each list.
      const paths = async () => {
        const { folders, leftOut, complete } = await origin.folders('', signal);
        return [folders.map(({ path }) => path), leftOut, complete];
      };
      expect(await paths()).toEqual([['INBOX', 'Other/bob'], [], true]);
      await connections.use(async (session) => session.close(), signal);
      expect(await paths()).toEqual([['INBOX', 'Other/bob'], [], true]);
      // The same session is told at its next list.
      expect(await paths()).toEqual([['INBOX'], ['Other/bob'], true]);
    },
  );

  test('names keep every form that the server gives them', async () => {
    const names = ['&AOQ-', 'a&Awg-', '"sl/ash"', '"q\\"\\\\ "', 'A', 'a', '&AOQ', '"tr "'];
    const status = '(MESSAGES 0 UNSEEN 0 UIDVALIDITY 7)';
    const lines = ['INBOX', ...names].map(
      (name) => `* LIST () "." ${name}\r\n* STATUS ${name} ${status}\r\n`,
    );
    const { origin, server } = await against({
      answers: {
        LIST: (tag) => `${lines.join('')}${tag} OK done\r\n`,
        EXAMINE: (tag) => `* 0 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\n${tag} OK done\r\n`,
      },
    });
    const { folders } = await origin.folders('', signal);
    const paths = folders.map(({ path }) => path);
    const expected = [
      'INBOX',
      '\u00e4',
      'a\u0308',
      'sl/ash',
      'q"\\ ',
      'A',
      'a',
      '&AOQ\ufffd',
      'tr ',
    ];
    expect(paths).toEqual(expected);
    expect(new Set(paths).size).toBe(expected.length);
    for (const folder of paths) await origin.list({ ...at, folder }, newest, signal);
    const sent = server.lines.filter((line) => line.startsWith('EXAMINE'));
    expect(sent.slice(1, 5)).toEqual([
      'EXAMINE "&AOQ-"',
      'EXAMINE "a&Awg-"',
      'EXAMINE "sl/ash"',
      'EXAMINE "q\\"\\\\ "',
    ]);
  });
});

describe('sign-in', () => {
  test('sends nothing over plain text to another machine', async () => {
    const { origin } = openAccount({ host: 'mail.example.org', port: 143 });
    expect((await errorOf(origin.folders('', signal))).code).toBe('imap.needs-tls');
  });

  const starttls = async (script: Script) => {
    const server = await ScriptedServer.start(script);
    closing.push(() => server.stop());
    const account = openAccount({ port: server.port, tls: 'starttls' }, { silenceMs: 2_000 });
    const { code } = await errorOf(account.origin.folders('', signal));
    expect(server.lines.join()).not.toMatch(/LOGIN|AUTHENTICATE/);
    return code;
  };

  test('sends no password if STARTTLS is not offered or refused', async () => {
    expect(await starttls({})).toBe('imap.starttls-missing');
    const refusing = { STARTTLS: ((tag) => `${tag} NO later\r\n`) satisfies Answer };
    expect(await starttls({ capabilities: 'IMAP4rev1 STARTTLS', answers: refusing })).toBe(
      'imap.starttls-missing',
    );
  });

  test('sends no password after text that was injected before TLS', async () => {
    const capabilities = 'IMAP4rev1 STARTTLS';
    const injecting: Answer = (tag) => `${tag} OK begin\r\n* CAPABILITY IMAP4rev1\r\n`;
    expect(await starttls({ capabilities, answers: { STARTTLS: injecting } })).toBe(
      'imap.starttls-injection',
    );
    const greeting = '* PREAUTH welcome';
    expect(await starttls({ greeting })).toMatch(/^imap\.starttls-/);
  });

  test.each([
    ['NO Invalid user name or password, please try again', 'imap.sign-in-refused', 1],
    ['NO [ALERT] Wrong password. Try again later.', 'imap.sign-in-refused', 1],
    ['NO [AUTHENTICATIONFAILED] no', 'imap.sign-in-refused', 1],
    ['NO [EXPIRED] no', 'imap.sign-in-refused', 1],
    ['NO [PRIVACYREQUIRED] no', 'imap.sign-in-refused', 1],
    ['NO Login failed', 'imap.sign-in-refused', 1],
    ['BAD what', 'imap.sign-in-refused', 1],
    ['NO [UNAVAILABLE] later', 'imap.throttled', 3],
    ['NO Temporary authentication failure', 'imap.throttled', 3],
    ['NO [LIMIT] Too many connections', 'imap.throttled', 3],
    ['NO [SERVERBUG] Internal error', 'imap.throttled', 3],
    ['NO [ALERT] Too many simultaneous connections. (Failure)', 'imap.throttled', 3],
    ['NO [ALERT] Account exceeded command or bandwidth limits. (Failure)', 'imap.throttled', 3],
    ['NO [ALERT] Application-specific password required', 'imap.sign-in-refused', 1],
  ])('a LOGIN answered with %s is %s', async (status, code, attempts) => {
    const { origin, server } = await against({
      answers: { LOGIN: (tag) => `${tag} ${status}\r\n` },
    });
    const error = await errorOf(origin.folders('', signal));
    expect(error.code).toBe(code);
    expect(error.family).toBe(code === 'imap.throttled' ? 'origin' : 'auth');
    expect(server.lines.filter((line) => line.startsWith('LOGIN'))).toHaveLength(attempts);
  });

  test('a credential that has changed is tried once more', async () => {
    const used: string[] = [];
    const given = ['old', 'new'];
    const credential = async (): Promise<Credential> => ({
      kind: 'password',
      secret: new Secret(given.shift() ?? 'new'),
    });
    const { origin } = await against(
      {
        answers: {
          LOGIN: (tag, line) => {
            used.push(line.split(' ').at(-1) ?? '');
            return line.includes('new') ? `${tag} OK in\r\n` : `${tag} NO [EXPIRED] no\r\n`;
          },
        },
      },
      { credential },
    );
    expect((await origin.folders('', signal)).folders).toHaveLength(1);
    expect(used).toEqual(['"old"', '"new"']);
  });

  const odd = 'pass "word\\ with 17 characters';
  test.each([
    ['a password', odd, 'LOGIN', (line: string) => line],
    ['a password as its response code', 'HUNTER2', 'LOGIN', () => '[hunter2] no'],
    ['a password in base64', odd, 'AUTHENTICATE', (line: string) => line.split(' ').at(-1) ?? ''],
    ['the start of a long token', 'x'.repeat(2_000), 'LOGIN', (line: string) => line],
  ])('a server that repeats %s has it shown nowhere', async (_what, password, verb, echo) => {
    const server = await ScriptedServer.start({
      capabilities: `IMAP4rev1 NAMESPACE ${verb === 'LOGIN' ? '' : 'LOGINDISABLED AUTH=PLAIN SASL-IR'}`,
      answers: {
        [verb]: (tag, line) => {
          // The second sign-in succeeds.
          if (server.connections > 1) return `${tag} OK done\r\n`;
          return `${tag} NO ${echo(line)}\r\n`;
        },
        CREATE: (tag) =>
          `${tag} NO ${echo(server.lines.find((l) => l.startsWith(verb)) ?? '')}\r\n`,
      },
    });
    closing.push(() => server.stop());
    const { port } = server;
    const secret = new Secret(password);
    const open = () =>
      connectImap(
        { host: '127.0.0.1', port, user: 'anna', tls: 'none' },
        async () => ({ kind: 'password', secret }),
        signal,
      );
    const refused = await open().catch((error: unknown) => error);
    const connection = await open();
    const later = await connection.create('A').catch((error: unknown) => error);
    const shown = inspect([refused, later], { depth: 9 });
    expect(shown).toContain('restore-login-refused');
    expect(shown).toContain('restore-refused');
    expect(shown).not.toMatch(/word|hunter2|x{16}/i);
    expect(shown).not.toContain(Buffer.from(`\0anna\0${password}`).toString('base64').slice(8, 20));
    await connection.close();
  });

  test('LOGINDISABLED without another method is a sentence', async () => {
    const { origin } = await against({ capabilities: 'IMAP4rev1 NAMESPACE LOGINDISABLED' });
    expect((await errorOf(origin.folders('', signal))).code).toBe('imap.no-sign-in-method');
  });
});

describe('retries', () => {
  /** A clock that waits for nothing and remembers how long. */
  function clock(): Clock & { readonly waits: number[] } {
    const waits: number[] = [];
    return {
      waits,
      now: () => Date.now(),
      after(ms, call) {
        waits.push(ms);
        const timer = setImmediate(call);
        return () => clearImmediate(timer);
      },
    };
  }
  const usual = { attempts: 4, lostMs: 1_000, throttledMs: 5_000, mostMs: 60_000 };

  test.each([
    ['NO [THROTTLED] x', [5_000, 10_000]],
    ['NO [OVERQUOTA] x', [5_000, 10_000]],
    ['NO [INUSE] x', [5_000, 10_000]],
    ['NO Server is busy, try again', [5_000, 10_000]],
    ['BAD Request is throttled. Suggested Backoff Time: 92415 milliseconds', [92_415, 92_415]],
  ])('%s is tried again later', async (status, waits) => {
    let refusals = 2;
    const time = clock();
    const set = '* LIST () "/" INBOX\r\n* STATUS INBOX (MESSAGES 3 UNSEEN 0 UIDVALIDITY 7)\r\n';
    const { origin, server } = await against(
      {
        answers: {
          LIST: (tag) => (refusals-- > 0 ? `${tag} ${status}\r\n` : `${set}${tag} OK done\r\n`),
        },
      },
      { clock: time, retries: usual },
    );
    expect((await origin.folders('', signal)).folders).toHaveLength(1);
    expect(time.waits).toEqual(waits);
    expect(server.connections).toBe(1);
  });

  test('a host that was never reached is tried twice, another one as often as usual', async () => {
    const time = clock();
    const { origin, server } = await against({}, { clock: time, retries: usual });
    await origin.folders('', signal);
    const { port } = server;
    server.stop();
    expect((await errorOf(origin.folders('', signal))).code).toBe('imap.unreachable');
    expect(time.waits).toEqual([1_000, 2_000, 4_000]);
    time.waits.length = 0;
    const never = openAccount({ port }, { clock: time, retries: usual });
    expect((await errorOf(never.origin.folders('', signal))).code).toBe('imap.unreachable');
    expect(time.waits).toEqual([1_000]);
  });

  test('a pause of more than 15 minutes ends the sync, with the time in the sentence', async () => {
    const time = clock();
    const status = 'NO Request is throttled. Suggested Backoff Time: 1800000 milliseconds';
    const { origin } = await against(
      { answers: { LIST: (tag) => `${tag} ${status}\r\n` } },
      { clock: time, retries: usual },
    );
    const error = await errorOf(origin.folders('', signal));
    expect(describeError(error).message).toContain('30 min');
    expect(time.waits).toEqual([]);
  });

  test.each([
    ['* BYE Too many commands', 'imap.throttled', [5_000, 10_000, 20_000]],
    ['* BYE Autologout', 'imap.connection-lost', [1_000, 2_000, 4_000]],
    [null, 'imap.connection-lost', [1_000, 2_000, 4_000]],
  ])('a connection that ends with %s is opened again', async (line, code, waits) => {
    const time = clock();
    const { origin, server } = await against(
      {
        answers: {
          LIST: (_tag, _line, socket) => {
            if (line !== null) socket.write(`${line}\r\n`);
            socket.end();
            return undefined;
          },
        },
      },
      { clock: time, retries: usual },
    );
    expect((await errorOf(origin.folders('', signal))).code).toBe(code);
    expect(time.waits).toEqual(waits);
    expect(server.connections).toBe(4);
  });

  test('an abort ends a command that waits', async () => {
    const { origin } = await against({ answers: { LIST: () => undefined } });
    const abort = new AbortController();
    setTimeout(() => abort.abort(new Error('enough')), 100);
    await expect(origin.folders('', abort.signal)).rejects.toThrow('enough');
  });
});

describe('messages that SEARCH returns and FETCH leaves out', () => {
  const listed = (uid: number) => `* ${uid} FETCH (UID ${uid} ${LISTED})\r\n`;
  const fetchAllBut = (missing: (connections: number) => readonly number[]) => {
    const state: { server?: ScriptedServer } = {};
    const answer: Answer = (tag, line) => {
      const left = missing(state.server?.connections ?? 1);
      const shown = askedUids(line).filter((uid) => !left.includes(uid));
      return `${shown.map(listed).join('')}${tag} OK done\r\n`;
    };
    return { state, answer };
  };

  test('are asked for in a new session, and named if they stay away', async () => {
    const { answer } = fetchAllBut(() => [2]);
    const { origin, server } = await against({ answers: { 'UID FETCH': answer } });
    const page = await origin.list(at, newest, signal);
    expect(page).toMatchObject({ total: 3, omitted: [2], items: [{ uid: 3 }, { uid: 1 }] });
    expect(server.connections).toBeGreaterThan(1);
    expect((await origin.uids?.(at, signal))?.uids).toEqual(Uint32Array.from([1, 2, 3]));
  });

  test('are listed if a new session shows them', async () => {
    const { answer, state } = fetchAllBut((connections) => (connections > 1 ? [] : [2, 3]));
    const { origin, server } = await against({ answers: { 'UID FETCH': answer } });
    state.server = server;
    const page = await origin.list(at, newest, signal);
    expect(page).toMatchObject({ total: 3, omitted: [] });
    expect(page.items.map(({ uid }) => uid)).toEqual([3, 2, 1]);
  });

  test('are gone only if a new session does not list them', async () => {
    const { answer } = fetchAllBut(() => [2]);
    const { origin } = await against({
      answers: {
        'UID FETCH': answer,
        'UID SEARCH': (tag, line) =>
          line.endsWith('UID 2')
            ? `* ESEARCH (TAG "${tag}") UID COUNT 0\r\n${tag} OK done\r\n`
            : `* ESEARCH (TAG "${tag}") UID COUNT 3 ALL 1:3\r\n${tag} OK done\r\n`,
      },
    });
    const page = await origin.list(at, newest, signal);
    expect(page).toMatchObject({ total: 2, omitted: [], items: [{ uid: 3 }, { uid: 1 }] });
  });
});
