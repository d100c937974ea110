import { type FolderFilter, isMailbox, matchingFolders } from '../catalog/folder-names.ts';
import type { UnknownName } from '../catalog/search/resolve.ts';
import type { Reader } from '../engine/archive/reader.ts';
import { retentionError } from '../errors/retention.ts';
import { usageError } from '../errors/usage.ts';
import { terminalLine } from '../mail/terminal-safe.ts';
import type { MessageId } from '../mail/words.ts';
import { nearestAddress, nearestFolder } from '../names/near-names.ts';
import type { Notices } from './notices.ts';
import { dateText, SHORT_ID, senderText } from './place-line.ts';
import { unknownText } from './search-report.ts';

/**
 * The message that an id, or the beginning of one, names.
 *
 * @throws usage-unknown-message, usage-ambiguous-id, message-purged
 */
export function oneMessage({ catalog }: Pick<Reader, 'catalog'>, typed: string): MessageId {
  const found = catalog.messages.byPrefix(typed);
  switch (found.match) {
    case 'unique':
      return found.id;
    case 'ambiguous':
      throw usageError('usage-ambiguous-id', {
        id: typed,
        candidates: found.candidates.map((id) => candidate(catalog, id, found.candidates)),
      });
    case 'none': {
      const purged = purgedMessage({ catalog }, typed);
      if (purged !== undefined) throw retentionError('message-purged', purged);
      throw usageError('usage-unknown-message', { id: typed });
    }
  }
}

/** What is left of a message that was purged, if that is what an id, or the beginning of one, names. */
export function purgedMessage({ catalog }: Pick<Reader, 'catalog'>, typed: string) {
  if (catalog.messages.byPrefix(typed).match !== 'none') return undefined;
  const [purged, other] = catalog.messages.purgedByPrefix(typed);
  if (purged === undefined || other !== undefined) return undefined;
  const { id, reason, time } = purged;
  return { id, reason, time: time === null ? null : new Date(time).toISOString() };
}

/** As much of the id as makes it unique, and what people know the message by. */
function candidate(
  catalog: Reader['catalog'],
  id: MessageId,
  others: readonly MessageId[],
): string {
  let length = SHORT_ID;
  while (others.some((other) => other !== id && other.startsWith(id.slice(0, length)))) length += 1;
  const summary = catalog.messages.summary(id);
  const { date = null, from = null, subject } = summary ?? {};
  const about = [dateText(date), senderText(from), subject ?? ''];
  return [id.slice(0, length), ...about].map(terminalLine).join('  ');
}

/**
 * Refuses a query that names a folder, mailbox or account that never was: nothing found would look like an answer.
 * Names that only nothing goes by now are a warning.
 *
 * @throws usage-unknown-name
 */
export function refuseUnknown(unknown: readonly UnknownName[], notices: Notices): void {
  for (const { kind, found, suggestion, candidates, never } of unknown) {
    if (kind !== 'message' && never)
      throw usageError('usage-unknown-name', { kind, found, suggestion, candidates });
  }
  for (const name of unknown) notices.warn(unknownText(name));
}

/** What `--mailbox` and `--folder` choose, and whether only what is at the service now counts. */
interface Choice extends FolderFilter {
  readonly deleted?: boolean;
  readonly asOf?: unknown;
}

/**
 * Refuses a mailbox or a folder of the command line that never was, and a folder that is gone where only what is at
 * the service now is asked for.
 *
 * @throws usage-unknown-name, usage-folder-gone
 */
export function refuseUnknownChoice(
  { catalog }: Pick<Reader, 'catalog'>,
  { mailbox, folder, deleted, asOf }: Choice,
): void {
  if (mailbox === undefined && folder === undefined) return;
  const { folders, mailboxes } = catalog.folders.everNamed();
  if (mailbox !== undefined && !mailboxes.some((box) => isMailbox(box, mailbox))) {
    const candidates = mailboxes.map(({ address }) => address);
    const suggestion = nearestAddress(mailbox, candidates);
    const facts = { kind: 'mailbox', found: mailbox, suggestion, candidates } as const;
    throw usageError('usage-unknown-name', facts);
  }
  if (folder === undefined) return;
  const wanted = mailbox === undefined ? { folder } : { mailbox, folder };
  if (matchingFolders(folders, wanted).length === 0) {
    const near = folders.filter((name) => isMailbox(name, mailbox));
    const suggestion = nearestFolder(folder, near);
    const facts = { kind: 'folder', found: folder, suggestion, candidates: [] } as const;
    throw usageError('usage-unknown-name', facts);
  }
  if (deleted === true || asOf !== undefined) return;
  const live = catalog.folders.all().map((seen) => ({ ...seen, path: seen.folder }));
  if (matchingFolders(live, wanted).length === 0) throw usageError('usage-folder-gone', { folder });
}
