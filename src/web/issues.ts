import type { CatalogLag, Reader } from '../catalog/open-reader.ts';
import { parseQuery } from '../catalog/parse-query.ts';
import { localMoment, wallTime } from '../catalog/query-dates.ts';
import { folderKey, mailboxKey, type StateFile } from '../core/state.ts';
import type { KeptRun } from '../core/state-runs.ts';
import { shellWord } from '../core/terminal-safe.ts';
import { closingEquation, counted as countedNoun, type Equation, span } from '../core/text.ts';
import type { MailboxKey } from '../core/types.ts';
import { isImported } from '../mail/identity.ts';
import { type ArchiveStatus, archiveStatus, type MailboxStatus } from '../verify/archive-status.ts';
import type { CopyStatus } from '../verify/copy-facts.ts';
import { fullnessOf, percentOf } from '../verify/facts.ts';
import { isOfCatalog } from '../verify/verify.ts';
import { dayText, observedTerm } from './dashboard-data.ts';
import { storedAfterText, within } from './mail-list.ts';
import type { ServedReader } from './served-archive.ts';
import type { SideTag } from './side-tree.ts';

/** Age from which a comparison is late: a day, plus the time of a nightly run. */
export const LATE_HOURS = 26;
export const LATE_MS = LATE_HOURS * 3_600_000;

/** Lists issues of the archive's copies: damage, then age, then failures that may pass. */
export function mattersOfCopies(copies: readonly CopyStatus[], now: number): Matter[] {
  return copies.flatMap((copy): Matter[] => {
    const { to, damage, stale, failure } = copy;
    const matters: Matter[] = [];
    if (damage !== null) {
      matters.push({
        level: 'bad',
        title: `The copy at ${to} is damaged: ${countedNoun(damage.findings, 'finding')}`,
        text: damage.message,
        command: `verify --copy ${shellWord(to)}`,
        link: null,
      });
    }
    if (stale || failure !== null) {
      matters.push({
        level: stale ? 'bad' : 'warn',
        title: stale ? `The copy at ${to} is old` : `The copy at ${to} fails`,
        text: [ageText(copy, now), failure?.message].filter((part) => part !== undefined).join(' '),
        command: `copy --to ${shellWord(to)}`,
        link: { href: '/health/runs?lane=chores', text: 'See the runs' },
      });
    }
    return matters;
  });
}

function ageText({ copiedAt, behind }: CopyStatus, now: number): string {
  if (copiedAt === null) return 'It was never made.';
  const age = span(Math.max(0, now - Date.parse(copiedAt)));
  return `It was last made ${age} ago, and lacks ${countedNoun(behind ?? 0, 'commit')}.`;
}

/** Percentage of its quota from which a mailbox counts as full. */
const FULL_PERCENT = 95;

interface Surroundings {
  readonly behind: CatalogLag | null;
  /** False if the status covers only some mailboxes. */
  readonly whole: boolean;
  /** Empty if the status covers only some mailboxes. */
  readonly copies: readonly CopyStatus[];
  /** Latest sync runs, newest first. */
  readonly runs: readonly KeptRun[];
  /** Milliseconds since the epoch. */
  readonly now: number;
}

/** Lists issues, worst first, without connecting to the service. */
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
    // Findings of one kind have the same text without names.
    const texts = new Set(verification.findings.map(({ text }) => text));
    matters.push({
      level: 'bad',
      title: `${isOnlyIndex ? 'The index' : 'The archive'} is damaged: ${countedNoun(found, 'finding')}`,
      text: `${sentence([...texts].slice(0, 3).join('; '))}${isOnlyIndex ? ' No mail is lost: a rebuild makes a new index from the log.' : ''}`,
      command: isOnlyIndex ? 'rebuild' : 'verify --repair',
      link: { href: '/health/verification', text: 'See what is damaged' },
    });
  }
  matters.push(...mattersOfCopies(copies, now));
  if (behind !== null)
    matters.push({
      ...WARNING,
      title: 'The index lacks the newest mail',
      text: `It covers commit ${behind.reached} of ${behind.last}. The mail itself is stored.`,
      command: 'rebuild',
    });
  matters.push(...mattersOfRuns(runs), ...matterOfSilence(runs, now));
  for (const mailbox of mailboxes) matters.push(...mattersOfMailbox(mailbox, now));
  if (whole && verification === null && status.messages > 0)
    matters.push({
      ...WARNING,
      title: 'The archive was never verified',
      text: 'Each message is checked when it is opened. A verification reads every byte of all of them and compares it with its hash.',
      command: 'verify',
      link: { href: '/health/verification', text: 'Verification' },
    });
  if (pending > 0)
    matters.push({
      ...WARNING,
      title: `${countedNoun(pending, 'message')} cannot be found by words yet`,
      text: 'Folder, flags, date and size already find them. The next sync indexes them.',
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
      ...WARNING,
      title: `${address}: ${countedNoun(held, 'pending deletion')}`,
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
      ...WARNING,
      title: `${address}: ${countedNoun(old.length, 'folder')} not compared for more than 26 h`,
      text: 'The archive lacks mail that arrived at the service since.',
      command: 'sync',
      link: { href: '/health/folders?sort=age', text: 'See folders by age' },
    });
  if (quarantined > 0)
    matters.push({
      ...WARNING,
      title: `${address}: ${countedNoun(quarantined, 'incomplete message')}`,
      text: 'They could not be fetched completely. Each sync tries them again.',
      command: 'quarantine',
      link: { href: '/health/quarantine', text: 'See them' },
    });
  if (suspendedSince !== null)
    matters.push({
      ...WARNING,
      title: `${address} is suspended at the service`,
      text: `First seen so on ${suspendedSince.slice(0, 10)}. What is archived stays readable.`,
    });
  const full = fullnessOf(mailbox.quota?.resources ?? []);
  if (full !== null && percentOf(full.share) >= FULL_PERCENT)
    matters.push({
      ...WARNING,
      title: `${address} is ${percentOf(full.share)}% full at the service`,
      text: 'A full mailbox receives no mail.',
    });
  // A folder with pending deletions has more than the service, and has its own issue.
  const late = folders.filter(
    ({ complete, unwatched: left, held: pending }) => complete === false && !left && pending === 0,
  );
  if (late.length > 0 && !unwatched && !isImported(mailbox))
    matters.push({
      ...WARNING,
      title: `${address}: ${countedNoun(late.length, 'folder')} not complete`,
      text: `The last sync could not account for every message at the service: ${late
        .slice(0, 3)
        .map(({ folder }) => folder)
        .join(', ')}${late.length > 3 ? ' and others' : ''}.`,
      command: 'sync',
      link: { href: '/health/folders?sort=age', text: 'See folders by age' },
    });
  return matters;
}

/** Lists what failed in its last sync run: a rejected token, an unreachable service, a full disk. */
function mattersOfRuns(runs: readonly KeptRun[]): Matter[] {
  const last = new Map<string | null, KeptRun>();
  for (const run of runs) {
    if (run.sum === null && run.outcome !== 'failed') continue;
    // A run over several accounts is outdated once one of them has had a later run.
    const isLater = run.account === null ? last.size > 0 : last.has(run.account);
    if (!isLater) last.set(run.account, run);
  }
  return [...last.values()].flatMap(({ account, outcome, kind, troubles }): Matter[] => {
    const [trouble] = troubles;
    // Findings of a verification are a separate issue.
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

/** The daemon counts as silent after this many times its usual interval, but not before this time in milliseconds. */
const MISSED_PASSES = 3;
const SILENT_MS = 900_000;

/**
 * Returns when a silent daemon last made a sync run, and its usual interval. The interval comes from its past
 * runs, without contacting it. Returns null if no run is overdue, or there were none.
 *
 * @param runs latest runs, newest first
 */
function silentSince(runs: readonly KeptRun[], now: number) {
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

const WARNING = { level: 'warn', command: null, link: null } as const;

export interface Matter {
  readonly level: 'bad' | 'warn';
  readonly title: string;
  readonly text: string;
  /** Suggested command, without the program's name; null if only time helps. */
  readonly command: string | null;
  readonly link: { readonly href: string; readonly text: string } | null;
}

/** The archive's state for the frame of every page. Times are milliseconds since the epoch. */
export interface ArchiveState {
  /** `bad`: damage. `warn`: other issues. */
  readonly level: 'bad' | 'warn' | 'fine';
  /** When the least recently compared folder was compared; null if one never was, or none is watched. */
  readonly provenAt: number | null;
  /** Folders are compared with a service; false if all mail came from files. */
  readonly isMirror: boolean;
  /** When the daemon made its last sync run, if later ones are overdue; else null. */
  readonly silentSince: number | null;
  /** Progress of the first sync; null once every folder has been compared. */
  readonly first: FirstSync | null;
  /** The reader may see all mailboxes. Only then may it make the daemon look for mail, and save searches. */
  readonly whole: boolean;
  readonly now: number;
}

interface Known extends Pick<Surroundings, 'runs' | 'whole' | 'now'> {
  /** Whether `state.sqlite` exists: without it, comparisons are unknown. */
  readonly hasState: boolean;
  readonly status: ArchiveStatus;
  readonly matters: readonly Matter[];
}

export function archiveStateOf(known: Known): ArchiveState {
  const { status, runs, matters, whole, now } = known;
  const watched = status.mailboxes.filter((mailbox) => !isImported(mailbox) && !mailbox.unwatched);
  const proofs = watched.map(({ provenAt }) => (provenAt === null ? null : Date.parse(provenAt)));
  return {
    level: matters.some(({ level }) => level === 'bad')
      ? 'bad'
      : matters.length > 0
        ? 'warn'
        : 'fine',
    provenAt: proofs.reduce<number | null>(
      (oldest, at) => (oldest === null || at === null ? null : Math.min(oldest, at)),
      proofs.length === 0 ? null : Infinity,
    ),
    isMirror: watched.length > 0,
    silentSince: silentSince(runs, now)?.last ?? null,
    first: firstSyncOf(known, watched),
    whole,
    now,
  };
}

function firstSyncOf({ hasState, runs, whole, status }: Known, watched: readonly MailboxStatus[]) {
  // A completed run has compared all folders of its time; a folder added later does not make it a first sync.
  if (!hasState || !whole || runs.some(({ sum }) => sum !== null)) return null;
  const folders = watched.flatMap((mailbox) =>
    mailbox.folders.filter(({ unwatched }) => !unwatched),
  );
  const done = folders.filter(
    ({ provenAt, certifiedAt }) => provenAt !== null || certifiedAt !== null,
  ).length;
  if (watched.length === 0 || (done === folders.length && folders.length > 0)) return null;
  return { mailboxes: watched.length, folders: folders.length, done, messages: status.messages };
}

/** Progress of the first sync, in folders known so far. Only the sync run itself has progress within a folder. */
export type FirstSync = NonNullable<ReturnType<typeof firstSyncOf>>;

/** Returns the tags of folders and mailboxes, by `folderKey` and `mailboxKey`. */
export function sideTagsOf({ mailboxes }: Pick<ArchiveStatus, 'mailboxes'>): Map<string, SideTag> {
  const tags = new Map<string, SideTag>();
  for (const mailbox of mailboxes) {
    if (isImported(mailbox)) continue;
    const key = { host: mailbox.host, mailbox: mailbox.resourceId };
    if (mailbox.unwatched) {
      tags.set(mailboxKey(key), 'unwatched');
      continue;
    }
    for (const { folder, unwatched, complete } of mailbox.folders) {
      const tag = unwatched ? 'unwatched' : complete === false ? 'incomplete' : null;
      if (tag !== null) tags.set(folderKey({ ...key, folder }), tag);
      if (tag === 'incomplete') tags.set(mailboxKey(key), tag);
    }
  }
  return tags;
}

/** Sums of the folders at any commit. */
export type FolderSums = ReturnType<typeof closingOf>;

export interface ClosingSum extends Readonly<FolderSums> {
  readonly commit: number;
  /** When that commit was written, in milliseconds since the epoch; null before the first. */
  readonly writtenAt: number | null;
  readonly equation: Equation;
}

/** Time limit of each past number, in milliseconds. */
const PAST_MS = 200;

/**
 * Sums the messages known to be at the service, counted once per folder: the summary of a sync over all folders. `open`
 * is the sum of stored, assumed and held messages.
 */
export function closingOf(
  { folders }: Pick<Reader['catalog'], 'folders'>,
  counts: (folder: MailboxKey) => boolean,
) {
  const sum = {
    open: 0,
    stored: 0,
    /** Matched without download by the service's fingerprint, and not yet verified. */
    assumed: 0,
    held: 0,
    quarantined: 0,
    forgotten: 0,
    ended: 0,
    imported: 0,
  };
  for (const folder of folders.all({ gone: true })) {
    if (!counts(folder)) continue;
    const own = folders.counts(folder.id);
    sum.ended += own.ended;
    if (isImported(folder)) {
      sum.imported += own.open;
      continue;
    }
    sum.open += own.open;
    sum.stored += own.open - own.assumed - own.held;
    sum.assumed += own.assumed;
    sum.held += own.held;
    sum.quarantined += own.quarantined;
    sum.forgotten += own.forgotten;
  }
  return sum;
}

/** Caches sums until the next commit. */
export class ClosingSums {
  #known: { readonly version: number; readonly sum: ClosingSum } | undefined;
  #past: { readonly version: number; readonly sum: PastSum } | undefined;

  of({ catalog }: Pick<Reader, 'catalog'>): ClosingSum {
    const version = catalog.version();
    if (this.#known?.version === version) return this.#known.sum;
    const sums = closingOf(catalog, () => true);
    const sum = {
      commit: catalog.reached().number,
      writtenAt: catalog.changes.span()?.last ?? null,
      ...sums,
      equation: closingEquation(sums),
    };
    this.#known = { version, sum };
    return sum;
  }

  /** @param asOf milliseconds since the epoch */
  past({ catalog }: Pick<Reader, 'catalog'>, asOf: number, now: number): PastSum {
    const version = catalog.version();
    const known = this.#past;
    if (known?.version === version && known.sum.asOf === asOf) return known.sum;
    const count = (query: string): number | null => {
      const request = { node: parseQuery(query, { now }).node, asOf };
      const found = catalog.countHitsWhile(request, within(PAST_MS));
      return found.complete ? found.count : null;
    };
    const sum = {
      ...{ asOf, messages: count('*'), ended: count('is:deleted') },
      later: counted(catalog, storedAfterText(asOf), now),
      day: dayOf(catalog, asOf, now),
    };
    const { messages, ended, later, day } = sum;
    if (messages !== null && ended !== null && later !== null && day !== null)
      this.#past = { version, sum };
    return sum;
  }
}

/** Messages known at a time, deleted by then, and stored since; null if there was no time to count. */
export interface PastSum {
  readonly asOf: number;
  readonly messages: number | null;
  readonly ended: number | null;
  readonly later: ReturnType<typeof counted>;
  readonly day: ReturnType<typeof dayOf>;
}

/** Counts the messages stored and deleted on the day of a moment, in this machine's zone. */
function dayOf(catalog: Reader['catalog'], asOf: number, now: number) {
  const { year, month, day } = wallTime(asOf);
  const period = {
    from: localMoment({ year, month, day }),
    to: localMoment({ year, month, day: day + 1 }),
  };
  const stored = counted(catalog, observedTerm('added', period), now);
  const deleted = counted(catalog, observedTerm('deleted', period), now);
  if (stored === null || deleted === null) return null;
  return { name: dayText(asOf, undefined), stored, deleted };
}

/** Counts as of today, regardless of the moment shown. */
function counted(catalog: Reader['catalog'], query: string, now: number) {
  const { node } = parseQuery(query, { now });
  const { count, complete } = catalog.countHitsWhile({ node }, within(PAST_MS));
  return complete ? { count, query } : null;
}

/** Returns the archive's status, limited to the mailboxes of a limited reader. */
export function statusFor(reader: ServedReader, state: StateFile | undefined): ArchiveStatus {
  const status = archiveStatus(reader, state);
  const { mailboxes: ours } = reader;
  if (ours === null) return status;
  return {
    ...status,
    // The state also knows mailboxes that the archive does not have yet.
    mailboxes: status.mailboxes.filter(({ host, resourceId }) =>
      ours.includes(mailboxKey({ host, mailbox: resourceId })),
    ),
    // Findings, requests and files cover all mailboxes.
    ...{ verification: null, budget: [], logBytes: 0, catalogBytes: 0 },
    commit: { ...status.commit, hash: '' },
  };
}
