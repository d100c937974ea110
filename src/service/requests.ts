import { createHash, type Hash, randomUUID } from 'node:crypto';
import { createWriteStream, type WriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import type { IncomingHttpHeaders } from 'node:http';
import { join } from 'node:path';
import type { z } from 'zod';
import { errnoName } from '../core/errors.ts';
import type { Listing } from '../core/types.ts';
import { originError } from './errors.ts';
import { decodeListing, mailboxPagination, messageRecord } from './mailbox-wire.ts';
import { platformMeta } from './platform-wire.ts';
import type { Reply } from './transport.ts';
import { decode, describeParam, type Operation, readParam, typeName } from './wire.ts';

export interface BaseUrl {
  readonly origin: string;
  /** Host and port as in the URL, without the scheme's default port. */
  readonly host: string;
  /** The path before `/api/…`, without a trailing slash. */
  readonly prefix: string;
}

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/**
 * Parses a base address. Plain http would expose the token on the network, so it is limited to this machine unless
 * `insecure` is true.
 *
 * @throws base-url-invalid
 */
export function parseBaseUrl(text: string, insecure = false): BaseUrl {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null)
    throw originError('base-url-invalid', { url: withoutSecrets(text), problem: 'no-url' });
  const fail = (problem: 'scheme' | 'extras' | 'insecure') =>
    originError('base-url-invalid', { url: `${url.protocol}//${url.host}`, problem });
  if (url.protocol !== 'https:' && url.protocol !== 'http:') throw fail('scheme');
  if (url.username !== '' || url.password !== '' || url.search !== '' || url.hash !== '') {
    throw fail('extras');
  }
  if (url.protocol === 'http:' && !insecure && !LOOPBACK.test(url.hostname)) throw fail('insecure');
  return { origin: url.origin, host: url.host, prefix: url.pathname.replace(/\/+$/, '') };
}

/** Masks credentials before an `@`, which even an invalid URL can contain. */
function withoutSecrets(text: string): string {
  return text.slice(text.lastIndexOf('@') + 1).slice(0, 200);
}

export type ParamValues = Readonly<Record<string, string | number | null | undefined>>;

/**
 * Returns the path and query of a request. Every path parameter becomes one segment. Omits parameters without values.
 *
 * @throws request-invalid for a parameter that is missing, unknown or out of bounds
 */
export function requestPath(operation: Operation, prefix: string, values: ParamValues): string {
  const path = operation.path.replace(/\{(\w+)\}/g, (_, name: string) =>
    segment(operation, name, values[name]),
  );
  return prefix + path + query(operation, values);
}

function segment(operation: Operation, name: string, value: ParamValues[string]): string {
  const text = String(checkValue(operation, name, value ?? ''));
  // Servers and proxies resolve these as path steps, even if percent-encoded.
  if (text === '.' || text === '..') throw invalid(operation, name, 'a name that is no dots');
  return encoded(operation, name, text);
}

function query(operation: Operation, values: ParamValues): string {
  let text = '';
  for (const [name, value] of Object.entries(values)) {
    if (value === undefined || value === null) continue;
    const checkedValue = String(checkValue(operation, name, value));
    if (operation.path.includes(`{${name}}`)) continue;
    text += `${text === '' ? '?' : '&'}${name}=${encoded(operation, name, checkedValue)}`;
  }
  return text;
}

function checkValue(operation: Operation, name: string, value: string | number): string | number {
  const param = operation.params.find((candidate) => candidate.name === name);
  if (param === undefined) throw invalid(operation, name, 'no such parameter');
  const read = readParam(param, value);
  if (!read.ok) throw invalid(operation, name, describeParam(param));
  return read.value;
}

function encoded(operation: Operation, name: string, text: string): string {
  try {
    return encodeURIComponent(text);
  } catch {
    throw invalid(operation, name, 'well-formed text');
  }
}

function invalid(operation: Operation, field: string, expected: string): Error {
  return originError('request-invalid', { operation: operation.name, field, expected });
}

/** Reads the token from its source. Called for the first request, and again after a 401. */
export type TokenReader = () => string | Promise<string>;

/** Tokens that an Authorization header can carry (RFC 6750, 2.1, slightly extended). */
const USABLE = /^[\x21-\x7e]+$/;

/** Caches the token until the service refuses it, to avoid reading a file or a secret store for every request. */
export class Credentials {
  #token: string | undefined;
  #reading: Promise<string> | undefined;

  constructor(
    private readonly read: TokenReader,
    private readonly host: string,
  ) {}

  /** @throws the reader's errors; token-malformed */
  token(): string | Promise<string> {
    return this.#token ?? this.#readOnce();
  }

  /** Returns the token that replaces `previous`, or null if unchanged. Rereads it unless another call already has. */
  async after(previous: string): Promise<string | null> {
    if (this.#token === previous) this.#token = undefined;
    const token = await this.token();
    return token === previous ? null : token;
  }

  #readOnce(): Promise<string> {
    this.#reading ??= this.#readNow().finally(() => {
      this.#reading = undefined;
    });
    return this.#reading;
  }

  async #readNow(): Promise<string> {
    const token = (await this.read()).trim();
    if (!USABLE.test(token)) throw originError('token-malformed', { host: this.host });
    this.#token = token;
    return token;
  }
}

export function contentTypeOf(headers: IncomingHttpHeaders): string {
  return (headers['content-type'] ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? '';
}

export function contentLengthOf(headers: IncomingHttpHeaders): number | null {
  const text = headers['content-length'];
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : null;
}

/** Returns true for an encoded body. No request asks for an encoding. */
function isEncoded(headers: IncomingHttpHeaders): boolean {
  const coding = headers['content-encoding'];
  return coding !== undefined && coding !== '' && coding.toLowerCase() !== 'identity';
}

/** Returns Retry-After (RFC 9110, 10.2.3: seconds or a date) in milliseconds, uncapped, or null if unreadable. */
export function retryAfterOf(headers: IncomingHttpHeaders, now: number): number | null {
  const text = headers['retry-after']?.trim() ?? '';
  if (/^\d{1,12}(\.\d{1,6})?$/.test(text)) return Math.round(Number(text) * 1000);
  // HTTP dates start with a weekday. Date.parse alone would accept almost anything.
  if (!/^(mon|tue|wed|thu|fri|sat|sun)/i.test(text)) return null;
  const at = Date.parse(text);
  return Number.isNaN(at) ? null : Math.max(0, at - now);
}

export function countOf(headers: IncomingHttpHeaders, name: string): number | null {
  const value = headers[name];
  const text = (Array.isArray(value) ? value[0] : value)?.trim() ?? '';
  return /^\d{1,9}$/.test(text) ? Number(text) : null;
}

const PAGE_TYPES = new Set(['text/html', 'application/xhtml+xml']);

/** Recognises a web page, such as a portal or maintenance notice, by its type or its first bytes. */
export function looksLikeWebPage(contentType: string, bytes: Buffer): boolean {
  if (PAGE_TYPES.has(contentType)) return true;
  if (contentType === 'application/json') return false;
  return /^\s*<(!doctype\s+html|html|head|body)\b/i.test(bytes.toString('latin1', 0, 256));
}

type JsonReading = { readonly ok: true; readonly value: unknown } | { readonly ok: false };

/** The service nests only a few levels. Deeper JSON would overflow the stack of recursive code. */
const DEEPEST = 100;

/** Parses JSON up to `DEEPEST` levels. Replaces invalid UTF-8, because one bad subject must not hide a whole page. */
export function readJson(bytes: Buffer): JsonReading {
  if (isTooDeep(bytes)) return { ok: false };
  const text = bytes.toString('utf8');
  try {
    const value: unknown = JSON.parse(text.charCodeAt(0) === 0xfeff ? text.slice(1) : text);
    return { ok: true, value };
  } catch {
    return { ok: false };
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
/** `[` and `{` differ only in this bit, as do `]` and `}`. */
const CASE_BIT = 0x20;
const OPENING = 0x7b;
const CLOSING = 0x7d;

/** Counts brackets before parsing, because deeply nested JSON takes many times its size in memory once parsed. */
function isTooDeep(bytes: Buffer): boolean {
  let depth = 0;
  let inText = false;
  for (let i = 0; i < bytes.length; i += 1) {
    const byte = bytes[i] ?? 0;
    if (byte === QUOTE) inText = !inText;
    else if (inText) {
      if (byte === BACKSLASH) i += 1;
    } else if ((byte | CASE_BIT) === OPENING) {
      depth += 1;
      if (depth > DEEPEST) return true;
    } else if ((byte | CASE_BIT) === CLOSING) depth -= 1;
  }
  return false;
}

const MIB = 1024 * 1024;

/** A page of 100 messages is about 60 kB. */
export const MAX_JSON_BYTES = 32 * MIB;
/** The status alone identifies an error, so little of the body is needed. */
export const MAX_ERROR_BYTES = 64 * 1024;
export const MAX_HEADER_BYTES = 64 * 1024;
/** Larger bodies are spooled to a file. */
export const IN_MEMORY_BYTES = 8 * MIB;
export const MAX_SOURCE_BYTES = 2 * 1024 * MIB;
/** Enough for ten million messages at 100 per page. */
export const MAX_MESSAGE_PAGES = 100_000;
/** For other collections; enough for 100,000 webhooks, log entries or folders. */
export const MAX_PAGES = 1_000;
/** A collection counts as endless after this many consecutive pages without new items. */
export const MAX_IDLE_PAGES = 3;
/** Limit per token, because each mailbox costs memory and requests in every sync. */
export const MAX_MAILBOXES = 20_000;
/** Maximum number of informational responses (1xx) before the final one. */
export const MAX_INFORMATIONAL = 16;

/** Time limits for a response in milliseconds. */
export interface Timeouts {
  readonly connect: number;
  readonly headers: number;
  /** Maximum silence during the response. */
  readonly idle: number;
  /** For the whole response, plus its bytes at `MIN_BYTES_PER_MS`. Stops a response that trickles indefinitely. */
  readonly total: number;
}

export const TIMEOUTS: Timeouts = {
  connect: 10_000,
  headers: 60_000,
  idle: 60_000,
  total: 120_000,
};

/** 16 kB/s. */
export const MIN_BYTES_PER_MS = 16;

export type Body =
  | { readonly kind: 'buffer'; readonly bytes: Buffer }
  | {
      readonly kind: 'file';
      readonly path: string;
      readonly size: number;
      /** SHA-256 in lower-case hexadecimal, computed during the transfer. */
      readonly sha256: string;
    };

/** The sender must pause while this many bytes are waiting to be written to the file. */
const UNWRITTEN_BYTES = 1024 * 1024;

/** Collects the bytes of one response: in memory up to a limit, and above it in a file with mode 0600. */
export class BodyCollector {
  #chunks: Buffer[] = [];
  #size = 0;
  #file: SpoolFile | undefined;
  #failure: Error | undefined;

  constructor(
    private readonly options: {
      readonly dir: string;
      readonly inMemoryLimit: number;
      readonly resume: () => void;
      readonly fail: (error: Error) => void;
    },
  ) {}

  /** Returns false if the sender must pause until `resume`. */
  take(chunk: Buffer): boolean {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    if (this.#size <= this.options.inMemoryLimit) return true;
    this.#file ??= this.#create();
    const { hash, stream } = this.#file;
    let hasRoom = true;
    for (const bytes of this.#chunks) {
      hash.update(bytes);
      hasRoom = stream.write(bytes);
    }
    this.#chunks = [];
    return hasRoom;
  }

  finish(): Body | Promise<Body> {
    if (this.#file !== undefined) return this.#finishFile(this.#file);
    // Copies the bytes, because a chunk is a view that keeps a larger buffer alive.
    const bytes = Buffer.concat(this.#chunks);
    this.#chunks = [];
    return { kind: 'buffer', bytes };
  }

  async #finishFile({ path, stream, closed, hash }: SpoolFile): Promise<Body> {
    stream.end();
    await closed;
    if (this.#failure !== undefined) throw this.#failure;
    return { kind: 'file', path, size: this.#size, sha256: hash.digest('hex') };
  }

  /** Discards all bytes and removes the file. Never throws. */
  async discard(): Promise<void> {
    this.#chunks = [];
    if (this.#file === undefined) return;
    const { path, stream, closed } = this.#file;
    stream.destroy();
    await closed;
    await rm(path, { force: true }).catch(() => {});
  }

  /** A failed write is reported immediately, so that the sender stops. */
  #create(): SpoolFile {
    const { dir, resume, fail } = this.options;
    const path = join(dir, `source-${randomUUID()}.tmp`);
    const options = { flags: 'wx', mode: 0o600, highWaterMark: UNWRITTEN_BYTES };
    const stream = createWriteStream(path, options);
    stream.on('drain', resume);
    stream.on('error', (cause) => {
      this.#failure = originError('spool-failed', { dir, reason: errnoName(cause) }, cause);
      fail(this.#failure);
    });
    const closed = new Promise<void>((resolve) => stream.once('close', resolve));
    return { path, stream, closed, hash: createHash('sha256') };
  }
}

interface SpoolFile {
  readonly path: string;
  readonly stream: WriteStream;
  readonly closed: Promise<void>;
  readonly hash: Hash;
}

/** The decoded record in an operation's response. */
export type RecordOf<O extends Operation> = O['response'] extends {
  readonly record: infer R extends z.ZodType;
}
  ? R extends typeof messageRecord
    ? Listing
    : z.output<R>
  : never;

export interface Page<T> {
  readonly items: readonly T[];
  readonly page: number;
  readonly perPage: number;
  /** Total items in the collection, as reported by the service. Only this marks the end; pages can be short. */
  readonly total: number;
}

/** Returns the JSON of a successful response, or undefined for an empty body. */
export function jsonOf(operation: Operation, host: string, reply: Reply): unknown {
  const bytes = reply.body.kind === 'buffer' ? reply.body.bytes : Buffer.alloc(0);
  if (bytes.length === 0 && reply.status === 204) return undefined;
  const contentType = contentTypeOf(reply.headers);
  const fail = (what: 'web-page' | 'other-type' | 'broken' | 'encoded') =>
    originError(
      'origin.not-json',
      { operation: operation.name, host, status: reply.status, what, contentType },
      undefined,
      true,
    );
  if (isEncoded(reply.headers)) throw fail('encoded');
  if (looksLikeWebPage(contentType, bytes)) throw fail('web-page');
  if (contentType !== '' && contentType !== 'application/json' && !contentType.endsWith('+json')) {
    throw fail('other-type');
  }
  const json = readJson(bytes);
  if (!json.ok) throw fail('broken');
  return json.value;
}

/** Returns the record in a successful response: in `data` for the Mailbox API, unwrapped for the Platform API. */
export function recordOf<O extends Operation>(operation: O, json: unknown): RecordOf<O> {
  if (operation.response.kind === 'bare') return decodeRecord(operation, json, '');
  return decodeRecord(operation, field(operation, json, 'data'), 'data');
}

export function pageOf<O extends Operation>(operation: O, json: unknown): Page<RecordOf<O>> {
  const data = field(operation, json, 'data');
  if (!Array.isArray(data)) {
    throw shapeError(operation, 'data', data, 'array');
  }
  const items = data.map((item: unknown, i) => decodeRecord(operation, item, `data[${i}]`));
  if (operation.surface === 'mailbox') {
    const pagination = field(operation, json, 'pagination');
    const read = decode(mailboxPagination, pagination, operation.name, 'pagination');
    return { items, page: read.page, perPage: read.perPage, total: read.total };
  }
  const read = decode(platformMeta, field(operation, json, 'meta'), operation.name, 'meta');
  return { items, page: read.current_page, perPage: read.per_page, total: read.total };
}

/** @param path path of the value in the response, for errors */
function decodeRecord<O extends Operation>({ name, response }: O, value: unknown, path: string) {
  if (!('record' in response)) throw new RangeError(`${name} answers with no record`);
  const { record } = response;
  const read =
    record === messageRecord ? decodeListing(value, name, path) : decode(record, value, name, path);
  return read as RecordOf<O>;
}

function field(operation: Operation, json: unknown, name: string): unknown {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    throw shapeError(operation, '', json, 'object');
  }
  return Object.getOwnPropertyDescriptor(json, name)?.value;
}

function shapeError({ name }: Operation, path: string, found: unknown, expected: string): Error {
  return originError('origin.shape', { operation: name, path, found: typeName(found), expected });
}

/** Bytes as received, with the declared length and type. The receiver deletes the file. */
export type Bytes = Body & { readonly contentLength: number | null; readonly contentType: string };

/** Checks the response's type and declared length. @throws origin.not-mail, origin.not-bytes, origin.cut-short */
export function bytesOf(operation: Operation, host: string, reply: Reply): Bytes {
  const { body, contentLength } = reply;
  const contentType = contentTypeOf(reply.headers);
  const expected = operation.response.kind === 'bytes' ? operation.response.contentType : '';
  if (contentType !== expected || isEncoded(reply.headers)) {
    const start = body.kind === 'buffer' ? body.bytes : Buffer.alloc(0);
    const what = isEncoded(reply.headers)
      ? 'encoded'
      : looksLikeWebPage(contentType, start)
        ? 'web-page'
        : 'other-type';
    throw originError(expected === 'message/rfc822' ? 'origin.not-mail' : 'origin.not-bytes', {
      operation: operation.name,
      host,
      status: reply.status,
      what,
      contentType,
    });
  }
  const size = body.kind === 'buffer' ? body.bytes.length : body.size;
  if (contentLength !== null && contentLength !== size) {
    const facts = { operation: operation.name, host, received: size, expected: contentLength };
    throw originError('origin.cut-short', facts);
  }
  return { ...body, contentLength, contentType };
}
