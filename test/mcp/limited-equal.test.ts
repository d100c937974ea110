import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { mailboxKey, openState, type StateFile } from '../../src/core/state.ts';
import { ApiTokens } from '../../src/web/api-tokens.ts';
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
} from '../web/equal-archives.ts';
import { idOf, Served, withoutHaste } from '../web/served.ts';

/* As test/web/limited-equal.test.ts, for tokens: of the API over the archive, and of assistants. */

interface Side {
  readonly archive: StoredArchive;
  readonly served: Served;
  readonly state: StateFile;
  readonly secret: string;
}

const HOST = 'mail.example.net';
const sides: Side[] = [];

beforeAll(async () => {
  for (const [i, other] of OTHERS.entries()) {
    const archive = await archiveWith(other);
    const state = openState(archive.dir);
    // The configuration names accounts of others too.
    const names = ['anna-account', 'zebra-account', 'okapi-account'].slice(0, i + 1);
    const accounts = () => new Map(names.map((name) => [name, HOST]));
    const served = await new Served().start(archive.dir, { state, accounts });
    const mailboxes = [mailboxKey({ host: HOST, mailbox: `AC-${OURS}` })];
    const { secret } = new ApiTokens(state).create(
      { name: 'one', mailboxes, expiresAt: null },
      served.now,
    );
    sides.push({ archive, served, state, secret });
  }
});
beforeEach(withoutHaste);
afterAll(async () => {
  for (const { archive, served, state } of sides) {
    await served.close();
    state.close();
    archive.remove();
  }
});

const MINE = [ferry, reply, gone, shared, timetable, menu].map(idOf);
const ALIEN = [...theirs, theirFile].map(idOf);
const UNKNOWN = 'e'.repeat(64);
const moment = (hours: number): string =>
  `${new Date(START + hours * HOUR).toISOString().slice(0, 19)}Z`;

type Answered = readonly [status: number, type: string, text: string];

async function rpc({ served, secret }: Side, method: string, params: object): Promise<Answered> {
  const { status, headers, text } = await served.ask('/mcp', {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      authorization: `Bearer ${secret}`,
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  return [status, headers['content-type'] ?? '', plain(text)];
}

function tool(side: Side, name: string, args: object): Promise<Answered> {
  return rpc(side, 'tools/call', { name, arguments: args });
}

async function api({ served, secret }: Side, path: string, body?: object): Promise<Answered> {
  const { status, headers, text } = await served.ask(path, {
    method: body === undefined ? 'GET' : 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  return [status, headers['content-type'] ?? '', text];
}

/** Every answer has a marker of its own. */
function plain(text: string): string {
  const marker = /⟦([0-9a-f]{24}) /.exec(text)?.[1];
  return marker === undefined ? text : text.replaceAll(marker, 'MARKER');
}

const QUERIES = [
  ...['', 'ferry', 'zebra', 'timetable', 'in:INBOX', 'in:Zebra', `mailbox:${THEIRS}`],
  ...['account:nobody', 'account:zebra-account', 'account:okapi-acount', `account:${HOST}`],
  ...['is:deleted', 'is:unread', 'has:attachment', 'from:zebra@example.org', '@zebra'],
  ...[1.5, 2.5, 3.5, 5].map((hours) => `asof:${moment(hours)}`),
  ...[`thread:${MINE[0]}`, `id:${ALIEN[0]}`, `thread:${ALIEN[0]}`, `NOT id:${ALIEN[1]}`],
];
const KINDS = ['from', 'to', 'domain', 'year', 'month', 'mailbox', 'folder', 'type'];

function* calls(): Generator<readonly [string, object]> {
  for (const query of QUERIES) {
    for (const sort of ['newest', 'oldest'])
      yield ['search', { query, sort, limit: 2, everywhere: true, facets: sort === 'newest' }];
    for (const limit of [1, 2, 50]) yield ['list_attachments', { query, limit, everywhere: true }];
    for (const by of KINDS) yield ['aggregate', { by, query }];
  }
  for (const id of [...MINE, ...ALIEN, UNKNOWN, ...ALIEN.map((one) => one.slice(0, 6))]) {
    yield ['get_message', { id }];
    yield ['get_thread', { id }];
    for (const number of [1, 2]) yield ['get_attachment_text', { id, number }];
    yield ['search', { after: id }];
  }
  for (const after of ['@1', '@999999999999999', '@-1', '', 'x', '@NaN', '__proto__'])
    for (const name of ['search', 'list_attachments']) yield [name, { after }];
  for (const position of POSITIONS) {
    for (const sort of ['newest', 'oldest']) yield ['search', { after: `@${position}`, sort }];
    for (const number of [0, 1, 2]) yield ['list_attachments', { after: `${position}-${number}` }];
  }
  yield ['status', {}];
  yield ['list_folders', {}];
}

describe('a token of one mailbox', () => {
  test('gets the same answers from tools, whatever other mailboxes hold', async () => {
    const { now } = performance;
    performance.now = () => 0;
    try {
      for (const [name, args] of calls()) {
        const [alone, ...others] = await Promise.all(sides.map((side) => tool(side, name, args)));
        for (const other of others) expect([name, args, other]).toEqual([name, args, alone]);
      }
    } finally {
      performance.now = now;
    }
    for (const { served } of sides) expect(served.errors).toEqual([]);
  }, 240_000);

  test('cannot tell a message of another mailbox from none', async () => {
    for (const side of sides)
      for (const id of ALIEN) {
        const same = async (ask: (id: string) => Promise<Answered>) =>
          expect((await ask(id)).map(String)).toEqual(
            (await ask(UNKNOWN)).map((part) => String(part).replaceAll(UNKNOWN, id)),
          );
        await same((one) => tool(side, 'get_message', { id: one }));
        await same((one) => tool(side, 'get_thread', { id: one }));
        await same((one) => tool(side, 'get_attachment_text', { id: one, number: 1 }));
        await same((one) => tool(side, 'search', { after: one }));
        await same((one) => tool(side, 'search', { query: `id:${one}` }));
        await same((one) => tool(side, 'search', { query: `thread:${one}` }));
        await same((one) => rpc(side, 'resources/read', { uri: `mail://${THEIRS}/${one}` }));
      }
  }, 120_000);

  test('gets the same answers from the API', async () => {
    const own = `/api/v1/mailboxes/AC-${OURS}`;
    const paths = ['/api/v1/me', `${own}/folders`, `${own}/quota`, `${own}/webhooks`];
    for (const asOf of ['', ...[0.5, 2.5].map((hours) => `?asOf=${moment(hours)}`)]) {
      paths.push(`${own}/folders${asOf}`);
      for (const folder of ['INBOX', 'Work%2FPlans', 'Zebra']) {
        paths.push(`${own}/folders/${folder}/messages${asOf}`);
        for (const uid of ['1', '3', '99', '1001', '-1', 'NaN', '9'.repeat(16)])
          for (const rest of ['', '/source', '/text', '/attachments/1'])
            paths.push(`${own}/folders/${folder}/messages/${uid}${rest}${asOf}`);
      }
    }
    for (const path of paths) {
      const [alone, ...others] = await Promise.all(sides.map((side) => api(side, path)));
      for (const other of others) expect([path, other]).toEqual([path, alone]);
    }
    for (const body of [{}, { text: 'zebra' }, { text: 'ferry' }, { uid: '1:*' }]) {
      const path = `${own}/folders/INBOX/messages/search`;
      const [alone, ...others] = await Promise.all(sides.map((side) => api(side, path, body)));
      for (const other of others) expect([body, other]).toEqual([body, alone]);
    }
    for (const side of sides) {
      const [theirs_, nobodys] = [THEIRS, 'nobody@example.org'].map(
        (address) => `/api/v1/mailboxes/AC-${address}`,
      );
      for (const path of paths) {
        const [a, b] = await Promise.all([
          api(side, path.replace(own, theirs_ ?? '')),
          api(side, path.replace(own, nobodys ?? '')),
        ]);
        expect([path, a]).toEqual([
          path,
          b.map((part) =>
            typeof part === 'string' ? part.replaceAll('nobody@example.org', THEIRS) : part,
          ),
        ]);
      }
    }
  }, 240_000);
});
