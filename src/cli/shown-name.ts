import { fitColumns, terminalLine } from '../mail/terminal-safe.ts';

/** Columns of one name: more than any address or path that people choose. */
const MOST = 200;

/**
 * Returns an address, a folder's path or both for a line of a report: harmless for a terminal, and cut to 200 columns,
 * because a service may name things at any length. JSON has them in full.
 */
export function shownName(...parts: readonly string[]): string {
  return parts.map((part) => fitColumns(terminalLine(part), MOST)).join(' / ');
}
