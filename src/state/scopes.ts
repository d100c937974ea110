import { readHostPause } from '../limiter/host-pause.ts';
import { readPaceState } from '../limiter/pace.ts';
import type { FolderKey, MailboxKey, Place } from '../mail/words.ts';
import { knownCopy } from './copies.ts';
import { diskSample, requestDay } from './measured.ts';
import { fields, list, mark, number, otherwise, type Read, text } from './shape.ts';
import {
  apiToken,
  deliveries,
  flagCounts,
  listingCost,
  mailboxes,
  proof,
  quota,
  sizeLessons,
  uidPairs,
  verification,
  webSession,
} from './values.ts';

/**
 * What state.sqlite holds: every scope with the kind of its keys and the shape of its values. Nothing of it is part of
 * the archive; what is missing or malformed is learned again.
 */

/**
 * What a key names. `place`, `generation` and `folder` keys begin with the same folder key, so that purges and renames
 * find what they concern (see `placeKey`, `generationKey` and `folderKey` below).
 */
export type KeyKind =
  /** One message: a folder's generation and a uid. */
  | 'place'
  /** A folder's generation. */
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
  readonly parse: Read<T>;
}

/** Milliseconds since the epoch, like every time in the state. */
const since = fields({ since: number });

function scope<const K extends KeyKind, T>(key: K, parse: Read<T>): Scope<K, T> {
  return { key, parse };
}

export const SCOPES = {
  /** When the mailboxes of an account were listed last. */
  'account-listed': scope('account', number),
  /** The mailboxes that an account has listed, and since when one is not listed any more. */
  'account-mailboxes': scope('account', mailboxes),
  /** The tokens of the API, by the HMAC of their secret. */
  'api-token': scope('name', apiToken),
  /** The key of those HMACs, base64url. */
  'api-token-key': scope('name', text),
  /** How many assumed places were checked in the current hour. */
  'assumed-checked': scope('account', fields({ since: number, count: number })),
  /** When an assumed place was last tried in vain. */
  'assumed-tried': scope('place', number),
  /** When a host last showed that reading a source leaves a message unread. */
  canary: scope('host', fields({ provenAt: number })),
  /** The configuration without its secrets, as a copy last carried it. */
  'copy-config': scope('name', (value): unknown => value ?? undefined),
  /** Until when this machine locked an object of an off-site copy, by the copy's id and the object's name. */
  'copy-lock': scope('name', number),
  /** An off-site copy still holds what was purged here, by the copy's id. */
  'copy-purge': scope('name', mark),
  /** The newest manifest of an off-site copy that was written or read here, by the copy's id. */
  'copy-seen': scope('name', fields({ commit: number, sequence: number, at: number })),
  /** Copies of the archive, by their address: what the daemon wants of them, and how they are. */
  'copy-target': scope('name', knownCopy),
  /** Objects of an off-site copy that no manifest lists yet, by the copy's id and the object's name. */
  'copy-upload': scope('name', fields({ length: number, sha256: text })),
  /** The uid intervals that are covered. */
  coverage: scope('generation', uidPairs),
  /** What the service logged of webhook deliveries. */
  'delivery-log': scope('account', deliveries),
  /** How large the archive was on a UTC day. */
  'disk-sample': scope('name', diskSample),
  /** Fetches that were not accepted. */
  'earlier-fetches': scope('place', list(fields({ at: number, sha256: text }))),
  /** What a folder's flags were last compared at. */
  'flag-counts': scope('folder', flagCounts),
  /** Since when a host's search does not heed flags. */
  'flag-search-refused': scope('host', (value) => mark(value) ?? since(value)),
  /** Since when the brake holds places of a folder. */
  held: scope('folder', since),
  /** What the limiter learned. */
  limiter: scope('gate', (value) => readPaceState(value) ?? readHostPause(value) ?? undefined),
  /** What each channel was notified of; the notifier, which alone reads it, parses it. */
  notify: scope('name', (value): unknown => value ?? undefined),
  /** Sources in a row that came with another Message-ID than listed. */
  'odd-ids': scope('host', number),
  /** When a folder was last compared with the service, and with what result. */
  proof: scope('folder', proof),
  /** How often a quarantined place was retried, and when last. */
  'quarantine-tries': scope('place', fields({ tries: number, at: number })),
  /** The quotas of a mailbox, as the service last reported them. */
  quota: scope('mailbox', quota),
  /** The requests of a gate on a UTC day, see `requestKey`. */
  requests: scope('name', requestDay),
  /** Searches that were given a name. */
  'saved-search': scope('name', text),
  /** When each schedule was last begun. */
  schedule: scope('name', number),
  /** Since when a host's search does not do what a walk needs. */
  'search-refused': scope('host', (value) => mark(value) ?? since(value)),
  /** What was learned about a host's listed sizes. */
  'size-lessons': scope('host', sizeLessons),
  /** Since when the platform's listing shows a mailbox as suspended. */
  suspended: scope('mailbox', number),
  /** The uids that the sweep under way has answered for. */
  swept: scope('generation', fields({ since: number, uids: uidPairs })),
  /** Since when a folder is missing from listings. */
  unlisted: scope('missing-folder', since),
  /** What the configuration of the last pass left out. */
  unwatched: scope('folder-or-mailbox', mark),
  /** What the last listing of an account's order cost, or that it failed. */
  'usage-listing': scope('account', listingCost),
  /** The last verification and drill, and the damage that is known. */
  verification: scope('name', verification),
  /** How far samples have verified a segment. */
  verified: scope(
    'segment',
    fields({ at: number, covered: number, next: number, end: otherwise(number, 0) }),
  ),
  /** The signed-in browsers of the web interface, by the SHA-256 of their cookie's value. */
  'web-session': scope('name', webSession),
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

/** Returns the key of a place. */
export function placeKey(place: Place): string {
  return `${generationKey(place, place.generation)}/${place.uid}`;
}

/** Returns the key of a folder's generation. */
export function generationKey(at: FolderKey, generation: number): string {
  return `${folderKey(at)}/${generation}`;
}

/** Returns the key of a folder; JSON, because a path may hold any character. */
export function folderKey({ host, mailbox, folder }: FolderKey): string {
  return JSON.stringify([host, mailbox, folder]);
}

/** Returns the key of a mailbox. */
export function mailboxKey({ host, mailbox }: MailboxKey): string {
  return JSON.stringify([host, mailbox]);
}

/** Returns the key of an account, by its name in the configuration and the host it is at. */
export function accountKey(account: string, host: string): string {
  return JSON.stringify([account, host]);
}

/** Returns the account and the host of a key that `accountKey` made. */
export function accountIn(key: string): { readonly account: string; readonly host: string } {
  const [account = '', host = ''] = list(text)(JSON.parse(key)) ?? [];
  return { account, host };
}
