import { createHash } from 'node:crypto';
/** Reports whether a name matches a pattern in which `*` matches any characters. Case-sensitive, like folder paths. */
export function matches(pattern: string, name: string): boolean {
  // Addresses of hundreds of mailboxes are compared with each other.
  if (!pattern.includes('*')) return pattern === name;
  // Greedy, and linear in practice, because patterns come from the user's configuration or command line.
  const [first = '', ...rest] = pattern.split('*');
  if (!name.startsWith(first)) return false;
  const last = rest[rest.length - 1] ?? '';
  let from = first.length;
  for (const piece of rest.slice(0, -1)) {
    const at = name.indexOf(piece, from);
    if (at < 0) return false;
    from = at + piece.length;
  }
  return name.length - last.length >= from && name.endsWith(last);
}

/** Name patterns from the configuration, narrowed by the command line. `*` matches any run of characters. */
export interface Selection {
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  /** Patterns from the command line; undefined to select everything that the configuration does. */
  readonly only?: readonly string[];
}

export function selects({ include, exclude, only }: Selection, name: string): boolean {
  const fits = (pattern: string): boolean => matches(pattern, name);
  return include.some(fits) && !exclude.some(fits) && (only === undefined || only.some(fits));
}

/** Reports whether the configuration selects a name by a pattern other than `*`. */
export function selectsByName(selection: Selection, name: string): boolean {
  const include = selection.include.filter((pattern) => pattern !== '*');
  return selects({ include, exclude: selection.exclude }, name);
}

/** RFC 6154 attributes in lower case, keyed by common English folder names. */
const SPECIAL_USES: Readonly<Record<string, string>> = {
  sent: '\\sent',
  drafts: '\\drafts',
  draft: '\\drafts',
  trash: '\\trash',
  bin: '\\trash',
  spam: '\\junk',
  junk: '\\junk',
  archive: '\\archive',
  flagged: '\\flagged',
};

/** Returns the special use for a word such as `sent`, in any case. */
export function specialUseByName(word: string): string | undefined {
  const name = word.toLowerCase();
  return Object.hasOwn(SPECIAL_USES, name) ? SPECIAL_USES[name] : undefined;
}

/**
 * Returns the folders in one mailbox that a command line name refers to: the folder with that path (`INBOX` in any
 * case, as in IMAP), else the folders that match it as a pattern, else the folders with that special use.
 */
export function findFolders<
  F extends { readonly path: string; readonly specialUse: string | null },
>(name: string, folders: readonly F[]): readonly F[] {
  const exact = folders.filter(({ path }) => path === name || (isInbox(name) && isInbox(path)));
  if (exact.length > 0) return exact;
  if (name.includes('*')) return folders.filter(({ path }) => matches(name, path));
  const use = specialUseByName(name);
  return use === undefined
    ? []
    : folders.filter(({ specialUse }) => specialUse?.toLowerCase() === use);
}

export function isInbox(path: string): boolean {
  return path.toUpperCase() === 'INBOX';
}

/** In characters. Nobody types longer names, and the comparison takes quadratic time. */
const LONGEST = 200;

/**
 * Returns the candidate that a mistyped word probably means: the only one that starts with the word, or the one with
 * the fewest edits. At most a third of the word may differ (one edit for short words).
 */
export function nearest(found: string, candidates: readonly string[]): string | null {
  if (found.length > LONGEST) return null;
  const word = found.toLowerCase();
  const longer = candidates.filter((candidate) => candidate.toLowerCase().startsWith(word));
  if (longer.length === 1 && word.length > 1) return longer[0] ?? null;
  let best: string | null = null;
  let fewestEdits = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const candidate of candidates) {
    // There are at least as many edits as the difference in length.
    if (Math.abs(candidate.length - found.length) >= fewestEdits) continue;
    const edits = editDistance(word, candidate.toLowerCase());
    if (edits < fewestEdits) {
      fewestEdits = edits;
      best = candidate;
    }
  }
  return best;
}

/** Returns the fewest insertions, deletions, substitutions and swaps of adjacent characters between two texts. */
export function editDistance(a: string, b: string): number {
  let previous: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const isSame = a[i - 1] === b[j - 1];
      let cost = Math.min(
        (last[j] ?? 0) + 1,
        (row[j - 1] ?? 0) + 1,
        (last[j - 1] ?? 0) + (isSame ? 0 : 1),
      );
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        cost = Math.min(cost, (previous[j - 2] ?? 0) + 1);
      row.push(cost);
    }
    previous = last;
    last = row;
  }
  return last[b.length] ?? 0;
}

/** Returns the path of the folder that a mistyped path or name probably means. */
export function nearestFolder(
  found: string,
  folders: readonly { readonly path: string; readonly name: string }[],
): string | null {
  const byPath = nearest(found, [...new Set(folders.map(({ path }) => path))]);
  if (byPath !== null) return byPath;
  const name = nearest(found, [...new Set(folders.map((folder) => folder.name))]);
  return folders.find((folder) => folder.name === name)?.path ?? null;
}

/**
 * Returns the known address that a mistyped one probably means. Compares local part and domain separately, because all
 * addresses in one domain look similar.
 */
export function nearestAddress(found: string, addresses: readonly string[]): string | null {
  const [name = '', domain] = found.split('@', 2);
  const candidates = addresses
    .map((address) => ({ address, parts: address.split('@', 2) }))
    .filter(({ parts }) => domain === undefined || nearest(domain, parts.slice(1)) !== null);
  const meant = nearest(name, [...new Set(candidates.map(({ parts: [local = ''] }) => local))]);
  return candidates.find(({ parts: [local] }) => local === meant)?.address ?? null;
}

/**
 * Returns what logs and metrics call a mailbox. The id of an IMAP mailbox contains the user, often an address, and is
 * replaced by a hash.
 */
export function mailboxLabel(resourceId: string): string {
  if (/^[A-Za-z0-9_-]*$/.test(resourceId)) return resourceId;
  return createHash('sha256').update(resourceId).digest('hex').slice(0, 16);
}

/** Names of tenants, nodes and keys of a fleet. */
export const PLAIN_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$/;
export const PLAIN_NAME_TEXT = '1 to 64 letters, digits, dots, dashes and underscores.';
