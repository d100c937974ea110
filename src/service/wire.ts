import { z } from 'zod';
import { originError } from './errors.ts';

/** Decodes a response. @throws origin.shape with the path of the first invalid field, but never its value */
export function decode<S extends z.ZodType>(
  schema: S,
  value: unknown,
  operation: string,
  path = '',
): z.output<S> {
  const read = schema.safeParse(value);
  if (read.success) return read.data;
  const issue = read.error.issues[0];
  const at = issue?.path ?? [];
  throw originError('origin.shape', {
    operation,
    path: joinPath(path, at),
    found: typeName(at.reduce<unknown>(fieldOf, value)),
    expected: issue === undefined ? 'another shape' : describeExpected(issue),
  });
}

/** Returns the name of a JSON type for errors, such as `null`, `array` or `string`; `nothing` for a missing field. */
export function typeName(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}

/** Returns an object's own property, or undefined for anything else. */
export function fieldOf(value: unknown, key: PropertyKey): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  return Object.getOwnPropertyDescriptor(value, key)?.value;
}

function joinPath(start: string, path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, key) => {
    if (typeof key === 'number') return `${text}[${key}]`;
    return text === '' ? String(key) : `${text}.${String(key)}`;
  }, start);
}

/** Describes what zod expected. Never quotes the actual value. */
function describeExpected(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return issue.expected;
    case 'too_small':
      return `at least ${issue.minimum}`;
    case 'too_big':
      return `at most ${issue.maximum}`;
    case 'invalid_value':
      return `one of ${issue.values.map(String).join(', ')}`;
    case 'invalid_format':
      return issue.message.startsWith('Invalid') ? issue.format : issue.message;
    default:
      return issue.message;
  }
}

/**
 * Checks a request body before it is sent. Enforces every documented bound and rejects unknown fields, because a
 * service would silently ignore a misspelt field.
 *
 * @throws request-invalid with the field and the expected value
 */
export function encodeBody<S extends z.ZodType>(
  schema: S,
  body: unknown,
  operation: string,
): z.output<S> {
  const read = schema.safeParse(body);
  const fields = schema instanceof z.ZodObject ? schema.shape : Object(body);
  const unknownField = Object.keys(Object(body)).find((name) => !Object.hasOwn(fields, name));
  if (read.success && unknownField === undefined) return read.data;
  const issue = read.error?.issues[0];
  throw originError('request-invalid', {
    operation,
    field: issue === undefined ? String(unknownField) : joinPath('', issue.path) || 'body',
    expected: issue === undefined ? 'no such field' : describeExpected(issue),
  });
}

/**
 * Field types in the wire formats. Responses are decoded leniently: a missing or null field gets its empty value, and
 * unknown fields are kept (`z.looseObject`). Only a wrong type is an error. Each schema's *output* is the full record,
 * which a service must send.
 */

/** Replaces a missing or null field with `empty`. */
export function orElse<T extends z.ZodType, E>(field: T, empty: E) {
  return field.nullish().transform((value) => value ?? empty);
}

export const text = orElse(z.string(), '');

export const textOrNull = orElse(z.string(), null);

/** A non-negative count of items or bytes. A missing or null field becomes 0. */
export const count = orElse(z.int().min(0), 0);

/** Any finite number. A missing or null field becomes 0. */
export const quantity = orElse(z.number(), 0);

export const quantityOrNull = orElse(z.number(), null);

export const flag = orElse(z.boolean(), false);

export function list<T extends z.ZodType>(item: T) {
  return z
    .array(z.unknown())
    .nullish()
    .transform((values, { issues }) => {
      const items: z.output<T>[] = [];
      for (const [index, value] of (values ?? []).entries()) {
        const read = item.safeParse(value);
        if (read.success) items.push(read.data);
        else {
          // One is enough, because a hostile response can have millions.
          const [issue] = read.error.issues;
          issues.push({ ...issue, input: value, path: [index, ...(issue?.path ?? [])] } as never);
          return z.NEVER;
        }
      }
      return items;
    });
}

/** An IMAP UID, unique within a folder's UID epoch. */
export const uid = z.int().min(1);

/** IMAP UID sets (RFC 3501 section 9, `sequence-set`): `7`, `1:100`, `100:*`, `3,9:12`. `*` is the highest UID. */

/** One range of a set, both ends included. `'*'` is the folder's highest UID. */
export interface UidRange {
  readonly from: number | '*';
  readonly to: number | '*';
}

/** IMAP UIDs are unsigned 32-bit numbers. */
const HIGHEST_UID = 4_294_967_295;
const RANGE = /^(\d{1,10}|\*)(?::(\d{1,10}|\*))?$/;

/** Returns a set's ranges in the order written, or null if the text is not a set. */
export function parseUidSet(set: string): readonly UidRange[] | null {
  const ranges: UidRange[] = [];
  for (const part of set.split(',')) {
    const match = RANGE.exec(part);
    if (match === null) return null;
    const from = parseEnd(match[1]);
    const to = match[2] === undefined ? from : parseEnd(match[2]);
    if (from === null || to === null) return null;
    ranges.push({ from, to });
  }
  return ranges;
}

function parseEnd(text: string | undefined): number | '*' | null {
  if (text === '*') return '*';
  const uid = Number(text);
  return Number.isInteger(uid) && uid >= 1 && uid <= HIGHEST_UID ? uid : null;
}

/** Reports whether a set contains a UID. `highest` is the folder's highest UID, or 0. Ranges can be reversed. */
export function inUidSet(ranges: readonly UidRange[], uid: number, highest: number): boolean {
  return ranges.some(({ from, to }) => {
    const a = from === '*' ? highest : from;
    const b = to === '*' ? highest : to;
    return uid >= Math.min(a, b) && uid <= Math.max(a, b);
  });
}

/** An operation as data for the client's requests, the command line and the conformance tests. */
export interface Operation {
  /** Unique across both APIs, because Platform API names start with `platform.`. */
  readonly name: string;
  readonly surface: Surface;
  readonly method: Method;
  /** `{name}` is a path parameter, and always fills a whole segment. */
  readonly path: string;
  readonly params: readonly Param[];
  readonly body: z.ZodType | null;
  readonly response: ResponseShape;
  readonly success: readonly number[];
  readonly errors: readonly number[];
  /** True if repeating the operation has no further effect, so that a client can retry it after any failure. */
  readonly read: boolean;
  /** True if it deletes something permanently or invalidates a secret. */
  readonly destructive: boolean;
  readonly sideEffect: 'marks-seen' | null;
  /** True if a 429 refers to the operation's own limit rather than the request rate. */
  readonly ownLimit: boolean;
  readonly summary: string;
}

export type Surface = 'mailbox' | 'platform';
type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** A path or query parameter. Its bounds are inclusive. */
export type Param = {
  readonly name: string;
  readonly in: 'path' | 'query';
  readonly required: boolean;
  readonly help: string;
} & (
  | {
      readonly type: 'integer';
      readonly min?: number;
      readonly max?: number;
      readonly default?: number;
    }
  | {
      readonly type: 'string';
      readonly minLength?: number;
      readonly values?: readonly string[];
      readonly default?: string;
    }
);

type ResponseShape =
  | { readonly kind: 'data'; readonly record: z.ZodType }
  | { readonly kind: 'bare'; readonly record: z.ZodType }
  /** `{data: [record], pagination}` in the Mailbox API, `{data: [record], meta}` in the Platform API. */
  | { readonly kind: 'page'; readonly record: z.ZodType }
  | { readonly kind: 'bytes'; readonly contentType: string }
  | { readonly kind: 'empty' };

/** An entry in a table. Omits defaults and anything implied by the API or the key. */
type OperationEntry = Pick<Operation, 'response' | 'summary'> &
  Partial<Omit<Operation, 'name' | 'surface' | 'method' | 'path' | 'params'>> & {
    readonly route: readonly [method: Method, path: string];
    readonly query?: readonly Param[];
  };

/**
 * Returns a table's operations, named by their keys. Defaults: no body, status 200, not destructive, read-only if the
 * method is GET.
 *
 * @param inPath parameters that a path can contain
 * @param errors default error statuses
 */
export function operationsOf<const T extends Readonly<Record<string, OperationEntry>>>(
  surface: Surface,
  inPath: readonly Param[],
  errors: readonly number[],
  table: T,
) {
  const prefix = surface === 'platform' ? 'platform.' : '';
  const fillEntry = ([key, entry]: [string, OperationEntry]): [string, Operation] => {
    const { route, query = [], ...rest } = entry;
    const [method, path] = route;
    const names = path.match(/(?<=\{)\w+/g) ?? [];
    const params = names.flatMap((name) => inPath.filter((param) => param.name === name));
    const operation = {
      name: prefix + key,
      surface,
      method,
      path,
      params: [...params, ...query],
      body: null,
      read: method === 'GET',
      destructive: false,
      sideEffect: null,
      ownLimit: false,
      success: [200],
      errors,
      ...rest,
    };
    return [key, operation];
  };
  return Object.fromEntries(Object.entries<OperationEntry>(table).map(fillEntry)) as {
    readonly [K in keyof T]: Operation & Pick<T[K], 'response'>;
  };
}

/** A parameter's valid value, or a description of what was expected. */
type ParamReading =
  | { readonly ok: true; readonly value: string | number }
  | { readonly ok: false; readonly expected: string };

/** Parses a parameter from text (a query string or command line), or checks a given value. */
export function readParam(param: Param, input: string | number): ParamReading {
  const expected = { ok: false, expected: describeParam(param) } as const;
  if (param.type === 'string') {
    if (typeof input !== 'string' || input.length < (param.minLength ?? 0)) return expected;
    if (param.values !== undefined && !param.values.includes(input)) return expected;
    return { ok: true, value: input };
  }
  const value =
    typeof input === 'string' && !/^-?\d{1,15}$/.test(input) ? Number.NaN : Number(input);
  if (!Number.isSafeInteger(value)) return expected;
  if (value < (param.min ?? -Infinity) || value > (param.max ?? Infinity)) return expected;
  return { ok: true, value };
}

/** Describes a parameter's values for listings and errors: `integer 1..100`, `one of a, b`, `string`. */
export function describeParam(param: Param): string {
  if (param.type === 'string') {
    if (param.values !== undefined) return `one of ${param.values.join(', ')}`;
    return (param.minLength ?? 0) > 0 ? 'non-empty string' : 'string';
  }
  const { min, max } = param;
  if (min === undefined && max === undefined) return 'integer';
  return `integer ${min ?? ''}..${max ?? ''}`;
}
