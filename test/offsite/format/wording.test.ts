import { expect, test } from 'vitest';
import {
  type KeyDamage,
  type ManifestDamage,
  type ObjectDamage,
  offsiteError,
  type RecipientType,
  type SignerDamage,
} from '../../../src/copies/format/errors.ts';
import { describeError } from '../../../src/core/errors.ts';

const OBJECT: readonly ObjectDamage[] = [
  ...(['header', 'other-copy', 'other-kind', 'key', 'chunk', 'cut', 'appended', 'frame'] as const),
];
const KEY: readonly KeyDamage[] = ['shape', 'name', 'cost', 'clear'];
const SIGNER: readonly SignerDamage[] = ['shape', 'name', 'other-copy', 'mac', 'older-key'];
const MANIFEST: readonly ManifestDamage[] = [
  ...(['shape', 'too-large', 'signature', 'other-copy', 'name', 'disagree'] as const),
];
const TYPES: readonly RecipientType[] = ['passphrase', 'recovery', 'age'];

test('every error has a sentence of its own, also for hostile names', () => {
  const errors = [
    ...OBJECT.map((reason) => offsiteError('copy-object-damaged', { name: 'data/01', reason })),
    ...KEY.map((reason) => offsiteError('copy-key-damaged', { name: 'keys/01', reason })),
    ...SIGNER.map((reason) => offsiteError('copy-signer-damaged', { name: 'signers/01', reason })),
    ...MANIFEST.map((reason) =>
      offsiteError('copy-manifest-damaged', { name: 'manifests/01', reason }),
    ),
    ...TYPES.flatMap((type) =>
      [0, 1].map((tried) => offsiteError('copy-key-refused', { type, tried })),
    ),
    ...TYPES.map((type) => offsiteError('copy-keys-too-many', { type, found: 65 })),
    ...(['shape', 'signature'] as const).map((reason) =>
      offsiteError('copy-file-damaged', { reason, found: null }),
    ),
    offsiteError('copy-file-damaged', { reason: 'newer', found: 'copy 2' }),
    ...(['length', 'character', 'checksum', 'order'] as const).map((reason) =>
      offsiteError('copy-recovery-line', { line: 2, reason, seems: 3 }),
    ),
    offsiteError('copy-age-recipient', { found: '\x1b[2J' }),
  ];
  const sentences = errors.map((error) => describeError(error).message);
  expect(new Set(sentences).size).toBe(errors.length);
  for (const sentence of sentences) {
    expect(sentence).toMatch(/\.$/);
    expect(sentence).not.toContain('\x1b');
    expect(sentence).not.toMatch(/undefined|null|bug/);
  }
});
