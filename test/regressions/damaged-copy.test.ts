import { hash } from 'node:crypto';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { sealClosedSegments } from '../../src/archive/seal.ts';
import { formatFindings } from '../../src/cli/copy-target.ts';
import { checkTarget } from '../../src/copies/check-copy.ts';
import { folderStore } from '../../src/copies/folder-store.ts';
import type { UnlockMethod } from '../../src/copies/format/keys.ts';
import { adoptCopy, createCopy, prepareCopy } from '../../src/copies/recipients.ts';
import { restoreArchive } from '../../src/copies/restore-copy.ts';
import { copyToTarget } from '../../src/copies/upload-copy.ts';
import { openState } from '../../src/core/state.ts';
import { copyStatuses, recordCopyCheck, recordCopyRepair } from '../../src/verify/copy-facts.ts';
import { Positions } from '../archive/positions.ts';
import { writeBatches } from '../archive/sample-log.ts';
import { mailkeep } from '../cli/child.ts';
import { message, ProgramArchive } from '../offsite/copy-program.ts';

const signal = new AbortController().signal;
const PASSPHRASE = 'the same for both copies';

type Restored = Pick<Awaited<ReturnType<typeof restoreArchive>>, 'number' | 'lost' | 'invalid'>;

/** An archive and its copy in a folder, with a recipient of each kind that needs no program, and a later signer. */
class Copy {
  readonly work = mkdtempSync(path.join(tmpdir(), 'damaged-copy-'));
  readonly dir = path.join(this.work, 'archive');
  readonly target = path.join(this.work, 'target');
  /** The target as it was a copy earlier. */
  readonly earlier = path.join(this.work, 'earlier');
  readonly store = folderStore(this.target);
  way: UnlockMethod = { type: 'passphrase', passphrase: '' };
  #backs = 0;
  readonly #drilled = new Map<string, Promise<Restored>>();

  async begin(): Promise<this> {
    const writer = await openLogWriter({ dir: this.dir, now: () => 1_770_000_000_000 });
    openState(this.dir).close();
    const known = new Positions();
    await writeBatches(writer, known, 2, 1);
    const prepared = await prepareCopy(this.dir);
    await createCopy({
      ...{ dataDir: this.dir, store: this.store, to: this.target, prepared, age: [] },
      ...{ passphrase: PASSPHRASE, writeOnly: false, signal, now: () => 1 },
    });
    this.way = { type: 'recovery', recovery: prepared.recovery };
    await this.copy();
    // As on a new machine: another key signs from here on.
    rmSync(prepared.signingKeyFile);
    const order = { dataDir: this.dir, store: this.store, way: this.way, signal };
    await adoptCopy({ ...order, signer: undefined, allowOlder: false });
    cpSync(this.target, this.earlier, { recursive: true });
    await writer.rollIfLarger(0);
    await sealClosedSegments({ dir: this.dir, before: writer.segment });
    await writeBatches(writer, known, 2, 100);
    await writer.close();
    await this.copy();
    cpSync(this.dir, path.join(this.work, 'archive-intact'), { recursive: true });
    cpSync(this.target, path.join(this.work, 'target-intact'), { recursive: true });
    return this;
  }

  reset(): void {
    for (const [from, to] of [
      ['archive-intact', this.dir],
      ['target-intact', this.target],
    ] as const) {
      rmSync(to, { recursive: true, force: true });
      cpSync(path.join(this.work, from), to, { recursive: true });
    }
  }

  names(folder = ''): string[] {
    return readdirSync(path.join(this.target, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => path.relative(this.target, path.join(entry.parentPath, entry.name)))
      .sort();
  }

  file(name: string): string {
    return path.join(this.target, name);
  }

  /** As `mailkeep copy` does it. */
  async copy() {
    const copied = await copyToTarget({
      ...{ dataDir: this.dir, store: this.store, refresh: false, keep: 1, signal },
      ...{ now: Date.now, onProgress: () => {} },
    });
    const state = openState(this.dir);
    recordCopyRepair(
      state,
      this.target,
      Date.now(),
      formatFindings(copied.findings),
      copied.replaced,
    );
    state.close();
    return copied;
  }

  /** As `mailkeep verify --copy` does it. */
  async verify() {
    const checked = await checkTarget({
      ...{ dataDir: this.dir, store: this.store, sample: undefined, random: () => 0 },
      ...{ temporary: this.work, signal, onProgress: () => {} },
    });
    const state = openState(this.dir);
    const { checked: read, of } = checked;
    const about = { at: Date.now(), checked: read, of, unit: 'segment' } as const;
    recordCopyCheck(state, this.target, about, formatFindings(checked.findings));
    state.close();
    return checked;
  }

  /** What `mailkeep status` shows as damage of the copy. */
  shown() {
    const state = openState(this.dir);
    const [status] = copyStatuses(state, 4, Date.now());
    state.close();
    return status?.damage ?? null;
  }

  /** With nothing but the target and the recovery key: targets of the same bytes come back alike. */
  drill() {
    const files = this.names().map(
      (name) => `${name} ${hash('sha256', readFileSync(this.file(name)))}`,
    );
    const key = files.join('\n');
    const back = this.#drilled.get(key) ?? this.#bringBack();
    this.#drilled.set(key, back);
    return back;
  }

  async #bringBack(): Promise<Restored> {
    this.#backs += 1;
    const to = path.join(this.work, `back-${this.#backs}`);
    const back = await restoreArchive({
      ...{ store: this.store, to, way: this.way, signer: undefined, signal },
      ...{ atCommit: undefined, atLeast: undefined },
      ...{ onSegments: () => {}, onFold: () => {}, onIndex: () => {} },
    });
    rmSync(to, { recursive: true });
    const { number, lost, invalid } = back;
    return { number, lost, invalid };
  }
}

let copy: Copy;
let other: Copy;
beforeAll(async () => {
  copy = await new Copy().begin();
  other = await new Copy().begin();
});
afterAll(() => {
  for (const { work } of [copy, other]) rmSync(work, { recursive: true });
});

const CLEAN = { number: 4, lost: [], invalid: [] };

function flipped(bytes: Buffer, at: number): Buffer {
  const changed = Buffer.from(bytes);
  changed[at] = (changed[at] ?? 0) ^ 1;
  return changed;
}

/** Another object of the same kind, or else any. */
function another(of: Copy, name: string): string {
  const folder = name.includes('/') ? path.dirname(name) : '';
  const others = of.names().filter((one) => one !== name);
  const alike = others.find((one) => path.dirname(one) === (folder || '.'));
  return alike ?? others.find((one) => one.startsWith('keys/')) ?? '';
}

const DAMAGES: Readonly<Record<string, (name: string) => void>> = {
  ...Object.fromEntries(
    [0, 0.5, 1].map((share) => [
      `flipped at ${share}`,
      (name: string) => {
        const bytes = readFileSync(copy.file(name));
        writeFileSync(copy.file(name), flipped(bytes, Math.floor(share * (bytes.length - 1))));
      },
    ]),
  ),
  truncated: (name) => {
    const bytes = readFileSync(copy.file(name));
    writeFileSync(copy.file(name), bytes.subarray(0, bytes.length / 2));
  },
  emptied: (name) => writeFileSync(copy.file(name), ''),
  lengthened: (name) => writeFileSync(copy.file(name), ' ', { flag: 'a' }),
  deleted: (name) => rmSync(copy.file(name)),
  'replaced by another of the copy': (name) =>
    cpSync(copy.file(another(copy, name)), copy.file(name)),
  'replaced by one of another copy': (name) =>
    cpSync(other.file(another(other, name)), copy.file(name)),
  swapped: (name) => {
    const [one, two] = [copy.file(name), copy.file(another(copy, name))];
    renameSync(one, `${one}0`);
    renameSync(two, one);
    renameSync(`${one}0`, two);
  },
  moved: (name) => {
    const to = name.replace(/[0-9a-f]{8}$/, 'ffffffff');
    renameSync(copy.file(name), copy.file(to === name ? `${name}0` : to));
  },
};

/** Objects of each kind; names differ from run to run. */
const KINDS = [
  'mailkeep-copy',
  'keys/ 0',
  'keys/ 1',
  'signers/ 0',
  'manifests/ 1',
  'data/ 0',
  'data/ 1',
];

function nameOf(kind: string): string {
  const [folder = '', at] = kind.split(' ');
  if (at === undefined) return folder;
  if (folder !== 'data/') return copy.names(folder)[Number(at)] ?? '';
  // Others are of the earlier state only.
  const newest = readFileSync(copy.file(nameOf('manifests/ 1')), 'utf8');
  const { objects } = JSON.parse(newest) as { objects: { name: string }[] };
  return objects[Number(at)]?.name ?? '';
}

/** A copy finds and repairs the same as `verify`; some of them suffice. */
const SOME = ['flipped at 0.5', 'emptied', 'deleted', 'moved'];

describe.each(KINDS)('%s', (kind) => {
  test.each(Object.keys(DAMAGES))(
    '%s: verify reports it, the next copy repairs it',
    async (damage) => {
      copy.reset();
      DAMAGES[damage]?.(nameOf(kind));
      const checked = await copy.verify();
      expect(checked.findings.length).toBeGreaterThan(0);
      expect(copy.shown()).not.toBeNull();
      const copied = await copy.copy();
      expect(copied.findings.length + copied.replaced.length).toBeGreaterThan(0);
      expect(copied.findings.filter(({ repaired }) => !repaired)).toEqual([]);
      expect(copy.shown()).toBeNull();
      expect((await copy.verify()).findings).toEqual([]);
      expect(await copy.drill()).toEqual(CLEAN);
      expect((await copy.copy()).findings).toEqual([]);
    },
  );
});

describe.each(KINDS.filter((kind) => !kind.startsWith('data/')))('%s', (kind) => {
  test.each(SOME)('%s: a copy reports it first and repairs it', async (damage) => {
    copy.reset();
    DAMAGES[damage]?.(nameOf(kind));
    const copied = await copy.copy();
    expect(copied.findings.length).toBeGreaterThan(0);
    expect(copied.findings.filter(({ repaired }) => !repaired)).toEqual([]);
    expect(copy.shown()).not.toBeNull();
    expect((await copy.copy()).findings).toEqual([]);
    expect(copy.shown()).toBeNull();
    expect((await copy.verify()).findings).toEqual([]);
    expect(await copy.drill()).toEqual(CLEAN);
  });
});

test('an untouched copy has no findings', async () => {
  copy.reset();
  expect((await copy.verify()).findings).toEqual([]);
  expect((await copy.copy()).findings).toEqual([]);
  expect(copy.shown()).toBeNull();
  expect(await copy.drill()).toEqual(CLEAN);
});

test.each([
  ['all of it', (name: string) => name],
  ['its manifests', (name: string) => (name.startsWith('manifests/') ? name : undefined)],
])('an earlier state instead of the newest: %s', async (_, takes) => {
  copy.reset();
  for (const name of copy.names()) if (takes(name) !== undefined) rmSync(copy.file(name));
  for (const entry of readdirSync(copy.earlier, { recursive: true, encoding: 'utf8' })) {
    if (!statSync(path.join(copy.earlier, entry)).isFile() || takes(entry) === undefined) continue;
    mkdirSync(path.dirname(copy.file(entry)), { recursive: true });
    cpSync(path.join(copy.earlier, entry), copy.file(entry));
  }
  expect((await copy.verify()).findings.length).toBeGreaterThan(0);
  const copied = await copy.copy();
  expect(copied.findings.length).toBeGreaterThan(0);
  expect((await copy.verify()).findings).toEqual([]);
  expect(await copy.drill()).toEqual(CLEAN);
});

test('a target from which everything was deleted is no copy: a disk may not be mounted', async () => {
  copy.reset();
  for (const name of copy.names()) rmSync(copy.file(name));
  await expect(copy.copy()).rejects.toMatchObject({ code: 'offsite-no-copy' });
  expect(copy.names()).toEqual([]);
});

test('keys of an earlier version, which keep nothing, take over what is there', async () => {
  copy.reset();
  const folder = path.join(copy.dir, 'copies');
  for (const name of readdirSync(folder)) {
    const file = path.join(folder, name);
    if (name.endsWith('.manifest')) rmSync(file);
    if (!name.endsWith('.json')) continue;
    const { kept: _, ...earlier } = JSON.parse(readFileSync(file, 'utf8')) as { kept: unknown };
    writeFileSync(file, JSON.stringify(earlier));
  }
  rmSync(copy.file(nameOf('signers/ 0')));
  rmSync(copy.file('mailkeep-copy'));
  const first = await copy.copy();
  expect(first.findings.map(({ repaired }) => repaired)).toEqual([true, true]);
  expect((await copy.copy()).findings).toEqual([]);
  rmSync(copy.file(nameOf('keys/ 0')));
  expect((await copy.copy()).findings).toMatchObject([{ repaired: true }]);
  expect(await copy.drill()).toEqual(CLEAN);
});

test('bytes that are damaged on this machine are never uploaded, but read again', async () => {
  copy.reset();
  const folder = path.join(copy.dir, 'copies');
  const file = path.join(folder, readdirSync(folder).find((name) => name.endsWith('.json')) ?? '');
  const keys = JSON.parse(readFileSync(file, 'utf8')) as {
    kept: { name: string; bytes: string }[];
  };
  const one = keys.kept.find(({ name }) => name.startsWith('keys/'));
  if (one === undefined) throw new Error('no recipient is kept');
  const right = one.bytes;
  one.bytes = `${one.bytes.slice(0, 40)}AAAA${one.bytes.slice(44)}`;
  writeFileSync(file, JSON.stringify(keys));
  expect((await copy.copy()).findings).toEqual([]);
  expect(readFileSync(file, 'utf8')).toContain(right);
});

test('the commands end with code 3, and with 0 once the copy was repaired', async () => {
  const archive = new ProgramArchive();
  const target = path.join(archive.folder, 'target');
  const key = path.join(archive.folder, 'recovery-key.txt');
  const code = async (...args: string[]) => (await archive.ended(args)).code;
  try {
    await archive.import([message(1, 'walrus')]);
    await archive.run('copy', 'init', '--to', target, '--recovery-key-file', key);
    await archive.run('copy', '--to', target);
    const [recipient = ''] = readdirSync(path.join(target, 'keys'));
    const file = path.join(target, 'keys', recipient);
    writeFileSync(file, flipped(readFileSync(file), 300));
    expect(await code('verify', '--copy', target)).toBe(3);
    expect(await code('status')).toBe(3);
    expect(await code('copy', '--to', target)).toBe(3);
    expect(await code('status')).toBe(0);
    rmSync(path.join(target, 'mailkeep-copy'));
    expect(await code('copy', '--to', target)).toBe(3);
    expect(await code('status')).toBe(3);
    expect(await code('copy', '--to', target)).toBe(0);
    expect(await code('status')).toBe(0);
    expect(await code('verify', '--copy', target)).toBe(0);
    const back = path.join(archive.folder, 'back');
    const from = ['copy', '--from', target, '--to', back, '--recovery-key-file', key];
    expect((await mailkeep(from)).code).toBe(0);
    expect((await mailkeep(['search', 'walrus', '--data', back])).stdout).toContain('walrus');
  } finally {
    rmSync(archive.folder, { recursive: true });
  }
});
