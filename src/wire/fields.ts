import { z } from 'zod';

/**
 * Field kinds of the wire. Answers are read leniently: a field that is missing or null takes its empty value,
 * a field nobody named is kept (`z.looseObject`), and only a field of the wrong type is an error. The *output*
 * of each schema is the full record, which is what a service must send.
 */

/** Returns a field that is `empty` where it is missing or null. */
export function orElse<T extends z.ZodType, E>(field: T, empty: E) {
  return field.nullish().transform((value) => value ?? empty);
}

/** A text; missing or null is the empty text. */
export const text = orElse(z.string(), '');

/** A text or null; missing is null. */
export const textOrNull = orElse(z.string(), null);

/** A count of things or bytes, never negative; missing or null is 0. */
export const count = orElse(z.int().min(0), 0);

/** Any finite number; missing or null is 0. */
export const quantity = orElse(z.number(), 0);

/** A number or null; missing is null. */
export const quantityOrNull = orElse(z.number(), null);

/** True or false; missing or null is false. */
export const flag = orElse(z.boolean(), false);

/** A list; missing or null is the empty list. */
export function list<T extends z.ZodType>(item: T) {
  return z
    .array(item)
    .nullish()
    .transform((value) => value ?? []);
}

/** An IMAP uid: unique within a folder and generation. */
export const uid = z.int().min(1);
