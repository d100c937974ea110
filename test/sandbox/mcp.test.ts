import {
  type CallToolResult,
  Client,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { fill, mail, type Served, serveEmpty } from './client.ts';
import { TABLE } from './conformance/table.ts';

/** Named after the operations of the interface, as its document has them. */
const TOOLS = TABLE.filter(({ surface }) => surface === 'mailbox').map(({ name }) => name);

let served: Served;
let clients: Client[];
beforeEach(async () => {
  served = await serveEmpty();
  clients = [];
});
afterEach(async () => {
  for (const client of clients) await client.close();
  await served.close();
});

type Era = 'legacy' | 'auto';

async function connect(
  token: string | null = served.sandbox.tokens.mailbox,
  era: Era = 'legacy',
): Promise<Client> {
  const client = new Client(
    { name: 'test', version: '1.0.0' },
    { versionNegotiation: { mode: era } },
  );
  clients.push(client);
  const headers = token === null ? {} : { authorization: `Bearer ${token}` };
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${served.sandbox.mcpUrl}/mcp`), {
      requestInit: { headers },
    }),
  );
  return client;
}

/** The JSON text of a result, which its structured content must equal. */
function jsonOf(result: CallToolResult): unknown {
  const [first] = result.content;
  if (first?.type !== 'text') throw new Error('no text');
  const json: unknown = JSON.parse(first.text);
  if (result.isError !== true) expect(result.structuredContent).toEqual(json);
  return json;
}

function mailboxId(index = 0): string {
  return served.sandbox.mailboxes[index]?.resourceId ?? '';
}

describe.each(['legacy', 'auto'] as const)('a client that negotiates: %s', (era) => {
  test('finds every operation as a tool, with what it takes', async () => {
    const client = await connect(undefined, era);
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name).sort()).toEqual([...TOOLS].sort());
    for (const tool of tools) expect(tool.description?.length).toBeGreaterThan(10);
    const search = tools.find(({ name }) => name === 'searchMessages');
    expect(search?.inputSchema).toMatchObject({
      type: 'object',
      additionalProperties: false,
      required: ['mailboxResourceId', 'folder'],
      properties: {
        folder: { type: 'string', description: 'full path of the folder' },
        perPage: { type: 'integer', minimum: 1, maximum: 100 },
        sort: { enum: ['uid', '-uid', 'date', '-date', 'size', '-size'] },
        since: { type: 'string', format: 'date' },
      },
    });
    const hints = (name: string) => tools.find((tool) => tool.name === name)?.annotations;
    expect(hints('getMessage')).toMatchObject({ readOnlyHint: true, destructiveHint: false });
    expect(hints('getMessageText')).toMatchObject({ readOnlyHint: false });
    expect(hints('deleteFolder')).toMatchObject({ readOnlyHint: false, destructiveHint: true });
    const openWorld = tools.filter(({ annotations }) => annotations?.openWorldHint === true);
    expect(openWorld.map(({ name }) => name).sort()).toEqual(
      ['createWebhook', 'sendEmail', 'testWebhook', 'updateWebhook'].sort(),
    );
    const again = tools.filter(({ annotations }) => annotations?.idempotentHint !== true);
    expect(again.map(({ name }) => name).sort()).toEqual([
      'createFolder',
      'createWebhook',
      'moveMessage',
      'moveMessages',
      'regenerateWebhookSecret',
      'sendEmail',
      'submitFeedback',
      'testWebhook',
    ]);
    expect(tools.find(({ name }) => name === 'getMessageSource')?.title).toBe('Get message source');
    for (const { name, title, annotations, outputSchema } of tools) {
      expect([title, annotations?.title]).toEqual([title, title]);
      expect(title).toMatch(/^[A-Z][a-z]+( [a-z]+)*$/);
      const isBytes = name === 'getMessageSource' || name === 'getMessageAttachment';
      if (isBytes) expect(outputSchema).toBeUndefined();
      else
        expect(outputSchema).toMatchObject({
          type: 'object',
          required: expect.arrayContaining(['data']),
        });
    }
    expect(tools.find(({ name }) => name === 'getMessageText')?.outputSchema).toMatchObject({
      properties: {
        data: {
          properties: { text: { type: 'string' }, html: { type: 'string' } },
          required: ['text', 'html'],
        },
      },
    });
  });

  test('reads, changes and deletes', async () => {
    fill(served, [mail('one'), mail('two')]);
    const client = await connect(undefined, era);
    const call = async (name: string, args: Record<string, unknown> = {}) =>
      jsonOf(
        await client.callTool({
          name,
          arguments: { mailboxResourceId: mailboxId(), folder: 'INBOX', ...args },
        }),
      );
    expect(await call('listMessages', { perPage: 1 })).toMatchObject({
      data: [{ uid: 2, subject: 'two' }],
      pagination: { page: 1, perPage: 1, total: 2, totalPages: 2 },
    });
    expect(await call('patchMessage', { uid: 1, addFlags: ['\\Flagged'] })).toMatchObject({
      data: { uid: 1, flags: ['\\Flagged'] },
    });
    expect(await call('searchMessages', { flags: ['\\Flagged'] })).toMatchObject({
      data: [{ uid: 1 }],
      pagination: { total: 1 },
    });
    expect(await call('deleteMessage', { uid: 1 })).toEqual({ data: null });
    expect(await call('getMessage', { uid: 1 })).toEqual({
      error: expect.any(String),
      code: 'ERR_MESSAGE_NOT_FOUND',
      params: { uid: 1 },
    });
  });
});

test('a source comes as text where it is text, and as base64 where it is not, exact either way', async () => {
  const plain = mail('plain', 'X-Note: caf\u00c3\u00a9');
  const latin1 = mail('old', 'X-Note: caf\u00e9');
  fill(served, [plain, latin1]);
  const client = await connect();
  const source = async (uid: number) => {
    const { content } = await client.callTool({
      name: 'getMessageSource',
      arguments: { mailboxResourceId: mailboxId(), folder: 'INBOX', uid },
    });
    const [first] = content;
    if (first?.type !== 'resource') throw new Error('no resource');
    expect(first.resource.mimeType).toBe('message/rfc822');
    return first.resource;
  };
  const first = await source(1);
  if (!('text' in first)) throw new Error('no text');
  expect(Buffer.from(first.text)).toEqual(Buffer.from(plain, 'latin1'));
  const second = await source(2);
  if (!('blob' in second)) throw new Error('no blob');
  expect(Buffer.from(second.blob, 'base64')).toEqual(Buffer.from(latin1, 'latin1'));
});

test('an argument that the tool does not know, or out of its bounds, is a tool error', async () => {
  const client = await connect();
  const base = { mailboxResourceId: mailboxId(), folder: 'INBOX' };
  for (const args of [{ ...base, perPage: 101 }, { ...base, perpage: 10 }, { folder: 'INBOX' }]) {
    const result = await client.callTool({ name: 'listMessages', arguments: args });
    expect(result.isError).toBe(true);
  }
  expect(served.sandbox.requests().byOperation).not.toHaveProperty('listMessages');
});

test('what only the surface can refuse comes in its envelope', async () => {
  const client = await connect();
  const result = await client.callTool({
    name: 'sendEmail',
    arguments: { mailboxResourceId: mailboxId(), subject: 'to nobody' },
  });
  expect(result.isError).toBe(true);
  expect(jsonOf(result)).toMatchObject({ code: 'ERR_VALIDATION_FAILED', params: { fields: {} } });
});

test('folder names of any characters reach the folder', async () => {
  const client = await connect();
  const name = 'INBOX.Zürich & Söhne #1?';
  const call = (tool: string, args: Record<string, unknown>) =>
    client.callTool({ name: tool, arguments: { mailboxResourceId: mailboxId(), ...args } });
  expect((await call('createFolder', { name })).isError).not.toBe(true);
  expect(jsonOf(await call('listMessages', { folder: name }))).toMatchObject({ data: [] });
});

describe('tokens', () => {
  test.each([
    ['none', () => null],
    ['an unknown one', () => 'mbx_unknown'],
    ['one of the platform surface', () => served.sandbox.tokens.platform],
  ])('%s is refused', async (_, token) => {
    await expect(connect(token())).rejects.toThrow();
    const { status } = await served.call('POST /mcp', { token: token(), body: {} });
    expect(status).toBe(401);
  });

  test('one that is revoked in between is refused from then on', async () => {
    const client = await connect();
    served.sandbox.service.tokens.revoke(served.sandbox.tokens.mailbox, Date.now());
    await expect(client.callTool({ name: 'getCurrentAccount' })).rejects.toThrow();
  });

  test('one for some mailboxes sees those and reaches no other', async () => {
    const { orderId } = served.sandbox.service.store.mailboxes.get(mailboxId()) ?? { orderId: '' };
    served.sandbox.service.tokens.put('narrow-token', {
      surface: 'mailbox',
      orderId,
      mailboxes: [mailboxId(1)],
      expiresAt: null,
      revokedAt: null,
    });
    const client = await connect('narrow-token');
    expect(jsonOf(await client.callTool({ name: 'getCurrentAccount', arguments: {} }))).toEqual({
      data: { orderResourceId: orderId, mailboxes: [served.sandbox.mailboxes[1]] },
    });
    const folders = (mailboxResourceId: string) =>
      client.callTool({ name: 'listFolders', arguments: { mailboxResourceId } });
    expect((await folders(mailboxId(1))).isError).not.toBe(true);
    const refused = await folders(mailboxId(0));
    expect(refused.isError).toBe(true);
    expect(jsonOf(refused)).toMatchObject({ code: 'ERR_FORBIDDEN' });
  });
});

test('tool calls count as requests of their operation, and meet its faults', async () => {
  served.sandbox.fault({ kind: 'status', status: 502, operation: 'getQuota', times: 1 });
  served.sandbox.fault({ kind: 'close', operation: 'listFolders', times: 1 });
  const client = await connect();
  const call = (name: string) =>
    client.callTool({ name, arguments: { mailboxResourceId: mailboxId() } });
  expect(jsonOf(await call('getQuota'))).toMatchObject({ code: 'ERR_UPSTREAM_UNREACHABLE' });
  expect(jsonOf(await call('listFolders'))).toMatchObject({ code: 'ERR_UPSTREAM_UNREACHABLE' });
  expect((await call('getQuota')).isError).not.toBe(true);
  expect(served.sandbox.requests().byOutcome).toMatchObject({
    'getQuota 502': 1,
    'getQuota 200': 1,
    'listFolders 0': 1,
  });
});

test('every tool answers what its output schema says', async () => {
  const hook = { name: 'n', url: 'http://127.0.0.1:9/', events: ['message.received'] };
  fill(served, [mail('one'), mail('two'), mail('three'), mail('four')]);
  fill(served, [mail('five')], 'INBOX.Work');
  const client = await connect();
  // The client checks structured content against the schemas that it has listed.
  await client.listTools();
  const call = async (name: string, args: Record<string, unknown> = {}): Promise<unknown> => {
    const result = await client.callTool({
      name,
      arguments: name === 'getCurrentAccount' ? {} : { mailboxResourceId: mailboxId(), ...args },
    });
    expect([name, result.isError ?? false]).toEqual([name, false]);
    expect(result.structuredContent).toHaveProperty('data');
    return jsonOf(result);
  };
  const folder = 'INBOX';
  await call('getCurrentAccount');
  await call('submitFeedback', { score: 9, message: 'Good' });
  await call('getQuota');
  await call('createFolder', { name: 'INBOX.New' });
  await call('updateFolder', { folder: 'INBOX.New', name: 'INBOX.Newer' });
  await call('listFolders');
  await call('deleteFolder', { folder: 'INBOX.Newer' });
  await call('listMessages', { folder });
  await call('searchMessages', { folder, subject: 'one' });
  await call('getMessage', { folder, uid: 1 });
  await call('getMessageText', { folder, uid: 1 });
  await call('patchMessage', { folder, uid: 1, addFlags: ['\\Flagged'] });
  await call('updateMessageFlags', { folder, uids: [1, 99], addFlags: ['\\Seen'] });
  await call('moveMessage', { folder, uid: 1, targetFolder: 'INBOX.Trash' });
  await call('moveMessages', { folder, uids: [2], targetFolder: 'INBOX.Trash' });
  await call('deleteMessage', { folder, uid: 3 });
  await call('deleteMessages', { folder, uids: [4] });
  await call('deleteAllMessages', { folder: 'INBOX.Work' });
  await call('sendEmail', { to: ['ada@example.org'], subject: 's', text: 't' });
  const created = JSON.stringify(await call('createWebhook', hook));
  const webhookId = /"id":"([^"]+)"/.exec(created)?.[1] ?? '';
  await call('listWebhooks');
  await call('getWebhook', { webhookId });
  await call('updateWebhook', { webhookId, description: 'd' });
  await call('regenerateWebhookSecret', { webhookId });
  await call('testWebhook', { webhookId });
  await call('deleteWebhook', { webhookId });
});

test.each(['broken-json', 'html-page'] as const)(
  'an answer that is %s is a tool error',
  async (kind) => {
    served.sandbox.fault({ kind, operation: 'listFolders' });
    const client = await connect();
    await client.listTools();
    const result = await client.callTool({
      name: 'listFolders',
      arguments: { mailboxResourceId: mailboxId() },
    });
    expect(result.isError).toBe(true);
    expect(jsonOf(result)).toMatchObject({ code: 'ERR_UPSTREAM_UNREADABLE' });
  },
);

test('a page of another origin is refused, whatever token it has', async () => {
  const call = (origin: string) =>
    served.call('POST /mcp', {
      headers: { origin, accept: 'application/json, text/event-stream' },
      body: { jsonrpc: '2.0', id: 1, method: 'tools/list' },
    });
  const { port } = new URL(served.sandbox.mcpUrl);
  for (const origin of [
    'https://evil.example',
    'null',
    `http://evil.example:${port}`,
    'http://localhost:1',
  ]) {
    expect(await call(origin)).toMatchObject({
      status: 403,
      json: { code: 'ERR_FORBIDDEN_ORIGIN', error: expect.any(String), params: {} },
    });
  }
  for (const origin of [served.sandbox.mcpUrl, `http://localhost:${port}`]) {
    expect((await call(origin)).status).not.toBe(403);
  }
});

test('similar paths are no routes', async () => {
  for (const path of ['/mcpx', '/mcp/other']) {
    expect((await served.call(`POST ${path}`, { body: {} })).status).toBe(404);
  }
});
