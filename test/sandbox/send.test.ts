import { simpleParser } from 'mailparser';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { fill, mail, type Served, serveEmpty } from './client.ts';

let served: Served;
let now = Date.UTC(2026, 1, 3, 12);
beforeEach(async () => {
  now = Date.UTC(2026, 1, 3, 12);
  served = await serveEmpty({
    now: () => now,
    addresses: ['ada@example.org', 'bob@example.org', 'cleo@example.org'],
  });
});
afterEach(() => served.close());

const send = (body: unknown) => served.call(`POST ${served.m}/send`, { body });

function folderOf(address: string, folder: string): string {
  const mailbox = served.sandbox.mailboxes.find((one) => one.address === address);
  return `/api/v1/mailboxes/${mailbox?.resourceId ?? ''}/folders/${folder}/messages`;
}

async function source(address: string, folder: string, uid: number): Promise<Buffer> {
  const { status, bytes } = await served.call(`GET ${folderOf(address, folder)}/${uid}/source`);
  expect(status).toBe(200);
  return bytes;
}

async function count(address: string, folder: string): Promise<unknown> {
  const { json } = await served.call(`GET ${folderOf(address, folder)}?perPage=1`);
  return typeof json === 'object' && json !== null && 'pagination' in json ? json.pagination : null;
}

describe('sendEmail', () => {
  test('keeps a read copy in INBOX.Sent and brings it to recipients that have a mailbox here', async () => {
    const arrived: string[] = [];
    served.sandbox.service.store.events.on('arrived', ({ mailbox, folder, uid }) => {
      arrived.push(`${mailbox.address} ${folder.path} ${uid}`);
    });
    const { status, bytes } = await send({
      to: ['BOB@example.org', 'elsewhere@example.net'],
      cc: ['cleo@example.org'],
      displayName: 'Ada Lövelace',
      subject: 'Grüße',
      text: 'Hello',
      html: '<b>Hello</b>',
    });
    expect([status, bytes.length]).toEqual([204, 0]);
    const sent = await source('ada@example.org', 'INBOX.Sent', 1);
    expect(await source('bob@example.org', 'INBOX', 1)).toEqual(sent);
    expect(await source('cleo@example.org', 'INBOX', 1)).toEqual(sent);
    expect(arrived).toEqual(['bob@example.org INBOX 1', 'cleo@example.org INBOX 1']);
    const parsed = await simpleParser(sent);
    expect(parsed.from?.value).toEqual([{ name: 'Ada Lövelace', address: 'ada@example.org' }]);
    expect(parsed.subject).toBe('Grüße');
    expect(parsed.text).toBe('Hello');
    expect(parsed.html).toBe('<b>Hello</b>');
    expect(parsed.date?.getTime()).toBe(now);
    expect(parsed.messageId).toMatch(/^<[^<>@]+@example\.org>$/);
    const listed = await served.call(`GET ${folderOf('ada@example.org', 'INBOX.Sent')}`);
    expect(listed.json).toMatchObject({
      data: [{ flags: ['\\Seen'], unseen: false, date: new Date(now).toISOString() }],
    });
    const got = await served.call(`GET ${folderOf('bob@example.org', 'INBOX')}`);
    expect(got.json).toMatchObject({ data: [{ flags: [], unseen: true }] });
  });

  test('only the sender sees Bcc, and who is named twice gets it once', async () => {
    await send({
      to: ['bob@example.org'],
      bcc: ['bob@example.org', 'cleo@example.org'],
      text: 'x',
    });
    const sent = (await source('ada@example.org', 'INBOX.Sent', 1)).toString();
    const got = (await source('cleo@example.org', 'INBOX', 1)).toString();
    expect(sent).toMatch(/^Bcc: bob@example.org, cleo@example.org\r$/m);
    expect(got).not.toMatch(/^Bcc:/im);
    expect(sent.replace(/^Bcc: .*\r\n/m, '')).toBe(got);
    expect(await count('bob@example.org', 'INBOX')).toMatchObject({ total: 1 });
  });

  test('one may write to oneself', async () => {
    await send({ to: ['ada@example.org'], text: 'x' });
    expect(await count('ada@example.org', 'INBOX')).toMatchObject({ total: 1 });
    expect(await count('ada@example.org', 'INBOX.Sent')).toMatchObject({ total: 1 });
  });

  test('attachments go out and come back in', async () => {
    const bytes = Buffer.from([0, 1, 2, 253, 254, 255]);
    await send({
      to: ['bob@example.org'],
      html: '<img src="cid:logo">',
      attachments: [
        {
          filename: 'größe.bin',
          content: bytes.toString('base64'),
          contentType: 'application/x-any',
        },
        {
          filename: 'logo.png',
          content: bytes.toString('base64'),
          contentType: 'image/png',
          cid: 'logo',
        },
        {
          filename: 'plain.txt',
          content: 'plain text',
          contentType: 'text/plain',
          encoding: 'utf-8',
        },
      ],
    });
    const inbox = folderOf('bob@example.org', 'INBOX');
    const { json } = await served.call(`GET ${inbox}/1`);
    expect(json).toMatchObject({
      data: {
        attachments: expect.arrayContaining([
          expect.objectContaining({ filename: 'größe.bin', sizeBytes: 6, inline: false }),
          expect.objectContaining({
            filename: 'logo.png',
            sizeBytes: 6,
            inline: true,
            contentId: 'logo',
          }),
          expect.objectContaining({ filename: 'plain.txt', sizeBytes: 10 }),
        ]),
      },
    });
    if (!isMessage(json)) throw new Error('no message');
    const contents = await Promise.all(
      json.data.attachments.map(async ({ id, filename }) => {
        const answer = await served.call(`GET ${inbox}/1/attachments/${id}`);
        return [filename, answer.bytes.toString('hex')];
      }),
    );
    expect(new Map(contents.map(([name = '', hex = '']) => [name, hex]))).toEqual(
      new Map([
        ['größe.bin', bytes.toString('hex')],
        ['logo.png', bytes.toString('hex')],
        ['plain.txt', Buffer.from('plain text').toString('hex')],
      ]),
    );
  });

  test.each([
    [{}, 'to'],
    [{ to: [], cc: [], bcc: [], text: 'x' }, 'to'],
    [{ to: ['nobody'] }, 'to.0'],
    [{ to: ['a b@example.org'] }, 'to.0'],
    [{ to: 'a@example.org' }, 'to'],
    [{ to: ['a@example.org'], subject: 7 }, 'subject'],
    [
      {
        to: ['a@example.org'],
        inReplyTo: { uid: 1, folder: 'INBOX' },
        forwardOf: { uid: 1, folder: 'INBOX' },
      },
      'forwardOf',
    ],
    [{ to: ['a@example.org'], inReplyTo: { uid: 0, folder: 'INBOX' } }, 'inReplyTo.uid'],
    [{ to: ['a@example.org'], attachments: [{ filename: 'x' }] }, 'attachments.0.content'],
    [{ to: ['a@example.org'], attachments: [{ content: '*' }] }, 'attachments.0.content'],
    [
      { to: ['a@example.org'], attachments: [{ content: 'x', encoding: 'rot13' }] },
      'attachments.0.encoding',
    ],
  ])('%j is 422 and nothing is sent', async (body, field) => {
    const { status, json } = await send(body);
    expect([status, json]).toMatchObject([
      422,
      { code: 'ERR_VALIDATION_FAILED', params: { fields: { [field]: [expect.any(String)] } } },
    ]);
    expect(await count('ada@example.org', 'INBOX.Sent')).toMatchObject({ total: 0 });
  });

  test('header injection is not possible', async () => {
    await send({
      to: ['bob@example.org'],
      subject: 'x\r\nX-Evil: 1',
      displayName: 'Ada\r\nX-Evil: 2',
      text: 'x',
    });
    const { headers } = await simpleParser(await source('bob@example.org', 'INBOX', 1));
    expect(headers.has('x-evil')).toBe(false);
  });
});

describe('replies and forwards', () => {
  beforeEach(() => {
    fill(served, [
      mail(
        'question',
        'Message-ID: <q@example.net>',
        'References: <a@example.net>\r\n <b@example.net>',
      ),
      mail('no id'),
    ]);
  });

  test.each([
    ['inReplyTo', '\\Answered'],
    ['forwardOf', '$forwarded'],
  ])('%s copies the ids and flags the source %s', async (field, flag) => {
    const { status } = await send({
      to: ['bob@example.org'],
      subject: 'Re: question',
      text: 'x',
      [field]: { uid: 1, folder: 'INBOX' },
    });
    expect(status).toBe(204);
    const { inReplyTo, references } = await simpleParser(
      await source('bob@example.org', 'INBOX', 1),
    );
    expect(inReplyTo).toBe('<q@example.net>');
    expect(references).toEqual(['<a@example.net>', '<b@example.net>', '<q@example.net>']);
    const { json } = await served.call(`GET ${folderOf('ada@example.org', 'INBOX')}/1`);
    expect(json).toMatchObject({ data: { flags: [flag] } });
  });

  test('a source without an id can be answered all the same', async () => {
    await send({ to: ['bob@example.org'], text: 'x', inReplyTo: { uid: 2, folder: 'INBOX' } });
    const { inReplyTo, references } = await simpleParser(
      await source('bob@example.org', 'INBOX', 1),
    );
    expect([inReplyTo, references]).toEqual([undefined, undefined]);
  });

  test.each([
    [{ uid: 9, folder: 'INBOX' }, 'ERR_MESSAGE_NOT_FOUND'],
    [{ uid: 1, folder: 'INBOX.None' }, 'ERR_FOLDER_NOT_FOUND'],
  ])('a source %j that is not there is 422 and nothing is sent', async (inReplyTo, code) => {
    const { status, json } = await send({ to: ['bob@example.org'], text: 'x', inReplyTo });
    expect([status, json]).toMatchObject([422, { code }]);
    expect(await count('bob@example.org', 'INBOX')).toMatchObject({ total: 0 });
  });
});

describe('the allow list', () => {
  test('rejects a message to anybody who is not on it, and flags nothing', async () => {
    await served.close();
    served = await serveEmpty({
      addresses: ['ada@example.org', 'bob@example.org'],
      settings: { outgoingAllowList: ['@example.org', 'Friend@example.net'] },
    });
    fill(served, [mail('question')]);
    const refused = await send({
      to: ['bob@example.org'],
      bcc: ['stranger@example.net'],
      text: 'x',
      inReplyTo: { uid: 1, folder: 'INBOX' },
    });
    expect([refused.status, refused.json]).toMatchObject([
      422,
      { code: 'ERR_RECIPIENT_NOT_ALLOWED', params: { recipients: ['stranger@example.net'] } },
    ]);
    expect(await count('bob@example.org', 'INBOX')).toMatchObject({ total: 0 });
    expect((await served.call(`GET ${folderOf('ada@example.org', 'INBOX')}/1`)).json).toMatchObject(
      {
        data: { flags: [] },
      },
    );
    expect((await send({ to: ['BOB@Example.org', 'friend@example.net'], text: 'x' })).status).toBe(
      204,
    );
  });
});

function isMessage(
  json: unknown,
): json is { data: { attachments: { id: string; filename: string }[] } } {
  return typeof json === 'object' && json !== null && 'data' in json;
}
