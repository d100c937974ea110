import { docidAt } from '../../mail/docid.ts';
import type { SearchNode } from '../../search/ast.ts';
import { archiveNames } from '../archive-names.ts';
import type { Connection } from '../connection.ts';
import { mailboxesCalled, mailboxesOfAccount, namesWithin } from '../folder-names.ts';
import { DOCIDS_PER_DAY } from '../place-sets.ts';
import type { Scope } from '../scope.ts';
import { type Changes, changesBetween } from './changes.ts';
import { type ChartFilter, countedSets, isCounted } from './chart-filter.ts';
import { type Correspondent, correspondentsOf, type Years } from './correspondents.ts';
import { type Quarters, quartersBetween } from './hours.ts';
import { Received } from './received.ts';
import { type FolderBytes, folderBytes } from './storage.ts';

/** Contents of a type of attachment, and their bytes. */
export interface TypeBytes {
  readonly type: string;
  readonly contents: number;
  readonly bytes: number;
}

/** Numbers for charts of the present: from the sums that are kept, and from at most a hundred thousand rows each. */
export interface ChartQueries {
  /**
   * Returns a filter that counts what a query finds that names mailboxes and accounts only; undefined for any other.
   *
   * @param accounts as `SearchRequest.accounts`
   */
  filterOf(
    node: SearchNode,
    accounts: ReadonlyMap<string, string>,
    scope?: Scope,
  ): ChartFilter | undefined;
  received(filter: ChartFilter, bounds: readonly number[]): Received;
  changes(filter: ChartFilter, bounds: readonly number[]): Changes;
  quarters(filter: ChartFilter, low: number, high: number): Quarters;
  correspondents(filter: ChartFilter, years: Years | null, limit: number): Correspondent[];
  folders(filter: ChartFilter, received: Received): FolderBytes[] | undefined;
  /**
   * Returns the types of attachments with their distinct contents. Sums are kept for the whole archive only, since
   * mailboxes share contents: of a part of it they are counted. Undefined where there are too many for that.
   */
  types(filter: ChartFilter): TypeBytes[] | undefined;
  /** The first docid of the UTC day on which the oldest message came; undefined where there is none. */
  oldest(filter: ChartFilter): number | undefined;
  /** When the first commit was made, milliseconds since the epoch; undefined before it. */
  firstCommitAt(): number | undefined;
}

export function chartQueries(connection: Connection): ChartQueries {
  return {
    filterOf(node, accounts, within) {
      const scope = within ?? null;
      const fits = fitsOf(connection, node, accounts, scope);
      if (fits === undefined) return undefined;
      return { scope, fits: node.kind === 'all' ? null : fits };
    },
    received: (filter, bounds) => new Received(connection, filter, bounds),
    changes: (filter, bounds) => changesBetween(connection, filter, bounds),
    quarters: (filter, low, high) => quartersBetween(connection, filter, low, high),
    correspondents: (filter, years, limit) => correspondentsOf(connection, filter, years, limit),
    folders: (filter, received) => folderBytes(connection, filter, received),
    types: (filter) => typesOf(connection, filter),
    oldest(filter) {
      const counts = isCounted(countedSets(connection, filter), filter);
      const first = docidAt(null) / DOCIDS_PER_DAY;
      const sql = `SELECT min(day) FROM received_days WHERE day >= ${first} AND ${counts}`;
      const day = connection.first<number | null>(sql, []) ?? undefined;
      return day === undefined ? undefined : day * DOCIDS_PER_DAY;
    },
    firstCommitAt: () =>
      connection.first<number>('SELECT time FROM commits ORDER BY number LIMIT 1', []),
  };
}

/** Attachments that are counted one by one, of all mailboxes. */
const MOST_ATTACHMENTS = 100_000;

function typesOf(connection: Connection, filter: ChartFilter): TypeBytes[] | undefined {
  if (filter.scope === null && filter.fits === null)
    return [
      ...connection.text<TypeBytes>(
        'SELECT type, contents, bytes FROM attachment_types ORDER BY bytes DESC, type',
        [],
      ),
    ];
  const rows = `SELECT count(*) FROM (SELECT 1 FROM attachments LIMIT ${MOST_ATTACHMENTS + 1})`;
  if ((connection.first<number>(rows, []) ?? 0) > MOST_ATTACHMENTS) return undefined;
  const counts = isCounted(countedSets(connection, filter), filter);
  return [
    ...connection.text<TypeBytes>(
      // One content may be attached with several sizes only by a damaged row: the sums that are kept know one.
      `SELECT type, count(*) AS contents, sum(size) AS bytes FROM (
         SELECT a.type, max(a.size) AS size FROM attachments a
         CROSS JOIN messages m ON m.docid = a.docid
         WHERE a.hash IS NOT NULL AND a.type <> '' AND ${counts} GROUP BY a.type, a.hash)
       GROUP BY type ORDER BY bytes DESC, type`,
      [],
    ),
  ];
}

type Fits = (mailboxes: readonly number[]) => boolean;

function fitsOf(
  connection: Connection,
  node: SearchNode,
  accounts: ReadonlyMap<string, string>,
  scope: Scope | null,
): Fits | undefined {
  const known = archiveNames(connection, null).folders;
  const folders = [...(scope === null ? known : namesWithin(known, scope)).values()];
  const among =
    (ids: ReadonlySet<number>): Fits =>
    (mailboxes) =>
      mailboxes.some((id) => ids.has(id));
  const walk = (at: SearchNode): Fits | undefined => {
    switch (at.kind) {
      case 'all':
        return () => true;
      case 'mailbox':
        return among(mailboxesCalled(at.value, folders));
      case 'account':
        return among(mailboxesOfAccount(at.value, folders, accounts));
      case 'not': {
        const part = walk(at.node);
        return part === undefined ? undefined : (mailboxes) => !part(mailboxes);
      }
      case 'and':
      case 'or': {
        const parts = at.nodes.flatMap((one) => walk(one) ?? []);
        if (parts.length < at.nodes.length) return undefined;
        return at.kind === 'and'
          ? (mailboxes) => parts.every((part) => part(mailboxes))
          : (mailboxes) => parts.some((part) => part(mailboxes));
      }
      default:
        return undefined;
    }
  };
  return walk(node);
}
