import { usageError } from '../errors/usage.ts';
import { nearest } from '../names/nearest.ts';
import { openState, readState, type StateFile } from '../state/state-file.ts';

/** A query that was given a name; relative dates in it are relative to when it is used. */
export interface SavedSearch {
  readonly name: string;
  readonly query: string;
}

const SCOPE = 'saved-search';
const NAME = /^[\p{L}\p{N}][\p{L}\p{N}_-]{0,63}$/u;
/** `@name` as a word of its own; an address or a domain has a dot, or something before the @. */
const USED = /(?<=^|[\s({-])@([\p{L}\p{N}][\p{L}\p{N}_-]*)(?=$|[\s)}])/gu;

/** Every saved search by name. Reading makes no file: an archive on a read-only disk has those it came with. */
export function savedSearches(dataDir: string): SavedSearch[] {
  const state = readState(dataDir);
  try {
    return savedIn(state);
  } finally {
    state?.close();
  }
}

/** The same, where the state is open; none where there is no state yet. */
export function savedIn(state: Pick<StateFile, 'entries'> | undefined): SavedSearch[] {
  return (state?.entries(SCOPE) ?? []).flatMap(({ key, value }) =>
    typeof value === 'string' ? [{ name: key, query: value }] : [],
  );
}

/**
 * Saves a query under a name, in place of what had it; undefined forgets the name.
 *
 * @throws usage-option for a name that could not be used, `catalog-io` where nothing can be written
 */
export function saveSearch(
  dataDir: string,
  name: string,
  query: string | undefined,
  movedAside: (file: string) => void,
): void {
  if (!NAME.test(name))
    throw usageError('usage-option', {
      option: '--save',
      found: name,
      expected: 'a name of letters, digits, - and _',
    });
  const state = openState(dataDir, movedAside);
  try {
    state.set(SCOPE, name, query);
  } finally {
    state.close();
  }
}

/**
 * Puts saved queries in the place of their `@names`, in brackets unless they are all there is. Quoted text and
 * addresses stay what they are. Saved queries may use each other when they are saved, not later.
 *
 * @throws usage-unknown-search
 */
export function withSaved(query: string, searches: () => readonly SavedSearch[]): string {
  if (!query.includes('@')) return query;
  let known: readonly SavedSearch[] | undefined;
  const whole = query.trim();
  return query
    .split(/("[^"]*")/)
    .map((piece, i) =>
      i % 2 === 1
        ? piece
        : piece.replaceAll(USED, (used: string, name: string) => {
            known ??= searches();
            const saved = known.find((search) => search.name === name);
            if (saved === undefined) {
              const names = known.map((search) => search.name);
              throw usageError('usage-unknown-search', { name, suggestion: nearest(name, names) });
            }
            return used === whole ? saved.query : `(${saved.query})`;
          }),
    )
    .join('');
}
