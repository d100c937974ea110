import { logFolder } from '../archive/format.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { catalogFile } from '../catalog/database.ts';
import { bytesIn, bytesOf } from '../catalog/disk-samples.ts';
import type { KnownFolder, KnownMailbox } from '../catalog/folders.ts';
import type { Reader } from '../catalog/open-reader.ts';
import type { RetentionSettings, Settings } from '../core/config-schema.ts';
import { folderKey, mailboxKey, placeKey, type StateFile } from '../core/state.ts';
import type { FolderKey, MailboxKey } from '../core/types.ts';
import { isImported } from '../mail/identity.ts';
import { addSums } from '../sync/plan/folder-evidence.ts';
import { listedMailboxes, nextTryAt, recalledProof } from '../sync/sync-memory.ts';
import { isUnwatchedFolder, isUnwatchedMailbox, suspendedSince } from '../sync/usage.ts';
import { recalledCopies } from './copy-facts.ts';
import { fullnessOf, type QuotaUse } from './facts.ts';
import type { PrunePlan } from './prune.ts';
import { type PlanningContext, plannedPrune } from './purge.ts';
import { recalledVerification, verificationStatus } from './verification.ts';

/** A mailbox with or without anything in the archive. */
type StatusMailbox = Omit<KnownMailbox, 'id'>;

export type FolderStatus = ReturnType<typeof folderStatus>;
export type MailboxStatus = ReturnType<typeof mailboxStatus>;
export type Budget = ReturnType<typeof budgets>[number];
export type ArchiveStatus = ReturnType<typeof archiveStatus>;

export interface Quota {
  /** ISO 8601: when the service said so. */
  readonly at: string;
  readonly resources: readonly QuotaUse[];
}

/**
 * Returns what `mailkeep status` prints. Sizes in bytes, times in ISO 8601 UTC. Looks at the archive only: no network, no
 * configuration.
 */
export function archiveStatus(
  { catalog, dataDir }: Pick<Reader, 'catalog' | 'dataDir'>,
  state: StateFile | undefined,
) {
  const { number, hash } = catalog.reached();
  const { messages, bytes, pending, unparsed } = catalog.totals();
  const mailboxes = mailboxStatuses(catalog, state);
  return {
    dataDir,
    commit: { number, hash },
    /** Distinct messages, and the bytes of their raw sources. */
    messages,
    bytes,
    logBytes: bytesIn(logFolder(dataDir)),
    catalogBytes: bytesOf(catalogFile(dataDir)),
    /** Messages that are stored, but not searchable yet. */
    pending,
    unparsed,
    /** Distinct attachments with text of their own: to be read yet, searchable, and found not to be readable. */
    attachments: catalog.attachments.counts(),
    /** The last verification and the damage that is known; null while nothing was ever verified. */
    verification: verificationStatus(recalledVerification(state)),
    budget: budgets(state),
    /** All messages of synced mailboxes, counted once per folder, as at the end of a sync. */
    sum: addSums(
      mailboxes
        .filter((mailbox) => !isImported(mailbox))
        .flatMap(({ folders }) => folders)
        .map((folder) => ({ ...folder, stored: folder.messages - folder.assumed - folder.held })),
    ),
    mailboxes,
  };
}

function mailboxStatuses(catalog: Reader['catalog'], state: StateFile | undefined) {
  // All folders at once: asking for those of each mailbox takes quadratic time with many mailboxes.
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

/** Mailboxes that a token reaches and that no pass got to yet: the archive has nothing of them. */
function waitingMailboxes(
  catalog: Reader['catalog'],
  state: StateFile | undefined,
): StatusMailbox[] {
  const known = new Set(catalog.folders.mailboxes().map(mailboxKey));
  return listedMailboxes(state)
    .map(({ host, resourceId, address }) => ({ host, mailbox: resourceId, address }))
    .filter((mailbox) => !known.has(mailboxKey(mailbox)) && !isUnwatchedMailbox(state, mailbox));
}

function mailboxStatus(
  catalog: Reader['catalog'],
  state: StateFile | undefined,
  mailbox: StatusMailbox,
  known: readonly KnownFolder[],
) {
  const folders = known.map((folder) => folderStatus(catalog, folder, state));
  const watched = folders.filter((folder) => !folder.unwatched);
  const unwatched =
    isUnwatchedMailbox(state, mailbox) || (folders.length > 0 && watched.length === 0);
  const proven = watched.length > 0 ? watched : folders;
  const suspended = suspendedSince(state, mailbox);
  const sum = (field: 'messages' | 'unread' | 'ended' | 'quarantined' | 'held'): number =>
    folders.reduce((total, folder) => total + folder[field], 0);
  return {
    address: mailbox.address,
    host: mailbox.host,
    resourceId: mailbox.mailbox,
    /** The configuration of the last sync leaves it out, or all its folders. */
    unwatched,
    messages: sum('messages'),
    unread: sum('unread'),
    ended: sum('ended'),
    quarantined: sum('quarantined'),
    held: sum('held'),
    /** The oldest of its folders' proofs, unwatched ones apart; null when a folder was never compared. */
    provenAt: oldest(proven.map(({ provenAt }) => provenAt)),
    complete: proven.length > 0 && proven.every(({ complete }) => complete === true),
    /** The oldest of its folders' certificates, those apart that have none yet; null when none has. */
    certifiedAt: oldest(folders.map(({ certifiedAt }) => certifiedAt).filter((at) => at !== null)),
    quota: recalledQuota(state, mailbox),
    /** Since when the list of the platform surface shows it as suspended; null while it does not. */
    suspendedSince: suspended === null ? null : new Date(suspended).toISOString(),
    folders,
  };
}

/** ISO times sort as texts, and one that is missing is older than all. */
function oldest(times: readonly (string | null)[]): string | null {
  return times.map((time) => time ?? '').sort()[0] || null;
}

/** What the service last said of a mailbox's quotas, once a day; null when it was never asked, empty when it has none. */
export function recalledQuota(
  state: Pick<StateFile, 'get'> | undefined,
  mailbox: MailboxKey,
): Quota | null {
  const known = state?.get('quota', mailboxKey(mailbox));
  return known === undefined ? null : { ...known, at: new Date(known.at).toISOString() };
}

/** How fast services were found to let themselves be asked. */
function budgets(state: StateFile | undefined) {
  return (state?.entries('limiter') ?? []).flatMap(({ key, value }) => {
    if (!('learned' in value) || !key.startsWith('gate ')) return [];
    const { learned, announced, holdUntil } = value;
    return [
      {
        /** Host and port, and the label of the token. */
        gate: key.slice('gate '.length),
        /** Requests a minute; null while no refusal taught any: then the configured rate holds. */
        learnedPerMinute: learned,
        /** Requests a minute that the service announces; null when it does not. */
        announcedPerMinute: announced,
        /** Until when the service asked to be left alone; null when it does not. */
        heldUntil: holdUntil > 0 ? new Date(holdUntil).toISOString() : null,
      },
    ];
  });
}

function folderStatus(
  { folders }: Reader['catalog'],
  { id, host, mailbox, folder, specialUse }: KnownFolder,
  state: StateFile | undefined,
) {
  const proof = recalledProof(state, { host, mailbox, folder });
  const { open, assumed, held, ended, quarantined, forgotten } = folders.counts(id);
  const certificate = folders.latestCertificate(id);
  return {
    folder,
    specialUse,
    /** The configuration of the last sync leaves it out: it is compared with nothing, and not stale. */
    unwatched: isUnwatchedFolder(state, { host, mailbox, folder }),
    /** Current places: stored, assumed and held together. */
    messages: open,
    unread: folders.unread(id),
    ...{ assumed, held, ended, quarantined, forgotten },
    /** When it was last compared with the service, and whether everything added up then; null when that is not known. */
    provenAt: proof?.at ?? null,
    complete: proof?.complete ?? null,
    /** Since when the flags of all its messages were compared; null when they never were. */
    flagsAt: proof?.flagsAt ?? null,
    /** When its last certificate was written to the log, at most once a day; null before the first. */
    certifiedAt: certificate === undefined ? null : new Date(certificate.time).toISOString(),
  };
}

export type ArchiveFacts = ReturnType<typeof archiveFacts>;
export type MailboxFacts = ArchiveFacts['mailboxes'][number];

/**
 * What monitoring asks of the archive; the same that `status` shows, with times in milliseconds since the epoch. Costs some
 * queries for each folder.
 */
export function archiveFacts(
  archive: Pick<Reader, 'catalog' | 'dataDir'>,
  state: StateFile | undefined,
) {
  const status = archiveStatus(archive, state);
  const { messages, bytes: messageBytes, logBytes, catalogBytes, pending, budget } = status;
  return {
    ...{ messages, messageBytes, logBytes, catalogBytes, pending },
    limiters: budget.map(({ announcedPerMinute: _, heldUntil, ...one }) => ({
      ...one,
      heldUntil: millisOf(heldUntil),
    })),
    mailboxes: status.mailboxes.map((known) => {
      const { folders: _, unread: __, ended: ___, quota, suspendedSince, ...mailbox } = known;
      return {
        ...mailbox,
        provenAt: millisOf(mailbox.provenAt),
        certifiedAt: millisOf(mailbox.certifiedAt),
        /** Share of its fullest quota that is used, 1 for full; null where none is known. */
        full: fullnessOf(quota?.resources ?? [])?.share ?? null,
        suspended: suspendedSince !== null,
      };
    }),
    verification: recalledVerification(state),
    copies: recalledCopies(state, status.commit.number),
  };
}

function millisOf(iso: string | null): number | null {
  return iso === null ? null : Date.parse(iso);
}

/** What the configuration decides about an archive, for those who only look at it. */
export interface ArchivePolicy {
  readonly retention: RetentionSettings;
  /** A comparison at least this much later may confirm the deletions that the brake holds. */
  readonly confirmAfterMs: number;
  /** When the daemon prunes, as a cron expression; null where only `mailkeep prune` does. */
  readonly pruneSchedule: string | null;
  /** What pruning would remove now. @throws what `plannedPrune` throws */
  plan(reader: Pick<Reader, 'catalog'>, state: Pick<StateFile, 'entries'> | undefined): PrunePlan;
}

export function policyOf(
  { retention, brake, schedule }: Pick<Settings, 'retention' | 'brake' | 'schedule'>,
  context: PlanningContext,
): ArchivePolicy {
  return {
    retention,
    confirmAfterMs: brake.confirmAfterMs,
    pruneSchedule: schedule.prune,
    plan: ({ catalog }, state) => plannedPrune(context, catalog, state, retention),
  };
}

export type FolderProof = ReturnType<typeof folderProofs>[number];

/** Returns the last comparison of each folder that the service still has. Counts nothing. */
export function folderProofs({ folders }: Pick<Catalog, 'folders'>, state: StateFile | undefined) {
  return folders.all().map(({ id, host, mailbox, address, folder }) => {
    const proof = recalledProof(state, { host, mailbox, folder });
    const at = proof === undefined ? folders.latestCertificate(id)?.time : Date.parse(proof.at);
    return {
      ...{ host, mailbox, address, folder },
      /** The configuration of the last sync leaves it out. */
      unwatched:
        isUnwatchedMailbox(state, { host, mailbox }) ||
        isUnwatchedFolder(state, { host, mailbox, folder }),
      /** Milliseconds since the epoch: by the state, or by its last certificate where the state is lost; null for never. */
      at: at ?? null,
      /** Whether everything added up then; null when that is not known. */
      complete: proof?.complete ?? null,
    };
  });
}

/** Returns what is in quarantine, from the `from`-th on, and how many there are in total. Times in milliseconds since the epoch. */
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
      /** When the daemon tries next, at the earliest; null where it was not tried again yet. */
      nextAt: tried === undefined ? null : nextTryAt(tried),
    };
  });
  return { all: open.length, messages };
}

/** Returns since when the brake holds places of a folder, milliseconds since the epoch; null where that is unknown. */
export function heldSince(state: Pick<StateFile, 'get'> | undefined, at: FolderKey): number | null {
  return state?.get('held', folderKey(at))?.since ?? null;
}
