import { readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { logFolder } from '../archive/layout.ts';
import type { KnownFolder, KnownMailbox } from '../catalog/folders.ts';
import { catalogFile } from '../catalog/open.ts';
import type { StateFile } from '../catalog/state.ts';
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
  readonly folders: readonly FolderStatus[];
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
    folders,
  };
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
