import type { Catalog } from '../catalog/catalog.ts';
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

/** Warns that a moment lies before the first commit: that nothing is found says nothing about the mailbox then. */
export function warnBeforeBeginning(
  { charts }: Pick<Catalog, 'charts'>,
  asOf: number | null | undefined,
  notices: Notices,
): void {
  const first = charts.firstCommitAt();
  if (asOf === undefined || asOf === null || first === undefined || asOf >= first) return;
  const begins = new Date(first).toISOString().replace(/\.\d+Z$/, 'Z');
  notices.warn(`The archive begins at ${begins}: it knows nothing from before that time.`);
}
