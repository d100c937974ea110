import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { byId, type Mirrored, mailboxesById, mirrored } from './mirrored.ts';

let both: Mirrored;

beforeAll(async () => {
  both = await mirrored({ seed: 3, mail: { messages: 260 } });
});

afterAll(() => both.close());

const folders = z.object({ data: z.array(z.object({ path: z.string(), messageCount: z.int() })) });
const messages = z.object({
  data: z.array(z.object({ uid: z.int(), attachments: z.array(z.object({ id: z.string() })) })),
});

/** Both give the same answer; returns it. */
async function same(method: string, path: string, body?: unknown) {
  const [theirs, ours] = await Promise.all([
    both.origin(method, path, body),
    both.mirror(method, path, body),
  ]);
  expect({ path, asked: body, ...ours }).toEqual({ path, asked: body, ...theirs });
  return ours;
}

async function paths(): Promise<readonly { readonly path: string; readonly at: string }[]> {
  const { body } = await same('GET', `${both.m}/folders?perPage=100`);
  return folders
    .parse(body)
    .data.filter(({ messageCount }) => messageCount > 0)
    .map(({ path }) => ({ path, at: `${both.m}/folders/${encodeURIComponent(path)}` }));
}

test('folders, page by page', async () => {
  expect((await paths()).length).toBeGreaterThan(2);
  for (const page of [1, 2, 3]) await same('GET', `${both.m}/folders?perPage=3&page=${page}`);
});

test('listings in every order, page by page', async () => {
  for (const { at } of await paths())
    for (const sort of ['uid', '-uid', 'date', '-date', 'size', '-size'])
      for (const page of [1, 2, 9])
        await same('GET', `${at}/messages?perPage=7&page=${page}&sort=${sort}`);
});

test('each message: record, source, text and attachments', async () => {
  let attachments = 0;
  for (const { at } of await paths()) {
    const { body } = await same('GET', `${at}/messages?perPage=100`);
    for (const { uid, attachments: listed } of messages.parse(body).data) {
      await same('GET', `${at}/messages/${uid}`);
      await same('GET', `${at}/messages/${uid}/source`);
      for (const { id } of listed) {
        attachments += 1;
        await same('GET', `${at}/messages/${uid}/attachments/${encodeURIComponent(id)}`);
      }
    }
  }
  expect(attachments).toBeGreaterThan(10);
});

test('the text of a message, which the mirror does not mark as read', async () => {
  const at = (await paths())[0]?.at ?? '';
  const { body } = await both.mirror('GET', `${at}/messages?perPage=20`);
  for (const { uid } of messages.parse(body).data) {
    const before = await both.mirror('GET', `${at}/messages/${uid}`);
    const text = await both.mirror('GET', `${at}/messages/${uid}/text`);
    expect(await both.mirror('GET', `${at}/messages/${uid}`)).toEqual(before);
    expect(text).toEqual(await both.origin('GET', `${at}/messages/${uid}/text`));
  }
  // What the origin marked is what it shows from now on.
  await both.sync();
});

test('searches by every criterion', async () => {
  const criteria = [
    {},
    { uid: '1:5,9' },
    { uid: '100000:*' },
    { flags: ['\\Seen'] },
    { since: '2025-06-01' },
    { before: '2025-06-01' },
    { larger: 5_000 },
    { smaller: 5_000, flags: ['\\Seen'] },
    { subject: 'e' },
    { from: 'a', to: 'zz' },
    { body: 'the' },
    { text: 'example' },
    { header: 'Message-ID:example', body: 'invoice' },
  ];
  for (const { at } of (await paths()).slice(0, 4))
    for (const body of criteria)
      for (const sort of ['-uid', 'size'])
        await same('POST', `${at}/messages/search?perPage=5&sort=${sort}`, body);
});

test('the account but for its order, quota and webhooks', async () => {
  const { body } = await both.mirror('GET', '/api/v1/me');
  expect(mailboxesById(body)).toMatchObject(byId(both.sandbox.mailboxes));
  await same('GET', `${both.m}/webhooks`);
});

test('what is wrong is refused in the same words', async () => {
  const at = (await paths())[0]?.at ?? '';
  for (const path of [
    '/api/v1/nothing',
    `${both.m}/nothing`,
    `${at}/messages?perPage=101`,
    `${at}/messages?page=0`,
    `${at}/messages?sort=subject`,
    `${at}/messages/0`,
    `${at}/messages/999999`,
    `${at}/messages/999999/source`,
    `${at}/messages/1/attachments/none`,
    `${both.m}/folders/Nowhere/messages`,
    '/api/v1/mailboxes/ACnone/folders',
  ])
    await same('GET', path);
  for (const body of [{ uid: 'x' }, { subject: 1 }, { larger: -1 }, []])
    await same('POST', `${at}/messages/search`, body);
});

test('every operation that writes is refused, and says why', async () => {
  const at = (await paths())[0]?.at ?? '';
  const before = await both.mirror('GET', `${both.m}/folders?perPage=100`);
  for (const [method, path] of [
    ['DELETE', `${at}/messages`],
    ['DELETE', `${at}/messages/1`],
    ['DELETE', at],
    ['PUT', at],
    ['PATCH', `${at}/messages/1`],
    ['POST', `${at}/messages/flags`],
    ['POST', `${at}/messages/move`],
    ['POST', `${at}/messages/delete`],
    ['POST', `${at}/messages/1/move`],
    ['POST', `${both.m}/folders`],
    ['POST', `${both.m}/send`],
    ['POST', `${both.m}/feedback`],
    ['POST', `${both.m}/webhooks`],
    ['PATCH', `${both.m}/webhooks/1`],
    ['DELETE', `${both.m}/webhooks/1`],
    ['POST', `${both.m}/webhooks/1/test`],
    ['POST', `${both.m}/webhooks/1/regenerate-secret`],
  ] as const)
    expect([path, await both.mirror(method, path, method === 'DELETE' ? undefined : {})]).toEqual([
      path,
      expect.objectContaining({
        status: 403,
        body: expect.objectContaining({ code: 'ERR_READ_ONLY' }),
      }),
    ]);
  expect(await both.mirror('GET', `${both.m}/folders?perPage=100`)).toEqual(before);
});
