import type { FolderName } from '../catalog/folders.ts';
import { catalogLag, type Reader } from '../catalog/open-reader.ts';
import type { SearchNode } from '../catalog/query-ast.ts';
import type { RetentionSettings } from '../core/config-schema.ts';
import { MailkeepError, sentenceOf } from '../core/errors.ts';
import { readState, type StateFile } from '../core/state.ts';
import type { KeptRun } from '../core/state-runs.ts';
import { isImported, type PlaceLine } from '../mail/identity.ts';
import {
  type ArchivePolicy,
  type ArchiveStatus,
  type FolderStatus,
  heldSince,
  type MailboxStatus,
  type QuarantinedMessage,
  quarantinedMessages,
} from '../verify/archive-status.ts';
import { copyStatuses } from '../verify/copy-facts.ts';
import {
  type HealthContent,
  type HealthShown,
  type HealthTab,
  type Linked,
  LinkedNumbers,
} from './health-content.ts';
import {
  type ArchiveState,
  archiveStateOf,
  type Matter,
  mattersOf,
  sideTagsOf,
  statusFor,
} from './issues.ts';
import { within } from './mail-list.ts';
import { filterText } from './query-text.ts';
import type { ArchiveParts } from './request-context.ts';
import type { ServedReader } from './served-archive.ts';
import type { SideTag } from './side-tree.ts';
import { understandQuery } from './understood-query.ts';

export interface Overview {
  readonly matters: readonly Matter[];
  readonly facts: Pick<
    ArchiveStatus,
    'messages' | 'bytes' | 'logBytes' | 'catalogBytes' | 'attachments' | 'commit' | 'verification'
  >;
  readonly mailboxes: readonly MailboxRow[];
  /** Mailboxes that are left out here. */
  readonly more: number;
}

export interface MailboxRow {
  readonly address: string;
  readonly imported: boolean;
  readonly unwatched: boolean;
  readonly folders: number;
  readonly kept: Linked;
  readonly deleted: Linked;
  readonly provenAt: string | null;
  readonly complete: boolean;
}

const MOST_MAILBOXES = 200;

/** What needs a person, and what the archive holds. */
function overviewOf(
  status: ArchiveStatus,
  matters: readonly Matter[],
  numbers: LinkedNumbers,
): Overview {
  const { messages, bytes, logBytes, catalogBytes, attachments, commit, verification } = status;
  const { mailboxes } = status;
  return {
    matters,
    facts: { messages, bytes, logBytes, catalogBytes, attachments, commit, verification },
    mailboxes: mailboxes.slice(0, MOST_MAILBOXES).map((mailbox) => {
      const inBox = mailboxFilter(mailbox, mailboxes);
      const { address, unwatched, folders, provenAt, complete } = mailbox;
      return {
        ...{ address, unwatched, provenAt, complete },
        imported: isImported(mailbox),
        folders: folders.length,
        kept: numbers.of(`${inBox} -is:deleted`, mailbox.messages),
        deleted: numbers.of(`${inBox} is:deleted`, mailbox.ended),
      };
    }),
    more: Math.max(0, mailboxes.length - MOST_MAILBOXES),
  };
}

/** Returns the filter that finds a mailbox: by its address, or by its resource id where others have the address too. */
function mailboxFilter(
  { address, resourceId }: Pick<MailboxStatus, 'address' | 'resourceId'>,
  all: readonly Pick<MailboxStatus, 'address'>[],
): string {
  const others = all.filter((other) => other.address === address);
  return filterText('mailbox', others.length > 1 ? resourceId : address);
}

/** A folder with its sum: at the service = stored + assumed + quarantined + held + forgotten, in places. */
export interface FolderRow
  extends Pick<
    FolderStatus,
    | 'folder'
    | 'unwatched'
    | 'assumed'
    | 'held'
    | 'quarantined'
    | 'forgotten'
    | 'provenAt'
    | 'complete'
    | 'flagsAt'
    | 'certifiedAt'
  > {
  /** Places with a message of their own that is at the service. */
  readonly stored: number;
  readonly kept: Linked;
  readonly unread: Linked;
  readonly deleted: Linked;
}

interface FolderGroup {
  readonly address: string;
  readonly imported: boolean;
  readonly folders: readonly FolderRow[];
}

/** A page of folders by mailbox, those that were proven longest ago first where that is asked for. */
export interface FolderPages {
  readonly groups: readonly FolderGroup[];
  readonly sort: 'name' | 'age';
  readonly from: number;
  /** Folders of a page. */
  readonly step: number;
  readonly all: number;
}

const FOLDERS = 200;

function folderPages(
  mailboxes: readonly MailboxStatus[],
  numbers: LinkedNumbers,
  { from, sort }: Pick<FolderPages, 'from' | 'sort'>,
): FolderPages {
  const all = mailboxes.flatMap((mailbox) =>
    mailbox.folders.map((folder) => ({ mailbox, folder })),
  );
  // The order of the mailboxes stays, whatever the order within them.
  const ordered =
    sort === 'name'
      ? all
      : all.toSorted((a, b) => ((a.folder.provenAt ?? '') < (b.folder.provenAt ?? '') ? -1 : 1));
  const shown = ordered.slice(from, from + FOLDERS);
  const groups: FolderGroup[] = [];
  let last: MailboxStatus | undefined;
  let folders: FolderRow[] = [];
  for (const { mailbox, folder } of shown) {
    if (mailbox !== last) {
      folders = [];
      groups.push({ address: mailbox.address, imported: isImported(mailbox), folders });
      last = mailbox;
    }
    const prefix = mailboxes.length === 1 ? '' : `${mailboxFilter(mailbox, mailboxes)} `;
    folders.push(rowOf(folder, `${prefix}${filterText('in', folder.folder)}`, numbers));
  }
  return { groups, sort, from, step: FOLDERS, all: all.length };
}

function rowOf(status: FolderStatus, within: string, numbers: LinkedNumbers): FolderRow {
  const { folder, unwatched, messages, assumed, held, quarantined, forgotten } = status;
  const { provenAt, complete, flagsAt, certifiedAt, unread, ended } = status;
  return {
    ...{ folder, unwatched, assumed, held, quarantined, forgotten },
    ...{ provenAt, complete, flagsAt, certifiedAt },
    stored: messages - assumed - held,
    kept: numbers.of(`${within} -is:deleted`, messages),
    unread: numbers.of(`${within} is:unread -is:deleted`, unread),
    deleted: numbers.of(`${within} is:deleted`, ended),
  };
}

/** What retention lets go of, and what holds keep. */
export interface Retention {
  /** Null where no configuration of this archive was found. */
  readonly policy: {
    readonly settings: RetentionSettings;
    readonly schedule: string | null;
    readonly holds: readonly Hold[];
    readonly preview: Preview;
  } | null;
  readonly deleted: Linked;
}

export interface Hold {
  /** As the configuration has it. */
  readonly text: string;
  readonly isMailbox: boolean;
  /** How many messages it keeps; null where it could not be counted. */
  readonly kept: Linked | null;
  readonly problem: string | null;
}

export type Preview =
  /** More messages were deleted than can be judged while a page waits. */
  | { readonly kind: 'too-many'; readonly most: number }
  | { readonly kind: 'refused'; readonly problem: string; readonly hint: string | null }
  | {
      readonly kind: 'plan';
      readonly messages: number;
      readonly bytes: number;
      readonly removed: readonly PreviewedSum[];
      readonly kept: readonly PreviewedSum[];
      /** The first messages that would be removed. */
      readonly list: readonly PreviewedMessage[];
    };

/** Messages that are removed, or kept, for one reason. */
interface PreviewedSum {
  readonly reason: string;
  readonly messages: number;
  readonly bytes: number;
}

interface PreviewedMessage {
  readonly id: string;
  readonly subject: string | null;
  readonly size: number;
  readonly reason: string;
  /** When it was last deleted: milliseconds since the epoch. */
  readonly endedAt: number | null;
}

/** Deleted messages that are judged for a page: some 50 µs each. */
const MOST_JUDGED = 5_000;
const MOST_LISTED = 100;
const MOST_HOLDS = 100;
/** For the holds together, in milliseconds. */
const COUNTING_MS = 400;

function retentionOf(
  reader: Pick<ServedReader, 'catalog' | 'dataDir' | 'mailboxes'>,
  state: Pick<StateFile, 'entries'> | undefined,
  policy: ArchivePolicy | null,
  now: number,
  accounts: (node: SearchNode) => ReadonlyMap<string, string>,
): Retention {
  const mayContinue = within(COUNTING_MS);
  const linked = (query: string): { linked: Linked | null; problem: string | null } => {
    const { request, problem } = understandQuery(query, reader, now, accounts);
    if (request === null) return { linked: null, problem: problem.message };
    const { count, complete } = reader.catalog.countHitsWhile(request, mayContinue);
    return { linked: complete ? { count, query } : null, problem: null };
  };
  const deleted = linked('is:deleted').linked ?? { count: 0, query: null };
  if (policy === null) return { policy: null, deleted };
  const { retention } = policy;
  const holds = retention.hold.slice(0, MOST_HOLDS).map((hold): Hold => {
    const isMailbox = 'mailbox' in hold;
    const text = isMailbox ? hold.mailbox : hold.query;
    const found = linked(isMailbox ? filterText('mailbox', text) : text);
    return { text, isMailbox, kept: found.linked, problem: found.problem };
  });
  const isTooMany = deleted.query === null || deleted.count > MOST_JUDGED;
  const preview = isTooMany
    ? ({ kind: 'too-many', most: MOST_JUDGED } as const)
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
): Preview {
  let plan: ReturnType<ArchivePolicy['plan']>;
  try {
    plan = policy.plan(reader, state);
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    const { message, hint } = sentenceOf(error);
    return { kind: 'refused', problem: message, hint };
  }
  const { prune, byReason, kept } = plan;
  return {
    kind: 'plan',
    messages: prune.length,
    bytes: prune.reduce((sum, { size }) => sum + size, 0),
    removed: [...byReason].map(([reason, sum]) => ({ reason, ...sum })),
    kept: [...kept].map(([reason, sum]) => ({ reason, ...sum })),
    list: prune.slice(0, MOST_LISTED).map(({ id, subject, size, reason, places }) => ({
      ...{ id, subject, size, reason },
      endedAt: places.reduce<number | null>(
        (last, { endedAt }) => (endedAt === null ? last : Math.max(last ?? 0, endedAt)),
        null,
      ),
    })),
  };
}

/** The lanes of the last 24 hours, with the kinds of runs in each. */
const LANES = {
  new: ['sync', 'hand', 'backlog'],
  hint: ['hint'],
  sweep: ['sweep'],
  verify: ['verify'],
  chores: ['index', 'seal', 'prune', 'copy', 'copy-check', 'import'],
} as const satisfies Readonly<Record<string, readonly string[]>>;

export type Lane = keyof typeof LANES;

/** Runs of one lane that began within one column. */
export interface Mark {
  /** Milliseconds since the beginning of the 24 hours. */
  readonly from: number;
  readonly to: number;
  readonly runs: number;
  readonly isChanged: boolean;
  readonly isFailed: boolean;
}

export interface RunPages {
  /** When the 24 hours end: milliseconds since the epoch. */
  readonly until: number;
  readonly lanes: readonly { readonly lane: Lane; readonly marks: readonly Mark[] }[];
  /** Of the last 24 hours. */
  readonly recent: { readonly runs: number; readonly requests: number; readonly failed: number };
  /** More runs than were read. */
  readonly isCut: boolean;
  readonly lane: Lane | null;
  readonly runs: readonly KeptRun[];
  /** The run to continue before; null on the last page. */
  readonly next: number | null;
  /** Whether this is a later page. */
  readonly isLater: boolean;
}

export const DAY_MS = 86_400_000;
/** Runs that begin within one column are one mark: no screen shows more. */
const COLUMN_MS = DAY_MS / 480;
/** Runs of the last 24 hours that are read: ten times those of a schedule of five minutes. */
const MOST_RECENT = 3_000;
/** Rows of a page. */
const ROWS = 50;

/** Reads the runs of the last 24 hours, and a page of all. */
function runPages(
  state: Pick<StateFile, 'runs'> | undefined,
  now: number,
  { before, lane }: { readonly before: number | undefined; readonly lane: Lane | null },
): RunPages {
  const since = now - DAY_MS;
  const recent = state?.runs.list({ limit: MOST_RECENT, since }) ?? [];
  const kinds = lane === null ? undefined : LANES[lane];
  const found = state?.runs.list({ limit: ROWS + 1, before, kinds }) ?? [];
  const runs = found.slice(0, ROWS);
  return {
    until: now,
    lanes: laneNames().map((name) => ({
      lane: name,
      marks: marksOf(
        recent.filter(({ kind }) => isIn(name, kind)),
        since,
      ),
    })),
    recent: {
      runs: recent.length,
      requests: recent.reduce((sum, { requests }) => sum + requests, 0),
      failed: recent.filter(isFailed).length,
    },
    isCut: recent.length === MOST_RECENT,
    lane,
    runs,
    next: found.length > ROWS ? (runs.at(-1)?.id ?? null) : null,
    isLater: before !== undefined,
  };
}

/** Returns the lane of that name; null for any other text. */
function laneNamed(text: string | undefined): Lane | null {
  return laneNames().find((name) => name === text) ?? null;
}

/** Whether something went wrong in a run. */
export function isFailed({ outcome, failures }: Pick<KeptRun, 'outcome' | 'failures'>): boolean {
  return outcome === 'failed' || failures > 0;
}

function laneNames(): Lane[] {
  const names: Lane[] = [];
  let name: Lane;
  for (name in LANES) names.push(name);
  return names;
}

function isIn(lane: Lane, kind: string): boolean {
  return LANES[lane].some((known) => known === kind);
}

function marksOf(runs: readonly KeptRun[], since: number): Mark[] {
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

export interface Verifications {
  /** The last one, and the damage that is known; null while nothing was ever verified. */
  readonly last: ArchiveStatus['verification'];
  readonly messages: number;
  readonly bytes: number;
  /** Those that the daemon made, newest first. */
  readonly runs: readonly KeptRun[];
}

function verificationsOf(
  { verification, messages, logBytes }: ArchiveStatus,
  state: Pick<StateFile, 'runs'> | undefined,
): Verifications {
  const runs = state?.runs.list({ limit: ROWS, kinds: ['verify'] }) ?? [];
  return { last: verification, messages, bytes: logBytes, runs };
}

export interface QuarantinePages {
  readonly messages: readonly QuarantinedMessage[];
  readonly from: number;
  /** Messages of a page. */
  readonly step: number;
  readonly all: number;
}

const WAITING = 100;

function quarantinePages(
  reader: Pick<Reader, 'catalog'>,
  state: Pick<StateFile, 'get'> | undefined,
  from: number,
): QuarantinePages {
  return { ...quarantinedMessages(reader, state, { from, limit: WAITING }), from, step: WAITING };
}

type HeldMessage = Pick<PlaceLine, 'id' | 'uid' | 'date' | 'subject' | 'from'>;

/** What the brake holds in one folder. */
export interface HeldFolder {
  readonly address: string;
  readonly folder: string;
  /** Milliseconds since the epoch; null where it is not known. */
  readonly since: number | null;
  /** The first comparison after this time decides; null where it is not known. */
  readonly lookAt: number | null;
  readonly messages: readonly HeldMessage[];
}

export interface HeldPages {
  readonly folders: readonly HeldFolder[];
  /** Messages that are held in all. */
  readonly all: number;
  readonly shown: number;
}

/** Messages that are listed at most. */
const MOST_HELD = 500;

/** Reads which messages would end, folder by folder. */
function heldPages(
  { catalog }: Pick<Reader, 'catalog'>,
  state: Pick<StateFile, 'get'> | undefined,
  policy: Pick<ArchivePolicy, 'confirmAfterMs'> | null,
  all: number,
): HeldPages {
  if (all === 0) return { folders: [], all, shown: 0 };
  const folders = new Map<
    number,
    { head: Omit<HeldFolder, 'messages'>; messages: HeldMessage[] }
  >();
  let shown = 0;
  for (const { line, folder } of catalog.listPlaces({ held: true })) {
    if (shown === MOST_HELD) break;
    shown += 1;
    const { id, uid, date, subject, from } = line;
    const known = folders.get(folder.id) ?? { head: headOf(folder, state, policy), messages: [] };
    folders.set(folder.id, known);
    known.messages.push({ id, uid, date, subject, from });
  }
  return {
    folders: [...folders.values()].map(({ head, messages }) => ({ ...head, messages })),
    all,
    shown,
  };
}

function headOf(
  { host, mailbox, address, path }: FolderName,
  state: Pick<StateFile, 'get'> | undefined,
  policy: Pick<ArchivePolicy, 'confirmAfterMs'> | null,
): Omit<HeldFolder, 'messages'> {
  const since = heldSince(state, { host, mailbox, folder: path });
  const lookAt = since === null || policy === null ? null : since + policy.confirmAfterMs;
  return { address, folder: path, since, lookAt };
}

/** Runs that may tell how the last pass of each account was. */
const LAST_RUNS = 50;
/** Runs that are about mail. */
const PASSES = ['sync', 'hand', 'sweep', 'hint', 'backlog'];

/** A parameter of the address; undefined where it has none. */
type Parameter = (name: string) => string | undefined;

/** How the archive is now. */
interface Known {
  readonly state: StateFile | undefined;
  readonly status: ArchiveStatus;
  readonly lastRuns: readonly KeptRun[];
  readonly matters: readonly Matter[];
}

/** What the frame of every page says of the archive. */
export interface FrameState {
  readonly state: ArchiveState;
  /** Matters that need a person. */
  readonly matters: number;
  readonly tags: ReadonlyMap<string, SideTag>;
}

/** Returns how the archive is. */
export function frameState(reader: ServedReader, now: number): FrameState {
  return knowing(reader, now, (known) => frameStateOf(reader, now, known));
}

function frameStateOf(
  reader: ServedReader,
  now: number,
  { state, status, lastRuns, matters }: Known,
): FrameState {
  const known = { hasState: state !== undefined, status, runs: lastRuns, matters };
  return {
    state: archiveStateOf({ ...known, whole: reader.mailboxes === null, now }),
    matters: matters.length,
    tags: sideTagsOf(status),
  };
}

/** Reads what a tab of the health pages shows. */
export function healthTab(
  reader: ServedReader,
  parts: Pick<ArchiveParts, 'now' | 'accounts' | 'policy'>,
  tab: HealthTab,
  parameter: Parameter,
): Omit<HealthContent, 'look' | 'hasDaemon'> & { readonly known: FrameState } {
  const now = parts.now();
  return knowing(reader, now, (known) => {
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
      shown: shownIn(reader, { ...parts, now: () => now }, tab, parameter, { ...known, held }),
      known: frameStateOf(reader, now, known),
    };
  });
}

function shownIn(
  reader: ServedReader,
  { now, accounts, policy }: Pick<ArchiveParts, 'now' | 'accounts' | 'policy'>,
  tab: HealthTab,
  parameter: Parameter,
  { state, status, matters, held }: Known & { readonly held: number },
): HealthShown {
  const numbers = new LinkedNumbers(reader, now(), accounts);
  const from = positionOf(parameter('from')) ?? 0;
  switch (tab) {
    case 'overview':
      return { tab, ...overviewOf(status, matters, numbers) };
    case 'folders': {
      const sort = parameter('sort') === 'age' ? 'age' : 'name';
      return { tab, ...folderPages(status.mailboxes, numbers, { from, sort }) };
    }
    case 'runs': {
      const lane = laneNamed(parameter('lane'));
      const before = positionOf(parameter('before'));
      return { tab, ...runPages(state, now(), { before, lane }) };
    }
    case 'quarantine':
      return { tab, ...quarantinePages(reader, state, from) };
    case 'held':
      return { tab, ...heldPages(reader, state, policy(), held) };
    case 'verification':
      return { tab, ...verificationsOf(status, state) };
    case 'retention':
      return { tab, ...retentionOf(reader, state, policy(), now(), accounts) };
  }
}

function knowing<T>(reader: ServedReader, now: number, act: (known: Known) => T): T {
  const { dataDir, catalog } = reader;
  const state = readState(dataDir);
  try {
    const status = statusFor(reader, state);
    const whole = reader.mailboxes === null;
    const behind = whole ? catalogLag(dataDir, () => catalog.reached().number) : null;
    // A run is about all mailboxes of an account.
    const runs = whole ? (state?.runs.list({ limit: LAST_RUNS, kinds: PASSES }) ?? []) : [];
    const copies = whole ? copyStatuses(state, status.commit.number, now) : [];
    const matters = mattersOf(status, { behind, whole, copies, runs, now });
    return act({ state, status, lastRuns: runs, matters });
  } finally {
    state?.close();
  }
}

function positionOf(typed: string | undefined): number | undefined {
  const position = Number(typed ?? 'none');
  return Number.isSafeInteger(position) && position >= 0 ? position : undefined;
}
