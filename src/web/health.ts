import type { ListedPlace } from '../catalog/list.ts';
import { catalogLag, type Reader } from '../catalog/open-reader.ts';
import { describeError, MailkeepError } from '../core/errors.ts';
import { readState, type StateFile } from '../core/state.ts';
import type { StoredRun } from '../core/state-runs.ts';
import { isImported } from '../mail/identity.ts';
import {
  type ArchivePolicy,
  type ArchiveStatus,
  type FolderStatus,
  heldSince,
  type MailboxStatus,
  quarantinedMessages,
} from '../verify/archive-status.ts';
import { copyStatuses } from '../verify/copy-facts.ts';
import { listIssues } from '../verify/issues.ts';
import {
  folderTags,
  type Known,
  type ShownIssue,
  showIssue,
  statusFor,
  summariseState,
} from './issues.ts';
import { deadline } from './mail-list.ts';
import { filterText } from './query-text.ts';
import { type ArchiveParts, type Parameter, wholeNumber } from './request-context.ts';
import type { ServedReader } from './served-archive.ts';
import { parseQueryText } from './understood-query.ts';

const MAX_MAILBOXES = 200;

function overviewOf(status: ArchiveStatus, issues: readonly ShownIssue[], numbers: Numbers) {
  const { messages, bytes, logBytes, catalogBytes, attachments, commit, verification } = status;
  const { mailboxes } = status;
  return {
    issues,
    facts: { messages, bytes, logBytes, catalogBytes, attachments, commit, verification },
    mailboxes: mailboxes.slice(0, MAX_MAILBOXES).map((mailbox) => {
      const inBox = mailboxFilter(mailbox, mailboxes);
      const { address, unwatched, leftBehindAt, folders, provenAt, complete } = mailbox;
      return {
        ...{ address, unwatched, leftBehindAt, provenAt, complete },
        imported: isImported(mailbox),
        folders: folders.length,
        kept: numbers.number(`${inBox} -is:deleted`, mailbox.messages),
        deleted: numbers.number(`${inBox} is:deleted`, mailbox.ended),
      };
    }),
    more: Math.max(0, mailboxes.length - MAX_MAILBOXES),
  };
}

function mailboxFilter(
  { address, resourceId }: Pick<MailboxStatus, 'address' | 'resourceId'>,
  all: readonly Pick<MailboxStatus, 'address'>[],
): string {
  const others = all.filter((other) => other.address === address);
  return filterText('mailbox', others.length > 1 ? resourceId : address);
}

const FOLDERS = 200;

function folderPages(
  mailboxes: readonly MailboxStatus[],
  numbers: Numbers,
  { from, sort }: { from: number; sort: 'name' | 'age' },
) {
  const all = mailboxes.flatMap((mailbox) =>
    mailbox.folders.map((folder) => ({ mailbox, folder })),
  );
  // Sorting by age may mix folders from different mailboxes.
  const ordered =
    sort === 'name'
      ? all
      : all.toSorted((a, b) => ((a.folder.provenAt ?? '') < (b.folder.provenAt ?? '') ? -1 : 1));
  const shown = ordered.slice(from, from + FOLDERS);
  const groups: { address: string; imported: boolean; folders: FolderRow[] }[] = [];
  let last: MailboxStatus | undefined;
  for (const { mailbox, folder } of shown) {
    if (mailbox !== last)
      groups.push({ address: mailbox.address, imported: isImported(mailbox), folders: [] });
    last = mailbox;
    const prefix = mailboxes.length === 1 ? '' : `${mailboxFilter(mailbox, mailboxes)} `;
    const row = rowOf(folder, `${prefix}${filterText('in', folder.folder)}`, numbers);
    groups.at(-1)?.folders.push(row);
  }
  return { groups, sort, from, step: FOLDERS, all: all.length };
}

/** Counts messages, once per folder: at the service = stored + assumed + quarantined + held + forgotten. */
function rowOf(status: FolderStatus, within: string, numbers: Numbers) {
  const { folder, unwatched, messages, assumed, held, quarantined, forgotten } = status;
  const { provenAt, complete, flagsAt, certifiedAt, unread, ended, listed, unfinished } = status;
  return {
    ...{ folder, unwatched, assumed, held, quarantined, forgotten },
    ...{ provenAt, complete, flagsAt, certifiedAt, listed, unfinished },
    stored: messages - assumed - held,
    kept: numbers.number(`${within} -is:deleted`, messages),
    unread: numbers.number(`${within} is:unread -is:deleted`, unread),
    deleted: numbers.number(`${within} is:deleted`, ended),
  };
}

export type FolderRow = ReturnType<typeof rowOf>;

const MAX_JUDGED = 5_000;
const MAX_LISTED = 100;
const MAX_HOLDS = 100;

function retentionOf(
  reader: Pick<ServedReader, 'catalog'>,
  state: Pick<StateFile, 'entries'> | undefined,
  policy: ArchivePolicy | null,
  { linked }: Numbers,
) {
  const deleted = linked('is:deleted').linked ?? { count: 0, query: null };
  // No configuration of this archive was found.
  if (policy === null) return { policy: null, deleted };
  const { retention } = policy;
  const holds = retention.hold.slice(0, MAX_HOLDS).map((hold) => {
    const isMailbox = 'mailbox' in hold;
    const text = isMailbox ? hold.mailbox : hold.query;
    const result = linked(isMailbox ? filterText('mailbox', text) : text);
    // Null if it could not be counted.
    return { text, isMailbox, kept: result.linked, problem: result.problem };
  });
  const isTooMany = deleted.query === null || deleted.count > MAX_JUDGED;
  const preview = isTooMany
    ? ({ kind: 'too-many', most: MAX_JUDGED } as const)
    : previewOf(reader, state, policy);
  return {
    policy: { settings: retention, schedule: policy.pruneSchedule, holds, preview },
    deleted,
  };
}

function previewOf(
  reader: Pick<Reader, 'catalog'>,
  state: Pick<StateFile, 'entries'> | undefined,
  policy: ArchivePolicy,
) {
  let plan: ReturnType<ArchivePolicy['plan']>;
  try {
    plan = policy.plan(reader, state);
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    const { message, hint } = describeError(error);
    return { kind: 'refused', problem: message, hint } as const;
  }
  const { prune, byReason, kept } = plan;
  return {
    kind: 'plan' as const,
    messages: prune.length,
    bytes: prune.reduce((sum, { size }) => sum + size, 0),
    removed: [...byReason].map(([reason, sum]) => ({ reason, ...sum })),
    kept: [...kept].map(([reason, sum]) => ({ reason, ...sum })),
    list: prune.slice(0, MAX_LISTED).map(({ id, subject, size, reason, places }) => ({
      ...{ id, subject, size, reason },
      /** When it was last deleted, in milliseconds since the epoch. */
      endedAt: places.reduce<number | null>(
        (last, { endedAt }) => (endedAt === null ? last : Math.max(last ?? 0, endedAt)),
        null,
      ),
    })),
  };
}

const LANES = [
  ['new', ['sync', 'hand', 'backlog']],
  ['hint', ['hint']],
  ['sweep', ['sweep']],
  ['verify', ['verify']],
  ['upkeep', ['index', 'seal', 'prune', 'copy', 'copy-check', 'import']],
] as const satisfies readonly (readonly [lane: string, kinds: readonly string[]])[];

export type Lane = (typeof LANES)[number][0];

export const DAY_MS = 86_400_000;
/** Width of a column in milliseconds. Runs that start within one share a mark, because no screen can show more. */
const COLUMN_MS = DAY_MS / 480;
/** Maximum runs to read from the last 24 hours: ten times as many as a five-minute schedule makes. */
const MAX_RECENT = 3_000;
const ROWS = 50;

function runPages(
  state: Pick<StateFile, 'runs'> | undefined,
  now: number,
  { before, lane: typed }: { before: number | undefined; lane: string | undefined },
) {
  const since = now - DAY_MS;
  const recent = state?.runs.list({ limit: MAX_RECENT, since }) ?? [];
  const [lane, kinds] = LANES.find(([name]) => name === typed) ?? [null, undefined];
  const found = state?.runs.list({ limit: ROWS + 1, before, kinds }) ?? [];
  const runs = found.slice(0, ROWS);
  return {
    until: now,
    lanes: LANES.map(([name, own]: readonly [Lane, readonly string[]]) => ({
      lane: name,
      marks: marksOf(
        recent.filter(({ kind }) => own.includes(kind)),
        since,
      ),
    })),
    recent: {
      runs: recent.length,
      requests: recent.reduce((sum, { requests }) => sum + requests, 0),
      failed: recent.filter(isFailed).length,
    },
    isCut: recent.length === MAX_RECENT,
    lane,
    runs,
    next: found.length > ROWS ? (runs.at(-1)?.id ?? null) : null,
    isLater: before !== undefined,
  };
}

export function isFailed({ outcome, failures }: Pick<StoredRun, 'outcome' | 'failures'>): boolean {
  return outcome === 'failed' || failures > 0;
}

/** Returns a mark for each column in which runs started, in milliseconds since the start of the 24-hour period. */
function marksOf(runs: readonly StoredRun[], since: number) {
  const columns = Map.groupBy(runs, ({ startedAt }) =>
    Math.max(0, Math.floor((startedAt - since) / COLUMN_MS)),
  );
  return [...columns]
    .toSorted(([a], [b]) => a - b)
    .map(([, all]) => ({
      from: Math.max(0, Math.min(...all.map(({ startedAt }) => startedAt)) - since),
      to: Math.min(DAY_MS, Math.max(...all.map(({ endedAt }) => endedAt)) - since),
      runs: all.length,
      isChanged: all.some(({ added, ended, flagsChanged }) => added + ended + flagsChanged > 0),
      isFailed: all.some(isFailed),
    }));
}

function verificationsOf(
  { verification, messages, logBytes }: ArchiveStatus,
  state: Pick<StateFile, 'runs'> | undefined,
) {
  const runs = state?.runs.list({ limit: ROWS, kinds: ['verify'] }) ?? [];
  return { last: verification, messages, bytes: logBytes, runs };
}

const WAITING = 100;

function quarantinePages(
  reader: Pick<Reader, 'catalog'>,
  state: Pick<StateFile, 'get'> | undefined,
  from: number,
) {
  return { ...quarantinedMessages(reader, state, { from, limit: WAITING }), from, step: WAITING };
}

const MAX_HELD = 500;

function heldPages(
  { catalog }: Pick<Reader, 'catalog'>,
  state: Pick<StateFile, 'get'> | undefined,
  policy: Pick<ArchivePolicy, 'confirmAfterMs'> | null,
  all: number,
) {
  const held: ListedPlace[] = [];
  if (all > 0)
    for (const place of catalog.listPlaces({ held: true })) {
      if (held.length === MAX_HELD) break;
      held.push(place);
    }
  const byFolder = Map.groupBy(held, ({ folder }) => folder.id);
  const folders = [...byFolder.values()].flatMap((places) => {
    const [first] = places;
    if (first === undefined) return [];
    const { host, mailbox, address, path: folder } = first.folder;
    const since = heldSince(state, { host, mailbox, folder });
    // When the deciding comparison is due. Both times are milliseconds since the epoch; null if unknown.
    const lookAt = since === null || policy === null ? null : since + policy.confirmAfterMs;
    const messages = places.map(({ line: { id, uid, date, subject, from } }) => ({
      ...{ id, uid, date, subject, from },
    }));
    return [{ address, folder, since, lookAt, messages }];
  });
  return { folders, all, shown: held.length };
}

const LAST_RUNS = 50;
const PASSES = ['sync', 'hand', 'sweep', 'hint', 'backlog'];

export function frameState(reader: ServedReader, now: number) {
  return withState(reader, now, (known) => frameStateOf(reader, now, known));
}

function frameStateOf(reader: ServedReader, now: number, known: Known) {
  return {
    state: summariseState(known, reader.mailboxes === null, now),
    issues: known.issues.length,
    tags: folderTags(known.status),
  };
}

export type FrameState = ReturnType<typeof frameStateOf>;

/** Times are milliseconds since the epoch. A limited view shows nothing about the whole archive. */
export function healthTab(
  reader: ServedReader,
  parts: Pick<ArchiveParts, 'now' | 'accounts' | 'policy'>,
  tab: HealthTab,
  parameter: Parameter,
) {
  const now = parts.now();
  return withState(reader, now, (known) => {
    const { status, lastRuns } = known;
    const sum = (of: 'quarantined' | 'held'): number =>
      status.mailboxes.reduce((total, mailbox) => total + mailbox[of], 0);
    const held = sum('held');
    return {
      now,
      whole: reader.mailboxes === null,
      lastPassAt: lastRuns.find(({ sum: compared }) => compared !== null)?.endedAt ?? null,
      quarantined: sum('quarantined'),
      held,
      shown: tabContent(reader, { ...parts, now: () => now }, tab, parameter, { ...known, held }),
      known: frameStateOf(reader, now, known),
    };
  });
}

function tabContent(
  reader: ServedReader,
  { now, accounts, policy }: Pick<ArchiveParts, 'now' | 'accounts' | 'policy'>,
  tab: HealthTab,
  parameter: Parameter,
  { state, status, issues, held }: Known & { held: number },
) {
  const numbers = linkedNumbers(reader, now(), accounts);
  const from = wholeNumber(parameter('from')) ?? 0;
  switch (tab) {
    case 'overview': {
      const shown = issues.map((issue) => showIssue(issue, status.dataDir, now()));
      return { tab, ...overviewOf(status, shown, numbers) };
    }
    case 'folders': {
      const sort = parameter('sort') === 'age' ? 'age' : 'name';
      return { tab, ...folderPages(status.mailboxes, numbers, { from, sort }) };
    }
    case 'runs': {
      const before = wholeNumber(parameter('before'));
      return { tab, ...runPages(state, now(), { before, lane: parameter('lane') }) };
    }
    case 'quarantine':
      return { tab, ...quarantinePages(reader, state, from) };
    case 'held':
      return { tab, ...heldPages(reader, state, policy(), held) };
    case 'verification':
      return { tab, ...verificationsOf(status, state) };
    case 'retention':
      return { tab, ...retentionOf(reader, state, policy(), numbers) };
  }
}

function withState<T>(reader: ServedReader, now: number, act: (known: Known) => T): T {
  const { dataDir, catalog } = reader;
  const state = readState(dataDir);
  try {
    const status = statusFor(reader, state, now);
    const whole = reader.mailboxes === null;
    const behind = whole ? catalogLag(dataDir, () => catalog.reached().number) : null;
    // A run covers all mailboxes of an account.
    const runs = whole ? (state?.runs.list({ limit: LAST_RUNS, kinds: PASSES }) ?? []) : [];
    const copies = whole ? copyStatuses(state, status.commit.number, now) : [];
    const issues = listIssues(status, { behind, whole, copies, runs, now });
    return act({ state, status, lastRuns: runs, issues });
  } finally {
    state?.close();
  }
}

const LOOK_ANSWERS = ['asked', 'nobody', 'version'] as const;
/** `nobody`: no daemon responds. `version`: the daemon runs another version of the program. */
export type ServiceCheckResult = (typeof LOOK_ANSWERS)[number];

export function parseServiceCheckResult(typed: string | undefined): ServiceCheckResult | null {
  return LOOK_ANSWERS.find((known) => known === typed) ?? null;
}

/** `isOfAll`: the tab covers all mailboxes, so a limited view omits it. */
export const HEALTH_TABS = [
  { tab: 'overview', name: 'Overview', isOfAll: false },
  { tab: 'folders', name: 'Folders', isOfAll: false },
  { tab: 'runs', name: 'Runs', isOfAll: true },
  { tab: 'quarantine', name: 'Incomplete', isOfAll: false },
  { tab: 'held', name: 'Pending deletions', isOfAll: false },
  { tab: 'verification', name: 'Verification', isOfAll: true },
  { tab: 'retention', name: 'Retention', isOfAll: true },
] as const;
export type HealthTab = (typeof HEALTH_TABS)[number]['tab'];

/** Content of one tab. */
export type TabContent<T extends HealthTab> = Extract<
  ReturnType<typeof healthTab>['shown'],
  { readonly tab: T }
>;

export interface Linked {
  readonly count: number;
  /** Null if no query can describe the messages, or if counting timed out. */
  readonly query: string | null;
}

const COUNTING_MS = 400;

function linkedNumbers(
  reader: Pick<ServedReader, 'catalog' | 'dataDir' | 'mailboxes'>,
  now: number,
  accounts: ArchiveParts['accounts'],
) {
  const hasTime = deadline(COUNTING_MS);
  /** `linked` is null if the query is invalid or counting timed out. */
  const linked = (query: string): { linked: Linked | null; problem: string | null } => {
    const { request, problem } = parseQueryText(query, reader, { now }, accounts);
    if (request === null) return { linked: null, problem: problem.message };
    const { count, complete } = reader.catalog.prepare(request).countWhile(hasTime);
    return { linked: complete ? { count, query } : null, problem: null };
  };
  return {
    linked,
    /** @param known number to show without a link if the query was not counted */
    number: (query: string, known: number): Linked =>
      (known === 0 || !hasTime() ? null : linked(query).linked) ?? { count: known, query: null },
  };
}

type Numbers = ReturnType<typeof linkedNumbers>;
