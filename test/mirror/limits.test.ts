import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import type { Catalog } from '../../src/catalog/catalog.ts';
import type { ApiToken } from '../../src/core/state.ts';
import { factsTest } from '../../src/service/surface.ts';
import { ContentThreads, TokenQueue } from '../../src/web/content-threads.ts';
import { MirrorSurface, MirrorView } from '../../src/web/mirror.ts';
import { ServedArchive } from '../../src/web/served-archive.ts';
import { matchingSources } from '../../src/web/source-jobs.ts';
import { mail } from '../sandbox/client.ts';
import { TABLE } from '../sandbox/conformance/table.ts';
import { deliver, type Mirrored, mirrored } from './mirrored.ts';

const OWN = 'http://mirror.test';
const LARGE = `${mail('large')}${`${'x'.repeat(76)}\r\n`.repeat(20_000)}`;

const FILE = Buffer.alloc(1_500_000, 'attached');
const WITH_FILE = [
  'Subject: file',
  'MIME-Version: 1.0',
  'Content-Type: application/octet-stream; name="file.bin"',
  'Content-Transfer-Encoding: base64',
  '',
  FILE.toString('base64').replaceAll(/.{76}/g, '$&\r\n'),
  '',
].join('\r\n');

let both: Mirrored;
let archive: ServedArchive;

beforeAll(async () => {
  both = await mirrored({ seed: 9, mail: { messages: 0 } });
  for (const subject of ['one', 'two', 'three']) deliver(both.sandbox, mail(subject));
  deliver(both.sandbox, LARGE);
  deliver(both.sandbox, WITH_FILE);
  await both.sync();
  archive = new ServedArchive(both.place.data);
});

afterAll(async () => {
  await archive.close();
  await both.close();
});

interface SurfaceOptions {
  readonly clock?: () => number;
  readonly isValid?: () => boolean;
  /** Called before the archive is opened for a request. */
  readonly beforeHold?: () => void;
  /** Changes the catalog that requests get. */
  readonly catalogOf?: (catalog: Catalog) => Catalog;
  /** What its tokens reach. */
  readonly mailboxes?: readonly string[] | null;
}

/** The API without its listener, with a clock of its own; every secret is a token of its own. */
function surface(options: SurfaceOptions) {
  const { clock, isValid = () => true, beforeHold = () => {}, mailboxes = null } = options;
  const { catalogOf = (catalog) => catalog } = options;
  const tokenOf = (id: string): ApiToken => ({
    ...{ id, name: id, mailboxes },
    ...{ expiresAt: null, createdAt: 0, usedAt: null },
  });
  const errors: unknown[] = [];
  const mirror = new MirrorSurface({
    archive: {
      dataDir: both.place.data,
      hold() {
        beforeHold();
        const { reader, release } = archive.hold(null);
        return { reader: { ...reader, catalog: catalogOf(reader.catalog) }, release };
      },
    },
    authorize: (secret) => (isValid() ? tokenOf(secret) : undefined),
    state: null,
    onError: (error) => errors.push(error),
    ...(clock === undefined ? {} : { clock }),
  });
  const inbox = `${both.m}/folders/INBOX/messages`;
  const ask = (target: string, { token = 'x', ...init }: RequestInit & { token?: string } = {}) =>
    mirror.fetch(
      new Request(OWN + (target.startsWith('/api/') ? target : inbox + target), {
        ...init,
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
      }),
      OWN,
    );
  const search = (criteria: object) =>
    ask('/search', { method: 'POST', body: JSON.stringify(criteria) });
  return { mirror, ask, search, errors };
}

test('a search that waited or read for more than a minute is 502, and one of less is an answer', async () => {
  for (const [later, status] of [
    [60_000, 502],
    [50_000, 200],
  ] as const) {
    let asked = 0;
    // It begins at 0; its turn comes later.
    const clock = () => {
      asked += 1;
      return asked === 1 ? 0 : later;
    };
    const { mirror, search, errors } = surface({ clock });
    const answer = await search({ subject: 'o' });
    expect([answer.status, await answer.json()]).toMatchObject([
      status,
      status === 200 ? { pagination: { total: 2 } } : { code: 'ERR_SEARCH_TOO_LONG' },
    ]);
    expect(errors).toEqual([]);
    await mirror.close();
  }
});

test('time that runs out among the sources leaves nothing, however many matched', () => {
  const search = (isOver: () => boolean) => {
    let read = 0;
    const found = matchingSources(
      10,
      () => {
        read += 1;
        return Buffer.of(read);
      },
      (source) => source[0] !== 3,
      isOver,
    );
    return { found, read };
  };
  expect(search(() => false)).toEqual({ found: [0, 1, 3, 4, 5, 6, 7, 8, 9], read: 10 });
  for (const allowed of [0, 1, 5, 9, 10]) {
    let left = allowed;
    const { found, read } = search(() => {
      left -= 1;
      return left < 0;
    });
    expect([allowed, found, read]).toEqual([allowed, null, allowed]);
  }
});

test('a client that has gone away is not searched for', async () => {
  const { mirror, search, ask } = surface({});
  const gone = new AbortController();
  gone.abort();
  const body = JSON.stringify({ subject: 'o' });
  expect((await ask('/search', { method: 'POST', body, signal: gone.signal })).status).toBe(502);
  expect((await search({ subject: 'o' })).status).toBe(200);
  await mirror.close();
});

test('a token is answered eight times at once; further requests wait, and too many are 429', async () => {
  const turns = new TokenQueue();
  const leaves = await Promise.all(Array.from({ length: 8 }, () => turns.enter('a')));
  const order: number[] = [];
  const waiting = Array.from({ length: 120 }, async (_, number) => {
    const leave = await turns.enter('a');
    order.push(number);
    leave();
  });
  await expect(turns.enter('a')).rejects.toMatchObject({
    ...{ status: 429, code: 'ERR_RATE_LIMIT', params: { retryAfter: 1 } },
    headers: { 'retry-after': '1' },
  });
  (await turns.enter('b'))();
  expect(order).toEqual([]);
  for (const leave of leaves) {
    leave();
    leave();
  }
  await Promise.all(waiting);
  expect(order).toEqual(Array.from({ length: 120 }, (_, number) => number));
  (await turns.enter('a'))();
});

test('searches that wait hold no turn, and go on in order', async () => {
  const turns = new TokenQueue();
  const order: string[] = [];
  const search = async (number: number, act: () => Promise<void>) => {
    const leave = await turns.enter('a');
    try {
      await turns.alone('a', act);
      order.push(`search ${number}`);
    } finally {
      leave();
    }
  };
  const ends: (() => void)[] = [];
  const atOnce: number[] = [];
  const searches = Array.from({ length: 60 }, (_, number) =>
    search(number, async () => {
      atOnce.push(number);
      await new Promise<void>((resolve) => ends.push(resolve));
    }),
  );
  // All sixty wait, one is carried out, and there are eight turns for others: one is kept, seven end at once.
  const leaves = await Promise.all(Array.from({ length: 8 }, () => turns.enter('a')));
  expect(atOnce).toEqual([0]);
  const later = (async () => {
    const leave = await turns.enter('a');
    order.push('later');
    leave();
  })();
  // The search that is done goes before what came later.
  ends.shift()?.();
  await new Promise((resolve) => setImmediate(resolve));
  expect([order, atOnce]).toEqual([[], [0, 1]]);
  leaves.pop()?.();
  await later;
  expect(order).toEqual(['search 0', 'later']);
  // A place is free again; one more is refused, and keeps no turn.
  const [more, refused] = [search(60, async () => {}), search(61, async () => {})];
  await expect(refused).rejects.toMatchObject({ status: 429, code: 'ERR_RATE_LIMIT' });
  for (const leave of leaves) leave();
  while (order.length < 61) {
    ends.shift()?.();
    await new Promise((resolve) => setImmediate(resolve));
  }
  await Promise.all([...searches, more]);
  expect(atOnce).toEqual(Array.from({ length: 60 }, (_, number) => number));
  expect(order.filter((one) => one !== 'later')).toEqual(
    Array.from({ length: 61 }, (_, number) => `search ${number}`),
  );
  await expect(search(0, () => Promise.reject(new Error('refused by the search')))).rejects.toThrow(
    'refused by the search',
  );
  for (const leave of await Promise.all(Array.from({ length: 8 }, () => turns.enter('a')))) leave();
});

test('a token that is revoked while its requests wait gets none of them answered', async () => {
  let isValid = true;
  const { mirror, ask, errors } = surface({ isValid: () => isValid });
  const bodies: ReadableStreamDefaultController[] = [];
  const answers = Array.from({ length: 8 }, () => {
    const body = new ReadableStream({ start: (controller) => void bodies.push(controller) });
    return ask('/search', { method: 'POST', body, duplex: 'half' } as RequestInit);
  });
  answers.push(ask('/1'), ask('/1/source'));
  isValid = false;
  for (const body of bodies) body.close();
  expect((await Promise.all(answers)).map(({ status }) => status)).toEqual(Array(10).fill(401));
  isValid = true;
  expect((await ask('/1')).status).toBe(200);
  expect(errors).toEqual([]);
  await mirror.close();
});

test('a large source breaks off when its token is revoked', async () => {
  let isValid = true;
  const { mirror, ask } = surface({ isValid: () => isValid });
  const { status, headers, body } = await ask('/4/source');
  expect([status, headers.get('content-length')]).toEqual([200, String(LARGE.length)]);
  const reader = body?.getReader();
  expect((await reader?.read())?.done).toBe(false);
  isValid = false;
  await expect(
    (async () => {
      while ((await reader?.read())?.done === false);
    })(),
  ).rejects.toThrow('revoked');
  await mirror.close();
});

test('clients that leave large sources unread hold no turn', async () => {
  const { mirror, ask } = surface({});
  const unread = await Promise.all(Array.from({ length: 8 }, () => ask('/4/source')));
  expect(unread.map(({ status }) => status)).toEqual(Array(8).fill(200));
  const next = ask('/1');
  for (const { body } of unread) await body?.cancel();
  expect((await next).status).toBe(200);
  await mirror.close();
});

const withFile = z.object({
  data: z.object({ attachments: z.tuple([z.object({ id: z.string() })]) }),
});

test('clients that leave large attachments and texts unread do not pile them up', async () => {
  const { mirror, ask } = surface({});
  const listed = await (await ask('/5')).json();
  const { id } = withFile.parse(listed).data.attachments[0];
  const attachment = await ask(`/5/attachments/${id}`);
  expect(Buffer.from(await attachment.arrayBuffer()).equals(FILE)).toBe(true);
  const text = z.object({ data: z.object({ text: z.string() }) });
  const rendered = text.parse(await (await ask('/4/text')).json());
  expect(rendered.data.text.length).toBeGreaterThan(1_500_000);
  for (const large of [`/5/attachments/${id}`, '/4/text']) {
    const unread = await Promise.all(Array.from({ length: 8 }, () => ask(large)));
    expect(unread.map(({ status }) => status)).toEqual(Array(8).fill(200));
    let answered = false;
    const next = ask('/1').then(({ status }) => {
      answered = true;
      return status;
    });
    // Another token's request that comes later is answered before.
    expect((await ask('/1', { token: 'other' })).status).toBe(200);
    expect([large, answered]).toEqual([large, false]);
    for (const { body } of unread) await body?.cancel();
    expect(await next).toBe(200);
  }
  await mirror.close();
});

test('an archive that cannot be opened takes no turns', async () => {
  let fails = true;
  const { mirror, ask, errors } = surface({
    beforeHold() {
      if (fails) throw new Error('no archive');
    },
  });
  for (let time = 0; time < 9; time += 1) expect((await ask('/1')).status).toBe(500);
  expect(errors).toHaveLength(9);
  fails = false;
  expect((await ask('/1')).status).toBe(200);
  await mirror.close();
});

test('of a mailbox that a token does not reach nothing is read, so that no time is taken', async () => {
  const asked: string[] = [];
  const { mirror, ask, errors } = surface({
    mailboxes: ['another'],
    catalogOf: ({ folders, commitAt }) =>
      new Proxy({ folders, commitAt } as Catalog, {
        get(target, name, receiver) {
          if (!Reflect.has(target, name)) asked.push(String(name));
          return Reflect.get(target, name, receiver);
        },
      }),
  });
  const reads = TABLE.filter(
    ({ surface: of, method, name }) =>
      of === 'mailbox' && (method === 'GET' || name === 'searchMessages') && !name.includes('Acc'),
  );
  expect(reads).toHaveLength(10);
  const known = both.sandbox.mailboxes[0]?.resourceId ?? '';
  for (const { path: route, method, errors: declared } of reads)
    for (const mailbox of [known, 'ACnothing']) {
      const values = { mailboxResourceId: mailbox, folder: 'INBOX', uid: '5' } as const;
      const target = route.replace(/\{(\w+)\}/g, (_, name) => Object(values)[name] ?? 'part-1');
      const answer = await ask(target, { method, body: method === 'POST' ? '{"text":"o"}' : null });
      expect(declared).toContain(answer.status);
      expect([answer.status, await answer.json()]).toEqual([
        declared.includes(404) ? 404 : 403,
        {
          ...{ code: 'ERR_MAILBOX_NOT_FOUND', error: 'The mailbox does not exist' },
          params: { mailboxResourceId: mailbox },
        },
      ]);
    }
  expect([asked, errors]).toEqual([[], []]);
  await mirror.close();
});

test('threads that are busy end when the server closes, and so does what waits for them', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-thread-'));
  const file = path.join(folder, 'never.mjs');
  writeFileSync(file, "import { parentPort } from 'node:worker_threads'; parentPort.ref();\n");
  const threads = new ContentThreads({ dataDir: folder }, 1, 3_600_000, pathToFileURL(file));
  let made = 0;
  const job = () => {
    made += 1;
    return { kind: 'text', id: '' } as const;
  };
  const all = [threads.run(job), threads.run(job)];
  const statuses = Promise.all(
    all.map((one) =>
      one.then(
        () => 200,
        (error: { status: number }) => error.status,
      ),
    ),
  );
  await Promise.resolve();
  await threads.close();
  expect(await statuses).toEqual([502, 503]);
  expect(made).toBe(1);
});

test('a flag that a search names many times is compared once', () => {
  let compared = 0;
  const flags = new Proxy(['\\Seen', '\\Flagged'], {
    get(target, name, receiver) {
      if (name === 'some') compared += 1;
      return Reflect.get(target, name, receiver);
    },
  });
  const wanted = Array.from({ length: 100_000 }, (_, i) => (i % 2 === 0 ? '\\SEEN' : '\\seen'));
  const criteria = factsTest({ flags: wanted });
  expect(criteria?.({ flags, received: () => 0, size: () => 0 })).toBe(true);
  expect(compared).toBe(1);
});

test('lists of folders of many moments are not all kept', async () => {
  const asked: (number | null)[] = [];
  const catalog = {
    reached: () => ({ number: 1 }),
    origin: {
      folders: (_: unknown, commit: number | null) => {
        asked.push(commit);
        return [];
      },
    },
  } as unknown as Catalog;
  const view = new MirrorView({ catalog, sources: () => expect.fail('not asked for') });
  const mailbox = { id: 1, host: 'h', mailbox: 'm', address: 'a', resourceId: 'm' };
  const ask = (moment: number) => view.folders(mailbox as never, moment);
  await ask(0);
  await ask(0);
  expect(asked).toEqual([0]);
  for (let moment = 1; moment <= 1_000; moment += 1) await ask(moment);
  await ask(1_000);
  expect(asked).toHaveLength(1_001);
  await ask(0);
  expect(asked).toHaveLength(1_002);
});
