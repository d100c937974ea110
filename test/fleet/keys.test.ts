import { expect, test } from 'vitest';
import { describeError } from '../../src/core/errors.ts';
import { FleetKeys, openSecret, sealSecret } from '../../src/fleet/keys.ts';

const [OLD, NEW] = ['ab'.repeat(32), '01'.repeat(32)];
const OWNER = { fleet: '6f1c0b1e-0000-4000-8000-000000000000', owner: 'account 7' };

test('a secret comes back in its place, and is nowhere in what is stored', () => {
  const keys = FleetKeys.parse(`# of May\nmay ${NEW}\n\nold ${OLD}\n`, 'keys');
  const sealed = sealSecret(keys, OWNER, 'token', 'pässword of Anna');
  expect(sealed).toMatchObject({ purpose: 'token', keyId: 'may' });
  expect(sealed.sealed.includes('word of')).toBe(false);
  expect(openSecret(keys, OWNER, sealed)).toBe('pässword of Anna');
});

test('no two secrets have the same nonce', () => {
  const keys = FleetKeys.parse(`k ${NEW}`, 'keys');
  const nonces = Array.from({ length: 200 }, () =>
    sealSecret(keys, OWNER, 'token', 'secret').nonce.toString('hex'),
  );
  expect(new Set(nonces).size).toBe(200);
  expect(nonces.every((nonce) => nonce.length === 64)).toBe(true);
});

test('the first key encrypts; secrets of later ones are still decrypted', () => {
  const before = FleetKeys.parse(`old ${OLD}`, 'keys');
  const sealed = sealSecret(before, OWNER, 'token', 'secret');
  const after = FleetKeys.parse(`new ${NEW}\nold ${OLD}`, 'keys');
  expect(openSecret(after, OWNER, sealed)).toBe('secret');
  expect(sealSecret(after, OWNER, 'token', 'secret').keyId).toBe('new');
  const without = FleetKeys.parse(`new ${NEW}`, 'keys');
  expect(() => openSecret(without, OWNER, sealed)).toThrow(
    expect.objectContaining({ code: 'fleet-key-unknown' }),
  );
});

test('a secret that was changed or moved does not count', () => {
  const keys = FleetKeys.parse(`k ${NEW}`, 'keys');
  const sealed = sealSecret(keys, OWNER, 'token', 'secret');
  const flipped = (bytes: Buffer, at: number) => {
    const changed = Buffer.from(bytes);
    changed[at] = (changed[at] ?? 0) ^ 1;
    return changed;
  };
  const others = [
    ...Array.from(sealed.sealed, (_, at) => ({ ...sealed, sealed: flipped(sealed.sealed, at) })),
    { ...sealed, nonce: flipped(sealed.nonce, 3) },
    { ...sealed, nonce: sealed.nonce.subarray(1) },
    { ...sealed, purpose: 'platform' },
    { ...sealed, sealed: sealed.sealed.subarray(1) },
    { ...sealed, sealed: Buffer.alloc(3) },
  ];
  const damaged = expect.objectContaining({ code: 'fleet-secret-damaged', family: 'damage' });
  for (const other of others) expect(() => openSecret(keys, OWNER, other)).toThrow(damaged);
  for (const place of [{ owner: 'shard 7' }, { fleet: OWNER.fleet.replace('6', '7') }]) {
    expect(() => openSecret(keys, { ...OWNER, ...place }, sealed)).toThrow(damaged);
  }
  const another = FleetKeys.parse(`k ${OLD}`, 'keys');
  expect(() => openSecret(another, OWNER, sealed)).toThrow(damaged);
});

test.each([
  ['', 'keys has no key.'],
  ['# nothing\n', 'keys has no key.'],
  [`a ${NEW}\na ${OLD}`, 'keys, line 2, has the name of an earlier key.'],
  [`a ${NEW.slice(1)}`, 'keys, line 1, is not a key: a name, a space, and 64 hexadecimal digits.'],
  [`# x\n${NEW}`, 'keys, line 2, is not a key: a name, a space, and 64 hexadecimal digits.'],
])('keys that are none are named by their line, without the key: %j', (text, message) => {
  let caught: unknown;
  try {
    FleetKeys.parse(text, 'keys');
  } catch (error) {
    caught = error;
  }
  expect(describeError(caught).message).toBe(message);
  expect(JSON.stringify(caught)).not.toContain(NEW.slice(1));
});
