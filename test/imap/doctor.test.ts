import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, expect, test } from 'vitest';
import { mailkeep } from '../cli/child.ts';
import { startCyrus, withoutCyrus } from './cyrus.ts';
import { startDovecot, withoutDovecot } from './dovecot.ts';
import { type Script, ScriptedServer } from './scripted-server.ts';

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0).reverse()) await close();
});

interface Check {
  readonly name: string;
  readonly state: string;
  readonly message: string;
  readonly remedy: string | null;
}

function configured(imap: object, dataDir = './data'): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'imap-doctor-'));
  closing.push(() => rmSync(folder, { recursive: true, force: true }));
  const file = path.join(folder, 'config.json');
  const account = { name: 'ada', imap: { host: '127.0.0.1', tls: 'none', password: 'x', ...imap } };
  writeFileSync(file, JSON.stringify({ dataDir, accounts: [account] }), { mode: 0o600 });
  return file;
}

async function doctor(config: string, env: Record<string, string> = {}) {
  const { code, stdout } = await mailkeep(['doctor', '--json', '--config', config], {
    env,
    alone: true,
  });
  const { checks } = JSON.parse(stdout) as { checks: (Check & { about: string | null })[] };
  return { code, checks: checks.filter(({ about }) => about === 'ada') };
}

const messagesOf = (checks: readonly Check[], name: string) =>
  checks.filter((check) => check.name === name).map(({ message }) => message);

test.skipIf(withoutDovecot())(
  'says how an account is reached, and which extensions make syncs cheap',
  async () => {
    const server = await startDovecot();
    closing.push(() => server.stop());
    const { user, password, tlsPort: port, certificate } = server;
    const imap = { port, tls: 'implicit', user, address: 'anna@example.org', password };
    const config = configured(imap);
    const { code, checks } = await doctor(config, { NODE_EXTRA_CA_CERTS: certificate.file });
    expect(checks.map(({ name, state }) => `${name} ${state}`)).toEqual([
      ...['token ok', 'service ok', 'tls ok', 'capabilities ok'],
    ]);
    expect(code).toBe(0);
    expect(messagesOf(checks, 'tls')[0]).toMatch(
      /^127\.0\.0\.1 uses TLSv1\.3, with a certificate that is valid until /,
    );
    expect(messagesOf(checks, 'service')).toEqual([
      '127.0.0.1 accepts the sign-in, and lists 6 folders with 0 messages.',
    ]);
    expect(messagesOf(checks, 'capabilities')[0]).toContain(
      'LIST-STATUS, CONDSTORE, ESEARCH, IDLE',
    );
    // A certificate that nobody vouches for.
    const distrusting = await doctor(config);
    expect(distrusting.code).toBe(1);
    expect(distrusting.checks.find(({ name }) => name === 'service')).toMatchObject({
      state: 'failed',
      message: expect.stringContaining('cannot be trusted'),
    });
  },
  60_000,
);

test.skipIf(withoutCyrus())(
  'reads the same from Cyrus',
  async () => {
    const server = await startCyrus();
    closing.push(() => server.stop());
    const { user, password, port } = server;
    const config = configured({ port, user, address: 'anna@example.org', password });
    const { code, checks } = await doctor(config);
    expect(code).toBe(0);
    expect(messagesOf(checks, 'capabilities')[0]).toContain('OBJECTID');
    expect(messagesOf(checks, 'tls')[0]).toContain('without TLS');
  },
  60_000,
);

const folder = (name: string, messages: number, uidValidity = 7): string =>
  `* LIST () "/" "${name}"\r\n* STATUS "${name}" (MESSAGES ${messages} UIDNEXT 20000 UIDVALIDITY ${uidValidity} UNSEEN 0)\r\n`;

async function scripted(
  list: string,
  capabilities: string,
  answers: NonNullable<Script['answers']> = {},
) {
  const script: Script = {
    capabilities: `IMAP4rev1 NAMESPACE ${capabilities}`,
    answers: {
      LIST: (tag) => `${list}${tag} OK done\r\n`,
      STATUS: (tag) => `${tag} NO not now\r\n`,
      ...answers,
    },
  };
  const server = await ScriptedServer.start(script);
  closing.push(() => server.stop());
  return configured({ port: server.port, user: 'ada@example.org' });
}

test('warns of a Gmail folder that its settings seem to limit', async () => {
  const list = folder('INBOX', 10_000) + folder('Work', 1_000) + folder('Few', 1_001);
  const gmail = await doctor(await scripted(list, 'LIST-STATUS X-GM-EXT-1'));
  expect(gmail.code).toBe(0);
  const warnings = gmail.checks.filter(({ name }) => name === 'folders');
  expect(warnings.map(({ state }) => state)).toEqual(['warning', 'warning']);
  expect(warnings[0]?.message).toContain('exactly 10,000 messages in INBOX');
  expect(warnings[1]?.message).toContain('exactly 1,000 messages in Work');
  const other = await doctor(await scripted(list, 'LIST-STATUS'));
  expect(messagesOf(other.checks, 'folders')).toEqual([]);
});

test('warns that folders of others cannot be told from own ones', async () => {
  const refused = await scripted(folder('INBOX', 3), 'LIST-STATUS', {
    NAMESPACE: (tag) => `${tag} NO no\r\n`,
  });
  const { code, checks } = await doctor(refused);
  expect(code).toBe(0);
  expect(messagesOf(checks, 'folders')).toEqual([
    '127.0.0.1 refuses to tell which folders belong to other users (NAMESPACE), so every folder that it lists counts as yours.',
  ]);
});

test('names folders that cannot be mirrored, and what is missing', async () => {
  const list = folder('INBOX', 3) + folder('Odd', 1, 0);
  const { checks } = await doctor(await scripted(list, 'LIST-STATUS'));
  expect(messagesOf(checks, 'folders')[0]).toMatch(/does not open|no valid UIDVALIDITY/);
  const bare = await doctor(await scripted('', ''));
  expect(messagesOf(bare.checks, 'capabilities')).toEqual([
    'No extension makes syncs cheap; without LIST-STATUS, every folder is asked for its counts; without CONDSTORE, every folder is opened, and all flags are read; without ESEARCH, lists of messages are long, and cannot be checked by a count; without OBJECTID, moved messages are recognised by their headers, and compared later; without IDLE, the daemon sees new mail only on schedule.',
  ]);
});
