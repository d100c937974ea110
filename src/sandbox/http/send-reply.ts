import { createReadStream } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import type { ReadyReply, Reply } from '../../mailbox-surface/reply.ts';
import { readRange } from '../seed/file-block.ts';
import type { ReplyFault } from './faults.ts';

/** Sends a complete answer; one from a file is streamed. */
export async function sendReply(response: ServerResponse, reply: Reply): Promise<void> {
  if (reply.kind !== 'file') return sendReady(response, reply);
  const { path, start, length } = reply.range;
  response.writeHead(200, { 'content-type': reply.type, 'content-length': length });
  await pipeline(createReadStream(path, { start, end: start + length - 1 }), response);
}

/** Sends a complete answer within this turn of the event loop. */
export function sendReady(response: ServerResponse, reply: ReadyReply): void {
  const { status, headers, body } = wholeBody(reply);
  const length = reply.kind === 'empty' ? {} : { 'content-length': body.length };
  response.writeHead(status, { ...headers, ...length });
  response.end(body);
}

/** An answer, and the faults that bend it. */
export interface Outcome {
  readonly reply: Reply;
  readonly faults: readonly ReplyFault[];
}

/**
 * Sends an answer late, and as faults bend it. The first fault that concerns the body wins.
 *
 * @returns the status that was sent, 0 where the connection was broken on purpose
 */
export async function sendFaultyReply(
  response: ServerResponse,
  { reply, faults }: Outcome,
  latencyMs: number,
): Promise<number> {
  if (latencyMs > 0) await delay(latencyMs);
  let bent = reply;
  for (const fault of faults) {
    const whole = wholeBody(bent);
    const { status, body } = whole;
    switch (fault.kind) {
      case 'close':
        response.socket?.destroy();
        return 0;
      case 'cut':
        return cutBody(response, whole, fault);
      case 'slow':
        await slowBody(response, whole, fault.overMs);
        return status;
      case 'broken-json':
        bent = { kind: 'text', status, text: brokenJson(body) };
        break;
      case 'html-page':
        sendReady(response, MAINTENANCE);
        return 200;
      case 'wrong-total':
        if (bent.kind === 'text') bent = { ...bent, text: shifted(bent.text, 'total', fault.by) };
        break;
      case 'wrong-size':
        if (bent.kind === 'text') bent = { ...bent, text: shifted(bent.text, 'size', fault.by) };
        break;
      case 'accepted':
        // As the interface knows it from orders: poll the resource, and do not send it again.
        if (bent.kind === 'text' && status < 300) bent = { ...bent, status: 202 };
        break;
      case 'status':
        // Answered before the operation was run.
        break;
    }
  }
  await sendReply(response, bent);
  return response.statusCode;
}

const MAINTENANCE: ReadyReply = {
  kind: 'bytes',
  type: 'text/html; charset=utf-8',
  bytes: Buffer.from(
    '<!DOCTYPE html><html><head><title>Maintenance</title></head><body><h1>We will be back soon</h1></body></html>\n',
  ),
};

interface WholeReply {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
}

function wholeBody(reply: Reply): WholeReply {
  switch (reply.kind) {
    case 'empty':
      return { status: reply.status, headers: {}, body: Buffer.alloc(0) };
    case 'text':
      return {
        status: reply.status,
        headers: { 'content-type': 'application/json; charset=utf-8', ...reply.headers },
        body: Buffer.from(reply.text),
      };
    case 'bytes':
      return { status: 200, headers: { 'content-type': reply.type }, body: reply.bytes };
    case 'file':
      return {
        status: 200,
        headers: { 'content-type': reply.type },
        body: readRange(reply.range, Number.POSITIVE_INFINITY, false),
      };
  }
}

function cutBody(
  response: ServerResponse,
  { status, headers, body }: WholeReply,
  fault: ReplyFault & { kind: 'cut' },
): number {
  const kept = body.subarray(0, Math.min(body.length, Math.floor(body.length * fault.keep)));
  if (fault.mode === 'silent') {
    // No Content-Length, a proper end: only a client that knows the size can notice.
    response.writeHead(status, { ...headers, 'transfer-encoding': 'chunked' });
    response.end(kept);
    return status;
  }
  response.writeHead(
    status,
    fault.mode === 'declared' ? { ...headers, 'content-length': body.length } : { ...headers },
  );
  response.flushHeaders();
  // Ending the socket sends what was written, then FIN: the client has all that was kept, and no more.
  response.write(kept, () => response.socket?.destroySoon());
  return 0;
}

const SLOW_PIECES = 10;

async function slowBody(
  response: ServerResponse,
  { status, headers, body }: WholeReply,
  overMs: number,
): Promise<void> {
  response.writeHead(status, { ...headers, 'content-length': body.length });
  for (let piece = 0; piece < SLOW_PIECES; piece += 1) {
    if (response.destroyed) return;
    const start = Math.floor((body.length * piece) / SLOW_PIECES);
    const stop = Math.floor((body.length * (piece + 1)) / SLOW_PIECES);
    if (stop > start) response.write(body.subarray(start, stop));
    await delay(overMs / SLOW_PIECES);
  }
  response.end();
}

/** Half of the text and a stray quote: never valid JSON. */
function brokenJson(body: Buffer): string {
  return `${body.toString('utf8', 0, Math.floor(body.length / 2))}"{`;
}

/** Numbers under a name shifted, never below 0. A quote inside of a JSON string is escaped, so no text of mail matches. */
function shifted(text: string, name: string, by: number): string {
  return text.replace(
    new RegExp(`(?<!\\\\)"${name}":(\\d+)`, 'g'),
    (_, value: string) => `"${name}":${Math.max(0, Number(value) + by)}`,
  );
}
