import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { mailboxKey } from '../../src/state/scopes.ts';
import { mailkeep } from '../cli/child.ts';
import { type Letter, START, StoredArchive } from '../export/stored-archive.ts';
import { letter, Served } from './served.ts';

/*
 * Three archives have the same mailbox, and differ in what else they have: nothing, some, more. Whoever may read that
 * mailbox only must not be able to tell them apart by any byte of any answer.
 */

const HOUR = 3_600_000;
const OURS = 'anna@example.org';
const THEIRS = 'zebra@example.org';

function withFile(name: string, subject: string): Buffer {
  return Buffer.from(
    [
      `Message-ID: <${name}@example.org>`,
      'Date: Tue, 03 Feb 2026 10:00:00 +0000',
      'From: Anna Berg <anna@example.org>',
      `Subject: ${subject}`,
      'MIME-Version: 1.0',
      'Content-Type: multipart/mixed; boundary="b"',
      '',
      '--b',
      'Content-Type: text/html',
      '',
      '<p>See the <b>timetable</b>.</p>',
      '--b',
      `Content-Type: text/plain; name="${name}.txt"`,
      `Content-Disposition: attachment; filename="${name}.txt"`,
      '',
      'the timetable of the ferry',
      '--b--',
      '',
    ].join('\r\n'),
  );
}

const ferry = Buffer.from(letter('Ferry', 'When does it leave?'));
const reply = Buffer.from(letter('Re: Ferry', 'At noon.', ['In-Reply-To: <ferry@example.org>']));
const gone = Buffer.from(letter('Gone', 'Deleted later.'));
/** Also in the other mailbox, and there before it came to ours. */
const shared = Buffer.from(letter('Minutes', 'Known to both.'));
/** In seconds of their own: messages of one second are listed in the order in which the archive met them anywhere. */
const sharedAt = { date: new Date(START + 1000).toISOString() };
const timetableAt = { date: new Date(START + 2000).toISOString() };
const timetable = withFile('timetable', 'Timetable');
const theirs = ['Ferry too', 'Zebra', 'Okapi'].map((subject) =>
  Buffer.from(letter(subject, 'Not for us.', ['In-Reply-To: <ferry@example.org>'])),
);
const theirFile = withFile('okapi', 'Okapi');
/** In the same second as ours, which the catalog numbers together. */
const received = new Date(START).toISOString();
const at = (folder: string, source: Buffer, more: Partial<Letter> = {}): Letter => ({
  ...{ folder, source, date: received, subject: 'As listed' },
  ...more,
});

interface Other {
  readonly letters: readonly Letter[];
  readonly commits: number;
}

const OTHERS: readonly (Other | null)[] = [
  null,
  { letters: [at('INBOX', shared, sharedAt)], commits: 1 },
  {
    letters: [
      at('Zebra', shared, sharedAt),
      ...theirs.map((source) => at('INBOX', source)),
      at('Zebra', theirFile),
      at('Zebra', timetable, timetableAt),
    ],
    commits: 4,
  },
];

/** Writes an archive whose commits about our mailbox are the same, at the same times. */
async function archiveWith(other: Other | null): Promise<StoredArchive> {
  const archive = await StoredArchive.create();
  let spent = 0;
  const others = async (hour: number): Promise<void> => {
    for (let i = 0; i < (other?.commits ?? 0); i += 1) {
      const letters = other?.letters.slice(spent, spent + 2) ?? [];
      spent += letters.length;
      const quarantined = i === 0 ? [{ folder: 'INBOX', uid: 1000 + hour }] : [];
      await archive.store(letters, {
        ...{ mailbox: THEIRS, quarantined },
        at: START + hour * HOUR + (i + 1) * 60_000,
      });
    }
  };
  await others(0);
  await archive.store([at('INBOX', ferry), at('INBOX', gone)], { at: START + HOUR });
  await others(1);
  const second = [
    at('INBOX', reply),
    at('Work/Plans', shared, sharedAt),
    at('INBOX', timetable, timetableAt),
  ];
  await archive.store(second, {
    at: START + 2 * HOUR,
    quarantined: [{ folder: 'INBOX', uid: 99 }],
  });
  await others(2);
  await archive.store([at('INBOX', ferry, { uid: 1, flags: ['\\Seen'] })], {
    at: START + 3 * HOUR,
  });
  await archive.store([], { ended: [{ folder: 'INBOX', uid: 2 }], at: START + 4 * HOUR });
  await others(4);
  const { code, stderr } = await mailkeep(['rebuild', '--data', archive.dir, '--quiet']);
  expect([code, stderr]).toEqual([0, '']);
  return archive;
}

interface Side {
  readonly archive: StoredArchive;
  readonly served: Served;
  readonly cookie: string;
}

const sides: Side[] = [];

beforeAll(async () => {
  for (const other of OTHERS) {
    const archive = await archiveWith(other);
    const served = await new Served().start(archive.dir);
    const key = mailboxKey({ host: 'mail.example.net', mailbox: `AC-${OURS}` });
    sides.push({ archive, served, cookie: await served.signIn([key]) });
  }
});
afterAll(async () => {
  for (const { archive, served } of sides) {
    await served.close();
    archive.remove();
  }
});

const idOf = (source: Buffer) => createHash('sha256').update(source).digest('hex');
const MINE = [ferry, reply, gone, shared, timetable];
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
    yield `/api/spine?q=${q}&tz=UTC`;
    for (const source of [shared, theirFile]) yield `/api/position?q=${q}&at=${idOf(source)}`;
    for (const format of ['zip', 'mbox']) yield `/api/export?q=${q}&format=${format}`;
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

const HEADERS = ['content-type', 'content-length', 'content-disposition', 'location'] as const;

async function answerOf(side: Side, address: string): Promise<string> {
  const { served, cookie } = side;
  const { status, headers, bytes } = await served.ask(address, { headers: served.own(cookie) });
  const isText = /^(?:text|application\/json)/.test(headers['content-type'] ?? '');
  const body = isText ? plain(bytes.toString('utf8'), side) : bytes.toString('base64');
  const shown = HEADERS.filter((name) => !isText || name !== 'content-length');
  return JSON.stringify([status, shown.map((name) => headers[name] ?? null), body]);
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
    expect(frame.data.closing.commit).toBe(4);
    const zip = await served.ask('/api/export?q=', { headers });
    expect(zip.headers['content-disposition']).toContain('mailkeep-commit-4.zip');
    expect(zip.status).toBe(200);
    const changes = JSON.parse((await served.ask('/api/changes?columns=1', { headers })).text);
    expect(changes.data).toMatchObject({ first: START + HOUR, last: START + 4 * HOUR });
  }
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
