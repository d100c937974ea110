import { expect, test } from 'vitest';
import { z } from 'zod';
import { mailkeep } from '../cli/child.ts';
import { DaemonTests } from '../daemon/running-daemon.ts';
import { mail } from '../sandbox/client.ts';
import { complaints } from '../sandbox/conformance/strict-types.ts';
import { byId, deliver, mailboxesById } from './mirrored.ts';

const work = new DaemonTests({ seed: 16, mail: { messages: 20 } });

const created = z.object({ secret: z.string() });
const page = z.object({ data: z.array(z.object({ subject: z.string().nullable() })) });

test('the daemon serves the API over what it mirrors, until the token is revoked', async () => {
  work.configure((config) => ({ ...config, web: { listen: '127.0.0.1:0' } }));
  const daemon = work.daemon();
  const { port } = await daemon.message('the web interface listens');
  await daemon.run('sync');
  const data = ['--data', work.place.data];
  const token = await mailkeep(['token', 'create', '--name', 'api', '--json', ...data]);
  const { secret } = created.parse(JSON.parse(token.stdout));
  const base = `http://127.0.0.1:${String(port)}`;
  const ask = (path: string, headers: Readonly<Record<string, string>> = {}) =>
    fetch(new URL(path, base), { headers: { authorization: `Bearer ${secret}`, ...headers } });
  const [mailbox] = work.sandbox.mailboxes;
  const m = `/api/v1/mailboxes/${mailbox?.resourceId}`;
  const read = async (operation: string, path: string): Promise<unknown> => {
    const answer = await ask(path);
    const json: unknown = await answer.json();
    expect(answer.status).toBe(200);
    const given = { json, headers: {}, bytes: Buffer.alloc(0) };
    expect([path, complaints(`mailbox.${operation}`, given)]).toEqual([path, []]);
    return json;
  };
  expect(mailboxesById(await read('getCurrentAccount', '/api/v1/me'))).toMatchObject(
    byId(work.sandbox.mailboxes),
  );
  expect(await read('getQuota', `${m}/quota`)).toMatchObject({ data: { supported: true } });
  const inbox = `${m}/folders/INBOX/messages?perPage=1`;
  await read('listMessages', inbox);
  // What comes later is there as soon as it is mirrored.
  deliver(work.sandbox, mail('just now'));
  const from = daemon.lines.length;
  const looked = await mailkeep(['sync', '--quiet', '--config', work.place.config]);
  expect(looked.code).toBe(0);
  await daemon.run('hand', from);
  expect(page.parse(await read('listMessages', inbox)).data).toEqual([
    expect.objectContaining({ subject: 'just now' }),
  ]);
  const refused = await fetch(new URL(`${m}/folders`, base), {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: '{"name":"x"}',
  });
  expect([refused.status, await refused.json()]).toMatchObject([403, { code: 'ERR_READ_ONLY' }]);
  expect((await ask('/api/v1/me', { origin: 'https://evil.example' })).status).toBe(403);
  const revoked = await mailkeep(['token', 'revoke', 'api', ...data]);
  expect(revoked.code).toBe(0);
  expect((await ask('/api/v1/me')).status).toBe(401);
  expect(JSON.stringify(daemon.lines)).not.toContain(secret);
});
