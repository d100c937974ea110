import {
  cpSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { fingerprintOf, newSigningKey, readCheckpoint } from '../../src/verify/checkpoint.ts';
import { sampleMail } from '../archive/sample-log.ts';
import { ran } from '../cli/surface.ts';
import { GrownArchive, verified } from './grown-archive.ts';

const archive = new GrownArchive();
const top = mkdtempSync(join(tmpdir(), 'mailkeep-checkpoint-'));
const statement = join(top, 'checkpoint.json');
beforeAll(async () => {
  await archive.grow(
    [1, 2, 3, 4, 5, 6].map((n) => sampleMail(n)),
    true,
  );
  await archive.grow(
    [7, 8].map((n) => sampleMail(n)),
    false,
  );
});
afterAll(() => {
  archive.remove();
  rmSync(top, { recursive: true });
});

test('a checkpoint names the last commit, and the log still holds it when more has come', async () => {
  const made = await ran(['checkpoint', '--data', archive.dir, '--to', statement, '--json']);
  expect(made.stderr).toBe('');
  expect(JSON.parse(made.stdout)).toMatchObject({
    number: 3,
    hash: archive.known.reached?.hash,
    file: statement,
    signer: fingerprintOf(readCheckpoint(statement).publicKey),
  });
  expect(statSync(join(archive.dir, 'checkpoint.key')).mode & 0o777).toBe(0o600);
  await archive.grow(
    [9].map((n) => sampleMail(n)),
    false,
  );
  const proof = await ran(['verify', '--data', archive.dir, '--checkpoint', statement, '--json']);
  expect(JSON.parse(proof.stdout)).toMatchObject({
    ok: true,
    findings: [],
    last: { number: 4 },
    checkpoint: { number: 3, signer: JSON.parse(made.stdout).signer, compared: false },
  });
  expect(proof.code).toBe(0);
});

test('a log cut at any byte before it is found, even without a catalog', async () => {
  const dir = join(top, 'cut');
  cpSync(archive.dir, dir, { recursive: true });
  for (const name of readdirSync(dir)) if (name.startsWith('catalog')) rmSync(join(dir, name));
  const { archiveId, number, hash } = readCheckpoint(statement);
  const vouched = [{ by: 'checkpoint', archiveId, number, hash }] as const;
  expect((await verified(dir, { vouched })).found).toBe(0);
  const path = join(dir, 'log', '0000000002.1.seg');
  const whole = readFileSync(path);
  const end = (archive.known.batches[3]?.records[0]?.position.offset ?? 0) - 1;
  for (let length = 0; length <= end; length += 97) {
    writeFileSync(path, whole.subarray(0, length));
    expect((await verified(dir, { vouched })).found, `cut to ${length}`).toBeGreaterThan(0);
  }
  rmSync(path);
  const { findings } = await verified(dir, { vouched });
  expect(findings).toEqual([
    { what: 'commit', by: 'checkpoint', reason: 'ends-early', number: 3, lastNumber: 2 },
  ]);
});

test('a checkpoint of another archive, or one that was changed, proves nothing', async () => {
  const other = new GrownArchive();
  await other.grow([sampleMail(1), sampleMail(2), sampleMail(4), sampleMail(5)], false);
  await other.grow([sampleMail(7)], false);
  const output = await ran(['verify', '--data', other.dir, '--checkpoint', statement, '--json']);
  expect(output.code).toBe(3);
  expect(JSON.parse(output.stdout).findings).toMatchObject([{ reason: 'other-archive' }]);
  other.remove();

  const forged = join(top, 'forged.json');
  writeFileSync(forged, readFileSync(statement, 'utf8').replace('"number": 3', '"number": 2'));
  const refused = await ran(['verify', '--data', archive.dir, '--checkpoint', forged]);
  expect(refused).toMatchObject({ code: 3, stdout: '' });
  expect(refused.stderr).toContain('is invalid');
  const none = await ran(['verify', '--data', archive.dir, '--checkpoint', '/dev/null']);
  expect(none.code).toBe(2);
});

test('with a pinned key, a statement that somebody else signed is refused', async () => {
  const { publicKey } = readCheckpoint(statement);
  const by = (key: string, file = statement) =>
    ran(['verify', '--data', archive.dir, '--checkpoint', file, '--public-key', key, '--quick']);
  expect(await by(publicKey)).toMatchObject({ code: 0 });
  const kept = join(top, 'key.pub');
  writeFileSync(kept, `${publicKey}\n`);
  const output = await by(kept);
  expect(output).toMatchObject({ code: 0 });
  expect(output.stderr).toContain(`with key ${fingerprintOf(publicKey)}`);

  const strange = join(top, 'strange.key');
  const signed = join(top, 'strange.json');
  writeFileSync(strange, newSigningKey());
  await ran(['checkpoint', '--data', archive.dir, '--to', signed, '--key', strange]);
  const refused = await by(publicKey, signed);
  expect(refused).toMatchObject({ code: 3, stdout: '' });
  expect(refused.stderr).toContain('was signed with key');
  expect(await by('no key')).toMatchObject({ code: 2, stdout: '' });
});

test('no statement is signed for a log that is damaged or lost its end', async () => {
  const dir = join(top, 'damaged');
  cpSync(archive.dir, dir, { recursive: true });
  const path = join(dir, 'log', '0000000002.1.seg');
  const whole = readFileSync(path);
  writeFileSync(path, whole.subarray(0, whole.length - 10));
  const refused = await ran(['checkpoint', '--data', dir, '--json']);
  expect(refused).toMatchObject({ code: 3, stdout: '' });
  expect(JSON.parse(refused.stderr).error.code).toBe('log-ends-early');
});

test('an archive without a catalog is verified and signed all the same', async () => {
  const dir = join(top, 'no-catalog');
  cpSync(archive.dir, dir, { recursive: true });
  for (const name of readdirSync(dir)) if (name.startsWith('catalog')) rmSync(join(dir, name));
  const output = await ran(['verify', '--data', dir, '--json']);
  expect(output).toMatchObject({ code: 0 });
  expect(JSON.parse(output.stdout)).toMatchObject({ ok: true, catalog: 'missing' });
  expect((await ran(['checkpoint', '--data', dir])).code).toBe(0);
});
