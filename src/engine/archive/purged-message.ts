import type { Reader } from './reader.ts';

/** What is left of a message that was purged, if that is what an id, or the beginning of one, names. */
export function purgedMessage({ catalog }: Pick<Reader, 'catalog'>, typed: string) {
  if (catalog.messages.byPrefix(typed).match !== 'none') return undefined;
  const [purged, other] = catalog.messages.purgedByPrefix(typed);
  if (purged === undefined || other !== undefined) return undefined;
  const { id, reason, time } = purged;
  return { id, reason, time: time === null ? null : new Date(time).toISOString() };
}
