import cron from 'node-cron';
import { z } from 'zod';
import { DURATION_PATTERN } from './duration.ts';

/**
 * The one source of the configuration: validation, defaults and the JSON Schema of editors are derived
 * from it. `expected` in the metadata is what an error names as the expected value of the field.
 */
declare module 'zod' {
  interface GlobalMeta {
    expected?: string;
  }
}

/** Cron with five fields, or six with seconds first; node-cron also takes `@daily`, which we do not promise. */
export function isCron(text: string): boolean {
  const fields = text.trim().split(/\s+/).length;
  return (fields === 5 || fields === 6) && cron.validate(text);
}

export function checked(description: string, expected: string, test: (text: string) => boolean) {
  return z.string().refine(test, { error: expected }).meta({ description, expected });
}

export const duration = (description: string) =>
  z
    .string()
    .regex(DURATION_PATTERN)
    .meta({ description, expected: 'a duration such as 90s, 15m, 26h or 7d' });

export const cronField = (description: string) =>
  checked(description, 'a cron expression of 5 fields, or 6 with seconds', isCron);

/** A section of the file, with all its fields named in errors. */
export function section<Shape extends z.core.$ZodLooseShape>(shape: Shape) {
  const names = Object.keys(shape);
  const last = names.pop() ?? '';
  const listed = names.length > 0 ? `${names.join(', ')} and ${last}` : last;
  return z.strictObject(shape).meta({ expected: `an object with ${listed}` });
}

export const wholeNumber = (from: number, to: number, description: string) =>
  z
    .int()
    .min(from)
    .max(to)
    .meta({ description, expected: `a whole number from ${from} to ${to}` });

export const offUnlessSet = (description: string) =>
  z.boolean().default(false).meta({ description, expected: 'true or false' });

const variableName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/)
  .meta({ expected: 'the name of an environment variable' });

/** A secret that stands outside the file: where it is read from. */
export const ELSEWHERE = [
  z.strictObject({ env: variableName }),
  z.strictObject({ file: z.string().min(1) }),
  z.strictObject({ credential: z.string().regex(/^[A-Za-z0-9_.-]+$/) }),
] as const;
