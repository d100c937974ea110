import type { UnknownName } from '../catalog/search/resolve.ts';
import { refuseNeverNamed } from '../engine/archive/chosen-names.ts';
import { terminalLine } from '../mail/terminal-safe.ts';
import { unknownText } from '../wording/unknown-names.ts';
import type { Notices } from './notices.ts';

/**
 * Refuses a query that names what never was, and warns of names that only nothing goes by now.
 *
 * @throws usage-unknown-name
 */
export function refuseUnknown(unknown: readonly UnknownName[], notices: Notices): void {
  refuseNeverNamed(unknown);
  for (const name of unknown) notices.warn(unknownText(name, terminalLine(name.found)));
}
