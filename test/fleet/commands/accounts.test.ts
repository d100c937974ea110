import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { sql } from 'kysely';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { genesisHash } from '../../../src/archive/format.ts';
import { storedAccount } from '../../../src/core/config-schema.ts';
import { readFleetKeys } from '../../../src/fleet/key-file.ts';
import { openSecret } from '../../../src/fleet/secrets.ts';
import { listAccounts } from '../../../src/registry/overview.ts';
import { readArchive, readSecrets, unwantedArchives } from '../../../src/registry/reading.ts';
import { endSession } from '../../../src/registry/sessions.ts';
import { claimed, committedBatches, done, newSession } from '../../registry/servers/fleet.ts';
import { Postgres, withoutPostgres } from '../../registry/servers/postgres.ts';
import { FLEET } from '../servers/scene.ts';
import { Place } from './place.ts';

const skipped = withoutPostgres();
let server: Postgres;
let place: Place;

beforeAll(async () => {
  if (!skipped) server = await Postgres.start();
});
beforeEach(async () => {
  if (!skipped) place = await Place.ready(server);
});
afterEach(() => place?.remove());
afterAll(() => server?.stop());

const SETTINGS = { baseUrl: 'https://mail.example/', folders: { exclude: ['INBOX.Spam'] } };

function write(name: string, content: unknown): string {
  const text = typeof content === 'string' ? content : JSON.stringify(content);
  writeFileSync(path.join(place.folder, name), text, { mode: 0o600 });
  return name;
}

/** Adds an account with a token. */
async function added(name: string, ...more: readonly string[]): Promise<number> {
  const line = ['account', 'add', name, '--settings', write('settings', SETTINGS), ...more];
  const [facts] = (await place.json([...line, '--token-file', write('token', 'hush-1\n')])) as [
    { archive: number },
  ];
  return facts.archive;
}

/** What a worker gets of an account. */
async function stored(archive: number) {
  const { registry, keyFile } = place;
  const found = await readArchive(registry, archive);
  const keys = readFleetKeys(keyFile);
  const sealed = await readSecrets(registry, archive);
  const secrets = new Map(
    sealed.map((secret) => [secret.purpose, openSecret(keys, FLEET, secret)] as const),
  );
  return { found, secrets, settings: storedAccount('anna', found?.settings, secrets) };
}

/** Every row of every table, as text. */
async function everyRow(): Promise<string> {
  const rows = await place.registry.read<{ row: string }>(
    'test',
    sql`SELECT a::text AS row FROM archive a UNION ALL SELECT s::text FROM secret s`,
  );
  return rows.map(({ row }) => row).join('\n');
}

describe.skipIf(skipped)('mailkeep fleet account add', () => {
  test('adds an account with its secrets, which no row has in the clear', async () => {
    const entry = {
      ...{ ...SETTINGS, name: 'anna', token: { env: 'TOKEN' } },
      platform: { url: 'https://platform.example', token: { file: 'platform' }, orderId: 'O1' },
    };
    write('platform', 'hush-platform\n');
    place.env = { ...place.env, TOKEN: 'hush-token', HOOKS: 'hush-hooks' };
    const settings = ['--settings', write('anna.json', entry), '--webhook-secret-env', 'HOOKS'];
    const ran = await place.run(['account', 'add', 'anna', '--tenant', 'acme', ...settings]);
    expect(ran).toEqual({
      code: 0,
      stdout:
        'Added the account anna of the tenant acme as archive 1. Its secrets (token, platform-token, webhook) are encrypted by the key k1.\n',
      stderr: '',
    });
    const { found, secrets, settings: account } = await stored(1);
    expect(found?.settings).toEqual({
      ...SETTINGS,
      platform: { url: 'https://platform.example', orderId: 'O1' },
    });
    expect(found?.head).toMatchObject({ headNumber: 0, epoch: 0, holder: null });
    const genesis = genesisHash(found?.logId ?? Buffer.alloc(0));
    expect(found?.head.headHash.toString('hex')).toBe(genesis);
    expect(found?.head.hotPreviousHash.toString('hex')).toBe(genesis);
    expect(Object.fromEntries(secrets)).toEqual({
      ...{ token: 'hush-token', 'platform-token': 'hush-platform', webhook: 'hush-hooks' },
    });
    expect(account).toMatchObject({
      ...{ name: 'anna', baseUrl: 'https://mail.example', insecure: false },
      platform: { url: 'https://platform.example', orderId: 'O1' },
      folders: { include: ['*'], exclude: ['INBOX.Spam'] },
    });
    const { token } = account;
    expect(token.kind === 'literal' && token.secret.reveal()).toBe('hush-token');
    expect(await everyRow()).not.toMatch(/hush|TOKEN/);
  });

  test('takes settings or token from standard input, and a new log for each account', async () => {
    const literal = { ...SETTINGS, token: 'hush-literal' };
    const piped = { stdin: JSON.stringify(literal) };
    const first = ['account', 'add', 'anna', '--settings', '-'];
    expect(await place.json(first, piped)).toEqual([
      { account: 'anna', tenant: 'default', archive: 1, secrets: ['token'], key: 'k1' },
    ]);
    const second = ['account', 'add', 'ben', '--settings', write('ben', literal)];
    await place.json([...second, '--token-file', '-'], { stdin: ' hush-piped\n' });
    expect((await stored(1)).secrets.get('token')).toBe('hush-literal');
    expect((await stored(2)).secrets.get('token')).toBe('hush-piped');
    const logs = [(await stored(1)).found?.logId, (await stored(2)).found?.logId];
    expect(logs[0]?.equals(logs[1] ?? Buffer.alloc(0))).toBe(false);
    expect(await everyRow()).not.toContain('hush');
  });

  test('a name counts once for each tenant', async () => {
    await added('anna');
    await added('anna', '--tenant', 'acme');
    const again = await place.run([
      ...['account', 'add', 'anna', '--settings', 'settings', '--token-file', 'token'],
    ]);
    expect(again).toMatchObject({
      ...{ code: 2, stdout: '' },
      stderr: expect.stringContaining(
        'There is an account anna of the tenant default already. Nothing was changed.',
      ),
    });
    expect(await listAccounts(place.registry, {}, 10)).toHaveLength(2);
  });

  test.each([
    [{ baseUrl: 'mail.example', tokn: 'x' }, ['token.: found nothing', 'baseUrl: found "mail.']],
    [{ ...SETTINGS, token: 'hush', name: 'ben' }, ['name: found "ben", expected "anna", as']],
    [{ ...SETTINGS, token: 'hush', tokn: 1 }, ['tokn: Unknown field "tokn". Did you mean "token"']],
    [{ baseUrl: 'http://mail.example', token: 'hush' }, ['baseUrl: found "http://mail.example"']],
    [{ ...SETTINGS, token: { env: 'NOWHERE' } }, ['environment variable NOWHERE does not exist']],
    [{ ...SETTINGS, token: 'hush hush' }, ['accounts.anna.token) contains no token']],
    ['{"token": "hush",}', ['is not valid JSON at line 1, column 18']],
    ['[]', ['(file): found an empty list, expected an object with at least name']],
  ] as const)('what is wrong with %j is said, and nothing is added', async (entry, expected) => {
    const line = ['account', 'add', 'anna', '--settings', write('wrong', entry)];
    const { code, stdout, stderr } = await place.run(line);
    expect([code, stdout]).toEqual([2, '']);
    for (const text of expected) expect(stderr).toContain(text.replace('token.:', 'token:'));
    expect(stderr).not.toContain('hush');
    expect(await listAccounts(place.registry, {}, 10)).toEqual([]);
  });

  test('needs a fleet, its keys, and settings', async () => {
    const line = ['account', 'add', 'anna', '--settings', write('settings', SETTINGS)];
    const token = ['--token-file', write('token', 'hush')];
    const said = async (args: readonly string[]) => {
      const { code, stderr } = await place.run(args);
      return `${code}: ${stderr}`;
    };
    expect(await said(line.slice(0, 3))).toMatch(/^2: .*--settings/);
    expect(await said([...line, ...token, '--token-env', 'X'])).toMatch(
      /^2: .*cannot be used with/,
    );
    const twice = ['account', 'add', 'anna', '--settings', '-', '--token-file', '-'];
    expect(await said(twice)).toContain('Only one of the files can be -');
    expect(await said(['account', 'add', 'a b', '--settings', 'settings', ...token])).toContain(
      'name: found "a b"',
    );
    expect(await said([...line, ...token, '--tenant', 'a b'])).toContain('It takes a name of');
    place.configure({ keyFile: 'nowhere' });
    expect(await said([...line, ...token])).toMatch(/^2: .*keys of the fleet cannot be read from/);
    place.configure({ store: { bucket: 'others' } });
    expect(await said([...line, ...token])).toMatch(
      /^2: .*belongs to a fleet whose objects are in/,
    );
    place.configure();
    await place.registry.statement('test', sql`DELETE FROM fleet`);
    expect(await said([...line, ...token])).toMatch(/^2: .* has no fleet\.\n.*fleet init/);
    expect(await said(['account'])).toMatch(/^2: .*add\|list\|pause\|resume\|remove/s);
    expect(await said(['account', 'ad'])).toContain("Unknown command 'ad'. Did you mean add?");
  });
});

describe.skipIf(skipped)('mailkeep fleet account list', () => {
  test('shows who holds what, how fresh it is, and what is in PostgreSQL', async () => {
    expect(await place.run(['account', 'list'])).toEqual({
      ...{ code: 0, stdout: '', stderr: 'There are no accounts.\n' },
    });
    const { registry } = place;
    const [anna, ben] = [await added('anna', '--tenant', 'acme'), await added('ben')];
    const [first, second] = [await newSession(registry, 'n1'), await newSession(registry, 'n2')];
    const { lease, head } = await claimed(registry, first, anna);
    await committedBatches(registry, lease, head, 3);
    await claimed(registry, second, ben);
    done(await endSession(registry, second));
    await added('carl', '--tenant', 'acme');
    place.now = () => Date.UTC(2026, 0, 1, 2, 30);
    expect((await place.run(['account', 'list'])).stdout.split('\n')).toEqual([
      'account  tenant   state   node       commits  last commit     in PostgreSQL',
      'anna     acme     active  n1         3        2 h 30 min ago  21 B',
      'carl     acme     active  -          0        -               0 B',
      'ben      default  active  n2 (dead)  0        -               0 B',
      '',
    ]);
    expect(await place.json(['account', 'list', '--tenant', 'acme'])).toEqual([
      {
        ...{ account: 'anna', tenant: 'acme', archive: anna, state: 'active', node: 'n1' },
        ...{ holderAlive: true, commits: 3, lastCommit: '2026-01-01T00:00:00.000Z' },
        ...{ tailBytes: 21, unfinishedForgets: 0 },
      },
      expect.objectContaining({ account: 'carl', node: null, lastCommit: null }),
    ]);
  });

  test('has all of many accounts, a page at a time', async () => {
    await place.registry.statement(
      'test',
      sql`WITH t AS (INSERT INTO tenant (name, weight) VALUES ('many', 1) RETURNING id)
        INSERT INTO archive (tenant, name, log_id, settings, head_hash, hot_previous_hash)
        SELECT t.id, 'account-' || i, '', '{}', '', '' FROM t, generate_series(1, 1001) AS i`,
    );
    const all = (await place.json(['account', 'list'])) as { account: string }[];
    expect(new Set(all.map(({ account }) => account)).size).toBe(1_001);
    const table = (await place.run(['account', 'list'])).stdout.trimEnd().split('\n');
    expect(table.filter((line) => line.startsWith('account-'))).toHaveLength(1_001);
  });
});

describe.skipIf(skipped)('mailkeep fleet account pause, resume and remove', () => {
  test('a paused account is let go of by its holder, and comes back', async () => {
    const { registry } = place;
    const anna = await added('anna');
    const session = await newSession(registry, 'node-7');
    await claimed(registry, session, anna);
    const said = async (act: string, ...more: readonly string[]) => {
      const { code, stdout } = await place.run(['account', act, 'anna', ...more]);
      return [code, ...stdout.trimEnd().split('\n')];
    };
    const holds = 'Node node-7 holds it and lets go of it soon.';
    expect(await said('pause')).toEqual([
      ...[0, 'anna (tenant default) is paused: no node takes it.', holds],
    ]);
    expect(await unwantedArchives(registry, session)).toMatchObject([{ because: 'paused' }]);
    expect(await said('pause')).toEqual([
      ...[0, 'anna (tenant default) is already paused: no node takes it.', holds],
    ]);
    expect(await said('resume')).toEqual([
      ...[0, 'anna (tenant default) is active: any node may take it.'],
    ]);
    expect(await unwantedArchives(registry, session)).toEqual([]);
    const purge = sql`INSERT INTO purge (archive, purges, number, commits, records)
      VALUES (${anna}, 1, 1, '{1}', '[]')`;
    await registry.statement('test', purge);
    expect(await said('remove')).toEqual([
      ...[0, expect.stringMatching(/is removed from the fleet.*mail stays/), holds],
      '1 forget of it cannot end before it is resumed.',
    ]);
    expect(await unwantedArchives(registry, session)).toMatchObject([{ because: 'leaving' }]);
    const paused = await place.run(['account', 'pause', 'anna']);
    expect(paused).toMatchObject({ code: 2, stderr: expect.stringContaining('account resume') });
    expect((await stored(anna)).secrets.get('token')).toBe('hush-1');
    expect(await place.json(['account', 'resume', 'anna'])).toEqual([
      {
        ...{ account: 'anna', tenant: 'default', archive: anna, state: 'active', changed: true },
        ...{ node: 'node-7', unfinishedForgets: 1 },
      },
    ]);
  });

  test('an account has to be named so that it is one', async () => {
    await added('anna', '--tenant', 'acme');
    await added('anna', '--tenant', 'globex');
    const said = async (...args: readonly string[]) => {
      const { code, stderr } = await place.run(['account', 'pause', ...args]);
      return `${code}: ${stderr}`;
    };
    expect(await said('anna')).toContain(
      'Several tenants have an account anna: acme, globex.\nName the tenant with --tenant.',
    );
    expect(await said('ben')).toMatch(/^2: .*There is no account ben\./);
    expect(await said('anna', '--tenant', 'none')).toContain(
      'The tenant none has no account anna.',
    );
    expect(await said('anna', '--tenant', 'globex')).toBe('0: ');
    const states = (await listAccounts(place.registry, {}, 9)).map(({ state }) => state);
    expect(states).toEqual(['active', 'paused']);
  });
});
