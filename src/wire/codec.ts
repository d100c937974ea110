import { z } from 'zod';
import { originError } from '../errors/origin.ts';

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
export function joinPath(start: string, path: readonly PropertyKey[]): string {
  return path.reduce<string>((text, key) => {
    if (typeof key === 'number') return `${text}[${key}]`;
    return text === '' ? String(key) : `${text}.${String(key)}`;
  }, start);
}

/** What zod wanted, in words that quote nothing of the value. */
export function expectation(issue: z.core.$ZodIssue): string {
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
