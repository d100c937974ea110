import { createHash } from 'node:crypto';
import { globSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { z } from 'zod';
import { openCatalogReader } from '../../src/catalog/catalog.ts';
import { MailkeepError } from '../../src/core/errors.ts';
import { mail } from '../sandbox/client.ts';
import { deliver, type Mirrored, mirrored } from './mirrored.ts';

/** Text that hardly compresses, the same each time. */
function noise(name: string): string {
  const hash = (i: number) => createHash('sha512').update(`${name} ${i}`).digest('base64url');
  return Array.from({ length: 3_000 }, (_, i) => `${hash(i)}\r\n`).join('');
}

const SUBJECTS = ['one', 'two', 'three', 'four'];
const SOURCES = SUBJECTS.map((subject) => `${mail(subject)}${noise(subject)}`);

let both: Mirrored;
beforeAll(async () => {
  both = await mirrored({ seed: 11, mail: { messages: 0 } });
  for (const source of SOURCES) deliver(both.sandbox, source);
  await both.sync();
  damage(both.place.data, SOURCES[1] ?? '');
});
afterAll(() => both.close());

/** Flips a bit of a stored message. */
function damage(data: string, source: string): void {
  const catalog = openCatalogReader(data);
  const id = createHash('sha256').update(source, 'latin1').digest('hex');
  const { segment, offset } = catalog.locator.message(id) ?? { segment: 0, offset: 0 };
  catalog.close();
  const [name = ''] = globSync(`log/*${segment}.seg`, { cwd: data });
  const file = path.join(data, name);
  const bytes = readFileSync(file);
  const at = offset + 50_000;
  bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at);
  writeFileSync(file, bytes);
}

const found = z.object({ data: z.array(z.object({ subject: z.string() })) });

async function search(criteria: object) {
  const path_ = `${both.m}/folders/INBOX/messages/search?sort=uid`;
  const { status, body } = await both.mirror('POST', path_, criteria);
  return status === 200 ? found.parse(body).data.map(({ subject }) => subject) : body;
}

test('a search that has to read a damaged message names it, and answers without it', async () => {
  const refused = {
    code: 'ERR_DAMAGED',
    error: expect.stringContaining('damaged'),
    params: { folder: 'INBOX', damaged: 1, uids: [2] },
  };
  for (const criteria of [{ text: 'e' }, { body: 'no such text' }, { subject: 'two' }]) {
    both.served.errors.length = 0;
    expect([criteria, await search(criteria)]).toEqual([criteria, refused]);
    expect(both.served.errors).toEqual([expect.any(MailkeepError)]);
    expect(both.served.errors).toMatchObject([{ code: 'message-damaged' }]);
  }
  both.served.errors.length = 0;
  expect(await search({ text: 'e', uid: '1,3:*' })).toEqual(['one', 'three', 'four']);
  expect(await search({ subject: 'o', uid: '1,3:*' })).toEqual(['one', 'four']);
  // What other criteria leave out is not read.
  expect(await search({ uid: '1:2', larger: 1 })).toEqual(['one', 'two']);
  expect(await search({ text: 'e', smaller: 10 })).toEqual([]);
  expect(both.served.errors).toEqual([]);
  expect((await both.mirror('GET', `${both.m}/folders/INBOX/messages/2`)).status).toBe(200);
  expect((await both.mirror('GET', `${both.m}/folders/INBOX/messages/2/source`)).body).toEqual({
    ...{ code: 'ERR_DAMAGED', error: 'This part of the archive is damaged', params: {} },
  });
});
