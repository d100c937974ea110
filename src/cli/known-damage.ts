import type { VerificationStatus } from '../health/verification.ts';
import { terminalLine } from '../mail/terminal-safe.ts';
import { count, counted, span } from '../wording/amounts.ts';
import { type Colours, present } from './output.ts';
import { commandLine } from './place-line.ts';

/** Findings that a person is shown; --json has more. */
const MOST_SHOWN = 5;

/** What is known of the archive's bytes, for `status`. */
export function verificationLines(
  last: VerificationStatus | null,
  now: number,
  colours: Colours,
  data?: string,
): string[] {
  if (last === null) return [`never verified: "${commandLine('verify', data)}" reads every byte`];
  const { found, findings } = last;
  const shown = findings.slice(0, MOST_SHOWN);
  const more = found - shown.length;
  return present([
    verifiedText(last, now),
    drillLine(last, now),
    shown.map(({ text }) => `${colours.red('DAMAGED')} ${terminalLine(text)}`),
    found > 0 && more > 0 && `… and ${counted(more, 'more finding')}`,
    found > 0 &&
      colours.red(
        `${counted(found, 'finding')}: "${commandLine('verify --repair', data)}" recovers what can be found.`,
      ),
  ]);
}

/** The last drill, where it is not what is shown as the last verification. */
function drillLine({ mode, drill }: VerificationStatus, now: number): string | false {
  if (drill === null || mode === 'drill') return false;
  const ago = span(Math.max(0, now - Date.parse(drill.at)));
  return `last drill ${ago} ago (${count(drill.checked)} of ${counted(drill.of, 'message')})`;
}

/** When the archive was last verified, and how much of it. */
export function verifiedText(last: VerificationStatus, now: number): string {
  const { at, mode, checked, of, fullAt, found } = last;
  const ago = (iso: string): string => `${span(Math.max(0, now - Date.parse(iso)))} ago`;
  const every = fullAt === null ? 'not every byte was read yet' : `every byte ${ago(fullAt)}`;
  const what = {
    full: 'every byte',
    repair: 'every byte, by a repair',
    quick: 'structure and catalog only',
    sample: `a sample, ${count(checked)} of ${counted(of, 'message')}`,
    drill: `a drill with ${count(checked)} of ${counted(of, 'message')}`,
    rebuild: 'while the catalog was rebuilt',
  }[mode];
  const rest = mode === 'full' || mode === 'repair' ? '' : `; ${every}`;
  return `verified ${ago(at)} (${what})${rest}${found === 0 ? ', no damage' : ''}`;
}
