import type { Writable } from 'node:stream';
import pc from 'picocolors';
import type { EngineContext, EngineEvent, UnwrittenState } from '../catalog/open-reader.ts';
import type { ConfigWarning } from '../core/config.ts';
import {
  combineExitCodes,
  describeError,
  describeFacts,
  EXIT_OF_FAMILY,
  type ExitCode,
  type MailkeepError,
} from '../core/errors.ts';
import type { KnownDamage } from '../core/state.ts';
import { jsonLine, terminalLine } from '../core/terminal-safe.ts';
import { bytes, count, counted, span } from '../core/text.ts';
import { syncError } from '../sync/errors.ts';
import type { MailboxResult, SyncFailure, SyncResult } from '../sync/result.ts';
import { damageError } from '../verify/errors.ts';
import type { VerificationStatus } from '../verify/verification.ts';
import { findingText } from './finding-text.ts';
import {
  type ColourOptions,
  type Colours,
  commandLine,
  displayName,
  fitNarrow,
  joinReport,
  usesColour,
} from './output.ts';

/** A problem reported with the result of a sync run, with its exit code. */
export interface SyncProblem extends ErrorReport {
  readonly exit: ExitCode;
}

export function syncExitCode(result: SyncResult): ExitCode {
  return combineExitCodes(listProblems(result).map(({ exit }) => exit));
}

/** Returns the problems of a sync run, most severe first. */
export function listProblems({ failures, mailboxes }: SyncResult): SyncProblem[] {
  const problems = failures.map(describeFailure);
  const held = sumOf(mailboxes, 'held');
  if (held.sum > 0) {
    const facts = { held: held.sum, mailboxes: held.addresses, until: lastEnd(mailboxes) };
    problems.push(problemOf(syncError('sync.held', facts)));
  }
  const quarantined = sumOf(mailboxes, 'quarantined');
  if (quarantined.sum > 0) {
    const facts = { quarantined: quarantined.sum, mailboxes: quarantined.addresses };
    problems.push(problemOf(syncError('sync.quarantined', facts)));
  }
  const worst = combineExitCodes(problems.map(({ exit }) => exit));
  return problems.sort((a, b) => Number(b.exit === worst) - Number(a.exit === worst));
}

/** Returns known damage as a problem of a sync run. */
export function damageProblem(damage: KnownDamage): SyncProblem {
  return problemOf(damageError(damage));
}

function problemOf(error: MailkeepError): SyncProblem {
  return { ...describeError(error), exit: EXIT_OF_FAMILY[error.family] };
}

function describeFailure(failure: SyncFailure): SyncProblem {
  const { account, mailbox, folder, uid, code, facts, family } = failure;
  const parts = [mailbox ?? account, folder, uid].map((part) => String(part ?? ''));
  const place = displayName(...parts.filter((part) => part !== ''));
  const { message, hint } = describeFacts(code, facts);
  return {
    code,
    message: place === '' ? message : `${place}: ${message}`,
    hint,
    exit: EXIT_OF_FAMILY[family],
  };
}

function sumOf(mailboxes: readonly MailboxResult[], field: 'held' | 'quarantined') {
  const affected = mailboxes.filter((mailbox) => mailbox[field] > 0);
  return {
    sum: affected.reduce((total, mailbox) => total + mailbox[field], 0),
    addresses: affected.map(({ address }) => displayName(address)),
  };
}

/** Returns when the last pending deletion ends. ISO times sort as text. */
function lastEnd(mailboxes: readonly MailboxResult[]): string | null {
  const pending = mailboxes.filter((mailbox) => mailbox.held > 0);
  return (
    pending
      .flatMap(({ heldUntil }) => heldUntil ?? [])
      .sort()
      .at(-1) ?? null
  );
}

interface ErrorReport {
  readonly code: string;
  readonly message: string;
  readonly hint: string | null;
  /** The service's own response, as JSON and as lines. */
  readonly answer?: { readonly json: object; readonly lines: readonly string[] };
}

/** Prints an error on standard error: an object with `--json`, otherwise a sentence and a hint. */
export function printError(
  stderr: Writable & { readonly isTTY?: boolean; readonly columns?: number },
  json: boolean,
  report: ErrorReport,
): void {
  const { code, message, hint, answer } = report;
  if (json) {
    const details = answer === undefined ? {} : { answer: answer.json };
    stderr.write(`${jsonLine({ error: { code, message, hint, ...details } })}\n`);
    return;
  }
  const lines = [
    `mailkeep: ${message}`,
    ...(answer?.lines ?? []),
    ...(hint === null ? [] : [hint]),
  ];
  const text = lines.join('\n');
  stderr.write(`${stderr.isTTY === true ? fitNarrow(text, stderr.columns) : text}\n`);
}

/** A warning for programs. Codes are stable, sentences are not. */
interface Warning {
  readonly code: string;
  readonly message: string;
  readonly hint: string;
}

/**
 * Prints notices on standard error. With `--json`, standard error contains either one error, or the warnings of a
 * successful command.
 */
export function streamNotices(
  stream: Writable & { isTTY?: boolean; columns?: number },
  options: {
    readonly quiet: boolean;
    readonly json: boolean;
    readonly verbose?: boolean;
  } & ColourOptions,
) {
  const terminal = stream.isTTY === true;
  const colours = pc.createColors(usesColour(terminal, options));
  const line = (text: string): void => {
    if (!options.quiet && !options.json)
      stream.write(`${terminal ? fitNarrow(text, stream.columns) : text}\n`);
  };
  const warn = (text: string): void => line(`${colours.yellow('warning:')} ${text}`);
  const alerts: Warning[] = [];
  return {
    /** True if progress can be redrawn: on a terminal, without `--quiet` or `--json`. */
    live: terminal && !options.quiet && !options.json,
    colours,
    stream,
    /** Prints a line about the current work. Silent with `--quiet` and `--json`. */
    say: line,
    /** Prints a diagnostic line with `--verbose`, unless `say` is silent. */
    detail(text: string): void {
      if (options.verbose === true) line(colours.dim(text));
    },
    /** Silent with `--quiet` and `--json`. */
    warn,
    /** Prints a warning, or with `--json` keeps it for `settle` to write. Silent with `--quiet`. */
    alert(warning: Warning): void {
      if (options.json && !options.quiet) alerts.push(warning);
      else warn(`${warning.message} ${warning.hint}`);
    },
    /** Writes the alerts kept for `--json`, one per line. Call it after a command has succeeded. */
    settle(): void {
      for (const { code, message, hint } of alerts.splice(0)) {
        stream.write(`${jsonLine({ warning: { code, message, hint } })}\n`);
      }
    },
  };
}

export type Notices = Readonly<ReturnType<typeof streamNotices>>;

/** Maximum number of findings shown as text. `--json` includes more. */
const MAX_SHOWN = 5;

/** Returns the lines of `status` about verification. */
export function verificationLines(
  last: VerificationStatus | null,
  now: number,
  colours: Colours,
  data?: string,
): string[] {
  if (last === null) return [`never verified: "${commandLine('verify', data)}" reads every byte`];
  const { found, findings } = last;
  const shown = findings.slice(0, MAX_SHOWN);
  const more = found - shown.length;
  return joinReport([
    verifiedText(last, now),
    exportTestLine(last, now),
    shown.map(({ text }) => `${colours.red('DAMAGED')} ${terminalLine(text)}`),
    found > 0 && more > 0 && `… and ${counted(more, 'more finding')}`,
    found > 0 &&
      colours.red(
        `${counted(found, 'finding')}: "${commandLine('verify --repair', data)}" recovers what can be found.`,
      ),
  ]);
}

/** Describes the last export test, unless it is already shown as the last verification. */
function exportTestLine({ mode, drill }: VerificationStatus, now: number): string | false {
  if (drill === null || mode === 'drill') return false;
  const ago = span(Math.max(0, now - Date.parse(drill.at)));
  return `last drill ${ago} ago (${count(drill.checked)} of ${counted(drill.of, 'message')})`;
}

/** Describes when and how thoroughly the archive was last verified. */
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

/** Provides the command line's texts for findings and errors that the engine stores. */
export const WORDS: EngineContext['words'] = {
  finding: findingText,
  error: (error) => describeError(error).message,
};

const REMEMBERED: Readonly<Record<UnwrittenState, string>> = {
  result: 'the result',
  damage: 'the damage',
  sample: 'how far the sample came',
  segments: 'when each segment was verified',
  run: 'the run',
  copy: 'the state of the copy',
};

const HOLDS: Readonly<Record<NonNullable<ConfigWarning['holds']> | 'token', string>> = {
  token: 'a token or password',
  'fleet-keys': 'the keys of the fleet',
  'registry-password': 'the password of the registry',
};

/** Returns a listener that prints engine events on standard error. */
export function reportEvents(notices: Notices): (event: EngineEvent) => void {
  return (event) => {
    switch (event.event) {
      case 'config-located':
        return notices.detail(`configuration: ${terminalLine(event.file)}`);
      case 'config-warning':
        return notices.warn(warningText(event.warning));
      case 'archive-located':
        return notices.detail(`archive: ${terminalLine(event.dataDir)}`);
      case 'catalog-behind': {
        const { dataDir, reached, last } = event;
        return notices.alert({
          code: 'catalog-behind',
          message: `the catalog is behind the log (commit ${reached} of ${last}), and newer mail is not found.`,
          hint: `"mailkeep rebuild --data ${terminalLine(dataDir)}" brings it up to date; so does the next sync.`,
        });
      }
      case 'catalog-caught-up':
        return notices.say(`The catalog caught up ${counted(event.commits, 'commit')}.`);
      case 'tail-put-aside':
        return notices.warn(
          `the last run was interrupted: ${bytes(event.bytes)} after the last commit were moved to ${event.file}`,
        );
      case 'state-put-aside':
        // The archive itself is undamaged. The state can be rebuilt, except for known damage and saved searches.
        return notices.alert({
          code: 'state-put-aside',
          message: `the state could not be read and was moved to ${event.file}. A new one was created; the archive is not affected.`,
          hint: 'Only the old one has known damage and saved searches: "mailkeep verify" finds the damage again.',
        });
      case 'state-not-written':
        return notices.warn(
          `${REMEMBERED[event.what]} could not be remembered. ${describeError(event.error).message}`,
        );
      case 'purging':
        return notices.say(`Removing ${counted(event.messages, 'message')} from the log.`);
      case 'rebuilding-catalog':
        return notices.say(
          {
            purge: 'Rebuilding the catalog to remove the words from its index.',
            repair: 'Rebuilding the catalog.',
            version: 'Rebuilding the catalog: an earlier version of mailkeep wrote it.',
          }[event.because],
        );
      case 'not-fetched': {
        const { folder, uid } = event.place;
        return notices.warn(
          `${terminalLine(folder)} uid ${uid}: ${describeError(event.error).message}`,
        );
      }
    }
  };
}

export function warningText({ file, holds, mode }: ConfigWarning): string {
  return `${file} holds ${HOLDS[holds ?? 'token']} and can be read by others (mode ${mode}): chmod 600 ${file}`;
}
