import { expect, test } from 'vitest';
import { z } from 'zod';
import { type Mirrored, mirrored } from './mirrored.ts';

const listed = z.object({ data: z.array(z.object({ uid: z.int(), flags: z.array(z.string()) })) });

async function inbox({ mirror, m }: Mirrored, asOf: string) {
  const { body, status } = await mirror('GET', `${m}/folders/INBOX/messages?perPage=100${asOf}`);
  expect(status).toBe(200);
  return listed.parse(body).data;
}

test('messages, flags and counts of then, also of what ended since', async () => {
  const both = await mirrored({ seed: 11, mail: { messages: 40 } });
  try {
    const before = await inbox(both, '');
    const then = new Date().toISOString();
    const at = `&asOf=${encodeURIComponent(then)}`;
    const folders = await both.mirror('GET', `${both.m}/folders`);
    const [gone, marked] = before.map(({ uid }) => uid);
    await both.origin('DELETE', `${both.m}/folders/INBOX/messages/${gone}`);
    await both.origin('PATCH', `${both.m}/folders/INBOX/messages/${marked}`, {
      addFlags: ['\\Flagged'],
    });
    await both.sync();
    const after = await inbox(both, '');
    expect(after.map(({ uid }) => uid)).not.toContain(gone);
    expect(after.find(({ uid }) => uid === marked)?.flags).toContain('\\Flagged');
    expect(await inbox(both, at)).toEqual(before);
    expect(await both.mirror('GET', `${both.m}/folders?asOf=${encodeURIComponent(then)}`)).toEqual(
      folders,
    );
    const one = `${both.m}/folders/INBOX/messages/${gone}`;
    expect((await both.mirror('GET', `${one}/source`)).status).toBe(404);
    const source = await both.mirror('GET', `${one}/source?asOf=${encodeURIComponent(then)}`);
    expect(source).toMatchObject({ status: 200, type: 'message/rfc822' });
  } finally {
    await both.close();
  }
});

test('before the first commit there was nothing, and what is no time is refused', async () => {
  const both = await mirrored({ seed: 12, mail: { messages: 5 } });
  try {
    expect(await both.mirror('GET', `${both.m}/folders?asOf=2001-01-01`)).toMatchObject({
      body: { data: [] },
    });
    for (const wrong of [
      ...['yesterday', '2026-13-40', '2026-02-30', ''],
      ...['2026-02-03T10:00', '2026-02-30T10:00:00Z', '2026-02-03T25:00:00Z'],
    ])
      expect(await both.mirror('GET', `${both.m}/folders?asOf=${wrong}`)).toMatchObject({
        status: 422,
        body: { code: 'ERR_VALIDATION_FAILED' },
      });
    for (const right of ['2096-02-29', '2026-02-03T10:00Z', '2026-02-03T10:00:00.5%2B01:00'])
      expect((await both.mirror('GET', `${both.m}/folders?asOf=${right}`)).status).toBe(200);
  } finally {
    await both.close();
  }
});
