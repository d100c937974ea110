import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { text } from 'node:stream/consumers';
import { z } from 'zod';
import { realFiles } from '../archive/file-system.ts';
import { formatPath, parseJson } from '../archive/format.ts';
import type { EngineContext } from '../catalog/open-reader.ts';
import type { Writer } from '../catalog/open-writer.ts';
import { copiesError } from '../copies/errors.ts';
import { onAbort } from '../core/concurrency.ts';
import type { CopySettings, RetentionSettings, Rhythm } from '../core/config-schema.ts';
import { type ErrorFamily, EXIT, errnoOf, MailkeepError } from '../core/errors.ts';
import type { StateFile } from '../core/state.ts';
import type { KnownCopy } from '../core/state-runs.ts';
import {
  copyDamage,
  recalledCopy,
  rememberCopied,
  rememberCopyChecked,
  rememberCopyFailure,
  rememberCurrent,
  rememberPlans,
} from '../verify/copy-facts.ts';
import { retentionError, verifyError } from '../verify/errors.ts';
import type { RunReport } from '../verify/facts.ts';
import { type Compacted, compactPurged, decidedPurge, endPurge } from '../verify/prune.ts';
import { journalPrune, plannedPrune } from '../verify/purge.ts';
import type { DaemonLog } from './daemon-log.ts';
import type { Failure } from './notifier.ts';
import type { DaemonClock, DaemonEvent } from './ports.ts';
import { choreReport, copyReport, failureOf } from './runs.ts';
import { cronTimes } from './schedule.ts';

/** Of the environment: what it takes to run. Tokens, credentials and the service manager's socket are not among it. */
const KEPT = ['PATH', 'HOME', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'MAILKEEP_NETWORK_FILE_SYSTEM'];

const refused = z.object({ error: z.object({ code: z.string(), message: z.string() }) });

interface ChildOptions {
  readonly program: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly variables?: readonly string[];
}

interface ChildEnded {
  /** Null where it was killed, or could not be started. */
  readonly code: number | null;
  /** What it printed as JSON; undefined where it printed none. */
  readonly result: unknown;
  /** The error that it printed; undefined where it printed none. */
  readonly error: { readonly code: string; readonly message: string } | undefined;
}

/**
 * Runs a command of this program in a process of its own, which gives way to all others, and ends it with the signal.
 *
 * @param args without `--json`, which is added
 */
async function runChild(
  { program, env, variables = [] }: ChildOptions,
  args: readonly string[],
  signal: AbortSignal,
): Promise<ChildEnded> {
  const [command = '', ...before] = program;
  const kept = [...KEPT, ...variables].flatMap((name) => (name in env ? [[name, env[name]]] : []));
  const child = spawn(command, [...before, ...args, '--json'], {
    cwd: '/',
    env: Object.fromEntries(kept),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const { pid } = child;
  if (pid !== undefined) giveWay(pid);
  const release = signal.aborted ? () => {} : onAbort(signal, () => child.kill('SIGTERM'));
  if (signal.aborted) child.kill('SIGTERM');
  try {
    const [stdout, stderr] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close'),
    ]);
    const error = refused.safeParse(lastJson(stderr)).data?.error;
    return { code: child.exitCode, result: lastJson(stdout), error };
  } catch (error) {
    const code = errnoOf(error);
    if (code === undefined) throw error;
    const message = `The process could not be started: ${code}.`;
    return { code: null, result: undefined, error: { code, message } };
  } finally {
    release();
  }
}

/** It may take as long as it likes. */
function giveWay(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_LOW);
  } catch (error) {
    // It has just ended, or the system does not let us.
    if (errnoOf(error) === undefined && !(error instanceof Error && 'info' in error)) throw error;
  }
}

/** The value of the last line that is JSON; undefined where there is none. */
function lastJson(output: string): unknown {
  return parseJson(output.trim().split('\n').at(-1) ?? '');
}

const DAY_MS = 24 * 3_600_000;

/** Of a cron expression: how many of its times are compared to find the longest gap. */
const COMPARED = 10;
/** After a failure, the next try comes so soon; each further one after twice as long. */
const FIRST_RETRY_MS = 60_000;
const LONGEST_RETRY_MS = 3_600_000;
/** One minute doubled so often is more than the longest wait. */
const MOST_DOUBLINGS = 6;

interface CopyTimes {
  /** The first time after the last one, in milliseconds since the epoch; null where there is none. */
  next(last: number): number | null;
  readonly longestMs: number;
  /** Done only if there is something to do; a cron expression is always heeded. */
  readonly isInterval: boolean;
}

/** @param timezone IANA name, or `local` */
export function copyTimes(rhythm: Rhythm, timezone: string, now: number): CopyTimes {
  if ('everyMs' in rhythm) {
    const { everyMs } = rhythm;
    return { next: (last) => last + everyMs, longestMs: everyMs, isInterval: true };
  }
  const times = cronTimes(rhythm.cron, timezone);
  let longestMs = 0;
  let before = times.next(now);
  for (let n = 1; before !== null && n < COMPARED; n += 1) {
    const after = times.next(before);
    if (after !== null) longestMs = Math.max(longestMs, after - before);
    before = after;
  }
  return { next: (last) => times.next(last), longestMs, isInterval: false };
}

export function retryAfterMs(tries: number): number {
  const doublings = Math.min(Math.max(0, tries - 1), MOST_DOUBLINGS);
  return Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** doublings);
}

/** Returns when a copy is due, in milliseconds since the epoch; null where it never is. */
export function copyDueAt(
  times: CopyTimes,
  { made, failed, plan }: KnownCopy,
  now: number,
): number | null {
  // A time in the future comes from a clock that was set back meanwhile.
  if (failed !== null) return Math.min(failed.at, now) + retryAfterMs(failed.tries);
  if (made !== null) return times.next(Math.min(made.at, now));
  return times.isInterval ? now : times.next(Math.min(plan?.since ?? now, now));
}

/** Returns when all of a copy is to be read back; null where it never is. */
export function checkDueAt(
  times: CopyTimes | null,
  { made, checked, plan }: KnownCopy,
  now: number,
): number | null {
  if (times === null || made === null) return null;
  return times.next(Math.min(checked?.fullAt ?? plan?.since ?? now, now));
}

/**
 * Whether a copy is to be made to extend its locks, though nothing is new: it extends those of which less than half is
 * left.
 */
export function areLocksDue(lockDays: number | null, madeAt: number, now: number): boolean {
  return lockDays !== null && now - madeAt >= (lockDays * DAY_MS) / 4;
}

/** Timers fire late after a suspend, never early: this is how often the clock is checked. */
const LOOK_MS = 30_000;
/** After something that is no failure of a copy, such as a state that cannot be written, and after a check that could not be made. */
const PAUSE_MS = 3_600_000;

/** Where S3 finds its settings; see docs/offsite.md. No other child of the daemon gets these. */
const VARIABLES = [
  'AWS_ACCESS_KEY_ID',
  'AWS_SECRET_ACCESS_KEY',
  'AWS_SESSION_TOKEN',
  'AWS_REGION',
  'AWS_DEFAULT_REGION',
  'AWS_ENDPOINT_URL',
  'AWS_ENDPOINT_URL_S3',
  'AWS_PROFILE',
  'AWS_DEFAULT_PROFILE',
  'AWS_SHARED_CREDENTIALS_FILE',
  'AWS_CONFIG_FILE',
  'NODE_EXTRA_CA_CERTS',
  // A copy carries it.
  'MAILKEEP_CONFIG',
];

/** What is read of `mailkeep copy --json`. Only an encrypted copy has an id. */
const copied = z.object({
  copyId: z.string().optional(),
  number: z.number(),
  bytes: z.number(),
  durationMs: z.number(),
  findings: z.array(z.unknown()).default([]),
  invalid: z.array(z.unknown()).default([]),
  removed: z
    .object({ locked: z.array(z.unknown()), lockedUntil: z.string().nullable() })
    .default({ locked: [], lockedUntil: null }),
});

/** What is read of `mailkeep verify --copy --json`. */
const checked = z.object({
  number: z.number(),
  checked: z.number(),
  of: z.number(),
  opened: z.boolean(),
  findings: z.array(z.object({ name: z.string(), message: z.string() })),
  durationMs: z.number(),
});

interface ScheduledCopiesOptions extends ChildOptions {
  readonly dataDir: string;
  readonly clock: Pick<DaemonClock, 'now' | 'after'>;
  readonly state: Pick<StateFile, 'get' | 'set' | 'entries' | 'together'>;
  /** The last commit of the archive. */
  readonly reached: () => number;
  readonly log: DaemonLog;
  readonly onRun: (report: RunReport) => void;
  readonly onDropped: (to: readonly string[]) => void;
}

interface Planned {
  readonly copy: CopySettings;
  readonly times: CopyTimes;
  readonly full: CopyTimes | null;
  /** After an unexpected failure: not before this time. */
  pausedUntil: number;
  /** The same for reading everything back. */
  checkPausedUntil: number;
}

/**
 * Keeps copies up to date, and reads them back, by the clock and after passes: one at a time, in a process of its own,
 * while passes continue. A copy that fails is tried again, and stops nothing else.
 */
export class ScheduledCopies {
  readonly #options: ScheduledCopiesOptions;
  readonly #child: ChildOptions;
  readonly #stopping = new AbortController();
  #planned: readonly Planned[] = [];
  #underway: Promise<void> | undefined;
  #cancelWake: (() => void) | undefined;
  #started = false;

  constructor(options: ScheduledCopiesOptions) {
    this.#options = options;
    const { program, env } = options;
    this.#child = { program, env, variables: VARIABLES };
  }

  /** Takes the copies of a configuration. One that is under way is finished. */
  configure(copies: readonly CopySettings[], timezone: string): void {
    const { clock, state, onDropped } = this.#options;
    const now = clock.now();
    this.#planned = copies.map((copy) => ({
      copy,
      times: copyTimes(copy.rhythm, timezone, now),
      full: copy.full === null ? null : copyTimes(copy.full, timezone, now),
      pausedUntil: 0,
      checkPausedUntil: 0,
    }));
    const plans = this.#planned.map(({ copy, times }) => [copy.to, times.longestMs] as const);
    onDropped(rememberPlans(state, new Map(plans), now));
    this.#look();
  }

  start(): void {
    this.#started = true;
    this.#look();
  }

  onEvent({ event }: DaemonEvent): void {
    if (event === 'pass-finished') this.#look();
  }

  /** Ends what is under way: an interrupted copy is what it was before. */
  async close(): Promise<void> {
    this.#stopping.abort();
    this.#cancelWake?.();
    await this.#underway;
  }

  #look(): void {
    const { signal } = this.#stopping;
    if (!this.#started || signal.aborted || this.#underway !== undefined) return;
    this.#cancelWake?.();
    this.#cancelWake = this.#options.clock.after(LOOK_MS, () => this.#look());
    const job = this.#due();
    if (job === undefined) return;
    this.#underway = job(signal).finally(() => {
      this.#underway = undefined;
      this.#look();
    });
  }

  /** What is to be done now, if anything. */
  #due(): ((signal: AbortSignal) => Promise<void>) | undefined {
    const { clock, reached } = this.#options;
    const now = clock.now();
    for (const planned of this.#planned) {
      const { pausedUntil, checkPausedUntil } = planned;
      if (isPaused(pausedUntil, now)) continue;
      try {
        const commit = reached();
        if (commit === 0) return undefined;
        if (this.#isCopyDue(planned, commit, now)) {
          return (signal) => this.#guarded(planned, () => this.#copy(planned, signal));
        }
        const known = recalledCopy(this.#options.state, planned.copy.to);
        const checkAt = checkDueAt(planned.full, known, now);
        if (checkAt !== null && checkAt <= now && !isPaused(checkPausedUntil, now)) {
          return (signal) => this.#guarded(planned, () => this.#check(planned, null, signal));
        }
      } catch (error) {
        this.#failed(planned, error);
      }
    }
    return undefined;
  }

  #isCopyDue({ copy, times }: Planned, commit: number, now: number): boolean {
    const { state } = this.#options;
    const known = recalledCopy(state, copy.to);
    const dueAt = copyDueAt(times, known, now);
    if (dueAt === null || dueAt > now) return false;
    const { made, failed, plan } = known;
    const lacks = made === null || failed !== null || made.commit < commit;
    if (lacks || !times.isInterval || areLocksDue(copy.lockDays, made.at, now)) return true;
    const since = now - (plan?.currentAt ?? 0);
    if (since >= times.longestMs || since < 0) rememberCurrent(state, copy.to, now);
    return false;
  }

  async #copy(planned: Planned, signal: AbortSignal): Promise<void> {
    // The others come first then: one that is due all the time keeps none from its turn.
    this.#planned = [...this.#planned.filter((one) => one !== planned), planned];
    const { clock, state, dataDir, log, onRun } = this.#options;
    const { to, encrypt, keep, lockDays, limitRate, sample } = planned.copy;
    const startedAt = clock.now();
    log.say('info', 'copy started', { to });
    const rate = limitRate === null ? [] : ['--limit-rate', limitRate];
    const lock = lockDays === null ? [] : ['--lock-days', String(lockDays)];
    const kept = [...(encrypt ? ['--encrypt'] : []), '--keep', String(keep), ...lock];
    const line = ['copy', '--to', to, ...kept, ...rate, '--data', dataDir];
    const ended = this.#isGone(to) ?? (await runChild(this.#child, line, signal));
    if (signal.aborted) return;
    const at = clock.now();
    const result = copied.safeParse(ended.result).data;
    if (result === undefined) {
      const failure = failureOfChild(to, ended);
      const { code, message: text } = failure;
      rememberCopyFailure(state, to, { at, code, text });
      log.say('error', 'a copy failed; it is tried again', { to, code, exit: ended.code });
      onRun(copyReport('copy', to, startedAt, at, failure));
      return;
    }
    const { number, bytes, durationMs, copyId, findings, invalid, removed } = result;
    rememberCopied(state, to, { at, commit: number, encrypted: copyId !== undefined });
    log.say('info', 'copy finished', { to, commit: number, bytes, durationMs });
    const failure = flaw(to, findings.length, invalid.length, removed);
    if (failure !== null) log.say('error', 'the copy was made, but', { to, code: failure.code });
    onRun(copyReport('copy', to, startedAt, at, failure));
    if (sample !== null) await this.#check(planned, sample, signal);
  }

  async #check(planned: Planned, sample: string | null, signal: AbortSignal): Promise<void> {
    const { clock, state, dataDir, log, onRun } = this.#options;
    const { to } = planned.copy;
    const startedAt = clock.now();
    const part = sample === null ? [] : ['--sample', sample];
    const line = ['verify', '--copy', to, ...part, '--data', dataDir];
    const ended = await runChild(this.#child, line, signal);
    if (signal.aborted) return;
    const at = clock.now();
    const result = checked.safeParse(ended.result).data;
    if (result === undefined) {
      if (sample === null) planned.checkPausedUntil = at + PAUSE_MS;
      const failure = failureOfChild(to, ended);
      const { code } = failure;
      log.say('error', 'a copy could not be verified', { to, code, exit: ended.code });
      onRun(copyReport('copy-check', to, startedAt, at, failure));
      return;
    }
    const { findings, opened, durationMs } = result;
    const [first] = findings;
    const read = { checked: result.checked, of: result.of, found: findings.length };
    const unit = opened ? 'segment' : 'object';
    rememberCopyChecked(state, to, { at, checked: read.checked, of: read.of, unit }, findings);
    if (first === undefined) log.say('info', 'copy verified', { to, ...read, durationMs });
    else
      log.say('error', 'a copy is damaged: "mailkeep verify --copy" shows where', { to, ...read });
    // A sample that is intact says nothing of what was found before.
    const damage = copyDamage(recalledCopy(state, to));
    const failure =
      damage === null
        ? null
        : failureOf(copiesError('offsite-damaged', { to, found: damage.found }));
    onRun(copyReport('copy-check', to, startedAt, at, failure));
  }

  /** A folder that had a readable copy and has none: its disk is not mounted, and ours would be filled instead. */
  #isGone(to: string): ChildEnded | undefined {
    const { made } = recalledCopy(this.#options.state, to);
    const isFolder = made !== null && !made.encrypted;
    if (!isFolder || existsSync(formatPath(to))) return undefined;
    const { code, message } = failureOf(copiesError('offsite-target-gone', { to }));
    return { code: EXIT.usage, result: undefined, error: { code, message } };
  }

  async #guarded(planned: Planned, act: () => Promise<void>): Promise<void> {
    try {
      await act();
    } catch (error) {
      this.#failed(planned, error);
    }
  }

  /** For example, the state cannot be written, which the passes find as well. */
  #failed(planned: Planned, error: unknown): void {
    const { clock, log } = this.#options;
    planned.pausedUntil = clock.now() + PAUSE_MS;
    log.fail('error', 'a copy could not be kept up to date', error);
  }
}

/** A pause that is longer than any comes from a clock that was set back meanwhile. */
function isPaused(until: number, now: number): boolean {
  return until > now && until <= now + PAUSE_MS;
}

const FAMILIES: Readonly<Record<number, ErrorFamily>> = {
  [EXIT.usage]: 'usage',
  [EXIT.damage]: 'damage',
  [EXIT.inUse]: 'in-use',
  [EXIT.refused]: 'auth',
};

function failureOfChild(to: string, { code, error }: ChildEnded): Failure {
  if (error === undefined) {
    return failureOf(copiesError('offsite-not-made', { to, reason: `code ${code}` }));
  }
  return { ...error, family: FAMILIES[code ?? EXIT.failures] ?? 'origin' };
}

/** What is wrong with a copy that was made all the same. */
function flaw(
  to: string,
  found: number,
  invalid: number,
  { locked, lockedUntil: until }: z.output<typeof copied>['removed'],
): Failure | null {
  if (found > 0) return failureOf(copiesError('offsite-damaged', { to, found }));
  if (invalid > 0) return failureOf(copiesError('offsite-invalid-manifests', { to, invalid }));
  if (locked.length === 0) return null;
  return failureOf(copiesError('offsite-kept-locked', { to, locked: locked.length, until }));
}

interface ChoreOptions {
  readonly log: DaemonLog;
  readonly onRun: (report: RunReport) => void;
}

/**
 * Returns scheduled pruning: it removes what `mailkeep prune --apply` would remove, from the archive as the daemon has
 * it, while nobody else writes. A failure is logged and reported, and not thrown.
 *
 * @param retention the settings in force: a reload changes them
 */
export function scheduledPruning(
  options: ChoreOptions & {
    readonly context: EngineContext;
    readonly writer: Writer;
    readonly retention: () => RetentionSettings;
  },
): (signal: AbortSignal) => Promise<void> {
  const { context, writer, retention, log, onRun } = options;

  /** Returns how many messages it removed. */
  const prune = async (signal: AbortSignal): Promise<number> => {
    const startedAt = context.now();
    const before = await finishPurge(writer, signal);
    const plan = plannedPrune(context, writer.catalog, writer.state, retention());
    if (plan.prune.length > 0) await journalPrune(writer, plan, signal);
    const done = await finishPurge(writer, signal);
    log.say('info', 'pruning finished', {
      messages: plan.prune.length,
      segments: before.segments + done.segments,
      bytesFreed: freed(before) + freed(done),
      durationMs: context.now() - startedAt,
    });
    return plan.prune.length;
  };

  return async (signal) => {
    const startedAt = context.now();
    let failure: MailkeepError | null = null;
    let messages: number | undefined;
    try {
      messages = await prune(signal);
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
      failure = error;
      // The next pruning, or one by hand, finishes what is decided. By code alone: the query of a hold may name people.
      const { code, family } = error;
      const text = 'nothing more could be pruned; "mailkeep prune" shows why';
      if (!signal.aborted) log.say('error', text, { code, family });
    }
    if (!signal.aborted) onRun(choreReport('prune', startedAt, context.now(), failure, messages));
  };
}

async function finishPurge(writer: Writer, signal: AbortSignal): Promise<Compacted> {
  const { dataDir, sealer, sources } = writer;
  const work = await decidedPurge(realFiles, dataDir, writer);
  if (work === undefined) return { segments: 0, bytesBefore: 0, bytesAfter: 0 };
  if (work.reason === 'forgotten') throw retentionError('forget-unfinished', {});
  try {
    const compacted = await compactPurged(realFiles, dataDir, writer, work, signal);
    await endPurge(realFiles, dataDir, writer);
    return compacted;
  } finally {
    await sealer.close();
    sources.refresh();
  }
}

function freed({ bytesBefore, bytesAfter }: Compacted): number {
  return bytesBefore - bytesAfter;
}

/** What is read of `mailkeep verify --json`. */
const verified = z.object({
  ok: z.boolean(),
  found: z.number(),
  segments: z.number(),
  messages: z.number(),
  fileBytes: z.number(),
  durationMs: z.number(),
});
/** What is read of `mailkeep verify --drill --json`. */
const drilled = z
  .object({
    ok: z.boolean(),
    findings: z.array(z.unknown()),
    messages: z.number(),
    files: z.number(),
    bytes: z.number(),
    durationMs: z.number(),
  })
  .transform(({ findings, ...numbers }) => ({ ...numbers, found: findings.length }));

/** What a check found, and how many messages it read back; undefined if it could not be made. */
interface Checked {
  readonly failure: MailkeepError | null;
  readonly messages?: number | undefined;
}

/**
 * Returns scheduled verification: it verifies the archive, then tests an export. Each has a process of its own: reading
 * everything again and comparing the catalog takes minutes of a processor and much memory, and passes and hints go on
 * meanwhile. That process remembers what it found. Findings are logged and reported, and never thrown.
 *
 * @param now milliseconds since the epoch
 */
export function scheduledVerification(
  options: ChoreOptions & ChildOptions & { readonly dataDir: string; readonly now: () => number },
): (signal: AbortSignal) => Promise<void> {
  const { log, onRun, dataDir, now } = options;
  let isRunning = false;

  const check = async (
    signal: AbortSignal,
    args: readonly string[],
    shape: z.ZodType<{ readonly ok: boolean; readonly found: number; readonly messages: number }>,
    finished: string,
  ): Promise<Checked> => {
    const line = ['verify', ...args, '--data', dataDir];
    const { code, result: printed, error: refused } = await runChild(options, line, signal);
    if (signal.aborted) return { failure: null };
    const result = shape.safeParse(printed).data;
    if (result === undefined || (code !== EXIT.done && code !== EXIT.damage)) {
      const reason = refused?.code ?? null;
      log.say('error', 'the archive could not be verified', { reason, exit: code });
      return {
        failure: verifyError('verification-not-made', { reason: reason ?? `code ${code}` }),
      };
    }
    const { ok, ...numbers } = result;
    const { messages, found } = result;
    if (ok) log.say('info', finished, numbers);
    else log.say('error', 'the archive is damaged: "mailkeep verify" shows where', numbers);
    return { failure: ok ? null : verifyError('archive-damaged', { found }), messages };
  };

  const verify = async (signal: AbortSignal): Promise<Checked> => {
    const all = await check(signal, [], verified, 'verification finished');
    if (all.failure !== null || signal.aborted) return all;
    const { failure } = await check(signal, ['--drill'], drilled, 'drill finished');
    return { ...all, failure };
  };

  return async (signal) => {
    if (isRunning) {
      log.say('warn', 'the previous verification is still running; this one is skipped');
      return;
    }
    isRunning = true;
    const startedAt = now();
    try {
      log.say('info', 'verification started');
      const { failure, messages } = await verify(signal);
      if (!signal.aborted) onRun(choreReport('verify', startedAt, now(), failure, messages));
    } finally {
      isRunning = false;
    }
  };
}
