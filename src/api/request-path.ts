import { originError } from '../errors/origin.ts';
import { describeParam, type Operation, type Param, readParam } from '../wire/operation.ts';

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
