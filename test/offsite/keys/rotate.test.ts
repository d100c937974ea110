import { execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { keyIdIn, keyIdOf } from '../../../src/copies/format/sealed-object.ts';
import {
  keyFile,
  type LocalKey,
  readLocalKey,
  withCopyLock,
} from '../../../src/copies/local-key.ts';
import { EXIT } from '../../../src/core/errors.ts';
import { ran } from '../../cli/surface.ts';
import { absent } from '../../peers/programs.ts';
import { type KeysPlace, keysPlace } from './place.ts';

let place: KeysPlace;
beforeEach(async () => {
  place = await keysPlace();
});
afterEach(() => place.close());

async function done(
  command: string,
  options: readonly string[] = [],
  env: Readonly<Record<string, string>> = {},
): Promise<Record<string, unknown>> {
  const { code, stderr, lines } = await place.run(command, options, env);
  expect({ command, code, stderr }).toEqual({ command, code: 0, stderr: '' });
  return lines[0] ?? {};
}

async function begun(options: readonly string[] = []): Promise<void> {
  await done('copy init', ['--recovery-key-file', 'first.txt', ...options]);
  await done('copy');
}

/** Copies something new, so that there is a manifest for the key of now. */
async function copyMore(): Promise<void> {
  await place.more(1);
  await done('copy');
}

function localKey(): LocalKey {
  const [name = ''] = readdirSync(path.join(place.data, 'copies')).filter((one) =>
    one.endsWith('.json'),
  );
  return readLocalKey(keyFile(place.data, name.slice(0, -'.json'.length)));
}

const keyId = () => keyIdOf(localKey().publicKey).toString('hex');

/** The keys that the objects below a folder of the target are encrypted for. */
function keysOfObjects(names: readonly string[]): Set<string> {
  return new Set(names.map((name) => keyIdIn(readFileSync(path.join(place.target, name)))));
}

function objectsOfNewest(): string[] {
  const folder = path.join(place.target, 'manifests');
  const manifests = readdirSync(folder).map(
    (name) =>
      JSON.parse(readFileSync(path.join(folder, name), 'utf8')) as {
        sequence: number;
        objects: { name: string }[];
      },
  );
  manifests.sort((a, b) => b.sequence - a.sequence);
  return manifests[0]?.objects.map(({ name }) => name) ?? [];
}

test('after a rotation, the new recovery key opens everything and the old one what was copied before', async () => {
  await begun();
  const before = keyId();
  const rotated = await done('copy key rotate', ['--recovery-key-file', 'second.txt']);
  expect(rotated).toMatchObject({ added: [expect.any(String)], removed: [], uploaded: null });
  expect(rotated.old).toHaveLength(1);
  expect(statSync(path.join(place.work, 'second.txt')).mode & 0o777).toBe(0o600);
  expect(keyId()).not.toBe(before);

  const { lines } = await place.run('copy key list');
  const recipients = lines.filter(({ what }) => what === 'recipient');
  expect(recipients.map(({ opens }) => opens).sort()).toEqual(['new', 'old']);
  // Nothing was copied since: the newest state is the one that the old key opens.
  expect(await place.opensWith(['--recovery-key-file', 'first.txt'])).toBe(EXIT.done);
  await copyMore();
  expect(await place.opensWith(['--recovery-key-file', 'second.txt'])).toBe(EXIT.done);
  expect(await place.opensWith(['--recovery-key-file', 'first.txt'])).toBe(EXIT.usage);
  const early = ['--at-commit', '2', '--recovery-key-file', 'first.txt'];
  expect(await place.opensWith(early)).toBe(EXIT.done);

  const [last] = recipients.filter(({ opens }) => opens === 'new');
  const refused = await place.run('copy key remove', [String(last?.id)]);
  expect(refused.stderr).toContain('offsite-last-recipient');
  const verified = await ran(['verify', '--copy', place.target, '--data', place.data]);
  expect(verified.code).toBe(EXIT.done);
});

test('a file of a recovery key is never replaced, and nothing is rotated then', async () => {
  await begun();
  const before = keyId();
  const { code, stderr } = await place.run('copy key rotate', ['--recovery-key-file', 'first.txt']);
  expect(code).not.toBe(0);
  expect(stderr).toContain('usage-save-failed');
  const unseen = await place.run('copy key rotate');
  expect(unseen.stderr).toContain('offsite-no-witness');
  expect(keyId()).toBe(before);
});

test('with --reencrypt, every object of the newest state is encrypted for the new key', async () => {
  await begun();
  const before = keyId();
  expect(keysOfObjects(objectsOfNewest())).toEqual(new Set([before]));
  const old = objectsOfNewest();
  const { uploaded } = await done('copy key rotate', [
    ...['--recovery-key-file', 'second.txt', '--reencrypt'],
  ]);
  expect(uploaded).toMatchObject({ objects: 1 });
  expect(keysOfObjects(objectsOfNewest())).toEqual(new Set([keyId()]));
  expect(keyId()).not.toBe(before);
  expect(await place.opensWith(['--recovery-key-file', 'second.txt'])).toBe(EXIT.done);
  expect(await place.opensWith(['--recovery-key-file', 'first.txt'])).toBe(EXIT.usage);
  // Whoever reads the state before still can, until it is a day old.
  expect(keysOfObjects(old)).toEqual(new Set([before]));
});

test('a passphrase opens what it was added to; another one ends with the exit code of usage', async () => {
  writeFileSync(path.join(place.work, 'phrase.txt'), 'correct horse\n');
  writeFileSync(path.join(place.work, 'wrong.txt'), 'correct house\n');
  await begun();
  await done('copy key add', ['--passphrase-file', 'phrase.txt']);
  expect(await place.opensWith(['--passphrase-file', 'phrase.txt'])).toBe(EXIT.done);
  expect(await place.opensWith(['--passphrase-file', 'wrong.txt'])).toBe(EXIT.usage);
  const both = ['--recovery-key-file', 'second.txt', '--passphrase-file', 'phrase.txt'];
  expect((await done('copy key rotate', both)).added).toHaveLength(2);
  await copyMore();
  expect(await place.opensWith(['--passphrase-file', 'phrase.txt'])).toBe(EXIT.done);
  // The passphrase of the environment opens a copy; it is no new recipient.
  const env = { MAILKEEP_COPY_PASSPHRASE: 'correct horse' };
  const third = await done('copy key rotate', ['--recovery-key-file', 'third.txt'], env);
  expect(third.added).toHaveLength(1);
}, 120_000);

test('a machine that can only write rotates with a key that opens the copy, and still cannot read', async () => {
  await begun(['--write-only']);
  const file = ['--recovery-key-file', 'second.txt'];
  expect((await place.run('copy key rotate', file)).stderr).toContain('offsite-no-way');
  await done('copy key rotate', [...file, '--open-with-recovery-key', 'first.txt']);
  expect(localKey().privateKeys).toEqual([]);
  await copyMore();
  expect(await place.opensWith(file)).toBe(EXIT.done);
  const third = ['--recovery-key-file', 'third.txt'];
  const old = await place.run('copy key rotate', [
    ...third,
    ...['--open-with-recovery-key', 'first.txt'],
  ]);
  expect(old.stderr).toContain('offsite-key-unfit');
});

test.skipIf(absent('age', 'age-keygen'))(
  "an identity of age's own program opens the copy after a rotation, and age reads its recipient",
  async () => {
    await begun();
    const identity = path.join(place.work, 'identity.txt');
    execFileSync('age-keygen', ['-o', identity], { stdio: 'ignore' });
    const recipient = execFileSync('age-keygen', ['-y', identity], { encoding: 'utf8' }).trim();
    const [id] = (await done('copy key add', ['--age', recipient, '--label', 'Anna']))
      .added as string[];
    const rotated = await done('copy key rotate', ['--recovery-key-file', 'second.txt']);
    expect(rotated.removed).toEqual([id]);
    await copyMore();
    expect(await place.opensWith(['--identity-file', identity])).toBe(EXIT.done);
    const { lines } = await place.run('copy key list');
    const [aged] = lines.filter(({ type }) => type === 'age');
    expect(aged).toMatchObject({ label: 'Anna', opens: 'new' });
    const object = path.join(place.target, 'keys', String(aged?.id));
    const { wrapped } = JSON.parse(readFileSync(object, 'utf8')) as { wrapped: string };
    const secrets = execFileSync('age', ['-d', '-i', identity], {
      input: Buffer.from(wrapped, 'base64'),
      encoding: 'utf8',
    });
    expect((JSON.parse(secrets) as { privateKeys: unknown[] }).privateKeys).toHaveLength(2);
  },
);

test('an age recipient that was removed elsewhere is not wrapped again', async () => {
  const recipient = await identityToRecipient(await generateIdentity());
  await begun(['--age', recipient]);
  const id = localKey().age[0]?.id ?? '';
  rmSync(path.join(place.target, 'keys', id));
  expect((await done('copy key rotate', ['--recovery-key-file', 'second.txt'])).added).toHaveLength(
    1,
  );
  expect(localKey().age).toEqual([]);
});

test('adopting refuses keys that were rotated, takes older ones only on request, and waits for nobody', async () => {
  await begun();
  await done('copy key rotate', ['--recovery-key-file', 'second.txt']);
  const first = ['--recovery-key-file', 'first.txt'];
  const refused = await place.run('copy adopt', first);
  expect(refused).toMatchObject({ code: EXIT.usage });
  expect(refused.stderr).toContain('offsite-key-older');
  await done('copy adopt', ['--recovery-key-file', 'second.txt']);
  const key = localKey();
  expect(key.privateKeys).toHaveLength(2);
  await withCopyLock(place.data, key, place.target, async () => {
    const locked = await place.run('copy adopt', ['--recovery-key-file', 'second.txt']);
    expect(locked.code).toBe(EXIT.inUse);
    // Nobody gets a recovery key that would open nothing.
    const file = ['--recovery-key-file', 'third.txt'];
    for (const command of ['copy key rotate', 'copy key add']) {
      expect((await place.run(command, file)).code).toBe(EXIT.inUse);
    }
    expect(existsSync(path.join(place.work, 'third.txt'))).toBe(false);
  });
  const { newer } = await done('copy adopt', [...first, '--older-key']);
  expect(newer).toHaveLength(1);
  expect(localKey().privateKeys).toHaveLength(1);
  await done('copy adopt', ['--recovery-key-file', 'second.txt']);
  await copyMore();
  // The signed manifest shows it now: nobody who has the old key could read it.
  const still = await place.run('copy adopt', [...first, '--older-key']);
  expect(still.stderr).toContain('offsite-key-older');
  expect(localKey().privateKeys).toHaveLength(2);
});

test('no copy gets more keys or recipients than a reader takes', async () => {
  await begun();
  const recipient = await identityToRecipient(await generateIdentity());
  const many = Array.from({ length: 65 }, () => ['--age', recipient]).flat();
  const crowd = await place.run('copy key add', many);
  expect(crowd.stderr).toContain('offsite-too-many-recipients');
  const key = localKey();
  const [newest = Buffer.alloc(0)] = key.privateKeys;
  const hundred = [newest, ...Array.from({ length: 99 }, () => randomBytes(32))];
  await key.with({ privateKeys: hundred }).write(keyFile(place.data, key.copyId));
  const file = ['--recovery-key-file', 'second.txt'];
  expect((await place.run('copy key rotate', file)).stderr).toContain('offsite-too-many-rotations');
  expect(existsSync(path.join(place.work, 'second.txt'))).toBe(false);
  expect(localKey().next).toBeUndefined();
});

test('an interrupted rotation is listed, and completed by the same command without a new key', async () => {
  await begun();
  const key = localKey();
  const [only = ''] = readdirSync(path.join(place.target, 'keys'));
  const replaced = 'ab'.repeat(16);
  copyFileSync(path.join(place.target, 'keys', only), path.join(place.target, 'keys', replaced));
  await key.with({ replaced: [replaced] }).write(keyFile(place.data, key.copyId));
  const { lines } = await place.run('copy key list');
  expect(lines).toContainEqual({ what: 'rotation', state: 'interrupted' });
  const line = ['copy', 'key', 'rotate', '--to', place.target, '--data', place.data];
  const completed = await ran([...line, '--recovery-key-file', 'second.txt'], { cwd: place.work });
  expect(completed).toMatchObject({ code: EXIT.done, stderr: '' });
  expect(completed.stdout).toContain('The rotation that was interrupted is complete');
  expect(existsSync(path.join(place.work, 'second.txt'))).toBe(false);
  expect(readdirSync(path.join(place.target, 'keys'))).toEqual([only]);
  expect(localKey()).toMatchObject({ publicKey: key.publicKey, replaced: [] });
  const after = await place.run('copy key list');
  expect(after.code).toBe(EXIT.done);
  expect(after.lines.map(({ what }) => what)).toEqual(['recipient', 'signer']);
});

/** Whether an archive comes back with a key. */
const opensWith = async (options: readonly string[]) => (await place.opensWith(options)) === 0;

const recipientsIn = (lines: Record<string, unknown>[]) =>
  lines.filter(({ what }) => what === 'recipient');

test('recipients are added, listed, open the copy, and are removed', async () => {
  await begun();
  const identity = await generateIdentity();
  writeFileSync(path.join(place.work, 'age.txt'), `${identity}\n`);
  writeFileSync(path.join(place.work, 'phrase.txt'), 'correct horse\n');
  const recipient = await identityToRecipient(identity);
  const aged = await place.run('copy key add', ['--age', recipient, '--label', 'An\u001bna']);
  expect(aged).toMatchObject({ code: 0, stderr: '' });
  expect((await place.run('copy key add', ['--passphrase-file', 'phrase.txt'])).code).toBe(0);
  expect((await place.run('copy key add', [], { MAILKEEP_COPY_PASSPHRASE: 'two' })).code).toBe(0);
  const file = ['--recovery-key-file', 'second.txt'];
  expect((await place.run('copy key add', file)).code).toBe(0);
  expect((await place.run('copy key add', file)).code).not.toBe(0);

  const { lines } = await place.run('copy key list');
  const recipients = recipientsIn(lines);
  expect(recipients.map(({ type }) => type).sort()).toEqual(
    ['age', 'passphrase', 'passphrase', 'recovery', 'recovery'].sort(),
  );
  expect(recipients.every(({ opens }) => opens === 'new')).toBe(true);
  expect(lines.filter(({ what }) => what === 'signer')).toMatchObject([{ first: true }]);
  const text = await ran(['copy', 'key', 'list', '--to', place.target, '--data', place.data]);
  expect(text.stdout).toContain('An');
  expect(text.stdout).not.toContain('\u001b');

  expect(await opensWith(['--identity-file', 'age.txt'])).toBe(true);
  expect(await opensWith(['--passphrase-file', 'phrase.txt'])).toBe(true);
  expect(await opensWith(['--recovery-key-file', 'second.txt'])).toBe(true);

  const [id = ''] = recipients.flatMap((one) => (one.type === 'age' ? [String(one.id)] : []));
  const removed = await place.run('copy key remove', [id.slice(0, 12)]);
  expect(removed.lines).toMatchObject([{ removed: [id] }]);
  expect(await opensWith(['--identity-file', 'age.txt'])).toBe(false);
  expect(await opensWith(['--recovery-key-file', 'first.txt'])).toBe(true);
  const keyFolder = path.join(place.data, 'copies');
  expect(readFileSync(path.join(keyFolder, `${await idOfCopy()}.json`), 'utf8')).not.toContain(
    recipient,
  );
}, 120_000);

async function idOfCopy(): Promise<string> {
  const marker: unknown = JSON.parse(
    readFileSync(path.join(place.target, 'mailkeep-copy'), 'utf8'),
  );
  return String((marker as { copy: unknown }).copy);
}

test('the last recipient that opens new objects stays, and an id must name exactly one', async () => {
  await begun();
  const [only] = recipientsIn((await place.run('copy key list')).lines);
  const last = await place.run('copy key remove', [String(only?.id)]);
  expect(last.stderr).toContain('offsite-last-recipient');
  const none = await place.run('copy key remove', ['zz']);
  expect(none.stderr).toContain('offsite-no-recipient');
  expect((await place.run('copy key remove', [''])).stderr).toContain('usage-invalid');
  expect(await opensWith(['--recovery-key-file', 'first.txt'])).toBe(true);
});

test('a damaged object is named, and can be removed', async () => {
  await begun();
  const id = 'ab'.repeat(16);
  writeFileSync(path.join(place.target, 'keys', id), '{}');
  writeFileSync(path.join(place.target, 'mailkeep-copy.note'), 'no object of ours');
  const { code, lines } = await place.run('copy key list');
  expect(code).toBe(3);
  expect(lines.filter(({ what }) => what === 'damaged')).toMatchObject([{ name: `keys/${id}` }]);
  expect((await place.run('copy key remove', [id])).code).toBe(0);
  expect((await place.run('copy key list')).code).toBe(0);
});

test('a machine that can only write needs a key that opens the copy', async () => {
  await begun(['--write-only']);
  const wrong = await place.run('copy key add', ['--recovery-key-file', 'third.txt']);
  expect(wrong.code).not.toBe(0);
  expect(wrong.stderr).toContain('offsite-no-way');
  const right = await place.run('copy key add', [
    ...['--recovery-key-file', 'third.txt'],
    ...['--open-with-recovery-key', 'first.txt'],
  ]);
  expect(right).toMatchObject({ code: 0, stderr: '' });
  expect(await opensWith(['--recovery-key-file', 'third.txt'])).toBe(true);
  const both = ['--open-with-recovery-key', 'first.txt', '--open-with-passphrase', 'x'];
  const refused = await place.run('copy key add', ['--recovery-key-file', 'x.txt', ...both]);
  expect(refused.stderr).toContain('--open-with-recovery-key');
});
