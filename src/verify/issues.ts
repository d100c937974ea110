import type { CatalogLag } from '../catalog/open-reader.ts';
import type { StoredRun } from '../core/state-runs.ts';
import { isImported } from '../mail/identity.ts';
import type { ArchiveStatus, FolderStatus, MailboxStatus } from './archive-status.ts';
import type { CopyStatus } from './copy-facts.ts';
import type { VerificationStatus } from './verification.ts';

/** Age in hours at which a folder's last comparison counts as late: a day, plus the duration of a nightly run. */
export const LATE_HOURS = 26;
export const LATE_MS = LATE_HOURS * 3_600_000;

/** Quota usage in percent at which a mailbox is reported as full. */
const FULL_PERCENT = 95;

/** A condition of an archive that needs attention. `bad` means damage, or failed protection. */
export type Issue = { readonly level: 'bad' | 'warn' } & (
  | { readonly kind: 'archive-damaged'; readonly verification: VerificationStatus }
  | { readonly kind: 'copy-damaged' | 'copy-stale' | 'copy-failing'; readonly copy: CopyStatus }
  | { readonly kind: 'index-behind'; readonly lag: CatalogLag }
  | { readonly kind: 'run-failed'; readonly run: StoredRun }
  | { readonly kind: 'daemon-silent'; readonly last: number; readonly usualMs: number }
  | { readonly kind: 'never-compared' | 'never-verified' }
  | { readonly kind: 'not-searchable'; readonly messages: number }
  | {
      readonly kind: 'mailbox-stale' | 'pending-deletions' | 'incomplete-messages' | 'suspended';
      readonly mailbox: MailboxStatus;
    }
  | {
      readonly kind: 'folders-late' | 'folders-incomplete';
      readonly mailbox: MailboxStatus;
      readonly folders: readonly FolderStatus[];
    }
  | { readonly kind: 'mailbox-full'; readonly mailbox: MailboxStatus; readonly percent: number }
);

/** Issues that make an archive damaged (exit code 3) or stale (exit code 1). */
export const DAMAGED: readonly Issue['kind'][] = ['archive-damaged', 'copy-damaged'];
export const STALE: readonly Issue['kind'][] = ['never-compared', 'mailbox-stale', 'copy-stale'];

interface Inputs {
  readonly copies: readonly CopyStatus[];
  readonly behind?: CatalogLag | null;
  /** Latest sync runs, newest first. */
  readonly runs?: readonly StoredRun[];
  /** False if the status covers only some mailboxes. */
  readonly whole?: boolean;
  /** Maximum age of a mailbox's last comparison, in milliseconds; null for no limit. */
  readonly maxAgeMs?: number | null;
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** Lists all issues of an archive, worst first, without connecting to the service. */
export function listIssues(
  status: Pick<ArchiveStatus, 'verification' | 'mailboxes' | 'messages' | 'pending'>,
  { copies, behind = null, runs = [], whole = true, maxAgeMs = null, now }: Inputs,
): Issue[] {
  const { verification, mailboxes, messages, pending } = status;
  const issues: Issue[] = [];
  if (verification?.ok === false) {
    issues.push({ level: 'bad', kind: 'archive-damaged', verification });
  }
  issues.push(...copies.flatMap(listCopyIssues));
  if (behind !== null) issues.push({ level: 'warn', kind: 'index-behind', lag: behind });
  issues.push(...failedRuns(runs));
  const silent = silentSince(runs, now);
  if (silent !== null) issues.push({ level: 'warn', kind: 'daemon-silent', ...silent });
  if (maxAgeMs !== null) {
    if (mailboxes.length === 0) issues.push({ level: 'warn', kind: 'never-compared' });
    for (const mailbox of mailboxes) {
      const { provenAt } = mailbox;
      const isStale = provenAt === null || Date.parse(provenAt) < now - maxAgeMs;
      if (isStale && isWatched(mailbox)) {
        issues.push({ level: 'warn', kind: 'mailbox-stale', mailbox });
      }
    }
  }
  for (const mailbox of mailboxes) issues.push(...mailboxIssues(mailbox, now));
  if (whole && verification === null && messages > 0) {
    issues.push({ level: 'warn', kind: 'never-verified' });
  }
  if (pending > 0) issues.push({ level: 'warn', kind: 'not-searchable', messages: pending });
  return issues.toSorted((a, b) => Number(b.level === 'bad') - Number(a.level === 'bad'));
}

/** Lists the issues of one copy: first damage, then age or failures. */
export function listCopyIssues(copy: CopyStatus): Issue[] {
  const { damage, stale, failure } = copy;
  const issues: Issue[] = [];
  if (damage !== null) issues.push({ level: 'bad', kind: 'copy-damaged', copy });
  if (stale) issues.push({ level: 'bad', kind: 'copy-stale', copy });
  else if (failure !== null) issues.push({ level: 'warn', kind: 'copy-failing', copy });
  return issues;
}

function mailboxIssues(mailbox: MailboxStatus, now: number): Issue[] {
  const { quarantined, held, suspendedSince, quota, leftBehindAt } = mailbox;
  // No sync run will decide or fetch anything there.
  if (leftBehindAt !== null) return [];
  const watched = mailbox.unwatched ? [] : mailbox.folders.filter(({ unwatched }) => !unwatched);
  const late = watched.filter(
    ({ provenAt }) => provenAt !== null && now - Date.parse(provenAt) > LATE_MS,
  );
  // A folder with pending deletions contains more than the service, and is reported separately.
  const incomplete = watched.filter(
    ({ complete, held: pending }) => complete === false && pending === 0,
  );
  const fullest = highestUsage(quota?.resources ?? []);
  const percent = fullest === null ? 0 : roundedPercent(fullest.share);
  const issues: (Issue | false)[] = [
    held > 0 && { level: 'warn', kind: 'pending-deletions', mailbox },
    late.length > 0 && { level: 'warn', kind: 'folders-late', mailbox, folders: late },
    quarantined > 0 && { level: 'warn', kind: 'incomplete-messages', mailbox },
    suspendedSince !== null && { level: 'warn', kind: 'suspended', mailbox },
    percent >= FULL_PERCENT && { level: 'warn', kind: 'mailbox-full', mailbox, percent },
    incomplete.length > 0 &&
      !isImported(mailbox) && {
        ...{ level: 'warn', kind: 'folders-incomplete', mailbox, folders: incomplete },
      },
  ];
  return issues.filter((issue) => issue !== false);
}

/** Lists accounts whose last sync run failed, for example because of a rejected token or a full disk. */
function failedRuns(runs: readonly StoredRun[]): Issue[] {
  const last = new Map<string | null, StoredRun>();
  for (const run of runs) {
    if (run.sum === null && run.outcome !== 'failed') continue;
    // A run over several accounts is outdated once any of them has had a later run.
    const isLater = run.account === null ? last.size > 0 : last.has(run.account);
    if (!isLater) last.set(run.account, run);
  }
  // Findings from a verification are a separate issue.
  return [...last.values()]
    .filter(({ outcome, kind, troubles }) => {
      return outcome === 'failed' && kind !== 'verify' && troubles.length > 0;
    })
    .map((run) => ({ level: 'warn', kind: 'run-failed', run }));
}

/** The daemon is considered silent after this many usual intervals, but not before this many milliseconds. */
const MISSED_RUNS = 3;
const SILENT_MS = 900_000;

/**
 * Returns the time of a silent daemon's last sync run, and its usual interval based on past runs, without contacting
 * the daemon. Returns null if no run is overdue, or if there have been none.
 *
 * @param runs latest runs, newest first
 */
function silentSince(runs: readonly StoredRun[], now: number) {
  const starts = runs.filter(({ kind }) => kind === 'sync').map(({ startedAt }) => startedAt);
  const [last] = starts;
  const waits = starts.slice(1).map((startedAt, at) => (starts[at] ?? startedAt) - startedAt);
  const usualMs = waits.toSorted((a, b) => a - b)[Math.floor(waits.length / 2)];
  if (last === undefined || usualMs === undefined) return null;
  return now - last < Math.max(SILENT_MS, MISSED_RUNS * usualMs) ? null : { last, usualMs };
}

/**
 * Reports whether sync runs compare a mailbox with a service. Imported mailboxes have none, and those excluded by the
 * configuration or left behind are not synced.
 */
export function isWatched(mailbox: Pick<MailboxStatus, 'host' | 'unwatched'>): boolean {
  return !isImported(mailbox) && !mailbox.unwatched;
}

/** A mailbox's quota of one kind: `STORAGE` in bytes, or `MESSAGE` as a count. The limit is null if there is none. */
export interface QuotaUse {
  readonly name: string;
  readonly usage: number;
  readonly limit: number | null;
}

interface Fullness {
  readonly name: string;
  /** Used share of the limit, where 1 is full. */
  readonly share: number;
}

/** Returns the quota nearest to its limit; null if none has a limit. */
export function highestUsage(quotas: readonly QuotaUse[]): Fullness | null {
  let fullest: Fullness | null = null;
  for (const { name, usage, limit } of quotas) {
    if (limit === null || limit <= 0) continue;
    const share = usage / limit;
    if (fullest === null || share > fullest.share) fullest = { name, share };
  }
  return fullest;
}

/** Returns a share as a whole percentage. Rounds down, so that a nearly full mailbox is not shown as full. */
export function roundedPercent(share: number): number {
  return Math.floor(share * 100);
}
