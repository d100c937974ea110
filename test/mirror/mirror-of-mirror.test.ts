import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { z } from 'zod';
import { jsonLines, mailkeep } from '../cli/child.ts';
import { NOW } from '../web/served.ts';
import { mirrored } from './mirrored.ts';

const line = z.object({
  id: z.string().nullable(),
  folder: z.string(),
  uid: z.int(),
  flags: z.array(z.string()),
  size: z.int(),
  subject: z.string().nullable(),
});

async function current(data: string) {
  const { stdout, code } = await mailkeep(['list', '--json', '--data', data]);
  expect(code).toBe(0);
  return jsonLines(stdout)
    .map((one) => line.parse(one))
    .map((one) => JSON.stringify(one))
    .sort();
}

test('a sync from the mirror makes an archive of the same messages, folders, uids and flags', async () => {
  const both = await mirrored({ seed: 21, mail: { messages: 120 } });
  try {
    const { secret } = both.tokens.create(
      { name: 'second', mailboxes: null, expiresAt: null },
      NOW,
    );
    const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-second-'));
    const config = path.join(folder, 'config.json');
    writeFileSync(path.join(folder, 'token'), secret, { mode: 0o600 });
    writeFileSync(
      config,
      JSON.stringify({
        accounts: [{ name: 'mirror', baseUrl: both.served.web.apiUrl, token: { file: './token' } }],
        rateLimit: { requestsPerMinute: 1_000_000, concurrency: 4 },
        minFreeBytes: 0,
      }),
      { mode: 0o600 },
    );
    const data = path.join(folder, 'data');
    const sync = async () => {
      const { code, stderr } = await mailkeep(['sync', '--quiet', '--config', config]);
      expect(stderr).toBe('');
      expect(code).toBe(0);
    };
    await sync();
    expect(await current(data)).toEqual(await current(both.place.data));
    const inbox = `${both.m}/folders/INBOX/messages`;
    const { body } = await both.origin('GET', `${inbox}?perPage=3`);
    const [gone, marked, moved] = z
      .object({ data: z.array(z.object({ uid: z.int() })) })
      .parse(body)
      .data.map(({ uid }) => uid);
    await both.origin('DELETE', `${inbox}/${gone}`);
    await both.origin('PATCH', `${inbox}/${marked}`, { addFlags: ['\\Flagged'] });
    await both.origin('POST', `${inbox}/${moved}/move`, { targetFolder: 'INBOX.Sent' });
    await both.sync();
    await sync();
    expect(await current(data)).toEqual(await current(both.place.data));
    const verified = await mailkeep(['verify', '--json', '--data', data]);
    expect(verified.code).toBe(0);
  } finally {
    await both.close();
  }
});
