import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Reader } from '../../src/catalog/open-reader.ts';
import { EventStreams } from '../../src/web/event-streams.ts';
import { SessionStore, Sessions } from '../../src/web/sessions.ts';
import { archiveOf, letter, NOW, Served } from './served.ts';

let data: string;
beforeAll(async () => {
  data = await archiveOf({ ferry: letter('Ferry', 'When does it leave?') });
});

/** An archive whose commit a test decides. */
class Streams {
  commit = 7;
  /** Of the commits, those about the mailboxes that a listener is limited to. */
  own = 3;
  pending = 0;
  now = NOW;
  readonly errors: unknown[] = [];
  failure: Error | undefined;
  readonly sessions = new Sessions(new SessionStore(null));
  readonly streams = new EventStreams({
    archive: {
      hold: (mailboxes) => {
        if (this.failure !== undefined) throw this.failure;
        const catalog = {
          reached: () => ({ number: mailboxes === null ? this.commit : this.own }),
          index: { pendingCount: () => this.pending },
        };
        const reader = { catalog };
        return { reader: reader as unknown as Reader & { mailboxes: null }, release: () => {} };
      },
    },
    sessions: this.sessions,
    now: () => this.now,
    onError: (error) => this.errors.push(error),
  });

  begin(): string {
    return this.sessions.begin({ agent: 'a browser', mailboxes: null }, this.now).session.key;
  }

  /** Opens a stream; returns a function that reads what has come, up to the next pause. */
  open(key: string, mailboxes: readonly string[] | null = null) {
    const response = this.streams.open({ key, mailboxes });
    const reader = response?.body?.getReader();
    return {
      response,
      read: async () => {
        const piece = await reader?.read();
        return piece?.done === false ? new TextDecoder().decode(piece.value) : null;
      },
      leave: () => reader?.cancel(),
    };
  }
}

test('a stream begins with the commit of now, and names each new one once', async () => {
  const all = new Streams();
  const { read, response } = all.open(all.begin());
  expect(response?.headers.get('content-type')).toBe('text/event-stream');
  expect(await read()).toBe('retry: 5000\n\nevent: commit\ndata: 7\n\n');
  all.streams.tick();
  all.commit = 8;
  all.streams.tick();
  all.streams.tick();
  expect(await read()).toBe('event: commit\ndata: 8\n\n');
  all.now += 20_000;
  all.streams.tick();
  expect(await read()).toBe(':\n\n');
  all.streams.close();
  expect(await read()).toBeNull();
});

test('a commit is named again once words find what it brought', async () => {
  const all = new Streams();
  const { read } = all.open(all.begin());
  await read();
  [all.commit, all.pending] = [8, 40];
  all.streams.tick();
  expect(await read()).toBe('event: commit\ndata: 8\n\n');
  all.pending = 20;
  all.streams.tick();
  all.pending = 0;
  all.streams.tick();
  all.streams.tick();
  all.streams.close();
  expect(await read()).toBe('event: commit\ndata: 8\n\n');
  expect(await read()).toBeNull();
});

test('who is limited to mailboxes hears of their commits only, by a number of their own', async () => {
  const all = new Streams();
  const [whole, limited] = [all.open(all.begin()), all.open(all.begin(), ['ours'])];
  await whole.read();
  expect(await limited.read()).toContain('data: 3\n');
  all.commit = 8;
  all.streams.tick();
  [all.commit, all.own] = [9, 4];
  all.streams.tick();
  all.streams.close();
  expect([await whole.read(), await whole.read()].join()).toMatch(/data: 8\s.*data: 9\s/s);
  expect(await limited.read()).toBe('event: commit\ndata: 4\n\n');
  expect(await limited.read()).toBeNull();
});

test('a session that is ended, or has expired, hears nothing more', async () => {
  const all = new Streams();
  const [ended, other] = [all.begin(), all.begin()];
  const [first, second] = [all.open(ended), all.open(other)];
  await first.read();
  await second.read();
  all.sessions.end(ended);
  all.commit = 8;
  all.streams.tick();
  expect(await first.read()).toBeNull();
  expect(await second.read()).toContain('data: 8');
  all.now += 31 * 86_400_000;
  all.streams.tick();
  expect(await second.read()).toBeNull();
  expect(all.streams.size).toBe(0);
});

test('a browser has few streams, and all of them together not many', () => {
  const all = new Streams();
  const session = all.begin();
  for (let open = 0; open < 8; open += 1) expect(all.open(session).response).not.toBeNull();
  expect(all.open(session).response).toBeNull();
  for (let more = 0; more < 7; more += 1) {
    const other = all.begin();
    for (let open = 0; open < 8; open += 1) expect(all.open(other).response).not.toBeNull();
  }
  expect(all.open(all.begin()).response).toBeNull();
  expect(all.streams.size).toBe(64);
  all.streams.close();
  expect(all.streams.size).toBe(0);
});

test('who leaves, and who reads nothing, is forgotten', async () => {
  const all = new Streams();
  const session = all.begin();
  const gone = all.open(session);
  await gone.read();
  await gone.leave();
  expect(all.streams.size).toBe(0);
  all.open(session);
  for (let commit = 8; commit < 40; commit += 1) {
    all.commit = commit;
    all.streams.tick();
  }
  expect(all.streams.size).toBe(0);
});

test('where the archive cannot be read, streams end, and the error is reported once', async () => {
  const all = new Streams();
  const { read } = all.open(all.begin());
  await read();
  all.failure = new Error('gone');
  all.streams.tick();
  all.streams.tick();
  expect(await read()).toBeNull();
  expect(all.errors).toEqual([all.failure]);
});

const served = new Served();
afterAll(() => served.close());

test('a browser reads the stream, a stranger does not, and a server that closes waits for neither', async () => {
  await served.start(data);
  const cookie = await served.signIn();
  const stranger = await served.ask('/api/events', { headers: served.own('') });
  expect(stranger.status).toBe(401);
  const { host, port } = served.web.address;
  const headers = served.own(cookie);
  const asked = httpRequest({ host, port, path: '/api/events', headers, agent: false });
  asked.end();
  const [response]: IncomingMessage[] = await once(asked, 'response');
  expect(response?.headers['content-type']).toBe('text/event-stream');
  expect(response?.headers['cache-control']).toBe('no-store');
  const pieces: string[] = [];
  response?.setEncoding('utf8').on('data', (piece: string) => pieces.push(piece));
  if (response !== undefined) await once(response, 'data');
  expect(pieces.join('')).toMatch(/event: commit\ndata: [1-9]\d*\n\n/);
  const ended = response === undefined ? undefined : once(response, 'end');
  // A HEAD has no stream: nobody would read it, nor end it.
  for (let asked_ = 0; asked_ < 8; asked_ += 1) {
    const head = await served.ask('/api/events', { method: 'HEAD', headers });
    expect([head.status, head.headers['content-type']]).toEqual([200, 'text/event-stream']);
  }
  await served.close();
  await ended;
  expect(served.errors).toEqual([]);
});
