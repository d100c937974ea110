import { readConfigFile } from '../config/file.ts';
import { locateConfig } from '../config/locate.ts';
import type { SearchNode } from '../search/ast.ts';
import type { EngineContext } from './context.ts';

/**
 * The host of each configured account by its name in lower case, for queries with `account:`; empty for others
 * and without a configuration. Of the file nothing but these fields is looked at, so that reading works while
 * the rest is wrong.
 */
export function accountHosts(
  node: SearchNode,
  { globals, surroundings }: Pick<EngineContext, 'globals' | 'surroundings'>,
): ReadonlyMap<string, string> {
  const hosts = new Map<string, string>();
  if (!asksForAccount(node)) return hosts;
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
