import { hash, randomBytes } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import {
  type KeyDamage,
  type ManifestDamage,
  type ObjectDamage,
  offsiteError,
  type RecipientType,
  type SignerDamage,
} from '../../../src/copies/format/errors.ts';
import {
  COPY_NAME,
  commitMark,
  commitOfName,
  decodeManifest,
  encodeManifest,
  idOfName,
  MAX_MANIFEST_BYTES,
  MAX_OBJECTS,
  type ManifestInput,
  manifestName,
  markOfName,
  objectName,
  openManifest,
  recipientName,
  segmentMark,
  tailMark,
} from '../../../src/copies/format/manifest.ts';
import {
  canonicalBytes,
  decodeCopyFile,
  encodeCopyFile,
} from '../../../src/copies/format/sealed-object.ts';
import { describeError, MailkeepError } from '../../../src/core/errors.ts';
import { flipped, newSigner, numbers, opening, sealed, sealing } from './sample.ts';

const DOMAIN = 'mailkeep copy manifest 1\n';
const nameKey = Buffer.alloc(32, 7);
const commit = { number: 42, hash: 'ab'.repeat(32), time: 1_800_000_000_000 };

const signer = newSigner();
const trusted = { copyId: sealing.copyId.toString('hex'), signers: [signer.raw] };

function inputOf(segments: number, pieces: number): ManifestInput {
  const names = Array.from(Array(segments + pieces), (_, n) =>
    objectName(String(n).padStart(32, '0')),
  );
  return {
    ...{ sequence: 7, time: 1_800_000_000_001, previous: hash('sha256', 'before') },
    chain: commitMark(nameKey, commit),
    // Out of order.
    objects: names
      .toReversed()
      .map((name) => ({ name, length: 65_664, sha256: hash('sha256', name) })),
    secret: {
      ...{ archiveId: '0123456789abcdef', format: 'mailkeep archive 2\n', commit },
      segments: names.slice(0, segments).map((name, n) => ({ name, segment: n + 1 })),
      tail: names
        .slice(segments)
        .map((name, n) => ({ name, segment: segments + 1, from: n * 100, to: n * 100 + 100 })),
    },
  };
}

const input = inputOf(3, 2);
const name = manifestName(commit.number);
const bytes = await encodeManifest(input, name, { sealing, sign: signer.sign });
const fields: Record<string, unknown> = JSON.parse(bytes.toString('utf8'));

/** The reason that a manifest is refused for, or undefined. */
function refusal(manifest: Buffer, as = name, by: typeof trusted = trusted): unknown {
  try {
    decodeManifest(manifest, as, by);
    return undefined;
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    expect(error.code).toBe('copy-manifest-damaged');
    return error.facts.reason;
  }
}

/** Signs other fields, as somebody with the key could. */
function signed(changed: Record<string, unknown>, by = signer): Buffer {
  const { signature: _, ...rest } = { ...fields, ...changed };
  const signature = by.sign(Buffer.concat([Buffer.from(DOMAIN), canonicalBytes(rest)]));
  return canonicalBytes({ ...rest, signature: signature.toString('base64') });
}

test('a manifest shows without a key what it is to show, and the rest with one', async () => {
  const manifest = decodeManifest(bytes, name, trusted);
  expect(manifest).toMatchObject({
    ...{ name, commit: 42, sequence: 7, time: input.time, previous: input.previous },
    ...{ chain: commitMark(nameKey, commit), sha256: hash('sha256', bytes), signer: signer.raw },
    objects: input.objects.toReversed(),
  });
  expect(await openManifest(manifest, opening)).toEqual(input.secret);
  const shown = bytes.toString('utf8');
  expect(shown).toBe(canonicalBytes(fields).toString('utf8'));
  for (const hidden of [commit.hash, input.secret.archiveId, 'archive 2', '"segment', '"tail']) {
    expect(shown.includes(hidden)).toBe(false);
  }
});

test('the first manifest, of an empty archive, and one of many objects', async () => {
  const first = { ...inputOf(0, 0), sequence: 0, previous: null };
  for (const one of [first, inputOf(2_000, 32)]) {
    const encoded = await encodeManifest(one, name, { sealing, sign: signer.sign });
    const manifest = decodeManifest(encoded, name, trusted);
    expect(manifest.objects).toHaveLength(one.objects.length);
    expect(await openManifest(manifest, opening)).toEqual(one.secret);
  }
});

describe('without a key, a manifest is refused', () => {
  test('for every flipped bit', () => {
    const at = bytes.indexOf('"sealed":"') + 10;
    const end = bytes.indexOf('"', at);
    const next = numbers(42);
    const inSealed = Array.from(Array(100), () => 8 * at + next(8 * (end - at)));
    const others = Array.from(bytes.keys()).filter((byte) => byte < at || byte >= end);
    for (const bit of [...inSealed, ...others.map((byte) => 8 * byte + next(8))]) {
      expect([bit, refusal(flipped(bytes, bit))]).not.toEqual([bit, undefined]);
    }
  });

  test('for every cut and every byte more', () => {
    for (const length of [0, 1, 100, bytes.length - 100, bytes.length - 2, bytes.length - 1]) {
      expect([length, refusal(bytes.subarray(0, length))]).toEqual([length, 'shape']);
    }
    for (const more of [' ', '\n', '}', '\0']) {
      expect(refusal(Buffer.concat([bytes, Buffer.from(more)]))).toBe('shape');
      expect(refusal(Buffer.concat([Buffer.from(more), bytes]))).toBe('signature');
    }
  });

  test('of another signer, unless it was added', () => {
    const other = newSigner();
    const forged = signed({}, other);
    expect(refusal(forged)).toBe('signature');
    expect(refusal(forged, name, { ...trusted, signers: [] })).toBe('signature');
    expect(refusal(forged, name, { ...trusted, signers: [Buffer.alloc(0)] })).toBe('signature');
    const both = { ...trusted, signers: [other.raw, signer.raw] };
    expect([refusal(forged, name, both), refusal(bytes, name, both)]).toEqual([
      undefined,
      undefined,
    ]);
    expect(decodeManifest(forged, name, both).signer).toEqual(other.raw);
  });

  test('of another copy of the same archive, which has the same signer', () => {
    expect(refusal(bytes, name, { ...trusted, copyId: '00'.repeat(16) })).toBe('other-copy');
  });

  test('under another name', () => {
    expect(refusal(bytes, manifestName(42))).toBe('name');
    expect(refusal(bytes, manifestName(43))).toBe('name');
    expect(refusal(bytes, '../x')).toBe('name');
  });

  test('with an object that was left out, added, or changed', () => {
    const text = bytes.toString('utf8');
    const [one = '', two = ''] = text.match(/\{"length":[^}]*\},/g) ?? [];
    for (const changed of [
      text.replace(one, ''),
      text.replace(one, `${one}${one}`),
      text.replace(`${one}${two}`, `${two}${one}`),
      text.replace('65664', '65665'),
      text.replace('"sequence":7', '"sequence":8'),
      text.replace(String(input.previous), hash('sha256', 'other')),
    ]) {
      expect(changed).not.toBe(text);
      expect(refusal(Buffer.from(changed))).toBe('signature');
    }
  });

  test('too large to be one, before anything else', () => {
    expect(refusal(Buffer.alloc(MAX_MANIFEST_BYTES + 1))).toBe('too-large');
  });

  test('before odd JSON is parsed', () => {
    const after = `"signature":"${'A'.repeat(86)}==","time":1}`;
    for (const text of ['', '{}', '[', '{"a":'.repeat(100_000), after, `{${after}`]) {
      expect(['shape', 'signature']).toContain(refusal(Buffer.from(text)));
    }
    expect(refusal(Buffer.from('{"a":['.repeat(1_000_000) + after))).toBe('signature');
  });

  test.each([
    ['an unknown version', { mailkeep: 'copy manifest 2' }],
    ['another commit than its name', { commit: 43 }],
    ['a field more', { more: 1 }],
    ['a field less', { chain: undefined }],
    ['a negative number', { sequence: -1 }],
    ['a fraction', { sequence: 0.5 }],
    ['no hash', { previous: 'x' }],
    ['a number for a text', { chain: 1 }],
    ['objects that are none', { objects: {} }],
    ['an object that is none', { objects: [null] }],
    ['an object with a field more', { objects: [{ ...input.objects[0], more: 1 }] }],
    ['an object elsewhere', { objects: [{ ...input.objects[0], name: '../x' }] }],
    [
      'an object that is a key',
      { objects: [{ ...input.objects[0], name: `keys/${'0'.repeat(32)}` }] },
    ],
    ['an object twice', { objects: [input.objects[0], input.objects[0]] }],
    ['objects in another order', { objects: input.objects }],
    ['nesting beyond reason', { objects: JSON.parse(`${'['.repeat(5_000)}${']'.repeat(5_000)}`) }],
    ['base64 that is none', { sealed: '!' }],
  ])('that was signed with %s', (_, changed) => {
    expect(['shape', 'name']).toContain(refusal(signed(changed)));
  });
});

describe('with a key, a manifest is refused', () => {
  async function opened(changed: Record<string, unknown>): Promise<unknown> {
    const manifest = decodeManifest(signed(changed), name, trusted);
    try {
      return await openManifest(manifest, opening);
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
      return `${error.code} ${error.facts.reason}`;
    }
  }
  const about = { kind: 'manifest', name } as const;
  async function withSecret(secret: unknown): Promise<unknown> {
    const envelope = await sealed(canonicalBytes(secret), about);
    return opened({ sealed: envelope.toString('base64') });
  }
  const { secret } = input;

  test('that contradicts itself', async () => {
    const disagree = 'copy-manifest-damaged disagree';
    const objects = input.objects.toReversed();
    expect(await opened({})).toEqual(secret);
    expect(await opened({ objects: objects.slice(1) })).toBe(disagree);
    const more = { ...objects[0], name: `data/${'f'.repeat(48)}` };
    expect(await opened({ objects: [...objects, more] })).toBe(disagree);
    expect(await opened({ objects: [...objects.slice(0, -1), more] })).toBe(disagree);
    expect(await withSecret({ ...secret, commit: { ...commit, number: 41 } })).toBe(disagree);
    expect(await withSecret({ ...secret, tail: secret.tail.slice(0, 1) })).toBe(disagree);
    const [first, second, third] = secret.segments;
    const twice = [first, second, { ...third, name: first?.name }];
    expect(await withSecret({ ...secret, segments: twice })).toBe(disagree);
  });

  test('whose encrypted part is of another manifest', async () => {
    const other = await encodeManifest(input, manifestName(42), { sealing, sign: signer.sign });
    const { sealed: moved } = JSON.parse(other.toString('utf8'));
    expect(await opened({ sealed: moved })).toBe('copy-object-damaged key');
    expect(await opened({ sealed: '' })).toBe('copy-object-damaged cut');
  });

  test.each([
    ['no object', null],
    ['a field more', { ...secret, more: 1 }],
    ['an archive id that is none', { ...secret, archiveId: 'x' }],
    ['a format without end', { ...secret, format: 'x'.repeat(5_000) }],
    ['a hash that is none', { ...secret, commit: { ...commit, hash: 'x' } }],
    ['a gap between segments', { ...secret, segments: secret.segments.slice(1) }],
    ['segments in another order', { ...secret, segments: secret.segments.toReversed() }],
    ['a gap in the tail', { ...secret, tail: secret.tail.slice(1) }],
    ['a tail of a segment that is there', { ...secret, segments: secret.segments.slice(0, 2) }],
    ['an empty part of the tail', { ...secret, tail: [{ ...secret.tail[0], to: 0 }] }],
    ['a tail that is no list', { ...secret, tail: 'x' }],
  ])('whose encrypted part has %s', async (_, changed) => {
    expect(await withSecret(changed)).toBe('copy-manifest-damaged shape');
  });
});

test('no manifest is written that would be refused', async () => {
  const keys = { sealing, sign: signer.sign };
  const [first] = input.objects;
  const wrong: readonly ManifestInput[] = [
    { ...input, sequence: -1 },
    { ...input, objects: input.objects.slice(1) },
    { ...input, objects: [...input.objects, ...(first === undefined ? [] : [first])] },
    { ...input, secret: { ...input.secret, tail: input.secret.tail.slice(1) } },
  ];
  for (const one of wrong) {
    await expect(encodeManifest(one, name, keys)).rejects.toThrow(/contradicts itself/);
  }
  await expect(encodeManifest(input, manifestName(41), keys)).rejects.toThrow(/contradicts/);
  const many = { ...input, objects: Array(MAX_OBJECTS + 1).fill(first) };
  await expect(encodeManifest(many, name, keys)).rejects.toMatchObject({
    code: 'copy-too-many-objects',
  });
});

describe('the description of a copy', () => {
  const { copyId, publicKey } = sealing;
  const file = encodeCopyFile({ copyId, publicKey, signer: signer.raw }, signer.sign);

  test('is read as it was written', () => {
    expect(decodeCopyFile(file)).toEqual({ copyId, publicKey, signer: signer.raw });
    expect(JSON.parse(file.toString('utf8'))).toMatchObject({ mailkeep: 'copy 1' });
  });

  test('is refused for every flipped bit', () => {
    for (let bit = 0; bit < 8 * file.length; bit += 1) {
      expect(() => decodeCopyFile(flipped(file, bit)), `bit ${bit}`).toThrow(/copy-file-damaged/);
    }
  });

  test('says when a newer version wrote it, and when it is odd', () => {
    const text = file.toString('utf8');
    const refused = (changed: string) => () => decodeCopyFile(Buffer.from(changed));
    const later = encodeCopyFile({ copyId, publicKey, signer: newSigner().raw }, signer.sign);
    expect(refused(later.toString('utf8').replace('copy 1', 'copy 2'))).toThrow(/"newer"/);
    // One changed byte of ours is damage: it is signed as what it was.
    expect(refused(text.replace('copy 1', 'copy 2'))).toThrow(/"shape"/);
    for (const odd of [
      '',
      '[]',
      '{}',
      `${text} `,
      text.replace('{', '{"a":[],'),
      'x'.repeat(5_000),
    ]) {
      expect(refused(odd)).toThrow(/"shape"/);
    }
    const other = encodeCopyFile({ copyId, publicKey, signer: newSigner().raw }, signer.sign);
    expect(() => decodeCopyFile(other)).toThrow(/"signature"/);
  });
});

const segment = { segment: 12, end: { hash: 'ab'.repeat(32) }, purged: '' };
const tail = { segment: 12, from: 0, to: 65_536, end: { hash: 'ab'.repeat(32) } };

test('a mark is known again with the name key, and depends on every field', () => {
  const marks = [
    segmentMark(nameKey, segment),
    segmentMark(randomBytes(32), segment),
    segmentMark(nameKey, { ...segment, segment: 1 }),
    segmentMark(nameKey, { ...segment, end: { hash: 'ac'.repeat(32) } }),
    segmentMark(nameKey, { ...segment, purged: 'ab'.repeat(32) }),
    tailMark(nameKey, tail),
    tailMark(nameKey, { ...tail, segment: 1 }),
    tailMark(nameKey, { ...tail, from: 1 }),
    tailMark(nameKey, { ...tail, to: 1 }),
    tailMark(nameKey, { ...tail, end: { hash: 'ac'.repeat(32) } }),
    commitMark(nameKey, { number: 12, hash: 'ab'.repeat(32) }),
    commitMark(nameKey, { number: 1, hash: 'ab'.repeat(32) }),
  ];
  expect(new Set(marks).size).toBe(marks.length);
  for (const mark of marks) expect(mark).toMatch(/^[0-9a-f]{32}$/);
  expect(segmentMark(Buffer.from(nameKey), { ...segment })).toBe(marks[0]);
  // What is in copies already; a change of it would upload everything again.
  expect(marks[0]).toBe('d188bc4faae04201d16e6eba68cf3d35');
});

test('names are read as they are made, and nothing else is one', () => {
  const mark = segmentMark(nameKey, segment);
  const name = objectName(mark);
  expect(name).toMatch(/^data\/[0-9a-f]{48}$/);
  expect([markOfName(name), objectName(mark) === name]).toEqual([mark, false]);
  const manifest = manifestName(42);
  expect(manifest).toMatch(/^manifests\/0000000000000042-[0-9a-f]{32}$/);
  expect(commitOfName(manifest)).toBe(42);
  expect(commitOfName(`manifests/${'9'.repeat(16)}-${'0'.repeat(32)}`)).toBeUndefined();
  const key = recipientName('keys');
  expect([idOfName('keys', key.name), idOfName('signers', key.name)]).toEqual([key.id, undefined]);
  const signer = recipientName('signers');
  expect(idOfName('signers', signer.name)).toBe(signer.id);
  for (const odd of [
    '',
    COPY_NAME,
    'data/',
    `${name}0`,
    ` ${name}`,
    `${name}\n`,
    name.toUpperCase(),
    '../x',
  ]) {
    expect([markOfName(odd), commitOfName(odd), idOfName('keys', odd)]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  }
});

test('names of manifests are in the order of their commits', () => {
  const names = [1, 9, 10, 2 ** 40, Number.MAX_SAFE_INTEGER].map((commit) => manifestName(commit));
  expect([...names].sort()).toEqual(names);
});

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
