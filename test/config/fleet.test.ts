import { chmodSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import {
  isFleetOnly,
  loadConfig,
  loadFleetConfig,
  readRegistryAddress,
} from '../../src/core/config.ts';
import { shownFields } from '../../src/core/config-shown.ts';
import { describeError, hasCode } from '../../src/core/errors.ts';

const folder = mkdtempSync(path.join(tmpdir(), 'mailkeep-config-'));
const LEAST = {
  registry: 'postgresql://mailkeep@db.example/fleet',
  store: { bucket: 'mail' },
  keyFile: 'keys',
  node: 'node-1',
};

function written(content: object): string {
  const file = path.join(folder, 'config.json');
  writeFileSync(file, JSON.stringify(content), { mode: 0o600 });
  return file;
}

function load(fleet: object, more: object = {}) {
  return loadFleetConfig(written({ fleet, ...more }));
}

/** Path, found and expected of each problem. */
function problems(act: () => unknown): unknown {
  try {
    act();
  } catch (error) {
    if (!hasCode(error, 'config-invalid')) throw error;
    const { paths, found, expected } = error.facts as Record<string, readonly string[]>;
    return (paths ?? []).map((at, i) => `${at}: ${found?.[i]} / ${expected?.[i]}`);
  }
  return 'accepted';
}

test('a node needs registry, bucket, keys and a name; the rest has defaults', async () => {
  const { fleet, settings, warnings } = load(LEAST);
  expect(fleet).toEqual({
    registry: expect.objectContaining({ kind: 'literal', name: 'fleet.registry' }),
    directRegistry: expect.objectContaining({ kind: 'literal', name: 'fleet.registry' }),
    store: { bucket: 'mail', prefix: '' },
    keyFile: path.join(folder, 'keys'),
    node: 'node-1',
    capacity: 1_000,
    cache: path.join(folder, 'cache'),
  });
  expect((await readRegistryAddress(fleet, {})).reveal()).toBe(LEAST.registry);
  // What is done with each account is said as it is without a fleet.
  expect(settings).toMatchObject({ accounts: [], rateLimit: { concurrency: 4 } });
  expect(warnings).toEqual([]);
});

test('every field is taken', () => {
  const store = {
    ...{ bucket: 'mail.example', prefix: 'fleet/prod', endpoint: 'https://s3.example.org:9000' },
    ...{ region: 'eu-central-1', profile: 'fleet' },
  };
  const given = {
    ...{ registry: { env: 'REGISTRY' }, store, keyFile: '/etc/mailkeep/keys', node: 'a.b' },
    ...{ address: 'a.example:8443', capacity: 4_000, cache: '../cache' },
  };
  expect(load(given, { rateLimit: { concurrency: 8 } })).toMatchObject({
    fleet: {
      ...{ ...given, registry: { kind: 'env', name: 'REGISTRY' } },
      cache: path.join(folder, '../cache'),
    },
    settings: { rateLimit: { concurrency: 8 } },
  });
});

test('every wrong field is named, with what was found and what belongs there', () => {
  const wrong = {
    ...{
      registry: 'mysql://db',
      node: 'a b',
      address: ':8443',
      listen: 'here',
      capacity: 0,
      cache: '',
    },
    ...{ keyfile: 'keys' },
    store: {
      bucket: 'a/b',
      prefix: 'fleet/',
      endpoint: 'http://s3.example',
      region: 'eu 1',
      key: 1,
    },
  };
  expect(problems(() => load(wrong))).toEqual([
    'fleet.registry: a text (not shown) / an address such as "postgresql://mailkeep@db.example.org/fleet", or {"env": NAME}, {"file": PATH} or {"credential": NAME}',
    'fleet.store.bucket: "a/b" / the name of a bucket',
    'fleet.store.prefix: "fleet/" / letters, digits and -_./, without a slash at the ends',
    'fleet.store.endpoint: "http://s3.example" / an https address (http only for this machine) without user name, password, query or fragment',
    'fleet.store.region: "eu 1" / the name of a region such as "eu-central-1"',
    'fleet.store.key:  / bucket, prefix, endpoint, region, profile',
    'fleet.keyFile: nothing / the path of a file',
    'fleet.node: "a b" / a name of 1 to 64 letters, digits, dots, dashes and underscores',
    'fleet.address: ":8443" / a host and port such as "node-1.example.org:8443"',
    'fleet.listen: "here" / a host and port such as "0.0.0.0:8443"',
    'fleet.capacity: 0 / a whole number from 1 to 100000',
    'fleet.cache: an empty text / the path of a folder',
    'fleet.keyfile:  / registry, directRegistry, store, keyFile, node, address, listen, capacity, cache',
  ]);
  expect(problems(() => load(LEAST, { log: { level: 'loud' } }))).toHaveLength(1);
  expect(problems(() => loadFleetConfig(written({})))).toEqual([
    'fleet: nothing / an object with registry, directRegistry, store, keyFile, node, address, listen, capacity and cache',
  ]);
});

test('a file for a fleet alone is none for an archive on this machine', () => {
  const account = { name: 'main', baseUrl: 'https://mail.example', token: 'hush-hush-1' };
  const file = written({ fleet: LEAST });
  expect(isFleetOnly(file)).toBe(true);
  expect(problems(() => loadConfig(file))).toEqual([
    'accounts: nothing / a list of at least one account',
  ]);
  const both = written({ fleet: LEAST, accounts: [account] });
  expect(isFleetOnly(both)).toBe(false);
  expect(loadConfig(both).settings.accounts).toHaveLength(1);
  expect(loadFleetConfig(both).fleet.node).toBe('node-1');
  const wrong = { ...LEAST, node: '' };
  expect(problems(() => loadConfig(written({ accounts: [account], fleet: wrong })))).toHaveLength(
    1,
  );
});

test('a password of the registry is never shown, and its file warned of', () => {
  const secret = 'hush-hush-2';
  const wrong = [`postgres:/u:${secret}@db/fleet`, `${secret}@db`, { file: [secret] }];
  for (const registry of wrong) {
    expect(JSON.stringify(problems(() => load({ ...LEAST, registry })))).not.toContain(secret);
  }
  const registry = `postgresql://u:${secret}@db.example/fleet`;
  const file = written({ fleet: { ...LEAST, registry } });
  expect(JSON.stringify(loadFleetConfig(file))).not.toContain(secret);
  const shown = shownFields(file);
  expect(JSON.stringify(shown)).not.toContain(secret);
  expect(shown).toContainEqual({ path: 'fleet.registry', value: '***', isDefault: false });
  expect(shown).toContainEqual({ path: 'fleet.capacity', value: 1_000, isDefault: true });
  expect(shown).toContainEqual({ path: 'accounts', value: null, isDefault: true });
});

test.skipIf(process.platform === 'win32')(
  'files with secrets that others can read are warned of',
  () => {
    const [keys, address] = [path.join(folder, 'keys'), path.join(folder, 'address')];
    for (const file of [keys, address]) writeFileSync(file, 'x', { mode: 0o644 });
    const holders = (registry: unknown) =>
      load({ ...LEAST, registry }).warnings.map(({ holds, mode }) => `${holds} ${mode}`);
    expect(holders({ file: 'address' })).toEqual(['registry-password 644', 'fleet-keys 644']);
    chmodSync(keys, 0o600);
    const file = path.join(folder, 'config.json');
    written({ fleet: LEAST });
    chmodSync(file, 0o644);
    expect(holders(LEAST.registry)).toEqual([]);
    expect(holders('postgresql://u:p@db/fleet')).toEqual(['registry-password 644']);
    chmodSync(file, 0o600);
  },
);

test('an address that is not where the configuration says is reported with the place', async () => {
  const reading = async (registry: unknown, env = {}) => {
    try {
      return (await readRegistryAddress(load({ ...LEAST, registry }).fleet, env)).reveal();
    } catch (error) {
      return describeError(error).message;
    }
  };
  expect(await reading({ env: 'REGISTRY' }, { REGISTRY: ' postgresql://db/x\n' })).toBe(
    'postgresql://db/x',
  );
  const from = 'The address of the registry cannot be read from';
  expect(await reading({ env: 'REGISTRY' })).toBe(
    `${from} the environment variable REGISTRY: it does not exist.`,
  );
  expect(await reading({ env: 'REGISTRY' }, { REGISTRY: '' })).toBe(
    `${from} the environment variable REGISTRY: it is empty.`,
  );
  expect(await reading({ file: 'nowhere' })).toBe(
    `${from} the file ${path.join(folder, 'nowhere')}: it does not exist.`,
  );
  expect(await reading({ file: '.' })).toBe(`${from} the file ${folder}: it is a folder (EISDIR).`);
  expect(await reading('postgresql://db/a b')).toBe(
    `${from} the config file (fleet.registry): it contains blanks or control characters.`,
  );
});
