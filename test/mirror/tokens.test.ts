import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, test } from 'vitest';
import { openState } from '../../src/core/state.ts';
import { ApiTokens } from '../../src/web/api-tokens.ts';

const DAY = 86_400_000;

function state() {
  return openState(mkdtempSync(path.join(tmpdir(), 'mailkeep-tokens-')));
}

test('a secret has 256 bits, opens its token, and is stored nowhere', () => {
  const file = state();
  const tokens = new ApiTokens(file);
  const made = tokens.create({ name: 'laptop', mailboxes: null, expiresAt: null }, 1_000);
  const bits = Buffer.from(made.secret.replace(/^mk_/, ''), 'base64url');
  expect(bits.length).toBe(32);
  expect(tokens.find(made.secret, 2_000)).toMatchObject({ name: 'laptop', mailboxes: null });
  const stored = JSON.stringify([file.entries('api-token'), file.entries('api-token-key')]);
  expect(stored).not.toContain(made.secret);
  expect(stored).not.toContain(made.secret.slice(3));
  for (const wrong of ['', 'mk_', `${made.secret}x`, made.secret.slice(0, -1)])
    expect(tokens.find(wrong, 2_000)).toBeUndefined();
  file.close();
});

test('the same secret is another value under the key of another archive', () => {
  const [one, other] = [state(), state()];
  const { secret } = new ApiTokens(one).create({ name: 'a', mailboxes: null, expiresAt: null }, 0);
  new ApiTokens(other).create({ name: 'b', mailboxes: null, expiresAt: null }, 0);
  const [stored] = one.entries('api-token');
  other.set('api-token', stored?.key ?? '', stored?.value);
  expect(new ApiTokens(other).find(secret, 0)).toBeUndefined();
  expect(new ApiTokens(one).find(secret, 0)).toBeDefined();
  one.close();
  other.close();
});

test('an expired or revoked token opens nothing', () => {
  const file = state();
  const tokens = new ApiTokens(file);
  const short = tokens.create({ name: 'short', mailboxes: null, expiresAt: DAY }, 0);
  expect(tokens.find(short.secret, DAY - 1)).toBeDefined();
  expect(tokens.find(short.secret, DAY)).toBeUndefined();
  const long = tokens.create({ name: 'long', mailboxes: ['x'], expiresAt: null }, 0);
  expect(tokens.revoke('nobody')).toEqual([]);
  expect(tokens.revoke('long').map(({ id }) => id)).toEqual([long.token.id]);
  expect(tokens.find(long.secret, 1)).toBeUndefined();
  expect(tokens.list().map(({ name }) => name)).toEqual(['short']);
  file.close();
});

test('the last use is noted once a minute', () => {
  const file = state();
  const tokens = new ApiTokens(file);
  const { secret } = tokens.create({ name: 'a', mailboxes: null, expiresAt: null }, 0);
  const used = () => tokens.list()[0]?.usedAt;
  expect(used()).toBeNull();
  tokens.find(secret, 1_000);
  expect(used()).toBe(1_000);
  tokens.find(secret, 30_000);
  expect(used()).toBe(1_000);
  tokens.find(secret, 61_000);
  expect(used()).toBe(61_000);
  file.close();
});

test('a scope that cannot be read makes the token unknown, and never wider', () => {
  const file = state();
  const tokens = new ApiTokens(file);
  const { secret } = tokens.create({ name: 'a', mailboxes: ['m'], expiresAt: null }, 0);
  const [stored] = file.entries('api-token');
  file.set('api-token', stored?.key ?? '', { ...stored?.value, mailboxes: 'm' });
  expect(tokens.find(secret, 0)).toBeUndefined();
  file.close();
});

test('a token that is revoked while its use is noted stays revoked', () => {
  const file = state();
  const tokens = new ApiTokens(file);
  const { secret } = tokens.create({ name: 'a', mailboxes: null, expiresAt: null }, 0);
  // Another process revokes it right after it was read.
  const between = new ApiTokens({
    ...file,
    get(scope, key) {
      const value = file.get(scope, key);
      if (scope === 'api-token') tokens.revoke('a');
      return value;
    },
  });
  between.find(secret, 1_000);
  expect(tokens.list()).toEqual([]);
  expect(tokens.find(secret, 2_000)).toBeUndefined();
  file.close();
});
