import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, lstatSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import {
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type RequestListener,
  type ServerOptions,
} from 'node:http';
import path from 'node:path';
import { z } from 'zod';
import { parseJson } from '../archive/format.ts';
import { errnoOf } from '../core/errors.ts';
import { isOwnSocket, privateFolder } from '../core/files.ts';
import { bytesAtMost } from '../core/streams.ts';

export const linkMessage = z.object({
  mailboxes: z.array(z.string().max(4_096)).min(1).max(10_000).nullable(),
});
export const linkAnswer = z.object({ signInUrl: z.string() });

/** The daemon's control socket serves the same path. */
const LINK_PATH = '/link';

/** Generous, because messages contain only names. */
const MAX_BYTES = 1024 * 1024;
/** Request timeout in milliseconds. A server answers immediately or not at all. */
const ASK_MS = 5_000;
const GRACE_MS = 1_000;
const SUFFIX = '.web.sock';
/** Allows for a ten-digit process id. */
const NAME_LENGTH = 12 + 1 + 10 + SUFFIX.length;

/** Error codes that mean no server is listening, because it was killed or is exiting. */
const NOT_LISTENING = new Set(['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'EACCES']);

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Serves HTTP on a Unix socket that only its owner can use. A request in progress gets a second to finish on close.
 *
 * @param options such as the maximum size of headers
 */
export async function listenOnSocket(
  socket: string,
  listener: RequestListener,
  options: ServerOptions = {},
) {
  const server = createServer(options, listener);
  try {
    server.listen(socket);
    await once(server, 'listening');
    chmodSync(socket, 0o600);
  } catch (error) {
    server.close();
    throw error;
  }
  // Ignores connections that the system cannot accept (EMFILE); later ones may succeed.
  server.on('error', () => {});
  return {
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeIdleConnections();
      const grace = setTimeout(() => server.closeAllConnections(), GRACE_MS);
      await closed;
      clearTimeout(grace);
    },
  };
}

/** Sends a request to a Unix socket. Returns null if nothing is listening, or if the signal times out first. */
export async function askSocket(
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
    const reason = errnoOf(error);
    const isTimeout = signal.aborted && signal.reason?.name === 'TimeoutError';
    if (isTimeout || (reason !== undefined && NOT_LISTENING.has(reason))) return null;
    throw error;
  }
}

/** Parses a request's JSON body. Returns null if it is too long or has another form. */
export async function jsonMessage<T>(
  request: IncomingMessage,
  schema: z.ZodType<T>,
): Promise<T | null> {
  const bytes = await bytesAtMost(request, MAX_BYTES);
  return schema.safeParse(parseJson(String(bytes))).data ?? null;
}

/** Listens on a socket in the user's own directory, since the archive may be read-only. @throws daemon-socket-folder */
export async function openLinkChannel(options: {
  readonly dataDir: string;
  readonly env: Environment;
  readonly link: (mailboxes: readonly string[] | null) => string;
}): Promise<{ close(): Promise<void> }> {
  const { dataDir, env, link } = options;
  const folder = privateFolder(env, NAME_LENGTH);
  const socket = path.join(folder, `${prefixOf(dataDir)}${process.pid}${SUFFIX}`);
  rmSync(socket, { force: true });
  const answer = async (request: IncomingMessage) => {
    if (request.method !== 'POST' || request.url !== LINK_PATH) return [404, ''] as const;
    const message = await jsonMessage(request, linkMessage);
    return message === null
      ? ([400, ''] as const)
      : ([200, JSON.stringify({ signInUrl: link(message.mailboxes) })] as const);
  };
  return await listenOnSocket(socket, (request, response) => {
    const send = ([status, body]: readonly [number, string]) =>
      response.writeHead(status, { 'content-type': 'application/json' }).end(body);
    answer(request).then(send, () => send([400, '']));
  });
}

/** Returns the sockets of an archive's servers started by this user (or, for root, by its owner), newest first. */
export function linkSockets(dataDir: string, env: Environment): string[] {
  const folder = privateFolder(env, NAME_LENGTH);
  const prefix = prefixOf(dataDir);
  return readdirSync(folder)
    .filter((name) => name.startsWith(prefix) && name.endsWith(SUFFIX))
    .map((name) => path.join(folder, name))
    .filter((file) => isOwnSocket(file, dataDir))
    .map((file) => ({ file, madeAt: lstatSync(file, { throwIfNoEntry: false })?.mtimeMs ?? 0 }))
    .toSorted((a, b) => b.madeAt - a.madeAt)
    .map(({ file }) => file);
}

/** Returns null if no server is listening, or it has no web interface. */
export async function askLink(
  socketPath: string,
  mailboxes: readonly string[] | null,
): Promise<string | null> {
  const signal = AbortSignal.timeout(ASK_MS);
  const response = await askSocket(socketPath, 'POST', LINK_PATH, { mailboxes }, signal);
  if (response?.statusCode !== 200) return null;
  const bytes = await bytesAtMost(response, MAX_BYTES).catch(() => null);
  return linkAnswer.safeParse(parseJson(String(bytes))).data?.signInUrl ?? null;
}

function prefixOf(dataDir: string): string {
  const digest = createHash('sha256').update(realpathSync(dataDir)).digest('hex');
  return `${digest.slice(0, 12)}-`;
}
