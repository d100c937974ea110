import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { fill, mail, type Served, serveEmpty } from './client.ts';

let served: Served;
let folders: string;
beforeEach(async () => {
  served = await serveEmpty();
  folders = `${served.m}/folders`;
});
afterEach(() => served.close());

function at(path: string): string {
  return `${folders}/${encodeURIComponent(path)}`;
}

async function paths(): Promise<string[]> {
  const { json } = await served.call(`GET ${folders}?perPage=100`);
  if (typeof json !== 'object' || json === null || !('data' in json) || !Array.isArray(json.data)) {
    throw new Error('no list');
  }
  return json.data.map((item: { path: string }) => item.path);
}

const create = (name: unknown) => served.call(`POST ${folders}`, { body: { name } });

test('every mailbox has the four folders, INBOX first', async () => {
  const { json } = await served.call(`GET ${folders}`);
  const folder = (path: string, specialUse: string | null) => ({
    path,
    name: path.replace('INBOX.', ''),
    delimiter: '.',
    specialUse,
    messageCount: 0,
    unreadCount: 0,
  });
  expect(json).toEqual({
    data: [
      folder('INBOX', null),
      folder('INBOX.Drafts', '\\Drafts'),
      folder('INBOX.Sent', '\\Sent'),
      folder('INBOX.Trash', '\\Trash'),
    ],
    pagination: { page: 1, perPage: 50, total: 4, totalPages: 1 },
  });
});

test('50 a page by default, 100 at most', async () => {
  for (let number = 0; number < 60; number += 1) await create(`INBOX.F${number}`);
  const { json } = await served.call(`GET ${folders}?page=2`);
  expect(json).toMatchObject({ pagination: { page: 2, perPage: 50, total: 64, totalPages: 2 } });
  expect((await served.call(`GET ${folders}?perPage=101`)).status).toBe(422);
});

describe('createFolder', () => {
  test('makes the folder and those above it, and says what it is', async () => {
    const { status, json } = await create('  INBOX.Work.2026.Größe ');
    expect(status).toBe(201);
    expect(json).toEqual({
      data: {
        path: 'INBOX.Work.2026.Größe',
        name: 'Größe',
        delimiter: '.',
        specialUse: null,
        messageCount: 0,
        unreadCount: 0,
      },
    });
    expect(await paths()).toEqual(expect.arrayContaining(['INBOX.Work', 'INBOX.Work.2026']));
  });

  test.each(['INBOX', 'inbox', 'INBOX.Sent', 'Inbox.Trash'])('%s exists: 409', async (name) => {
    const { status, json } = await create(name);
    expect([status, json]).toMatchObject([409, { code: 'ERR_FOLDER_EXISTS' }]);
  });

  test.each([
    '',
    '   ',
    'x'.repeat(101),
    'INBOX.',
    '.A',
    'A..B',
    'A. .B',
    'a/b',
    'a\nb',
    'a*',
    7,
    undefined,
  ])('%j is 422', async (name) => {
    const { status, json } = await create(name);
    expect([status, json]).toMatchObject([422, { code: 'ERR_VALIDATION_FAILED' }]);
  });
});

describe('updateFolder', () => {
  test('renames a folder with what lies below it; messages keep their uids', async () => {
    fill(served, [mail('deep')], 'INBOX.A.B');
    await create('INBOX.A');
    const { status, json } = await served.call(`PUT ${at('INBOX.A')}`, {
      body: { name: 'INBOX.C' },
    });
    expect([status, json]).toMatchObject([200, { data: { path: 'INBOX.C', name: 'C' } }]);
    expect(await paths()).toEqual(expect.arrayContaining(['INBOX.C', 'INBOX.C.B']));
    expect((await served.call(`GET ${at('INBOX.C.B')}/messages/1`)).json).toMatchObject({
      data: { uid: 1, path: 'INBOX.C.B' },
    });
    expect((await served.call(`GET ${at('INBOX.A')}/messages`)).status).toBe(422);
  });

  test('refuses what cannot be', async () => {
    await create('INBOX.A');
    await create('INBOX.A.B');
    await create('INBOX.Z.B');
    const rename = (from: string, name: string) =>
      served.call(`PUT ${at(from)}`, { body: { name } });
    expect(await rename('INBOX.None', 'INBOX.X')).toMatchObject({
      status: 422,
      json: { code: 'ERR_FOLDER_NOT_FOUND' },
    });
    expect(await rename('INBOX.A', 'INBOX.Sent')).toMatchObject({
      status: 409,
      json: { code: 'ERR_FOLDER_EXISTS' },
    });
    expect(await rename('INBOX.A', 'INBOX.A.B.C')).toMatchObject({ status: 422 });
    expect(await rename('INBOX.Sent', 'INBOX.Gone')).toMatchObject({
      status: 409,
      json: { code: 'ERR_FOLDER_PROTECTED' },
    });
    expect(await rename('INBOX.A', '')).toMatchObject({ status: 422 });
    // Names that terminals obey, or that no path of a request can carry.
    for (const name of ['INBOX.\u009b31m', 'INBOX.\u001b[2J', 'INBOX.\ud800']) {
      expect(await create(name)).toMatchObject({ status: 422 });
    }
    expect(await rename('INBOX.A', 'INBOX.A')).toMatchObject({ status: 200 });
  });
});

describe('deleteFolder', () => {
  test('takes subfolders and messages along; made again, it starts over at uid 1', async () => {
    fill(served, [mail('one'), mail('two')], 'INBOX.A');
    fill(served, [mail('deep')], 'INBOX.A.B');
    expect((await served.call(`DELETE ${at('INBOX.A')}`)).status).toBe(204);
    expect(await paths()).toHaveLength(4);
    expect(await served.call(`DELETE ${at('INBOX.A')}`)).toMatchObject({
      status: 404,
      json: { code: 'ERR_FOLDER_NOT_FOUND' },
    });
    fill(served, [mail('new')], 'INBOX.A');
    expect((await served.call(`GET ${at('INBOX.A')}/messages`)).json).toMatchObject({
      data: [{ uid: 1, subject: 'new' }],
    });
  });

  test.each(['INBOX', 'INBOX.Sent', 'INBOX.Drafts', 'INBOX.Trash'])(
    '%s stays: 409',
    async (path) => {
      expect(await served.call(`DELETE ${at(path)}`)).toMatchObject({
        status: 409,
        json: { code: 'ERR_FOLDER_PROTECTED' },
      });
    },
  );
});

describe('getQuota', () => {
  test('counts bytes and messages of all folders', async () => {
    await served.close();
    served = await serveEmpty({ settings: { storageQuotaBytes: 1000, messageQuota: 4 } });
    fill(served, ['x'.repeat(100), 'y'.repeat(150)]);
    fill(served, ['z'.repeat(83)], 'INBOX.Sent');
    expect((await served.call(`GET ${served.m}/quota`)).json).toEqual({
      data: {
        quotas: [
          { resourceName: 'STORAGE', usage: 333, limit: 1000, percentage: 33 },
          { resourceName: 'MESSAGE', usage: 3, limit: 4, percentage: 75 },
        ],
        totalUsage: 333,
        totalLimit: 1000,
        totalPercentage: 33,
        supported: true,
      },
    });
  });
});
