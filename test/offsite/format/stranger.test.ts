import { execFile } from 'node:child_process';
import { hash } from 'node:crypto';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { generateIdentity, identityToRecipient } from 'age-encryption';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { segmentName } from '../../../src/archive/format.ts';
import { sealSegment } from '../../../src/archive/seal.ts';
import {
  encodeSigner,
  newCopyKeys,
  newRecoveryKey,
  recoveryLines,
  wrapForAge,
  wrapForPassphrase,
  wrapForRecovery,
} from '../../../src/copies/format/keys.ts';
import {
  COPY_NAME,
  commitMark,
  encodeManifest,
  manifestName,
  type ObjectKind,
  objectName,
  segmentMark,
  tailMark,
} from '../../../src/copies/format/manifest.ts';
import { encodeCopyFile, newKeyPair } from '../../../src/copies/format/sealed-object.ts';
import { DIR, hotPath, newLog, writeBatches } from '../../archive/sample-log.ts';
import { absent } from '../../peers/programs.ts';
import { pythonWithCryptography } from '../../peers/python-cryptography.ts';
import { newSigner, sealed } from './sample.ts';

const run = promisify(execFile);
const docs = (name: string) => fileURLToPath(new URL(`../../../docs/${name}`, import.meta.url));
const top = mkdtempSync(path.join(tmpdir(), 'mailkeep-copy-stranger-'));
afterAll(() => rmSync(top, { recursive: true }));
const copy = path.join(top, 'copy');
const archive = path.join(top, 'archive');

const python = pythonWithCryptography() ?? '';
const recovery = newRecoveryKey();
const passphrase = 'Grüße aus Ülm';
let identity: string;
let shownSigner: string;
const objects: string[] = [];

function put(folder: string, name: string, bytes: Uint8Array | string): void {
  const file = path.join(folder, name);
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, bytes);
}

/** An archive of one sealed segment and an open one, and its copy after a rotation and on another machine. */
beforeAll(async () => {
  const { disk, writer, known } = await newLog();
  await writeBatches(writer, known, 8);
  await writer.rollIfLarger(0);
  const between = known.reached?.hash ?? '';
  await writeBatches(writer, known, 3, 100);
  const { number = 0, hash: endHash = '' } = known.reached ?? {};
  await writer.close();
  await sealSegment({ dir: DIR, segment: 1, files: disk.files, codec: 'zlib' });
  disk.delete(hotPath(1));
  for (const file of disk.paths()) put(archive, file.slice(DIR.length), disk.read(file));

  const { copyId, publicKey, privateKey, nameKey } = newCopyKeys();
  const rotated = newKeyPair();
  const [first, later, stranger] = [newSigner(), newSigner(), newSigner()];
  const base = { copyId, nameKey, signer: first.raw };
  const before = { ...base, privateKeys: [privateKey] };
  const secrets = { ...base, privateKeys: [rotated.privateKey, privateKey] };
  shownSigner = first.raw.toString('base64');
  identity = await generateIdentity();
  const note = { created: 1, label: 'Grüße "an" 🔑' };
  const cheap = { N: 2 ** 10, r: 8, p: 1 };
  const made = [
    await wrapForRecovery(before, recovery, { created: 1 }),
    await wrapForRecovery(secrets, recovery, note),
    await wrapForPassphrase(secrets, passphrase, note, cheap),
    await wrapForAge(secrets, await identityToRecipient(identity), note),
    encodeSigner(secrets, later.raw),
    encodeSigner({ ...before, privateKeys: [newKeyPair().privateKey] }, stranger.raw),
  ];
  for (const { name, bytes } of made) put(copy, name, bytes);
  put(copy, COPY_NAME, encodeCopyFile({ copyId, publicKey, signer: first.raw }, first.sign));

  const listed: { name: string; length: number; sha256: string }[] = [];
  async function store(kind: ObjectKind, mark: string, plain: Buffer, key: Buffer) {
    const name = objectName(mark);
    const object = await sealed(plain, { kind, name }, { copyId, publicKey: key });
    listed.push({ name, length: object.length, sha256: hash('sha256', object) });
    objects.push(name);
    put(copy, name, object);
    return name;
  }
  const file = disk.read(`${DIR}/log/${segmentName({ segment: 1, generation: 2 })}`);
  const mark = segmentMark(nameKey, { segment: 1, end: { hash: between }, purged: '' });
  // Of before the rotation.
  const segments = [{ name: await store('segment', mark, file, publicKey), segment: 1 }];
  const hot = disk.read(hotPath(2));
  const tail: { name: string; segment: number; from: number; to: number }[] = [];
  for (const [from, to] of [
    [0, 1_000],
    [1_000, hot.length],
  ] as const) {
    const part = { segment: 2, from, to };
    const partMark = tailMark(nameKey, { ...part, end: { hash: endHash } });
    const name = await store('tail', partMark, hot.subarray(from, to), rotated.publicKey);
    tail.push({ name, ...part });
  }
  const commit = { number, hash: endHash, time: 3 };
  const format = disk.read(`${DIR}/FORMAT`).toString('utf8');
  const secret = { archiveId: '00'.repeat(8), format, commit, segments, tail };
  const chain = commitMark(nameKey, commit);
  const input = { sequence: 1, time: 4, previous: null, chain, objects: listed, secret };
  const sealing = { copyId, publicKey: rotated.publicKey };
  const name = manifestName(number);
  put(copy, name, await encodeManifest(input, name, { sealing, sign: later.sign }));
  // Of somebody who has the public key, and says there is more.
  const more = { ...secret, commit: { ...commit, number: number + 1 } };
  const forged = manifestName(number + 1);
  const forgery = { ...input, secret: more };
  put(copy, forged, await encodeManifest(forgery, forged, { sealing, sign: stranger.sign }));
});

async function readCopy(folder: string, to: string, way: string, secret: string, signer = '') {
  const file = path.join(top, 'secret');
  writeFileSync(file, secret);
  const args = [docs('read_copy.py'), folder, to, way, file, ...(signer === '' ? [] : [signer])];
  return run(python, args, { maxBuffer: 1 << 26 });
}

function files(folder: string): Record<string, string> {
  const names = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => path.relative(folder, path.join(parentPath, name)));
  return Object.fromEntries(
    names.sort().map((name) => [name, hash('sha256', readFileSync(path.join(folder, name)))]),
  );
}

describe.skipIf(python === '')('a stranger with Python and copy-format.md', () => {
  test('turns a copy into the archive, which the other reader reads to its end', async () => {
    const to = path.join(top, 'by recovery');
    const typed = recoveryLines(recovery).join('\n').toLowerCase();
    const { stdout, stderr } = await readCopy(copy, to, 'recovery', typed, shownSigner);
    const log = (name: string) => name === 'FORMAT' || name.endsWith('.seg');
    const written = Object.entries(files(archive)).filter(([name]) => log(name));
    expect(written).toHaveLength(3);
    expect(Object.entries(files(to))).toEqual(written);
    expect(stdout).toContain('"objects": 3');
    // The forged manifest and the signer of its author.
    expect(stderr.match(/left out, not valid: (?:manifests|signers)\//g)).toHaveLength(2);
    const [copied, original] = await Promise.all(
      [to, archive].map((folder) => run(python, [docs('read_archive.py'), folder])),
    );
    expect(copied?.stdout).toBe(original?.stdout);
    expect(copied?.stdout).toContain('"commits": 11');
  });

  test('opens it with a passphrase too', async () => {
    const to = path.join(top, 'by passphrase');
    await readCopy(copy, to, 'passphrase', `${passphrase.normalize('NFD')}\n`);
    expect(files(to)).toEqual(files(path.join(top, 'by recovery')));
  });

  test.skipIf(absent('age'))('opens it with an age identity too', async () => {
    const to = path.join(top, 'by age');
    await readCopy(copy, to, 'age', `# a comment\n${identity}\n`);
    expect(files(to)).toEqual(files(path.join(top, 'by recovery')));
  });

  test('is shown what is wrong', async () => {
    const lines = recoveryLines(recovery);
    const to = path.join(top, 'refused');
    const refused = async (folder: string, secret: string, signer = '') =>
      readCopy(folder, to, 'recovery', secret, signer).then(
        () => 'read',
        (error: { stderr: string }) => error.stderr.trim().split('\n').at(-1),
      );
    expect(await refused(copy, recoveryLines(newRecoveryKey()).join('\n'))).toBe(
      'This does not open the copy.',
    );
    expect(await refused(copy, lines.toReversed().join('\n'))).toContain('line 1 of the recovery');
    expect(await refused(copy, lines.join('\n'), 'AAAA')).toContain('the signer is another one');
    const damaged = path.join(top, 'damaged');
    cpSync(copy, damaged, { recursive: true });
    const file = path.join(damaged, objects[0] ?? '');
    const bytes = readFileSync(file);
    bytes[5_000] = (bytes[5_000] ?? 0) ^ 1;
    writeFileSync(file, bytes);
    expect(await refused(damaged, lines.join('\n'))).toContain(`${objects[0]}: SHA-256`);
  });
});
