import { once } from 'node:events';
import { request as httpRequest, type IncomingMessage } from 'node:http';
import { errnoOf, MailkeepError } from '../errors/mailkeep-error.ts';
import { daemonError } from '../errors/small-families.ts';
import type { SyncPlan } from '../sync/plan-sync.ts';
import type { ProgressListener } from '../sync/progress.ts';
import type { SyncResult } from '../sync/result.ts';
import { answerLine, type SyncMessage } from './control-server.ts';
import { type DaemonStatus, daemonStatus } from './status.ts';

/** A daemon that answers at once or not at all. */
const STATUS_MS = 2_000;

/** The longest line of an answer: the result of a pass names every folder. */
const LINE_BYTES = 64 * 1024 * 1024;
const LF = 10;

/** Nobody listens at the socket: a daemon was killed, or is about to end. */
const NOBODY = new Set(['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'EACCES']);

/** What the daemon knows, or null when none answers. */
export async function askStatus(socket: string): Promise<DaemonStatus | null> {
  const response = await ask(socket, 'GET', '/status', null, AbortSignal.timeout(STATUS_MS));
  if (response === null) return null;
  try {
    for await (const line of lines(response))
      return daemonStatus.safeParse(parsed(line)).data ?? null;
  } catch (error) {
    if (errnoOf(error) !== 'ECONNRESET') throw error;
  }
  return null;
}

/**
 * Has the daemon make a pass, or plan one. Aborting the signal disconnects; the daemon continues.
 *
 * @returns null when no daemon answers
 * @throws what went wrong in the daemon, as it was there; `daemon-stopped` when it ended meanwhile;
 *   `daemon-version` when it is another version of the program
 */
export async function askSync(
  socket: string,
  message: SyncMessage,
  options: {
    readonly version: string;
    readonly progress: ProgressListener;
    readonly signal: AbortSignal;
  },
): Promise<{ readonly result: SyncResult } | { readonly plan: SyncPlan } | null> {
  const response = await ask(socket, 'POST', '/sync', message, options.signal);
  if (response === null) return null;
  const found = String(response.headers['x-mailkeep-version'] ?? '');
  if (found !== options.version || response.statusCode !== 200) {
    response.destroy();
    throw daemonError('daemon-version', { found, own: options.version });
  }
  try {
    for await (const line of lines(response)) {
      const { data: said } = answerLine.safeParse(parsed(line));
      if (said === undefined) throw daemonError('daemon-answer', {});
      if ('progress' in said) options.progress(said.progress);
      else if ('error' in said) {
        const { family, code, facts } = said.error;
        throw new MailkeepError(family, code, facts);
      } else return said;
    }
  } catch (error) {
    options.signal.throwIfAborted();
    if (errnoOf(error) !== 'ECONNRESET') throw error;
  }
  options.signal.throwIfAborted();
  throw daemonError('daemon-stopped', {});
}

const EVERYTHING: SyncMessage = {
  mailboxes: [],
  folders: [],
  full: false,
  acceptEndings: false,
  dryRun: false,
};

/**
 * Has the daemon make a pass over all its mailboxes, and waits only until it has understood.
 *
 * @returns false when no daemon answers
 * @throws daemon-version when it is another version of the program
 */
export async function askToLook(socket: string, version: string): Promise<boolean> {
  const response = await ask(socket, 'POST', '/sync', EVERYTHING, AbortSignal.timeout(STATUS_MS));
  if (response === null) return false;
  // Whoever goes away interrupts nothing.
  response.destroy();
  const found = String(response.headers['x-mailkeep-version'] ?? '');
  if (found !== version || response.statusCode !== 200)
    throw daemonError('daemon-version', { found, own: version });
  return true;
}

/** Returns whether a daemon listens there, of whatever version. One too busy to answer in two seconds does. */
export async function isListening(socket: string): Promise<boolean> {
  const signal = AbortSignal.timeout(STATUS_MS);
  const response = await ask(socket, 'GET', '/status', null, signal);
  response?.destroy();
  return response !== null || signal.aborted;
}

/** @throws daemon-answer for a line of more than 64 MiB */
async function* lines(response: IncomingMessage): AsyncGenerator<string, void, undefined> {
  let pieces: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    let at = 0;
    for (;;) {
      const lf = chunk.indexOf(LF, at);
      const piece = chunk.subarray(at, lf < 0 ? chunk.length : lf);
      size += piece.length;
      if (size > LINE_BYTES) throw daemonError('daemon-answer', {});
      pieces.push(piece);
      if (lf < 0) break;
      yield Buffer.concat(pieces).toString('utf8');
      pieces = [];
      size = 0;
      at = lf + 1;
    }
  }
  if (size > 0) yield Buffer.concat(pieces).toString('utf8');
}

/** @throws daemon-answer for what is no JSON */
function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch (error) {
    if (error instanceof SyntaxError) throw daemonError('daemon-answer', {});
    throw error;
  }
}

async function ask(
  socketPath: string,
  method: string,
  path: string,
  body: object | null,
  signal: AbortSignal,
): Promise<IncomingMessage | null> {
  const request = httpRequest({ socketPath, method, path, signal, agent: false });
  request.end(body === null ? undefined : JSON.stringify(body));
  try {
    const [response]: IncomingMessage[] = await once(request, 'response');
    return response ?? null;
  } catch (error) {
    if (error instanceof Error && error.name === 'TimeoutError') return null;
    const reason = errnoOf(error);
    if (reason !== undefined && NOBODY.has(reason)) return null;
    throw error;
  }
}
