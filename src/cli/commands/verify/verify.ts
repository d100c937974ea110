import path from 'node:path';
import { catalogFile } from '../../../catalog/open.ts';
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
import type { Finding } from '../../../verify/findings.ts';
import type { CatalogState } from '../../../verify/grown-catalog.ts';
import type { VerifyProgress, VouchedCommit } from '../../../verify/read-log.ts';
import type { Sampling } from '../../../verify/sample.ts';
import type { SegmentChecker } from '../../../verify/segment-checker.ts';
import type { Verification } from '../../../verify/verify-archive.ts';
import { bytes, count, counted, span } from '../../../wording/amounts.ts';
import { findingText } from '../../../wording/finding.ts';
import { sentenceOf } from '../../../wording/sentence-of.ts';
import type { CommandContext } from '../../context.ts';
import { printError } from '../../notices.ts';
import { type Colours, present } from '../../output.ts';
import { openActivity } from '../../progress/activity.ts';

/** Findings shown one by one; --json has more. */
const MOST_SHOWN = 50;

export function verifyReport(
  result: Verification,
  mode: 'full' | 'quick',
  durationMs: number,
  colours: Colours,
): string {
  const { segments, records, messages, rawBytes, rebuilt, found, findings, tail, last } = result;
  const rate = durationMs > 0 ? `, ${count(rawBytes / 1000 / durationMs)} MB/s` : '';
  return present([
    `Read ${counted(segments, 'segment')}, ${counted(last?.number ?? 0, 'commit')}, ${counted(records, 'record')}, ${counted(messages, 'message')} (${bytes(rawBytes)} of mail) in ${span(durationMs)}${rate}.`,
    mode === 'full' && `Rebuilt and hashed ${counted(rebuilt, 'message')}.`,
    catalogText(result.catalog, inLog(findings)),
    tail !== null &&
      `After the last commit there are ${bytes(tail.bytes)} of a write that is in progress or was interrupted; they are not part of the archive.`,
    found === 0 && result.catalog === 'unreadable'
      ? 'The log is as it was written.'
      : verdict(found, findings, colours),
    remedy(findings),
  ]).join('\n');
}

export function sampleReport(
  { checked, of, oldest, found, findings }: Sampling,
  durationMs: number,
  colours: Colours,
): string {
  return present([
    `Rebuilt and hashed ${count(checked)} of ${counted(of, 'message')}, least recently verified first, in ${span(durationMs)}.`,
    oldest === null
      ? 'Some messages have never been verified.'
      : `Every message was verified since ${new Date(oldest).toISOString()}.`,
    verdict(found, findings, colours),
    remedy(findings),
  ]).join('\n');
}

/** Where only the catalog is damaged, a rebuild suffices; the line about the catalog says so. */
function remedy(findings: readonly Finding[]): string | false {
  if (inLog(findings)) {
    return 'Nothing was changed; "mailkeep verify --repair" recovers what can be found.';
  }
  return (
    findings.some(({ what }) => what === 'state-file') &&
    'Nothing was changed; "mailkeep verify --repair", or the next sync, begins a new state and keeps the damaged file. Saved searches are in it; an off-site copy has them.'
  );
}

function inLog(findings: readonly Finding[]): boolean {
  return findings.some(({ what }) => what === 'log' || what === 'message' || what === 'missing');
}

export function verdict(found: number, findings: readonly Finding[], colours: Colours): string[] {
  if (found === 0) return [colours.green('Everything is as it was written.')];
  const shown = findings.slice(0, MOST_SHOWN);
  const more = found - shown.length;
  return present([
    shown.map((finding) => `${colours.red('DAMAGED')} ${findingText(finding)}`),
    more > 0 && `… and ${counted(more, 'more finding')}; --json shows them.`,
    colours.red(`${counted(found, 'finding')}.`),
  ]);
}

function catalogText(state: CatalogState, logIsDamaged: boolean): string {
  switch (state) {
    case 'equal':
      return 'The catalog agrees with the log.';
    case 'behind':
      return 'The catalog agrees with the log, but is behind it; the next sync adds the rest.';
    case 'missing':
      return 'There is no catalog to compare; "mailkeep rebuild" creates one.';
    case 'other-version':
      return 'The catalog is of another version and was not compared; "mailkeep rebuild" rebuilds it.';
    case 'different':
      // A rebuild from a damaged log would lose what the catalog may still know.
      return logIsDamaged
        ? 'The catalog differs from the log, which is damaged.'
        : 'The catalog differs from the log; "mailkeep rebuild" rebuilds it.';
    case 'damaged':
      return 'The catalog is damaged; "mailkeep rebuild" rebuilds it.';
    case 'unreadable':
      return 'The catalog could not be read and was not compared.';
  }
}

/** A commit that a checkpoint vouches for, and who signed that: `compared` with a key that was given. */
export interface SignedCommit extends VouchedCommit {
  readonly signedAt: string;
  /** See `fingerprintOf`. */
  readonly signer: string;
  readonly compared: boolean;
}

/**
 * Reads the complete archive, reports what it found, and records when, unless the catalog was not checked.
 *
 * @param checker is closed in the end
 */
export async function verifyAll(
  context: CommandContext,
  dataDir: string,
  full: boolean,
  checkpoint: SignedCommit | null,
  checker: SegmentChecker,
): Promise<ExitCode> {
  const { now, output } = context;
  const startedAt = now();
  const vouched = checkpoint === null ? [] : [checkpoint];
  const activity = openActivity(context, 'reading the log');
  const { signal } = context;
  const progress = (at: VerifyProgress): void => activity.show(() => readText(at));
  const read = { full, vouched, signal, progress };
  const result = await readArchive(dataDir, read, checker).finally(activity.stop);
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
