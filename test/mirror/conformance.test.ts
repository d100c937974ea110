import { Pool } from 'undici';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import { MailboxClient } from '../../src/service/client.ts';
import { failureOf } from '../api/test-clients.ts';
import { complaints } from '../sandbox/conformance/strict-types.ts';
import { TABLE } from '../sandbox/conformance/table.ts';
import { NOW } from '../web/served.ts';
import { byId, type Mirrored, mirrored } from './mirrored.ts';

/**
 * The operations that read, asked by the typed client and by the strict reader of public types: of the sandbox, and of
 * the archive that was made from it. MAILKEEP_MIRRORED=50000 takes as many messages.
 */

const MESSAGES = Number(process.env.MAILKEEP_MIRRORED ?? 2_000);
/** Messages that are read in every form. */
const READ = Math.max(60, MESSAGES / 100);

let both: Mirrored;
let servers: Readonly<
  Record<'sandbox' | 'mirror', { readonly url: string; readonly token: string }>
>;

beforeAll(
  async () => {
    both = await mirrored({ seed: 31, mail: { messages: MESSAGES } });
    const { sandbox, served, tokens } = both;
    const { secret } = tokens.create({ name: 'typed', mailboxes: null, expiresAt: null }, NOW);
    servers = {
      sandbox: { url: sandbox.mailboxUrl, token: sandbox.tokens.mailbox },
      mirror: { url: served.web.apiUrl, token: secret },
    };
  },
  120_000 + MESSAGES * 20,
);

afterAll(() => both.close());

const CRITERIA = [
  {},
  { uid: '1:50,60:*' },
  { flags: ['\\Seen'] },
  { since: '2025-06-01', before: '2026-06-01' },
  { larger: 2_000, smaller: 50_000 },
  { subject: 'e' },
  { from: 'a', to: 'b', cc: 'c' },
  { uid: '1:200', body: 'the' },
  { uid: '1:200', text: 'example' },
  { uid: '1:200', header: 'Message-ID:@' },
];
const SORTS = ['uid', '-uid', 'date', '-date', 'size', '-size'] as const;

const foldersPage = z.object({
  data: z.array(z.object({ path: z.string(), messageCount: z.int() })),
});
const messagesPage = z.object({
  data: z.array(z.object({ uid: z.int(), attachments: z.array(z.object({ id: z.string() })) })),
  pagination: z.object({ total: z.int(), totalPages: z.int() }),
});

describe.each(['sandbox', 'mirror'] as const)('%s', (name) => {
  let pool: Pool;
  let client: MailboxClient;

  beforeAll(() => {
    const { url: baseUrl, token } = servers[name];
    pool = new Pool(baseUrl, { connections: 4 });
    client = new MailboxClient({
      ...{ baseUrl, token },
      ...{ requestsPerMinute: 10_000_000, concurrency: 4 },
    });
  });

  afterAll(async () => {
    await client.close();
    await pool.close();
  });

  /** Asks, and reads the answer with the strict types of its operation. */
  async function read(operation: string, path: string, body?: object) {
    const answer = await pool.request({
      method: body === undefined ? 'GET' : 'POST',
      path,
      headers: {
        authorization: `Bearer ${servers[name].token}`,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      body: body === undefined ? null : JSON.stringify(body),
    });
    const bytes = Buffer.from(await answer.body.arrayBuffer());
    const isJson = String(answer.headers['content-type']).startsWith('application/json');
    const json: unknown = isJson ? JSON.parse(String(bytes)) : undefined;
    expect([path, answer.statusCode]).toEqual([path, 200]);
    const { headers } = answer;
    expect([path, complaints(`mailbox.${operation}`, { json, bytes, headers })]).toEqual([
      path,
      [],
    ]);
    return { json, bytes };
  }

  test('the strict reader: account, quota, folders, webhooks', async () => {
    await read('getCurrentAccount', '/api/v1/me');
    for (const { resourceId } of both.sandbox.mailboxes) {
      const m = `/api/v1/mailboxes/${resourceId}`;
      await read('getQuota', `${m}/quota`);
      await read('listFolders', `${m}/folders`);
      await read('listWebhooks', `${m}/webhooks`);
    }
  });

  test(
    'the strict reader: every page of every folder, and messages in every form',
    async () => {
      let listed = 0;
      let attachments = 0;
      for (const { resourceId } of both.sandbox.mailboxes) {
        const m = `/api/v1/mailboxes/${resourceId}/folders`;
        const { json } = await read('listFolders', m);
        for (const { path, messageCount } of foldersPage.parse(json).data) {
          const at = `${m}/${encodeURIComponent(path)}/messages`;
          for (let page = 1; ; page += 1) {
            const asked = await read('listMessages', `${at}?perPage=100&page=${page}`);
            const { data, pagination } = messagesPage.parse(asked.json);
            expect([path, pagination.total]).toEqual([path, messageCount]);
            for (const message of data) {
              listed += 1;
              if (listed % Math.ceil(MESSAGES / READ) !== 0) continue;
              const one = `${at}/${message.uid}`;
              await read('getMessage', one);
              await read('getMessageSource', `${one}/source`);
              await read('getMessageText', `${one}/text`);
              for (const { id } of message.attachments) {
                attachments += 1;
                await read('getMessageAttachment', `${one}/attachments/${encodeURIComponent(id)}`);
              }
            }
            if (page >= pagination.totalPages) break;
          }
        }
      }
      expect(listed).toBe(MESSAGES);
      expect(attachments).toBeGreaterThan(10);
    },
    120_000 + MESSAGES * 10,
  );

  test('the strict reader: searches by every criterion, in every order', async () => {
    const search = `${both.m}/folders/INBOX/messages/search`;
    for (const criteria of CRITERIA)
      for (const sort of ['-uid', 'date'])
        await read('searchMessages', `${search}?perPage=10&sort=${sort}`, criteria);
    for (const sort of SORTS)
      await read('listMessages', `${both.m}/folders/INBOX/messages?sort=${sort}`);
  });

  test('the typed client: every operation that reads', async () => {
    const { mailboxes } = await client.getCurrentAccount();
    expect(byId(mailboxes)).toMatchObject(byId(both.sandbox.mailboxes));
    const [mailbox = ''] = mailboxes.map(({ resourceId }) => resourceId);
    const quota = await client.getQuota(mailbox);
    expect([quota.supported, quota.quotas.length]).toEqual([true, 2]);
    const folders = [];
    for await (const folder of client.eachFolder(mailbox)) folders.push(folder);
    expect(folders).toEqual((await client.listFolders(mailbox)).items);
    const inbox = { mailbox, folder: 'INBOX' };
    const count = folders.find(({ path }) => path === 'INBOX')?.messageCount;
    const uids: number[] = [];
    for await (const { uid } of client.eachMessage(inbox, { sort: 'uid' })) uids.push(uid);
    expect([uids.length, uids]).toEqual([count, uids.toSorted((a, b) => a - b)]);
    for (const sort of SORTS) {
      const { items, total } = await client.listMessages(inbox, { perPage: 20, sort });
      expect([sort, items.length, total]).toEqual([sort, Math.min(20, total), count]);
    }
    for (const criteria of CRITERIA) {
      const { total } = await client.searchMessages(inbox, criteria);
      let found = 0;
      if (total <= 500)
        for await (const message of client.eachFound(inbox, criteria))
          found += Number(message.uid > 0);
      expect([criteria, total <= 500 ? found : total]).toEqual([criteria, total]);
    }
    for (const uid of uids.filter((_, i) => i % Math.ceil(uids.length / 20) === 0)) {
      const at = { ...inbox, uid };
      const listing = await client.getMessage(at);
      const source = await client.getMessageSource(at);
      const bytes = source.kind === 'buffer' ? source.bytes : Buffer.alloc(0);
      expect([uid, bytes.length]).toEqual([uid, listing.size]);
      expect(Object.keys(await client.getMessageText(at)).sort()).toEqual(['html', 'text']);
      for (const { id, sizeBytes } of listing.attachments) {
        const part = await client.getMessageAttachment(at, id);
        expect([uid, id, part.kind === 'buffer' && part.bytes.length]).toEqual([
          uid,
          id,
          sizeBytes,
        ]);
      }
    }
    expect((await client.listWebhooks(mailbox)).items).toEqual([]);
    const webhook = { mailbox, webhookId: '01890000-0000-7000-8000-000000000000' };
    expect(await failureOf(client.getWebhook(webhook))).toMatchObject({ facts: { status: 404 } });
  });

  test('what does not exist has a status that its operation declares', async () => {
    const reads = TABLE.filter(
      ({ surface, success, method, name: operation }) =>
        surface === 'mailbox' &&
        success[0] === 200 &&
        (method === 'GET' || operation === 'searchMessages'),
    );
    expect(reads).toHaveLength(11);
    const ask = async (path: string, method: string, token: string) => {
      const answer = await pool.request({
        ...{ method: method as 'GET', path },
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: method === 'POST' ? '{}' : null,
      });
      const envelope = z.strictObject({
        error: z.string().min(1),
        code: z.string().regex(/^ERR_[A-Z_]+$/),
        params: z.record(z.string(), z.unknown()),
      });
      envelope.parse(await answer.body.json());
      return answer.statusCode;
    };
    const { token } = servers[name];
    for (const { name: operation, method, path, errors } of reads) {
      const none = path.replace(/\{(\w+)\}/g, (_, part: string) => (part === 'uid' ? '1' : 'none'));
      expect([operation, await ask(none, method, 'wrong')]).toEqual([operation, 401]);
      if (none !== path) expect(errors, operation).toContain(await ask(none, method, token));
    }
  });
});
