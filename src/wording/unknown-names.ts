import type { UnknownName } from '../catalog/resolve-query.ts';

/**
 * Returns the warning about a name in a query that nothing goes by now; what never was is an error already.
 *
 * @param found the name as it may be shown where the warning goes
 */
export function unknownText({ kind, never }: UnknownName, found: string): string {
  const name = `${kind} "${found}"`;
  return never ? `the archive has no ${name}` : `nothing in the archive is in the ${name} now`;
}
