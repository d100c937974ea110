import type { RunReport } from '../health/run-report.ts';
import type { StateFile } from '../state/state-file.ts';
import type { Outcome } from './command.ts';
import { runCommand } from './command.ts';
import { messageOf, type NotificationMessage, type Surroundings } from './message.ts';
import { type Observation, observationsOf, type Subject, subjectKey } from './observation.ts';
import { allWell, due, observe, type Told, tried } from './plan.ts';
import { postMessage } from './post.ts';
import { toldIn } from './remembered.ts';

/** Where what was reported is remembered over restarts: the archive's state. */
export type NotifyMemory = Pick<StateFile, 'get' | 'set'>;

export interface NotifierOptions extends Surroundings {
  /** A command line for a shell, and an address; null for none. */
  readonly command: string | null;
  readonly url: { reveal(): string } | null;
  readonly memory: NotifyMemory;
  /** Environment of this process; little of it reaches the command. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Told of every attempt. */
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

const SCOPE = 'notify';
const TIMEOUT_MS = 30_000;
/** Signs of life come no more often: a burst of mail makes many runs. */
const ALIVE_EVERY_MS = 60_000;

/**
 * Tells somebody when something stops working and when it works again, over each channel that is configured. It takes
 * note at once and sends behind, one thing at a time.
 */
export class Notifier {
  readonly #stopping = new AbortController();
  readonly #channels: readonly Sender[];

  constructor(options: NotifierOptions) {
    const { command, url, env, timeoutMs = TIMEOUT_MS } = options;
    const { signal } = this.#stopping;
    this.#channels = [
      ...(command === null
        ? []
        : [
            new Sender('command', options, (message) =>
              runCommand(command, message, env, timeoutMs, signal),
            ),
          ]),
      ...(url === null
        ? []
        : [
            new Sender('url', options, (message) =>
              postMessage(url.reveal(), message, timeoutMs, signal),
            ),
          ]),
    ];
  }

  /** Takes note of what a run came to. One that reached an account, with all well, is a sign of life to the address. */
  onRun(report: RunReport): void {
    this.observe(observationsOf(report));
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

/** One channel: what it was told, and what is under way to it. */
class Sender {
  readonly #channel: Channel;
  readonly #options: NotifierOptions;
  readonly #send: (message: NotificationMessage) => Promise<Outcome>;
  #told: Told;
  #aliveAt: number | null = null;
  #aliveDue = false;
  #sending: Promise<void> | null = null;

  constructor(
    channel: Channel,
    options: NotifierOptions,
    send: (message: NotificationMessage) => Promise<Outcome>,
  ) {
    this.#channel = channel;
    this.#options = options;
    this.#send = send;
    this.#told = toldIn(options.memory.get(SCOPE, channel));
  }

  observe(observations: readonly Observation[]): void {
    this.#keep(observe(this.#told, observations, this.#options.now()));
    this.#next();
  }

  settle(subject: Subject, code: string): void {
    const known = this.#told.troubles[subjectKey(subject)];
    if (known?.failure.code === code) this.observe([{ subject, failure: null }]);
  }

  /** Signs of life are for what waits for them, and not for a person's command. */
  alive(): void {
    const now = this.#options.now();
    const lately = this.#aliveAt !== null && Math.abs(now - this.#aliveAt) < ALIVE_EVERY_MS;
    if (this.#channel !== 'url' || lately || !allWell(this.#told)) return;
    this.#aliveDue = true;
    this.#next();
  }

  async idle(): Promise<void> {
    while (this.#sending !== null) await this.#sending;
  }

  #keep(told: Told): void {
    if (JSON.stringify(told) === JSON.stringify(this.#told)) return;
    this.#told = told;
    this.#options.memory.set(SCOPE, this.#channel, told);
  }

  #next(): void {
    if (this.#sending !== null) return;
    const { now, onError } = this.#options;
    const notice = due(this.#told, now());
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
    const message = messageOf(notice, allWell(this.#told), now(), this.#options);
    // Noted before it is sent: a mistake of ours must not send it for ever.
    this.#keep(tried(this.#told, notice, false, now()));
    const outcome = await this.#send(message);
    this.#keep(tried(this.#told, notice, outcome.sent, now()));
    onSent(this.#channel, message.event, outcome);
  }

  async #sendAlive(): Promise<void> {
    const { now, onSent } = this.#options;
    this.#aliveDue = false;
    this.#aliveAt = now();
    const message = messageOf(null, true, now(), this.#options);
    onSent(this.#channel, message.event, await this.#send(message));
  }
}
