import Database from 'better-sqlite3';
import type { ScopeName } from './scopes.ts';

/**
 * Which scopes another machine gets when it takes the archive over. What is secret stays, and what is about this machine: its
 * disk, its copies, its channels, with paths and addresses in it. Keys that are places stay as well, because they may be
 * places of what is being forgotten.
 */
const TRAVELS: Readonly<Record<ScopeName, boolean>> = {
  'account-listed': true,
  'account-mailboxes': true,
  'api-token': false,
  'api-token-key': false,
  'assumed-checked': true,
  'assumed-tried': false,
  canary: true,
  'copy-config': false,
  'copy-lock': false,
  'copy-purge': false,
  'copy-seen': false,
  'copy-target': false,
  'copy-upload': false,
  coverage: true,
  // Has the addresses of webhooks, which may have credentials in them.
  'delivery-log': false,
  'disk-sample': true,
  'earlier-fetches': false,
  'flag-counts': true,
  'flag-search-refused': true,
  held: true,
  limiter: true,
  notify: false,
  'odd-ids': true,
  proof: true,
  'quarantine-tries': false,
  quota: true,
  requests: true,
  'saved-search': true,
  schedule: true,
  'search-refused': true,
  'size-lessons': true,
  suspended: true,
  swept: true,
  unlisted: true,
  unwatched: true,
  'usage-listing': true,
  // Of files on this disk.
  verification: false,
  verified: false,
  'web-session': false,
};

/** What another version of the program remembers is not among them. */
const TRAVELLING: ReadonlySet<string> = new Set(
  Object.entries(TRAVELS).flatMap(([scope, travels]) => (travels ? [scope] : [])),
);

/**
 * Returns the bytes of a new database with what may leave this machine, all of one moment. Runs and restores are not in it:
 * the sentences of their failures may name files.
 *
 * @param begin makes the tables
 */
export function travellingCopy(
  database: Database.Database,
  begin: (copy: Database.Database) => void,
): Buffer {
  const rows = database
    .prepare<[], { scope: string; key: string; value: string }>(
      'SELECT scope, key, value FROM remembered',
    )
    .all();
  const copy = new Database(':memory:');
  try {
    begin(copy);
    const put = copy.prepare('INSERT INTO remembered (scope, key, value) VALUES (?, ?, ?)');
    copy.transaction(() => {
      for (const { scope, key, value } of rows) {
        if (TRAVELLING.has(scope)) put.run(scope, key, value);
      }
    })();
    return copy.serialize();
  } finally {
    copy.close();
  }
}
