import { once } from 'node:events';
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  createServer,
  type Http2ServerResponse,
  type IncomingHttpHeaders,
} from 'node:http2';
import { Duplex, type Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { getRequestListener } from '@hono/node-server';

/** Bytes of an answer that wait to be taken. */
const MOST_WAITING = 64 * 1024;
/** What waits in all answers of a stream, beyond which Node.js refuses requests: 10 by default. */
const MOST_MEGABYTES = 64;
/** Statuses of answers that have no body (RFC 9110, section 6.4.1). */
const EMPTY = new Set([204, 304]);

/** A request was not answered: the other side reset it, or the stream has ended. */
export class AnswerCut extends Error {
  override readonly name = 'AnswerCut';

  constructor(code: number | undefined, cause?: unknown) {
    super(`no answer (HTTP/2 error code ${code ?? 'unknown'})`, { cause });
  }
}

/** HTTP requests that are asked over one stream of bytes. */
export interface RequestsOver {
  /** Requests that are being answered. */
  readonly open: number;
  /** True once the stream has ended: nothing more can be asked. */
  readonly hasEnded: boolean;
  /** @throws where the stream ends before an answer has begun; the reason of the request's signal */
  fetch(request: Request): Promise<Response>;
  /** Ends the stream, and what is being answered. */
  close(): void;
}

/**
 * Asks HTTP requests over a stream, many at a time, each with its own flow control (HTTP/2, RFC 9113).
 *
 * @param onIdle called when the last answer has ended
 */
export function requestsOver(stream: Duplex, onIdle: () => void): RequestsOver {
  const session = connect('http://archive', {
    createConnection: () => stream,
    maxSessionMemory: MOST_MEGABYTES,
  });
  // Every request hears of it by itself.
  session.on('error', () => undefined);
  let open = 0;
  return {
    get open() {
      return open;
    },
    get hasEnded() {
      return session.closed || session.destroyed;
    },
    async fetch(request) {
      const asked = begun(session, request);
      open += 1;
      asked.once('close', () => {
        open -= 1;
        if (open === 0) onIdle();
      });
      return answerOf(session, asked, request);
    },
    close: () => session.destroy(),
  };
}

function begun(session: ClientHttp2Session, request: Request): ClientHttp2Stream {
  const { pathname, search } = new URL(request.url);
  const { method, signal, body } = request;
  if (session.destroyed || session.closed) throw new AnswerCut(undefined);
  const asked = session.request(
    { ...Object.fromEntries(request.headers), ':method': method, ':path': pathname + search },
    { endStream: body === null, signal },
  );
  // Whoever sends it may leave; the answer then does not come.
  if (body !== null) pipeline(body, asked).catch(() => asked.destroy());
  return asked;
}

/** @throws AnswerCut where it ends before it began; the reason of the signal */
async function answerOf(
  session: ClientHttp2Session,
  asked: ClientHttp2Stream,
  { signal, method }: Request,
): Promise<Response> {
  // From here on, and not once the headers are there: Node.js may have closed a short answer by then.
  const body = bodyOf(session, asked);
  const headers = await new Promise<IncomingHttpHeaders>((resolve, reject) => {
    asked.once('response', resolve);
    asked.once('error', (error) => reject(new AnswerCut(asked.rstCode, error)));
    asked.once('close', () => reject(new AnswerCut(asked.rstCode)));
  }).catch((error: unknown) => {
    signal.throwIfAborted();
    throw error;
  });
  const { ':status': status, ...rest } = headers;
  const known = new Headers();
  for (const [name, value] of Object.entries(rest))
    for (const one of [value ?? []].flat()) known.append(name, one);
  const isEmpty = method === 'HEAD' || EMPTY.has(Number(status));
  return new Response(isEmpty ? null : body, { status: Number(status), headers: known });
}

/** What comes on a stream, which is read no faster than it is taken. Cut off, it ends with AnswerCut. */
function bodyOf(
  session: ClientHttp2Session,
  asked: ClientHttp2Stream,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  let isOver = false;
  return new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      start(controller) {
        asked.on('data', (bytes: Buffer<ArrayBuffer>) => {
          if (isOver) return;
          controller.enqueue(bytes);
          if ((controller.desiredSize ?? 0) <= 0) asked.pause();
        });
        let hasEnd = false;
        asked.once('end', () => {
          hasEnd = true;
        });
        asked.on('error', () => undefined);
        asked.once('close', () => {
          if (isOver) return;
          isOver = true;
          // Node.js ends what is cut off as well: only its code says so, or that the session was destroyed.
          const isWhole = hasEnd && asked.rstCode === constants.NGHTTP2_NO_ERROR;
          if (isWhole && !session.destroyed) controller.close();
          else controller.error(new AnswerCut(asked.rstCode));
        });
      },
      pull: () => void asked.resume(),
      cancel() {
        isOver = true;
        asked.close(constants.NGHTTP2_CANCEL);
      },
    },
    new ByteLengthQueuingStrategy({ highWaterMark: MOST_WAITING }),
  );
}

/**
 * Joins what is read and what is written to one stream. Destroying it ends neither: they are the process's own.
 *
 * @param write resolves when more is taken
 */
export function joined(input: Readable, write: (bytes: Uint8Array) => Promise<void>): Duplex {
  const stream = new Duplex({
    read: () => void input.resume(),
    write: (bytes: Uint8Array, _encoding, done) => {
      write(bytes).then(() => done(), done);
    },
  });
  input.on('data', (bytes: Buffer) => {
    if (!stream.destroyed && !stream.push(bytes)) input.pause();
  });
  input.once('end', () => stream.push(null));
  input.once('error', (error) => stream.destroy(error));
  input.once('close', () => {
    if (!input.readableEnded) stream.destroy();
  });
  return stream;
}

/**
 * Answers the requests that come over a stream.
 *
 * @param fetch must not reject; `breakOff` breaks off the answer of one request
 * @returns resolves when the stream has ended
 */
export async function answerOver(
  stream: Duplex,
  fetch: (request: Request, breakOff: () => void) => Promise<Response>,
): Promise<void> {
  const server = createServer(
    { maxSessionMemory: MOST_MEGABYTES },
    getRequestListener(
      (request, env) =>
        fetch(request, () => breakOff((env as { outgoing: Http2ServerResponse }).outgoing)),
      // A body that nobody reads is reset with its stream.
      { overrideGlobalObjects: false, autoCleanupIncoming: false },
    ),
  );
  const ended = once(stream, 'close');
  server.emit('connection', stream);
  await ended;
}

function breakOff({ stream }: Http2ServerResponse): void {
  stream.close(constants.NGHTTP2_INTERNAL_ERROR);
}
