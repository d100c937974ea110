import { z } from 'zod';
import { type Operation, type Param, readParam } from '../../wire/operation.ts';

/** What a tool takes: path and query parameters and the fields of the body, side by side. */
export function toolInput(operation: Operation): z.ZodObject {
  const fields: Record<string, z.ZodType> = {};
  for (const param of operation.params) fields[param.name] = paramSchema(param);
  // The refinements of a body as a whole are left to the surface, which checks every request.
  return z.strictObject({ ...fields, ...bodyFields(operation) });
}

function paramSchema(param: Param): z.ZodType {
  const schema = (param.type === 'integer' ? integer(param) : string(param)).describe(param.help);
  return param.required ? schema : schema.optional();
}

function integer({ min, max }: Extract<Param, { type: 'integer' }>): z.ZodInt {
  const low = min === undefined ? z.int() : z.int().min(min);
  return max === undefined ? low : low.max(max);
}

function string({ values, minLength }: Extract<Param, { type: 'string' }>): z.ZodType {
  return values === undefined ? z.string().min(minLength ?? 0) : z.enum(values);
}

function bodyFields({ body }: Operation): Readonly<Record<string, z.core.$ZodType>> {
  return body instanceof z.ZodObject ? body.shape : {};
}

/** A request as the mailbox surface takes it. */
export interface ToolRequest {
  readonly method: string;
  /** Path and query, percent-encoded. */
  readonly path: string;
  /** JSON text; null where the operation takes none. */
  readonly body: string | null;
}

/** The request that a tool's arguments stand for. */
export function toolRequest(
  operation: Operation,
  input: Readonly<Record<string, unknown>>,
): ToolRequest {
  let { path } = operation;
  const query = new URLSearchParams();
  for (const param of operation.params) {
    const value = input[param.name];
    if (typeof value !== 'string' && typeof value !== 'number') continue;
    const reading = readParam(param, value);
    const text = String(reading.ok ? reading.value : value);
    if (param.in === 'path') path = path.replace(`{${param.name}}`, () => encodeURIComponent(text));
    else query.set(param.name, text);
  }
  const body: Record<string, unknown> = {};
  for (const name of Object.keys(bodyFields(operation))) {
    if (input[name] !== undefined) body[name] = input[name];
  }
  return {
    method: operation.method,
    path: query.size === 0 ? path : `${path}?${query}`,
    body: operation.body === null ? null : JSON.stringify(body),
  };
}
