import { readConfigFile } from '../core/config-file.ts';
import { locateConfig } from '../core/config-locate.ts';
import { usageError } from '../core/error-tables.ts';
import { nearest } from '../core/names.ts';
import { openState, readState, type StateFile } from '../core/state.ts';
import type { EngineContext } from './open-reader.ts';
import type { SearchNode } from './query-ast.ts';

/**
 * The host of each configured account by its name in lower case, for queries with `account:`; empty for others
 * and without a configuration. Of the file nothing but these fields is looked at, so that reading works while
 * the rest is wrong.
 */
export function accountHosts(
  node: SearchNode,
  { globals, surroundings, only }: Pick<EngineContext, 'globals' | 'surroundings' | 'only'>,
): ReadonlyMap<string, string> {
  const hosts = new Map<string, string>();
  if (!asksForAccount(node) || only !== undefined) return hosts;
  const file = locateConfig(globals.config, surroundings);
  const config: unknown = file === undefined ? undefined : readConfigFile(file);
  for (const account of listOf(config)) {
    if (typeof account !== 'object' || account === null) continue;
    const name = 'name' in account ? account.name : undefined;
    const url = 'baseUrl' in account ? account.baseUrl : undefined;
    if (typeof name === 'string' && typeof url === 'string' && URL.canParse(url))
      hosts.set(name.toLowerCase(), new URL(url).hostname.toLowerCase());
  }
  return hosts;
}

function listOf(config: unknown): readonly unknown[] {
  if (typeof config !== 'object' || config === null || !('accounts' in config)) return [];
  return Array.isArray(config.accounts) ? config.accounts : [];
}

function asksForAccount(node: SearchNode): boolean {
  if (node.kind === 'and' || node.kind === 'or') return node.nodes.some(asksForAccount);
  return node.kind === 'not' ? asksForAccount(node.node) : node.kind === 'account';
}

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
  return (state?.entries(SCOPE) ?? []).map(({ key: name, value: query }) => ({ name, query }));
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
  checkName(name, '--save');
  const state = openState(dataDir, movedAside);
  try {
    state.set(SCOPE, name, query);
  } finally {
    state.close();
  }
}

/**
 * The same, where the state is open.
 *
 * @param field what the name was typed into
 * @throws usage-option
 */
export function saveIn(
  state: Pick<StateFile, 'set'>,
  field: string,
  name: string,
  query: string | undefined,
): void {
  checkName(name, field);
  state.set(SCOPE, name, query);
}

function checkName(name: string, option: string): void {
  if (!NAME.test(name))
    throw usageError('usage-option', { option, found: name, expected: 'search-name' });
}

/**
 * Replaces `@names` by their saved queries, in brackets unless they are the only term. Quoted text and
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
