import { readConfigFile } from '../core/config-file.ts';
import { locateConfig } from '../core/config-locate.ts';
import { usageError } from '../core/error-tables.ts';
import { nearest } from '../core/names.ts';
import { openState, readState, type StateFile } from '../core/state.ts';
import type { EngineContext } from './open-reader.ts';
import type { SearchNode } from './query-ast.ts';

/**
 * Returns hosts by lower-case account name, for queries with `account:`. Returns none for other queries or if there is
 * no configuration. Ignores all other fields of the file, so that searching works even if they are invalid.
 */
export function accountHosts(
  node: SearchNode,
  { globals, environment }: Pick<EngineContext, 'globals' | 'environment'>,
): ReadonlyMap<string, string> {
  const hosts = new Map<string, string>();
  if (!asksForAccount(node)) return hosts;
  const file = locateConfig(globals.config, environment);
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

/** A named query. Its relative dates are evaluated when it is used. */
export interface SavedSearch {
  readonly name: string;
  readonly query: string;
}

const SCOPE = 'saved-search';
const NAME = /^[\p{L}\p{N}](?:[\p{L}\p{N} _-]{0,62}[\p{L}\p{N}_-])?$/u;
/**
 * Quoted text, or `@name` or `@"a name"` as a separate word. An address or domain has a dot, or text before the @.
 */
const USED =
  /"[^"]*"|(?<=^|[\s({"-])@(?:["“„]([^"“”„]+)["“”]|([\p{L}\p{N}][\p{L}\p{N}_-]*))(?=$|[\s)}"])/gu;

/** Reads the saved searches without creating a file, so that it works on a read-only disk. */
export function readSavedSearches(dataDir: string): SavedSearch[] {
  const state = readState(dataDir);
  try {
    return listSavedSearches(state);
  } finally {
    state?.close();
  }
}

export function listSavedSearches(state: Pick<StateFile, 'entries'> | undefined): SavedSearch[] {
  return (state?.entries(SCOPE) ?? []).map(({ key: name, value: query }) => ({ name, query }));
}

/**
 * Saves a query under a name; undefined deletes the name.
 *
 * @throws usage-option for an invalid name, `catalog-io` if nothing can be written
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
 * Saves a query under a name in an open state; undefined deletes the name.
 *
 * @param field input field or option to name in the error
 * @throws usage-option
 */
export function saveSearchIn(
  state: Pick<StateFile, 'set'>,
  field: string,
  name: string,
  query: string | undefined,
): void {
  checkName(name, field);
  state.set(SCOPE, name, query);
}

/** Reads a name as typed, which may be written as in a query. */
export function readSearchName(typed: string): string {
  const name = typed.trim().replace(/^@/, '');
  return name.replace(/^["“„](.*)["“”]$/s, '$1').trim();
}

function checkName(name: string, option: string): void {
  if (!NAME.test(name))
    throw usageError('usage-option', { option, found: name, expected: 'search-name' });
}

/**
 * Replaces `@name` and `@"a name"` with the saved queries they refer to, in brackets unless the name is the whole query. Quoted text
 * and addresses are left unchanged. Names within a saved query were replaced when it was saved.
 *
 * @throws usage-unknown-search
 */
export function expandSaved(query: string, searches: () => readonly SavedSearch[]): string {
  if (!query.includes('@')) return query;
  let cache: readonly SavedSearch[] | undefined;
  const whole = query.trim();
  return query.replaceAll(USED, (used: string, quoted?: string, plain?: string) => {
    const name = quoted ?? plain;
    if (name === undefined) return used;
    cache ??= searches();
    const match = cache.find((search) => search.name === name);
    if (match === undefined) {
      const names = cache.map((search) => search.name);
      throw usageError('usage-unknown-search', { name, suggestion: nearest(name, names) });
    }
    return used === whole ? match.query : `(${match.query})`;
  });
}
