/**
 * What state.sqlite holds: every scope with the kind of its keys and the shape of its values. Nothing of it is part of
 * the archive; what is missing or malformed is learned again.
 */

/**
 * What a key names. `place`, `generation` and `folder` keys begin with the same folder key, so that purges and renames
 * find what they concern (see `placeKey`, `generationKey` and `folderKey`).
 */
export type KeyKind =
  /** One message: a folder's generation and a uid. */
  | 'place'
  /** A folder and its UIDVALIDITY. */
  | 'generation'
  | 'folder'
  /** A folder that listings lack; one that was renamed is not missing. */
  | 'missing-folder'
  /** A folder, or a mailbox as a whole. */
  | 'folder-or-mailbox'
  | 'mailbox'
  /** An account of the configuration, with the host where it matters. */
  | 'account'
  /** A host name, without its port. */
  | 'host'
  /** A gate of the limiter: host and port, and the account's label. */
  | 'gate'
  | 'segment'
  /** Any other name. */
  | 'name';

interface Scope<K extends KeyKind = KeyKind, T = unknown> {
  readonly key: K;
  /** Returns the value, or undefined for anything that another version or a damaged disk may have left. */
  readonly parse: (value: unknown) => T | undefined;
}

type Fields = Readonly<Record<string, unknown>>;

const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null;
const number = (value: unknown): number | undefined =>
  typeof value === 'number' && Number.isFinite(value) ? value : undefined;
const text = (value: unknown): string | undefined =>
  typeof value === 'string' ? value : undefined;
const mark = (value: unknown): true | undefined => (value === true ? true : undefined);

/** Milliseconds since the epoch, like every time in the state. */
function since(value: unknown): { readonly since: number } | undefined {
  const at = isFields(value) ? number(value.since) : undefined;
  return at === undefined ? undefined : { since: at };
}

/** The room that writes the value parses it: its shape is that room's own. */
function own(value: unknown): unknown {
  return value ?? undefined;
}

function scope<const K extends KeyKind, T>(
  key: K,
  parse: (value: unknown) => T | undefined,
): Scope<K, T> {
  return { key, parse };
}

function list<T>(item: (value: unknown) => T | undefined): (value: unknown) => T[] | undefined {
  return (value) =>
    Array.isArray(value) ? value.map(item).filter((found) => found !== undefined) : undefined;
}

export const SCOPES = {
  /** When the mailboxes of an account were listed last. */
  'account-listed': scope('account', number),
  /** The mailboxes that an account has listed, and since when one is not listed any more. */
  'account-mailboxes': scope('account', own),
  /** How many assumed places were checked in the current hour. */
  'assumed-checked': scope('account', (value) => {
    const begun = since(value);
    const count = isFields(value) ? number(value.count) : undefined;
    return begun === undefined || count === undefined ? undefined : { ...begun, count };
  }),
  /** When an assumed place was last tried in vain. */
  'assumed-tried': scope('place', number),
  /** When a host last showed that reading a source leaves a message unread. */
  canary: scope('host', (value) => {
    const provenAt = isFields(value) ? number(value.provenAt) : undefined;
    return provenAt === undefined ? undefined : { provenAt };
  }),
  /** The uid intervals that are covered. */
  coverage: scope('generation', own),
  /** What the service logged of webhook deliveries. */
  'delivery-log': scope('account', own),
  /** Fetches that were not accepted. */
  'earlier-fetches': scope(
    'place',
    list((value) => {
      if (!isFields(value)) return undefined;
      const [at, sha256] = [number(value.at), text(value.sha256)];
      return at === undefined || sha256 === undefined ? undefined : { at, sha256 };
    }),
  ),
  /** What a folder's flags were last compared at. */
  'flag-counts': scope('folder', own),
  /** Since when a host's search does not heed flags. */
  'flag-search-refused': scope('host', (value) => mark(value) ?? since(value)),
  /** Since when the brake holds places of a folder. */
  held: scope('folder', since),
  /** What the limiter learned. */
  limiter: scope('gate', own),
  /** What each channel was notified of. */
  notify: scope('name', own),
  /** Sources in a row that came with another Message-ID than listed. */
  'odd-ids': scope('host', number),
  /** When a folder was last compared with the service, and with what result. */
  proof: scope('folder', own),
  /** How often a quarantined place was retried, and when last. */
  'quarantine-tries': scope('place', (value) => {
    if (!isFields(value)) return undefined;
    const [tries, at] = [number(value.tries), number(value.at)];
    return tries === undefined || at === undefined ? undefined : { tries, at };
  }),
  /** The quotas of a mailbox, as the service last reported them. */
  quota: scope('mailbox', own),
  /** Searches that were given a name. */
  'saved-search': scope('name', text),
  /** When each schedule was last begun. */
  schedule: scope('name', number),
  /** Since when a host's search does not do what a walk needs. */
  'search-refused': scope('host', (value) => mark(value) ?? since(value)),
  /** What was learned about a host's listed sizes. */
  'size-lessons': scope('host', own),
  /** Since when the platform's listing shows a mailbox as suspended. */
  suspended: scope('mailbox', number),
  /** The uids that the sweep under way has answered for. */
  swept: scope('generation', own),
  /** Since when a folder is missing from listings. */
  unlisted: scope('missing-folder', since),
  /** What the configuration of the last pass left out. */
  unwatched: scope('folder-or-mailbox', mark),
  /** What the last listing of an account's order cost, or that it failed. */
  'usage-listing': scope('account', own),
  /** The last verification and drill, and the damage that is known. */
  verification: scope('name', own),
  /** How far samples have verified a segment. */
  verified: scope('segment', own),
} as const;

export type ScopeName = keyof typeof SCOPES;
/** The value of a scope as it is read. */
export type ScopeValue<S extends ScopeName> = NonNullable<ReturnType<(typeof SCOPES)[S]['parse']>>;

/** The scopes whose keys are of a kind. */
export type ScopeOf<K extends KeyKind> = {
  [S in ScopeName]: (typeof SCOPES)[S]['key'] extends K ? S : never;
}[ScopeName];

/** Returns the scopes whose keys are of a kind. */
export function scopesOf<K extends KeyKind>(kind: K): ScopeOf<K>[];
export function scopesOf(kind: KeyKind): ScopeName[] {
  const found: ScopeName[] = [];
  let scope: ScopeName;
  for (scope in SCOPES) if (SCOPES[scope].key === kind) found.push(scope);
  return found;
}

/** Returns a stored value as its scope parses it; undefined for anything else. */
export function parseValue<S extends ScopeName>(
  scope: S,
  value: unknown,
): ScopeValue<S> | undefined;
export function parseValue(scope: ScopeName, value: unknown): unknown {
  return SCOPES[scope].parse(value);
}
