import { readState } from '../catalog/state.ts';
import { verifyError } from '../errors/verify.ts';
import type {
  KnownDamage,
  KnownFinding,
  VerificationFacts,
  VerificationMode,
} from '../health/facts.ts';
import { recalledVerification } from '../health/verification.ts';
import { terminalLine } from '../mail/terminal-safe.ts';
import { count, counted, span } from './amounts.ts';
import { EXIT_OF_FAMILY } from './exit-codes.ts';
import type { Colours } from './output.ts';
import { sentenceOf } from './sentences.ts';
import type { Trouble } from './sync-report.ts';

/** The last verification as `status --json` shows it. */
export interface VerificationStatus {
  /** ISO 8601: when it began. */
  readonly at: string;
  readonly mode: VerificationMode;
  /** Messages whose bytes it read and compared, of all in the archive. */
  readonly checked: number;
  readonly of: number;
  /** ISO 8601: when every byte was last read; null while it never was. */
  readonly fullAt: string | null;
  /** Whether no damage is known. */
  readonly ok: boolean;
  /** ISO 8601: when the first of the known damage was found; null where none is known. */
  readonly damagedSince: string | null;
  /** All that is known; `findings` holds the first ones. */
  readonly found: number;
  readonly findings: readonly KnownFinding[];
  /** The last drill: when it began (ISO 8601), and how many messages of how many it read back; null for none. */
  readonly drill: { readonly at: string; readonly checked: number; readonly of: number } | null;
}

export function verificationStatus(last: VerificationFacts | null): VerificationStatus | null {
  if (last === null) return null;
  const { at, mode, checked, of, fullAt, ok, damage, drill } = last;
  return {
    at: new Date(at).toISOString(),
    mode,
    checked,
    of,
    fullAt: fullAt === null ? null : new Date(fullAt).toISOString(),
    ok,
    damagedSince: damage === null ? null : new Date(damage.since).toISOString(),
    found: damage?.found ?? 0,
    findings: damage?.findings ?? [],
    drill: drill === null ? null : { ...drill, at: new Date(drill.at).toISOString() },
  };
}

/** Reads what is known of an archive's damage; null where none is, or where nothing can be read. */
export function readDamage(dataDir: string): KnownDamage | null {
  const state = readState(dataDir);
  try {
    return recalledVerification(state)?.damage ?? null;
  } finally {
    state?.close();
  }
}

/** The error of an archive whose damage is known. */
export function damageError({ found, findings }: KnownDamage) {
  return verifyError('archive-damaged', { found, findings: findings.map(({ text }) => text) });
}

/** Known damage as what a pass has to report, and how the process then ends. */
export function damageTrouble(damage: KnownDamage): Trouble {
  const error = damageError(damage);
  return { ...sentenceOf(error), exit: EXIT_OF_FAMILY[error.family] };
}

/** Findings that a person is shown; --json has more. */
const MOST_SHOWN = 5;

/** What is known of the archive's bytes, for `status`. */
export function verificationLines(
  last: VerificationStatus | null,
  now: number,
  colours: Colours,
): string[] {
  if (last === null) return ['never verified: "mailkeep verify" reads every byte'];
  const { found, findings } = last;
  const shown = findings.slice(0, MOST_SHOWN);
  const more = found - shown.length;
  return [
    verifiedText(last, now),
    ...drillLines(last, now),
    ...shown.map(({ text }) => `${colours.red('DAMAGED')} ${terminalLine(text)}`),
    ...(found > 0 && more > 0 ? [`… and ${counted(more, 'more finding')}`] : []),
    ...(found > 0
      ? [
          colours.red(
            `${counted(found, 'finding')}: "mailkeep verify --repair" brings back what can be found.`,
          ),
        ]
      : []),
  ];
}

/** The last drill, where it is not what is shown as the last verification. */
function drillLines({ mode, drill }: VerificationStatus, now: number): string[] {
  if (drill === null || mode === 'drill') return [];
  const ago = span(Math.max(0, now - Date.parse(drill.at)));
  return [`last drill ${ago} ago (${count(drill.checked)} of ${counted(drill.of, 'message')})`];
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
