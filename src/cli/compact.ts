import { join } from 'node:path';
import { realFiles } from '../archive/files/real-files.ts';
import { isTemporary, logFolder } from '../archive/format/layout.ts';
import { checkFormat } from '../archive/read/format-file.ts';
import {
  type Compactable,
  compactableSegments,
  compactSegment,
  isDamage,
} from '../archive/write/compact-segments.ts';
import { type ArchiveCodec, DEFAULT_CODEC } from '../archive/write/compress-payload.ts';
import { writing } from '../archive/write/hot-segment.ts';
import { acquireLock } from '../archive/write/lock.ts';
import { dropOldGenerations } from '../archive/write/old-generations.ts';
import { sealerOnThread } from '../archive/write/sealer.ts';
import { locateCodec } from '../config/archive-codec.ts';
import { locateDataDir } from '../config/data-dir.ts';
import { requireArchive } from '../engine/archive/archive-folder.ts';
import { mindFileSystem } from '../engine/archive/network-file-system.ts';
import { EXIT, type ExitCode } from '../errors/exit-codes.ts';
import type { MailkeepError } from '../errors/mailkeep-error.ts';
import { bytes, count, counted, span } from '../wording/amounts.ts';
import { sentenceOf } from '../wording/sentence-of.ts';
import type { CommandContext } from './context.ts';

/** How often progress is reported. */
const REPORT_EVERY_MS = 5_000;

interface CompactResult {
  readonly codec: ArchiveCodec;
  readonly dryRun: boolean;
  /** Segments that were rewritten, or would be, and bytes of their files. */
  readonly segments: number;
  readonly bytesBefore: number;
  /** Null for a dry run. */
  readonly bytesAfter: number | null;
  /** Segments that another codec compressed and that were not reached. */
  readonly remaining: number;
  readonly interrupted: boolean;
  readonly damaged: readonly MailkeepError[];
}

/**
 * `mailkeep compact`: rewrites the sealed segments that are compressed otherwise than the configuration says.
 *
 * @throws usage-no-archive, archive-in-use, network-file-system, archive-format-newer: nothing was changed
 * @throws disk-full and the other errors of writing: what was rewritten stays, and the same command continues
 */
export async function compact(
  context: CommandContext,
  { dryRun }: { readonly dryRun: boolean },
): Promise<ExitCode> {
  const { globals, surroundings, output, now } = context;
  const dir = locateDataDir(globals, surroundings);
  const codec = locateCodec(globals, surroundings) ?? DEFAULT_CODEC;
  requireArchive(dir);
  checkFormat(realFiles, dir);
  const startedAt = now();
  const result = dryRun
    ? surveyed(dir, codec)
    : await whileLocked(context, dir, () => rewritten(context, dir, codec));
  const durationMs = now() - startedAt;
  const damaged = result.damaged.map(({ code, facts }) => ({ code, ...facts }));
  await output.object({ ...result, damaged, durationMs }, () => report(result, durationMs));
  if (result.interrupted) return EXIT.interrupted;
  return result.damaged.length > 0 ? EXIT.damage : EXIT.done;
}

async function whileLocked<T>(
  { surroundings }: CommandContext,
  dir: string,
  act: () => Promise<T>,
): Promise<T> {
  mindFileSystem(dir, surroundings.env);
  const lock = acquireLock(dir);
  try {
    return await act();
  } finally {
    lock.release();
  }
}

function surveyed(dir: string, codec: ArchiveCodec): CompactResult {
  const { segments, damaged } = survey(dir, codec);
  return {
    codec,
    dryRun: true,
    segments: segments.length,
    bytesBefore: segments.reduce((total, segment) => total + segment.bytes, 0),
    bytesAfter: null,
    remaining: segments.length,
    interrupted: false,
    damaged,
  };
}

async function rewritten(
  { notices, now, signal }: CommandContext,
  dir: string,
  codec: ArchiveCodec,
): Promise<CompactResult> {
  await clearRemains(dir);
  const { segments, damaged } = survey(dir, codec);
  const sealer = sealerOnThread();
  let [done, bytesBefore, bytesAfter, reportedAt] = [0, 0, 0, now()];
  let examined = 0;
  try {
    for (const { segment } of segments) {
      if (signal.aborted) break;
      examined += 1;
      try {
        const sealed = await compactSegment(realFiles, sealer, { dir, segment, codec });
        done += 1;
        bytesBefore += sealed.bytesBefore;
        bytesAfter += sealed.bytesAfter;
      } catch (error) {
        if (!isDamage(error)) throw error;
        damaged.push(error);
      }
      if (now() - reportedAt < REPORT_EVERY_MS) continue;
      reportedAt = now();
      notices.say(`rewrote ${count(examined)} of ${counted(segments.length, 'segment')}`);
    }
  } finally {
    await sealer.close();
  }
  const remaining = segments.length - examined;
  const interrupted = remaining > 0;
  return {
    ...{ codec, dryRun: false, segments: done, bytesBefore, bytesAfter },
    ...{ remaining, interrupted, damaged },
  };
}

/** Removes what a killed run left: unfinished files, and generations that a sealed one has replaced. */
async function clearRemains(dir: string): Promise<void> {
  const folder = logFolder(dir);
  for (const name of realFiles.list(folder).filter(isTemporary)) {
    await writing(folder, 0, () => realFiles.remove(join(folder, name)));
  }
  await writing(folder, 0, () =>
    dropOldGenerations({ dir, now: Number.POSITIVE_INFINITY, keepMs: 0 }),
  );
}

function survey(dir: string, codec: ArchiveCodec) {
  const segments: Compactable[] = [];
  const damaged: MailkeepError[] = [];
  for (const found of compactableSegments(realFiles, dir, codec)) {
    if ('bytes' in found) segments.push(found);
    else damaged.push(found.damage);
  }
  return { segments, damaged };
}

function report(result: CompactResult, durationMs: number): string {
  const { codec, dryRun, segments, bytesBefore, bytesAfter, remaining, interrupted } = result;
  const rewritten = `${counted(segments, 'segment')} (${bytes(bytesBefore)})`;
  const lines: string[] = [];
  if (segments === 0 && remaining === 0) {
    // A damaged segment has a line of its own: whether it has the codec is not known.
    if (result.damaged.length === 0) lines.push(`Every sealed segment has ${codec} already.`);
  } else if (dryRun) lines.push(`Would rewrite ${rewritten} with ${codec}.`);
  else {
    const after = bytesAfter === null ? '' : `, which take ${bytes(bytesAfter)} now`;
    lines.push(`Rewrote ${rewritten} with ${codec}${after}, in ${span(durationMs)}.`);
  }
  if (interrupted) {
    lines.push(`Interrupted: ${counted(remaining, 'segment')} left. The same command continues.`);
  }
  return [...lines, ...result.damaged.map((error) => `DAMAGED ${sentenceOf(error).message}`)].join(
    '\n',
  );
}
