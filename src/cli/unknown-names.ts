import type { UnknownName } from '../catalog/search/resolve.ts';
import { refuseNeverNamed } from '../engine/archive/chosen-names.ts';
import { terminalLine } from '../mail/terminal-safe.ts';
import type { Notices } from './notices.ts';

/**
 * Refuses a query that names what never was, and warns of names that only nothing goes by now.
 *
 * @throws usage-unknown-name
 */
export function refuseUnknown(unknown: readonly UnknownName[], notices: Notices): void {
  refuseNeverNamed(unknown);
  for (const name of unknown) notices.warn(unknownText(name));
}

/** A name in a query that nothing has now; what never was is an error already. */
function unknownText({ kind, found, never }: UnknownName): string {
  const name = `${kind} "${terminalLine(found)}"`;
  return never ? `the archive has no ${name}` : `nothing in the archive is in the ${name} now`;
}
