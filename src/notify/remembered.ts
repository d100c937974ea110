import { z } from 'zod';
import { ERROR_FAMILIES } from '../errors/mailkeep-error.ts';
import { SUBJECT_KINDS } from './observation.ts';
import { NOTHING_TOLD, type Told } from './plan.ts';

const family = z.enum(ERROR_FAMILIES);
const told = z.object({
  troubles: z.record(
    z.string(),
    z.object({
      subject: z.object({
        kind: z.enum(SUBJECT_KINDS),
        name: z.string(),
        id: z.string().optional(),
      }),
      failure: z.object({ family, code: z.string(), message: z.string() }),
      since: z.number(),
      seenAt: z.number(),
      wellSince: z.number().nullable(),
      toldAt: z.number().nullable(),
      flapping: z.boolean(),
    }),
  ),
  triedAt: z.number().nullable(),
});

/** Reads back what a channel was told; nothing where it is not that: at worst something is told twice. */
export function toldIn(value: unknown): Told {
  return told.safeParse(value).data ?? NOTHING_TOLD;
}
