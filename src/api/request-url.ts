import { originError } from '../errors/origin.ts';
import { describeParam, type Operation, type Param, readParam } from '../wire/operation.ts';

/** Where a surface is served. */
export interface BaseUrl {
  /** Scheme, host and port. */
  readonly origin: string;
  /** Host and port as the URL writes them: the port is left out where it is the scheme's own. */
  readonly host: string;
  /** The path before `/api/…`, without a slash at its end. */
  readonly prefix: string;
}

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/**
 * Reads a base address. Plain http would show the token to everyone on the way, so it is taken for this
 * machine only, unless `insecure`.
 *
 * @throws base-url-invalid
 */
export function readBaseUrl(text: string, insecure = false): BaseUrl {
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

/** What cannot be read as a URL may still hold credentials before an `@`. */
function withoutSecrets(text: string): string {
  return text.slice(text.lastIndexOf('@') + 1).slice(0, 200);
}

export type ParamValues = Readonly<Record<string, string | number | null | undefined>>;

/** A piece of a path: text as it stands, or a parameter to fill in. */
type Piece = string | Param;

const pieces = new WeakMap<Operation, readonly Piece[]>();

/**
 * The path and query of a request. Every path parameter becomes one segment, whatever it holds; parameters
 * left out are not sent.
 *
 * @throws request-invalid for a parameter that is missing, unknown or out of its bounds
 */
export function requestPath(operation: Operation, prefix: string, values: ParamValues): string {
  let path = prefix;
  for (const piece of piecesOf(operation)) {
    path += typeof piece === 'string' ? piece : segment(operation, piece, values[piece.name]);
  }
  return path + query(operation, values);
}

function piecesOf(operation: Operation): readonly Piece[] {
  let known = pieces.get(operation);
  if (known === undefined) {
    known = operation.path.split(/(\{\w+\})/).map((piece) => {
      if (!piece.startsWith('{')) return piece;
      const name = piece.slice(1, -1);
      const param = operation.params.find((each) => each.name === name);
      if (param === undefined) throw new RangeError(`${operation.name} has no parameter ${name}`);
      return param;
    });
    pieces.set(operation, known);
  }
  return known;
}

function segment(
  operation: Operation,
  param: Param,
  value: string | number | null | undefined,
): string {
  const text = String(checked(operation, param, value ?? ''));
  // Servers and proxies read these as steps up the path, even percent-encoded.
  if (text === '.' || text === '..') throw invalid(operation, param.name, 'a name that is no dots');
  try {
    return encodeURIComponent(text);
  } catch {
    throw invalid(operation, param.name, 'well-formed text');
  }
}

function query(operation: Operation, values: ParamValues): string {
  let text = '';
  for (const name in values) {
    const value = values[name];
    if (value === undefined || value === null) continue;
    const param = operation.params.find((each) => each.name === name);
    if (param === undefined) throw invalid(operation, name, 'no such parameter');
    if (param.in === 'path') continue;
    try {
      const encoded = encodeURIComponent(String(checked(operation, param, value)));
      text += `${text === '' ? '?' : '&'}${name}=${encoded}`;
    } catch (cause) {
      if (cause instanceof URIError) throw invalid(operation, name, 'well-formed text');
      throw cause;
    }
  }
  return text;
}

function checked(operation: Operation, param: Param, value: string | number): string | number {
  const read = readParam(param, value);
  if (!read.ok) throw invalid(operation, param.name, describeParam(param));
  return read.value;
}

function invalid(operation: Operation, field: string, expected: string): Error {
  return originError('request-invalid', { operation: operation.name, field, expected });
}
