import path from 'node:path';
import { openLogReader } from '../../archive/read/log-reader.ts';
import { openCompared } from '../../catalog/implied.ts';
import { catalogFile } from '../../catalog/open.ts';
import { readState } from '../../catalog/state.ts';
import { locateDataDir } from '../../config/data-dir.ts';
import { requireArchive } from '../../engine/archive/archive-folder.ts';
import { knownFindings, noting, remember } from '../../engine/verify/remember.ts';
import { rememberRead } from '../../engine/verify/remember-read.ts';
import { catalogError } from '../../errors/catalog.ts';
import { EXIT, type ExitCode } from '../../errors/exit-codes.ts';
import { verifyError } from '../../errors/verify.ts';
import type { VerificationFacts } from '../../health/facts.ts';
import { recalledVerification } from '../../health/verification.ts';
import { terminalLine } from '../../mail/terminal-safe.ts';
import { fingerprintOf, readCheckpoint, readPublicKey } from '../../verify/checkpoint.ts';
import type { VouchedCommit } from '../../verify/read-log.ts';
import { NEVER, type SegmentCheckup, verifySample } from '../../verify/sample.ts';
import { checkerOnThreads } from '../../verify/segment-threads.ts';
import { type Verification, verifyArchive } from '../../verify/verify-archive.ts';
import { bytes } from '../../wording/amounts.ts';
import { sentenceOf } from '../../wording/sentence-of.ts';
import type { CommandContext } from '../context.ts';
import { openActivity } from '../progress/activity.ts';
import { tell } from '../tell.ts';
import { sampleReport, verifyReport } from './report.ts';

/** How many messages: a number, or a share of all. */
export type SampleSize = { readonly messages: number } | { readonly share: number };

const SCOPE = 'verified';

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

/** Reads the whole archive, tells what it found, and remembers when, unless the catalog was not looked at. */
export async function verifyAll(
  context: CommandContext,
  dataDir: string,
  full: boolean,
  checkpoint: SignedCommit | null,
): Promise<ExitCode> {
  const { now, output } = context;
  const startedAt = now();
  const vouched = checkpoint === null ? [] : [checkpoint];
  const result = await readArchive(context, dataDir, full, vouched);
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
  tellUnread(context, dataDir, result);
  return exit;
}

/** What was not looked at is no damage, and not sound either. */
export function exitOfVerification({ found, catalog }: Verification): ExitCode {
  if (found > 0) return EXIT.damage;
  return catalog === 'unreadable' ? EXIT.failures : EXIT.done;
}

/** Says why the catalog was not looked at. */
export function tellUnread(
  { notices, globals }: CommandContext,
  dataDir: string,
  { catalogError: reason }: Verification,
): void {
  if (reason === null) return;
  const error = catalogError('catalog-io', { file: catalogFile(dataDir), reason });
  tell(notices.stream, globals.json, sentenceOf(error));
}

function statementJson({ number, hash, signedAt, signer, compared }: SignedCommit) {
  return { number, hash, signedAt, signer, compared };
}

/**
 * What a checkpoint vouches for; who signed it and when is told.
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

export async function readArchive(
  context: CommandContext,
  dataDir: string,
  full: boolean,
  vouched: readonly VouchedCommit[],
): Promise<Verification> {
  const { signal } = context;
  const activity = openActivity(context, 'reading the log');
  const checker = checkerOnThreads();
  try {
    return await verifyArchive({
      dir: dataDir,
      checker,
      full,
      vouched,
      signal,
      progress: ({ segments, of, rawBytes }) =>
        activity.show(() => `read ${segments} of ${of} segments, ${bytes(rawBytes)} of mail`),
    });
  } finally {
    activity.stop();
    await checker.close();
  }
}

/** Verifies some messages, least recently verified first. */
export async function verifySome(
  context: CommandContext,
  dataDir: string,
  size: SampleSize,
): Promise<ExitCode> {
  const { now, output, signal } = context;
  const catalog = openCompared(dataDir);
  const reader = openLogReader({ dir: dataDir, locator: catalog.locator });
  const recalled = readState(dataDir);
  const checkups = new Map<number, SegmentCheckup>();
  const noteCheckups = (): boolean =>
    checkups.size === 0 ||
    noting(context, dataDir, 'sample', (state) => {
      for (const [segment, checkup] of checkups) state.set(SCOPE, String(segment), checkup);
    });
  try {
    const segments = catalog.segments();
    const all = segments.reduce((sum, { messages }) => sum + messages, 0);
    const startedAt = now();
    const known = messagesIn(recalledVerification(recalled));
    const sound = new Set<string>();
    const activity = openActivity(context, 'verifying messages');
    const sampling = await verifySample({
      segments,
      messagesIn: (segment, from) => catalog.messagesIn(segment, from),
      reader,
      concerns: catalog,
      checkups: {
        get: (segment) => recalled?.read(SCOPE, String(segment), checkupIn) ?? NEVER,
        set: (segment, checkup) => checkups.set(segment, checkup),
      },
      sound: (id) => {
        if (known.has(id)) sound.add(id);
      },
      wanted: 'share' in size ? Math.ceil(all * size.share) : size.messages,
      now: startedAt,
      signal,
    }).finally(activity.stop);
    const { found, findings, oldest, checked, of } = sampling;
    const durationMs = now() - startedAt;
    const remembered = remember(context, dataDir, {
      ...{ at: startedAt, endedAt: now(), mode: 'sample', checked, of, found },
      findings: knownFindings(context, findings),
      covers: ({ what, id }) => what === 'message' && id !== null && sound.has(id),
    });
    await output.object(
      {
        mode: 'sample',
        ok: found === 0,
        ...sampling,
        oldest: oldest === null ? null : isoTime(oldest),
        durationMs,
        verifiedAt: isoTime(startedAt),
        remembered,
      },
      () => sampleReport(sampling, durationMs, output.colours),
    );
    return found === 0 ? EXIT.done : EXIT.damage;
  } finally {
    recalled?.close();
    reader.close();
    catalog.close();
    noteCheckups();
  }
}

/** Messages that are known to be damaged. */
function messagesIn(last: VerificationFacts | null): ReadonlySet<string> {
  const ids = last?.damage?.findings.flatMap(({ id }) => (id === null ? [] : [id]));
  return new Set(ids ?? []);
}

/** Where all was well, a complete run is a checkup of every segment as well: samples continue from there. */
function noteCheckup(context: CommandContext, dataDir: string, at: number): void {
  noting(context, dataDir, 'segments', (state) => {
    const catalog = openCompared(dataDir);
    try {
      for (const { segment, end } of catalog.segments()) {
        state.set(SCOPE, String(segment), { at, covered: end, next: 0 });
      }
    } finally {
      catalog.close();
    }
  });
}

function checkupIn(value: unknown): SegmentCheckup | undefined {
  if (typeof value !== 'object' || value === null) return undefined;
  if (!('at' in value && 'covered' in value && 'next' in value)) return undefined;
  const { at, covered, next } = value;
  return typeof at === 'number' && typeof covered === 'number' && typeof next === 'number'
    ? { at, covered, next }
    : undefined;
}

function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}
