import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { text } from 'node:stream/consumers';
import { z } from 'zod';
import { realFiles } from '../archive/file-system.ts';
import { formatPath, parseJson } from '../archive/format.ts';
import { endPurge } from '../archive/purge-journal.ts';
import type { EngineContext } from '../catalog/open-reader.ts';
import type { Writer } from '../catalog/open-writer.ts';
import { copiesError } from '../copies/errors.ts';
import { onAbort } from '../core/concurrency.ts';
import type { CopySettings, RetentionSettings, Schedule } from '../core/config-schema.ts';
import { type ErrorFamily, EXIT, errnoOf, MailkeepError } from '../core/errors.ts';
import type { StateFile } from '../core/state.ts';
import type { KnownCopy } from '../core/state-runs.ts';
import {
  copyDamage,
  recallCopy,
  recordCopyCheck,
  recordCopyCurrent,
  recordCopyFailure,
  recordCopyMade,
  recordPlans,
} from '../verify/copy-facts.ts';
import { retentionError, verifyError } from '../verify/errors.ts';
import type { RunReport } from '../verify/facts.ts';
import { type Compacted, compactPurged, pendingPurge } from '../verify/prune.ts';
import { journalPrune, preparePrune } from '../verify/purge.ts';
import type { DaemonLog } from './daemon-log.ts';
import type { Failure } from './notifier.ts';
import type { DaemonClock, DaemonEvent } from './ports.ts';
import { failureOf, taskReport } from './runs.ts';
import { cronTimes } from './schedule.ts';

/** Environment variables passed to child processes. Excludes tokens, credentials and the service manager's socket. */
const KEPT = ['PATH', 'HOME', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR', 'MAILKEEP_NETWORK_FILE_SYSTEM'];

const errorOutput = z.object({ error: z.object({ code: z.string(), message: z.string() }) });

interface ChildOptions {
  readonly program: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly variables?: readonly string[];
}

interface ChildEnded {
  readonly code: number | null;
  readonly result: unknown;
  readonly error: { readonly code: string; readonly message: string } | undefined;
}

/** Runs one of this program's commands with `--json` in a low-priority process, which the signal terminates. */
async function runChild(
  { program, env, variables = [] }: ChildOptions,
  args: readonly string[],
  signal: AbortSignal,
): Promise<ChildEnded> {
  const [command = '', ...before] = program;
  const pairs = [...KEPT, ...variables].flatMap((name) => (name in env ? [[name, env[name]]] : []));
  const child = spawn(command, [...before, ...args, '--json'], {
    cwd: '/',
    env: Object.fromEntries(pairs),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const { pid } = child;
  if (pid !== undefined) lowerPriority(pid);
  const release = signal.aborted ? () => {} : onAbort(signal, () => child.kill('SIGTERM'));
  if (signal.aborted) child.kill('SIGTERM');
  try {
    const [stdout, stderr] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close'),
    ]);
    const error = errorOutput.safeParse(lastJson(stderr)).data?.error;
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

function lowerPriority(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_LOW);
  } catch (error) {
    // The process has just exited, or the system does not permit a priority change.
    if (errnoOf(error) === undefined && !(error instanceof Error && 'info' in error)) throw error;
  }
}

function lastJson(output: string): unknown {
  return parseJson(output.trim().split('\n').at(-1) ?? '');
}

const DAY_MS = 24 * 3_600_000;

/** Number of a cron expression's occurrences to compare when looking for the longest interval. */
const COMPARED = 10;
/** Delay after the first failure. Each subsequent failure doubles it. */
const FIRST_RETRY_MS = 60_000;
const MAX_RETRY_MS = 3_600_000;
const MAX_DOUBLINGS = 6;

interface CopyTimes {
  /** Returns the first time after `last`, or null if there is none. Milliseconds since the epoch. */
  next(last: number): number | null;
  readonly longestMs: number;
  /** True for an interval, which is skipped if there is nothing to do. Cron schedules always run. */
  readonly isInterval: boolean;
}

/** @param timezone IANA name, or `local` */
export function copyTimes(rhythm: Schedule, timezone: string, now: number): CopyTimes {
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
  const doublings = Math.min(Math.max(0, tries - 1), MAX_DOUBLINGS);
  return Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** doublings);
}

/** Returns when a copy is due, in milliseconds since the epoch; null if it never is. */
export function copyDueAt(
  times: CopyTimes,
  { made, failed, plan }: KnownCopy,
  now: number,
): number | null {
  // A time in the future was recorded before the clock was set back.
  if (failed !== null) return Math.min(failed.at, now) + retryAfterMs(failed.tries);
  if (made !== null) return times.next(Math.min(made.at, now));
  return times.isInterval ? now : times.next(Math.min(plan?.since ?? now, now));
}

export function checkDueAt(
  times: CopyTimes | null,
  { made, checked, plan }: KnownCopy,
  now: number,
): number | null {
  if (times === null || made === null) return null;
  return times.next(Math.min(checked?.fullAt ?? plan?.since ?? now, now));
}

/** Reports whether an up-to-date copy must run anyway, to extend locks that are past half their period. */
export function needsLockExtension(lockDays: number | null, madeAt: number, now: number): boolean {
  return lockDays !== null && now - madeAt >= (lockDays * DAY_MS) / 4;
}

/** Interval between clock checks, because timers fire late after a suspend, but never early. */
const LOOK_MS = 30_000;
/** Pause after a failure outside the copy, such as an unwritable state, or after a verification that cannot run. */
const PAUSE_MS = 3_600_000;

/** Settings for S3, as described in docs/offsite.md. Only the child processes for copies receive them. */
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
  // The copy includes the configuration file.
  'MAILKEEP_CONFIG',
];

/** Fields read from the output of `mailkeep copy --json`. Only encrypted copies have an id. */
const copyResult = z.object({
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

const checkResult = z.object({
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
  readonly reached: () => number;
  readonly log: DaemonLog;
  readonly onRun: (report: RunReport) => void;
  readonly onDropped: (to: readonly string[]) => void;
}

interface Planned {
  readonly copy: CopySettings;
  readonly times: CopyTimes;
  readonly full: CopyTimes | null;
  /** Earliest time for another attempt after an unexpected failure. */
  pausedUntil: number;
  checkPausedUntil: number;
}

/**
 * Updates and verifies copies on a schedule and after syncs, one at a time, in a separate process while syncs continue.
 * A failed copy is retried, and does not affect the others.
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

  /** Applies the copies in a configuration. A copy that is already running is allowed to finish. */
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
    onDropped(recordPlans(state, new Map(plans), now));
    this.#startDue();
  }

  start(): void {
    this.#started = true;
    this.#startDue();
  }

  onEvent({ event }: DaemonEvent): void {
    if (event === 'pass-finished') this.#startDue();
  }

  /** Aborts the work in progress. An interrupted copy remains as it was. */
  async close(): Promise<void> {
    this.#stopping.abort();
    this.#cancelWake?.();
    await this.#underway;
  }

  #startDue(): void {
    const { signal } = this.#stopping;
    if (!this.#started || signal.aborted || this.#underway !== undefined) return;
    this.#cancelWake?.();
    this.#cancelWake = this.#options.clock.after(LOOK_MS, () => this.#startDue());
    const job = this.#due();
    if (job === undefined) return;
    this.#underway = job(signal).finally(() => {
      this.#underway = undefined;
      this.#startDue();
    });
  }

  #due(): ((signal: AbortSignal) => Promise<void>) | undefined {
    const { clock, reached } = this.#options;
    const now = clock.now();
    for (const plan of this.#planned) {
      const { pausedUntil, checkPausedUntil } = plan;
      if (isPaused(pausedUntil, now)) continue;
      const failed = (error: unknown): void => this.#recordFailure(plan, error);
      try {
        const commit = reached();
        if (commit === 0) return undefined;
        if (this.#isCopyDue(plan, commit, now)) {
          return (signal) => this.#copy(plan, signal).catch(failed);
        }
        const record = recallCopy(this.#options.state, plan.copy.to);
        const checkAt = checkDueAt(plan.full, record, now);
        if (checkAt !== null && checkAt <= now && !isPaused(checkPausedUntil, now)) {
          return (signal) => this.#check(plan, null, signal).catch(failed);
        }
      } catch (error) {
        failed(error);
      }
    }
    return undefined;
  }

  #isCopyDue({ copy, times }: Planned, commit: number, now: number): boolean {
    const { state } = this.#options;
    const record = recallCopy(state, copy.to);
    const dueAt = copyDueAt(times, record, now);
    if (dueAt === null || dueAt > now) return false;
    const { made, failed, plan } = record;
    const isOld = made === null || failed !== null || made.commit < commit;
    if (isOld || !times.isInterval || needsLockExtension(copy.lockDays, made.at, now)) return true;
    const age = now - (plan?.currentAt ?? 0);
    if (age >= times.longestMs || age < 0) recordCopyCurrent(state, copy.to, now);
    return false;
  }

  async #copy(planned: Planned, signal: AbortSignal): Promise<void> {
    // Moved to the end, so that a copy that is always due does not block the rest.
    this.#planned = [...this.#planned.filter((one) => one !== planned), planned];
    const { clock, state, dataDir, log, onRun } = this.#options;
    const { to, encrypt, keep, lockDays, limitRate, sample } = planned.copy;
    const startedAt = clock.now();
    log.say('info', 'copy started', { to });
    const rate = limitRate === null ? [] : ['--limit-rate', limitRate];
    const lock = lockDays === null ? [] : ['--lock-days', String(lockDays)];
    const options = [...(encrypt ? ['--encrypt'] : []), '--keep', String(keep), ...lock];
    const line = ['copy', '--to', to, ...options, ...rate, '--data', dataDir];
    const ended = this.#isGone(to) ?? (await runChild(this.#child, line, signal));
    if (signal.aborted) return;
    const at = clock.now();
    const result = copyResult.safeParse(ended.result).data;
    if (result === undefined) {
      const failure = failureOfChild(to, ended);
      const { code, message: text } = failure;
      recordCopyFailure(state, to, { at, code, text });
      log.say('error', 'a copy failed; it is tried again', { to, code, exit: ended.code });
      onRun(taskReport('copy', startedAt, at, failure, { copy: to }));
      return;
    }
    const { number, bytes, durationMs, copyId, findings, invalid, removed } = result;
    recordCopyMade(state, to, { at, commit: number, encrypted: copyId !== undefined });
    log.say('info', 'copy finished', { to, commit: number, bytes, durationMs });
    const failure = problemOf(to, findings.length, invalid.length, removed);
    if (failure !== null) log.say('error', 'the copy was made, but', { to, code: failure.code });
    onRun(taskReport('copy', startedAt, at, failure, { copy: to }));
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
    const result = checkResult.safeParse(ended.result).data;
    if (result === undefined) {
      if (sample === null) planned.checkPausedUntil = at + PAUSE_MS;
      const failure = failureOfChild(to, ended);
      const { code } = failure;
      log.say('error', 'a copy could not be verified', { to, code, exit: ended.code });
      onRun(taskReport('copy-check', startedAt, at, failure, { copy: to }));
      return;
    }
    const { findings, opened, durationMs } = result;
    const [first] = findings;
    const read = { checked: result.checked, of: result.of, found: findings.length };
    const unit = opened ? 'segment' : 'object';
    recordCopyCheck(state, to, { at, checked: read.checked, of: read.of, unit }, findings);
    if (first === undefined) log.say('info', 'copy verified', { to, ...read, durationMs });
    else
      log.say('error', 'a copy is damaged: "mailkeep verify --copy" shows where', { to, ...read });
    // An intact sample does not disprove earlier damage.
    const damage = copyDamage(recallCopy(state, to));
    const failure =
      damage === null
        ? null
        : failureOf(copiesError('offsite-damaged', { to, found: damage.found }));
    onRun(taskReport('copy-check', startedAt, at, failure, { copy: to }));
  }

  /** Returns an error if a readable copy's folder is missing: its disk is not mounted, so the copy would fill ours. */
  #isGone(to: string): ChildEnded | undefined {
    const { made } = recallCopy(this.#options.state, to);
    const isFolder = made !== null && !made.encrypted;
    if (!isFolder || existsSync(formatPath(to))) return undefined;
    const { code, message } = failureOf(copiesError('offsite-target-gone', { to }));
    return { code: EXIT.usage, result: undefined, error: { code, message } };
  }

  /** Handles failures outside the copy, such as an unwritable state, which syncs also detect. */
  #recordFailure(planned: Planned, error: unknown): void {
    const { clock, log } = this.#options;
    planned.pausedUntil = clock.now() + PAUSE_MS;
    log.fail('error', 'a copy could not be kept up to date', error);
  }
}

/** Reports whether a pause applies. One longer than the maximum means that the clock was set back. */
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

function problemOf(
  to: string,
  found: number,
  invalid: number,
  { locked, lockedUntil: until }: z.output<typeof copyResult>['removed'],
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
 * Returns the scheduled pruning task. It removes the same mail as `mailkeep prune --apply`, but uses the daemon's open
 * archive with exclusive access. Failures are logged and reported rather than thrown.
 *
 * @param retention returns the current settings, which a reload can change
 */
export function scheduledPruning(
  options: ChoreOptions & {
    readonly context: EngineContext;
    readonly writer: Writer;
    readonly retention: () => RetentionSettings;
  },
): (signal: AbortSignal) => Promise<void> {
  const { context, writer, retention, log, onRun } = options;

  const prune = async (signal: AbortSignal): Promise<number> => {
    const startedAt = context.now();
    const before = await finishPurge(writer, signal);
    const plan = preparePrune(context, writer.catalog, writer.state, retention());
    if (plan.prune.length > 0) await journalPrune(writer, plan, signal);
    const done = await finishPurge(writer, signal);
    log.say('info', 'pruning finished', {
      messages: plan.prune.length,
      segments: before.segments + done.segments,
      bytesFreed: bytesFreed(before) + bytesFreed(done),
      durationMs: context.now() - startedAt,
    });
    return plan.prune.length;
  };

  return async (signal) => {
    const startedAt = context.now();
    let failure: Failure | null = null;
    let messages: number | undefined;
    try {
      messages = await prune(signal);
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
      failure = failureOf(error);
      // The next pruning, scheduled or manual, completes one already decided on. Only the error code is logged, because
      // a hold's query can contain people's names.
      const { code, family } = failure;
      const text = 'nothing more could be pruned; "mailkeep prune" shows why';
      if (!signal.aborted) log.say('error', text, { code, family });
    }
    if (signal.aborted) return;
    onRun(taskReport('prune', startedAt, context.now(), failure, { messages }));
  };
}

async function finishPurge(writer: Writer, signal: AbortSignal): Promise<Compacted> {
  const { dataDir, sealer, sources } = writer;
  const purge = await pendingPurge(realFiles, dataDir);
  if (purge === undefined) return { segments: 0, bytesBefore: 0, bytesAfter: 0 };
  if (purge.reason === 'forgotten') throw retentionError('forget-unfinished', {});
  try {
    const compacted = await compactPurged(realFiles, dataDir, writer, purge, signal);
    await endPurge(realFiles, dataDir);
    return compacted;
  } finally {
    await sealer.close();
    sources.refresh();
  }
}

function bytesFreed({ bytesBefore, bytesAfter }: Compacted): number {
  return bytesBefore - bytesAfter;
}

const verifyResult = z.object({
  ok: z.boolean(),
  found: z.number(),
  segments: z.number(),
  messages: z.number(),
  fileBytes: z.number(),
  durationMs: z.number(),
});
const exportTestResult = z
  .object({
    ok: z.boolean(),
    findings: z.array(z.unknown()),
    messages: z.number(),
    files: z.number(),
    bytes: z.number(),
    durationMs: z.number(),
  })
  .transform(({ findings, ...numbers }) => ({ ...numbers, found: findings.length }));

/** `messages` is the number of messages read; undefined if the verification could not run. */
interface Checked {
  readonly failure: Failure | null;
  readonly messages?: number | undefined;
}

/**
 * Returns the scheduled verification task, which verifies the archive and then runs an export test. Both take minutes
 * of CPU time and a lot of memory while syncs continue, so they run in separate processes, which record their results.
 * Findings are logged and reported rather than thrown.
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
    schema: z.ZodType<{ readonly ok: boolean; readonly found: number; readonly messages: number }>,
    text: string,
  ): Promise<Checked> => {
    const line = ['verify', ...args, '--data', dataDir];
    const { code, result: printed, error: refused } = await runChild(options, line, signal);
    if (signal.aborted) return { failure: null };
    const result = schema.safeParse(printed).data;
    if (result === undefined || (code !== EXIT.done && code !== EXIT.damage)) {
      const reason = refused?.code ?? null;
      log.say('error', 'the archive could not be verified', { reason, exit: code });
      const error = verifyError('verification-not-made', { reason: reason ?? `code ${code}` });
      return { failure: failureOf(error) };
    }
    const { ok, ...numbers } = result;
    const { messages, found } = result;
    if (ok) log.say('info', text, numbers);
    else log.say('error', 'the archive is damaged: "mailkeep verify" shows where', numbers);
    return { failure: ok ? null : failureOf(verifyError('archive-damaged', { found })), messages };
  };

  const verify = async (signal: AbortSignal): Promise<Checked> => {
    const all = await check(signal, [], verifyResult, 'verification finished');
    if (all.failure !== null || signal.aborted) return all;
    const { failure } = await check(signal, ['--drill'], exportTestResult, 'drill finished');
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
      if (signal.aborted) return;
      onRun(taskReport('verify', startedAt, now(), failure, { messages }));
    } finally {
      isRunning = false;
    }
  };
}
