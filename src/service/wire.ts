import { z } from 'zod';
import { originError } from './errors.ts';

/**
 * Reads an answer by its schema.
 *
 * @throws origin.shape with the path of the first field that does not fit; never with its value
 */
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
    expected: issue === undefined ? 'another shape' : expectation(issue),
  });
}

/** A record, or undefined where the value is none: for what may say more but need not, such as error envelopes. */
export function decodeIfFits<S extends z.ZodType>(
  schema: S,
  value: unknown,
): z.output<S> | undefined {
  const read = schema.safeParse(value);
  return read.success ? read.data : undefined;
}

/** The name of a JSON type, for errors: `null`, `array`, `string` and so on; `nothing` for a missing field. */
export function typeName(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}

/** Returns a field of an object; undefined where there is no object, or no such field of its own. */
export function fieldOf(value: unknown, key: PropertyKey): unknown {
  if (typeof value !== 'object' || value === null) return undefined;
  return Object.getOwnPropertyDescriptor(value, key)?.value;
}

/** `a.b[3].c` */
function joinPath(start: string, path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, key) => {
    if (typeof key === 'number') return `${text}[${key}]`;
    return text === '' ? String(key) : `${text}.${String(key)}`;
  }, start);
}

/** What zod wanted, in words that quote nothing of the value. */
function expectation(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return issue.expected;
    case 'too_small':
      return `at least ${issue.minimum}`;
    case 'too_big':
      return `at most ${issue.maximum}`;
    case 'invalid_value':
      return `one of ${issue.values.map(String).join(', ')}`;
    case 'unrecognized_keys':
      return 'no such field';
    case 'invalid_format':
      return issue.message.startsWith('Invalid') ? issue.format : issue.message;
    default:
      return issue.message;
  }
}

const strict = new WeakMap<z.ZodType, z.ZodType>();

/**
 * Checks a request body before it is sent: every bound of the interface, and no field it does not know, since
 * a misspelt one would be ignored in silence.
 *
 * @throws request-invalid with the field and what it takes
 */
export function encodeBody<S extends z.ZodType>(
  schema: S,
  body: unknown,
  operation: string,
): z.output<S> {
  const read = strictly(schema).safeParse(body);
  // Reading with the schema itself is what makes the result its output.
  if (read.success) return schema.parse(body);
  const issue = read.error.issues[0];
  const unknown = issue?.code === 'unrecognized_keys' ? issue.keys.slice(0, 1) : [];
  throw originError('request-invalid', {
    operation,
    field: joinPath('', [...(issue?.path ?? []), ...unknown]) || 'body',
    expected: issue === undefined ? 'another body' : expectation(issue),
  });
}

function strictly(schema: z.ZodType): z.ZodType {
  let made = strict.get(schema);
  if (made === undefined) {
    made = schema instanceof z.ZodObject ? schema.strict() : schema;
    strict.set(schema, made);
  }
  return made;
}

/**
 * Field kinds of the wire. Answers are read leniently: a field that is missing or null takes its empty value,
 * a field nobody named is kept (`z.looseObject`), and only a field of the wrong type is an error. The *output*
 * of each schema is the full record, which is what a service must send.
 */

/** Returns a field that is `empty` where it is missing or null. */
export function orElse<T extends z.ZodType, E>(field: T, empty: E) {
  return field.nullish().transform((value) => value ?? empty);
}

/** A text; missing or null is the empty text. */
export const text = orElse(z.string(), '');

/** A text or null; missing is null. */
export const textOrNull = orElse(z.string(), null);

/** A count of things or bytes, never negative; missing or null is 0. */
export const count = orElse(z.int().min(0), 0);

/** Any finite number; missing or null is 0. */
export const quantity = orElse(z.number(), 0);

/** A number or null; missing is null. */
export const quantityOrNull = orElse(z.number(), null);

/** True or false; missing or null is false. */
export const flag = orElse(z.boolean(), false);

/** A list; missing or null is the empty list. */
export function list<T extends z.ZodType>(item: T) {
  return z
    .array(item)
    .nullish()
    .transform((value) => value ?? []);
}

/** An IMAP uid: unique within a folder and generation. */
export const uid = z.int().min(1);

/**
 * IMAP uid sets (RFC 3501 section 9, `sequence-set`), as the `uid` criterion of `searchMessages` takes them:
 * `7`, `1:100`, `100:*`, `3,9:12`. `*` is the highest uid in the folder, whatever it is.
 */

/** One range of a set, both ends included; `'*'` stands for the folder's highest uid. */
export interface UidRange {
  readonly from: number | '*';
  readonly to: number | '*';
}

/** IMAP uids are unsigned 32-bit numbers. */
const HIGHEST_UID = 4_294_967_295;
const RANGE = /^(\d{1,10}|\*)(?::(\d{1,10}|\*))?$/;

/** The ranges of a set in the order written, or null when the text is not a set. */
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

/** True when the uid is in the set, given the folder's highest uid (0 for an empty folder). A range may be written backwards. */
export function inUidSet(ranges: readonly UidRange[], uid: number, highest: number): boolean {
  return ranges.some(({ from, to }) => {
    const a = from === '*' ? highest : from;
    const b = to === '*' ? highest : to;
    return uid >= Math.min(a, b) && uid <= Math.max(a, b);
  });
}

/**
 * What an operation is, as data: the client builds its requests from this, the command line lists it, and the
 * conformance tests walk it.
 */
export interface Operation {
  /** Unique over both surfaces: those of the platform surface begin with `platform.`. */
  readonly name: string;
  readonly surface: Surface;
  readonly method: Method;
  /** `{name}` stands for a path parameter, always one whole segment. */
  readonly path: string;
  readonly params: readonly Param[];
  readonly body: z.ZodType | null;
  readonly response: ResponseShape;
  readonly success: readonly number[];
  /** Error statuses the interface declares; others may come all the same. */
  readonly errors: readonly number[];
  /** Asking again changes nothing more at the origin, so a client may repeat it after any failure. */
  readonly read: boolean;
  /** Removes something for good, or makes a secret useless. */
  readonly destructive: boolean;
  /** What it does in addition to its purpose. */
  readonly sideEffect: 'marks-seen' | null;
  /** Its 429 is about a limit of its own, and says nothing about the rate of requests. */
  readonly ownLimit: boolean;
  readonly summary: string;
}

export type Surface = 'mailbox' | 'platform';
type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

/** A path or query parameter with its bounds, both ends included. */
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
      /** The only values allowed. */
      readonly values?: readonly string[];
      readonly default?: string;
    }
);

/** How the payload of a success stands in the body. */
type ResponseShape =
  /** Mailbox surface: `{data: record}`. */
  | { readonly kind: 'data'; readonly record: z.ZodType }
  /** Platform surface: the record itself. */
  | { readonly kind: 'bare'; readonly record: z.ZodType }
  /** `{data: [record], pagination}` on the mailbox surface, `{data: [record], meta}` on the platform surface. */
  | { readonly kind: 'page'; readonly record: z.ZodType }
  | { readonly kind: 'bytes'; readonly contentType: string }
  | { readonly kind: 'empty' };

/** An operation as a table writes it: without what its surface and its key decide, and what is the usual case. */
type OperationEntry = Pick<Operation, 'response' | 'summary'> &
  Partial<Omit<Operation, 'name' | 'surface' | 'method' | 'path' | 'params'>> & {
    readonly route: readonly [method: Method, path: string];
    /** Parameters of the query. */
    readonly query?: readonly Param[];
  };

/**
 * Returns a table's operations by their keys. The usual one takes no body, answers 200, is not destructive, and only
 * reads when its method is GET.
 *
 * @param inPath parameters that a path may have
 * @param errors error statuses of those that name none of their own
 */
export function operationsOf<const T extends Readonly<Record<string, OperationEntry>>>(
  surface: Surface,
  inPath: readonly Param[],
  errors: readonly number[],
  table: T,
) {
  const prefix = surface === 'platform' ? 'platform.' : '';
  const complete = ([key, entry]: [string, OperationEntry]): [string, Operation] => {
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
  return Object.fromEntries(Object.entries<OperationEntry>(table).map(complete)) as {
    readonly [K in keyof T]: Operation & Pick<T[K], 'response'>;
  };
}

/** A value that fits its parameter, or what was expected instead. */
type ParamReading =
  | { readonly ok: true; readonly value: string | number }
  | { readonly ok: false; readonly expected: string };

/** Reads a parameter from text (a query string, a command line) or checks a value a program gave. */
export function readParam(param: Param, given: string | number): ParamReading {
  const expected = { ok: false, expected: describeParam(param) } as const;
  if (param.type === 'string') {
    if (typeof given !== 'string' || given.length < (param.minLength ?? 0)) return expected;
    if (param.values !== undefined && !param.values.includes(given)) return expected;
    return { ok: true, value: given };
  }
  const value =
    typeof given === 'string' && !/^-?\d{1,15}$/.test(given) ? Number.NaN : Number(given);
  if (!Number.isSafeInteger(value)) return expected;
  if (value < (param.min ?? -Infinity) || value > (param.max ?? Infinity)) return expected;
  return { ok: true, value };
}

/** What a parameter takes, for listings and errors: `integer 1..100`, `one of a, b`, `string`. */
export function describeParam(param: Param): string {
  if (param.type === 'string') {
    if (param.values !== undefined) return `one of ${param.values.join(', ')}`;
    return (param.minLength ?? 0) > 0 ? 'non-empty string' : 'string';
  }
  const { min, max } = param;
  if (min === undefined && max === undefined) return 'integer';
  return `integer ${min ?? ''}..${max ?? ''}`;
}
