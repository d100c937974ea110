import { randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import {
  COPY_NAME,
  commitMark,
  commitOfName,
  idOfName,
  manifestName,
  markOfName,
  objectName,
  recipientName,
  segmentMark,
  tailMark,
} from '../../../src/copies/format/manifest.ts';

const nameKey = Buffer.alloc(32, 7);
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
