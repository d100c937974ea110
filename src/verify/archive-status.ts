import { logFolder } from '../archive/format.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { catalogFile } from '../catalog/database.ts';
import { directoryBytes, fileBytes } from '../catalog/disk-samples.ts';
import type { KnownFolder, KnownMailbox } from '../catalog/folders.ts';
import type { Reader } from '../catalog/open-reader.ts';
import type { RetentionSettings, Settings } from '../core/config-schema.ts';
import {
  folderKey,
  mailboxKey,
  type Proof,
  parseAccountKey,
  placeKey,
  type StateFile,
} from '../core/state.ts';
import {
  addSums,
  expectedAtOrigin,
  type FolderKey,
  type FolderTotals,
  type ListedTotals,
  type MailboxKey,
} from '../core/types.ts';
import { trafficStatus } from '../imap/traffic.ts';
import { isImported } from '../mail/identity.ts';
import { listedMailboxes, nextTryAt, recallListed, recallProof } from '../sync/sync-memory.ts';
import {
  isExcludedFolder,
  isExcludedMailbox,
  leftBehindSince,
  suspendedSince,
} from '../sync/usage.ts';
import type { QuotaUse } from './issues.ts';
import type { PrunePlan } from './prune.ts';
import { type PlanningContext, preparePrune } from './purge.ts';
import { recallVerification, verificationStatus } from './verification.ts';

type StatusMailbox = Omit<KnownMailbox, 'id'>;

export type FolderStatus = ReturnType<typeof folderStatus>;
export type MailboxStatus = ReturnType<typeof mailboxStatus>;
export type Budget = ReturnType<typeof budgets>[number];
export type ArchiveStatus = ReturnType<typeof archiveStatus>;

export interface Quota {
  readonly at: string;
  readonly resources: readonly QuotaUse[];
}

/**
 * Returns the data for `status`, with sizes in bytes and times in ISO 8601 UTC. Uses neither the network nor the
 * configuration.
 *
 * @param now milliseconds since the epoch
 */
export function archiveStatus(
  { catalog, dataDir }: Pick<Reader, 'catalog' | 'dataDir'>,
  state: StateFile | undefined,
  now: number,
) {
  const { number, hash } = catalog.reached();
  const { messages, bytes, pending, unparsed } = catalog.totals();
  const mailboxes = mailboxStatuses(catalog, state);
  return {
    dataDir,
    commit: { number, hash },
    messages,
    bytes,
    logBytes: directoryBytes(logFolder(dataDir)),
    catalogBytes: fileBytes(catalogFile(dataDir)),
    pending,
    unparsed,
    attachments: catalog.attachments.counts(),
    verification: verificationStatus(recallVerification(state)),
    budget: budgets(state),
    /** IMAP accounts. */
    traffic: (state?.entries('imap-traffic') ?? []).map(({ key, value }) => ({
      ...parseAccountKey(key),
      ...trafficStatus(value, now),
    })),
    ...serviceTotals(mailboxes),
    mailboxes,
  };
}

/** Adds up the folders that sync runs read, as reported at the end of a sync. */
export function serviceTotals(mailboxes: readonly MailboxStatus[]) {
  const read = mailboxes.filter((mailbox) => !isImported(mailbox) && !mailbox.unwatched);
  const folders = read.flatMap((mailbox) => mailbox.folders).filter(({ unwatched }) => !unwatched);
  const listed: ListedTotals = {
    messages: folders.reduce((total, folder) => total + folder.listed, 0),
    folders: folders.length,
    unfinished: folders.filter(({ unfinished }) => unfinished).length,
    unreadMailboxes: read.filter((mailbox) => mailbox.folders.length === 0).length,
  };
  return {
    /** Messages, counted once per folder. */
    sum: addSums(folders.map(totalsOf)),
    listed,
  };
}

/** Returns `serviceTotals` of some mailboxes in the archive. @param isIncluded by `mailboxKey` */
export function mailboxTotals(
  { catalog }: Pick<Reader, 'catalog'>,
  state: StateFile | undefined,
  isIncluded: (key: string) => boolean,
) {
  return serviceTotals(
    mailboxStatuses(catalog, state).filter(({ host, resourceId }) =>
      isIncluded(mailboxKey({ host, mailbox: resourceId })),
    ),
  );
}

function totalsOf({ messages, assumed, held, quarantined, forgotten }: Counts): FolderTotals {
  return { stored: messages - assumed - held, assumed, quarantined, held, forgotten };
}

function mailboxStatuses(catalog: Reader['catalog'], state: StateFile | undefined) {
  // Query all folders together. One query per mailbox would take quadratic time.
  const folders = new Map<string, KnownFolder[]>();
  for (const folder of catalog.folders.all()) {
    const key = mailboxKey(folder);
    const known = folders.get(key);
    if (known === undefined) folders.set(key, [folder]);
    else known.push(folder);
  }
  return [...catalog.folders.mailboxes(), ...waitingMailboxes(catalog, state)].map((mailbox) =>
    mailboxStatus(catalog, state, mailbox, folders.get(mailboxKey(mailbox)) ?? []),
  );
}

/** Lists mailboxes that a token can access but that have never been synced. */
function waitingMailboxes(
  catalog: Reader['catalog'],
  state: StateFile | undefined,
): StatusMailbox[] {
  const keys = new Set(catalog.folders.mailboxes().map(mailboxKey));
  return listedMailboxes(state)
    .map(({ host, resourceId, address }) => ({ host, mailbox: resourceId, address }))
    .filter((mailbox) => !keys.has(mailboxKey(mailbox)) && !isExcludedMailbox(state, mailbox));
}

function mailboxStatus(
  catalog: Reader['catalog'],
  state: StateFile | undefined,
  mailbox: StatusMailbox,
  known: readonly KnownFolder[],
) {
  const folders = known.map((folder) => folderStatus(catalog, folder, state));
  const watched = folders.filter((folder) => !folder.unwatched);
  const leftBehind = leftBehindSince(state, mailbox);
  const unwatched =
    leftBehind !== null ||
    isExcludedMailbox(state, mailbox) ||
    (folders.length > 0 && watched.length === 0);
  const proven = watched.length > 0 ? watched : folders;
  const suspended = suspendedSince(state, mailbox);
  const sum = (field: 'messages' | 'unread' | 'ended' | 'quarantined' | 'held'): number =>
    folders.reduce((total, folder) => total + folder[field], 0);
  return {
    address: mailbox.address,
    host: mailbox.host,
    resourceId: mailbox.mailbox,
    /** True if it is left behind, or the last sync's configuration excluded it or all of its folders. */
    unwatched,
    /** When its account first read another mailbox instead. */
    leftBehindAt: leftBehind === null ? null : new Date(leftBehind).toISOString(),
    messages: sum('messages'),
    unread: sum('unread'),
    ended: sum('ended'),
    quarantined: sum('quarantined'),
    held: sum('held'),
    /** Oldest among its watched folders; null if any has never been compared. */
    provenAt: oldest(proven.map(({ provenAt }) => provenAt)),
    complete:
      proven.length > 0 &&
      proven.every(({ complete, unfinished }) => complete === true && !unfinished),
    /** Oldest among the folders that have a reconciliation. */
    certifiedAt: oldest(folders.map(({ certifiedAt }) => certifiedAt).filter((at) => at !== null)),
    quota: recallQuota(state, mailbox),
    /** According to the Platform API. */
    suspendedSince: suspended === null ? null : new Date(suspended).toISOString(),
    folders,
  };
}

/** Returns the oldest time. ISO times sort as text. A missing time is the oldest. */
function oldest(times: readonly (string | null)[]): string | null {
  return times.map((time) => time ?? '').sort()[0] || null;
}

/** Returns the latest known quotas, at most a day old; null if never queried, empty if there are none. */
export function recallQuota(
  state: Pick<StateFile, 'get'> | undefined,
  mailbox: MailboxKey,
): Quota | null {
  const record = state?.get('quota', mailboxKey(mailbox));
  return record === undefined ? null : { ...record, at: new Date(record.at).toISOString() };
}

function budgets(state: StateFile | undefined) {
  return (state?.entries('limiter') ?? []).flatMap(({ key, value }) => {
    if (!('learned' in value) || !key.startsWith('gate ')) return [];
    const { learned, announced, holdUntil } = value;
    return [
      {
        gate: key.slice('gate '.length),
        /** Requests per minute; null until the first refusal, when the configured rate still applies. */
        learnedPerMinute: learned,
        /** Null if the service does not announce a rate. */
        announcedPerMinute: announced,
        /** End of a pause that the service requested. */
        heldUntil: holdUntil > 0 ? new Date(holdUntil).toISOString() : null,
      },
    ];
  });
}

function folderStatus(
  { folders }: Reader['catalog'],
  { id, host, mailbox, folder, specialUse, generation }: KnownFolder,
  state: StateFile | undefined,
) {
  const at = { host, mailbox, folder };
  const { open, assumed, held, ended, quarantined, forgotten } = folders.counts(id);
  const certificate = folders.latestCertificate(id);
  const proof = proofOf(state, at, generation);
  const isRead =
    proof !== undefined || certificate?.generation === generation || isImported({ host });
  const counts = { messages: open, assumed, held, quarantined, forgotten };
  return {
    folder,
    specialUse,
    /** True if excluded by the last sync's configuration, so it is not compared and does not become stale. */
    unwatched: isExcludedFolder(state, at),
    /** Current messages: stored, matched without download, and pending deletion. */
    ...counts,
    unread: folders.unread(id),
    ended,
    ...readingOf(state, at, counts, isRead, proof),
    /** Time and result of the last comparison with the service; null if unknown. */
    provenAt: proof?.at ?? null,
    complete: proof?.complete ?? null,
    flagsAt: proof?.flagsAt ?? null,
    /** Last reconciliation in the log, which contains at most one per day. */
    certifiedAt: certificate === undefined ? null : new Date(certificate.time).toISOString(),
  };
}

type Counts = Record<'messages' | 'assumed' | 'held' | 'quarantined' | 'forgotten', number>;

/** Returns the last comparison of the folder's current UID epoch. */
function proofOf(state: StateFile | undefined, at: FolderKey, generation: number) {
  const proof = recallProof(state, at);
  return proof?.generation === generation ? proof : undefined;
}

/** @param isRead true if a sync run has read the current UID epoch to the end */
function readingOf(
  state: StateFile | undefined,
  at: FolderKey,
  counts: Counts,
  isRead: boolean,
  proof: Proof | undefined,
) {
  const expected = expectedAtOrigin(totalsOf(counts));
  // Its messages are pending deletions.
  if (state?.get('unlisted', folderKey(at)) !== undefined) return { listed: 0, unfinished: false };
  const later = recallListed(state, at);
  const listed = later ?? proof?.originTotal ?? expected;
  // A comparison may have found that the sums do not add up.
  const isCurrent = listed === expected || (later === undefined && proof?.complete === false);
  const unfinished = !isRead || !isCurrent;
  return {
    /** Messages that the service's last listing counts, or those that are known of it. */
    listed: unfinished ? Math.max(listed, expected) : listed,
    /** True if no sync run has read it to the end since it was listed like this. */
    unfinished,
  };
}

/** Configuration for read-only commands. */
export interface ArchivePolicy {
  readonly retention: RetentionSettings;
  /** Minimum age at which another comparison can confirm a deletion for the deletion guard. */
  readonly confirmAfterMs: number;
  /** Cron expression; null if mail is removed only by `mailkeep prune`. */
  readonly pruneSchedule: string | null;
  plan(reader: Pick<Reader, 'catalog'>, state: Pick<StateFile, 'entries'> | undefined): PrunePlan;
}

export function archivePolicy(
  { retention, brake, schedule }: Pick<Settings, 'retention' | 'brake' | 'schedule'>,
  context: PlanningContext,
): ArchivePolicy {
  return {
    retention,
    confirmAfterMs: brake.confirmAfterMs,
    pruneSchedule: schedule.prune,
    plan: ({ catalog }, state) => preparePrune(context, catalog, state, retention),
  };
}

export type FolderProof = ReturnType<typeof folderProofs>[number];

/** Returns the last comparison of each folder that still exists at the service, without counting messages. */
export function folderProofs({ folders }: Pick<Catalog, 'folders'>, state: StateFile | undefined) {
  return folders.all().map(({ id, host, mailbox, address, folder, generation }) => {
    const proof = proofOf(state, { host, mailbox, folder }, generation);
    const certificate = proof === undefined ? folders.latestCertificate(id) : undefined;
    const certifiedAt = certificate?.generation === generation ? certificate.time : undefined;
    const at = proof === undefined ? certifiedAt : Date.parse(proof.at);
    return {
      ...{ host, mailbox, address, folder },
      unwatched:
        leftBehindSince(state, { host, mailbox }) !== null ||
        isExcludedMailbox(state, { host, mailbox }) ||
        isExcludedFolder(state, { host, mailbox, folder }),
      /** Milliseconds since the epoch, from the state or else from the last reconciliation. */
      at: at ?? null,
      complete: proof?.complete ?? null,
    };
  });
}

/** Returns incomplete messages and their total number. Times are in milliseconds since the epoch. */
export function quarantinedMessages(
  { catalog }: Pick<Reader, 'catalog'>,
  state: Pick<StateFile, 'get'> | undefined,
  { from, limit }: { readonly from: number; readonly limit: number },
) {
  const open = catalog.quarantine.open();
  const messages = open.slice(from, from + limit).map((entry) => {
    const { address, folder, uid, subject, date, size, reason, detail, since } = entry;
    const tried = state?.get('quarantine-tries', placeKey(entry));
    return {
      ...{ address, folder, uid, subject, date, size, reason, detail, since },
      acknowledged: entry.acknowledged,
      tries: tried?.tries ?? 0,
      nextAt: tried === undefined ? null : nextTryAt(tried),
    };
  });
  return { all: open.length, messages };
}

/** Returns when the deletion guard started to hold a folder, in milliseconds since the epoch. */
export function heldSince(state: Pick<StateFile, 'get'> | undefined, at: FolderKey): number | null {
  return state?.get('held', folderKey(at))?.since ?? null;
}
