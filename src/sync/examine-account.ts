import type { FolderKey, ListedFolder, MailboxKey } from '../core/types.ts';
import { fingerprint } from '../mail/identity.ts';
import { ALL_UIDS } from './plan/folder-evidence.ts';
import { observe } from './plan/plan-folder.ts';
import type { OriginMailbox } from './ports.ts';
import { runGuarded, type SyncContext } from './ports.ts';
import { reportUnmatched } from './selection.ts';
import { listAccount, listMailboxFolders, type MailSelection } from './sync-memory.ts';
import { verifyUnverified } from './verify-unverified.ts';
import { walkRange } from './walk.ts';

/**
 * `not-archived`: listed, but missing from the archive. `not-listed`: current in the archive, but not listed.
 * `other-message` and `other-flags`: listed with a different record or different flags.
 */
export type Difference =
  | 'not-archived'
  | 'not-listed'
  | 'other-message'
  | 'other-flags'
  | 'folder-not-archived'
  | 'folder-not-listed';

export interface OriginFinding {
  readonly mailbox: string;
  readonly folder: string;
  /** Null if the difference concerns the whole folder. */
  readonly uid: number | null;
  readonly difference: Difference;
}

interface Examination {
  readonly found: (finding: OriginFinding) => void;
  /** Called for each fully compared folder, with the messages listed in it. `incomplete` ones are in quarantine. */
  readonly compared: (messages: number, incomplete: number) => void;
}

/**
 * Compares every uid, fingerprint and flag in an account's mailboxes with the archive. Changes nothing, except that it
 * fetches the sources of unverified messages. The next sync run resolves any differences.
 */
export async function examineAccount(
  ctx: SyncContext,
  selection: MailSelection,
  examination: Examination,
): Promise<void> {
  const { listed, mailboxes } = await listAccount(ctx, selection);
  const names = listed.map(({ address }) => address);
  reportUnmatched(ctx, 'mailboxes', selection, { names, selected: mailboxes.length });
  const paths = new Set<string>();
  for (const mailbox of mailboxes) {
    await runGuarded(ctx, { mailbox: mailbox.address }, () =>
      examineMailbox(ctx, mailbox, selection, examination, paths),
    );
  }
  if (ctx.ledger.failures.length > 0) return;
  const selected = ctx.ledger.results().reduce((sum, mailbox) => sum + mailbox.folders, 0);
  reportUnmatched(ctx, 'folders', selection, { names: [...paths], selected });
}

async function examineMailbox(
  ctx: SyncContext,
  { resourceId, address }: OriginMailbox,
  selection: MailSelection,
  examination: Examination,
  paths: Set<string>,
): Promise<void> {
  const { key, all, folders } = await listMailboxFolders(ctx, { resourceId, address }, selection);
  ctx.ledger.open(address, folders.length);
  for (const { path } of all.folders) paths.add(path);
  const listed = new Set(all.folders.map(({ path }) => path));
  for (const { folder } of ctx.mirror.folders(key)) {
    if (listed.has(folder) || !all.complete) continue;
    examination.found({ mailbox: address, folder, uid: null, difference: 'folder-not-listed' });
  }
  for (const folder of folders) {
    await runGuarded(ctx, { mailbox: address, folder: folder.path }, () =>
      examineFolder(ctx, key, address, folder, examination),
    );
  }
  await verifyUnverified(ctx, key, address, listed);
  await ctx.committer.flush();
}

async function examineFolder(
  ctx: SyncContext,
  key: MailboxKey,
  address: string,
  { path, messageCount }: ListedFolder,
  { found, compared }: Examination,
): Promise<void> {
  const at: FolderKey = { ...key, folder: path };
  const generation = ctx.mirror.folder(at)?.generation;
  const report = (uid: number | null, difference: Difference): void =>
    found({ mailbox: address, folder: path, uid, difference });
  if (generation === undefined) {
    if (messageCount > 0) report(null, 'folder-not-archived');
    ctx.ledger.count(address, 'compared', 1);
    return;
  }
  const isKnown = (uid: number): boolean => {
    const state = ctx.mirror.settledAs(at, generation, uid);
    return state === 'quarantined' || state === 'forgotten';
  };
  const quarantined = new Set(ctx.mirror.quarantined(at, generation));
  let [messages, incomplete] = [0, 0];
  for await (const { interval, items } of walkRange(ctx, at, ALL_UIDS, 'ascending')) {
    messages += items.length;
    for (const { uid } of items) {
      if (!quarantined.has(uid)) continue;
      incomplete += 1;
      if (ctx.mirror.isAcknowledged(at, { ...at, generation, uid })) continue;
      ctx.ledger.count(address, 'quarantined', 1);
    }
    const open = ctx.mirror.openPlaces(at, generation, interval);
    const result = observe(items, { open, settled: isKnown }, fingerprint);
    for (const { uid } of result.appeared) report(uid, 'not-archived');
    for (const { uid } of result.contradicted) report(uid, 'other-message');
    for (const { uid } of result.flagsChanged) report(uid, 'other-flags');
    for (const uid of result.missing) if (open.get(uid)?.held !== true) report(uid, 'not-listed');
  }
  ctx.ledger.count(address, 'compared', 1);
  compared(messages, incomplete);
}
