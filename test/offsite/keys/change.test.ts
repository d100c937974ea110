import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { ran } from '../../cli/surface.ts';
import { type KeysPlace, keysPlace } from './place.ts';

let place: KeysPlace;
beforeEach(async () => {
  place = await keysPlace();
});
afterEach(() => place.close());

async function begun(more: readonly string[] = []) {
  const { code, stderr } = await place.run('copy init', [
    ...['--recovery-key-file', 'first.txt'],
    ...more,
  ]);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  expect((await place.run('copy')).code).toBe(0);
}

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
