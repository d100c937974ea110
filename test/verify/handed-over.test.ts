import { afterEach, beforeEach, expect, test } from 'vitest';
import { realFiles } from '../../src/archive/file-system.ts';
import type { Fact } from '../../src/archive/format.ts';
import { type ScanEvent, scanLog } from '../../src/archive/log-reader.ts';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import type { ComparedBatch } from '../../src/catalog/fold.ts';
import { checkSegment } from '../../src/verify/check-segment.ts';
import { appeared } from '../archive/sample-log.ts';
import { GrownArchive, START, verified } from './grown-archive.ts';

let archive: GrownArchive;
beforeEach(() => {
  archive = new GrownArchive();
});
afterEach(() => archive.remove());

async function write(facts: readonly unknown[]): Promise<void> {
  const writer = await openLogWriter({ dir: archive.dir, now: () => START });
  for (const fact of facts) {
    const batch = writer.newBatch();
    // Whatever a service sends into `extra`.
    batch.addFact(fact as Fact);
    await writer.commit(batch);
  }
  await writer.close();
}

/** The batches of each report, as another thread receives them. */
function handedOver(): readonly (readonly ComparedBatch[])[] {
  const job = { dir: archive.dir, segment: 1, last: true, seen: 0, full: true };
  return [...checkSegment(realFiles, job)].flatMap((report) =>
    report.what === 'batches' ? [structuredClone(report.batches)] : [],
  );
}

function withExtra(uid: number, extra: unknown): unknown {
  const fact = appeared(uid, Buffer.from(`${uid}`));
  return 'listing' in fact ? { ...fact, listing: { ...fact.listing, extra } } : fact;
}

test('batches handed over are those of a scan, whatever a service has put into a listing', async () => {
  const odd = [
    '{"__proto__":{"uid":7},"constructor":null,"toString":1}',
    '{"a":1e400,"b":-0,"c":12345678901234567890,"d":1e-400}',
    '{"lone":"\\ud800","nul":"\\u0000","line":"\\u2028]}","quote":"\\"],["}',
    `{"deep":${'['.repeat(2_000)}${']'.repeat(2_000)}}`,
  ];
  await write(odd.map((text, i) => withExtra(i + 1, JSON.parse(text))));
  const events: ScanEvent[] = [];
  for await (const event of scanLog({ dir: archive.dir })) events.push(event);
  const scanned = events.flatMap((event) => (event.what === 'batch' ? [event.batch] : []));
  expect(scanned).toHaveLength(odd.length);
  expect(handedOver().flat()).toEqual(scanned);
});

test('a record longer than the window of reading is read whole, wherever the window stands', async () => {
  await write([1, 2, 3].map((uid) => withExtra(uid, { long: 'y'.repeat(5_000_000 * uid) })));
  const { records, findings } = await verified(archive.dir);
  expect({ records, log: findings.filter(({ what }) => what === 'log') }).toEqual({
    records: 6,
    log: [],
  });
  const writer = await openLogWriter({ dir: archive.dir, now: () => START });
  await writer.close();
});

test('long facts are handed over a few at a time', async () => {
  const long = 'x'.repeat(9 * 1024 * 1024);
  await write([1, 2, 3].map((uid) => withExtra(uid, { long })));
  expect(handedOver().map(({ length }) => length)).toEqual([1, 1, 1]);
});
