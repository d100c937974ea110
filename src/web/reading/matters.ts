import type { Stale } from '../../engine/archive/reader.ts';
import type { ArchiveStatus, MailboxStatus } from '../../engine/status/archive-status.ts';
import { isOfCatalog } from '../../engine/verify/remember.ts';
import type { CopyStatus } from '../../health/copies.ts';
import { fullnessOf, percentOf } from '../../health/facts.ts';
import { isImported } from '../../mail/import-host.ts';
import type { KeptRun } from '../../state/runs.ts';
import { counted, span } from '../../wording/amounts.ts';
import { mattersOfCopies } from './copy-matters.ts';
import { LATE_MS } from './late.ts';
import type { Matter } from './matter.ts';

/** From here on a mailbox counts as full, in per cent of its quota. */
const FULL_PERCENT = 95;

/** What a status does not say. */
interface Surroundings {
  readonly behind: Stale | null;
  /** False where the status is that of some mailboxes. */
  readonly whole: boolean;
  /** Empty where the status is that of some mailboxes. */
  readonly copies: readonly CopyStatus[];
  /** The last passes, newest first. */
  readonly runs: readonly KeptRun[];
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** Returns what needs a person, the worst first. Everything is known offline: nothing is asked of the service. */
export function mattersOf(
  status: ArchiveStatus,
  { behind, whole, copies, runs, now }: Surroundings,
): Matter[] {
  const { verification, pending, mailboxes } = status;
  const found = verification?.found ?? 0;
  const matters: Matter[] = [];
  if (verification?.ok === false) {
    const isOnlyIndex =
      found === verification.findings.length && verification.findings.every(isOfCatalog);
    // Findings of one kind read the same once their names are left out.
    const texts = new Set(verification.findings.map(({ text }) => text));
    matters.push({
      level: 'bad',
      title: `${isOnlyIndex ? 'The index' : 'The archive'} is damaged: ${counted(found, 'finding')}`,
      text: `${sentence([...texts].slice(0, 3).join('; '))}${isOnlyIndex ? ' No mail is lost: a rebuild makes a new index from the log.' : ''}`,
      command: isOnlyIndex ? 'rebuild' : 'verify --repair',
      link: { href: '/health/verification', text: 'See what is damaged' },
    });
  }
  matters.push(...mattersOfCopies(copies, now));
  if (behind !== null)
    matters.push({
      level: 'warn',
      title: 'The index lacks the newest mail',
      text: `It covers commit ${behind.reached} of ${behind.last}. The mail itself is stored.`,
      command: 'rebuild',
      link: null,
    });
  matters.push(...mattersOfRuns(runs), ...matterOfSilence(runs, now));
  for (const mailbox of mailboxes) matters.push(...mattersOfMailbox(mailbox, now));
  if (whole && verification === null && status.messages > 0)
    matters.push({
      level: 'warn',
      title: 'The archive was never verified',
      text: 'Each message is checked when it is opened. A verification reads every byte of all of them and compares it with its hash.',
      command: 'verify',
      link: { href: '/health/verification', text: 'Verification' },
    });
  if (pending > 0)
    matters.push({
      level: 'warn',
      title: `${counted(pending, 'message')} cannot be found by words yet`,
      text: 'Folder, flags, date and size already find them. The next sync indexes them.',
      command: null,
      link: null,
    });
  const inFolder = `${status.dataDir}/`;
  return matters
    .map((matter) => ({ ...matter, text: matter.text.replaceAll(inFolder, '') }))
    .toSorted((a, b) => Number(b.level === 'bad') - Number(a.level === 'bad'));
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}

function mattersOfMailbox(mailbox: MailboxStatus, now: number): Matter[] {
  const { address, quarantined, held, suspendedSince, unwatched, folders } = mailbox;
  const matters: Matter[] = [];
  if (held > 0)
    matters.push({
      level: 'warn',
      title: `${address}: ${counted(held, 'pending deletion')}`,
      text: 'So many messages disappeared at the service at once that a later sync must confirm the deletions. The archive keeps the messages either way.',
      command: 'list --held',
      link: { href: '/health/held', text: 'See them, and when they are checked again' },
    });
  const old = folders.filter(
    ({ provenAt, unwatched: left }) =>
      !left && provenAt !== null && now - Date.parse(provenAt) > LATE_MS,
  );
  if (old.length > 0 && !unwatched)
    matters.push({
      level: 'warn',
      title: `${address}: ${counted(old.length, 'folder')} not compared for more than 26 h`,
      text: 'The archive lacks mail that arrived at the service since.',
      command: 'sync',
      link: { href: '/health/folders?sort=age', text: 'See folders by age' },
    });
  if (quarantined > 0)
    matters.push({
      level: 'warn',
      title: `${address}: ${counted(quarantined, 'incomplete message')}`,
      text: 'They could not be fetched completely. Each sync tries them again.',
      command: 'quarantine',
      link: { href: '/health/quarantine', text: 'See them' },
    });
  if (suspendedSince !== null)
    matters.push({
      level: 'warn',
      title: `${address} is suspended at the service`,
      text: `First seen so on ${suspendedSince.slice(0, 10)}. What is archived stays readable.`,
      command: null,
      link: null,
    });
  const full = fullnessOf(mailbox.quota?.resources ?? []);
  if (full !== null && percentOf(full.share) >= FULL_PERCENT)
    matters.push({
      level: 'warn',
      title: `${address} is ${percentOf(full.share)}% full at the service`,
      text: 'A full mailbox receives no mail.',
      command: null,
      link: null,
    });
  // A folder with pending deletions has more than the service: the card about these says so.
  const late = folders.filter(
    ({ complete, unwatched: left, held: pending }) => complete === false && !left && pending === 0,
  );
  if (late.length > 0 && !unwatched && !isImported(mailbox))
    matters.push({
      level: 'warn',
      title: `${address}: ${counted(late.length, 'folder')} not complete`,
      text: `The last sync could not account for every message at the service: ${late
        .slice(0, 3)
        .map(({ folder }) => folder)
        .join(', ')}${late.length > 3 ? ' and others' : ''}.`,
      command: 'sync',
      link: { href: '/health/folders?sort=age', text: 'See folders by age' },
    });
  return matters;
}

/** Accounts, or the archive, whose last pass failed as a whole: a refused token, a service that is away, a full disk. */
function mattersOfRuns(runs: readonly KeptRun[]): Matter[] {
  const last = new Map<string | null, KeptRun>();
  for (const run of runs) {
    if (run.sum === null && run.outcome !== 'failed') continue;
    // One over several accounts says nothing any more when one of them had a later pass.
    const isLater = run.account === null ? last.size > 0 : last.has(run.account);
    if (!isLater) last.set(run.account, run);
  }
  return [...last.values()].flatMap(({ account, outcome, kind, troubles }): Matter[] => {
    const [trouble] = troubles;
    // What a verification found is a matter by itself.
    if (outcome !== 'failed' || kind === 'verify' || trouble === undefined) return [];
    return [
      {
        level: 'warn',
        title: account === null ? 'The last run failed' : `${account}: the last sync failed`,
        text: trouble.text ?? 'The reason is in the log of the daemon.',
        command: 'doctor',
        link: { href: '/health/runs', text: 'See the runs' },
      },
    ];
  });
}

/** The daemon counts as silent after so many times the usual wait between its passes, and not before so long. */
const MISSED_PASSES = 3;
const SILENT_MS = 900_000;

/**
 * Returns since when the daemon has made no pass although it should have, and how far they usually are apart: by its own
 * rhythm, since nothing here asks it. Null where it makes them, and where it has never made any.
 *
 * @param runs the last passes, newest first
 */
export function silentSince(
  runs: readonly KeptRun[],
  now: number,
): { readonly last: number; readonly usual: number } | null {
  const passes = runs.filter(({ kind }) => kind === 'sync').map(({ startedAt }) => startedAt);
  const [last] = passes;
  const waits = passes.slice(1).map((startedAt, at) => (passes[at] ?? startedAt) - startedAt);
  const usual = waits.toSorted((a, b) => a - b)[Math.floor(waits.length / 2)];
  if (last === undefined || usual === undefined) return null;
  return now - last < Math.max(SILENT_MS, MISSED_PASSES * usual) ? null : { last, usual };
}

function matterOfSilence(runs: readonly KeptRun[], now: number): Matter[] {
  const silent = silentSince(runs, now);
  if (silent === null) return [];
  return [
    {
      level: 'warn',
      title: 'The daemon has not synced lately',
      text: `The last sync started ${span(now - silent.last)} ago; usually they are ${span(silent.usual)} apart. Archived mail can be read and searched, but no new mail arrives.`,
      command: 'doctor',
      link: { href: '/health/runs', text: 'See the runs' },
    },
  ];
}
