import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseQuery } from '../../src/catalog/parse-query.ts';
import { checkExport } from '../../src/transfer/check-export.ts';
import { fromLine } from '../../src/transfer/export-target.ts';
import type { ExportSelection } from '../../src/transfer/plan-export.ts';
import { type ExportSink, runExport, streamExport } from '../../src/transfer/run-export.ts';
import {
  EVERYTHING,
  exporting,
  StoredArchive,
  sampleSources,
  sha256,
  tree,
} from './stored-archive.ts';

const { signal } = new AbortController();
const text = (subject: string, body = 'text'): Buffer =>
  Buffer.from(`Subject: ${subject}\r\n\r\n${body}\r\n`);
const gone = text('gone');
const moved = text('moved');
const office = text('office');

let archive: StoredArchive;
let before: number;
let work: string;
let number = 0;

beforeAll(async () => {
  archive = await StoredArchive.create();
  work = path.join(archive.dir, 'work');
  mkdirSync(work);
  await archive.store([
    ...sampleSources(20).map((source) => ({ folder: 'INBOX', source })),
    { folder: 'Trash', source: gone, uid: 900 },
    { folder: 'Work', source: gone, uid: 901 },
    { folder: 'Work', source: moved, uid: 902 },
  ]);
  before = await archive.store([{ folder: 'Archive', source: moved, uid: 1 }], {
    ended: [
      { folder: 'Work', uid: 901 },
      { folder: 'Work', uid: 902 },
    ],
  });
  await archive.store([], { ended: [{ folder: 'Trash', uid: 900 }] });
  await archive.store([{ folder: 'INBOX', source: office }], { mailbox: 'office@example.org' });
});
afterAll(() => archive.remove());

class Collected implements ExportSink {
  readonly pieces: Uint8Array[] = [];
  commit = 0;
  begin(commit: number): void {
    this.commit = commit;
  }
  async write(bytes: Uint8Array): Promise<void> {
    this.pieces.push(Uint8Array.from(bytes));
  }
  get bytes(): Buffer {
    return Buffer.concat(this.pieces);
  }
}

function selecting(query: string, more: Partial<ExportSelection> = {}): ExportSelection {
  const { node } = parseQuery(query, { now: before });
  return { ...EVERYTHING, query: { text: query, node, accounts: new Map() }, ...more };
}

async function streamed(
  format: 'zip' | 'mbox',
  selection: ExportSelection,
): Promise<Collected & { readonly exported: number }> {
  const sink = new Collected();
  const { catalog, sources } = archive;
  const { exported } = await streamExport({ format, selection, catalog, sources, signal }, sink);
  return Object.assign(sink, { exported });
}

/** Unpacks nothing: a zip is checked by the code that checks exports, and lists its names in its manifest. */
async function checked(bytes: Buffer) {
  number += 1;
  const file = path.join(work, `${number}.zip`);
  writeFileSync(file, bytes);
  return checkExport({ at: file, signal });
}

describe('a zip that is sent as it is made', () => {
  it('is, byte for byte, the one that the command writes', async () => {
    const to = path.join(work, 'command.zip');
    await runExport({ ...exporting(archive, to, 'zip'), selection: EVERYTHING });
    const { bytes, commit } = await streamed('zip', EVERYTHING);
    expect(bytes.equals(readFileSync(to))).toBe(true);
    expect(commit).toBe(archive.catalog.reached().number);
  });

  it('is cut off anywhere no valid zip', async () => {
    const { bytes } = await streamed('zip', selecting(`id:${sha256(moved)}`));
    expect(await checked(bytes)).toMatchObject({ found: 0 });
    for (const share of [0.1, 0.5, 0.9, 0.99]) {
      const part = bytes.subarray(0, Math.floor(bytes.length * share));
      expect((await checked(part)).found).toBeGreaterThan(0);
    }
  });

  it('has what was deleted from where it was last, and what was moved from where it is', async () => {
    const places = async (selection: ExportSelection) => {
      number += 1;
      const to = path.join(work, `${number}-eml`);
      await runExport({ ...exporting(archive, to, 'eml'), selection });
      const files = [...tree(to)].filter(([name]) => name.endsWith('.eml'));
      return files.map(([name, bytes]) => [name.split('/')[1], sha256(bytes)]).sort();
    };
    const both = selecting(`id:${sha256(gone)} OR id:${sha256(moved)}`, {
      withDeleted: true,
    });
    expect(await places(both)).toEqual([
      ['Archive', sha256(moved)],
      ['Trash', sha256(gone)],
    ]);
    expect((await streamed('zip', both)).exported).toBe(2);
    expect(await places({ ...both, withDeleted: false })).toEqual([['Archive', sha256(moved)]]);
    // Then it was still there, and the other one had moved already.
    expect(await places({ ...both, asOf: before })).toEqual([
      ['Archive', sha256(moved)],
      ['Trash', sha256(gone)],
    ]);
    expect(await places({ ...both, withDeleted: false, asOf: before })).toHaveLength(2);
  });

  it('is of the moment that is asked for, by its commit', async () => {
    const { commit, exported } = await streamed(
      'zip',
      selecting(`id:${sha256(office)}`, { asOf: before }),
    );
    expect([commit, exported]).toEqual([2, 0]);
  });

  it('has the mailboxes of a limited catalog only', async () => {
    const { catalog, sources } = archive;
    const ours = catalog.folders
      .mailboxes()
      .filter(({ address }) => address === 'office@example.org');
    const selection = selecting('*', { withDeleted: true });
    const exported = async (keys: typeof ours) => {
      const sink = new Collected();
      const options = { format: 'zip', selection, sources, signal } as const;
      const result = await streamExport({ ...options, catalog: catalog.within(keys) }, sink);
      return { exported: result.exported, bytes: sink.bytes };
    };
    const limited = await exported(ours);
    expect(limited.exported).toBe(1);
    expect(limited.bytes.includes('office@example.org/')).toBe(true);
    expect(limited.bytes.includes('anna@example.org/')).toBe(false);
    expect((await exported([])).exported).toBe(0);
  });

  it('reads nothing ahead while nobody takes what is there', async () => {
    let read = 0;
    const { catalog, sources } = archive;
    const counting = {
      readMessage: (id: string) => {
        read += 1;
        return sources.readMessage(id);
      },
      streamMessage: (id: string) => sources.streamMessage(id),
    };
    let release: () => void = () => {};
    const held = new Promise<void>((resolve) => {
      release = resolve;
    });
    const sink = { begin: () => {}, write: () => held };
    const done = streamExport(
      { format: 'mbox', selection: EVERYTHING, catalog, sources: counting, signal },
      sink,
    );
    for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve));
    expect(read).toBe(1);
    release();
    expect((await done).exported).toBeGreaterThan(20);
  });

  it('ends with the error of whoever takes it', async () => {
    const { catalog, sources } = archive;
    const sink = { begin: () => {}, write: () => Promise.reject(new Error('nobody there')) };
    await expect(
      streamExport({ format: 'zip', selection: EVERYTHING, catalog, sources, signal }, sink),
    ).rejects.toThrow('nobody there');
  });
});

describe('an mbox that is sent as it is made', () => {
  it('has each message behind its "From " line, with what looks like one quoted', async () => {
    const { bytes, exported } = await streamed('mbox', EVERYTHING);
    const lines = bytes.toString('latin1').split('\n');
    expect(lines.filter((line) => line.startsWith('From '))).toHaveLength(exported);
    const { bytes: one } = await streamed('mbox', selecting(`id:${sha256(moved)}`));
    const [line] = [...archive.catalog.listPlaces({ folder: 'Archive' })].map(
      (place) => place.line,
    );
    if (line === undefined) throw new Error('it is there');
    expect(one.toString('latin1')).toBe(`${fromLine(line)}${moved.toString('latin1')}\n`);
  });
});
