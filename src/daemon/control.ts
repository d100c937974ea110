import { rmSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { z } from 'zod';
import { parseJson } from '../archive/format.ts';
import { onAbort } from '../core/concurrency.ts';
import { errnoOf, MailkeepError } from '../core/errors.ts';
import { bytesAtMost } from '../core/streams.ts';
import {
  errorFacts,
  errorFamily,
  type ProgressListener,
  type SyncPlan,
  type SyncResult,
  syncPlan,
  syncProgress,
  syncResult,
} from '../sync/result.ts';
import {
  askSocket,
  jsonMessage,
  type linkAnswer,
  linkMessage,
  listenOnSocket,
} from '../web/link-channel.ts';
import { type ControlSocketPath, controlSocketError } from './control-path.ts';
import type { Daemon } from './daemon.ts';
import { daemonError } from './errors.ts';
import { type DaemonStatus, daemonStatus } from './ports.ts';

/** Messages on the control socket. Both ends must run the same version of the program, which `version` checks. */
const names = z.array(z.string().max(4096)).max(10_000);

export const syncMessage = z.object({
  account: z.string().optional(),
  mailboxes: names,
  folders: names,
  full: z.boolean(),
  acceptEndings: z.boolean(),
  dryRun: z.boolean(),
});
type SyncMessage = z.output<typeof syncMessage>;

export const changeMessage = z.object({
  resourceId: z.string().max(1024).optional(),
  address: z.string().max(1024).optional(),
  account: z.string().max(64).optional(),
  uid: z.int().min(1).optional(),
});

/** The response to `sync` consists of any number of progress lines, followed by one other line. */
export const answerLine = z.union([
  z.object({ progress: syncProgress }),
  z.object({ result: syncResult }),
  z.object({ plan: syncPlan }),
  z.object({ error: z.object({ family: errorFamily, code: z.string(), facts: errorFacts }) }),
]);
type AnswerLine = z.output<typeof answerLine>;

/** Converts an error to a line for the socket. The details of internal errors remain in the daemon's log. */
function errorLine(error: unknown): AnswerLine {
  const known = error instanceof MailkeepError ? error : daemonError('daemon-failed', {});
  const { family, code, facts } = known;
  return { error: { family, code, facts } };
}

/**
 * Serves the archive's control socket: `GET /status`, `GET /metrics`, `POST /sync`, `POST /hint`, `POST /link`. Only the archive's
 * owner can connect. A client's work continues after it disconnects.
 *
 * @param link returns a sign-in link to the web interface, or null if it is not served
 * @param metrics returns JSON
 */
export async function startControlServer(
  place: ControlSocketPath,
  daemon: Daemon,
  version: string,
  link: (mailboxes: readonly string[] | null) => string | null,
  metrics: () => Promise<string>,
) {
  const ending = new AbortController();
  const forgetPlace = (): void => {
    if (place.pointer !== null) rmSync(place.pointer, { force: true });
  };
  try {
    const server = await listenOnSocket(place.socket, (request, response) => {
      response.setHeader('x-mailkeep-version', version);
      answer(request, response, daemon, { link, metrics }, ending.signal).catch(
        (error: unknown) => {
          if (!response.headersSent) response.statusCode = error instanceof BadRequest ? 400 : 500;
          response.end();
        },
      );
    });
    return {
      async close() {
        ending.abort();
        await server.close();
        forgetPlace();
      },
    };
  } catch (error) {
    forgetPlace();
    throw controlSocketError(place.socket, error);
  }
}

class BadRequest extends Error {}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  daemon: Daemon,
  {
    link,
    metrics,
  }: {
    readonly link: Parameters<typeof startControlServer>[3];
    readonly metrics: Parameters<typeof startControlServer>[4];
  },
  ending: AbortSignal,
): Promise<void> {
  switch (`${request.method} ${request.url}`) {
    case 'GET /status':
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(daemon.status()));
      return;
    case 'GET /metrics': {
      const json = await metrics();
      response.setHeader('content-type', 'application/json');
      response.end(json);
      return;
    }
    case 'POST /hint':
      daemon.hint(await body(request, changeMessage));
      response.statusCode = 202;
      response.end();
      return;
    case 'POST /sync':
      await sync(await body(request, syncMessage), response, daemon, ending);
      return;
    case 'POST /link': {
      const signInUrl = link((await body(request, linkMessage)).mailboxes);
      response.statusCode = signInUrl === null ? 404 : 200;
      response.setHeader('content-type', 'application/json');
      const said: z.output<typeof linkAnswer> | null = signInUrl === null ? null : { signInUrl };
      response.end(said === null ? '' : JSON.stringify(said));
      return;
    }
    default:
      response.statusCode = 404;
      response.end();
  }
}

async function sync(
  { dryRun, ...message }: z.output<typeof syncMessage>,
  response: ServerResponse,
  daemon: Daemon,
  ending: AbortSignal,
): Promise<void> {
  response.setHeader('content-type', 'application/x-ndjson');
  response.flushHeaders();
  const write = (line: AnswerLine): void => {
    response.write(`${JSON.stringify(line)}\n`);
  };
  const narrowing = { ...message, account: message.account };
  let release = () => {};
  const shutdown = new Promise<AnswerLine>((resolve) => {
    // Waits one turn of the event loop, because the sync may just have finished with a more specific result.
    const stopped = (): void => resolve(errorLine(daemonError('daemon-stopped', {})));
    release = onAbort(ending, () => setImmediate(stopped));
  });
  const work: Promise<AnswerLine> = dryRun
    ? daemon.plan(narrowing, message.full, ending).then((plan) => ({ plan }))
    : daemon
        .sync(narrowing, (progress) => {
          // Skips progress that the client does not read in time.
          if (!response.destroyed && !response.writableNeedDrain) write({ progress });
        })
        .done.then((result) => ({ result }));
  // Writing to a disconnected client is harmless, and the wait ends with the sync.
  const line = await Promise.race([work.catch(errorLine), shutdown]);
  release();
  write(line);
  response.end();
}

async function body<T>(request: IncomingMessage, schema: z.ZodType<T>): Promise<T> {
  const message = await jsonMessage(request, schema);
  if (message === null) throw new BadRequest();
  return message;
}

const STATUS_MS = 2_000;

/** Lines can be long, because a sync result lists every folder. */
const LINE_BYTES = 64 * 1024 * 1024;
const LF = 10;

/** Returns the daemon's status, or null if none responds. */
export async function askStatus(socket: string): Promise<DaemonStatus | null> {
  const signal = AbortSignal.timeout(STATUS_MS);
  const response = await askSocket(socket, 'GET', '/status', null, signal);
  if (response === null) return null;
  try {
    for await (const line of lines(response))
      return daemonStatus.safeParse(parseLine(line)).data ?? null;
  } catch (error) {
    if (errnoOf(error) !== 'ECONNRESET' && !signal.aborted) throw error;
  }
  return null;
}

const METRICS_BYTES = 16 * 1024 * 1024;

/** Returns the daemon's metrics as JSON, or null if none responds in time. */
export async function askMetrics(socket: string): Promise<unknown> {
  const signal = AbortSignal.timeout(STATUS_MS);
  const response = await askSocket(socket, 'GET', '/metrics', null, signal);
  if (response === null) return null;
  try {
    const bytes = await bytesAtMost(response, METRICS_BYTES);
    return parseJson(String(bytes)) ?? null;
  } catch (error) {
    if (errnoOf(error) !== 'ECONNRESET' && !signal.aborted) throw error;
    return null;
  }
}

/**
 * Requests a sync or a plan from the daemon. Aborting the signal disconnects the client, but does not stop the daemon.
 *
 * @returns null if no daemon responds
 * @throws the daemon's own errors; `daemon-stopped` if it has exited; `daemon-version` if it runs another version of
 *   the program
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
  const response = await askSocket(socket, 'POST', '/sync', message, options.signal);
  if (response === null) return null;
  const peer = String(response.headers['x-mailkeep-version'] ?? '');
  if (peer !== options.version || response.statusCode !== 200) {
    response.destroy();
    throw daemonError('daemon-version', { found: peer, own: options.version });
  }
  try {
    for await (const line of lines(response)) {
      const { data: said } = answerLine.safeParse(parseLine(line));
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
 * Requests a sync of all mailboxes. Resolves once the daemon has accepted it.
 *
 * @returns false if no daemon responds
 * @throws daemon-version if it runs another version of the program
 */
export async function requestSync(socket: string, version: string): Promise<boolean> {
  const response = await askSocket(
    socket,
    'POST',
    '/sync',
    EVERYTHING,
    AbortSignal.timeout(STATUS_MS),
  );
  if (response === null) return false;
  // Disconnecting does not interrupt the sync.
  response.destroy();
  const peer = String(response.headers['x-mailkeep-version'] ?? '');
  if (peer !== version || response.statusCode !== 200)
    throw daemonError('daemon-version', { found: peer, own: version });
  return true;
}

/** Reports whether a daemon of any version is listening, even one too busy to respond within two seconds. */
export async function isListening(socket: string): Promise<boolean> {
  const signal = AbortSignal.timeout(STATUS_MS);
  const response = await askSocket(socket, 'GET', '/status', null, signal);
  response?.destroy();
  return response !== null || signal.aborted;
}

/** @throws daemon-answer for a line longer than 64 MiB */
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

/** @throws daemon-answer for invalid JSON */
function parseLine(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch (error) {
    if (error instanceof SyntaxError) throw daemonError('daemon-answer', {});
    throw error;
  }
}
