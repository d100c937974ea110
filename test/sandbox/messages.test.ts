import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { fill, mail, type Served, serveEmpty } from './client.ts';

let served: Served;
let inbox: string;
beforeEach(async () => {
  served = await serveEmpty();
  inbox = `${served.m}/folders/INBOX`;
  fill(served, [mail('one'), mail('two', 'To: ada@example.org'), mail('three')]);
});
afterEach(() => served.close());

async function uids(query = '', folder = 'INBOX'): Promise<number[]> {
  const { json } = await served.call(`GET ${served.m}/folders/${folder}/messages${query}`);
  return uidsOf(json);
}

function uidsOf(json: unknown): number[] {
  if (typeof json !== 'object' || json === null || !('data' in json) || !Array.isArray(json.data)) {
    throw new Error(`no list: ${JSON.stringify(json)}`);
  }
  return json.data.map((item: { uid: number }) => item.uid);
}

function envelope(status: number, code: string, params: unknown = expect.any(Object)) {
  return { status, json: { error: expect.any(String), code, params } };
}

describe('listMessages', () => {
  test('shows complete records, newest uid first, with the pagination', async () => {
    const { status, json, headers } = await served.call(`GET ${inbox}/messages?perPage=1&page=2`);
    expect(status).toBe(200);
    expect(headers['content-type']).toMatch(/^application\/json/);
    expect(json).toEqual({
      data: [
        {
          uid: 2,
          path: 'INBOX',
          date: '2026-01-02T00:00:00.000Z',
          flags: [],
          unseen: true,
          size: mail('two', 'To: ada@example.org').length,
          subject: 'two',
          from: { name: 'Somebody', address: 'somebody@example.net' },
          to: [{ name: '', address: 'ada@example.org' }],
          cc: [],
          bcc: [],
          messageId: null,
          inReplyTo: null,
          attachments: [],
        },
      ],
      pagination: { page: 2, perPage: 1, total: 3, totalPages: 3 },
    });
  });

  test('25 a page by default, and an empty page beyond the last', async () => {
    fill(
      served,
      Array.from({ length: 30 }, (_, n) => mail(`more ${n}`)),
    );
    expect(await uids()).toHaveLength(25);
    expect(await uids('?page=2')).toHaveLength(8);
    const beyond = await served.call(`GET ${inbox}/messages?page=9007199254740991&perPage=100`);
    expect(beyond.json).toEqual({
      data: [],
      pagination: { page: 9007199254740991, perPage: 100, total: 33, totalPages: 1 },
    });
  });

  test('an empty folder has no pages', async () => {
    const { json } = await served.call(`GET ${served.m}/folders/INBOX.Trash/messages`);
    expect(json).toEqual({
      data: [],
      pagination: { page: 1, perPage: 25, total: 0, totalPages: 0 },
    });
  });

  test.each([
    ['', [3, 2, 1]],
    ['?sort=uid', [1, 2, 3]],
    ['?sort=-date', [3, 2, 1]],
    ['?sort=date', [1, 2, 3]],
    ['?sort=size', [1, 3, 2]],
    ['?sort=-size', [2, 3, 1]],
  ])('sorted %s', async (query, expected) => {
    expect(await uids(query)).toEqual(expected);
  });

  test.each([
    ['page=0', 'page'],
    ['page=x', 'page'],
    ['page=1.5', 'page'],
    ['page=-1', 'page'],
    ['page=', 'page'],
    ['perPage=0', 'perPage'],
    ['perPage=101', 'perPage'],
    ['sort=subject', 'sort'],
    ['sort=--uid', 'sort'],
    ['sort=', 'sort'],
  ])('%s is 422', async (query, field) => {
    expect(await served.call(`GET ${inbox}/messages?${query}`)).toMatchObject(
      envelope(422, 'ERR_VALIDATION_FAILED', { fields: { [field]: [expect.any(String)] } }),
    );
  });

  test('an unknown folder is 422, and INBOX is INBOX in any case', async () => {
    expect(await served.call(`GET ${served.m}/folders/INBOX.None/messages`)).toMatchObject(
      envelope(422, 'ERR_FOLDER_NOT_FOUND', { folder: 'INBOX.None' }),
    );
    expect(await uids('', 'inbox')).toEqual([3, 2, 1]);
    expect(await uids('', 'Inbox.Sent')).toEqual([]);
  });

  test('a folder path is one encoded segment', async () => {
    fill(served, [mail('x')], 'INBOX.Größe & Maß/2');
    expect(await uids('', encodeURIComponent('INBOX.Größe & Maß/2'))).toEqual([1]);
  });
});

describe('one message', () => {
  test('getMessage shows the record of the listing', async () => {
    const list = await served.call(`GET ${inbox}/messages?perPage=1`);
    const one = await served.call(`GET ${inbox}/messages/3`);
    expect(one.json).toMatchObject({ data: { uid: 3, subject: 'three' } });
    expect(list.bytes.toString()).toContain(one.bytes.toString().slice('{"data":'.length, -1));
  });

  test.each(['getMessage ', 'source /source', 'text /text', 'attachment /attachments/part-1'])(
    '%s of a uid that is not there is 404',
    async (name) => {
      const path = name.slice(name.indexOf(' ') + 1);
      expect(await served.call(`GET ${inbox}/messages/99${path}`)).toMatchObject(
        envelope(404, 'ERR_MESSAGE_NOT_FOUND', { uid: 99 }),
      );
      for (const uid of ['0', '-1', 'abc', '1.5', '%31x']) {
        expect(await served.call(`GET ${inbox}/messages/${uid}${path}`)).toMatchObject(
          envelope(422, 'ERR_VALIDATION_FAILED', { fields: { uid: [expect.any(String)] } }),
        );
      }
      expect(await served.call(`GET ${served.m}/folders/None/messages/1${path}`)).toMatchObject(
        envelope(404, 'ERR_FOLDER_NOT_FOUND'),
      );
    },
  );

  test('the source is byte for byte, and reading it leaves the message unread', async () => {
    const odd = '\x00\xff\r\n\n\rnot a mail at all\x1a';
    fill(served, [odd]);
    const { status, headers, bytes } = await served.call(`GET ${inbox}/messages/4/source`);
    expect(status).toBe(200);
    expect(headers['content-type']).toBe('message/rfc822');
    expect(headers['content-length']).toBe(String(odd.length));
    expect(bytes.toString('latin1')).toBe(odd);
    expect((await served.call(`GET ${inbox}/messages/4`)).json).toMatchObject({
      data: { unseen: true, flags: [], size: odd.length },
    });
  });

  test('an empty source has length 0', async () => {
    fill(served, ['']);
    const { status, headers, bytes } = await served.call(`GET ${inbox}/messages/4/source`);
    expect([status, headers['content-length'], bytes.length]).toEqual([200, '0', 0]);
  });

  test('getMessageText renders text and HTML, and marks the message as read', async () => {
    fill(served, [
      [
        'Content-Type: multipart/alternative; boundary=b',
        '',
        '--b',
        'Content-Type: text/plain; charset=iso-8859-1',
        '',
        'Gr\xfc\xdfe',
        '--b',
        'Content-Type: text/html; charset=utf-8',
        '',
        '<p>Hello</p>',
        '--b--',
      ].join('\r\n'),
    ]);
    const { json } = await served.call(`GET ${inbox}/messages/4/text`);
    expect(json).toEqual({ data: { text: 'Grüße', html: '<p>Hello</p>' } });
    expect((await served.call(`GET ${inbox}/messages/4`)).json).toMatchObject({
      data: { unseen: false, flags: ['\\Seen'] },
    });
  });

  test('an attachment is handed out decoded', async () => {
    fill(served, [
      [
        'Content-Type: multipart/mixed; boundary=b',
        '',
        '--b',
        '',
        'text',
        '--b',
        'Content-Type: image/x-any; name="a b.bin"',
        'Content-Transfer-Encoding: base64',
        '',
        'AP8A',
        '--b--',
      ].join('\r\n'),
    ]);
    const { json } = await served.call(`GET ${inbox}/messages/4`);
    expect(json).toMatchObject({
      data: {
        attachments: [
          {
            id: 'part-2',
            contentType: 'image/x-any',
            sizeBytes: 3,
            inline: false,
            filename: 'a b.bin',
            contentId: null,
          },
        ],
      },
    });
    const { headers, bytes } = await served.call(`GET ${inbox}/messages/4/attachments/part-2`);
    expect(headers['content-type']).toBe('application/octet-stream');
    expect(bytes).toEqual(Buffer.from([0, 255, 0]));
    expect(await served.call(`GET ${inbox}/messages/4/attachments/part-9`)).toMatchObject(
      envelope(404, 'ERR_ATTACHMENT_NOT_FOUND'),
    );
  });
});

describe('flags', () => {
  test('patchMessage adds and removes, and answers with the message', async () => {
    const { status, json } = await served.call(`PATCH ${inbox}/messages/1`, {
      body: { addFlags: ['\\seen', 'Work', '$label1'] },
    });
    expect(status).toBe(200);
    expect(json).toMatchObject({
      data: { uid: 1, flags: ['$label1', 'Work', '\\Seen'], unseen: false },
    });
    const removed = await served.call(`PATCH ${inbox}/messages/1`, {
      body: { removeFlags: ['WORK'], addFlags: ['\\Flagged'] },
    });
    expect(removed.json).toMatchObject({ data: { flags: ['$label1', '\\Flagged', '\\Seen'] } });
  });

  test.each([
    [{}, 'addFlags'],
    [{ addFlags: [], removeFlags: [] }, 'addFlags'],
    [{ addFlags: [''] }, 'addFlags.0'],
    [{ addFlags: ['x'.repeat(256)] }, 'addFlags.0'],
    [{ addFlags: ['two words'] }, 'addFlags'],
    [{ addFlags: ['\\Recent'] }, 'addFlags'],
    [{ removeFlags: ['\\Nonsense'] }, 'removeFlags'],
    [{ addFlags: '\\Seen' }, 'addFlags'],
  ])('%j is 422', async (body, field) => {
    expect(await served.call(`PATCH ${inbox}/messages/1`, { body })).toMatchObject(
      envelope(422, 'ERR_VALIDATION_FAILED', { fields: { [field]: [expect.any(String)] } }),
    );
    expect(
      await served.call(`POST ${inbox}/messages/flags`, { body: { ...body, uids: [1] } }),
    ).toMatchObject(
      envelope(422, 'ERR_VALIDATION_FAILED', { fields: { [field]: [expect.any(String)] } }),
    );
  });

  test('updateMessageFlags is 200 when all are there and 207 when some are not', async () => {
    const all = await served.call(`POST ${inbox}/messages/flags`, {
      body: { uids: [1, 2, 2], addFlags: ['\\Seen'] },
    });
    expect([all.status, all.json]).toEqual([200, { data: { successful: [1, 2], failed: [] } }]);
    const some = await served.call(`POST ${inbox}/messages/flags`, {
      body: { uids: [9, 3], addFlags: ['\\Seen'] },
    });
    expect([some.status, some.json]).toEqual([
      207,
      { data: { successful: [3], failed: [{ uid: 9, reason: expect.any(String) }] } },
    ]);
    const folders = await served.call(`GET ${served.m}/folders?perPage=1`);
    expect(folders.json).toMatchObject({
      data: [{ path: 'INBOX', messageCount: 3, unreadCount: 0 }],
    });
  });

  test.each([
    [[]],
    [[0]],
    [[1.5]],
    [['1']],
    [Array.from({ length: 101 }, (_, n) => n + 1)],
    [null],
  ])('uids %j are 422 in every bulk operation', async (bad) => {
    for (const [operation, rest] of [
      ['flags', { addFlags: ['x'] }],
      ['move', { targetFolder: 'INBOX.Trash' }],
      ['delete', {}],
    ] as const) {
      const answer = await served.call(`POST ${inbox}/messages/${operation}`, {
        body: { ...rest, uids: bad },
      });
      expect(answer).toMatchObject(envelope(422, 'ERR_VALIDATION_FAILED'));
    }
    expect(await uids()).toEqual([3, 2, 1]);
  });
});

describe('moving and deleting', () => {
  test('a moved message has a new uid in its target, the old one is never used again', async () => {
    const moved = await served.call(`POST ${inbox}/messages/2/move`, {
      body: { targetFolder: 'INBOX.Trash' },
    });
    expect([moved.status, moved.bytes.length]).toEqual([204, 0]);
    expect(await uids()).toEqual([3, 1]);
    expect(await uids('', 'INBOX.Trash')).toEqual([1]);
    await served.call(`POST ${served.m}/folders/INBOX.Trash/messages/1/move`, {
      body: { targetFolder: 'INBOX' },
    });
    expect(await uids()).toEqual([4, 3, 1]);
    await served.call(`DELETE ${inbox}/messages/4`);
    fill(served, [mail('four')]);
    expect(await uids()).toEqual([5, 3, 1]);
  });

  test('a move to nowhere, of nothing, or to a name out of bounds is 422', async () => {
    const move = (uid: number, targetFolder: unknown) =>
      served.call(`POST ${inbox}/messages/${uid}/move`, { body: { targetFolder } });
    expect(await move(1, 'INBOX.None')).toMatchObject(envelope(422, 'ERR_FOLDER_NOT_FOUND'));
    expect(await move(9, 'INBOX.Trash')).toMatchObject(envelope(422, 'ERR_MESSAGE_NOT_FOUND'));
    for (const bad of ['', 'x'.repeat(101), 7, undefined]) {
      expect(await move(1, bad)).toMatchObject(envelope(422, 'ERR_VALIDATION_FAILED'));
    }
    expect(await uids()).toEqual([3, 2, 1]);
  });

  test('moveMessages moves what is there', async () => {
    const body = { uids: [3, 9, 1], targetFolder: 'INBOX.Trash' };
    expect((await served.call(`POST ${inbox}/messages/move`, { body })).status).toBe(204);
    expect(await uids()).toEqual([2]);
    expect(await uids('', 'INBOX.Trash')).toEqual([2, 1]);
    expect(
      (await served.call(`GET ${served.m}/folders/INBOX.Trash/messages/1`)).json,
    ).toMatchObject({
      data: { subject: 'three', path: 'INBOX.Trash' },
    });
  });

  test('deleting is for good, and done when there is nothing to delete', async () => {
    expect((await served.call(`DELETE ${inbox}/messages/2`)).status).toBe(204);
    expect((await served.call(`DELETE ${inbox}/messages/2`)).status).toBe(204);
    expect(
      (await served.call(`POST ${inbox}/messages/delete`, { body: { uids: [1, 2] } })).status,
    ).toBe(204);
    expect(await uids()).toEqual([3]);
    expect(await uids('', 'INBOX.Trash')).toEqual([]);
    expect((await served.call(`DELETE ${inbox}/messages`)).status).toBe(204);
    expect(await uids()).toEqual([]);
    expect(await served.call(`DELETE ${served.m}/folders/None/messages`)).toMatchObject(
      envelope(404, 'ERR_FOLDER_NOT_FOUND'),
    );
  });
});
