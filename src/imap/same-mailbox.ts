import { createHash } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { hasCode } from '../core/errors.ts';
import type { FolderKey, MailboxKey } from '../core/types.ts';
import type { imapOrigin } from './imap-origin.ts';

/** A folder of the archive with messages. */
interface ArchivedFolder {
  readonly folder: string;
  /** Null if no sync has recorded it. */
  readonly uidValidity: string | null;
}

interface ArchivedMessage {
  readonly folder: string;
  readonly uid: number;
  /** SHA-256 of the source, in hexadecimal. */
  readonly sha256: string;
}

/** Messages whose bytes are compared. */
const SAMPLED = 20;
/** Messages that may be gone from the server, for each that is compared. */
const SPARE = 3;

/**
 * Compares a mailbox of the archive with one on a server: first UIDVALIDITY of each folder that both have, then the
 * bytes of 20 messages. They are the same mailbox if nothing differs, and if the server has at least half of the folders
 * and of the sampled messages.
 *
 * @param sample picks up to that many messages of these folders at random
 */
export async function compareMailbox(
  origin: Pick<ReturnType<typeof imapOrigin>, 'folders' | 'source'>,
  mailbox: MailboxKey,
  archived: readonly ArchivedFolder[],
  sample: (folders: ReadonlySet<string>, most: number) => readonly ArchivedMessage[],
  signal: AbortSignal,
) {
  const { states } = await origin.folders(mailbox.mailbox, signal);
  const folders = { same: 0, different: 0, missing: 0 };
  const messages = { same: 0, different: 0, missing: 0 };
  const agreeing = new Set<string>();
  for (const { folder, uidValidity } of archived) {
    if (uidValidity === null) continue;
    const found = states.get(folder)?.uidValidity;
    if (found === undefined) folders.missing += 1;
    else if (found !== uidValidity) folders.different += 1;
    else {
      folders.same += 1;
      agreeing.add(folder);
    }
  }
  const compared = { folders, messages };
  if (!isEnough(folders)) return { isSame: false, ...compared };
  for (const { folder, uid, sha256 } of sample(agreeing, SAMPLED * SPARE)) {
    if (messages.same + messages.different >= SAMPLED) break;
    const found = await hashOf(origin, { ...mailbox, folder }, uid, signal);
    if (found === null) messages.missing += 1;
    else if (found === sha256) messages.same += 1;
    else messages.different += 1;
  }
  return { isSame: isEnough(messages), ...compared };
}

function isEnough({ same, different, missing }: Record<'same' | 'different' | 'missing', number>) {
  return different === 0 && same > 0 && same >= missing;
}

/** Returns a message's SHA-256, or null if the server does not have it. */
async function hashOf(
  origin: Pick<ReturnType<typeof imapOrigin>, 'source'>,
  at: FolderKey,
  uid: number,
  signal: AbortSignal,
): Promise<string | null> {
  try {
    const source = await origin.source(at, uid, signal);
    if (source.kind === 'buffer') return createHash('sha256').update(source.bytes).digest('hex');
    await rm(source.path, { force: true });
    return source.sha256;
  } catch (error) {
    if (hasCode(error, 'imap.message-gone')) return null;
    throw error;
  }
}
