import { z } from 'zod';
import type { Operation } from '../../../wire/operation.ts';

/** A field of a request body, for people. */
export interface BodyField {
  readonly name: string;
  readonly required: boolean;
  /** Such as `string 1..100`, `list of 1..100 integers from 1`, `one of active, paused`. */
  readonly type: string;
}

/** The body as JSON Schema (2020-12), or null where the operation takes none. */
export function bodySchema({ body }: Operation): object | null {
  return body === null ? null : z.toJSONSchema(body, { io: 'input' });
}

/** The fields of the body in the order of the interface; none where the operation takes no body. */
export function bodyFields({ body }: Operation): BodyField[] {
  return body === null ? [] : fieldsOf(z.toJSONSchema(body, { io: 'input' }));
}

/** What holds for the body as a whole, where an empty one already breaks it: `needs at least one of to, cc and bcc`. */
export function bodyRules({ body }: Operation): string[] {
  const read = body?.safeParse({});
  if (read === undefined || read.success) return [];
  return read.error.issues.filter(({ code }) => code === 'custom').map(({ message }) => message);
}

type Schema = z.core.JSONSchema.JSONSchema;

function fieldsOf({ properties = {}, required = [] }: Schema): BodyField[] {
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    required: required.includes(name),
    type: typeof schema === 'boolean' ? 'anything' : typeText(schema),
  }));
}

function typeText(schema: Schema): string {
  if (schema.enum !== undefined) return `one of ${schema.enum.join(', ')}`;
  switch (schema.type) {
    case 'string':
      return `${formatText(schema)}${bounds(schema.minLength, schema.maxLength)}`;
    case 'integer':
    case 'number':
      return `${schema.type}${bounds(schema.minimum, schema.maximum)}`;
    case 'array': {
      const { items } = schema;
      const item =
        items === undefined || typeof items === 'boolean' || Array.isArray(items)
          ? 'anything'
          : typeText(items);
      return `list${bounds(schema.minItems, schema.maxItems)} of ${item}`;
    }
    case 'object':
      return `{${fieldsOf(schema)
        .map(({ name, required }) => (required ? name : `${name}?`))
        .join(', ')}}`;
    default:
      return Array.isArray(schema.type) ? schema.type.join(' or ') : 'anything';
  }
}

function formatText({ format }: Schema): string {
  if (format === 'date') return 'date YYYY-MM-DD';
  return format === 'uri' ? 'URL' : 'string';
}

/** The bounds that mean something: the largest number a double holds exactly is none. */
function bounds(from: number | undefined, to: number | undefined): string {
  const most = to === undefined || to >= Number.MAX_SAFE_INTEGER ? '' : String(to);
  if (from === undefined && most === '') return '';
  return ` ${from ?? ''}..${most}`;
}
