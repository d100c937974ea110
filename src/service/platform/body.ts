import type { z } from 'zod';
import { expectation } from '../../wire/decode.ts';
import { type PlatformCall, refused } from './call.ts';

/** A body by its schema. @throws Refusal 422 with every problem by its field */
export function readBody<T extends z.ZodType>(call: PlatformCall, schema: T): z.output<T> {
  const result = schema.safeParse(call.body);
  if (result.success) return result.data;
  const fields: Record<string, string[]> = {};
  for (const issue of result.error.issues) {
    const field = issue.path.map(String).join('.') || 'body';
    const missing = issue.code === 'invalid_type' && valueAt(call.body, issue.path) === undefined;
    const problem = missing
      ? `The ${field} is required.`
      : `The ${field} must be ${expectation(issue)}.`;
    fields[field] = [...(fields[field] ?? []), problem];
  }
  throw refused(fields);
}

function valueAt(body: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (value, key) =>
      typeof value === 'object' && value !== null
        ? Object.getOwnPropertyDescriptor(value, key)?.value
        : undefined,
    body,
  );
}
