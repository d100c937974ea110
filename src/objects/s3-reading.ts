import type { IncomingHttpHeaders } from 'node:http';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import { objectError } from '../errors/objects.ts';
import type { S3Client } from './s3-client.ts';
import { isTransient, retryAfterMs } from './s3-refusals.ts';
import type { Answer } from './s3-transport.ts';

const OPERATION = 'GetObject';
/** Of a part of an object: where it begins and ends, and the length of everything. */
const CONTENT_RANGE = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15})$/;

interface Whole {
  readonly length: number;
  /** Names these bytes: other bytes have another one. */
  readonly etag: string;
}

/**
 * Yields the bytes of an object, or of one of its versions. A connection that breaks is continued where it stopped, if the object is still the same.
 *
 * @throws object-missing; object-changed; see `S3Client.request`
 */
export async function* readObject(
  client: S3Client,
  { name, version }: { readonly name: string; readonly version?: string | undefined },
  signal: AbortSignal,
): AsyncGenerator<Buffer> {
  const query = version === undefined ? {} : { versionId: version };
  const patience = client.patience(signal);
  let whole: Whole | undefined;
  let position = 0;
  for (;;) {
    let askedMs = 0;
    let answer: Answer | undefined;
    try {
      const headers = whole === undefined ? {} : continuing(position, whole);
      const request = { operation: OPERATION, method: 'GET', name, query, headers } as const;
      answer = await client.open(request, signal);
      if (answer.status !== 200 && answer.status !== 206) {
        askedMs = retryAfterMs(answer.headers, client.clock.now());
        throw await refusal(client, name, answer);
      }
      const found = wholeOf(client, answer, position);
      whole ??= found;
      if (found.length !== whole.length) {
        throw objectError('object-changed', { store: client.label, name });
      }
      for await (const chunk of answer.chunks()) {
        position += chunk.length;
        if (position > whole.length) throw invalid(client, 'more bytes than announced');
        patience.progressed();
        yield chunk;
      }
      if (position < whole.length) throw invalid(client, 'fewer bytes than announced');
      return;
    } catch (error) {
      answer?.discard();
      // Without a name for its bytes, nobody knows whether the rest would be of the same object.
      if (position > 0 && whole?.etag === '' && error instanceof MailkeepError) throw error;
      await patience.afterFailure(error, askedMs);
    } finally {
      // The reader may have left.
      answer?.discard();
    }
  }
}

function continuing(position: number, { etag }: Whole): Readonly<Record<string, string>> {
  if (position === 0) return etag === '' ? {} : { 'if-match': etag };
  return { range: `bytes=${position}-`, 'if-match': etag };
}

async function refusal(client: S3Client, name: string, answer: Answer): Promise<Error> {
  const reply = await client.read(OPERATION, answer);
  const facts = { store: client.label, name };
  if (isTransient(reply)) return client.refused(OPERATION, reply);
  if (reply.code === 'NoSuchBucket') return client.refused(OPERATION, reply);
  if (reply.status === 404) return objectError('object-missing', facts);
  // It is shorter now than the position where the reading continues, or has another ETag.
  if (reply.status === 412 || reply.status === 416) return objectError('object-changed', facts);
  return client.refused(OPERATION, reply);
}

function wholeOf(client: S3Client, { status, headers }: Answer, position: number): Whole {
  const etag = headers.etag ?? '';
  if (status === 200) {
    // Bytes that were read already must not come twice.
    if (position > 0) throw invalid(client, 'no part of the object, as was asked for');
    return { length: lengthOf(client, headers), etag };
  }
  const [, from, to, length] = CONTENT_RANGE.exec(headers['content-range'] ?? '') ?? [];
  if (Number(from) !== position || Number(to) !== Number(length) - 1) {
    throw invalid(client, 'another part of the object than was asked for');
  }
  return { length: Number(length), etag };
}

function lengthOf(client: S3Client, headers: IncomingHttpHeaders): number {
  const length = headers['content-length'] ?? '';
  if (!/^\d{1,15}$/.test(length)) throw invalid(client, 'no length');
  return Number(length);
}

function invalid(client: S3Client, problem: string): Error {
  const facts = { store: client.label, operation: OPERATION, problem };
  return objectError('store-answer-invalid', facts);
}
