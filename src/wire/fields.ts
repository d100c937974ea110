import { z } from 'zod';

/**
 * Field kinds of the wire. Answers are read leniently: a field that is missing or null takes its empty value,
 * a field nobody named is kept (`z.looseObject`), and only a field of the wrong type is an error. The *output*
 * of each schema is the full record, which is what a service must send.
 */

/** A text; missing or null is the empty text. */
export const text = z
  .string()
  .nullish()
  .transform((value) => value ?? '');

/** A text or null; missing is null. */
export const textOrNull = z
  .string()
  .nullish()
  .transform((value) => value ?? null);

/** A count of things or bytes, never negative; missing or null is 0. */
export const count = z
  .int()
  .min(0)
  .nullish()
  .transform((value) => value ?? 0);

/** Any finite number; missing or null is 0. */
export const quantity = z
  .number()
  .nullish()
  .transform((value) => value ?? 0);

/** A number or null; missing is null. */
export const quantityOrNull = z
  .number()
  .nullish()
  .transform((value) => value ?? null);

/** True or false; missing or null is false. */
export const flag = z
  .boolean()
  .nullish()
  .transform((value) => value ?? false);

/** A list; missing or null is the empty list. */
export function list<T extends z.ZodType>(item: T) {
  return z
    .array(item)
    .nullish()
    .transform((value) => value ?? []);
}

/** An IMAP uid: unique within a folder and generation. */
export const uid = z.int().min(1);
