import { spawn } from 'node:child_process';
import { z } from 'zod';
import { linkedController } from '../core/concurrency.ts';
import { ERROR_FAMILIES, type ErrorFamily, errnoOf, shortList } from '../core/errors.ts';
import { terminalLine } from '../core/terminal-safe.ts';
import type { RunFailure, RunReport } from '../verify/facts.ts';

/** Kinds of monitored subjects. `quota` fails if its mailbox is nearly full. */
const SUBJECT_KINDS = ['account', 'mailbox', 'webhook', 'run', 'quota', 'copy'] as const;

const family = z.enum(ERROR_FAMILIES);

/** A subject that is failing or failed recently, as stored. Times are milliseconds since the epoch. */
const problemSchema = z.object({
  /** A monitored subject: an account, a mailbox, a webhook, a kind of run, a copy, or a mailbox's quota. */
  subject: z.object({
    kind: z.enum(SUBJECT_KINDS),
    name: z.string(),
    /** Distinguishes subjects that share a name, even at different times. Defaults to the name. */
    id: z.string().optional(),
  }),
  failure: z.object({ family, code: z.string(), message: z.string() }),
  since: z.number(),
  seenAt: z.number(),
  /** Time of recovery; null while it fails. */
  wellSince: z.number().nullable(),
  /** When the failure was last reported. Null before that, and again once its recovery has been reported. */
  toldAt: z.number().nullable(),
  /** Family of the reported failure. Defaults to the family of `failure`. */
  toldAs: family.optional(),
  /** True if a recovery was reported within the last hour. The next recovery must then last a while to be reported. */
  flapping: z.boolean(),
});
type SubjectProblem = Readonly<z.output<typeof problemSchema>>;
type Subject = Readonly<SubjectProblem['subject']>;
export type Failure = Readonly<SubjectProblem['failure']>;

/** Reports to one channel: troubles by subject, and the time of the last attempt. */
const reportedSchema = z.object({
  troubles: z.record(z.string(), problemSchema),
  triedAt: z.number().nullable(),
});
export type ReportedState = Readonly<z.output<typeof reportedSchema>>;

/** A null failure means that the subject works. */
export interface Observation {
  readonly subject: Subject;
  readonly failure: Failure | null;
}

/** Returns a run's observations. There are none if it was interrupted, or for mailboxes of unreached accounts. */
export function observationsFromRun(report: RunReport): Observation[] {
  if (report.outcome === 'interrupted') return [];
  const observations = new Map<string, Observation>();
  const note = (subject: Subject, failure: Failure | null): void => {
    const key = subjectKey(subject);
    if (observations.get(key)?.failure == null) observations.set(key, { subject, failure });
  };
  for (const failure of report.failures) {
    const { family, code, message } = failure;
    note(subjectOf(failure, report), { family, code, message });
  }
  if (report.outcome === 'done') note(runSubject(report), null);
  for (const name of report.accounts) note({ kind: 'account', name }, null);
  for (const name of report.mailboxes) note({ kind: 'mailbox', name }, null);
  return [...observations.values()];
}

/** Reports whether a subject's failure is only a warning, which is reported once because everything still works. */
function isWarning({ kind }: Subject): boolean {
  return kind === 'quota';
}

export function subjectKey({ kind, name, id = name }: Subject): string {
  return `${kind} ${id}`;
}

/** Possible problems with a copy: updating it fails, verifying it fails, or it is stale. */
export const COPY_PROBLEMS = ['copy', 'copy-check', 'stale'] as const;

export function copySubject(to: string, problem: (typeof COPY_PROBLEMS)[number]): Subject {
  return { kind: 'copy', name: to, id: `${problem} ${to}` };
}

function runSubject({ kind, copy }: RunReport): Subject {
  if (copy === undefined) return { kind: 'run', name: kind };
  return copySubject(copy, kind === 'copy-check' ? 'copy-check' : 'copy');
}

function subjectOf({ account, mailbox }: RunFailure, report: RunReport): Subject {
  if (mailbox !== null) return { kind: 'mailbox', name: mailbox };
  return account === null ? runSubject(report) : { kind: 'account', name: account };
}

/** A notification, as JSON on the command's standard input and in the POST body. */
interface NotificationMessage {
  /**
   * `warning`: a problem is imminent. `recovered`: everything reported works. `alive`: a heartbeat. `test`: by a user.
   */
  readonly event: 'failing' | 'warning' | 'recovered' | 'alive' | 'test';
  readonly ok: boolean;
  /** ISO 8601. */
  readonly at: string;
  readonly host: string;
  readonly version: string;
  readonly summary: string;
  readonly failing: readonly MessageItem[];
  readonly recovered: readonly MessageItem[];
}

interface MessageItem {
  readonly kind: string;
  readonly name: string;
  readonly code: string;
  readonly message: string;
  /** ISO 8601. */
  readonly since: string;
  /** ISO 8601; null while it fails. */
  readonly until: string | null;
  readonly reminder: boolean;
}

interface SenderIdentity {
  readonly host: string;
  readonly version: string;
}

/** @param notice null for a heartbeat */
export function formatNotice(
  notice: Notice | null,
  ok: boolean,
  now: number,
  { host, version }: SenderIdentity,
): NotificationMessage {
  const { failing = [], still = [], recovered = [] } = notice ?? {};
  const bad = [...failing, ...still];
  const worst = bad.every(({ subject }) => isWarning(subject)) ? 'warning' : 'failing';
  return {
    event: bad.length > 0 ? worst : notice === null ? 'alive' : 'recovered',
    ok,
    ...{ at: iso(now), host, version },
    summary: noticeSummary(notice),
    failing: [...failing.map((one) => item(one, false)), ...still.map((one) => item(one, true))],
    recovered: recovered.map((one) => item(one, false)),
  };
}

export function testMessage(now: number, { host, version }: SenderIdentity): NotificationMessage {
  return {
    event: 'test',
    ok: true,
    ...{ at: iso(now), host, version },
    summary: `mailkeep on ${host}: this is a test notification. Nothing is wrong.`,
    failing: [],
    recovered: [],
  };
}

function item(
  { subject, failure, since, wellSince }: SubjectProblem,
  reminder: boolean,
): MessageItem {
  return {
    ...{ kind: subject.kind, name: subject.name },
    ...{ code: failure.code, message: failure.message },
    since: iso(since),
    until: wellSince === null ? null : iso(wellSince),
    reminder,
  };
}

function iso(ms: number): string {
  return new Date(ms).toISOString();
}

/** Mail subjects, chats and SMS truncate longer lines. */
const MAX_CHARACTERS = 300;

/** Summarises a notification in a single line. Null means a heartbeat. */
function noticeSummary(notice: Notice | null): string {
  if (notice === null) return 'mailkeep: all is well';
  const { still } = notice;
  const failing = splitWarnings(notice.failing);
  const recovered = splitWarnings(notice.recovered);
  const parts = [
    ...failingText(failing.others, 'failing'),
    ...failingText(still, 'still failing'),
    ...failingText(failing.warnings, 'warning'),
    ...(recovered.others.length === 0 ? [] : [`works again: ${names(recovered.others)}`]),
    ...(recovered.warnings.length === 0
      ? []
      : [`no longer a warning: ${names(recovered.warnings)}`]),
  ];
  return terminalLine(`mailkeep: ${parts.join('; ')}`).slice(0, MAX_CHARACTERS);
}

function failingText(troubles: readonly SubjectProblem[], word: string): string[] {
  const [first] = troubles;
  if (first === undefined) return [];
  const why = troubles.length === 1 ? ` (${first.failure.message})` : '';
  return [`${word}: ${names(troubles)}${why}`];
}

function splitWarnings(troubles: readonly SubjectProblem[]) {
  return {
    warnings: troubles.filter(({ subject }) => isWarning(subject)),
    others: troubles.filter(({ subject }) => !isWarning(subject)),
  };
}

function names(troubles: readonly SubjectProblem[]): string {
  return shortList(
    troubles.map(({ subject: { kind, name } }) => `${kind} ${name}`),
    3,
  );
}

export const NO_REPORTS: ReportedState = { troubles: {}, triedAt: null };

export interface Notice {
  readonly failing: readonly SubjectProblem[];
  /** Previously reported problems that still persist a day later. */
  readonly still: readonly SubjectProblem[];
  readonly recovered: readonly SubjectProblem[];
}

/** A failure that clears within this time is not reported. */
const PATIENCE_MS = 15 * 60_000;
/** A problem that returned within this time must be gone for as long before its recovery is reported. */
const FLAPPING_MS = 60 * 60_000;
/** Minimum interval between notifications. Events in between are reported together. */
const SPACING_MS = 5 * 60_000;
const REMIND_MS = 24 * 60 * 60_000;
/** How long a subject is kept after its last observation. */
const FORGET_MS = 30 * REMIND_MS;

/** Failures that require the user to act. Damage is the most serious. */
const GRAVITY: Readonly<Partial<Record<ErrorFamily, number>>> = {
  ...{ auth: 1, config: 1, usage: 1, disk: 1, held: 1 },
  damage: 2,
};

function gravityOf(family: ErrorFamily): number {
  return GRAVITY[family] ?? 0;
}

export function observe(
  reported: ReportedState,
  observations: readonly Observation[],
  now: number,
): ReportedState {
  const troubles = new Map(Object.entries(reported.troubles));
  for (const { subject, failure } of observations) {
    const key = subjectKey(subject);
    const known = troubles.get(key);
    if (failure !== null) troubles.set(key, addFailure(known, subject, failure, now));
    else if (known?.wellSince === null) troubles.set(key, { ...known, wellSince: now });
  }
  for (const [key, problem] of troubles) if (isOver(problem, now)) troubles.delete(key);
  return { ...reported, troubles: Object.fromEntries(troubles) };
}

function addFailure(
  known: SubjectProblem | undefined,
  subject: Subject,
  failure: Failure,
  now: number,
): SubjectProblem {
  const trouble = { subject, failure, since: now, seenAt: now, wellSince: null, toldAt: null };
  if (known === undefined) return { ...trouble, flapping: false };
  if (known.wellSince !== null && known.toldAt === null) {
    return { ...trouble, flapping: known.flapping };
  }
  // A refused token is still refused while the network is down, so reporting it again later would be redundant.
  const isMilder =
    known.wellSince === null && gravityOf(failure.family) < gravityOf(known.failure.family);
  return {
    ...known,
    // The subject's name may have changed.
    subject,
    failure: isMilder ? known.failure : failure,
    // The clock may have been set back.
    since: Math.min(known.since, now),
    seenAt: now,
    wellSince: null,
  };
}

function isOver({ wellSince, toldAt, seenAt }: SubjectProblem, now: number): boolean {
  if (Math.abs(now - seenAt) >= FORGET_MS) return true;
  return wellSince !== null && toldAt === null && Math.abs(now - wellSince) >= FLAPPING_MS;
}

/** Returns the notice that is due, or null. */
export function dueNotice({ troubles, triedAt }: ReportedState, now: number): Notice | null {
  if (triedAt !== null && Math.abs(now - triedAt) < SPACING_MS) return null;
  const all = Object.values(troubles);
  const failing = all.filter((problem) => isRipe(problem, now));
  const still = all.filter(
    ({ subject, wellSince, toldAt, seenAt }) =>
      wellSince === null &&
      toldAt !== null &&
      Math.abs(seenAt - toldAt) >= REMIND_MS &&
      !isWarning(subject),
  );
  const recovered = all.filter(
    ({ wellSince, toldAt, flapping }) =>
      wellSince !== null &&
      toldAt !== null &&
      (!flapping || Math.abs(now - wellSince) >= FLAPPING_MS),
  );
  const isEmpty = failing.length + still.length + recovered.length === 0;
  return isEmpty ? null : { failing, still, recovered };
}

function isRipe(
  { since, wellSince, toldAt, toldAs, failure }: SubjectProblem,
  now: number,
): boolean {
  const gravity = gravityOf(failure.family);
  if (wellSince !== null) return false;
  // The failure may now be one that requires the user to act.
  if (toldAt !== null) return gravity > gravityOf(toldAs ?? failure.family);
  return gravity > 0 || now - since >= PATIENCE_MS;
}

/** Records that a notice was sent, or that sending failed and must be retried later. */
export function recordAttempt(
  reported: ReportedState,
  notice: Notice,
  sent: boolean,
  now: number,
): ReportedState {
  if (!sent) return { ...reported, triedAt: now };
  const troubles = new Map(Object.entries(reported.troubles));
  // The state may have changed while the notice was being sent.
  const mark = ({ subject }: SubjectProblem, changes: Partial<SubjectProblem>): void => {
    const key = subjectKey(subject);
    const known = troubles.get(key);
    if (known !== undefined) troubles.set(key, { ...known, ...changes });
  };
  for (const problem of [...notice.failing, ...notice.still]) {
    mark(problem, { toldAt: now, toldAs: problem.failure.family });
  }
  for (const problem of notice.recovered) {
    mark(problem, { toldAt: null, toldAs: undefined, flapping: true });
  }
  return { troubles: Object.fromEntries(troubles), triedAt: now };
}

/** Returns true if no failures are known. Ignores warnings. */
export function hasNoFailures({ troubles }: ReportedState): boolean {
  return Object.values(troubles).every(
    ({ subject, wellSince }) => wellSince !== null || isWarning(subject),
  );
}

/** Parses a channel's stored reports. Returns none if the format differs; at worst, a report is repeated. */
export function readReported(value: unknown): ReportedState {
  return reportedSchema.safeParse(value).data ?? NO_REPORTS;
}

/** The reason is a code, a status or a signal, but never external text. */
type Outcome = { readonly sent: true } | { readonly sent: false; readonly reason: string };

/** Environment variables for the command. Excludes tokens, credentials and the service manager's socket. */
const KEPT = ['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR'];

/**
 * Runs the operator's command line in a shell, unchanged. MAILKEEP_EVENT, MAILKEEP_OK and MAILKEEP_SUMMARY contain the
 * summary, and standard input receives the whole notification as JSON. Output is discarded.
 *
 * @param timeoutMs how long before the command and its children are killed
 */
function runCommand(
  command: string,
  message: NotificationMessage,
  env: Readonly<Record<string, string | undefined>>,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Outcome> {
  const child = spawn('/bin/sh', ['-c', command], {
    // A process group can be killed as a unit.
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    env: {
      ...Object.fromEntries(KEPT.flatMap((name) => (name in env ? [[name, env[name]]] : []))),
      MAILKEEP_EVENT: message.event,
      MAILKEEP_OK: message.ok ? '1' : '0',
      MAILKEEP_SUMMARY: message.summary,
    },
  });
  let killed: string | null = null;
  const kill = (reason: string): void => {
    killed ??= reason;
    if (child.pid !== undefined) killGroup(child.pid);
  };
  const timer = setTimeout(() => kill('timeout'), timeoutMs);
  const stop = (): void => kill('stopped');
  signal.addEventListener('abort', stop, { once: true });
  // The command may ignore its input.
  child.stdin.on('error', () => {});
  child.stdin.end(`${JSON.stringify(message)}\n`);
  return new Promise<Outcome>((resolve) => {
    child.once('error', (error) =>
      resolve({ sent: false, reason: errnoOf(error) ?? 'not started' }),
    );
    child.once('exit', (code, by) => {
      if (killed !== null) resolve({ sent: false, reason: killed });
      else if (code === 0) resolve({ sent: true });
      else resolve({ sent: false, reason: code === null ? String(by) : `exit code ${code}` });
    });
  }).finally(() => {
    clearTimeout(timer);
    signal.removeEventListener('abort', stop);
  });
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    // The process has just exited.
    if (errnoOf(error) !== 'ESRCH') throw error;
  }
}

/**
 * POSTs a notification as JSON. In the URL, `{code}` is replaced with 0 or 1, and `{status}` with `up` or `down`, as
 * heartbeat services expect.
 *
 * @param url a secret: anyone who has it can send as us
 */
async function postMessage(
  url: string,
  message: NotificationMessage,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Outcome> {
  const filled = url
    .replaceAll('{code}', message.ok ? '0' : '1')
    .replaceAll('{status}', message.ok ? 'up' : 'down');
  const { controller, release } = linkedController(signal);
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    controller.abort();
  }, timeoutMs);
  try {
    const response = await fetch(filled, {
      method: 'POST',
      // Redirects are not followed: only the configuration determines the target, and a POST could become a GET.
      redirect: 'manual',
      headers: { 'content-type': 'application/json', 'user-agent': `mailkeep/${message.version}` },
      body: JSON.stringify(message),
      signal: controller.signal,
    });
    await response.body?.cancel();
    return response.ok ? { sent: true } : { sent: false, reason: `status ${response.status}` };
  } catch (error) {
    if (late) return { sent: false, reason: 'timeout' };
    if (signal.aborted) return { sent: false, reason: 'stopped' };
    // The error's text can contain the URL.
    return { sent: false, reason: connectionCode(error) };
  } finally {
    clearTimeout(timer);
    release();
  }
}

function connectionCode(error: unknown): string {
  const cause = error instanceof Error ? error.cause : undefined;
  const code: unknown =
    typeof cause === 'object' && cause !== null && 'code' in cause ? cause.code : undefined;
  return typeof code === 'string' ? code : 'no answer';
}

/** Keeps each channel's reports across restarts. */
interface NotifyMemory {
  get(scope: 'notify', channel: string): unknown;
  set(scope: 'notify', channel: string, value: unknown): void;
}

export interface NotifierOptions extends SenderIdentity {
  readonly command: string | null;
  readonly url: { reveal(): string } | null;
  readonly memory: NotifyMemory;
  /** This process's environment, only part of which reaches the command. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly now: () => number;
  readonly onSent: (
    channel: Channel,
    event: NotificationMessage['event'],
    outcome: Outcome,
  ) => void;
  /** Called after an internal error, or if the reports cannot be stored. */
  readonly onError: (error: unknown) => void;
  readonly timeoutMs?: number;
}

type Channel = 'command' | 'url';
type Send = (message: NotificationMessage) => Promise<Outcome>;

const SCOPE = 'notify';
const TIMEOUT_MS = 30_000;
/** Minimum interval between heartbeats, because a burst of mail causes many runs. */
const ALIVE_EVERY_MS = 60_000;

/** Returns the configured channels. `send` never throws. */
export function openChannels(
  {
    command,
    url,
    env,
    timeoutMs = TIMEOUT_MS,
  }: Pick<NotifierOptions, 'command' | 'url' | 'env' | 'timeoutMs'>,
  signal: AbortSignal,
): readonly { readonly channel: Channel; readonly send: Send }[] {
  const byCommand: Send = (message) => runCommand(command ?? '', message, env, timeoutMs, signal);
  const byPost: Send = (message) => postMessage(url?.reveal() ?? '', message, timeoutMs, signal);
  return [
    ...(command === null ? [] : [{ channel: 'command' as const, send: byCommand }]),
    ...(url === null ? [] : [{ channel: 'url' as const, send: byPost }]),
  ];
}

/**
 * Notifies the operator of failures and recoveries over each configured channel. Observations are recorded immediately,
 * and notifications are sent in the background, one at a time.
 */
export class Notifier {
  readonly #stopping = new AbortController();
  readonly #channels: readonly Sender[];

  constructor(options: NotifierOptions) {
    this.#channels = openChannels(options, this.#stopping.signal).map(
      ({ channel, send }) => new Sender(channel, options, send),
    );
  }

  /** Records a run's result. A successful run that reached an account also sends a heartbeat. */
  onRun(report: RunReport, observations = observationsFromRun(report)): void {
    this.observe(observations);
    const isHealthy = report.outcome === 'done' && report.failures.length === 0;
    if (isHealthy && report.accounts.length > 0) {
      for (const channel of this.#channels) channel.alive();
    }
  }

  observe(observations: readonly Observation[]): void {
    for (const channel of this.#channels) channel.observe(observations);
  }

  /** Marks all failures that `isGone` accepts as recovered, because they are no longer observed. */
  drop(isGone: (subject: Subject, failure: Failure) => boolean): void {
    for (const channel of this.#channels) channel.drop(isGone);
  }

  /** Sends notifications that have become due. Should be called about once a minute. */
  tick(): void {
    this.observe([]);
  }

  async idle(): Promise<void> {
    await Promise.all(this.#channels.map((channel) => channel.idle()));
  }

  async close(graceMs = 2_000): Promise<void> {
    const timer = setTimeout(() => this.#stopping.abort(), graceMs);
    try {
      await this.idle();
    } finally {
      clearTimeout(timer);
      this.#stopping.abort();
    }
  }
}

class Sender {
  #reported: ReportedState;
  #aliveAt: number | null = null;
  #aliveDue = false;
  #isForgetful = false;
  #sending: Promise<void> | null = null;

  constructor(
    private readonly channel: Channel,
    private readonly options: NotifierOptions,
    private readonly send: Send,
  ) {
    this.#reported = readReported(options.memory.get(SCOPE, channel));
  }

  observe(observations: readonly Observation[]): void {
    this.#keep(observe(this.#reported, observations, this.options.now()));
    this.#next();
  }

  drop(isGone: (subject: Subject, failure: Failure) => boolean): void {
    const gone = Object.values(this.#reported.troubles).filter(({ subject, failure }) =>
      isGone(subject, failure),
    );
    this.observe(gone.map(({ subject }) => ({ subject, failure: null })));
  }

  /** Sends a heartbeat, which goes only to the URL and not to the command. */
  alive(): void {
    const now = this.options.now();
    const isRecent = this.#aliveAt !== null && Math.abs(now - this.#aliveAt) < ALIVE_EVERY_MS;
    if (this.channel !== 'url' || isRecent || !hasNoFailures(this.#reported)) return;
    this.#aliveDue = true;
    this.#next();
  }

  async idle(): Promise<void> {
    while (this.#sending !== null) await this.#sending;
  }

  #keep(reported: ReportedState): void {
    if (JSON.stringify(reported) === JSON.stringify(this.#reported)) return;
    this.#reported = reported;
    try {
      this.options.memory.set(SCOPE, this.channel, reported);
      this.#isForgetful = false;
    } catch (error) {
      // A full disk must be reported, even though the report cannot be recorded.
      if (!this.#isForgetful) this.options.onError(error);
      this.#isForgetful = true;
    }
  }

  #next(): void {
    if (this.#sending !== null) return;
    const { now, onError } = this.options;
    const notice = dueNotice(this.#reported, now());
    if (notice === null && !this.#aliveDue) return;
    this.#sending = (notice === null ? this.#sendAlive() : this.#sendNotice(notice))
      .catch(onError)
      .finally(() => {
        this.#sending = null;
        this.#next();
      });
  }

  async #sendNotice(notice: NonNullable<ReturnType<typeof dueNotice>>): Promise<void> {
    const { now, onSent } = this.options;
    const message = formatNotice(notice, hasNoFailures(this.#reported), now(), this.options);
    // Recorded before sending, so that an internal error does not send it repeatedly.
    this.#keep(recordAttempt(this.#reported, notice, false, now()));
    const outcome = await this.send(message);
    this.#keep(recordAttempt(this.#reported, notice, outcome.sent, now()));
    onSent(this.channel, message.event, outcome);
  }

  async #sendAlive(): Promise<void> {
    const { now, onSent } = this.options;
    this.#aliveDue = false;
    this.#aliveAt = now();
    const message = formatNotice(null, true, now(), this.options);
    onSent(this.channel, message.event, await this.send(message));
  }
}
