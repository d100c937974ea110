import type { MirrorReply } from './mirror-call.ts';

/** Answers larger than this are sent in pieces, in bytes. */
const LARGE = 1 << 20;
const PIECE = 1 << 16;

type Ready = Exclude<MirrorReply, { kind: 'stream' }>;

/**
 * Returns the response of an answer. A large one holds its turn until it is sent: a client that does not read must not
 * pile them up in memory.
 *
 * @param check throws where no more of the answer may be sent
 * @param done ends the turn
 */
export function sending(reply: MirrorReply, check: () => void, done: () => void): Response {
  if (reply.kind === 'stream') {
    const headers = { 'content-type': reply.type, 'content-length': String(reply.length) };
    return new Response(streamOf(reply.pieces, check, done), { headers });
  }
  const bytes = largeBytes(reply);
  if (bytes === null) {
    done();
    return responseOf(reply);
  }
  const type = reply.kind === 'bytes' ? reply.type : JSON_TYPE;
  const headers = { 'content-type': type, 'content-length': String(bytes.length) };
  return new Response(streamOf(piecesOf(bytes), check, done), { headers });
}

const JSON_TYPE = 'application/json; charset=utf-8';

/** Returns the response of an answer that is ready. */
export function responseOf(reply: Ready): Response {
  switch (reply.kind) {
    case 'empty':
      return new Response(null, { status: reply.status });
    case 'text':
      return new Response(reply.text, {
        status: reply.status,
        headers: { 'content-type': JSON_TYPE, ...reply.headers },
      });
    case 'bytes':
      return new Response(new Uint8Array(reply.bytes), {
        headers: { 'content-type': reply.type, 'content-length': String(reply.bytes.length) },
      });
  }
}

/** The bytes of a successful answer that is large; null for others. */
function largeBytes(reply: Ready): Buffer | null {
  if (reply.kind === 'bytes') return reply.bytes.length > LARGE ? reply.bytes : null;
  if (reply.kind === 'empty' || reply.status !== 200 || reply.text.length <= LARGE) return null;
  return Buffer.from(reply.text);
}

async function* piecesOf(bytes: Buffer): AsyncGenerator<Buffer, void, undefined> {
  for (let at = 0; at < bytes.length; at += PIECE) yield bytes.subarray(at, at + PIECE);
}

/** A source that turns out damaged breaks the connection: its length was promised. */
function streamOf(
  pieces: AsyncIterable<Buffer>,
  check: () => void,
  done: () => void,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  const iterator = pieces[Symbol.asyncIterator]();
  return new ReadableStream({
    async pull(controller) {
      try {
        const next = await iterator.next();
        check();
        if (next.done !== true) {
          controller.enqueue(new Uint8Array(next.value));
          return;
        }
        controller.close();
        done();
      } catch (error) {
        done();
        await iterator.return?.();
        controller.error(error);
      }
    },
    async cancel() {
      await iterator.return?.();
      done();
    },
  });
}
