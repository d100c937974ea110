import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chmodSync, lstatSync, readdirSync, realpathSync, rmSync } from 'node:fs';
import { createServer, request as httpRequest, type IncomingMessage } from 'node:http';
import path from 'node:path';
import { z } from 'zod';
import { errnoOf } from '../core/errors.ts';
import { isOwnSocket, privateFolder } from '../core/files.ts';
import { bytesAtMost } from '../core/streams.ts';

export const linkMessage = z.object({
  mailboxes: z.array(z.string().max(4_096)).min(1).max(10_000).nullable(),
});
export const linkAnswer = z.object({ signInUrl: z.string() });

/** The daemon's control socket serves the same path. */
const LINK_PATH = '/link';

const MAX_BYTES = 1024 * 1024;
/** Request timeout in milliseconds. A server answers immediately or not at all. */
const ASK_MS = 5_000;
const SUFFIX = '.web.sock';
/** Allows for a ten-digit process id. */
const NAME_LENGTH = 12 + 1 + 10 + SUFFIX.length;

/** Error codes that mean no server is listening, because it was killed or is exiting. */
const NOT_LISTENING = new Set(['ENOENT', 'ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'EACCES']);

type Environment = Readonly<Record<string, string | undefined>>;

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
  const server = createServer((request, response) => {
    const isLink = request.method === 'POST' && request.url === LINK_PATH;
    const message = isLink ? linkMessageIn(request) : Promise.resolve(null);
    const answer = (status: number, body = ''): void => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(body);
    };
    message.then(
      (asked) =>
        asked === null
          ? answer(404)
          : answer(200, JSON.stringify({ signInUrl: link(asked.mailboxes) })),
      () => answer(400),
    );
  });
  server.listen(socket);
  await once(server, 'listening');
  chmodSync(socket, 0o600);
  // Ignores connections that the system cannot accept (EMFILE); later ones may succeed.
  server.on('error', () => {});
  return {
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

async function linkMessageIn(request: IncomingMessage): Promise<z.output<typeof linkMessage>> {
  const bytes = await bytesAtMost(request, MAX_BYTES);
  if (bytes === null) throw new Error('the message is too long');
  return linkMessage.parse(JSON.parse(bytes.toString('utf8')));
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
  const options = { socketPath, method: 'POST', path: LINK_PATH, signal, agent: false };
  const request = httpRequest(options);
  request.end(JSON.stringify({ mailboxes }));
  try {
    const [response]: IncomingMessage[] = await once(request, 'response');
    if (response?.statusCode !== 200) return null;
    const bytes = await bytesAtMost(response, MAX_BYTES);
    const answer: unknown = JSON.parse(String(bytes));
    return linkAnswer.safeParse(answer).data?.signInUrl ?? null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    if (error instanceof Error && error.name === 'TimeoutError') return null;
    const reason = errnoOf(error);
    if (reason !== undefined && NOT_LISTENING.has(reason)) return null;
    throw error;
  }
}

function prefixOf(dataDir: string): string {
  const digest = createHash('sha256').update(realpathSync(dataDir)).digest('hex');
  return `${digest.slice(0, 12)}-`;
}
