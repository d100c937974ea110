import type { Registry, Request, StoredObject } from './state.ts';
import type { Variant } from './variants.ts';

export type Of<To extends Request['to']> = Extract<Request, { to: To }>;
/** The registry after a transaction, or why it was refused. */
export type Result = Registry | 'fenced';

export const isHeld = (db: Registry, by: { session: string; epoch: number }, variant: Variant) =>
  variant.noFence === true ||
  (db.epoch === by.epoch && (variant.epochOnly === true || db.holder === by.session));

export function withObject(db: Registry, key: string, state: StoredObject[0]): Registry['objects'] {
  return { ...db.objects, [key]: [state, db.objects[key]?.[1] ?? db.purges] };
}

export const stateOf = (db: Registry, key: string) => db.objects[key]?.[0];
