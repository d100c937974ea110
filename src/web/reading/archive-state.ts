import type { ArchiveStatus, MailboxStatus } from '../../engine/status/archive-status.ts';
import { isImported } from '../../mail/import-host.ts';
import type { KeptRun } from '../../state/runs.ts';
import { folderKey, mailboxKey } from '../../state/scopes.ts';
import type { Matter } from './matter.ts';
import { silentSince } from './matters.ts';
import type { SideTag } from './side-tree.ts';

/** How the archive is, for the frame of every page. Times are milliseconds since the epoch. */
export interface ArchiveState {
  /** `bad`: damage. `warn`: something needs a person. */
  readonly level: 'bad' | 'warn' | 'fine';
  /** When the folder that was compared longest ago was compared; null where one never was, and where none is watched. */
  readonly provenAt: number | null;
  /** Folders are compared with a service: not where all mail came from files. */
  readonly isMirror: boolean;
  /** When the daemon made its last pass, where it should have made more since; null where it does, or there is none. */
  readonly silentSince: number | null;
  /** The first sync, until every folder was compared once; null from then on. */
  readonly first: FirstSync | null;
  /** The reader may see all mailboxes: only then may it have the daemon look, and save searches. */
  readonly whole: boolean;
  /** When all of this was so. */
  readonly now: number;
}

/** How far the first sync is. What is ahead within a folder is known to the pass alone. */
export interface FirstSync {
  readonly mailboxes: number;
  /** Folders that are known so far, and those of them that were compared completely. */
  readonly folders: number;
  readonly done: number;
  readonly messages: number;
}

/** What a state is made of. */
interface Known {
  /** Whether `state.sqlite` is there: without it nobody knows what was compared. */
  readonly hasState: boolean;
  readonly status: ArchiveStatus;
  /** The last passes, newest first. */
  readonly runs: readonly KeptRun[];
  readonly matters: readonly Matter[];
  readonly whole: boolean;
  readonly now: number;
}

/** Returns how an archive is. */
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

function firstSyncOf(
  { hasState, runs, whole, status }: Known,
  watched: readonly MailboxStatus[],
): FirstSync | null {
  // A pass that came to an end has compared what there was; folders that are new since are no first sync.
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

/** Returns the folders and mailboxes of which something is worth knowing, by `folderKey` and `mailboxKey`. */
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
