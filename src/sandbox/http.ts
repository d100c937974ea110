import { timingSafeEqual } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { ZodError, z } from 'zod';
import { hasCode } from '../core/errors.ts';
import {
  bodyTooLarge,
  dataReply,
  envelope,
  invalid,
  NO_CONTENT,
  parseJsonBody,
  problemsByField,
  type ReadyReply,
  Refusal,
  type Reply,
  type RouteMatch,
  RouteTable,
  rateLimited,
  splitUrl,
  statusRefusal,
  unauthorized,
} from '../service/surface.ts';
import { serviceError } from './errors.ts';
import {
  applyMailboxFault,
  deliver,
  type Faults,
  findMailbox,
  openRate,
  type ReplyFault,
  type RequestLog,
} from './faults.ts';
import type { Call, Operation } from './operation-call.ts';
import { MAILBOX_OPERATIONS } from './operations.ts';
import type { ServiceState } from './sandbox.ts';
import { readRange } from './seed.ts';
import type { Folder, Mailbox } from './store.ts';

/**
 * Reads a JSON object from a request body. A missing body is read as `{}`, because the API declares bodies as optional.
 *
 * @param ceiling maximum size in bytes
 * @throws Refusal 422 for a larger body, or one that is not a JSON object
 */
export async function readJsonBody(request: IncomingMessage, ceiling: number): Promise<unknown> {
  const bytes = await readBody(request, ceiling);
  return parseJsonBody(bytes, request.headers['content-type']);
}

async function readBody(request: IncomingMessage, ceiling: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request) {
    if (!Buffer.isBuffer(chunk)) continue;
    length += chunk.length;
    if (length <= ceiling) chunks.push(chunk);
    // Read the rest of an oversized body, up to a limit: many clients report a broken connection if the response
    // comes early.
    else if (length > ceiling * PATIENCE) throw bodyTooLarge(ceiling, { connection: 'close' });
  }
  if (length > ceiling) throw bodyTooLarge(ceiling);
  return Buffer.concat(chunks, length);
}

/** Multiple of the ceiling above which a body closes the connection. */
const PATIENCE = 8;

async function sendReply(response: ServerResponse, reply: Reply): Promise<void> {
  if (reply.kind !== 'file') return sendReady(response, reply);
  const { path, start, length } = reply.range;
  response.writeHead(200, { 'content-type': reply.type, 'content-length': length });
  await pipeline(createReadStream(path, { start, end: start + length - 1 }), response);
}

/** Responds within the current turn of the event loop. */
export function sendReady(response: ServerResponse, reply: ReadyReply): void {
  const { status, headers, body } = toWholeReply(reply);
  const length = reply.kind === 'empty' ? {} : { 'content-length': body.length };
  response.writeHead(status, { ...headers, ...length });
  response.end(body);
}

export interface Outcome {
  readonly reply: Reply;
  readonly faults: readonly ReplyFault[];
}

/**
 * Responds with the configured latency and faults. The first body fault wins.
 *
 * @returns the status, or 0 if a fault broke the connection
 */
async function sendFaultyReply(
  response: ServerResponse,
  { reply, faults }: Outcome,
  latencyMs: number,
): Promise<number> {
  if (latencyMs > 0) await delay(latencyMs);
  let bent = reply;
  for (const fault of faults) {
    const whole = toWholeReply(bent);
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
        bent = { kind: 'text', status, text: breakJson(body) };
        break;
      case 'html-page':
        sendReady(response, MAINTENANCE);
        return 200;
      case 'wrong-total':
      case 'wrong-size': {
        const field = fault.kind === 'wrong-total' ? 'total' : 'size';
        if (bent.kind === 'text')
          bent = { ...bent, text: shiftNumbers(bent.text, field, fault.by) };
        break;
      }
      case 'accepted':
        // Like the API for orders: the client polls the resource instead of sending the request again.
        if (bent.kind === 'text' && status < 300) bent = { ...bent, status: 202 };
        break;
      case 'status':
        // Faults refuse such a request before its operation runs.
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

function toWholeReply(reply: Reply): WholeReply {
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
  const prefix = body.subarray(0, Math.min(body.length, Math.floor(body.length * fault.keep)));
  if (fault.mode === 'silent') {
    // Without a Content-Length and with a clean end, only a client that knows the size can detect the truncation.
    response.writeHead(status, { ...headers, 'transfer-encoding': 'chunked' });
    response.end(prefix);
    return status;
  }
  response.writeHead(
    status,
    fault.mode === 'declared' ? { ...headers, 'content-length': body.length } : { ...headers },
  );
  response.flushHeaders();
  // Sends the written bytes, then FIN, so that the client receives exactly these bytes.
  response.write(prefix, () => response.socket?.destroySoon());
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

/** Returns invalid JSON: half of the text, then a quotation mark. */
function breakJson(body: Buffer): string {
  return `${body.toString('utf8', 0, Math.floor(body.length / 2))}"{`;
}

/** Adds `by` to a field's numbers, but not below 0. JSON escapes quotes in strings, so mail text cannot match. */
function shiftNumbers(text: string, name: string, by: number): string {
  return text.replace(
    new RegExp(`(?<!\\\\)"${name}":(\\d+)`, 'g'),
    (_, value: string) => `"${name}":${Math.max(0, Number(value) + by)}`,
  );
}

const ROUTES = new RouteTable(MAILBOX_OPERATIONS);

export abstract class ApiSurface {
  constructor(
    protected readonly service: ServiceState,
    protected readonly faults: Faults,
    private readonly log: RequestLog,
  ) {}

  /**
   * Answers a request and logs it. Never throws: an error becomes a response or breaks the connection.
   *
   * @param run may be synchronous, because promises account for a third of the time taken by a small response
   */
  protected respond(
    { method = 'GET', url }: IncomingMessage,
    response: ServerResponse,
    operation: string,
    envelopeOf: (error: unknown) => Reply,
    run: () => Outcome | Promise<Outcome>,
  ): void {
    const { settings, now, report } = this.service;
    const finish = this.log.begin({ operation, method, path: splitUrl(url).path }, now);
    const send = (outcome: Outcome): void => {
      const { reply, faults } = outcome;
      if (settings.latencyMs === 0 && faults.length === 0 && reply.kind !== 'file') {
        sendReady(response, reply);
        finish(response.statusCode);
        return;
      }
      sendFaultyReply(response, outcome, settings.latencyMs).then(finish, (error: unknown) => {
        // A client may disconnect, but a file must not vanish while it is streamed.
        if (!isPrematureClose(error)) report(error);
        response.destroy();
        finish(0);
      });
    };
    const fail = (error: unknown): void => {
      if (response.destroyed) {
        // The client has disconnected, probably while sending its body.
        finish(0);
        return;
      }
      if (!(error instanceof Refusal)) report(error);
      send({ reply: envelopeOf(toRefusal(error)), faults: [] });
    };
    try {
      const outcome = run();
      if (outcome instanceof Promise) outcome.then(send, fail);
      else send(outcome);
    } catch (error) {
      fail(error);
    }
  }
}

function toRefusal(error: unknown): unknown {
  return hasCode(error, 'sandbox-source-changed')
    ? new Refusal(500, 'ERR_SOURCE_CHANGED', 'The file behind this message has changed')
    : error;
}

export class MailboxSurface extends ApiSurface implements Surface {
  readonly prefix = '';
  readonly refusal = envelope;
  readonly #rate = openRate(this.service.settings.requestsPerMinute, this.service.settings.block);

  handle(request: IncomingMessage, response: ServerResponse): void {
    const { path, query } = splitUrl(request.url);
    const match = ROUTES.match(request.method ?? 'GET', path);
    const operation = match.kind === 'found' ? match.route.id : 'unknown';
    this.respond(request, response, operation, envelope, () => {
      if (match.kind !== 'found') throw noRoute(match);
      return this.#answer(request, match.route, match.params, query);
    });
  }

  #answer(
    request: IncomingMessage,
    operation: Operation,
    params: Readonly<Record<string, string>>,
    query: URLSearchParams,
  ): Outcome | Promise<Outcome> {
    const service = this.service;
    const { authorization } = request.headers;
    const address = request.socket.remoteAddress ?? '';
    const blocked = this.#rate?.blockedFor(address, service.now()) ?? 0;
    if (blocked > 0) throw addressBlocked(blocked);
    const token = service.tokens.authorize(authorization, 'mailbox', service.now());
    if (token === null) {
      throw unauthorized('The token is missing, malformed, expired or revoked');
    }
    const rate = this.#rate?.take(address, service.now(), authorization);
    if (rate?.blocked === true) throw addressBlocked(rate.retryAfter);
    if (rate?.allowed === false) throw statusRefusal(429, undefined, rate.retryAfter);
    const { ofReply: faults, ofMailbox } = this.faults.strike(operation.id);
    const call: Call = { service, operation, token, params, query, body: undefined };
    const finish = (reply: Reply): Outcome => {
      const target = { mailbox: params.mailboxResourceId, folder: params.folder };
      for (const fault of ofMailbox) applyMailboxFault(service, fault, target);
      return { reply, faults };
    };
    if (operation.takesBody) {
      return readJsonBody(request, service.settings.maxBodyBytes)
        .then((body) => operation.handle({ ...call, body }))
        .then(finish);
    }
    const reply = operation.handle(call);
    return reply instanceof Promise ? reply.then(finish) : finish(reply);
  }
}

/** The API answers unknown methods with 404, never 405. */
function noRoute(match: Exclude<RouteMatch<Operation>, { kind: 'found' }>): Refusal {
  if (match.kind === 'unknown') return new Refusal(404, 'ERR_NOT_FOUND', 'There is no such route');
  const allow = match.allowed.join(', ');
  return new Refusal(
    404,
    'ERR_NOT_FOUND',
    `There is no such route; this path has ${allow}`,
    { allowed: match.allowed },
    { allow },
  );
}

function addressBlocked(retryAfter: number): Refusal {
  const message =
    'This address is blocked for a while: it kept sending requests in spite of the rate limit';
  return rateLimited('ERR_ADDRESS_BLOCKED', message, retryAfter);
}

function isPrematureClose(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_STREAM_PREMATURE_CLOSE';
}

const place = { mailbox: z.string(), folder: z.string().default('INBOX') };

const deliverBody = z.object({
  ...place,
  /** The source as text, or `base64` if it is not UTF-8. */
  source: z.string().optional(),
  base64: z.base64().optional(),
  flags: z.array(z.string()).default([]),
  /** ISO 8601. Default: now. */
  received: z.iso.datetime({ offset: true }).optional(),
});

const changeBody = z.discriminatedUnion('action', [
  z.object({ action: z.literal('delete'), uids: z.array(z.int().min(1)), ...place }),
  z.object({ action: z.literal('move'), uids: z.array(z.int().min(1)), to: z.string(), ...place }),
  z.object({ action: z.literal('copy'), uids: z.array(z.int().min(1)), to: z.string(), ...place }),
  z.object({
    action: z.literal('flags'),
    uids: z.array(z.int().min(1)),
    add: z.array(z.string()).default([]),
    remove: z.array(z.string()).default([]),
    ...place,
  }),
  z.object({ action: z.literal('renumber'), firstUid: z.int().min(1).default(1), ...place }),
]);

const standingBody = z.object({ mailbox: z.string(), status: z.enum(['active', 'suspended']) });

const tokenBody = z.discriminatedUnion('surface', [
  z.object({
    surface: z.literal('mailbox'),
    token: z.string().min(8),
    orderId: z.string(),
    mailboxes: z.array(z.string()).nullable().default(null),
    expiresAt: z.iso.datetime({ offset: true }).nullable().default(null),
  }),
  z.object({
    surface: z.literal('platform'),
    token: z.string().min(8),
    userId: z.string(),
    expiresAt: z.iso.datetime({ offset: true }).nullable().default(null),
  }),
]);

const MAX_BODY_BYTES = 256 * 1024 * 1024;

/**
 * The control endpoint for tests and demos, at `/control/…`. It is not part of the service's API and has a separate
 * token. It controls request counts, faults, incoming mail, mailbox changes and tokens.
 */
export class ControlSurface implements Surface {
  readonly prefix = '/control/';
  readonly refusal = envelope;
  readonly #token: Buffer;

  constructor(
    private readonly service: ServiceState,
    private readonly faults: Faults,
    private readonly log: RequestLog,
    token: string,
  ) {
    this.#token = Buffer.from(`Bearer ${token}`);
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    this.#answer(request).then(
      (reply) => sendReply(response, reply),
      (error: unknown) =>
        sendReply(
          response,
          envelope(error instanceof ZodError ? invalid(problemsByField(error.issues)) : error),
        ),
    );
  }

  async #answer(request: IncomingMessage): Promise<Reply> {
    const header = Buffer.from(request.headers.authorization ?? '');
    if (header.length !== this.#token.length || !timingSafeEqual(header, this.#token)) {
      throw new Refusal(401, 'ERR_UNAUTHORIZED', 'The control token is missing or wrong');
    }
    const path = (request.url ?? '').split('?', 1)[0] ?? '';
    switch (`${request.method} ${path}`) {
      case 'GET /control/requests':
        return dataReply({ ...this.log.counts(), last: this.log.last() });
      case 'DELETE /control/requests':
        this.log.reset();
        return NO_CONTENT;
      case 'GET /control/faults':
        return dataReply(this.faults.list());
      case 'POST /control/faults':
        return dataReply({ id: this.faults.add(await body(request)) }, 201);
      case 'DELETE /control/faults':
        this.faults.clear();
        return NO_CONTENT;
      case 'POST /control/deliver':
        return this.#deliver(deliverBody.parse(await body(request)));
      case 'POST /control/change':
        return this.#change(changeBody.parse(await body(request)));
      case 'POST /control/standing': {
        const standing = standingBody.parse(await body(request));
        const { mailbox } = this.#place({ mailbox: standing.mailbox, folder: 'INBOX' });
        this.service.standings.setStatus(mailbox, standing.status);
        return NO_CONTENT;
      }
      case 'POST /control/tokens':
        return this.#putToken(tokenBody.parse(await body(request)));
      case 'POST /control/tokens/revoke': {
        const { token } = z.object({ token: z.string() }).parse(await body(request));
        this.service.tokens.revoke(token, this.service.now());
        return NO_CONTENT;
      }
      default:
        throw new Refusal(404, 'ERR_NOT_FOUND', 'There is no such route');
    }
  }

  #deliver(mail: z.output<typeof deliverBody>): Reply {
    const { mailbox, folder } = this.#place(mail);
    const source =
      mail.base64 === undefined
        ? Buffer.from(mail.source ?? '')
        : Buffer.from(mail.base64, 'base64');
    const received = mail.received === undefined ? this.service.now() : Date.parse(mail.received);
    const uid = deliver(this.service, mailbox, folder, source, mail.flags, received);
    return dataReply({ uid }, 201);
  }

  #change(change: z.output<typeof changeBody>): Reply {
    const { mailbox, folder } = this.#place(change);
    const { store } = this.service;
    switch (change.action) {
      case 'delete':
        for (const uid of change.uids) store.remove(folder, uid);
        return NO_CONTENT;
      case 'move':
      case 'copy': {
        const target = store.folderFor(mailbox, change.to);
        const uids = change.uids.map((uid) => store[change.action](folder, uid, target));
        return dataReply({ uids });
      }
      case 'flags':
        for (const uid of change.uids) store.changeFlags(folder, uid, change.add, change.remove);
        return NO_CONTENT;
      case 'renumber':
        store.renumber(folder, change.firstUid);
        return NO_CONTENT;
    }
  }

  #putToken(body: z.output<typeof tokenBody>): Reply {
    const expiresAt = body.expiresAt === null ? null : Date.parse(body.expiresAt);
    const { token, ...reach } = body;
    this.service.tokens.put(token, { ...reach, expiresAt, revokedAt: null });
    return NO_CONTENT;
  }

  #place(target: { readonly mailbox: string; readonly folder: string }): {
    readonly mailbox: Mailbox;
    readonly folder: Folder;
  } {
    const mailbox = findMailbox(this.service, target.mailbox);
    if (mailbox === null) throw invalid({ mailbox: ['is not known'] });
    return { mailbox, folder: this.service.store.folderFor(mailbox, target.folder) };
  }
}

function body(request: IncomingMessage): Promise<unknown> {
  return readJsonBody(request, MAX_BODY_BYTES);
}

/**
 * Answers invalid HTTP and oversized headers in an envelope, because they never reach a surface.
 *
 * @param envelopeAt receives the path from the first line, or an empty string
 */
function refuseUnreadable(
  error: Error,
  socket: Duplex,
  envelopeAt: (path: string, refusal: Refusal) => Reply,
): void {
  const code = 'code' in error ? error.code : '';
  // The client has disconnected, or is already receiving a response.
  if (code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const reply = envelopeAt(requestedPath(error), unreadableRefusal(code));
  if (reply.kind !== 'text') throw new TypeError('an envelope is text');
  const headers = {
    ...reply.headers,
    'content-type': 'application/json; charset=utf-8',
    'content-length': String(Buffer.byteLength(reply.text)),
    connection: 'close',
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  socket.end(`HTTP/1.1 ${reply.status} Refused\r\n${lines.join('')}\r\n${reply.text}`);
}

function unreadableRefusal(code: unknown): Refusal {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return new Refusal(431, 'ERR_HEADER_TOO_LARGE', 'The header is too long');
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return new Refusal(408, 'ERR_REQUEST_TIMEOUT', 'The request took too long to arrive');
    default:
      return new Refusal(
        400,
        'ERR_BAD_REQUEST',
        'This is no HTTP request, or its method is unknown',
      );
  }
}

function requestedPath(error: Error): string {
  if (!('rawPacket' in error) || !Buffer.isBuffer(error.rawPacket)) return '';
  return /^\S+ (\S+)/.exec(error.rawPacket.toString('latin1', 0, 1024))?.[1] ?? '';
}

export interface Surface {
  readonly prefix: string;
  handle(request: IncomingMessage, response: ServerResponse): void;
  /** Answers an unreadable request from this address. */
  refusal(refusal: Refusal, address: string): Reply;
}

/**
 * Listens on the loopback address.
 *
 * @param port 0 for any free port
 * @param surfaces tried in order; the last one has an empty prefix
 * @throws MailkeepError `sandbox-cannot-listen`
 */
export async function listen(port: number, surfaces: readonly Surface[]) {
  const surfaceOf = (url: string): Surface => {
    const surface = surfaces.find(({ prefix }) => url.startsWith(prefix));
    if (surface === undefined) throw new TypeError('the last surface answers everything');
    return surface;
  };
  const answer = (request: IncomingMessage, response: ServerResponse) => {
    surfaceOf(request.url ?? '/').handle(request, response);
  };
  // Node.js would answer a missing Host header, or an unknown expectation, without an envelope.
  const server = createServer({ keepAliveTimeout: 60_000, requireHostHeader: false }, answer);
  server.on('checkExpectation', answer);
  server.on('clientError', (error, socket) => {
    const address = socket instanceof Socket ? (socket.remoteAddress ?? '') : '';
    refuseUnreadable(error, socket, (path, refusal) => surfaceOf(path).refusal(refusal, address));
  });
  const host = '127.0.0.1';
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject);
      server.listen(port, host, resolve);
    });
  } catch (error) {
    const reason = error instanceof Error && 'code' in error ? String(error.code) : String(error);
    throw serviceError('sandbox-cannot-listen', { host, port, reason }, error);
  }
  return {
    url: `http://${host}:${listeningPort(server.address())}`,
    close: () => closeServer(server),
  };
}

function listeningPort(address: AddressInfo | string | null): number {
  return typeof address === 'object' && address !== null ? address.port : 0;
}

function closeServer(server: Server): Promise<void> {
  return new Promise((resolve, reject) => {
    server.close((error) => (error === undefined ? resolve() : reject(error)));
    server.closeAllConnections();
  });
}
