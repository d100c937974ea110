import type { z } from 'zod';

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
export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

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
export type ResponseShape =
  /** Mailbox surface: `{data: record}`. */
  | { readonly kind: 'data'; readonly record: z.ZodType }
  /** Platform surface: the record itself. */
  | { readonly kind: 'bare'; readonly record: z.ZodType }
  /** `{data: [record], pagination}` on the mailbox surface, `{data: [record], meta}` on the platform surface. */
  | { readonly kind: 'page'; readonly record: z.ZodType }
  | { readonly kind: 'bytes'; readonly contentType: string }
  | { readonly kind: 'empty' };

/** An operation as a table writes it: without what its surface and its key decide, and what is the usual case. */
type OperationEntry = Pick<Operation, 'method' | 'path' | 'params' | 'response' | 'summary'> &
  Partial<Omit<Operation, 'name' | 'surface'>>;

/**
 * Returns a table's operations by their keys. The usual one takes no body, answers 200, is not destructive, and only
 * reads when its method is GET.
 *
 * @param errors error statuses of those that name none of their own
 */
export function operationsOf<Key extends string>(
  surface: Surface,
  errors: readonly number[],
  table: Readonly<Record<Key, OperationEntry>>,
): Readonly<Record<Key, Operation>> {
  const prefix = surface === 'platform' ? 'platform.' : '';
  const complete = ([key, entry]: [string, OperationEntry]): [string, Operation] => [
    key,
    {
      name: prefix + key,
      surface,
      body: null,
      read: entry.method === 'GET',
      destructive: false,
      sideEffect: null,
      ownLimit: false,
      success: [200],
      errors,
      ...entry,
    },
  ];
  return Object.fromEntries(Object.entries<OperationEntry>(table).map(complete)) as Record<
    Key,
    Operation
  >;
}

/** A value that fits its parameter, or what was expected instead. */
export type ParamReading =
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
