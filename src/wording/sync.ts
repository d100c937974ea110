import type { SyncFacts } from '../errors/sync.ts';
import { bytes, counted, localTime } from './amounts.ts';
import { type Sentences, say, some } from './sentence.ts';

export const SYNC_SENTENCES: Sentences<SyncFacts> = {
  'sync.interrupted': () =>
    say('Interrupted. What was fetched is safe.', 'The next sync goes on where this one stopped.'),
  'sync.inconsistent-page': ({ folder, items, total }) =>
    say(
      `The service says that ${folder} has ${total} messages, but a page of it shows ${items}.`,
      'Nothing was concluded from it; the next sync asks again.',
    ),
  'sync.counts-disagree': ({ folder, listed, shown }) =>
    say(
      `The service lists ${folder} with ${listed} messages, but shows ${shown} of them.`,
      'Nothing was concluded from it; the next sync asks again.',
    ),
  'sync.does-not-add-up': ({ total, times }) =>
    say(
      `The service reports ${counted(total, 'message')} in this folder, but ${times} syncs in a row found a different number.`,
      'Nothing is lost here; "mailkeep sync --full" compares every message. If that does not help, the service miscounts.',
    ),
  'sync.no-inbox': ({ listed }) =>
    say(
      `The service lists ${listed} folders and no INBOX: that is not all of the mailbox.`,
      'Nothing was concluded from it; the next sync asks again.',
    ),
  'sync.folders-incomplete': ({ shown }) =>
    say(
      `The service counts more folders than the ${shown} it shows: that is not all of the mailbox.`,
      'The folders it shows were compared, and nothing was concluded about others; the next sync asks again.',
    ),
  'sync.folder-without-path': ({ withoutPath, shown }) =>
    say(
      `The service lists ${counted(withoutPath, 'folder')} with an empty path, which cannot be synced.`,
      `The other ${counted(shown, 'folder')} ${shown === 1 ? 'was' : 'were'} compared, and no folder counts as deleted. Report it to the service.`,
    ),
  'sync.mailbox-unreachable': ({ address, since }) =>
    say(
      `The token no longer reaches ${address}, since ${since}.`,
      'What is archived stays and can be searched. When the mailbox is back, the next sync goes on.',
    ),
  'sync.mailbox-suspended': ({ address, since }) =>
    say(
      `The service refuses access to ${address}, which it has listed as suspended since ${localTime(Date.parse(since))} or before.`,
      'Ask your mail service to lift the suspension. What is archived stays and can be searched, and the next sync continues.',
    ),
  'sync.marks-seen': ({ host }) =>
    say(
      `Reading a message from ${host} marked it as read there; fetching was stopped.`,
      'A backup must not change your mail. Ask the service about it before you go on.',
    ),
  'sync.held': ({ held, mailboxes, until }) =>
    say(
      `The messages in ${counted(held, 'place')} of ${some(mailboxes)} seem to be deleted at the service, too many at once: held by the brake.`,
      `"mailkeep list --held" shows them. "mailkeep sync --accept-endings" accepts the deletions now; ${
        until === null
          ? 'without it, a later sync does'
          : `without it, the first sync after ${localTime(Date.parse(until))} does`
      } if they are still gone then. Nothing is removed from the archive.`,
    ),
  'sync.forgotten-in-quarantine': ({ id }) =>
    say(
      `Message ${id} was forgotten and came again; before it came whole it was in quarantine, where its subject and perhaps a part of it were kept.`,
      `Run: mailkeep forget ${id}`,
    ),
  'sync.quarantined': ({ quarantined, mailboxes }) =>
    say(
      `${counted(quarantined, 'message')} of ${some(mailboxes)} could not be fetched whole.`,
      'They are counted, and tried again by the next sync.',
    ),
  'disk.low': ({ free, minFreeBytes }) =>
    say(
      `Only ${bytes(free)} are free where the archive is, and the configuration keeps ${bytes(minFreeBytes)} free (minFreeBytes).`,
      'Make room and run the command again; it goes on where it stopped.',
    ),
};
