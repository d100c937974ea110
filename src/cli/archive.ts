import { requireArchive } from '../archive/file-system.ts';
import type { Catalog } from '../catalog/catalog.ts';
import { hasMailboxName, matchingFolders } from '../catalog/folders.ts';
import type { QuarantineEntry } from '../catalog/messages.ts';
import {
  findPurgedMessage,
  openReader,
  type Reader,
  refuseUnknownFolder,
  refuseUnknownNames,
} from '../catalog/open-reader.ts';
import { parseQuery } from '../catalog/parse-query.ts';
import { type UnknownName, unknownText } from '../catalog/resolve-query.ts';
import { accountHosts, expandSaved, readSavedSearches } from '../catalog/saved-searches.ts';
import { locateDataDir } from '../core/config-locate.ts';
import { usageError } from '../core/error-tables.ts';
import { mailboxKey, readState, type StateFile } from '../core/state.ts';
import { terminalLine } from '../core/terminal-safe.ts';
import { count } from '../core/text.ts';
import type { MessageId } from '../core/types.ts';
import { retentionError } from '../verify/errors.ts';
import type { CommandContext, Values } from './context.ts';
import { parseTime, withoutUndefined } from './option-values.ts';
import { dateText, SHORT_ID, senderText } from './output.ts';
import type { Notices } from './warnings.ts';

/** @throws usage-no-archive, archive-unreadable */
export function requireArchiveDir({ globals, environment }: CommandContext): string {
  const dataDir = locateDataDir(globals, environment);
  requireArchive(dataDir, true);
  return dataDir;
}

/**
 * Runs `act` with the archive open for reading.
 * @throws errors from `openReader`
 */
export async function withReader<T>(
  context: Parameters<typeof openReader>[0],
  act: (reader: Reader) => T | Promise<T>,
): Promise<T> {
  const reader = openReader(context);
  try {
    return await act(reader);
  } finally {
    reader.close();
  }
}

/**
 * Parses a query, after expanding saved searches.
 * @throws errors from `expandSaved` and `parseQuery`
 */
export function readQuery(context: CommandContext, { dataDir }: Reader, typed: string) {
  const text = expandSaved(typed, () => readSavedSearches(dataDir));
  const query = parseQuery(text, { now: context.now() });
  return { text, query, accounts: accountHosts(query.node, context) };
}

/**
 * Parses a selection's query and time. Also returns any names in the query that the archive does not know.
 * @throws errors from `readQuery`; usage-bad-date
 */
export function readSelection(
  context: CommandContext,
  reader: Reader,
  { query: typed, asOf: at }: Values<'query' | 'asOf', string | undefined>,
) {
  const typedQuery = typed === undefined ? null : readQuery(context, reader, typed);
  const time = at === undefined ? undefined : parseTime('--as-of', at, context.now());
  const asOf = time ?? typedQuery?.query.asOf ?? null;
  if (typedQuery === null) return { query: null, asOf, unknown: [] };
  const search = { node: typedQuery.query.node, accounts: typedQuery.accounts };
  const request = { ...search, ...withoutUndefined({ asOf: asOf ?? undefined }) };
  const unknown = reader.catalog.prepare(request).unknownNames();
  return { query: { text: typedQuery.text, ...search }, asOf, unknown };
}

/** Runs `act` with the archive's state, which is undefined if there is none. */
export async function withState<T>(
  dataDir: string,
  act: (state: StateFile | undefined) => T | Promise<T>,
  open = readState,
): Promise<T> {
  const state = open(dataDir);
  try {
    return await act(state);
  } finally {
    state?.close();
  }
}

/**
 * Finds a message by its id or an id prefix.
 * @throws usage-unknown-message, usage-ambiguous-id, message-purged
 */
export function findMessage({ catalog }: Pick<Reader, 'catalog'>, typed: string): MessageId {
  const found = catalog.messages.byPrefix(typed);
  switch (found.match) {
    case 'unique':
      return found.id;
    case 'ambiguous': {
      const lines = found.candidates.map((id) => candidate(catalog, id, found.candidates));
      const more = catalog.messages.countByPrefix(typed) - lines.length;
      const candidates = more > 0 ? [...lines, `and ${count(more)} more`] : lines;
      throw usageError('usage-ambiguous-id', { id: typed, candidates });
    }
    case 'none': {
      const purged = findPurgedMessage({ catalog }, typed);
      if (purged !== undefined) throw retentionError('message-purged', purged);
      throw usageError('usage-unknown-message', { id: typed });
    }
  }
}

/** Returns a unique id prefix and a description of the message. */
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
 * Refuses names that never existed, and warns about names that no longer exist.
 * @throws usage-unknown-name
 */
export function refuseUnknown(unknown: readonly UnknownName[], notices: Notices): void {
  refuseUnknownNames(unknown);
  for (const name of unknown) notices.warn(unknownText(name, terminalLine(name.found)));
}

/** Warns if a time precedes the first commit, because an empty result would then mean nothing. */
export function warnBeforeFirstCommit(
  { charts }: Pick<Catalog, 'charts'>,
  asOf: number | null | undefined,
  notices: Notices,
): void {
  const first = charts.firstCommitAt();
  if (asOf === undefined || asOf === null || first === undefined || asOf >= first) return;
  const begins = new Date(first).toISOString().replace(/\.\d+Z$/, 'Z');
  notices.warn(`The archive begins at ${begins}: it knows nothing from before that time.`);
}

/**
 * Returns the keys of the mailboxes that a sign-in link or token is limited to, or null if it is unlimited.
 * @param names addresses or resource ids
 * @throws usage-unknown-name
 */
export function mailboxKeys(
  context: CommandContext,
  names: readonly string[],
): Promise<readonly string[] | null> {
  if (names.length === 0) return Promise.resolve(null);
  return withReader(context, (reader) =>
    names.flatMap((mailbox) => {
      refuseUnknownFolder(reader, { mailbox });
      const mailboxes = reader.catalog.folders.mailboxes();
      return mailboxes.filter((box) => hasMailboxName(box, mailbox)).map(mailboxKey);
    }),
  );
}

export interface IncompleteSelection {
  /** Address or resource id. */
  readonly mailbox?: string;
  /** A path, a pattern or a special use, as for `list`. */
  readonly folder?: string;
  readonly uid?: number;
}

export function selectIncomplete(
  { quarantine, folders }: Pick<Catalog, 'quarantine' | 'folders'>,
  { mailbox, folder, uid }: IncompleteSelection,
): QuarantineEntry[] {
  const keyOf = (one: { host: string; mailbox: string }, path: string): string =>
    JSON.stringify([one.host, one.mailbox, path]);
  const paths =
    folder === undefined
      ? undefined
      : new Set(
          // The entry's folder may have been deleted.
          matchingFolders(folders.everNamed().folders, { folder }).map((one) =>
            keyOf(one, one.path),
          ),
        );
  return quarantine
    .open()
    .filter(
      (entry) =>
        hasMailboxName(entry, mailbox) &&
        (paths === undefined || paths.has(keyOf(entry, entry.folder))) &&
        (uid === undefined || uid === entry.uid),
    );
}
