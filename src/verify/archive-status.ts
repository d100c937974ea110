import { logFolder } from '../archive/format.ts';
import type { AttachmentCounts } from '../catalog/attachment-texts.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { catalogFile } from '../catalog/database.ts';
import { bytesIn, bytesOf } from '../catalog/disk-samples.ts';
import type { KnownFolder, KnownMailbox } from '../catalog/folders.ts';
import type { Reader } from '../catalog/open-reader.ts';
import type { RetentionSettings, Settings } from '../core/config-schema.ts';
import { folderKey, mailboxKey, placeKey, type StateFile } from '../core/state.ts';
import type { FolderKey, MailboxKey } from '../core/types.ts';
import { isImported } from '../mail/identity.ts';
import { addSums, type FolderSums } from '../sync/plan/folder-evidence.ts';
import { listedMailboxes, nextTryAt, recalledProof } from '../sync/sync-memory.ts';
import { isUnwatchedFolder, isUnwatchedMailbox, suspendedSince } from '../sync/usage.ts';
import { recalledCopies } from './copy-facts.ts';
import { type ArchiveFacts, fullnessOf, type LimiterFacts, type QuotaUse } from './facts.ts';
import type { PrunePlan } from './prune.ts';
import { type PlanningContext, plannedPrune } from './purge.ts';
import {
  recalledVerification,
  type VerificationStatus,
  verificationStatus,
} from './verification.ts';

/** A mailbox with or without anything in the archive. */
type StatusMailbox = Omit<KnownMailbox, 'id'>;

export interface FolderStatus {
  readonly folder: string;
  readonly specialUse: string | null;
  /** The configuration of the last sync leaves it out: it is compared with nothing, and not stale. */
  readonly unwatched: boolean;
  /** Current places: stored, assumed and held together. */
  readonly messages: number;
  readonly unread: number;
  readonly assumed: number;
  readonly held: number;
  readonly ended: number;
  readonly quarantined: number;
  readonly forgotten: number;
  /** ISO 8601: when it was last compared with the service; null when that is not known. */
  readonly provenAt: string | null;
  /** Whether everything added up then. */
  readonly complete: boolean | null;
  /** ISO 8601: since when the flags of all its messages were compared; null when they never were. */
  readonly flagsAt: string | null;
  /** ISO 8601: when its last certificate was written to the log, at most once a day; null before the first. */
  readonly certifiedAt: string | null;
}

export interface MailboxStatus {
  readonly address: string;
  readonly host: string;
  readonly resourceId: string;
  /** The configuration of the last sync leaves it out, or all its folders. */
  readonly unwatched: boolean;
  readonly messages: number;
  readonly unread: number;
  readonly ended: number;
  readonly quarantined: number;
  readonly held: number;
  /** The oldest of its folders' proofs, unwatched ones apart; null when a folder was never compared. */
  readonly provenAt: string | null;
  readonly complete: boolean;
  /** The oldest of its folders' certificates, those apart that have none yet; null when none has. */
  readonly certifiedAt: string | null;
  /** What the service last said, once a day; null when it was never asked, empty when it has none. */
  readonly quota: Quota | null;
  /** ISO 8601: since when the list of the platform surface shows it as suspended; null while it does not. */
  readonly suspendedSince: string | null;
  readonly folders: readonly FolderStatus[];
}

export interface Quota {
  /** ISO 8601: when the service said so. */
  readonly at: string;
  readonly resources: readonly QuotaUse[];
}

/** How fast a service was found to let itself be asked. */
export interface Budget extends Pick<LimiterFacts, 'gate' | 'learnedPerMinute'> {
  /** Requests a minute that the service announces; null when it does not. */
  readonly announcedPerMinute: number | null;
  /** ISO 8601: until when the service asked to be left alone; null when it does not. */
  readonly heldUntil: string | null;
}

/** What `mailkeep status` prints. Sizes in bytes, times in ISO 8601 UTC. */
export interface ArchiveStatus {
  readonly dataDir: string;
  readonly commit: { readonly number: number; readonly hash: string };
  /** Distinct messages, and the bytes of their raw sources. */
  readonly messages: number;
  readonly bytes: number;
  readonly logBytes: number;
  readonly catalogBytes: number;
  /** Messages that are stored, but not searchable yet. */
  readonly pending: number;
  readonly unparsed: number;
  /** Distinct attachments with text of their own: to be read yet, searchable, and found not to be readable. */
  readonly attachments: AttachmentCounts;
  /** The last verification and the damage that is known; null while nothing was ever verified. */
  readonly verification: VerificationStatus | null;
  readonly budget: readonly Budget[];
  /** All messages of synced mailboxes, counted once per folder, as at the end of a sync. */
  readonly sum: FolderSums;
  readonly mailboxes: readonly MailboxStatus[];
}

/** Looks at the archive only: no network, no configuration. */
export function archiveStatus(
  { catalog, dataDir }: Pick<Reader, 'catalog' | 'dataDir'>,
  state: StateFile | undefined,
): ArchiveStatus {
  const { number, hash } = catalog.reached();
  const { messages, bytes, pending, unparsed } = catalog.totals();
  const mailboxes = mailboxStatuses(catalog, state);
  return {
    dataDir,
    commit: { number, hash },
    messages,
    bytes,
    logBytes: bytesIn(logFolder(dataDir)),
    catalogBytes: bytesOf(catalogFile(dataDir)),
    pending,
    unparsed,
    attachments: catalog.attachments.counts(),
    verification: verificationStatus(recalledVerification(state)),
    budget: budgets(state),
    sum: addSums(
      mailboxes
        .filter((mailbox) => !isImported(mailbox))
        .flatMap(({ folders }) => folders)
        .map((folder) => ({ ...folder, stored: folder.messages - folder.assumed - folder.held })),
    ),
    mailboxes,
  };
}

function mailboxStatuses(
  catalog: Reader['catalog'],
  state: StateFile | undefined,
): MailboxStatus[] {
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
): MailboxStatus {
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
    unwatched,
    messages: sum('messages'),
    unread: sum('unread'),
    ended: sum('ended'),
    quarantined: sum('quarantined'),
    held: sum('held'),
    provenAt: oldest(proven.map(({ provenAt }) => provenAt)),
    complete: proven.length > 0 && proven.every(({ complete }) => complete === true),
    certifiedAt: oldest(folders.map(({ certifiedAt }) => certifiedAt).filter((at) => at !== null)),
    quota: recalledQuota(state, mailbox),
    suspendedSince: suspended === null ? null : new Date(suspended).toISOString(),
    folders,
  };
}

/** ISO times sort as texts, and one that is missing is older than all. */
function oldest(times: readonly (string | null)[]): string | null {
  return times.map((time) => time ?? '').sort()[0] || null;
}

/** What the service last said of a mailbox's quotas; null when it was never asked. */
export function recalledQuota(
  state: Pick<StateFile, 'get'> | undefined,
  mailbox: MailboxKey,
): Quota | null {
  const known = state?.get('quota', mailboxKey(mailbox));
  return known === undefined ? null : { ...known, at: new Date(known.at).toISOString() };
}

function budgets(state: StateFile | undefined): Budget[] {
  return (state?.entries('limiter') ?? []).flatMap(({ key, value }) => {
    if (!('learned' in value) || !key.startsWith('gate ')) return [];
    const { learned, announced, holdUntil } = value;
    return [
      {
        gate: key.slice('gate '.length),
        learnedPerMinute: learned,
        announcedPerMinute: announced,
        heldUntil: holdUntil > 0 ? new Date(holdUntil).toISOString() : null,
      },
    ];
  });
}

function folderStatus(
  { folders }: Reader['catalog'],
  { id, host, mailbox, folder, specialUse }: KnownFolder,
  state: StateFile | undefined,
): FolderStatus {
  const proof = recalledProof(state, { host, mailbox, folder });
  const { open, assumed, held, ended, quarantined, forgotten } = folders.counts(id);
  const certificate = folders.latestCertificate(id);
  return {
    folder,
    specialUse,
    unwatched: isUnwatchedFolder(state, { host, mailbox, folder }),
    messages: open,
    unread: folders.unread(id),
    assumed,
    held,
    ended,
    quarantined,
    forgotten,
    provenAt: proof?.at ?? null,
    complete: proof?.complete ?? null,
    flagsAt: proof?.flagsAt ?? null,
    certifiedAt: certificate === undefined ? null : new Date(certificate.time).toISOString(),
  };
}

/** What monitoring asks of the archive; the same that `status` shows. Costs some queries for each folder. */
export function archiveFacts(
  archive: Pick<Reader, 'catalog' | 'dataDir'>,
  state: StateFile | undefined,
): ArchiveFacts {
  const status = archiveStatus(archive, state);
  return {
    messages: status.messages,
    messageBytes: status.bytes,
    logBytes: status.logBytes,
    catalogBytes: status.catalogBytes,
    pending: status.pending,
    limiters: status.budget.map(({ gate, learnedPerMinute, heldUntil }) => ({
      gate,
      learnedPerMinute,
      heldUntil: millisOf(heldUntil),
    })),
    mailboxes: status.mailboxes.map(({ folders: _folders, quota, suspendedSince, ...mailbox }) => ({
      ...mailbox,
      provenAt: millisOf(mailbox.provenAt),
      certifiedAt: millisOf(mailbox.certifiedAt),
      full: fullnessOf(quota?.resources ?? [])?.share ?? null,
      suspended: suspendedSince !== null,
    })),
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

/** Returns what a configuration decides. */
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

/** When a folder was last compared with the service. */
export interface FolderProof extends Pick<KnownFolder, 'host' | 'mailbox' | 'address' | 'folder'> {
  /** The configuration of the last sync leaves it out. */
  readonly unwatched: boolean;
  /** Milliseconds since the epoch: by the state, or by its last certificate where the state is lost; null for never. */
  readonly at: number | null;
  /** Whether everything added up then; null when that is not known. */
  readonly complete: boolean | null;
}

/** Returns the last comparison of each folder that the service still has. Counts nothing. */
export function folderProofs(
  { folders }: Pick<Catalog, 'folders'>,
  state: StateFile | undefined,
): FolderProof[] {
  return folders.all().map(({ id, host, mailbox, address, folder }) => {
    const proof = recalledProof(state, { host, mailbox, folder });
    const at = proof === undefined ? folders.latestCertificate(id)?.time : Date.parse(proof.at);
    return {
      ...{ host, mailbox, address, folder },
      unwatched:
        isUnwatchedMailbox(state, { host, mailbox }) ||
        isUnwatchedFolder(state, { host, mailbox, folder }),
      at: at ?? null,
      complete: proof?.complete ?? null,
    };
  });
}

/** Messages that wait for something: those in quarantine for the next try, those held for a second look. */

export interface QuarantinedMessage {
  readonly address: string;
  readonly folder: string;
  readonly uid: number;
  readonly subject: string | null;
  /** Milliseconds since the epoch, like all times here. */
  readonly date: number | null;
  readonly size: number;
  readonly reason: string;
  readonly detail: string;
  readonly since: number;
  readonly acknowledged: boolean;
  readonly tries: number;
  /** When the daemon tries next, at the earliest; null where it was not tried again yet. */
  readonly nextAt: number | null;
}

/** Returns what is in quarantine, from the `from`-th on, and how many there are in all. */
export function quarantinedMessages(
  { catalog }: Pick<Reader, 'catalog'>,
  state: Pick<StateFile, 'get'> | undefined,
  { from, limit }: { readonly from: number; readonly limit: number },
): { readonly all: number; readonly messages: readonly QuarantinedMessage[] } {
  const open = catalog.quarantine.open();
  const messages = open.slice(from, from + limit).map((entry): QuarantinedMessage => {
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

/** Returns since when the brake holds places of a folder, milliseconds since the epoch; null where that is unknown. */
export function heldSince(state: Pick<StateFile, 'get'> | undefined, at: FolderKey): number | null {
  return state?.get('held', folderKey(at))?.since ?? null;
}
