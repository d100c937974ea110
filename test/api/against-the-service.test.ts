import { afterEach, beforeEach, expect, test } from 'vitest';
import { Accepted } from '../../src/index.ts';
import { fill, mail } from '../sandbox/client.ts';
import { TABLE } from '../sandbox/conformance/table.ts';
import { type Hooked, hooked } from '../sandbox/webhooks/hooked.ts';
import { statuses } from '../sandbox/webhooks/receiver.ts';
import { failureOf, mailboxClient, platformClient } from './test-clients.ts';

/** Every operation of both surfaces: the typed client on one side, the whole service on the other, a socket between. */

let hook: Hooked;
beforeEach(async () => {
  hook = await hooked();
});
afterEach(() => hook.close());

const WITH_FILE = [
  'Subject: with a file',
  'From: Zoë <zoe@example.net>',
  'Message-ID: <file@example.net>',
  'MIME-Version: 1.0',
  'Content-Type: multipart/mixed; boundary=b',
  '',
  '--b',
  'Content-Type: text/plain',
  '',
  'See the file.',
  '--b',
  'Content-Type: application/pdf',
  'Content-Disposition: attachment; filename="a.pdf"',
  'Content-Transfer-Encoding: base64',
  '',
  'JVBERi0=',
  '--b--',
  '',
].join('\r\n');

/** Names of the operations of a surface that the service answered with a success it declares. */
function succeeded(surface: 'mailbox' | 'platform'): string[] {
  const { byOutcome } = hook.served.sandbox.requests();
  const prefix = surface === 'platform' ? 'platform.' : '';
  return TABLE.filter((row) => row.surface === surface)
    .filter(({ name, success }) =>
      success.some((status) => (byOutcome[`${prefix}${name} ${status}`] ?? 0) > 0),
    )
    .map(({ name }) => name);
}

const namesOf = (surface: 'mailbox' | 'platform') =>
  TABLE.filter((row) => row.surface === surface).map(({ name }) => name);

async function collected<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}

test('the mailbox surface: all 28 operations', async () => {
  const { sandbox } = hook.served;
  const { client } = mailboxClient(sandbox.mailboxUrl, { token: sandbox.tokens.mailbox });
  fill(hook.served, [mail('one'), WITH_FILE, mail('three'), mail('four')]);
  const { mailboxes } = await client.getCurrentAccount();
  expect(mailboxes.map(({ resourceId, address }) => ({ resourceId, address }))).toEqual(
    sandbox.mailboxes,
  );
  const [box = '', other = ''] = mailboxes.map(({ resourceId }) => resourceId);
  const [, to = ''] = mailboxes.map(({ address }) => address);
  const inbox = { mailbox: box, folder: 'INBOX' };
  const at = (uid: number) => ({ ...inbox, uid });

  await client.submitFeedback(box, { score: 10, message: 'Fine.' });
  const { quotas } = await client.getQuota(box);
  expect(quotas).toContainEqual(expect.objectContaining({ resourceName: 'MESSAGE', usage: 4 }));

  const work = { mailbox: box, folder: 'INBOX.Räume & 100%/a' };
  const halls = { mailbox: box, folder: 'INBOX.Halls #2?' };
  // A slash is no part of a name here; the client hands the refusal on with the service's code.
  const refusal = await failureOf(client.createFolder(box, work.folder));
  expect(refusal).toMatchObject({ code: 'origin.status', facts: { status: 422 } });
  const rooms = await client.createFolder(box, 'INBOX.Räume & 100');
  expect(rooms).toMatchObject({ path: 'INBOX.Räume & 100', name: 'Räume & 100', messageCount: 0 });
  const renamed = await client.updateFolder({ mailbox: box, folder: rooms.path }, halls.folder);
  expect(renamed.path).toBe(halls.folder);
  const folders = await client.listFolders(box, { perPage: 2 });
  expect([folders.items.length, folders.total]).toEqual([2, 5]);
  expect((await collected(client.eachFolder(box))).map(({ path }) => path)).toContain(halls.folder);

  const page = await client.listMessages(inbox, { perPage: 3, sort: 'uid' });
  expect(page).toMatchObject({ page: 1, perPage: 3, total: 4 });
  expect(page.items.map(({ uid, subject }) => [uid, subject])).toEqual([
    [1, 'one'],
    [2, 'with a file'],
    [3, 'three'],
  ]);
  expect(await collected(client.eachMessage(inbox, { perPage: 3 }))).toHaveLength(4);
  const found = await client.searchMessages(inbox, { uid: '2:*', subject: 'FILE' });
  expect(found.items.map(({ uid }) => uid)).toEqual([2]);
  expect(await collected(client.eachFound(inbox, { uid: '2:3' }, { perPage: 1 }))).toHaveLength(2);

  const { attachments, flags } = await client.getMessage(at(2));
  expect([flags, attachments.map(({ filename }) => filename)]).toEqual([[], ['a.pdf']]);
  const source = await client.getMessageSource(at(2));
  expect(source).toMatchObject({ kind: 'buffer', bytes: Buffer.from(WITH_FILE, 'latin1') });
  const file = await client.getMessageAttachment(at(2), attachments[0]?.id ?? '');
  expect(file).toMatchObject({ kind: 'buffer', bytes: Buffer.from('%PDF-') });
  expect((await client.getMessage(at(2))).flags).toEqual([]);
  expect((await client.getMessageText(at(2))).text).toContain('See the file.');
  expect((await client.getMessage(at(2))).flags).toEqual(['\\Seen']);

  expect((await client.patchMessage(at(1), { addFlags: ['\\Flagged'] })).flags).toEqual([
    '\\Flagged',
  ]);
  const changed = await client.updateMessageFlags(inbox, {
    uids: [1, 99],
    removeFlags: ['\\Flagged'],
  });
  expect(changed).toMatchObject({ successful: [1], failed: [{ uid: 99 }] });

  await client.moveMessage(at(1), halls.folder);
  await client.moveMessages(inbox, [3], halls.folder);
  await client.deleteMessage(at(4));
  expect((await collected(client.eachMessage(inbox))).map(({ uid }) => uid)).toEqual([2]);
  await client.deleteMessages(halls, [1]);
  expect((await collected(client.eachMessage(halls))).map(({ uid }) => uid)).toEqual([2]);
  await client.deleteAllMessages(halls);
  expect((await client.listMessages(halls)).total).toBe(0);
  await client.deleteFolder(halls);
  expect((await client.listFolders(box)).total).toBe(4);

  const receiver = await hook.receiver();
  const created = await client.createWebhook(other, {
    name: 'mirror',
    url: receiver.url,
    events: ['message.received'],
  });
  const webhook = { mailbox: other, webhookId: created.id };
  const { secret } = await client.regenerateWebhookSecret(webhook);
  expect(secret).not.toBe(created.secret);
  expect(await client.testWebhook(webhook)).toMatchObject({ success: true, httpStatus: 200 });

  await client.sendEmail(box, {
    to: [to],
    subject: 'Re: with a file',
    text: 'Thanks.',
    attachments: [{ filename: 'ok.txt', content: 'b2s=', contentType: 'text/plain' }],
    inReplyTo: { uid: 2, folder: 'INBOX' },
  });
  await hook.settled();
  expect((await client.getMessage(at(2))).flags).toEqual(['\\Answered', '\\Seen']);
  const arrived = await client.listMessages({ mailbox: other, folder: 'INBOX' });
  expect(arrived.items).toMatchObject([
    { subject: 'Re: with a file', inReplyTo: '<file@example.net>' },
  ]);
  expect((await client.listMessages({ mailbox: box, folder: 'INBOX.Sent' })).total).toBe(1);
  expect(receiver.got.map(({ headers }) => headers.authorization)).toEqual([
    `Bearer ${secret}`,
    `Bearer ${secret}`,
  ]);

  const paused = await client.updateWebhook(webhook, { status: 'paused', description: 'later' });
  expect(await client.getWebhook(webhook)).toEqual(paused);
  expect(paused).not.toHaveProperty('secret');
  expect((await client.listWebhooks(other, { status: 'active' })).total).toBe(0);
  expect(await collected(client.eachWebhook(other))).toEqual([paused]);
  await client.deleteWebhook(webhook);
  expect(await failureOf(client.getWebhook(webhook))).toMatchObject({ facts: { status: 404 } });

  expect(succeeded('mailbox')).toEqual(namesOf('mailbox'));
});

test('the platform surface: all 9 operations', async () => {
  const { sandbox } = hook.served;
  const { client } = platformClient(sandbox.platformUrl, { token: sandbox.tokens.platform });
  const boxes = await collected(client.eachMailbox(hook.orderId, { perPage: 1 }));
  expect(boxes.map(({ id, address, status }) => [id, address, status])).toEqual(
    sandbox.mailboxes.map(({ resourceId, address }) => [resourceId, address, 'active']),
  );
  const { items } = await client.listMailboxes(hook.orderId, { search: 'office' });
  expect(items.map(({ address }) => address)).toEqual(['office@example.org']);

  const receiver = await hook.receiver(statuses(200, 503, 200));
  const created = settledAnswer(
    await client.createWebhook(boxes[0]?.id ?? '', {
      name: 'mirror',
      url: receiver.url,
      events: ['message.received'],
    }),
  );
  const { secret } = settledAnswer(await client.regenerateWebhookSecret(created.id));
  expect(secret).not.toBe(created.secret);
  const tested = settledAnswer(await client.testWebhook(created.id));
  expect(tested).toEqual({ http_status: 200, is_successful: true, error: null });

  // Newest first: what came of the mail stands before the test.
  hook.clock.pass(1000);
  await hook.arrive();
  hook.clock.pass(60_000);
  await hook.settled();
  const logged = await client.listDeliveryLogs(hook.orderId, { mailboxId: boxes[0]?.id ?? '' });
  expect(logged.items[0]).toMatchObject({
    mailbox_address: boxes[0]?.address,
    webhook_url: receiver.url,
    is_successful: true,
    retry_count: 1,
    max_retry_count: 5,
  });
  expect(await collected(client.eachDeliveryLog(hook.orderId, { perPage: 1 }))).toHaveLength(
    logged.total,
  );
  expect(receiver.got.map(({ headers }) => headers.authorization)).toEqual(
    Array.from({ length: 3 }, () => `Bearer ${secret}`),
  );

  const paused = settledAnswer(await client.updateWebhook(created.id, { status: 'paused' }));
  expect(await client.getWebhook(created.id)).toEqual(paused);
  expect(paused).toMatchObject({ status: 'paused', mailbox: { id: boxes[0]?.id } });
  const { items: listed } = await client.listWebhooks(hook.orderId, { status: 'paused' });
  expect(listed).toEqual([paused]);
  expect(await collected(client.eachWebhook(hook.orderId, { perPage: 1 }))).toEqual([paused]);
  const { message } = settledAnswer(await client.deleteWebhook(created.id));
  expect(message).toMatch(/./);
  expect(await failureOf(client.getWebhook(created.id))).toMatchObject({ facts: { status: 404 } });

  expect(succeeded('platform')).toEqual(namesOf('platform'));
});

/** The service never answers 202 unless it is asked to. */
function settledAnswer<T>(answer: T | Accepted): T {
  if (answer instanceof Accepted) throw new Error('202');
  return answer;
}
