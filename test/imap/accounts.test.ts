import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { mailkeep } from '../cli/child.ts';

const imap = { host: '127.0.0.1', port: 1, tls: 'none', user: 'ada@example.org', password: 'x' };
const api = { baseUrl: 'http://127.0.0.1:1', token: 'hush' };

/** Runs the command line with these accounts, by name. */
async function run(accounts: Readonly<Record<string, object>>, ...args: readonly string[]) {
  const file = path.join(mkdtempSync(path.join(tmpdir(), 'imap-accounts-')), 'config.json');
  const entries = Object.entries(accounts).map(([name, fields]) => ({ name, ...fields }));
  writeFileSync(file, JSON.stringify({ accounts: entries }), { mode: 0o600 });
  return mailkeep([...args, '--json', '--config', file]);
}

function codeOf(stderr: string): unknown {
  return (JSON.parse(stderr) as { error: { code: unknown } }).error.code;
}

test.each([
  ['api', 'getCurrentAccount'],
  ['api', 'platform.listWebhooks'],
  ['webhooks', 'list'],
  ['webhooks', 'log'],
  ['webhooks', 'create', '--mailbox', 'ada@example.org', '--url', 'https://hooks.example'],
  ['webhooks', 'ensure', '--url', 'https://hooks.example'],
  ['webhooks', 'delete', 'an-id', '--yes'],
])('%s %s needs an account with an API', async (...line) => {
  const only = await run({ ada: { imap } }, ...line);
  expect(only).toMatchObject({ code: 2 });
  expect(codeOf(only.stderr)).toBe('imap.no-api');
  const named = await run({ ada: { imap }, team: api }, ...line, '--account', 'ada');
  expect(codeOf(named.stderr)).toBe('imap.no-api');
});

test('the only account with an API needs no --account', async () => {
  const { stderr } = await run({ ada: { imap }, team: api }, 'webhooks', 'log');
  expect(stderr).toContain('team');
  expect(codeOf(stderr)).toBe('operation-needs-platform');
});
