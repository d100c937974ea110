import type { ServedArchive } from './served-archive.ts';
import type { Sessions } from './sessions.ts';

/** How far the archive is, as one browser may know it. */
interface Reached {
  /** Of a browser that is limited to mailboxes, the number of the last commit with a fact about them. */
  readonly commit: number;
  readonly isIndexed: boolean;
}

/** Who listens: the key of a session, and the mailboxes that it is limited to. */
interface Listener {
  readonly key: string;
  readonly mailboxes: readonly string[] | null;
}

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

/** How often the archive is asked for its commit while anybody listens. Milliseconds. */
const POLL_MS = 1_000;
/** Without an event for so long, a stream is shown to be alive: proxies end those that say nothing. Milliseconds. */
const HEARTBEAT_MS = 20_000;
/** How long a browser waits before it opens a stream again that broke. Milliseconds. */
const RETRY_MS = 5_000;
/** Streams that are open at a time, of one session and in all. */
const MOST_OF_SESSION = 8;
const MOST = 64;
/** Events that a browser has not read, at most: it is gone, or asleep. */
const MOST_UNREAD = 16;

const encoder = new TextEncoder();

/**
 * Sends browsers the numbers of new commits, and nothing else: what has changed they ask for with their session. A
 * browser that is limited to mailboxes hears only of commits that are about these, by numbers that count no others.
 */
export class EventStreams {
  readonly #streams = new Set<Stream>();
  #timer: NodeJS.Timeout | undefined;
  #isClosed = false;

  constructor(private readonly options: EventStreamsOptions) {}

  get size(): number {
    return this.#streams.size;
  }

  /** Returns a stream of events for a session, which begins with the commit of now; null where there are too many. */
  open(listener: Listener): Response | null {
    const ofSession = [...this.#streams].filter(({ listener: { key } }) => key === listener.key);
    if (this.#isClosed || this.#streams.size >= MOST || ofSession.length >= MOST_OF_SESSION)
      return null;
    const sent = this.#reached(listener);
    const sentAt = this.options.now();
    let opened: Stream | undefined;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        opened = { listener, controller, sent, sentAt };
        this.#streams.add(opened);
        controller.enqueue(encoder.encode(`retry: ${RETRY_MS}\n\n${eventOf(sent)}`));
      },
      cancel: () => {
        if (opened !== undefined) this.#forget(opened);
      },
    });
    this.#timer ??= setInterval(() => this.tick(), POLL_MS).unref();
    return new Response(body, { headers: { 'content-type': 'text/event-stream' } });
  }

  /** Looks for a new commit, for one that words now find as well, and for sessions that have ended. */
  tick(): void {
    if (this.#streams.size === 0) return;
    try {
      // Those with the same limit are asked about once.
      const known = new Map<string, Reached>();
      for (const stream of this.#streams) {
        const limit = JSON.stringify(stream.listener.mailboxes);
        const reached = known.get(limit) ?? this.#reached(stream.listener, stream.sent);
        known.set(limit, reached);
        this.#inform(stream, reached);
      }
    } catch (error) {
      // Browsers come again, and are answered when the archive can be.
      this.#end();
      this.options.onError(error);
    }
  }

  /** Ends all streams: a server that closes waits for none. */
  close(): void {
    this.#isClosed = true;
    this.#end();
  }

  #inform(stream: Stream, reached: Reached): void {
    const { sessions, now } = this.options;
    const at = now();
    const isGone = (stream.controller.desiredSize ?? 0) < -MOST_UNREAD;
    if (isGone || !sessions.isOpen(stream.listener.key, at)) {
      this.#forget(stream);
      stream.controller.close();
      return;
    }
    const { sent } = stream;
    stream.sent = reached;
    // Messages are indexed after the commit that brought them.
    const isNew = reached.commit !== sent.commit || (reached.isIndexed && !sent.isIndexed);
    if (!isNew && at - stream.sentAt < HEARTBEAT_MS) return;
    stream.controller.enqueue(encoder.encode(isNew ? eventOf(reached) : ':\n\n'));
    stream.sentAt = at;
  }

  /** @param before what was so a moment ago: what words found then, they still find */
  #reached({ mailboxes }: Listener, before?: Reached): Reached {
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

  #end(): void {
    for (const stream of this.#streams) {
      this.#forget(stream);
      stream.controller.close();
    }
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
