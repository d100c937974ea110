import { defineErrors, didYouMean, shortList } from '../core/errors.ts';
import { bytes, counted, localTime } from '../core/text.ts';

/** An error in a sync run. */
export const syncError = defineErrors({
  interrupted: {
    'sync.interrupted': () => [
      'Interrupted. What was fetched is safe.',
      'The next sync continues where this one stopped.',
    ],
  },
  origin: {
    'sync.counts-disagree': (f: { folder: string; listed: number; shown: number }) => [
      `The service lists ${f.folder} with ${f.listed} messages, but shows ${f.shown}.`,
      'This answer was ignored; the next sync asks again.',
    ],
    'sync.does-not-add-up': ({ total, times }: { total: number; times: number }) => [
      `The service reports ${counted(total, 'message')} in this folder, but ${times} syncs in a row found a different number.`,
      'Nothing is lost here; "mailkeep sync --full" compares every message. If that does not help, the server miscounts.',
    ],
    /** `uids` are the first of `count`. */
    'sync.messages-not-shown': (f: { total: number; count: number; uids: readonly number[] }) => [
      `The service lists ${counted(f.total, 'message')} in this folder, but does not show ${f.count}: uid ${f.uids.join(', ')}${f.count > f.uids.length ? ', …' : ''}.`,
      'They do not count as deleted, and what the archive has of them stays. The next sync asks again; if it happens again, report it to your mail provider.',
    ],
    'sync.no-inbox': ({ listed }: { listed: number }) => [
      `The service lists ${listed} folders and no INBOX: the list is incomplete.`,
      'This answer was ignored; the next sync asks again.',
    ],
    'sync.folders-incomplete': ({ shown }: { shown: number }) => [
      `The service counts more folders than the ${shown} it shows: the list is incomplete.`,
      'The listed folders were compared, and nothing was concluded about others; the next sync asks again.',
    ],
    'sync.folder-without-path': ({
      withoutPath,
      shown,
    }: {
      withoutPath: number;
      shown: number;
    }) => [
      `The service lists ${counted(withoutPath, 'folder')} with an empty path, which cannot be synced.`,
      `The other ${counted(shown, 'folder')} ${shown === 1 ? 'was' : 'were'} compared, and no folder counts as deleted. Report it to your mail provider.`,
    ],
    /** The token can no longer access an archived mailbox; `since` is ISO 8601. */
    'sync.mailbox-unreachable': ({ address, since }: { address: string; since: string }) => [
      `The token has not reached ${address} since ${since}.`,
      'Archived mail stays available and searchable. Sync resumes when the mailbox is back.',
    ],
    /** The service refuses a mailbox that the Platform API lists as suspended; `since` is ISO 8601. */
    'sync.mailbox-suspended': ({ address, since }: { address: string; since: string }) => [
      `The service refuses access to ${address}, which it has listed as suspended since ${localTime(Date.parse(since))} or earlier.`,
      'Ask your mail service to lift the suspension. Archived mail stays available and searchable, and the next sync continues.',
    ],
    /** Reading a source marked an unseen message as seen, twice in a row. */
    'sync.marks-seen': ({ host }: { host: string }) => [
      `Reading a message from ${host} marked it as read there, so fetching was stopped.`,
      'A backup must not change your mail. Ask your mail provider about it before you continue.',
    ],
    /** A forgotten message was incomplete before it was recognised. The log has its listing and perhaps its content. */
    'sync.forgotten-in-quarantine': ({ id }: { id: string }) => [
      `Message ${id}, which you removed with "forget", reappeared. Quarantine still holds its subject and possibly part of its content.`,
      `Run: mailkeep forget ${id}`,
    ],
    /** `patterns` match nothing, and the first probably means `suggestion`. Without any, all that match are excluded. */
    'sync.nothing-selected': (f: {
      account: string;
      setting: 'mailboxes' | 'folders';
      listed: number;
      patterns: readonly string[];
      suggestion: string | null;
    }) => [
      `The configuration selects none of the ${f.setting === 'folders' ? counted(f.listed, 'folder') : counted(f.listed, 'mailbox', 'mailboxes')} that account ${f.account} can read, so nothing of it is mirrored.`,
      f.patterns.length === 0
        ? `"${f.setting}" of the account excludes them all.`
        : `Nothing matches ${shortList(f.patterns.map((pattern) => JSON.stringify(pattern)))} (${f.setting}.include). ${didYouMean(f.suggestion)}`.trimEnd(),
    ],
    'sync.quarantined': (f: { quarantined: number; mailboxes: readonly string[] }) => [
      `${counted(f.quarantined, 'message')} of ${shortList(f.mailboxes)} could not be fetched completely.`,
      'They are counted, and the next sync retries them.',
    ],
  },
  held: {
    /**
     * Too many messages disappeared from these mailboxes together, so the deletion guard keeps them. A sync run after
     * `until` (ISO 8601, null if unknown) accepts any deletions that remain.
     */
    'sync.held': (f: { held: number; mailboxes: readonly string[]; until: string | null }) => [
      `${counted(f.held, 'message')} of ${shortList(f.mailboxes)} ${f.held === 1 ? 'is' : 'are'} no longer at the service. The deletion guard keeps ${f.held === 1 ? 'it as a pending deletion' : 'them as pending deletions'}.`,
      `"mailkeep list --held" shows them. "mailkeep sync --accept-endings" accepts the deletions now; ${
        f.until === null
          ? 'without it, a later sync does'
          : `without it, the first sync after ${localTime(Date.parse(f.until))} does`
      } if they are still gone then. Nothing is removed from the archive.`,
    ],
  },
  disk: {
    'disk.low': ({ free, minFreeBytes }: { free: number; minFreeBytes: number }) => [
      `Only ${bytes(free)} are free on the archive's disk; the configuration requires ${bytes(minFreeBytes)} (minFreeBytes).`,
      'Free some space and run the command again; it continues where it stopped.',
    ],
  },
});
