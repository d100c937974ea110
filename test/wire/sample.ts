import { readFileSync } from 'node:fs';
import { z } from 'zod';

const sample = z.object({
  request: z.object({ method: z.string(), path: z.string(), body: z.unknown().optional() }),
  response: z.object({
    status: z.number(),
    contentType: z.string().optional(),
    bytes: z.string().optional(),
    body: z.unknown().optional(),
  }),
});
export type Sample = z.output<typeof sample>;

export function fixture(name: string): unknown {
  return JSON.parse(
    readFileSync(new URL(`../fixtures/wire/${name}.json`, import.meta.url), 'utf8'),
  );
}

/** The samples of a surface by operation. */
export function samples(surface: 'mailbox' | 'platform'): ReadonlyMap<string, Sample> {
  const read = z.record(z.string(), sample).parse(fixture(`${surface}-surface`));
  return new Map(Object.entries(read));
}
