import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { parseTarget } from '../../src/core/s3-target.ts';
import { ran } from '../cli/surface.ts';

let cwd: string;
beforeEach(() => {
  cwd = mkdtempSync(path.join(tmpdir(), 'addresses-'));
});
afterEach(() => rmSync(cwd, { recursive: true }));

test.each([
  ['s3:/bucket/mail', 's3://bucket/mail'],
  ['s3:bucket/mail', 's3://bucket/mail'],
  ['S3:/bucket/mail', 's3://bucket/mail'],
  ['s3//bucket/mail', 's3://bucket/mail'],
  ['s3;//bucket/mail', 's3://bucket/mail'],
  ['s3:\\\\bucket\\mail', 's3://bucket/mail'],
  ['s3a://bucket/mail', 's3://bucket/mail'],
  [' s3://bucket/mail', 's3://bucket/mail'],
  ['"s3://bucket/mail"', 's3://bucket/mail'],
  ['arn:aws:s3:::bucket/mail', 's3://bucket/mail'],
  ['https://s3.eu-central-1.amazonaws.com/bucket/mail', 's3://bucket/mail'],
  ['s3.amazonaws.com/bucket/mail', 's3://bucket/mail'],
  ['http://host/bucket', 'only s3:// is known'],
  ['http:/host/bucket', 'only s3:// is known'],
  ['gs://bucket/mail', 'only s3:// is known'],
  ['sftp://host/mail', 'only s3:// is known'],
  ['sftp:host:/mail', 'only s3:// is known'],
  ['remote:mail', 'only s3:// is known'],
  ['ada@host:mail', 'only s3:// is known'],
  ['\\\\server\\share', 'only s3:// is known'],
  ['file:///media/disk', 'the folder is /media/disk'],
  ['file:/media/disk', 'the folder is /media/disk'],
])('%j is no place for a copy, and no path', async (text, suggestion) => {
  expect(() => parseTarget(text)).toThrow(
    expect.objectContaining({
      code: 'store-target-invalid',
      facts: expect.objectContaining({ problem: expect.stringContaining(suggestion) }),
    }),
  );
  for (const args of [
    ['import', '/dev/null', '--data', text],
    ['export', '--format', 'eml', '--to', text],
    ['checkpoint', '--to', text],
    ['attachments', 'abc', '--save', text],
    ['copy', '--to', text],
    ['copy', 'init', '--to', text],
    ['copy', '--from', '/nowhere', '--to', text],
    ['verify', '--copy', text],
    ['verify', '--repair', '--from', text],
  ]) {
    const { code, stderr, stdout } = await ran(args, { cwd });
    expect([args, code, stdout]).toEqual([args, 2, '']);
    // Without an archive, some commands find that out first.
    expect(stderr).toMatch(/takes a path: |is no place for a copy: |no archive/);
  }
  const env = { MAILKEEP_DATA: text };
  expect((await ran(['import', '/dev/null'], { cwd, env })).stderr).toContain('takes a path');
  expect(readdirSync(cwd)).toEqual([]);
});

test('a bucket is refused where only a path will do', async () => {
  const { code, stderr } = await ran(['export', '--format', 'eml', '--to', 's3://bucket/x'], {
    cwd,
  });
  expect([code, stderr]).toEqual([2, expect.stringContaining('a bucket cannot be used here')]);
});

test.each([
  '/mnt/usb',
  'copy',
  './s3:/x',
  './a:b',
  'C:\\copy',
  '2024-01-01T10:00',
  's3/bucket',
  'a b',
  '../x:y',
])('%j is a folder', (folder) =>
  expect(parseTarget(folder)).toEqual({ kind: 'folder', path: folder }),
);
