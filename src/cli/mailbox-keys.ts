import { isMailbox } from '../catalog/folder-names.ts';
import { refuseUnknownChoice } from '../engine/archive/chosen-names.ts';
import { mailboxKey } from '../state/scopes.ts';
import { withReader } from './archive-access.ts';
import type { CommandContext } from './context.ts';

/**
 * Returns the keys of the mailboxes that a sign-in link or a token is limited to; null where none is named.
 *
 * @param named addresses or resource ids
 * @throws usage-unknown-name
 */
export function mailboxKeys(
  context: CommandContext,
  named: readonly string[],
): Promise<readonly string[] | null> {
  if (named.length === 0) return Promise.resolve(null);
  return withReader(context, (reader) =>
    named.flatMap((mailbox) => {
      refuseUnknownChoice(reader, { mailbox });
      const known = reader.catalog.folders.mailboxes();
      return known.filter((box) => isMailbox(box, mailbox)).map(mailboxKey);
    }),
  );
}
