import { readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { z } from 'zod';
import { logFolder } from '../archive/layout.ts';
import type { KnownFolder, KnownMailbox } from '../catalog/folders.ts';
import { catalogFile } from '../catalog/open.ts';
import type { StateFile } from '../catalog/state.ts';
import { readPaceState } from '../limiter/remembered.ts';
import { QUOTA, quotaKey } from '../sync/apply/note-quota.ts';
import { recalledProof } from './compose/proofs.ts';
import type { Reader } from './compose/reader.ts';

export interface FolderStatus {
  readonly folder: string;
  readonly specialUse: string | null;
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
}

export interface MailboxStatus {
  readonly address: string;
  readonly host: string;
  readonly resourceId: string;
  readonly messages: number;
  readonly unread: number;
  readonly ended: number;
  readonly quarantined: number;
  readonly held: number;
  /** The oldest of its folders' proofs; null when a folder was never compared. */
  readonly provenAt: string | null;
  readonly complete: boolean;
  /** What the service last said, once a day; null when it was never asked, empty when it has none. */
  readonly quota: Quota | null;
  readonly folders: readonly FolderStatus[];
}

export interface Quota {
  /** ISO 8601: when the service said so. */
  readonly at: string;
  /** `STORAGE` is in bytes, `MESSAGE` a count; no limit is null. */
  readonly resources: readonly {
    readonly name: string;
    readonly usage: number;
    readonly limit: number | null;
  }[];
}

/** How fast a service was found to let itself be asked. */
export interface Budget {
  /** Host and port, and the account's label. */
  readonly gate: string;
  /** Requests a minute that refusals have taught; null while none were met: then the configured rate holds. */
  readonly learnedPerMinute: number | null;
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
  readonly budget: readonly Budget[];
  readonly mailboxes: readonly MailboxStatus[];
}

/** Looks at the archive only: no network, no configuration. */
export function archiveStatus(reader: Reader, state: StateFile | undefined): ArchiveStatus {
  const { catalog, dataDir } = reader;
  const { number, hash } = catalog.reached();
  const { messages, bytes, pending, unparsed } = catalog.totals();
  return {
    dataDir,
    commit: { number, hash },
    messages,
    bytes,
    logBytes: bytesIn(logFolder(dataDir)),
    catalogBytes: bytesOf(catalogFile(dataDir)),
    pending,
    unparsed,
    budget: budgets(state),
    mailboxes: catalog.folders.mailboxes().map((mailbox) => mailboxStatus(reader, state, mailbox)),
  };
}

/** Mailboxes that were not compared with the service since `since`, milliseconds since the epoch. */
export function staleMailboxes(status: ArchiveStatus, since: number): MailboxStatus[] {
  return status.mailboxes.filter(
    ({ provenAt }) => provenAt === null || Date.parse(provenAt) < since,
  );
}

function mailboxStatus(
  { catalog }: Reader,
  state: StateFile | undefined,
  mailbox: KnownMailbox,
): MailboxStatus {
  const folders = catalog.folders
    .all({ mailbox })
    .map((folder) => folderStatus(catalog, folder, state));
  const sum = (field: 'messages' | 'unread' | 'ended' | 'quarantined' | 'held'): number =>
    folders.reduce((total, folder) => total + folder[field], 0);
  const proofs = folders.map(({ provenAt }) => provenAt ?? '').sort();
  return {
    address: mailbox.address,
    host: mailbox.host,
    resourceId: mailbox.mailbox,
    messages: sum('messages'),
    unread: sum('unread'),
    ended: sum('ended'),
    quarantined: sum('quarantined'),
    held: sum('held'),
    // ISO times sort as texts, and a folder without one comes first.
    provenAt: proofs[0] === undefined || proofs[0] === '' ? null : proofs[0],
    complete: folders.length > 0 && folders.every(({ complete }) => complete === true),
    quota: recalledQuota(state, mailbox),
    folders,
  };
}

const quotaShape = z.object({
  at: z.number(),
  resources: z.array(
    z.object({ name: z.string(), usage: z.number(), limit: z.number().nullable() }),
  ),
});

function recalledQuota(state: StateFile | undefined, mailbox: KnownMailbox): Quota | null {
  const { data } = quotaShape.safeParse(state?.get(QUOTA, quotaKey(mailbox)));
  return data === undefined
    ? null
    : { at: new Date(data.at).toISOString(), resources: data.resources };
}

function budgets(state: StateFile | undefined): Budget[] {
  return (state?.entries('limiter') ?? []).flatMap(({ key, value }) => {
    const pace = readPaceState(value);
    if (pace === null || !key.startsWith('gate ')) return [];
    const { learned, announced, holdUntil } = pace;
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
  { id, address, folder, specialUse }: KnownFolder,
  state: StateFile | undefined,
): FolderStatus {
  const proof = recalledProof(state, address, folder);
  const { open, assumed, held, ended, quarantined, forgotten } = folders.counts(id);
  return {
    folder,
    specialUse,
    messages: open,
    unread: folders.unread(id),
    assumed,
    held,
    ended,
    quarantined,
    forgotten,
    provenAt: proof?.at ?? null,
    complete: proof?.complete ?? null,
  };
}

function bytesIn(folder: string): number {
  return readdirSync(folder).reduce((sum, name) => sum + bytesOf(path.join(folder, name)), 0);
}

/** 0 for what a writer has just replaced. */
function bytesOf(file: string): number {
  return statSync(file, { throwIfNoEntry: false })?.size ?? 0;
}
