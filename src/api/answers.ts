import type { z } from 'zod';
import { originError } from '../errors/origin.ts';
import { decode, typeName } from '../wire/codec.ts';
import { mailboxPagination } from '../wire/mailbox-records.ts';
import type { Operation } from '../wire/operation.ts';
import { platformMeta } from '../wire/platform-records.ts';
import type { Body } from './bodies.ts';
import type { Reply } from './exchange.ts';
import { contentTypeOf, isEncoded } from './headers.ts';
import { looksLikeWebPage, readJson } from './json.ts';

/** Reads one value of an answer: `path` is where it stands, for errors. */
export type Decoder<T> = (value: unknown, operation: string, path: string) => T;

/** A decoder by schema. */
export function bySchema<S extends z.ZodType>(schema: S): Decoder<z.output<S>> {
  return (value, operation, path) => decode(schema, value, operation, path);
}

/** One page of a collection, whichever surface it came from. */
export interface Page<T> {
  readonly items: readonly T[];
  readonly page: number;
  readonly perPage: number;
  /** Items of the whole collection, as the service counts them. Only this marks the end: a page can be short. */
  readonly total: number;
}

/** The JSON of a success; undefined for a body that is empty. */
export function jsonOf(operation: Operation, host: string, reply: Reply): unknown {
  const bytes = reply.body.kind === 'buffer' ? reply.body.bytes : Buffer.alloc(0);
  if (bytes.length === 0 && reply.status === 204) return undefined;
  const contentType = contentTypeOf(reply.headers);
  const fail = (what: 'web-page' | 'other-type' | 'broken' | 'encoded') =>
    originError(
      'origin.not-json',
      { operation: operation.name, host, status: reply.status, what, contentType },
      { retryable: true },
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

/** The record of a success: under `data` on the mailbox surface, bare on the platform surface. */
export function recordOf<T>(operation: Operation, json: unknown, decoder: Decoder<T>): T {
  if (operation.response.kind === 'bare') return decoder(json, operation.name, '');
  return decoder(field(operation, json, 'data'), operation.name, 'data');
}

export function pageOf<T>(operation: Operation, json: unknown, decoder: Decoder<T>): Page<T> {
  const data = field(operation, json, 'data');
  if (!Array.isArray(data)) {
    throw misshapen(operation, 'data', data, 'array');
  }
  const items = data.map((item: unknown, i) => decoder(item, operation.name, `data[${i}]`));
  if (operation.surface === 'mailbox') {
    const found = field(operation, json, 'pagination');
    const read = decode(mailboxPagination, found, operation.name, 'pagination');
    return { items, page: read.page, perPage: read.perPage, total: read.total };
  }
  const read = decode(platformMeta, field(operation, json, 'meta'), operation.name, 'meta');
  return { items, page: read.current_page, perPage: read.per_page, total: read.total };
}

function field(operation: Operation, json: unknown, name: string): unknown {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) {
    throw misshapen(operation, '', json, 'object');
  }
  return Object.getOwnPropertyDescriptor(json, name)?.value;
}

function misshapen({ name }: Operation, path: string, found: unknown, expected: string): Error {
  return originError('origin.shape', { operation: name, path, found: typeName(found), expected });
}

/** Bytes as they came, with the length and type that the service announced. The receiver deletes a file. */
export type Bytes = Body & { readonly contentLength: number | null; readonly contentType: string };

/**
 * The bytes of a success, when they are of the type they should be and as many as announced.
 *
 * @throws origin.not-mail, origin.not-bytes, origin.cut-short
 */
export function bytesOf(operation: Operation, host: string, reply: Reply): Bytes {
  const { body, contentLength } = reply;
  const contentType = contentTypeOf(reply.headers);
  const expected = operation.response.kind === 'bytes' ? operation.response.contentType : '';
  if (contentType !== expected || isEncoded(reply.headers)) {
    const begin = body.kind === 'buffer' ? body.bytes : Buffer.alloc(0);
    const what = isEncoded(reply.headers)
      ? 'encoded'
      : looksLikeWebPage(contentType, begin)
        ? 'web-page'
        : 'other-type';
    throw originError(
      expected === 'message/rfc822' ? 'origin.not-mail' : 'origin.not-bytes',
      { operation: operation.name, host, status: reply.status, what, contentType },
      { retryable: true },
    );
  }
  const size = body.kind === 'buffer' ? body.bytes.length : body.size;
  if (contentLength !== null && contentLength !== size) {
    throw originError(
      'origin.cut-short',
      { operation: operation.name, host, received: size, expected: contentLength },
      { retryable: true },
    );
  }
  return { ...body, contentLength, contentType };
}
