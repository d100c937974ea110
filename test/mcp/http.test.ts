import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { mailkeep } from '../cli/child.ts';
import { type PastArchive, pastArchive } from '../web/browser/archives.ts';
import { WebProgram } from '../web/browser/web-program.ts';

let past: PastArchive;
let web: WebProgram;
beforeAll(async () => {
  past = await pastArchive();
  web = await WebProgram.start(past.data);
});
afterAll(() => web?.stop());

const created = z
  .looseObject({ secret: z.string(), id: z.string() })
  .transform(({ secret, id }) => ({ token: secret, id }));

async function newToken(...args: readonly string[]): Promise<{ token: string; id: string }> {
  const line = ['token', 'create', '--json', '--data', past.data, ...args];
  return created.parse(JSON.parse((await mailkeep(line)).stdout));
}

async function connect(token: string): Promise<Client> {
  const client = new Client({ name: 'test', version: '1.0.0' });
  onTestFinished(() => client.close());
  const requestInit = { headers: { authorization: `Bearer ${token}` } };
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${web.url}/mcp`), { requestInit }),
  );
  return client;
}

const INITIALIZE = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'test', version: '1' },
  },
};

function ask(headers: Readonly<Record<string, string>>, method = 'POST'): Promise<Response> {
  return fetch(`${web.url}/mcp`, {
    method,
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...headers,
    },
    ...(method === 'POST' ? { body: JSON.stringify(INITIALIZE) } : {}),
  });
}

describe('over HTTP', () => {
  test('the official client calls every tool with a token', async () => {
    const { token } = await newToken();
    const client = await connect(token);
    const { tools } = await client.listTools();
    expect(tools).toHaveLength(8);
    const hits = z.looseObject({ messages: z.array(z.looseObject({ id: z.string() })) });
    const all = await client.callTool({ name: 'search', arguments: { query: 'has:attachment' } });
    const id = hits.parse(all.structuredContent).messages[0]?.id ?? '';
    const files = z.looseObject({
      attachments: z.array(
        z.looseObject({ message: z.string(), number: z.int(), type: z.string() }),
      ),
    });
    const listed = await client.callTool({ name: 'list_attachments', arguments: { limit: 50 } });
    const file = files
      .parse(listed.structuredContent)
      .attachments.find(({ type }) => /text|pdf/.test(type));
    const { contents } = await client.readResource({ uri: `mail://any/${id}` });
    expect(JSON.stringify(contents)).toContain(id);
    for (const [name, args] of [
      ['get_attachment_text', { id: file?.message, number: file?.number }],
      ['search', { facets: true }],
      ['get_message', { id }],
      ['get_thread', { id }],
      ['list_attachments', {}],
      ['list_folders', {}],
      ['aggregate', { by: 'month' }],
      ['status', {}],
    ] as const) {
      const { isError, structuredContent } = await client.callTool({ name, arguments: args });
      expect([name, isError ?? false, structuredContent === undefined]).toEqual([
        name,
        false,
        false,
      ]);
    }
  });

  test('a token of a mailbox reaches no other', async () => {
    const { token } = await newToken('--mailbox', 'ada@example.org');
    const [one, all] = [await connect(token), await connect((await newToken()).token)];
    const hits = z.looseObject({ messages: z.array(z.looseObject({ id: z.string() })) });
    const query = 'mailbox:office@example.org -mailbox:ada@example.org';
    const found = await all.callTool({ name: 'search', arguments: { query } });
    const id = hits.parse(found.structuredContent).messages[0]?.id ?? '';
    const unknown = 'e'.repeat(64);
    for (const name of ['get_message', 'get_thread']) {
      const [theirs, nobodys] = [id, unknown].map((one_) =>
        one.callTool({ name, arguments: { id: one_ } }),
      );
      expect(JSON.stringify(await theirs).replaceAll(id, unknown)).toBe(
        JSON.stringify(await nobodys),
      );
    }
    const answers = await Promise.all(
      ['list_folders', 'status', 'search', 'list_attachments'].map((name) =>
        one.callTool({ name, arguments: {} }),
      ),
    );
    expect(JSON.stringify(answers)).not.toContain('"mailbox":"office@example.org"');
  });

  test('without a token that holds there is nothing, whatever else is sent', async () => {
    const { token, id } = await newToken();
    const bearer = { authorization: `Bearer ${token}` };
    expect((await ask(bearer)).status).toBe(200);
    for (const headers of [
      {},
      { authorization: 'Bearer mk_wrong' },
      { authorization: `Basic ${token}` },
      { cookie: `mailkeep-session=${token}` },
    ])
      expect((await ask(headers)).status).toBe(401);
    expect((await ask({ ...bearer, origin: 'https://evil.example' })).status).toBe(403);
    expect((await ask({ ...bearer, origin: web.url })).status).toBe(200);
    expect((await ask(bearer, 'GET')).status).toBe(405);
    const large = await fetch(`${web.url}/mcp`, {
      method: 'POST',
      headers: { ...bearer, 'content-type': 'application/json' },
      body: JSON.stringify({ ...INITIALIZE, more: 'x'.repeat(100_000) }),
    });
    expect(large.status).toBe(413);
    const client = await connect(token);
    await mailkeep(['token', 'revoke', id, '--data', past.data]);
    await expect(client.callTool({ name: 'status', arguments: {} })).rejects.toThrow();
    expect((await ask(bearer)).status).toBe(401);
  });
});
