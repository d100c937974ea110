import { z } from 'zod';
import { originError } from '../errors/origin.ts';
import { expectation, joinPath } from './decode.ts';

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
