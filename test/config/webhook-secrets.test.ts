import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { inspect } from 'node:util';
import { beforeEach, expect, test } from 'vitest';
import { MailkeepError } from '../../src/core/errors.ts';
import {
  forgetSecret,
  reserveSecret,
  Secret,
  type StoredWebhook,
  storedWebhooks,
  webhookSecretsFolder,
} from '../../src/core/secrets.ts';

let dataDir: string;
beforeEach(() => {
  dataDir = path.join(mkdtempSync(path.join(tmpdir(), 'mailkeep-hooks-')), 'data');
});

function webhook(id: string): StoredWebhook {
  return {
    id,
    mailboxId: 'AC1',
    mailbox: 'ada@example.org',
    account: 'main',
    host: 'mail.example.net',
    url: 'https://hooks.example.org/',
    secret: new Secret(`secret of ${id}`),
    createdAt: '2026-01-01T00:00:00.000Z',
  };
}

test('what is kept is read again, secret included, until it is forgotten', async () => {
  expect(await storedWebhooks(dataDir)).toEqual([]);
  for (const id of ['b', 'a']) {
    const slot = await reserveSecret(dataDir);
    const file = await slot.keep(webhook(id));
    await slot.drop();
    expect(file).toBe(path.join(webhookSecretsFolder(dataDir), `${id}.json`));
    expect(statSync(file).mode & 0o777).toBe(0o600);
  }
  const all = await storedWebhooks(dataDir);
  expect(all.map(({ id, secret }) => [id, secret.reveal()])).toEqual([
    ['a', 'secret of a'],
    ['b', 'secret of b'],
  ]);
  const { secret: _secret, ...rest } = webhook('a');
  expect(all[0]).toMatchObject(rest);
  expect(inspect(all) + JSON.stringify(all)).not.toContain('secret of');
  expect([await forgetSecret(dataDir, 'a'), await forgetSecret(dataDir, 'a')]).toEqual([
    true,
    false,
  ]);
  expect((await storedWebhooks(dataDir)).map(({ id }) => id)).toEqual(['b']);
});

test('a place that is not needed leaves nothing', async () => {
  const slot = await reserveSecret(dataDir);
  expect(readdirSync(webhookSecretsFolder(dataDir))).toHaveLength(1);
  await slot.drop();
  expect(readdirSync(webhookSecretsFolder(dataDir))).toEqual([]);
});

test('an id that is no file name stays in the folder', async () => {
  const slot = await reserveSecret(dataDir);
  const file = await slot.keep(webhook('../../etc/passwd'));
  expect(path.dirname(file)).toBe(webhookSecretsFolder(dataDir));
  expect(path.basename(file)).toMatch(/^[0-9a-f]{64}\.json$/);
  expect((await storedWebhooks(dataDir)).map(({ id }) => id)).toEqual(['../../etc/passwd']);
  expect(await forgetSecret(dataDir, '../../etc/passwd')).toBe(true);
});

test.skipIf(process.platform !== 'linux')(
  'a place where the system makes no folder is told',
  async () => {
    await expect(reserveSecret('/proc/nowhere/data')).rejects.toMatchObject({
      code: 'webhook-secrets-unwritable',
      facts: { reason: 'ENOENT' },
    });
  },
);

test('a secret that cannot be written any more is lost, and says so', async () => {
  const slot = await reserveSecret(dataDir);
  rmSync(webhookSecretsFolder(dataDir), { recursive: true });
  await expect(slot.keep(webhook('a'))).rejects.toMatchObject({
    code: 'webhook-secret-lost',
    facts: { id: 'a', reason: 'ENOENT', deleted: false },
  });
});

test.each([
  ['{"id":"a","secret":"hunter2"', 'it is not valid JSON'],
  ['{"id":"a","secret":"hunter2"}', 'it has no mailboxId'],
  ['[]', 'it has no id'],
  ['{"id":7}', 'it has no id'],
])('a damaged file is named without its content: %s', async (text, reason) => {
  await (await reserveSecret(dataDir)).drop();
  writeFileSync(path.join(webhookSecretsFolder(dataDir), 'a.json'), text);
  const error: unknown = await storedWebhooks(dataDir).catch((thrown: unknown) => thrown);
  if (!(error instanceof MailkeepError)) throw error;
  expect([error.code, error.facts.reason]).toEqual(['webhook-secret-unreadable', reason]);
  expect(inspect(error)).not.toContain('hunter2');
});
