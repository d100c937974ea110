import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage, type ServerResponse } from 'node:http';
import { connect, createServer, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { revokeGrant } from '../../src/fleet/grants.ts';
import { IDENTITY_HEADER, type RequestIdentity } from '../../src/fleet/node-identity.ts';
import { endSession } from '../../src/fleet/sessions.ts';
import { CALLER_HEADER, callerText } from '../../src/web/relayed.ts';
import { GatewayFleet, type GatewayNode, nameOf, OTHER_KEYS } from './servers/gateways.ts';
import { Postgres, withoutPostgres } from './servers/postgres.ts';
import { identityOf, type RawAnswer, RawPeer } from './servers/raw-peer.ts';
import { done } from './servers/scene.ts';

/** What a shard's web interface was asked, as it answers itself. */
interface Echo {
  readonly method: string;
  readonly url: string;
  readonly headers: Record<string, string>;
  readonly body: string;
}

async function echo(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { method, url, headers } = request;
  const body = JSON.stringify({ method, url, headers, body: await text(request) });
  response.writeHead(200, {
    ...{ 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
    ...{ 'set-cookie': ['a=1', 'b=2'], connection: 'keep-alive, x-hop', 'x-hop': 'no' },
  });
  response.end(body);
}

function callerIn({ headers }: Echo) {
  const text = Buffer.from(headers[CALLER_HEADER] ?? '', 'base64url').toString('utf8');
  const { accounts, ...caller } = JSON.parse(text);
  return { ...caller, accounts: accounts.map(({ name }: { name: string }) => name) };
}

describe.skipIf(withoutPostgres())('the gateway', () => {
  let postgres: Postgres;
  let fleet: GatewayFleet;
  let near: GatewayNode;
  let far: GatewayNode;
  let shard: number;
  let accounts: readonly number[];
  /** How the shard's web interface answers. */
  let answer: (request: IncomingMessage, response: ServerResponse) => void;
  let socket: string;

  beforeAll(async () => {
    postgres = await Postgres.start();
  });
  beforeEach(async () => {
    fleet = await GatewayFleet.create(postgres);
    ({ shard, accounts } = await fleet.shard(['acme', 'anna'], ['acme', 'ben'], ['other', 'eve']));
    near = await fleet.node('near');
    far = await fleet.node('far');
    answer = (request, response) => void echo(request, response);
    socket = await fleet.child((request, response) => answer(request, response));
    await near.hold(shard, socket);
  });
  afterEach(async () => {
    await fleet?.end();
  });
  afterAll(async () => {
    await postgres?.stop();
  });

  const anna = () => ({ accounts: accounts.slice(0, 1), mailboxes: null });

  describe('identities', () => {
    let grant: string;
    let known: Pick<RequestIdentity, 'grant' | 'account' | 'shard' | 'epoch'>;
    let peer: RawPeer;
    const open: RawPeer[] = [];
    const connect = async (...args: Parameters<typeof RawPeer.connect>) => {
      const made = await RawPeer.connect(...args);
      open.push(made);
      return made;
    };

    beforeEach(async () => {
      ({ id: grant } = await fleet.grant({ rights: anna() }));
      known = { grant, account: accounts[0] ?? 0, shard, epoch: 1 };
      peer = await connect(near, { kind: 'session', id: far.session });
    });
    afterEach(() => {
      for (const one of open.splice(0)) one.close();
    });

    test('are accepted for the request that they were made for', async () => {
      const body = 'q=ferry';
      const of = { method: 'POST', target: '/mcp?a=1', body };
      const found = await peer.send(peer.sign(identityOf(known, of)), of);
      expect(found.status).toBe(200);
      const asked: Echo = JSON.parse(found.body);
      expect(asked).toMatchObject({ method: 'POST', url: '/mcp?a=1', body });
      expect(asked.headers).not.toHaveProperty(IDENTITY_HEADER);
      expect(asked.headers.host).toBe('mail.example.org');
      expect(callerIn(asked)).toMatchObject({
        ...{ id: grant, accounts: ['acme-anna'], mailboxes: null },
        reached: { secure: true, origin: 'https://mail.example.org' },
      });
      const next = peer.sign(identityOf(known, { sequence: 2 }));
      expect((await peer.send(next)).status).toBe(200);
    });

    /** Each one is refused, and the shard is never asked. */
    const attacks: Readonly<Record<string, () => Promise<RawAnswer>>> = {
      'none at all': () => peer.send(null),
      'no text': () => peer.send('x'),
      'one without a signature': () => peer.send(peer.sign(identityOf(known)).split('.')[0] ?? ''),
      'of another target': () =>
        peer.send(peer.sign(identityOf(known)), { target: '/api/rows?q=in:Zebra' }),
      'of another method': () => peer.send(peer.sign(identityOf(known)), { method: 'HEAD' }),
      'of another body': () =>
        peer.send(peer.sign(identityOf(known, { method: 'POST', body: 'aaa' })), {
          ...{ method: 'POST', body: 'aab' },
        }),
      'with a changed account': async () => {
        const [text = '', signature = ''] = peer.sign(identityOf(known)).split('.');
        const value = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
        const changed = JSON.stringify({ ...value, account: accounts[1] });
        return peer.send(`${Buffer.from(changed).toString('base64url')}.${signature}`);
      },
      'signed by another node': async () => {
        const other = await connect(near, { kind: 'session', id: near.session });
        return peer.send(peer.sign(identityOf(known), other.certificate.privateKey));
      },
      'sent twice on one connection': async () => {
        const header = peer.sign(identityOf(known));
        expect((await peer.send(header)).status).toBe(200);
        return peer.send(header);
      },
      'with an earlier place in the connection': async () => {
        expect((await peer.send(peer.sign(identityOf(known, { sequence: 7 })))).status).toBe(200);
        return peer.send(peer.sign(identityOf(known, { sequence: 6 })));
      },
      'made for another connection of the same node': async () => {
        const other = await connect(near, peer.subject);
        return peer.send(other.sign(identityOf(known), peer.certificate.privateKey));
      },
      'of a session that has ended': async () => {
        done(await endSession(fleet.registry, far.session));
        return peer.send(peer.sign(identityOf(known)));
      },
      'of a session that never was': async () => {
        const other = await connect(near, { kind: 'session', id: randomUUID() });
        return other.send(other.sign(identityOf(known)));
      },
      'of a command for another grant': async () => {
        const { id } = await fleet.grant({ rights: anna() });
        const other = await connect(near, { kind: 'grant', id });
        return other.send(other.sign(identityOf(known)));
      },
    };
    test.each(Object.entries(attacks))('are refused: %s', async (_, attack) => {
      let asked = 0;
      const own = answer;
      answer = (request, response) => {
        asked += 1;
        own(request, response);
      };
      const { status, refused } = await attack();
      expect({ status, refused }).toEqual({ status: 403, refused: 'identity' });
      // Only those that were right first came through.
      expect(asked).toBeLessThanOrEqual(1);
    });

    test('of a command count for its own grant', async () => {
      const own = await connect(near, { kind: 'grant', id: grant });
      expect((await own.send(own.sign(identityOf(known)))).status).toBe(200);
      done(await revokeGrant(fleet.registry, grant, 'x'));
      const again = own.sign(identityOf(known, { sequence: 2 }));
      expect(await own.send(again)).toMatchObject({ status: 403, refused: 'grant' });
    });

    test.each([
      ['an account that the grant does not cover', () => ({ account: accounts[2] ?? 0 }), 'grant'],
      ['a grant that does not exist', () => ({ grant: randomUUID() }), 'grant'],
      ['another shard', () => ({ shard: 99 }), 'moved'],
      ['an earlier epoch', () => ({ epoch: 0 }), 'moved'],
      ['a later epoch', () => ({ epoch: 2 }), 'moved'],
    ])('are refused for %s', async (_, change, refused) => {
      const header = peer.sign(identityOf({ ...known, ...change() }));
      expect(await peer.send(header)).toMatchObject({ refused });
    });

    test('a body beyond the limit is refused before it is read', async () => {
      const header = peer.sign(identityOf(known, { method: 'POST' }));
      peer.socket.write(
        `POST /api/rows HTTP/1.1\r\nhost: x\r\n${IDENTITY_HEADER}: ${header}\r\ncontent-length: 99999999\r\n\r\n`,
      );
      const [bytes] = await once(peer.socket, 'data');
      expect(String(bytes)).toMatch(/^HTTP\/1\.1 413 /);
    });

    test.each([
      ['of another fleet', OTHER_KEYS],
      ['none', null],
    ])('a certificate %s is refused by TLS', async (_, from) => {
      const connected = RawPeer.connect(near, { kind: 'session', id: far.session }, from);
      await expect(connected.then((one) => one.send(null))).rejects.toThrow();
    });
  });

  test('nothing of an identity is accepted from outside, and of the headers only what is for the shard', async () => {
    const { id, secret } = await fleet.grant({ rights: anna() });
    const forged = callerText({
      ...{ id: 'x', name: 'x', accounts: [], mailboxes: null, createdAt: 0 },
      ...{ usedAt: null, expiresAt: null, reached: { host: 'x', origin: 'x', secure: true } },
    });
    const headers = {
      ...{ [CALLER_HEADER]: forged, [IDENTITY_HEADER]: forged, 'X-Mine': 'yes' },
      ...{
        cookie: 'mailkeep-theme=dark; secret=1',
        connection: 'x-hop',
        'x-hop': 'no',
        te: 'gzip',
      },
    };
    for (const node of [near, far]) {
      const { text: body, headers: found } = await node.api('/api/v1/x?y=1', secret, { headers });
      const asked: Echo = JSON.parse(body);
      expect(callerIn(asked)).toMatchObject({ id, accounts: ['acme-anna'] });
      expect(asked.headers).toMatchObject({ 'x-mine': 'yes', host: node.host });
      for (const name of ['authorization', 'x-hop', 'te', IDENTITY_HEADER])
        expect(asked.headers).not.toHaveProperty(name);
      expect(asked.headers.cookie ?? '').not.toContain('secret');
      expect(found['set-cookie']).toEqual(['a=1', 'b=2']);
      expect(found).not.toHaveProperty('x-hop');
    }
  });

  test('a target may be as long as a listener for browsers takes it', async () => {
    const { secret } = await fleet.grant({ rights: anna() });
    const target = `/api/v1/x?q=${'x'.repeat(15_500)}`;
    const { status, text: body } = await far.api(target, secret);
    expect(status).toBe(200);
    expect(JSON.parse(body).url).toBe(target);
  });

  test('a token covers its accounts only, and says which one if it covers several', async () => {
    const both = { accounts: accounts.slice(0, 2), mailboxes: ['one'] };
    const { secret } = await fleet.grant({ rights: both });
    expect(await far.api('/mcp', secret)).toMatchObject({ status: 400 });
    const named = (name: string) =>
      far.api('/mcp', secret, { headers: { 'mailkeep-account': name } });
    expect(callerIn(JSON.parse((await named('ben')).text))).toMatchObject({
      ...{ accounts: ['acme-ben'], mailboxes: ['one'] },
    });
    expect((await named('eve')).status).toBe(404);
    // Accounts of another tenant are not covered, even if they are named.
    const { secret: wrong } = await fleet.grant({
      rights: { accounts: [...accounts], mailboxes: null },
      tenant: 'other',
    });
    expect((await far.api('/mcp', wrong, { headers: { 'mailkeep-account': 'anna' } })).status).toBe(
      404,
    );
    expect(callerIn(JSON.parse((await far.api('/mcp', wrong)).text)).accounts).toEqual([
      'other-eve',
    ]);
    expect((await far.api('/mcp', `${wrong}x`)).status).toBe(401);
  });

  test('a browser that signs in at one node is signed in at all, until it signs out', async () => {
    const expiresAt = new Date(Date.now() + 600_000);
    const { secret } = await fleet.grant({ use: 'link', rights: anna(), expiresAt });
    const old = await fleet.grant({ use: 'link', rights: anna(), expiresAt: new Date(0) });
    for (const code of ['nonsense', old.secret]) expect((await near.enter(code)).status).toBe(403);
    const entered = await near.enter(secret);
    expect(entered.status).toBe(303);
    const value = String(entered.headers['set-cookie']).split(/[=;]/)[1] ?? '';
    expect((await far.enter(secret)).status).toBe(403);
    const rows = (node: GatewayNode) =>
      node.ask('/api/rows', { headers: node.own(node.cookie(value)) });
    for (const node of [near, far]) expect((await rows(node)).status).toBe(200);
    // A link's code or a token is no cookie, and a cookie is no token.
    expect((await far.ask('/api/rows', { headers: far.own(far.cookie(secret)) })).status).toBe(401);
    expect((await far.api('/mcp', value)).status).toBe(401);
    expect((await far.ask('/api/saved', { headers: far.own(far.cookie(value)) })).status).toBe(403);
    const settings = await far.ask('/you', { headers: { cookie: far.cookie(value) } });
    expect(settings.text).toContain('only anna');
    const headers = { ...far.own(far.cookie(value)), 'x-mailkeep': '1' };
    expect((await far.ask('/api/sign-out', { method: 'POST', headers })).status).toBe(200);
    for (const node of [near, far]) expect((await rows(node)).status).toBe(401);
  });

  test('a revoked token is refused at once, and its open answers end', async () => {
    const { id, secret } = await fleet.grant({ rights: anna() });
    answer = (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('first');
    };
    const stream = await opened(far, secret);
    expect(String(await once(stream, 'data'))).toBe('first');
    await near.gateway.check();
    expect(stream.destroyed).toBe(false);
    done(await revokeGrant(fleet.registry, id, 'x'));
    expect((await far.api('/mcp', secret)).status).toBe(401);
    const ended = once(stream, 'error');
    await near.gateway.check();
    expect(String(await ended)).toContain('aborted');
  });

  test('an answer ends when its shard moves, or the node that passes it on is gone', async () => {
    const { secret } = await fleet.grant({ rights: anna() });
    answer = (_, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('first');
    };
    const first = await opened(far, secret);
    const moved = once(first, 'error');
    // Claimed again by the same node: the answer is of an earlier epoch.
    near.held.set(shard, { epoch: 2, socket: async () => socket, nameOf });
    await near.gateway.check();
    await moved;
    near.held.set(shard, { epoch: 1, socket: async () => socket, nameOf });
    const second = await opened(far, secret);
    const gone = once(second, 'error');
    done(await endSession(fleet.registry, far.session));
    await near.gateway.check();
    await gone;
    expect((await far.api('/mcp', secret)).status).toBe(503);
  });

  test('nothing is read from a node whose lease is not renewed', async () => {
    const { secret } = await fleet.grant({ rights: anna() });
    const cookie = await far.signIn(anna());
    expect((await far.api('/mcp', secret)).status).toBe(200);
    // The holder knows that it was not renewed.
    near.held.delete(shard);
    expect((await far.api('/mcp', secret)).status).toBe(503);
    expect((await near.api('/mcp', secret)).status).toBe(503);
    const page = await far.ask('/mail', { headers: { cookie: far.cookie(cookie) } });
    expect(page.status).toBe(503);
    expect(page.text).toContain('cannot be reached now');
    // The registry knows it.
    near.held.set(shard, { epoch: 1, socket: async () => socket, nameOf });
    expect((await far.api('/mcp', secret)).status).toBe(200);
    await near.expire();
    expect((await far.api('/mcp', secret)).status).toBe(503);
    expect(near.errors.length + far.errors.length).toBeGreaterThan(0);
  });

  test('nobody is let in while the registry is away', async () => {
    const { secret } = await fleet.grant({ rights: anna() });
    const cookie = await far.signIn(anna());
    const asked = async () => [
      (await far.api('/mcp', secret)).status,
      (await far.ask('/mail', { headers: { cookie: far.cookie(cookie) } })).status,
      (await far.ask('/api/rows', { headers: far.own(far.cookie(cookie)) })).status,
    ];
    expect(await asked()).toEqual([200, 200, 200]);
    const { database } = fleet;
    await postgres.admin('postgres', async (client) => {
      await client.query(`ALTER DATABASE ${database} WITH ALLOW_CONNECTIONS false`);
      await client.query(
        'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1',
        [database],
      );
    });
    expect(await asked()).toEqual([503, 503, 503]);
    await postgres.admin('postgres', async (client) => {
      await client.query(`ALTER DATABASE ${database} WITH ALLOW_CONNECTIONS true`);
    });
    expect(await asked()).toEqual([200, 200, 200]);
  });

  test('a request follows the shard to its next holder', async () => {
    const { secret } = await fleet.grant({ rights: anna() });
    expect((await far.api('/mcp', secret)).status).toBe(200);
    await near.release(shard);
    expect((await far.api('/mcp', secret)).status).toBe(503);
    await far.hold(shard, socket);
    for (const node of [near, far]) expect((await node.api('/mcp', secret)).status).toBe(200);
    // The node of the holder is switched off.
    const third = await fleet.node('third');
    await far.gateway.close();
    expect((await near.api('/mcp', secret)).status).toBe(503);
    done(await endSession(fleet.registry, far.session));
    await third.hold(shard, socket);
    expect((await near.api('/mcp', secret)).status).toBe(200);
  });

  test('a holder that has no address is reported as such', async () => {
    const { secret } = await fleet.grant({ rights: anna() });
    await near.moveTo('');
    expect((await far.api('/mcp', secret)).status).toBe(503);
    const facts = { node: 'near', address: '', reason: 'no address' };
    expect(far.errors).toMatchObject([{ code: 'fleet-node-unreachable', facts }]);
  });

  const opened = async (node: GatewayNode, secret: string): Promise<IncomingMessage> => {
    const headers = { authorization: `Bearer ${secret}` };
    const asked = httpRequest({ ...node.web, path: '/mcp', headers, agent: false });
    asked.on('error', () => undefined);
    asked.end();
    const [response] = await once(asked, 'response');
    return response;
  };

  test('an answer that is cut off is never taken for a whole one', async () => {
    const { secret } = await fleet.grant({ rights: anna() });
    let cut = () => {};
    answer = (_, response) => {
      response.writeHead(200, { 'content-type': 'text/plain' });
      response.write('first');
      cut = () => void response.destroy();
    };
    const stream = await opened(far, secret);
    await once(stream, 'data');
    const failed = once(stream, 'error');
    cut();
    expect(String(await failed)).toContain('aborted');
  });

  test('a holder that falls silent is given up', async () => {
    const { secret } = await fleet.grant({ rights: anna() });
    const hasty = await fleet.node('hasty', 400);
    answer = (_, response) => {
      response.writeHead(200, { 'content-type': 'text/plain' });
      response.write('first');
    };
    // A cable that is pulled out: no end of the connection is seen.
    const sockets: Socket[] = [];
    const proxy = createServer((socket) => {
      const onward = connect(near.gateway.address);
      sockets.push(socket, onward);
      for (const one of [socket, onward]) one.on('error', () => undefined);
      socket.pipe(onward).pipe(socket);
    });
    await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    const address = proxy.address();
    await near.moveTo(
      `127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`,
    );
    const stream = await opened(hasty, secret);
    expect(String(await once(stream, 'data'))).toBe('first');
    const failed = once(stream, 'error');
    for (const one of sockets) one.unpipe();
    expect(String(await failed)).toContain('aborted');
    proxy.close();
    for (const one of sockets) one.destroy();
    expect((await hasty.api('/mcp', secret)).status).toBe(503);
  });

  test('a client that reads nothing stops the shard, and one that leaves ends its answer', async () => {
    const { secret } = await fleet.grant({ rights: anna() });
    const piece = Buffer.alloc(64 * 1024);
    let written = 0;
    const left = Promise.withResolvers<void>();
    const full = Promise.withResolvers<void>();
    answer = (_, response) => {
      response.writeHead(200, { 'content-type': 'text/plain' });
      response.once('close', () => left.resolve());
      const write = (): void => {
        while (response.write(piece)) written += piece.length;
        written += piece.length;
        full.resolve();
      };
      response.on('drain', write);
      write();
    };
    const stream = await opened(far, secret);
    stream.pause();
    await full.promise;
    // As long as anything still moves, it is written.
    for (let before = -1; before !== written; ) {
      before = written;
      for (let turns = 0; turns < 2_000; turns += 1) await nextTurn();
    }
    expect(written).toBeLessThan(32 * 1024 * 1024);
    stream.destroy();
    await left.promise;
  });

  test('a search finds the newest messages of all shards, and says what it could not ask', async () => {
    const second = await fleet.shard(['acme', 'carl'], ['other', 'dora']);
    const rowsOf = (messages: readonly (readonly [id: string, date: string])[]) =>
      fleet.child((request, response) => {
        const limit = Number(new URL(request.url ?? '', 'http://x').searchParams.get('limit'));
        const hits = messages
          .map(([id, date]) => ({ docid: Date.parse(date), line: { id } }))
          .slice(0, limit);
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify({ data: { hits, problem: null } }));
      });
    near.held.set(shard, {
      ...{ epoch: 1, nameOf },
      socket: async () =>
        rowsOf([
          ['a', '2026-03-01'],
          ['c', '2026-01-01'],
        ]),
    });
    await far.hold(
      second.shard,
      await rowsOf([
        ['b', '2026-02-01'],
        ['d', '2025-01-01'],
      ]),
    );
    const { secret } = await fleet.grant({ rights: { accounts: null, mailboxes: null } });
    const search = async (limit: number) => {
      const { status, text: body } = await far.api(
        `/api/v1/fleet/search?q=x&limit=${limit}`,
        secret,
      );
      expect(status).toBe(200);
      const { messages, missing } = JSON.parse(body).data;
      return [messages.map(({ line }: { line: { id: string } }) => line.id).join(''), missing];
    };
    expect(await search(3)).toEqual(['abc', []]);
    expect(await search(9)).toEqual(['abcd', []]);
    near.held.delete(shard);
    expect(await search(9)).toEqual(['bd', ['anna', 'ben']]);
  });
});
