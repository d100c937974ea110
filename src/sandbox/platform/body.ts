import type { z } from 'zod';
import { type PlatformCall, refused } from './call.ts';

/** A body by its schema. @throws Refusal 422 with every problem by its field */
export function readBody<T extends z.ZodType>(call: PlatformCall, schema: T): z.output<T> {
  const result = schema.safeParse(call.body);
  if (result.success) return result.data;
  const fields: Record<string, string[]> = {};
  for (const issue of result.error.issues) {
    const field = issue.path.map(String).join('.') || 'body';
    const missing = issue.code === 'invalid_type' && valueAt(call.body, issue.path) === undefined;
    const problem = missing ? 'is required' : problemOf(issue);
    fields[field] = [...(fields[field] ?? []), `The ${field} ${problem}.`];
  }
  throw refused(fields);
}

function problemOf(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      return `must be of type ${issue.expected}`;
    case 'invalid_value':
      return `must be one of ${issue.values.map(String).join(', ')}`;
    case 'invalid_format':
      return issue.format === 'url' ? 'must be an http or https URL' : `must be a ${issue.format}`;
    case 'too_small':
      return `must have at least ${issue.minimum} ${unitOf(issue.origin)}`;
    case 'too_big':
      return `must not have more than ${issue.maximum} ${unitOf(issue.origin)}`;
    default:
      return issue.message;
  }
}

function unitOf(origin: string): string {
  return origin === 'string' ? 'characters' : 'entries';
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
