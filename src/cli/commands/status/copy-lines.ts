import type { CopyStatus } from '../../../health/copies.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import { count, counted, span } from '../../../wording/amounts.ts';
import { type Colours, present } from '../../output.ts';

/** The copies of the archive for people: a line each, and one for each thing that is wrong. */
export function copyLines(
  copies: readonly CopyStatus[],
  now: number,
  colours: Colours,
): readonly string[] {
  if (copies.length === 0) return [];
  return ['', ...copies.flatMap((copy) => linesOf(copy, now, colours))];
}

function linesOf(copy: CopyStatus, now: number, { red }: Colours): string[] {
  const { to, copiedAt, behind, everySeconds, stale, failure, damage } = copy;
  const ago = (iso: string): string => `${span(Math.max(0, now - Date.parse(iso)))} ago`;
  const parts = present([
    copiedAt === null ? 'not made yet' : `made ${ago(copiedAt)}`,
    behind !== null && (behind === 0 ? 'complete' : `lacks ${counted(behind, 'commit')}`),
    everySeconds === null && 'not kept by the daemon',
    verifiedPart(copy, ago),
  ]).join(', ');
  return present([
    `copy ${terminalLine(to)}: ${stale ? red(`STALE: ${parts}`) : parts}`,
    failure !== null &&
      `  ${red(`failing for ${span(Math.max(0, now - Date.parse(failure.since)))}, ${counted(failure.tries, 'attempt')}: ${terminalLine(failure.message)}`)}`,
    damage !== null && `  ${red(`DAMAGED: ${terminalLine(damage.message)}`)}`,
  ]);
}

function verifiedPart({ verified }: CopyStatus, ago: (iso: string) => string): string | false {
  if (verified === null) return false;
  const { at, checked, of, unit, fullAt } = verified;
  const rest = checked < of && fullAt !== null ? `; all of it ${ago(fullAt)}` : '';
  return `${count(checked)} of ${counted(of, unit)} read back ${ago(at)}${rest}`;
}

/** Returns what monitoring is alerted to. @param fresh whether nothing is stale; null where that was not asked */
export function wrongCopyLines(copies: readonly CopyStatus[], fresh: boolean | null): string[] {
  return copies.flatMap(({ to, stale, damage }) =>
    present([
      damage !== null && `Damaged: the copy at ${terminalLine(to)}`,
      fresh === false && stale && `Stale: the copy at ${terminalLine(to)}`,
    ]),
  );
}
