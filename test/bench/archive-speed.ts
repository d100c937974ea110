import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { sealLog } from './archive-sizes.ts';
import { makeHeavyMail } from './heavy-mail.ts';
import { rebuildOnce } from './mailkeep.ts';
import { flush } from './measure-peers.ts';
import type { ArchiveSpeed, ExportSpeed, VerifySpeed } from './measurements.ts';
import type { MessageSet } from './message-set.ts';
import { type Invocation, Peak } from './process-cost.ts';
import type { Workplace } from './workplace.ts';

const FORMATS = ['eml', 'zip', 'mbox', 'maildir'] as const;

const verifiedSchema = z.looseObject({
  ok: z.literal(true),
  catalog: z.literal('equal'),
  messages: z.number(),
  rebuilt: z.number(),
  rawBytes: z.number(),
});
const compactedSchema = z.looseObject({ segments: z.number().min(1), bytesAfter: z.number() });
const exportedSchema = z.looseObject({
  exported: z.number().min(1),
  bytes: z.number(),
  failures: z.array(z.unknown()).max(0),
});

/** Brings the messages of the set into an archive without a service, and seals it. */
export async function importArchive(
  work: Workplace,
  program: string,
  { maildir }: Pick<MessageSet, 'maildir'>,
  folder = 'imported',
): Promise<string> {
  const data = work.fresh(folder);
  await work.run(invocation(program, 'import', '--data', data, '--quiet', maildir));
  await sealLog(data);
  return data;
}

/**
 * Compaction, full verification, exports and rebuild of a sealed archive: whole processes that take turns, `runs` times. Its files
 * have been read before. Fails when the archive is not found whole.
 */
export async function measureArchive(
  work: Workplace,
  program: string,
  data: string,
  runs: number,
): Promise<ArchiveSpeed> {
  const verifyMs: number[] = [];
  const rebuildMs: number[] = [];
  const rebuildAttachmentsMs: number[] = [];
  const peak = new Peak();
  const exports: ExportSpeed[] = FORMATS.map((format) => ({
    format,
    ms: [],
    messages: 0,
    bytes: 0,
  }));
  let rawBytes = 0;
  const compactMs: number[] = [];
  let logBytes = 0;
  for (let round = 0; round < runs; round++) {
    await compactTo('zlib', work, program, data);
    const compacted = await compactTo('zstd', work, program, data);
    compactMs.push(compacted.wallMs);
    logBytes = compacted.bytesAfter;
    rawBytes = await verifyOnce(work, program, data, verifyMs, peak);
    for (const [index, { format, ms }] of exports.entries()) {
      const to = join(work.fresh('export'), format === 'zip' ? 'mail.zip' : 'mail');
      flush();
      const run = await work.run(
        invocation(program, 'export', '--data', data, '--to', to, '--format', format, '--json'),
      );
      const { exported, bytes } = exportedSchema.parse(JSON.parse(run.stdout));
      exports[index] = { format, ms: [...ms, run.wallMs], messages: exported, bytes };
    }
    work.fresh('export');
    flush();
    const rebuilt = await rebuildOnce(work, program, data);
    rebuildMs.push(rebuilt.wallMs);
    rebuildAttachmentsMs.push(rebuilt.attachmentsMs);
  }
  const compaction = { logBytes, ms: compactMs };
  const rebuilds = { rebuildMs, rebuildAttachmentsMs };
  return { rawBytes, verifyMs, verifyPeakBytes: peak.bytes, exports, compaction, ...rebuilds };
}

const HEAVY_MESSAGES = 2_000;

/** Full verification of an archive of messages that are nearly all attachment, made for this and removed. */
export async function measureHeavy(
  work: Workplace,
  program: string,
  seed: number,
  runs: number,
): Promise<VerifySpeed> {
  const maildir = work.fresh('heavy');
  makeHeavyMail(maildir, HEAVY_MESSAGES, seed);
  const data = await importArchive(work, program, { maildir }, 'heavy-archive');
  work.fresh('heavy');
  const verifyMs: number[] = [];
  const peak = new Peak();
  let rawBytes = 0;
  for (let round = 0; round < runs; round++)
    rawBytes = await verifyOnce(work, program, data, verifyMs, peak);
  work.fresh('heavy-archive');
  return { rawBytes, verifyMs, verifyPeakBytes: peak.bytes };
}

/** Rewrites every sealed segment, read back and compared. @throws when there was none to rewrite */
async function compactTo(
  codec: 'zlib' | 'zstd',
  work: Workplace,
  program: string,
  data: string,
): Promise<{ readonly wallMs: number; readonly bytesAfter: number }> {
  const config = join(work.fresh('codec'), 'config.json');
  writeFileSync(config, JSON.stringify({ archive: { codec } }));
  flush();
  const run = await work.run(
    invocation(program, 'compact', '--data', data, '--config', config, '--json'),
  );
  const { bytesAfter } = compactedSchema.parse(JSON.parse(run.stdout));
  return { wallMs: run.wallMs, bytesAfter };
}

/** Returns the bytes of raw mail. @throws when not every message was rebuilt, or the archive is not sound */
async function verifyOnce(
  work: Workplace,
  program: string,
  data: string,
  verifyMs: number[],
  peak: Peak,
): Promise<number> {
  flush();
  const verified = await work.run(invocation(program, 'verify', '--data', data, '--json'));
  const result = verifiedSchema.parse(JSON.parse(verified.stdout));
  if (result.rebuilt !== result.messages)
    throw new Error(`verify rebuilt ${result.rebuilt} of ${result.messages} messages`);
  verifyMs.push(verified.wallMs);
  peak.note(verified.peakBytes);
  return result.rawBytes;
}

function invocation(program: string, ...args: readonly string[]): Invocation {
  return { command: process.execPath, args: [program, ...args] };
}
