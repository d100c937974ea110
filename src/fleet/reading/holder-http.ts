import { ResponseCutOff, requestOverStream, type StreamClient } from '../../core/listener.ts';
import { fleetLinkError } from '../errors.ts';
import type { Conversation } from './converse.ts';

/** Without a request for so long, the reader at the holder ends. Milliseconds. */
const IDLE_MS = 60_000;

/** What can be asked a second time. */
const REPEATABLE = new Set(['GET', 'HEAD']);

/**
 * HTTP requests to the holder of an archive, whoever that is: a conversation begins with the first request, and another one
 * where the holder has changed.
 */
export class HolderHttp {
  readonly #ending = new AbortController();
  #over: StreamClient | undefined;
  #beginning: Promise<StreamClient> | undefined;
  #idle: NodeJS.Timeout | undefined;
  #node = '';

  /** @param begin begins a conversation with a reader that answers HTTP */
  constructor(private readonly begin: (signal: AbortSignal) => Promise<Conversation>) {}

  /** That of the last conversation. */
  get node(): string {
    return this.#node;
  }

  /**
   * Has a request answered. One that was cut off before its answer began is asked again, unless it might do something twice.
   *
   * @throws what `begin` throws; fleet-answer-cut; the reason of the request's signal
   */
  async fetch(request: Request): Promise<Response> {
    for (let isFirst = true; ; isFirst = false) {
      const over = this.#open ?? (await this.#reached());
      request.signal.throwIfAborted();
      try {
        return await over.fetch(request);
      } catch (error) {
        if (!(error instanceof ResponseCutOff)) throw error;
        if (isFirst && REPEATABLE.has(request.method)) continue;
        throw fleetLinkError('fleet-answer-cut', { node: this.#node }, error);
      }
    }
  }

  /** Ends the conversation, and what is being answered. */
  async close(): Promise<void> {
    clearTimeout(this.#idle);
    this.#ending.abort();
    await this.#beginning?.catch(() => undefined);
    this.#over?.close();
  }

  get #open(): StreamClient | undefined {
    return this.#over?.hasEnded === false ? this.#over : undefined;
  }

  /** Whoever asks meanwhile waits for the same conversation. */
  #reached(): Promise<StreamClient> {
    this.#beginning ??= this.#begun().finally(() => {
      this.#beginning = undefined;
    });
    return this.#beginning;
  }

  async #begun(): Promise<StreamClient> {
    const { node, stream, ended } = await this.begin(this.#ending.signal);
    this.#node = node;
    // Whatever is being answered hears of it.
    ended.catch(() => undefined);
    const over = requestOverStream(stream, () => this.#rest(over));
    this.#over = over;
    this.#rest(over);
    return over;
  }

  /** Called whenever the last answer has ended: whatever was asked since keeps the conversation. */
  #rest(over: StreamClient): void {
    if (over !== this.#over) return;
    clearTimeout(this.#idle);
    this.#idle = setTimeout(() => {
      if (over.open === 0) over.close();
    }, IDLE_MS).unref();
  }
}
