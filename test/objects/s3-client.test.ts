import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { ByteRate, isObjectName, isPlainName } from '../../src/copies/object-store.ts';
import { childrenOf, parseXml, textOf, xmlText } from '../../src/copies/s3-client.ts';
import { resolveS3, type S3Settings } from '../../src/copies/s3-settings.ts';
import type { Clock } from '../../src/core/concurrency.ts';
import {
  objectKey,
  objectUrl,
  parseTarget,
  type S3Target,
  targetLabel,
} from '../../src/core/s3-target.ts';
import { signal } from './store-contract.ts';

function parsed(text: string) {
  return parseXml(Buffer.from(text));
}

test('elements have names without prefixes, texts and children', () => {
  const root = parsed(
    '<?xml version="1.0"?>\n<s3:List xmlns:s3="x"><A>1 &amp; &#228;&lt;</A><B/><A>2</A><C><D>x</D></C></s3:List>\n',
  );
  expect(root?.name).toBe('List');
  if (root === undefined) return;
  expect(childrenOf(root, 'A').map(({ text }) => text)).toEqual(['1 & ä<', '2']);
  expect([textOf(root, 'A'), textOf(root, 'B'), textOf(root, 'none')]).toEqual(['1 & ä<', '', '']);
  expect(textOf(childrenOf(root, 'C')[0] ?? root, 'D')).toBe('x');
  expect(parsed('<Nothing xmlns="x"/>')?.name).toBe('Nothing');
  expect(parsed(`<a><b>${xmlText('<&>"')}</b></a>`)?.children[0]?.text).toBe('<&>"');
});

test.each([
  ['nothing', ''],
  ['text', 'Service Unavailable'],
  ['an incomplete document', '<List><Key>a</Key>'],
  ['an incomplete tag', '<List><Key>a</Key></Lis'],
  ['two roots', '<a></a><b></b>'],
  ['deep nesting', '<a>'.repeat(17) + '</a>'.repeat(17)],
])('%s is no answer', (_name, text) => {
  expect(parsed(text)).toBeUndefined();
});

test('entities of a document type are not replaced, and nothing grows', () => {
  const root = parsed(
    '<!DOCTYPE a [<!ENTITY b "bbbb"><!ENTITY c SYSTEM "file:///etc/passwd">]><a>&b;&c;</a>',
  );
  expect(root?.text ?? '').not.toMatch(/bbbb|root:/);
});

test('large and hostile documents take little time', () => {
  const many = `<List>${'<A/>'.repeat(100_000)}</List>`;
  expect(parsed(many)?.children).toHaveLength(100_000);
  expect(parsed(`<List>${'<A>'.repeat(1_000_000)}`)).toBeUndefined();
  expect(parsed('<'.repeat(1_000_000))).toBeUndefined();
  expect(parsed(`<a>${'&'.repeat(1_000_000)}</a>`)?.text).toHaveLength(1_000_000);
});

/** Time passes when somebody waits for it. */
class WaitedClock implements Clock {
  time = 1_000_000;

  now(): number {
    return this.time;
  }

  after(ms: number, call: () => void): () => void {
    queueMicrotask(() => {
      this.time += ms;
      call();
    });
    return () => {};
  }
}

test('bytes pass at the rate that was set, from the first second on', async () => {
  const clock = new WaitedClock();
  const rate = new ByteRate(1000, clock);
  expect(rate.piece).toBe(100);
  const start = clock.time;
  for (let sent = 0; sent < 10_000; sent += 100) {
    await rate.take(100, signal);
    expect(sent).toBeLessThanOrEqual(clock.time - start);
  }
  expect(clock.time - start).toBe(9_900);
  // Time in which nothing is sent is not saved up.
  clock.time += 60_000;
  const later = clock.time;
  for (let sent = 0; sent < 1000; sent += 100) await rate.take(100, signal);
  expect(clock.time - later).toBe(900);
});

test('without a limit nothing waits, and a clock that is set back stops nothing', async () => {
  const clock = new WaitedClock();
  const free = new ByteRate(undefined, clock);
  await free.take(1e12, signal);
  expect(clock.time).toBe(1_000_000);
  const rate = new ByteRate(1e6, clock);
  await rate.take(1e6, signal);
  clock.time = 0;
  await rate.take(1, signal);
  expect(clock.time).toBeLessThan(120_000);
});

test('a signal ends the waiting', async () => {
  const rate = new ByteRate(1, { now: () => 0, after: () => () => {} });
  await rate.take(1, signal);
  const controller = new AbortController();
  const waiting = rate.take(1, controller.signal);
  controller.abort(new Error('stopped'));
  await expect(waiting).rejects.toThrow('stopped');
});

const FLEET =
  '0f0e0d0c-0b0a-4908-8706-050403020100/00112233445566aa/s/0000000001.2/1-40.7.0badcafe.seg';

test('dots are allowed within a part of a name, and never lead out of a folder', () => {
  for (const name of ['data/a', 'a.b', 'a..b', 'a.', '-.-/0', FLEET]) {
    expect(isObjectName(name), name).toBe(true);
  }
  const wrong = [
    ...['', '.', '..', '.a', '/a', 'a/', 'a//b', 'a/.', 'a/..', 'a/../b', './a', '../a', 'a/.b'],
    ...['a/.unfinished-1', 'A', 'a b', 'a\\b', 'a%2e', 'a\n', 'a\0b', 'ü', 'a'.repeat(241)],
  ];
  for (const name of wrong) expect(isObjectName(name), name).toBe(false);
  for (const name of [FLEET, 'a.b', ...wrong]) expect(isPlainName(name), name).toBe(false);
  expect(isPlainName('data/a-1')).toBe(true);
});

const KEYS = { AWS_ACCESS_KEY_ID: 'AKID', AWS_SECRET_ACCESS_KEY: 'hidden-secret' };

function home(files: Readonly<Record<string, string>> = {}): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'aws-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  mkdirSync(path.join(folder, '.aws'));
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(path.join(folder, '.aws', name), text);
  }
  return folder;
}

async function resolved(settings: Partial<S3Settings>, bucket = 'bucket'): Promise<S3Target> {
  return await resolveS3(
    { kind: 's3', bucket, prefix: 'p/q' },
    { env: KEYS, home: home(), ...settings },
  );
}

test('a place is a bucket with a prefix, or a folder', () => {
  expect(parseTarget('s3://my-bucket')).toEqual({ kind: 's3', bucket: 'my-bucket', prefix: '' });
  expect(parseTarget('S3://my-bucket/')).toMatchObject({ bucket: 'my-bucket', prefix: '' });
  expect(parseTarget('s3://b.c/a/B_1.2/')).toEqual({
    kind: 's3',
    bucket: 'b.c',
    prefix: 'a/B_1.2',
  });
  for (const folder of ['/mnt/usb', 'copy', './s3:/x', 'C:\\copy'])
    expect(parseTarget(folder)).toEqual({ kind: 'folder', path: folder });
});

test.each([
  ['', 'a path is missing'],
  ['a\0b', 'a path is missing'],
  ['https://bucket.example/x', 'only s3:// is known'],
  ['s3://', 'is no name of a bucket'],
  ['s3://a/b', 'is no name of a bucket'],
  ['s3://a..b/c', 'is no name of a bucket'],
  ['s3://a?b=c/d', 'is no name of a bucket'],
  ['s3://bucket//b', 'a prefix consists of'],
  ['s3://bucket/../b', 'a prefix consists of'],
  ['s3://bucket/a/./b', 'a prefix consists of'],
  ['s3://bucket/a b', 'a prefix consists of'],
  ['s3://bucket/a%2e', 'a prefix consists of'],
  ['s3://bucket/ü', 'a prefix consists of'],
  [`s3://bucket/${'a'.repeat(501)}`, 'at most 500'],
])('%j is refused as a place', (text, problem) => {
  expect(() => parseTarget(text)).toThrow(
    expect.objectContaining({
      code: 'store-target-invalid',
      facts: { found: text, problem: expect.stringContaining(problem) },
    }),
  );
});

test('keys in an address are refused, and not repeated', () => {
  for (const text of ['s3://AKID:hidden-secret@bucket/x', 'https://u:hidden-secret@host/@x']) {
    const refused = expect.objectContaining({
      code: 'store-target-invalid',
      message: expect.not.stringContaining('hidden'),
    });
    expect(() => parseTarget(text)).toThrow(refused);
  }
});

test('addresses have the bucket in the host, or in the path', async () => {
  const amazon = await resolved({ env: { ...KEYS, AWS_REGION: 'eu-central-1' } });
  expect(objectUrl(amazon, objectKey(amazon, 'data/a')).href).toBe(
    'https://bucket.s3.eu-central-1.amazonaws.com/p/q/data/a',
  );
  expect(targetLabel(amazon)).toBe('s3://bucket/p/q');
  const china = await resolved({ region: 'cn-north-1' });
  expect(objectUrl(china, '').href).toBe('https://bucket.s3.cn-north-1.amazonaws.com.cn/');
  const dotted = await resolved({}, 'my.bucket');
  expect(objectUrl(dotted, 'a').href).toBe('https://s3.us-east-1.amazonaws.com/my.bucket/a');
  const own = await resolved({ endpoint: 'https://minio.example:9000/base/' });
  expect(objectUrl(own, 'a').href).toBe('https://minio.example:9000/base/bucket/a');
});

test('the environment comes before the files, and an option before both', async () => {
  const files = {
    credentials:
      '[default]\naws_access_key_id = FILE\naws_secret_access_key=s1\n\n[other]\n# a comment\naws_access_key_id=OTHER\naws_secret_access_key = s2=\naws_session_token = t2\n',
    config:
      '[default]\nregion = eu-west-1\n[profile other]\nregion=eu-west-2\nendpoint_url = https://s3.example\ns3 =\n  addressing_style = virtual\n',
  };
  const folder = home(files);
  const own = await resolved({ home: folder });
  expect(await own.credentials()).toEqual({
    accessKeyId: 'AKID',
    secretAccessKey: 'hidden-secret',
  });
  const fallback = await resolved({ home: folder, env: {} });
  expect(fallback).toMatchObject({ region: 'eu-west-1', pathStyle: false });
  expect(await fallback.credentials()).toMatchObject({ accessKeyId: 'FILE' });
  for (const more of [{ env: { AWS_PROFILE: 'other' } }, { env: KEYS, profile: 'other' }]) {
    const other = await resolved({ home: folder, ...more });
    expect(other).toMatchObject({ region: 'eu-west-2', endpoint: 'https://s3.example' });
    expect(other.pathStyle).toBe(false);
    expect(await other.credentials()).toEqual({
      accessKeyId: 'OTHER',
      secretAccessKey: 's2=',
      sessionToken: 't2',
    });
  }
  const chosen = await resolved({
    env: { ...KEYS, AWS_DEFAULT_REGION: 'r1', AWS_ENDPOINT_URL: 'https://a.example' },
    endpoint: 'http://localhost:9000',
    region: 'r2',
  });
  expect(chosen).toMatchObject({
    endpoint: 'http://localhost:9000',
    region: 'r2',
    pathStyle: true,
  });
});

test('keys that are replaced in a file are used from then on', async () => {
  const folder = home({ credentials: '[default]\naws_access_key_id=A\naws_secret_access_key=a\n' });
  const target = await resolved({ home: folder, env: {} });
  const file = path.join(folder, '.aws/credentials');
  writeFileSync(file, '[default]\naws_access_key_id=B\naws_secret_access_key=b\n');
  expect(await target.credentials()).toEqual({ accessKeyId: 'B', secretAccessKey: 'b' });
});

test.each<[string, Partial<S3Settings>, string]>([
  ['no keys', { env: {} }, 'store-no-credentials'],
  ['no secret', { env: { AWS_ACCESS_KEY_ID: 'A' } }, 'store-setting-invalid'],
  ['a line break', { env: { ...KEYS, AWS_SESSION_TOKEN: 'hidden\n' } }, 'store-setting-invalid'],
  ['a profile that is missing', { profile: 'none' }, 'store-no-credentials'],
  ['http to elsewhere', { endpoint: 'http://192.0.2.1' }, 'store-setting-invalid'],
  ['http to a name', { endpoint: 'http://127.0.0.1.example' }, 'store-setting-invalid'],
  ['keys in the address', { endpoint: 'https://u:hidden@h' }, 'store-setting-invalid'],
  ['no address', { endpoint: 'ftp://host' }, 'store-setting-invalid'],
  ['a region with a slash', { region: 'a/b' }, 'store-setting-invalid'],
])('%s is refused, and no secret is repeated', async (_name, settings, code) => {
  await expect(resolved(settings)).rejects.toMatchObject({
    code,
    message: expect.not.stringContaining('hidden'),
  });
});

test('profiles that need other programs are named', async () => {
  const folder = home({ config: '[profile sso]\nsso_session = work\n' });
  await expect(resolved({ home: folder, profile: 'sso' })).rejects.toMatchObject({
    code: 'store-setting-invalid',
    facts: { source: 'the profile "sso"', problem: expect.stringContaining('sso_session') },
  });
});
