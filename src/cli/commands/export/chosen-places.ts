import { namesIn } from '../../../catalog/folder-names.ts';
import type { UnknownName } from '../../../catalog/search/resolve.ts';
import { refuseUnknownChoice } from '../../../engine/archive/chosen-names.ts';
import type { Reader } from '../../../engine/archive/reader.ts';
import { accountHosts, savedSearches, withSaved } from '../../../engine/saved-searches.ts';
import type { TypedSelection } from '../../../export/elsewhere/wire.ts';
import type { ExportSelection } from '../../../export/export-options.ts';
import { parseQuery } from '../../../search/parse.ts';
import type { CommandContext } from '../../context.ts';
import { moment } from '../../option-values.ts';
import { docidsOf } from './chosen-ids.ts';

/**
 * Returns what is to be exported of an archive, and what a query names that is not known.
 *
 * @param ids those of messages, or their beginnings, where these are named
 * @throws usage-unknown-name for a mailbox or folder that never was, what `parseQuery` and `docidsOf` throw
 */
export async function chosenPlaces(
  context: CommandContext,
  reader: Reader,
  typed: TypedSelection,
  ids: AsyncIterable<string> | Iterable<string> | undefined,
): Promise<{ readonly selection: ExportSelection; readonly unknown: readonly UnknownName[] }> {
  refuseUnknownChoice(reader, typed);
  const { dataDir } = reader;
  const at = context.now();
  const text =
    typed.query === undefined ? null : withSaved(typed.query, () => savedSearches(dataDir));
  const query = text === null ? null : parseQuery(text, { now: at });
  const selection = {
    query:
      text === null || query === null
        ? null
        : { text, node: query.node, accounts: accountHosts(query.node, context) },
    docids: ids === undefined ? null : await docidsOf(reader, ids),
    mailboxes: namesIn(typed.mailbox),
    folders: namesIn(typed.folder),
    deleted: typed.deleted ?? false,
    withDeleted: typed.withDeleted ?? false,
    asOf: typed.asOf === undefined ? (query?.asOf ?? null) : moment('--as-of', typed.asOf, at),
  };
  return { selection, unknown: unknownInQuery(reader, selection) };
}

function unknownInQuery({ catalog }: Reader, { query, asOf }: ExportSelection) {
  if (query === null) return [];
  const { text: _, ...asked } = query;
  const when = asOf === null ? {} : { asOf };
  return catalog.explainSearch({ ...asked, ...when, limit: 1, sort: 'newest' }).unknown;
}
