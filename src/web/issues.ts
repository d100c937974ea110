import type { Reader } from '../catalog/open-reader.ts';
import { parseQuery } from '../catalog/parse-query.ts';
import type { ParseContext } from '../catalog/query-ast.ts';
import { localMoment, wallTime } from '../catalog/query-dates.ts';
import { folderKey, mailboxKey, type StateFile } from '../core/state.ts';
import type { StoredRun } from '../core/state-runs.ts';
import { shellWord } from '../core/terminal-safe.ts';
import { consistencyEquation, counted as countedNoun, span } from '../core/text.ts';
import type { MailboxKey } from '../core/types.ts';
import { isImported } from '../mail/identity.ts';
import {
  type ArchiveStatus,
  archiveStatus,
  type MailboxStatus,
  serviceTotals,
} from '../verify/archive-status.ts';
import type { CopyStatus } from '../verify/copy-facts.ts';
import { type Issue, LATE_HOURS } from '../verify/issues.ts';
import type { VerificationStatus } from '../verify/verification.ts';
import { concernsCatalogOnly } from '../verify/verify.ts';
import { dayText, observedTerm } from './dashboard-data.ts';
import { deadline, storedAfterText } from './mail-list.ts';
import { type ServedReader, VersionCache } from './served-archive.ts';
import type { FolderTag } from './side-tree.ts';

export interface ShownIssue extends Pick<Issue, 'level'> {
  readonly title: string;
  readonly text: string;
  /** Suggested command, without the program's name; null if only waiting helps. */
  readonly command: string | null;
  readonly link: { readonly href: string; readonly text: string } | null;
}

/** Returns an issue with its text. Paths in the text are relative to the archive's directory. */
export function showIssue(issue: Issue, dataDir: string, now: number): ShownIssue {
  const [title, text, command = null, link] = issueText(issue, now);
  return {
    ...{ level: issue.level, title, text: text.replaceAll(`${dataDir}/`, ''), command },
    link: link === undefined ? null : { href: `/health/${link[0]}`, text: link[1] },
  };
}

type IssueText = readonly [
  title: string,
  text: string,
  command?: string | null,
  link?: readonly [path: string, text: string],
];

const RUNS_LINK = ['runs', 'See the runs'] as const;
const FOLDERS_LINK = ['folders?sort=age', 'See folders by age'] as const;

function issueText(issue: Issue, now: number): IssueText {
  switch (issue.kind) {
    case 'archive-damaged':
      return damageText(issue.verification);
    case 'copy-damaged': {
      const { to, damage } = issue.copy;
      return [
        `The copy at ${to} is damaged: ${countedNoun(damage?.findings ?? 0, 'finding')}`,
        damage?.message ?? '',
        `verify --copy ${shellWord(to)}`,
      ];
    }
    case 'copy-stale':
    case 'copy-failing': {
      const { to, failure } = issue.copy;
      return [
        `The copy at ${to} ${issue.kind === 'copy-stale' ? 'is old' : 'fails'}`,
        [copyAgeText(issue.copy, now), failure?.message]
          .filter((part) => part !== undefined)
          .join(' '),
        `copy --to ${shellWord(to)}`,
        ['runs?lane=upkeep', 'See the runs'],
      ];
    }
    case 'index-behind':
      return [
        'The index lacks the newest mail',
        `It covers commit ${issue.lag.reached} of ${issue.lag.last}. The mail itself is stored.`,
        'rebuild',
      ];
    case 'run-failed': {
      const { account, troubles } = issue.run;
      return [
        account === null ? 'The last run failed' : `${account}: the last sync failed`,
        troubles[0]?.text ?? 'The reason is in the log of the daemon.',
        'doctor',
        RUNS_LINK,
      ];
    }
    case 'daemon-silent':
      return [
        'The daemon has not synced lately',
        `The last sync started ${span(now - issue.last)} ago; usually they are ${span(issue.usualMs)} apart. Archived mail can be read and searched, but no new mail arrives.`,
        'doctor',
        RUNS_LINK,
      ];
    case 'never-compared':
      return ['No mailbox was ever compared with the service', 'A sync compares them.', 'sync'];
    case 'never-verified':
      return [
        'The archive was never verified',
        'Each message is checked when it is opened. A verification reads every byte of all of them and compares it with its hash.',
        'verify',
        ['verification', 'Verification'],
      ];
    case 'not-searchable':
      return [
        `${countedNoun(issue.messages, 'message')} cannot be found by words yet`,
        'Folder, flags, date and size already find them. The next sync indexes them.',
      ];
    default:
      return mailboxText(issue);
  }
}

/** By what is damaged. */
const DAMAGE: Readonly<Record<string, string>> = {
  log: 'Part of the log is not as it was written.',
  message: 'Messages cannot be read as they were stored.',
  missing: 'The bytes of messages or attachments are missing.',
  catalog: 'The index differs from the log.',
  'catalog-file': 'The index cannot be read.',
  'state-file': 'The file with the state of the archive cannot be read.',
  commit: 'The log ends early, or belongs to another archive.',
  checkpoint: 'The log does not match a checkpoint.',
  format: 'The file FORMAT has the wrong content.',
};
const OTHER_DAMAGE = 'Some files are not as they were written.';

function damageText({ found, findings }: VerificationStatus): IssueText {
  const isOnlyIndex = found === findings.length && findings.every(concernsCatalogOnly);
  // The verification page has the details, which name files and columns.
  const texts = new Set(findings.map(({ what }) => DAMAGE[what] ?? OTHER_DAMAGE));
  const rest = isOnlyIndex ? ' No mail is lost: a rebuild makes a new index from the log.' : '';
  return [
    `The ${isOnlyIndex ? 'index' : 'archive'} is damaged: ${countedNoun(found, 'finding')}`,
    `${[...texts].slice(0, 3).join(' ')}${rest}`,
    isOnlyIndex ? 'rebuild' : 'verify --repair',
    ['verification', 'See what is damaged'],
  ];
}

function copyAgeText({ copiedAt, behind }: CopyStatus, now: number): string {
  if (copiedAt === null) return 'It was never made.';
  const age = span(Math.max(0, now - Date.parse(copiedAt)));
  return `It was last made ${age} ago, and lacks ${countedNoun(behind ?? 0, 'commit')}.`;
}

function mailboxText(issue: Extract<Issue, { readonly mailbox: object }>): IssueText {
  const { address, held, quarantined, suspendedSince } = issue.mailbox;
  switch (issue.kind) {
    case 'mailbox-stale':
      return [`${address} was not compared lately`, 'It may lack mail at the service.', 'sync'];
    case 'pending-deletions':
      return [
        `${address}: ${countedNoun(held, 'deletion')} awaiting confirmation`,
        'So many messages disappeared at the service at once that a later sync must confirm the deletions. The archive keeps the messages either way.',
        'list --held',
        ['held', 'Review pending deletions'],
      ];
    case 'folders-late':
      return [
        `${address}: ${countedNoun(issue.folders.length, 'folder')} not compared for more than ${LATE_HOURS} h`,
        'The archive lacks mail that arrived at the service since.',
        'sync',
        FOLDERS_LINK,
      ];
    case 'incomplete-messages':
      return [
        `${address}: ${countedNoun(quarantined, 'incomplete message')}`,
        'They could not be fetched completely. Each sync tries them again.',
        'quarantine',
        ['quarantine', 'See them'],
      ];
    case 'suspended':
      return [
        `${address} is suspended at the service`,
        `First seen so on ${suspendedSince?.slice(0, 10)}. What is archived stays readable.`,
      ];
    case 'mailbox-full':
      return [
        `${address} is ${issue.percent}% full at the service`,
        'A full mailbox receives no mail.',
      ];
    case 'folders-incomplete': {
      const names = issue.folders.slice(0, 3).map(({ folder }) => folder);
      const more = issue.folders.length > 3 ? ' and others' : '';
      return [
        `${address}: ${countedNoun(issue.folders.length, 'folder')} not complete`,
        `The last sync could not account for every message at the service: ${names.join(', ')}${more}.`,
        'sync',
        FOLDERS_LINK,
      ];
    }
  }
}

/** What a page knows about its archive. */
export interface Known {
  /** Undefined without `state.sqlite`. Comparisons are then unknown. */
  readonly state: StateFile | undefined;
  readonly status: ArchiveStatus;
  /** Latest sync runs, newest first. */
  readonly lastRuns: readonly StoredRun[];
  readonly issues: readonly Issue[];
}

/**
 * Returns the archive's state for the frame of every page. Times are milliseconds since the epoch.
 *
 * @param whole true if the reader may see all mailboxes. Others can neither request a check for mail nor save searches.
 */
export function summariseState(known: Known, whole: boolean, now: number) {
  const { status, issues } = known;
  const watched = status.mailboxes.filter((mailbox) => !isImported(mailbox) && !mailbox.unwatched);
  const proofs = watched.map(({ provenAt }) => (provenAt === null ? null : Date.parse(provenAt)));
  return {
    /** `bad`: damage. `warn`: other issues. */
    level: issues[0]?.level ?? ('fine' as const),
    /** Oldest comparison of any watched folder; null if none is watched or one has never been compared. */
    provenAt: proofs.reduce<number | null>(
      (oldest, at) => (oldest === null || at === null ? null : Math.min(oldest, at)),
      proofs.length === 0 ? null : Infinity,
    ),
    /** Messages at the service, and what the archive has of them. */
    equation: consistencyEquation(status.sum, status.listed),
    /** True if folders are compared with a service; false if all mail came from files. */
    isMirror: watched.length > 0,
    /** Time of the daemon's last sync run if the next one is overdue; otherwise null. */
    silentSince: issues.find((issue) => issue.kind === 'daemon-silent')?.last ?? null,
    /** Null once every folder has been compared. */
    first: whole ? firstSyncOf(known, watched) : null,
    whole,
    now,
  };
}

export type ArchiveState = ReturnType<typeof summariseState>;

function firstSyncOf({ state, lastRuns, status }: Known, watched: readonly MailboxStatus[]) {
  // A completed run has compared all folders that existed then. Adding a folder later does not make this a first sync.
  if (state === undefined || lastRuns.some(({ sum }) => sum !== null)) return null;
  const folders = watched.flatMap((mailbox) =>
    mailbox.folders.filter(({ unwatched }) => !unwatched),
  );
  const done = folders.filter(
    ({ provenAt, certifiedAt }) => provenAt !== null || certifiedAt !== null,
  ).length;
  if (watched.length === 0 || (done === folders.length && folders.length > 0)) return null;
  return { mailboxes: watched.length, folders: folders.length, done, messages: status.messages };
}

/** Progress of the first sync, in folders known so far. Only the sync run knows its progress within a folder. */
export type FirstSync = NonNullable<ReturnType<typeof firstSyncOf>>;

/** Returns tags by `folderKey` and `mailboxKey`. */
export function folderTags({
  mailboxes,
}: Pick<ArchiveStatus, 'mailboxes'>): Map<string, FolderTag> {
  const tags = new Map<string, FolderTag>();
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

export type FolderTotals = ReturnType<typeof sumAtService>;
type ServiceSum = ReturnType<typeof serviceSum>;

/** Time limit for each past count, in milliseconds. */
const PAST_MS = 200;

/**
 * Counts the messages known to be at the service, once per folder, as the summary of a sync of all folders does. `open`
 * is the total of stored, assumed and held messages.
 */
export function sumAtService(
  { folders }: Pick<Reader['catalog'], 'folders'>,
  counts: (folder: MailboxKey) => boolean,
) {
  const sum = {
    open: 0,
    stored: 0,
    /** Matched by the service's fingerprint without downloading, and not yet verified. */
    assumed: 0,
    held: 0,
    quarantined: 0,
    forgotten: 0,
    ended: 0,
    imported: 0,
  };
  for (const folder of folders.all({ gone: true })) {
    if (!counts(folder)) continue;
    const folderCounts = folders.counts(folder.id);
    sum.ended += folderCounts.ended;
    if (isImported(folder)) {
      sum.imported += folderCounts.open;
      continue;
    }
    sum.open += folderCounts.open;
    sum.stored += folderCounts.open - folderCounts.assumed - folderCounts.held;
    sum.assumed += folderCounts.assumed;
    sum.held += folderCounts.held;
    sum.quarantined += folderCounts.quarantined;
    sum.forgotten += folderCounts.forgotten;
  }
  return sum;
}

function serviceSum(catalog: Reader['catalog']) {
  const sums = sumAtService(catalog, () => true);
  return {
    commit: catalog.reached().number,
    /** When the commit was written, in milliseconds since the epoch; null before the first. */
    writtenAt: catalog.changes.span()?.last ?? null,
    ...sums,
  };
}

/**
 * Counts messages known and deleted by a past moment, and stored since. Counts are null if time runs out.
 *
 * @param asOf milliseconds since the epoch
 */
function pastSum(catalog: Reader['catalog'], asOf: number, context: ParseContext) {
  const count = (query: string): number | null => {
    const request = { node: parseQuery(query, context).node, asOf };
    const found = catalog.prepare(request).countWhile(deadline(PAST_MS));
    return found.complete ? found.count : null;
  };
  return {
    ...{ asOf, messages: count('*'), ended: count('is:deleted') },
    later: countCurrent(catalog, storedAfterText(asOf), context),
    day: countDay(catalog, asOf, context),
  };
}

export type PastSum = ReturnType<typeof pastSum>;

/** Caches totals until the next commit. */
export class ServiceSums {
  readonly #current = new VersionCache<'all', ServiceSum>(1);
  readonly #past = new VersionCache<string, PastSum>(1);

  of({ catalog }: Pick<Reader, 'catalog'>): ServiceSum {
    const known = this.#current.find(catalog.version(), 'all');
    return known ?? this.#current.keep('all', serviceSum(catalog));
  }

  past({ catalog }: Pick<Reader, 'catalog'>, asOf: number, context: ParseContext): PastSum {
    const key = `${asOf} ${context.timeZone}`;
    const known = this.#past.find(catalog.version(), key);
    if (known !== undefined) return known;
    const sum = pastSum(catalog, asOf, context);
    return Object.values(sum).includes(null) ? sum : this.#past.keep(key, sum);
  }
}

/** Counts messages stored and deleted on the day that contains a moment. */
function countDay(catalog: Reader['catalog'], asOf: number, context: ParseContext) {
  const { timeZone } = context;
  const { year, month, day } = wallTime(asOf, timeZone);
  const period = {
    from: localMoment({ year, month, day }, timeZone),
    to: localMoment({ year, month, day: day + 1 }, timeZone),
  };
  const stored = countCurrent(catalog, observedTerm('added', period, timeZone), context);
  const deleted = countCurrent(catalog, observedTerm('deleted', period, timeZone), context);
  if (stored === null || deleted === null) return null;
  return { name: dayText(asOf, timeZone), stored, deleted };
}

/** Counts the query's current results, whatever moment is shown. */
function countCurrent(catalog: Reader['catalog'], query: string, context: ParseContext) {
  const { node } = parseQuery(query, context);
  const { count, complete } = catalog.prepare({ node }).countWhile(deadline(PAST_MS));
  return complete ? { count, query } : null;
}

/** Returns the archive's status, limited to the mailboxes of a limited reader. */
export function statusFor(
  reader: ServedReader,
  state: StateFile | undefined,
  now: number,
): ArchiveStatus {
  const status = archiveStatus(reader, state, now);
  const { mailboxes: ours } = reader;
  if (ours === null) return status;
  const mailboxes = status.mailboxes.filter(({ host, resourceId }) =>
    ours.includes(mailboxKey({ host, mailbox: resourceId })),
  );
  return {
    ...status,
    // The state may also contain mailboxes that are not in the archive yet.
    mailboxes,
    ...serviceTotals(mailboxes),
    // Findings, requests and files cover all mailboxes.
    ...{ verification: null, budget: [], traffic: [], logBytes: 0, catalogBytes: 0 },
    commit: { ...status.commit, hash: '' },
  };
}
