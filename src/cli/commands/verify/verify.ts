import path from 'node:path';
import { catalogFile } from '../../../catalog/open.ts';
import { locateDataDir } from '../../../config/located-fields.ts';
import { requireArchive } from '../../../engine/archive/archive-folder.ts';
import { rememberRead } from '../../../engine/verify/remember.ts';
import {
  noteCheckup,
  readArchive,
  type SampleSize,
  verifySome,
} from '../../../engine/verify/verify.ts';
import { catalogError } from '../../../errors/catalog.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { verifyError } from '../../../errors/verify.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import { fingerprintOf, readCheckpoint, readPublicKey } from '../../../verify/checkpoint.ts';
import type { VerifyProgress, VouchedCommit } from '../../../verify/read-log.ts';
import type { Verification } from '../../../verify/verify-archive.ts';
import { bytes } from '../../../wording/amounts.ts';
import { sentenceOf } from '../../../wording/sentence-of.ts';
import type { CommandContext } from '../../context.ts';
import { printError } from '../../notices.ts';
import { openActivity } from '../../progress/activity.ts';
import { sampleReport, verifyReport } from './report.ts';

/** @throws usage-no-archive, archive-unreadable */
export function archiveOf({ globals, surroundings }: CommandContext): string {
  const dataDir = locateDataDir(globals, surroundings);
  requireArchive(dataDir, true);
  return dataDir;
}

/** A commit that a checkpoint vouches for, and who signed that: `compared` with a key that was given. */
export interface SignedCommit extends VouchedCommit {
  readonly signedAt: string;
  /** See `fingerprintOf`. */
  readonly signer: string;
  readonly compared: boolean;
}

/** Reads the complete archive, reports what it found, and records when, unless the catalog was not checked. */
export async function verifyAll(
  context: CommandContext,
  dataDir: string,
  full: boolean,
  checkpoint: SignedCommit | null,
): Promise<ExitCode> {
  const { now, output } = context;
  const startedAt = now();
  const vouched = checkpoint === null ? [] : [checkpoint];
  const activity = openActivity(context, 'reading the log');
  const { signal } = context;
  const progress = (at: VerifyProgress): void => activity.show(() => readText(at));
  const read = { full, vouched, signal, progress };
  const result = await readArchive(dataDir, read).finally(activity.stop);
  const durationMs = now() - startedAt;
  const mode = full ? 'full' : 'quick';
  const remembered = rememberRead(context, dataDir, { at: startedAt, mode, checkpoint }, result);
  if (remembered && full && result.found === 0 && result.catalog === 'equal') {
    noteCheckup(context, dataDir, startedAt);
  }
  const exit = exitOfVerification(result);
  await output.object(
    {
      mode,
      ok: exit === EXIT.done,
      ...result,
      checkpoint: checkpoint === null ? null : statementJson(checkpoint),
      durationMs,
      verifiedAt: isoTime(startedAt),
      remembered,
    },
    () => verifyReport(result, mode, durationMs, output.colours),
  );
  printUnread(context, dataDir, result);
  return exit;
}

/** What was not looked at is no damage, and not sound either. */
export function exitOfVerification({ found, catalog }: Verification): ExitCode {
  if (found > 0) return EXIT.damage;
  return catalog === 'unreadable' ? EXIT.failures : EXIT.done;
}

/** Says why the catalog was not looked at. */
export function printUnread(
  { notices, globals }: CommandContext,
  dataDir: string,
  { catalogError: reason }: Verification,
): void {
  if (reason === null) return;
  const error = catalogError('catalog-io', { file: catalogFile(dataDir), reason });
  printError(notices.stream, globals.json, sentenceOf(error));
}

function statementJson({ number, hash, signedAt, signer, compared }: SignedCommit) {
  return { number, hash, signedAt, signer, compared };
}

/**
 * Returns what a checkpoint covers; prints who signed it and when.
 *
 * @param publicKey the key that has to have signed it, or a file that holds it
 * @throws checkpoint-unreadable, checkpoint-forged, checkpoint-other-key, checkpoint-public-key
 */
export function vouchedBy(
  { surroundings, notices }: CommandContext,
  file: string,
  publicKey: string | undefined,
): SignedCommit {
  const statement = readCheckpoint(path.resolve(surroundings.cwd, file));
  const signer = fingerprintOf(statement.publicKey);
  if (publicKey !== undefined) {
    const wanted = readPublicKey(publicKey, path.resolve(surroundings.cwd, publicKey));
    if (wanted !== statement.publicKey) {
      throw verifyError('checkpoint-other-key', {
        file,
        found: signer,
        wanted: fingerprintOf(wanted),
      });
    }
  }
  const { archiveId, number, hash, signedAt } = statement;
  const pinned = publicKey === undefined ? ' (not compared: --public-key does that)' : '';
  notices.say(terminalLine(`The checkpoint was signed ${signedAt} with key ${signer}${pinned}.`));
  const compared = publicKey !== undefined;
  return { by: 'checkpoint', archiveId, number, hash, signedAt, signer, compared };
}

/** How far reading the log has come, for people. */
export function readText({ segments, of, rawBytes }: VerifyProgress): string {
  return `read ${segments} of ${of} segments, ${bytes(rawBytes)} of mail`;
}

/** Verifies some messages and prints what was found. */
export async function verifyPart(
  context: CommandContext,
  dataDir: string,
  size: SampleSize,
): Promise<ExitCode> {
  const { output } = context;
  const activity = openActivity(context, 'verifying messages');
  const done = await verifySome(context, dataDir, size).finally(activity.stop);
  const { at, sampling, durationMs, remembered } = done;
  const { found, oldest } = sampling;
  await output.object(
    {
      mode: 'sample',
      ok: found === 0,
      ...sampling,
      oldest: oldest === null ? null : isoTime(oldest),
      durationMs,
      verifiedAt: isoTime(at),
      remembered,
    },
    () => sampleReport(sampling, durationMs, output.colours),
  );
  return found === 0 ? EXIT.done : EXIT.damage;
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}
