import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import type { ApiToken } from '../../src/core/state.ts';
import { openState, type StateFile } from '../../src/core/state.ts';
import { ApiTokens } from '../../src/web/api-tokens.ts';
import { McpSurface } from '../../src/web/mcp.ts';
import { mailkeep } from '../cli/child.ts';
import { START, StoredArchive, sha256 } from '../export/stored-archive.ts';
import { letter, Served } from '../web/served.ts';

/* Requests that no assistant makes by itself, and an archive with names that show nothing. */

const FOLDER = 'Work\u202e\u{e0041}x';
const ferry = Buffer.from(letter('Ferry', 'When does it leave?'));

let archive: StoredArchive;
let state: StateFile;
let secret = '';
const served = new Served();
beforeAll(async () => {
  archive = await StoredArchive.create();
  const specialUse = { [FOLDER]: '\\Sent\u202e' };
  await archive.store([{ folder: FOLDER, source: ferry }], { at: START, specialUse });
  await mailkeep(['rebuild', '--data', archive.dir, '--quiet']);
  state = openState(archive.dir);
  const named = { name: 'all', mailboxes: null, expiresAt: null };
  secret = new ApiTokens(state).create(named, served.now).secret;
  await served.start(archive.dir, { state });
});
afterAll(async () => {
  await served.close();
  state.close();
  archive.remove();
});

const headers = () => ({
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
  authorization: `Bearer ${secret}`,
});

const post = (body: string) => served.ask('/mcp', { method: 'POST', headers: headers(), body });

/** Sends the header of a request, and the first byte of its body. */
async function begun(length: Readonly<Record<string, string>>): Promise<ClientRequest> {
  const { host, port } = served.web.address;
  const asked = httpRequest({
    ...{ host, port, path: '/mcp', method: 'POST', agent: false },
    headers: { ...headers(), ...length },
  });
  asked.on('error', () => {});
  await new Promise<void>((resolve) => asked.write('{', () => resolve()));
  return asked;
}

const rpc = (method: string, params: object) =>
  post(JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }));

const failed = z.object({ error: z.object({ code: z.number(), message: z.string() }) });

/** The only event of an answer, or its body. */
function dataOf(text: string): unknown {
  return JSON.parse(/^data: (.*)$/m.exec(text)?.[1] ?? text);
}

async function resourceError(uri: string): Promise<string> {
  const { text } = await rpc('resources/read', { uri });
  return failed.parse(dataOf(text)).error.message;
}

describe('a request', () => {
  test('is one message: many in one would take one turn', async () => {
    const status = {
      ...{ jsonrpc: '2.0', method: 'tools/call' },
      params: { name: 'status', arguments: {} },
    };
    const many = Array.from({ length: 50 }, (_, id) => ({ ...status, id }));
    for (const body of [
      JSON.stringify(many),
      ` \r\n\t${JSON.stringify(many)}`,
      `\ufeff${JSON.stringify(many)}`,
      JSON.stringify([{ ...status, id: 1 }]),
      '[]',
    ]) {
      const { status: code, text } = await post(body);
      expect([body.slice(0, 9), code, text]).toEqual([
        body.slice(0, 9),
        400,
        expect.stringContaining('ERR_BATCH'),
      ]);
    }
    expect((await post(JSON.stringify({ ...status, id: 1 }))).status).toBe(200);
  });

  test('has at most 64 KiB, whether or not it says how many before, and others are answered', async () => {
    const left = await begun({ 'content-length': '100' });
    left.destroy();
    for (const length of [{ 'content-length': '300000' }, { 'transfer-encoding': 'chunked' }]) {
      const asked = await begun(length);
      const answer = once(asked, 'response');
      asked.write(' '.repeat(100_000));
      const [response]: IncomingMessage[] = await answer;
      expect([length, response?.statusCode]).toEqual([length, 413]);
      asked.destroy();
    }
    const status = { jsonrpc: '2.0', id: 1, method: 'tools/call' };
    const params = { name: 'status', arguments: {} };
    expect((await post(JSON.stringify({ ...status, params }))).status).toBe(200);
    expect(served.errors).toEqual([]);
  });

  test('that waits for its turn and is left meanwhile is not begun', async () => {
    let begunBy = 0;
    const mcp = new McpSurface({
      use: () => {
        begunBy += 1;
        return Promise.reject(new Error('nothing to read'));
      },
      authorize: () => ({ id: 'one', mailboxes: null }) as ApiToken,
      onError: () => {},
    });
    const call = JSON.stringify({
      ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
      params: { name: 'status', arguments: {} },
    });
    const ask = (body: BodyInit, signal = new AbortController().signal) =>
      mcp.fetch(
        new Request('http://here/mcp', {
          ...{ method: 'POST', headers: headers(), body, signal, duplex: 'half' },
        } as RequestInit),
        'http://here',
      );
    const ends: (() => void)[] = [];
    const slow = Array.from({ length: 8 }, () =>
      ask(new ReadableStream({ start: (body) => void ends.push(() => body.close()) })),
    );
    const leaving = new AbortController();
    const left = ask(call, leaving.signal);
    leaving.abort();
    for (const end of ends) end();
    await Promise.all([...slow, left]);
    expect(begunBy).toBe(0);
    await ask(call);
    expect(begunBy).toBe(1);
    await mcp.close();
  });

  test('to another host than the own is no request to the archive', async () => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' });
    const foreign = { ...headers(), host: 'evil.example' };
    const { status, text } = await served.ask('/mcp', { method: 'POST', headers: foreign, body });
    expect([status, text]).toEqual([421, expect.not.stringContaining('search')]);
  });

  test('is answered with what no cache keeps', async () => {
    const answers = [await rpc('tools/call', { name: 'status', arguments: {} }), await post('{')];
    for (const { headers } of answers) expect(headers['cache-control']).toBe('no-store');
  });
});

test('names of places show everything, whatever they are made of', async () => {
  for (const [name, args] of [
    ['get_message', { id: sha256(ferry) }],
    ['list_folders', {}],
    ['search', {}],
  ] as const) {
    const { text } = await rpc('tools/call', { name, arguments: args });
    expect([name, text]).toEqual([name, expect.stringContaining('Work')]);
    expect([name, text]).not.toEqual([name, expect.stringMatching(/[\u202e\u{e0041}]/u)]);
  }
});

test('every operator that descriptions of tools name is one', async () => {
  const listed = z.object({
    result: z.object({ tools: z.array(z.object({ description: z.string() })) }),
  });
  const { tools } = listed.parse(dataOf((await rpc('tools/list', {})).text)).result;
  const terms = tools.flatMap(({ description }) => description.match(/\b[a-z]+:(?! )[^\s;,]+/g));
  expect(terms).toContain('has:attachment');
  for (const term of terms) expect(() => parseQuery(`ferry ${term}`, { now: START })).not.toThrow();
});

describe('an address of a message', () => {
  const unknown = 'e'.repeat(64);

  test('that is none is refused as one that leads nowhere', async () => {
    const none = 'The archive has no message ';
    expect(await resourceError(`mail://x/${unknown}`)).toBe(`${none}${unknown}.`);
    for (const id of ['zz', 'eee', '..%2f..', '%00', '%E2%80%AE', 'e'.repeat(65)])
      expect([id, await resourceError(`mail://x/${id}`)]).toEqual([
        id,
        expect.stringContaining(none),
      ]);
    expect(served.errors).toEqual([]);
  });

  test('of an archive that cannot be read says nothing of where that lies', async () => {
    rmSync(path.join(archive.dir, 'catalog'), { recursive: true, force: true });
    rmSync(path.join(archive.dir, 'catalog.sqlite'), { force: true });
    const message = await resourceError(`mail://x/${sha256(ferry)}`);
    expect(message).toMatch(/^The archive could not be read/);
    expect(served.errors).not.toEqual([]);
  });
});
