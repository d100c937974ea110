import { z } from 'zod';
import { parseJson } from '../archive/format.ts';
import { terminalSafe } from '../core/terminal-safe.ts';
import { type Notices, printError } from './warnings.ts';

const errorShape = z.object({
  error: z.object({ code: z.string(), message: z.string(), hint: z.string().nullable() }),
});

/** Yields what a holder said in JSON that has a shape: it writes one object a line. */
export function* valuesIn<T>(said: readonly Buffer[], shape: z.ZodType<T>): Generator<T> {
  for (const line of Buffer.concat(said).toString('utf8').split('\n')) {
    const { success, data } = shape.safeParse(parseJson(line));
    if (success) yield data;
  }
}

/** Prints the errors that a holder said as if they were of here; returns whether there were any. */
export function printErrors(
  said: readonly Buffer[],
  stream: Notices['stream'],
  json: boolean,
): boolean {
  let isTold = false;
  for (const { error } of valuesIn(said, errorShape)) {
    const { code, message, hint } = error;
    const safe = {
      message: terminalSafe(message),
      hint: hint === null ? null : terminalSafe(hint),
    };
    printError(stream, json, { code: terminalSafe(code), ...safe });
    isTold = true;
  }
  return isTold;
}
