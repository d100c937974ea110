import { z } from 'zod';
import type { ParamValues } from '../../../api/request-url.ts';
import { operationError } from '../../../errors/operations.ts';
import { usageError } from '../../../errors/usage.ts';
import { nearest } from '../../../names/nearest.ts';
import { describeParam, type Operation, type Param, readParam } from '../../../wire/operation.ts';
import { findOperation, OPERATIONS } from '../../../wire/operations.ts';

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

const MOST_SUGGESTIONS = 4;

/** @throws operation-unknown with the names it may have been meant for */
export function namedOperation(name: string): Operation {
  const found = findOperation(name);
  if (found === null) {
    throw operationError('operation-unknown', { operation: name, nearest: suggestions(name) });
  }
  return found;
}

/** Names that are a few typing mistakes away, then those that hold the word. */
function suggestions(name: string): string[] {
  let names = OPERATIONS.map((operation) => operation.name);
  const near: string[] = [];
  for (;;) {
    const next = nearest(name, names);
    if (next === null) break;
    near.push(next);
    names = names.filter((each) => each !== next);
  }
  const word = name.toLowerCase();
  const holding = word.length < 3 ? [] : names.filter((each) => each.toLowerCase().includes(word));
  return [...near, ...holding].slice(0, MOST_SUGGESTIONS);
}

/** Parameters that name a mailbox by its resource id; on a command line they may hold its address. */
const MAILBOX_PARAMS: ReadonlySet<string> = new Set([
  'mailboxResourceId',
  'mailboxId',
  'mailbox_id',
]);
/** What all of them may be called by. */
const MAILBOX = 'mailbox';
/** A client always says how many items a page it wants: defaults of services differ. */
const PAGE_SIZES: ReadonlySet<string> = new Set(['perPage', 'per_page']);

export interface GivenParams {
  /** Typed and within their bounds; an address given as a mailbox stays as it is. */
  readonly values: ParamValues;
  /** The mailbox parameter that holds an address, to be looked up. */
  readonly address: { readonly param: string; readonly address: string } | null;
}

/**
 * Reads `name=value` pairs as the table of operations wants them.
 *
 * @param filled values for parameters that were not given
 * @throws usage-option, operation-param-unknown, -twice, -invalid, -missing
 */
export function readParams(
  operation: Operation,
  given: readonly string[],
  filled: ParamValues = {},
): GivenParams {
  const values: Record<string, string | number> = {};
  let address: GivenParams['address'] = null;
  for (const pair of given) {
    const [name, text] = split(pair);
    const param = paramOf(operation, name);
    if (param.name in values) {
      throw operationError('operation-param-twice', {
        operation: operation.name,
        param: param.name,
      });
    }
    if (MAILBOX_PARAMS.has(param.name) && text.includes('@')) {
      address = { param: param.name, address: text };
    }
    values[param.name] = checked(operation, param, text);
  }
  for (const param of operation.params) {
    if (param.name in values) continue;
    const value = filled[param.name] ?? (PAGE_SIZES.has(param.name) ? param.default : undefined);
    if (value !== undefined) values[param.name] = checked(operation, param, value);
    else if (param.required) {
      throw operationError('operation-param-missing', {
        operation: operation.name,
        param: param.name,
        expected: describeParam(param),
        help: param.help,
      });
    }
  }
  return { values, address };
}

function split(pair: string): [name: string, text: string] {
  const at = pair.indexOf('=');
  if (at < 1) {
    throw usageError('usage-option', { option: '--param', found: pair, expected: 'name=value' });
  }
  return [pair.slice(0, at), pair.slice(at + 1)];
}

function paramOf(operation: Operation, name: string): Param {
  const { params } = operation;
  const found = params.find(
    (param) => param.name === name || (name === MAILBOX && MAILBOX_PARAMS.has(param.name)),
  );
  if (found !== undefined) return found;
  const known = params.map((param) => param.name);
  throw operationError('operation-param-unknown', {
    operation: operation.name,
    param: name,
    nearest: nearest(name, known),
    known,
    inBody: bodyFields(operation).some((field) => field.name === name),
  });
}

function checked(operation: Operation, param: Param, given: string | number): string | number {
  const read = readParam(param, given);
  if (read.ok) return read.value;
  throw operationError('operation-param-invalid', {
    operation: operation.name,
    param: param.name,
    found: String(given),
    expected: describeParam(param),
  });
}
