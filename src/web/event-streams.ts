import type { ServedArchive } from './served-archive.ts';
import type { Session, Sessions } from './sessions.ts';

interface Reached {
  /** Number of the last commit. For a limited browser, the last one that concerns its mailboxes. */
  readonly commit: number;
  readonly isIndexed: boolean;
}

type Listener = Pick<Session, 'key' | 'mailboxes'>;

interface Stream {
  readonly listener: Listener;
  readonly controller: ReadableStreamDefaultController<Uint8Array>;
  sent: Reached;
  /** Milliseconds since the epoch. */
  sentAt: number;
}

interface EventStreamsOptions {
  readonly archive: Pick<ServedArchive, 'hold'>;
  readonly sessions: Pick<Sessions, 'isOpen'>;
  /** Returns milliseconds since the epoch. */
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

const POLL_MS = 1_000;
/** Milliseconds between heartbeats on an idle stream, because proxies close silent streams. */
const HEARTBEAT_MS = 20_000;
const RETRY_MS = 5_000;
const MAX_OF_SESSION = 8;
const MAX_STREAMS = 64;
/** Maximum unread events per browser. A browser with more is gone or asleep. */
const MAX_UNREAD = 16;

const encoder = new TextEncoder();

/** Tells browsers which commits concern their mailboxes. The browsers fetch the changes with their own sessions. */
export class EventStreams {
  readonly #streams = new Set<Stream>();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(private readonly options: EventStreamsOptions) {}

  get size(): number {
    return this.#streams.size;
  }

  /** Returns a stream that starts with the current commit; null if too many are open. */
  open(listener: Listener): Response | null {
    const ofSession = [...this.#streams].filter(({ listener: { key } }) => key === listener.key);
    if (this.#isClosed || this.#streams.size >= MAX_STREAMS || ofSession.length >= MAX_OF_SESSION)
      return null;
    const sent = this.#stateOf(listener);
    const sentAt = this.options.now();
    let stream: Stream | undefined;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        stream = { listener, controller, sent, sentAt };
        this.#streams.add(stream);
        controller.enqueue(encoder.encode(`retry: ${RETRY_MS}\n\n${eventOf(sent)}`));
      },
      cancel: () => {
        if (stream !== undefined) this.#forget(stream);
      },
    });
    this.#timer ??= setInterval(() => this.tick(), POLL_MS).unref();
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  }

  tick(): void {
    if (this.#streams.size === 0) return;
    try {
      // Streams with the same limit share one lookup.
      const states = new Map<string, Reached>();
      for (const stream of this.#streams) {
        const limit = JSON.stringify(stream.listener.mailboxes);
        const state = states.get(limit) ?? this.#stateOf(stream.listener, stream.sent);
        states.set(limit, state);
        this.#inform(stream, state);
      }
    } catch (error) {
      // Browsers reconnect, and are served once the archive can be read again.
      this.#endAll();
      this.options.onError(error);
    }
  }

  /** Closes all streams, so that the server can shut down without waiting for them. */
  close(): void {
    this.#isClosed = true;
    this.#endAll();
  }

  #inform(stream: Stream, state: Reached): void {
    const { sessions, now } = this.options;
    const at = now();
    const isGone = (stream.controller.desiredSize ?? 0) < -MAX_UNREAD;
    if (isGone || !sessions.isOpen(stream.listener.key, at)) {
      this.#end(stream);
      return;
    }
    const { sent } = stream;
    stream.sent = state;
    // Messages are indexed after the commit that stored them.
    const isNew = state.commit !== sent.commit || (state.isIndexed && !sent.isIndexed);
    if (!isNew && at - stream.sentAt < HEARTBEAT_MS) return;
    stream.controller.enqueue(encoder.encode(isNew ? eventOf(state) : ':\n\n'));
    stream.sentAt = at;
  }

  /** @param before the previous result, whose messages are still indexed */
  #stateOf({ mailboxes }: Listener, before?: Reached): Reached {
    const { reader, release } = this.options.archive.hold(mailboxes);
    try {
      const { catalog } = reader;
      const commit = catalog.reached().number;
      const isKnown = before?.commit === commit && before.isIndexed;
      return { commit, isIndexed: isKnown || catalog.index.pendingCount() === 0 };
    } finally {
      release();
    }
  }

  #endAll(): void {
    for (const stream of this.#streams) this.#end(stream);
  }

  #end(stream: Stream): void {
    this.#forget(stream);
    stream.controller.close();
  }

  #forget(stream: Stream): void {
    this.#streams.delete(stream);
    if (this.#streams.size > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }
}

function eventOf({ commit }: Reached): string {
  return `event: commit\ndata: ${commit}\n\n`;
}
