import { once } from 'node:events';
import { chmodSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { z } from 'zod';
import { parseJson } from '../archive/format/json-shape.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import { daemonError } from '../errors/small-families.ts';
import { onAbort } from '../limiter/on-abort.ts';
import { type linkAnswer, linkMessage } from '../web/link-channel.ts';
import { type ControlPlace, socketFailed } from './control-path.ts';
import type { Daemon } from './daemon.ts';
import { errorFacts, errorFamily, syncPlan, syncProgress, syncResult } from './sync-answers.ts';

/** What goes over the control socket. Both ends are the same program: `version` says whether they are. */
const names = z.array(z.string().max(4096)).max(10_000);

export const syncMessage = z.object({
  account: z.string().optional(),
  mailboxes: names,
  folders: names,
  full: z.boolean(),
  acceptEndings: z.boolean(),
  dryRun: z.boolean(),
});
export type SyncMessage = z.output<typeof syncMessage>;

export const hintMessage = z.object({
  resourceId: z.string().max(1024).optional(),
  address: z.string().max(1024).optional(),
  account: z.string().max(64).optional(),
  uid: z.int().min(1).optional(),
});

/** One line of the answer to `sync`: any number about progress, then one of the others. */
export const answerLine = z.union([
  z.object({ progress: syncProgress }),
  z.object({ result: syncResult }),
  z.object({ plan: syncPlan }),
  z.object({ error: z.object({ family: errorFamily, code: z.string(), facts: errorFacts }) }),
]);
export type AnswerLine = z.output<typeof answerLine>;

/** An error as it goes over the socket. Mistakes of the program stay in the daemon's log. */
export function errorLine(error: unknown): AnswerLine {
  const known = error instanceof MailkeepError ? error : daemonError('daemon-failed', {});
  const { family, code, facts } = known;
  return { error: { family, code, facts } };
}

/** A question is names at most. */
const MOST_BODY_BYTES = 1024 * 1024;

export interface ControlServer {
  /** Tells those who wait that the daemon ends, and takes the socket away. */
  close(): Promise<void>;
}

/**
 * Answers commands on the archive's control socket: `GET /status`, `POST /sync`, `POST /hint`, `POST /link`. Only the
 * archive's owner may connect. Somebody who goes away interrupts nothing.
 *
 * @param link returns a sign-in link of the web interface; null where none is served
 */
export async function startControlServer(
  place: ControlPlace,
  daemon: Daemon,
  version: string,
  link: (mailboxes: readonly string[] | null) => string | null,
): Promise<ControlServer> {
  const ending = new AbortController();
  const server = createServer((request, response) => {
    response.setHeader('x-mailkeep-version', version);
    answer(request, response, { daemon, link }, ending.signal).catch((error: unknown) => {
      if (!response.headersSent) response.statusCode = error instanceof BadRequest ? 400 : 500;
      response.end();
    });
  });
  const forgetPlace = (): void => {
    if (place.pointer !== null) rmSync(place.pointer, { force: true });
  };
  try {
    server.listen(place.socket);
    await once(server, 'listening');
    chmodSync(place.socket, 0o600);
  } catch (error) {
    server.close();
    forgetPlace();
    throw socketFailed(place.socket, error);
  }
  return {
    async close() {
      ending.abort();
      const closed = once(server, 'close');
      server.close();
      server.closeIdleConnections();
      const grace = setTimeout(() => server.closeAllConnections(), 1_000);
      await closed;
      clearTimeout(grace);
      forgetPlace();
    },
  };
}

class BadRequest extends Error {}

type LinkMaker = Parameters<typeof startControlServer>[3];

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  { daemon, link }: { readonly daemon: Daemon; readonly link: LinkMaker },
  ending: AbortSignal,
): Promise<void> {
  switch (`${request.method} ${request.url}`) {
    case 'GET /status':
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify(daemon.status()));
      return;
    case 'POST /hint':
      daemon.hint(await body(request, hintMessage));
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
  const ended = new Promise<AnswerLine>((resolve) => {
    // A turn later: what ends the daemon may just have ended the pass, which says more.
    const stopped = (): void => resolve(errorLine(daemonError('daemon-stopped', {})));
    release = onAbort(ending, () => setImmediate(stopped));
  });
  const work: Promise<AnswerLine> = dryRun
    ? daemon.plan(narrowing, message.full, ending).then((plan) => ({ plan }))
    : daemon
        .sync(narrowing, (progress) => {
          // Progress that nobody reads in time is worth nothing.
          if (!response.destroyed && !response.writableNeedDrain) write({ progress });
        })
        .done.then((result) => ({ result }));
  // Whoever has gone is written to in vain, and waits no longer than the pass takes.
  const line = await Promise.race([work.catch(errorLine), ended]);
  release();
  write(line);
  response.end();
}

async function body<T>(request: IncomingMessage, shape: z.ZodType<T>): Promise<T> {
  const pieces: Buffer[] = [];
  let size = 0;
  for await (const piece of request) {
    if (!Buffer.isBuffer(piece)) throw new BadRequest();
    size += piece.length;
    if (size > MOST_BODY_BYTES) throw new BadRequest();
    pieces.push(piece);
  }
  const { success, data } = z.safeParse(shape, parseJson(Buffer.concat(pieces).toString('utf8')));
  if (!success) throw new BadRequest();
  return data;
}
