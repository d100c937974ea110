import { once } from 'node:events';
import { type CallToolResult, Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { z } from 'zod';
import { mailkeep, program, start } from '../cli/child.ts';
import { type PastArchive, pastArchive } from '../web/browser/archives.ts';
import { archiveOf } from '../web/served.ts';
import { INJECTIONS, PAYLOAD } from './injections.ts';

const TOOLS = [
  'search',
  'get_message',
  'get_thread',
  'list_attachments',
  'get_attachment_text',
  'list_folders',
  'aggregate',
  'status',
];

const line = z.looseObject({ id: z.string(), mailbox: z.string(), folder: z.string() });
const found = z.looseObject({
  total: z.number(),
  messages: z.array(line),
  next: z.string().nullable(),
});
const facet = z.object({ key: z.string(), messages: z.number() });
const withFacets = z.looseObject({
  total: z.number(),
  facets: z.record(z.string(), z.unknown()).nullable(),
});
const refused = z.object({
  isError: z.literal(true),
  content: z.tuple([z.object({ type: z.literal('text'), text: z.string() })]),
});

let past: PastArchive;
/** Serves all of that archive. */
let client: Client;
beforeAll(async () => {
  past = await pastArchive();
  client = await open(past.data);
});
afterAll(() => client.close());

/** Starts `mailkeep mcp`, as an assistant does. */
async function open(data: string, ...args: readonly string[]): Promise<Client> {
  const client = new Client({ name: 'test', version: '1.0.0' });
  await client.connect(
    new StdioClientTransport({
      command: process.execPath,
      args: [program, 'mcp', '--data', data, ...args],
      stderr: 'pipe',
    }),
  );
  return client;
}

async function connect(data: string, ...args: readonly string[]): Promise<Client> {
  const client = await open(data, ...args);
  onTestFinished(() => client.close());
  return client;
}

async function call(client: Client, name: string, args: object = {}): Promise<CallToolResult> {
  return await client.callTool({ name, arguments: { ...args } });
}

async function data(client: Client, name: string, args: object = {}) {
  const result = await call(client, name, args);
  expect([name, result.isError ?? false, result.content]).toEqual([name, false, result.content]);
  return result.structuredContent;
}

/** Reads the texts of the attachments of what was imported. */
async function withAttachmentTexts(archive: string): Promise<void> {
  const { code, stderr } = await mailkeep(['rebuild', '--data', archive, '--quiet']);
  expect([code, stderr]).toEqual([0, '']);
}

async function refusal(client: Client, name: string, args: object): Promise<string> {
  return refused.parse(await call(client, name, args)).content[0].text;
}

describe('over standard input and output', () => {
  test('every tool is listed as one that only reads, and answers what its schema says', async () => {
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toEqual(TOOLS);
    for (const { name, title, annotations, outputSchema, description } of tools) {
      expect([name, title === undefined, outputSchema === undefined]).toEqual([name, false, false]);
      expect([name, annotations]).toEqual([
        name,
        expect.objectContaining({ readOnlyHint: true, destructiveHint: false }),
      ]);
      expect(description).not.toMatch(/\b(?:path|send)\b/);
    }
    // The client compares each answer with the schema.
    const mail = found.parse(await data(client, 'search', { query: 'has:attachment', limit: 2 }));
    const [first] = mail.messages;
    if (first === undefined) throw new Error('nothing has an attachment');
    const next = found.parse(
      await data(client, 'search', { query: 'has:attachment', limit: 2, after: mail.next }),
    );
    expect(next.messages.map(({ id }) => id)).not.toContain(mail.messages[1]?.id);
    expect(mail.total).toBeGreaterThan(2);
    await data(client, 'get_message', { id: first.id.slice(0, 12), length: 10 });
    await data(client, 'get_thread', { id: first.id });
    await data(client, 'list_attachments', { query: '', limit: 3 });
    await data(client, 'list_folders');
    await data(client, 'status');
    for (const by of ['from', 'to', 'domain', 'year', 'month', 'mailbox', 'folder', 'type'])
      await data(client, 'aggregate', { by });
  });

  test('facets are how many messages a search finds with each of their values', async () => {
    const search = async (query: string, facets = false) =>
      withFacets.parse(await data(client, 'search', { query, facets, limit: 1 }));
    expect((await search('has:attachment')).facets).toBe(null);
    const { total, facets } = await search('has:attachment', true);
    expect(facets).toMatchObject({ counted: total, complete: true });
    const terms = {
      ...{ mailbox: 'mailbox', folder: 'in', year: 'date', month: 'date' },
      ...{ from: 'from', type: 'mime' },
    };
    for (const [by, operator] of Object.entries(terms)) {
      const [first] = z.array(facet).parse(facets?.[by]);
      expect([by, first?.messages]).toEqual([by, expect.any(Number)]);
      const key = first?.key.replace(/^⟦[0-9a-f]{24} | [0-9a-f]{24}⟧$/g, '');
      expect([by, first?.key === key]).toEqual([by, by !== 'from' && by !== 'type']);
      const of = await search(`has:attachment ${operator}:"${key}"`);
      expect([by, key, of.total]).toEqual([by, key, first?.messages]);
    }
  });

  test('Junk and Trash are left out unless they are asked for', async () => {
    const total = async (query: string, everywhere = false) =>
      found.parse(await data(client, 'search', { query, everywhere, limit: 1 })).total;
    const { stdout } = await mailkeep(['search', '--count', '*', '--data', past.data]);
    const all = Number(stdout);
    expect(await total('', true)).toBe(all);
    const junk = await total('in:INBOX.Trash');
    expect(junk).toBeGreaterThan(0);
    expect(await total('')).toBe(all - junk);
  });

  test('limited to a mailbox, it knows no other', async () => {
    const one = await connect(past.data, '--mailbox', 'ada@example.org');
    const other = found.parse(
      await data(client, 'search', { query: 'mailbox:office@example.org' }),
    );
    const id = other.messages[0]?.id ?? '';
    expect(other.total).toBeGreaterThan(0);
    const unknown = 'f'.repeat(64);
    for (const name of ['get_message', 'get_thread'])
      expect(await refusal(one, name, { id })).toBe(
        (await refusal(one, name, { id: unknown })).replace(unknown, id),
      );
    expect(await refusal(one, 'get_attachment_text', { id, number: 1 })).toContain('no message');
    expect(await refusal(one, 'search', { query: 'mailbox:office@example.org' })).toContain(
      'office@example.org',
    );
    const everything = JSON.stringify([
      await data(one, 'search', { query: '', limit: 50, everywhere: true }),
      await data(one, 'list_folders'),
      await data(one, 'status'),
      await data(one, 'aggregate', { by: 'mailbox' }),
      await data(one, 'list_attachments', { everywhere: true }),
    ]);
    expect(everything).toContain('ada@example.org');
    expect(
      z.looseObject({ mailboxes: z.array(z.unknown()) }).parse(await data(one, 'status')).mailboxes,
    ).toHaveLength(1);
    const folders = z.object({ folders: z.array(line.pick({ mailbox: true })) });
    expect(
      new Set(folders.parse(await data(one, 'list_folders')).folders.map(({ mailbox }) => mailbox)),
    ).toEqual(new Set(['ada@example.org']));
  });

  test('a query that cannot be understood is refused as on the command line', async () => {
    expect(await refusal(client, 'search', { query: 'is:nothing' })).toMatch(/is:/);
    expect(await refusal(client, 'get_message', { id: 'ffffffff' })).toBe(
      'The archive has no message ffffffff.',
    );
    expect(await refusal(client, 'get_message', { id: '../../etc/passwd' })).toContain('id');
  });

  test('a message can be read in windows, and by its address', async () => {
    const text = Array.from({ length: 500 }, (_, i) => `line ${i} 𝕏é`).join('\n');
    const archive = await archiveOf({
      long: `Message-ID: <l@example.org>\r\nFrom: a@example.org\r\nSubject: long\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n${text}\r\n`,
    });
    const client = await connect(archive);
    const [hit] = found.parse(await data(client, 'search', { query: 'long' })).messages;
    const id = hit?.id ?? '';
    const window = z.looseObject({
      text: z.string(),
      next_offset: z.number().nullable(),
      total_chars: z.number(),
    });
    let read = '';
    for (let offset: number | null = 0; offset !== null; ) {
      const part = window.parse(await data(client, 'get_message', { id, offset, length: 1_000 }));
      read += unfenced(part.text);
      offset = part.next_offset;
      expect(part.total_chars).toBeGreaterThan(5_000);
    }
    expect(read.trim()).toBe(text);
    // However long the windows are, no character is cut in two.
    let short = '';
    for (let offset: number | null = 0; offset !== null && short.length < 200; ) {
      const part = window.parse(await data(client, 'get_message', { id, offset, length: 7 }));
      expect(part.text).not.toContain('\\u{');
      short += unfenced(part.text);
      offset = part.next_offset;
    }
    expect(text.startsWith(short)).toBe(true);
    const { contents } = await client.readResource({ uri: `mail://imported/${id}` });
    expect(JSON.stringify(contents)).toContain('line 499');
  });

  test('an attachment that a message has twice is read by each of its numbers', async () => {
    const part = (name: string) =>
      `--b\r\nContent-Type: text/plain; name="${name}"\r\nContent-Disposition: attachment; filename="${name}"\r\n\r\nthe same\r\n`;
    const twice = await archiveOf({
      twice: `Message-ID: <t@example.org>\r\nSubject: twice\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n${part('one.txt')}${part('two.txt')}--b--\r\n`,
    });
    await withAttachmentTexts(twice);
    const client = await connect(twice);
    const [hit] = found.parse(await data(client, 'search', { query: 'twice' })).messages;
    const read = z.looseObject({ filename: z.string(), text: z.string() });
    for (const [number, name] of [
      [1, 'one.txt'],
      [2, 'two.txt'],
    ]) {
      const { filename, text } = read.parse(
        await data(client, 'get_attachment_text', { id: hit?.id, number }),
      );
      expect([number, unfenced(filename), unfenced(text).trim()]).toEqual([
        number,
        name,
        'the same',
      ]);
    }
    expect(await refusal(client, 'get_attachment_text', { id: hit?.id, number: 3 })).toContain(
      'no attachment 3',
    );
  });

  test('ends with its input, and writes nothing else', async () => {
    const ended = await mailkeep(['mcp', '--data', past.data]);
    expect([ended.code, ended.stdout, ended.stderr]).toEqual([0, '', '']);
    const { child, ended: signalled } = start(['mcp', '--data', past.data], {
      input: `${JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' })}\n`,
    });
    await once(child.stdout, 'data');
    expect((await signalled).code).toBe(0);
  });
});

describe('what senders wrote', () => {
  let archive: string;
  beforeAll(async () => {
    archive = await archiveOf(INJECTIONS);
    await withAttachmentTexts(archive);
  });

  test('stands between the marks of its answer, visible and without links, whatever it is', async () => {
    const client = await connect(archive);
    const answers: CallToolResult[] = [];
    const ask = async (name: string, args: object = {}) => {
      answers.push(await call(client, name, args));
    };
    const all = found.parse(await data(client, 'search', { query: '' }));
    expect(all.messages).toHaveLength(Object.keys(INJECTIONS).length);
    await ask('search', { query: PAYLOAD });
    await ask('search', { query: '', facets: true });
    for (const { id } of all.messages) {
      await ask('get_message', { id });
      await ask('get_message', { id, quoted: true });
      await ask('get_thread', { id });
      for (const number of [1, 2, 3]) await ask('get_attachment_text', { id, number });
    }
    await ask('list_attachments');
    for (const by of ['from', 'to', 'domain', 'type', 'folder']) await ask('aggregate', { by });
    await ask('search', { query: `in:"${PAYLOAD}"` });
    let seen = 0;
    for (const { content, structuredContent, isError } of answers) {
      for (const part of content) {
        if (part.type !== 'text') throw new Error(`an answer has a ${part.type}`);
        const outside = outsideFences(part.text);
        // A query that names the payload is told back to whoever asked.
        if (isError !== true) expect(outside).not.toContain(PAYLOAD);
        expect(part.text).not.toMatch(/:\/\/|\]\(|[\u200b\u202e]|\u{e0041}/u);
        if (part.text.includes(PAYLOAD)) seen += 1;
      }
      if (structuredContent !== undefined)
        expect(outsideFences(JSON.stringify(structuredContent))).not.toContain(PAYLOAD);
    }
    expect(seen).toBeGreaterThan(10);
    const texts = answers.filter(({ structuredContent }) =>
      Object.hasOwn(structuredContent ?? {}, 'filename'),
    );
    // Of the file and of the calendar.
    expect(texts.map((text) => JSON.stringify(text).includes(PAYLOAD))).toEqual([true, true]);
  });
});

/** What stands outside of the fences of an answer; its notice names their marker. */
function outsideFences(answer: string): string {
  const marker = /Text between ⟦([0-9a-f]{24}) /.exec(answer)?.[1];
  if (marker === undefined) return answer;
  const [notice = '', ...rest] = answer.split('on purpose.');
  return (
    notice +
    rest
      .join('')
      .split(`⟦${marker} `)
      .map((part, at) => {
        if (at === 0) return part;
        const end = part.indexOf(` ${marker}⟧`);
        if (end < 0) throw new Error('a fence has no end');
        return part.slice(end);
      })
      .join('')
  );
}

function unfenced(text: string): string {
  const parts = /^⟦([0-9a-f]{24}) ([\s\S]*) \1⟧$/.exec(text);
  if (parts === null) throw new Error('not fenced');
  return parts[2] ?? '';
}
