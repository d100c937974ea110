import { spawn } from 'node:child_process';
import { errnoOf } from '../errors/mailkeep-error.ts';
import type { RunReport } from '../health/run-report.ts';
import { following } from '../limiter/on-abort.ts';
import { messageOf, type NotificationMessage, type Surroundings } from './message.ts';
import { type Observation, observationsOf, type Subject, subjectKey } from './observation.ts';
import { allWell, due, observe, type Reported, readReported, tried } from './plan.ts';

/** How a notification went; the reason holds a code, a status or a signal, and no text of anybody's. */
export type Outcome = { readonly sent: true } | { readonly sent: false; readonly reason: string };

/** What a command needs of our environment. Tokens, credentials and the service manager's socket are not among it. */
const KEPT = ['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'LANG', 'LC_ALL', 'TZ', 'TMPDIR'];

/**
 * Runs the operator's command line in a shell. Nothing is put into the line: what happened is in the variables
 * MAILKEEP_EVENT, MAILKEEP_OK and MAILKEEP_SUMMARY and, whole, as JSON on standard input. Its output is dropped.
 *
 * @param timeoutMs after which the command and what it started are killed
 */
export function runCommand(
  command: string,
  message: NotificationMessage,
  env: Readonly<Record<string, string | undefined>>,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Outcome> {
  const child = spawn('/bin/sh', ['-c', command], {
    // A group of its own, so that all of it can be killed.
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
  const kill = (why: string): void => {
    killed ??= why;
    if (child.pid !== undefined) killGroup(child.pid);
  };
  const timer = setTimeout(() => kill('timeout'), timeoutMs);
  const onAbort = (): void => kill('stopped');
  signal.addEventListener('abort', onAbort, { once: true });
  // A command that does not read its input is not wrong.
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
    signal.removeEventListener('abort', onAbort);
  });
}

function killGroup(pid: number): void {
  try {
    process.kill(-pid, 'SIGKILL');
  } catch (error) {
    // It has just ended.
    if (errnoOf(error) !== 'ESRCH') throw error;
  }
}

/**
 * POSTs a notification as JSON. In the address, `{code}` stands for 0 or 1 and `{status}` for `up` or `down`: services
 * that watch for heartbeats take a failure by them.
 *
 * @param url a secret: whoever knows it may speak in our name
 */
export async function postMessage(
  url: string,
  message: NotificationMessage,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Outcome> {
  const filled = url
    .replaceAll('{code}', message.ok ? '0' : '1')
    .replaceAll('{status}', message.ok ? 'up' : 'down');
  const { controller, release } = following(signal);
  let late = false;
  const timer = setTimeout(() => {
    late = true;
    controller.abort();
  }, timeoutMs);
  try {
    const response = await fetch(filled, {
      method: 'POST',
      // Where it would lead is for the configuration to say; a POST may become a GET on its way, and be lost.
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
    // The error's own words may hold the address.
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

/** Where what was reported is remembered by channel: the archive's state, over restarts. */
export interface NotifyMemory {
  get(scope: 'notify', channel: string): unknown;
  set(scope: 'notify', channel: string, value: unknown): void;
}

export interface NotifierOptions extends Surroundings {
  /** A command line for a shell, and an address; null for none. */
  readonly command: string | null;
  readonly url: { reveal(): string } | null;
  readonly memory: NotifyMemory;
  /** Environment of this process; little of it reaches the command. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Called after every attempt. */
  readonly onSent: (
    channel: Channel,
    event: NotificationMessage['event'],
    outcome: Outcome,
  ) => void;
  /** A mistake of ours, or a memory that cannot be written. */
  readonly onError: (error: unknown) => void;
  readonly timeoutMs?: number;
}

export type Channel = 'command' | 'url';
type Send = (message: NotificationMessage) => Promise<Outcome>;

const SCOPE = 'notify';
const TIMEOUT_MS = 30_000;
/** Signs of life come no more often: a burst of mail makes many runs. */
const ALIVE_EVERY_MS = 60_000;

/** Returns the channels that are configured. `send` never throws. */
export function openChannels(
  {
    command,
    url,
    env,
    timeoutMs = TIMEOUT_MS,
  }: Pick<NotifierOptions, 'command' | 'url' | 'env' | 'timeoutMs'>,
  signal: AbortSignal,
): readonly { readonly channel: Channel; readonly send: Send }[] {
  const channels: { readonly channel: Channel; readonly send: Send }[] = [];
  if (command !== null) {
    const send: Send = (message) => runCommand(command, message, env, timeoutMs, signal);
    channels.push({ channel: 'command', send });
  }
  if (url !== null) {
    const send: Send = (message) => postMessage(url.reveal(), message, timeoutMs, signal);
    channels.push({ channel: 'url', send });
  }
  return channels;
}

/**
 * Notifies somebody when something stops working and when it works again, over each configured channel. It records
 * observations at once and sends in the background, one notification at a time.
 */
export class Notifier {
  readonly #stopping = new AbortController();
  readonly #channels: Sender[] = [];

  constructor(options: NotifierOptions) {
    for (const { channel, send } of openChannels(options, this.#stopping.signal)) {
      this.#channels.push(new Sender(channel, options, send));
    }
  }

  /**
   * Records the result of a run. A run that reached an account, with all well, is a heartbeat to the address.
   *
   * @param observations what the run says about the state of things
   */
  onRun(report: RunReport, observations = observationsOf(report)): void {
    this.observe(observations);
    const well = report.outcome === 'done' && report.failures.length === 0;
    if (well && report.accounts.length > 0) {
      for (const channel of this.#channels) channel.alive();
    }
  }

  /** Takes note of how things were found to be. */
  observe(observations: readonly Observation[]): void {
    for (const channel of this.#channels) channel.observe(observations);
  }

  /** Takes note that a failure with this code is over; a subject that fails for another reason stays as it is. */
  settle(subject: Subject, code: string): void {
    for (const channel of this.#channels) channel.settle(subject, code);
  }

  /** Counts all subjects that `isGone` accepts as recovered: nobody observes them any more. */
  drop(isGone: (subject: Subject) => boolean): void {
    for (const channel of this.#channels) channel.drop(isGone);
  }

  /** Sends what has become due by the passing of time; to be called every minute or so. */
  tick(): void {
    this.observe([]);
  }

  /** Resolves when nothing is being sent. */
  async idle(): Promise<void> {
    await Promise.all(this.#channels.map((channel) => channel.idle()));
  }

  /** Lets what is being sent go out for as long as given, then breaks it. */
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

/** One channel: what was reported to it, and what is being sent. */
class Sender {
  readonly #options: NotifierOptions;
  #reported: Reported;
  #aliveAt: number | null = null;
  #aliveDue = false;
  /** What was reported could not be stored. */
  #isForgetful = false;
  #sending: Promise<void> | null = null;

  constructor(
    private readonly channel: Channel,
    options: NotifierOptions,
    private readonly send: Send,
  ) {
    this.#options = options;
    this.#reported = readReported(options.memory.get(SCOPE, channel));
  }

  observe(observations: readonly Observation[]): void {
    this.#keep(observe(this.#reported, observations, this.#options.now()));
    this.#next();
  }

  settle(subject: Subject, code: string): void {
    const known = this.#reported.troubles[subjectKey(subject)];
    if (known?.failure.code === code) this.observe([{ subject, failure: null }]);
  }

  drop(isGone: (subject: Subject) => boolean): void {
    const subjects = Object.values(this.#reported.troubles).map(({ subject }) => subject);
    this.observe(subjects.filter(isGone).map((subject) => ({ subject, failure: null })));
  }

  /** Signs of life are for what waits for them, and not for a person's command. */
  alive(): void {
    const now = this.#options.now();
    const lately = this.#aliveAt !== null && Math.abs(now - this.#aliveAt) < ALIVE_EVERY_MS;
    if (this.channel !== 'url' || lately || !allWell(this.#reported)) return;
    this.#aliveDue = true;
    this.#next();
  }

  async idle(): Promise<void> {
    while (this.#sending !== null) await this.#sending;
  }

  #keep(reported: Reported): void {
    if (JSON.stringify(reported) === JSON.stringify(this.#reported)) return;
    this.#reported = reported;
    try {
      this.#options.memory.set(SCOPE, this.channel, reported);
      this.#isForgetful = false;
    } catch (error) {
      // A full disk must be reported, even though it leaves no room to record that.
      if (!this.#isForgetful) this.#options.onError(error);
      this.#isForgetful = true;
    }
  }

  #next(): void {
    if (this.#sending !== null) return;
    const { now, onError } = this.#options;
    const notice = due(this.#reported, now());
    if (notice === null && !this.#aliveDue) return;
    this.#sending = (notice === null ? this.#sendAlive() : this.#sendNotice(notice))
      .catch(onError)
      .finally(() => {
        this.#sending = null;
        this.#next();
      });
  }

  async #sendNotice(notice: NonNullable<ReturnType<typeof due>>): Promise<void> {
    const { now, onSent } = this.#options;
    const message = messageOf(notice, allWell(this.#reported), now(), this.#options);
    // Noted before it is sent: a mistake of ours must not send it for ever.
    this.#keep(tried(this.#reported, notice, false, now()));
    const outcome = await this.send(message);
    this.#keep(tried(this.#reported, notice, outcome.sent, now()));
    onSent(this.channel, message.event, outcome);
  }

  async #sendAlive(): Promise<void> {
    const { now, onSent } = this.#options;
    this.#aliveDue = false;
    this.#aliveAt = now();
    const message = messageOf(null, true, now(), this.#options);
    onSent(this.channel, message.event, await this.send(message));
  }
}
