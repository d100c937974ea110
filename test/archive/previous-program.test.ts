import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { z } from 'zod';
import type { ScanEvent } from '../../src/archive/log-reader.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { sealClosedSegments } from '../../src/archive/seal.ts';
import { mailkeep } from '../cli/child.ts';
import { mailWithAttachment, noise } from './generated-mail.ts';
import { Positions } from './positions.ts';
import { lacksHistory, type PreviousProgram, previousProgram } from './previous-program.ts';
import { fill, place, writeBatches } from './sample-log.ts';

const now = () => 1_770_000_000_000;

async function collected(events: AsyncIterable<ScanEvent>): Promise<ScanEvent[]> {
  const all: ScanEvent[] = [];
  for await (const event of events) all.push(event);
  return all;
}

const verified = z.object({ ok: z.literal(true), rebuilt: z.number(), messages: z.number() });
const compacted = z.object({
  segments: z.number(),
  bytesBefore: z.number(),
  bytesAfter: z.number(),
});

describe.skipIf(lacksHistory())('the program before zstd', () => {
  const top = mkdtempSync(join(tmpdir(), 'mailkeep-formats-'));
  let previous: PreviousProgram & { readonly folder: string };
  /** Written by that program: two sealed segments, and one that is written to. */
  const old = join(top, 'old');
  const known = new Positions();

  beforeAll(async () => {
    previous = await previousProgram();
    const writer = await previous.openLogWriter({ dir: old, now });
    const { host, mailbox, folder, generation } = place(1);
    const first = writer.newBatch();
    first.addFact({ fact: 'mailbox', host, mailbox, address: 'ada@example.org' });
    first.addFact({
      ...{ fact: 'folder', host, mailbox, folder, generation },
      ...{ name: 'INBOX', delimiter: '.', specialUse: null },
    });
    known.fold(await writer.commit(first));
    for (let segment = 0; segment < 2; segment += 1) {
      await writeBatches(writer, known, 20, 1 + segment * 100);
      const large = mailWithAttachment(noise(300_000, 5 + segment));
      known.fold(await writer.commit(fill(writer.newBatch(), [large], known, 900 + segment)));
      await writer.rollIfLarger(0);
    }
    await writeBatches(writer, known, 2, 500);
    await previous.sealClosedSegments({ dir: old, before: writer.segment });
    await writer.close();
  });
  afterAll(() => {
    rmSync(top, { recursive: true });
    rmSync(previous.folder, { recursive: true });
  });

  function copyOf(name: string): string {
    const dir = join(top, name);
    cpSync(old, dir, { recursive: true });
    return dir;
  }

  test('refuses an archive that holds zstd, and names both formats', async () => {
    const dir = join(top, 'new');
    const writer = await openLogWriter({ dir, now });
    await writeBatches(writer, new Positions(), 3);
    await writer.rollIfLarger(0);
    await sealClosedSegments({ dir, before: writer.segment });
    await writer.close();
    const refusal = {
      family: 'config',
      code: 'archive-format-newer',
      facts: { dir, found: 'mailkeep archive 2', supported: 1 },
    };
    await expect(collected(previous.scanLog({ dir }))).rejects.toMatchObject(refusal);
    await expect(previous.openLogWriter({ dir, now })).rejects.toMatchObject(refusal);
  });

  test('reads what this one writes with zlib', async () => {
    const dir = join(top, 'zlib');
    const writer = await openLogWriter({ dir, now });
    const written = new Positions();
    await writeBatches(writer, written, 3);
    await writer.rollIfLarger(0);
    await sealClosedSegments({ dir, before: writer.segment, codec: 'zlib' });
    await writer.close();
    const events = await collected(previous.scanLog({ dir }));
    expect(events).toMatchObject(written.batches.map((batch) => ({ what: 'batch', batch })));
  });

  test('has its archives opened, verified, exported and compacted', async () => {
    const dir = copyOf('compacted');
    const on = async (...args: string[]) => {
      const { code, stdout, stderr } = await mailkeep([...args, '--data', dir, '--json']);
      expect(code, stderr).toBe(0);
      return stdout;
    };
    await on('rebuild');
    const before = verified.parse(JSON.parse(await on('verify')));
    expect(before.rebuilt).toBeGreaterThanOrEqual(known.messages.size);
    expect(readFileSync(join(dir, 'FORMAT'), 'utf8')).toBe('mailkeep archive 1\n');
    const exported = (name: string) => on('export', '--to', join(top, name), '--format', 'eml');
    await exported('before');
    const { segments, bytesBefore, bytesAfter } = compacted.parse(JSON.parse(await on('compact')));
    expect(segments).toBe(2);
    expect(bytesAfter).toBeLessThan(bytesBefore);
    expect(readFileSync(join(dir, 'FORMAT'), 'utf8')).toBe('mailkeep archive 2\n');
    expect(JSON.parse(await on('compact'))).toMatchObject({ segments: 0, remaining: 0 });
    expect(verified.parse(JSON.parse(await on('verify')))).toEqual(before);
    await exported('after');
    const { exportedFiles, differing } = compareFolders(join(top, 'before'), join(top, 'after'));
    expect(exportedFiles).toBeGreaterThanOrEqual(known.messages.size);
    expect(differing).toEqual([]);
  });

  test('has its archives written on, where sealed segments of both codecs lie side by side', async () => {
    const dir = copyOf('mixed');
    const writer = await openLogWriter({ dir, now, expected: known.reached });
    const more = await writeBatches(writer, known, 3, 700);
    expect(more.length).toBeGreaterThan(0);
    await writer.rollIfLarger(0);
    const { sealed } = await sealClosedSegments({ dir, before: writer.segment });
    expect(sealed).toMatchObject([{ segment: 3, generation: 2 }]);
    await writer.close();
    expect(readFileSync(join(dir, 'FORMAT'), 'utf8')).toBe('mailkeep archive 2\n');
    await mailkeep(['rebuild', '--data', dir]);
    const { code, stdout } = await mailkeep(['verify', '--data', dir, '--json']);
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ ok: true, last: { number: known.reached?.number } });
  });
});

function compareFolders(one: string, other: string) {
  const files = (top: string) =>
    readdirSync(top, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && entry.name.endsWith('.eml'))
      .map((entry) => join(entry.parentPath, entry.name).slice(top.length))
      .sort();
  const names = files(one);
  expect(files(other)).toEqual(names);
  const differing = names.filter(
    (name) => !readFileSync(join(one, name)).equals(readFileSync(join(other, name))),
  );
  return { exportedFiles: names.length, differing };
}
