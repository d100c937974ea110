import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest';
import { mailboxKey } from '../../src/core/state.ts';
import { START, type StoredArchive } from '../export/stored-archive.ts';
import {
  archiveWith,
  ferry,
  gone,
  HOUR,
  menu,
  OTHERS,
  OURS,
  POSITIONS,
  reply,
  shared,
  THEIRS,
  theirFile,
  theirs,
  timetable,
} from './equal-archives.ts';
import { idOf, Served, withoutHaste } from './served.ts';

/* See equal-archives.ts. */

interface Side {
  readonly archive: StoredArchive;
  readonly served: Served;
  readonly cookie: string;
}

const sides: Side[] = [];

beforeAll(async () => {
  for (const [i, other] of OTHERS.entries()) {
    const archive = await archiveWith(other);
    // The configuration names accounts of others too.
    const names = ['anna-account', 'zebra-account', 'okapi-account'].slice(0, i + 1);
    const accounts = () => new Map(names.map((name) => [name, 'mail.example.net']));
    const served = await new Served().start(archive.dir, { accounts });
    const key = mailboxKey({ host: 'mail.example.net', mailbox: `AC-${OURS}` });
    sides.push({ archive, served, cookie: await served.signIn([key]) });
  }
});
beforeEach(withoutHaste);
afterAll(async () => {
  for (const { archive, served } of sides) {
    await served.close();
    archive.remove();
  }
});

const MINE = [ferry, reply, gone, shared, timetable, menu];
const ALL = [...MINE, ...theirs, theirFile];
const moment = (hours: number): string => new Date(START + hours * HOUR).toISOString();
const QUERIES = [
  ...[
    '',
    'ferry',
    'zebra',
    'timetable',
    'in:INBOX',
    'in:Zebra',
    `mailbox:${THEIRS}`,
    'mailbox:anna',
  ],
  ...['is:deleted', 'is:unread', 'has:attachment', 'from:anna@example.org', 'account:mail'],
  ...['account:zebra-account', 'account:okapi'],
  // Words that are similar to ours, and to theirs.
  ...['fery', 'zebrs', 'okapo'],
  ...[1.5, 2.5, 3.5, 5].map((hours) => `asof:${moment(hours).slice(0, 19)}Z`),
  ...[`thread:${idOf(ferry)}`, `id:${idOf(theirs[0] ?? ferry)}`],
];
const TYPED = ['from:', 'from:z', 'to:', 'in:', 'in:z', 'mailbox:', 'account:', 'date:', 'mime:'];
const VIEWS = ['thread', 'plain', 'html', 'headers', 'source', 'history'];

function* addresses(): Generator<string> {
  for (const query of QUERIES) {
    const q = encodeURIComponent(query);
    for (const page of ['/mail', '/files', '/export', '/dashboard'])
      for (const prefix of ['', '/api/page']) yield `${prefix}${page}?q=${q}`;
    for (const name of ['rows', 'counts', 'frame']) yield `/api/${name}?q=${q}`;
    yield `/api/rows?q=${q}&sort=oldest&after=${idOf(shared)}`;
    yield `/api/timeline?q=${q}&tz=UTC`;
    for (const source of [shared, theirFile]) yield `/api/position?q=${q}&at=${idOf(source)}`;
    for (const format of ['zip', 'mbox']) yield `/api/export?q=${q}&format=${format}`;
    yield `/files/all.zip?q=${q}`;
  }
  for (const position of POSITIONS) {
    for (const sort of ['newest', 'oldest'])
      for (const side of ['after', 'before', 'at'])
        for (const name of ['rows', 'position'])
          yield `/api/${name}?q=&sort=${sort}&${side}=@${position}`;
    yield `/api/page/mail?q=&after=@${position}`;
    yield `/api/page/files?after=${position}-1`;
  }
  for (const typed of TYPED)
    yield `/api/complete?q=${encodeURIComponent(typed)}&at=${typed.length}`;
  for (const range of ['30d', '90d', '1y', 'all'])
    yield `/api/page/dashboard?range=${range}&tz=UTC`;
  yield '/api/changes?columns=20';
  for (const hours of [0, 0.5, 1, 1.5, 2, 2.5, 3, 4, 4.5, 24]) {
    const then = START + hours * HOUR;
    yield `/api/moment?at=${then}`;
    yield `/api/changes?from=${START}&to=${then}&columns=7`;
    for (const way of ['next', 'previous']) yield `/api/changes/${way}?than=${then}`;
  }
  for (const tab of ['', '/folders', '/quarantine', '/held', '/runs'])
    for (const prefix of ['', '/api/page']) yield `${prefix}/health${tab}`;
  for (const page of ['/', '/you', '/api/session', '/api/look', '/api/saved']) yield page;
  const file = createHash('sha256').update('the timetable of the ferry').digest('hex');
  for (const prefix of ['', '/api/page']) yield `${prefix}/files?a=${file}`;
  for (const source of ALL)
    for (const id of source === shared
      ? [idOf(source), idOf(source).slice(0, 8)]
      : [idOf(source)]) {
      for (const view of VIEWS)
        for (const page of [`/m/${id}?`, `/api/page/m/${id}?`, `/api/message?m=${id}&`])
          yield `${page}view=${view}`;
      for (const part of ['html', 'source', 'attachments/1']) yield `/m/${id}/${part}`;
    }
}

/** What two servers differ in, whatever they serve: where the archive lies, and what is random. */
function plain(text: string, { archive, served }: Side): string {
  return text
    .replaceAll(archive.dir, 'DIR')
    .replaceAll(served.host, 'HOST')
    .replace(/name="token" value="[^"]*"/g, 'TOKEN')
    .replace(/name="id" value="[^"]*"/g, 'ID')
    .replace(/"(?:id)":"[0-9a-f]{24}"/g, 'ID');
}

/** Without the length: it is stated where a body ends at once, which is up to the machine, and bodies are compared. */
const HEADERS = ['content-type', 'content-disposition', 'location'] as const;

async function answerOf(side: Side, address: string): Promise<string> {
  const { served, cookie } = side;
  const { status, headers, bytes } = await served.ask(address, { headers: served.own(cookie) });
  const isText = /^(?:text|application\/json)/.test(headers['content-type'] ?? '');
  const body = isText ? plain(bytes.toString('utf8'), side) : bytes.toString('base64');
  return JSON.stringify([status, HEADERS.map((name) => headers[name] ?? null), body]);
}

test('no answer differs by what other mailboxes hold', async () => {
  // Pages count as long as there is time: here there always is.
  const { now } = performance;
  performance.now = () => 0;
  onTestFinished(() => {
    performance.now = now;
  });
  let asked = 0;
  for (const address of addresses()) {
    const [alone, ...others] = await Promise.all(sides.map((side) => answerOf(side, address)));
    for (const other of others) expect(other, address).toBe(alone);
    asked += 1;
  }
  expect(asked).toBeGreaterThan(400);
  for (const { served } of sides) expect(served.errors).toEqual([]);
}, 400_000);

test('the numbers of commits count our own only, and an export has no hash of all', async () => {
  for (const side of sides) {
    const { served, cookie } = side;
    const headers = served.own(cookie);
    const frame = JSON.parse((await served.ask('/api/frame?q=', { headers })).text);
    expect(frame.data.consistency.commit).toBe(4);
    const zip = await served.ask('/api/export?q=', { headers });
    expect(zip.headers['content-disposition']).toMatch(
      /^attachment; filename="mailkeep all mail [\d-]{10} commit 4\.zip"/,
    );
    expect(zip.status).toBe(200);
    const changes = JSON.parse((await served.ask('/api/changes?columns=1', { headers })).text);
    expect(changes.data).toMatchObject({ first: START + HOUR, last: START + 4 * HOUR });
  }
});

test('similar words come from our own mailboxes only', async () => {
  const { served, cookie } = sides.at(-1) ?? expect.fail('no archive');
  const spelling = async (query: string, as: string): Promise<string | undefined> => {
    const { text } = await served.ask(`/api/counts?q=${query}`, { headers: served.own(as) });
    return JSON.parse(text).data.nothing.spelling?.query;
  };
  for (const [typed, meant] of [
    ['fery', 'ferry'],
    ['zebrs', undefined],
  ] as const)
    expect(await spelling(typed, cookie)).toBe(meant);
  expect(await spelling('zebrs', await served.signIn())).toBe('zebra');
});

test('events of a limited sign-in begin with the same number', async () => {
  for (const { served, cookie } of sides) {
    const { host, port } = served.web.address;
    const headers = served.own(cookie);
    const asked = httpRequest({ host, port, path: '/api/events', headers, agent: false });
    asked.end();
    const [response]: IncomingMessage[] = await once(asked, 'response');
    if (response === undefined) throw new Error('no answer');
    const [piece] = await once(response, 'data');
    expect(String(piece)).toBe('retry: 5000\n\nevent: commit\ndata: 4\n\n');
    response.on('error', () => {});
    asked.on('error', () => {});
    asked.destroy();
  }
});
