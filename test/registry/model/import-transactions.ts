import { isHeld, type Of, type Result, stateOf, withObject } from './registry-rows.ts';
import type { Cover, Fence, Registry } from './state.ts';
import type { Variant } from './variants.ts';

/** Commits that an import has stored: each step comes after what is there. */
function storedBy({ covers, tail }: Registry): number {
  return Math.max(0, ...tail, ...covers.map(([, , last]) => last));
}

const isImporting = (db: Registry, by: Fence, variant: Variant) =>
  db.phase === 'importing' && isHeld(db, by, variant);

/** Condemns what nobody will finish, and what is used no more. */
function condemned(db: Registry, used: (key: string) => boolean): Registry['objects'] {
  return Object.entries(db.objects).reduce((objects, [key, [state]]) => {
    const isOver = state === 'uploading' || (state === 'live' && !used(key));
    return isOver ? withObject({ ...db, objects }, key, 'condemned') : objects;
  }, db.objects);
}

/** What an import does. An account that is imported again, after it was called off, is another one: so its epoch is higher. */
export const importTransactions = {
  beginImport(db: Registry, session: string, local: readonly string[], variant: Variant): Result {
    if (db.phase !== 'none') return 'fenced';
    const moved = variant.headFirst === true ? { chain: local, hot: 2 } : {};
    return { ...db, ...moved, phase: 'importing', epoch: db.epoch + 1, holder: session };
  },

  resumeImport(db: Registry, session: string): Result {
    if (db.phase !== 'importing') return 'fenced';
    return { ...db, epoch: db.epoch + 1, holder: session };
  },

  trimImport(db: Registry, by: Fence, last: number, variant: Variant): Result {
    if (!isImporting(db, by, variant)) return 'fenced';
    const covers = db.covers.filter(([, , to]) => to <= last);
    const tail = db.tail.filter((number) => number <= last);
    const objects = condemned(db, (key) => covers.some(([covering]) => covering === key));
    return { ...db, covers, tail, objects };
  },

  coverImported(db: Registry, request: Of<'coverImported'>, variant: Variant): Result {
    const { key, first, last } = request;
    if (!isImporting(db, request, variant)) return 'fenced';
    if (variant.anyStateGoesLive !== true && stateOf(db, key) !== 'uploading') return 'fenced';
    if (first !== storedBy(db) + 1) return 'fenced';
    const covers: readonly Cover[] = [...db.covers, [key, first, last]];
    return { ...db, covers, objects: withObject(db, key, 'live') };
  },

  tailImported(db: Registry, request: Of<'tailImported'>, variant: Variant): Result {
    if (!isImporting(db, request, variant)) return 'fenced';
    const { first } = request;
    if (variant.tailAnywhere !== true && first !== storedBy(db) + 1) return 'fenced';
    return { ...db, tail: [...db.tail, first] };
  },

  finishImport(db: Registry, request: Of<'finishImport'>, variant: Variant): Result {
    const { log } = request;
    if (!isImporting(db, request, variant)) return 'fenced';
    const isAll = storedBy(db) === log.length || variant.finishUncounted === true;
    if (!isAll) return 'fenced';
    const named = (key: string) => db.covers.some(([covering]) => covering === key);
    const objects = condemned(db, named);
    return { ...db, chain: log, hot: 2, phase: 'active', holder: '', objects };
  },

  callOffImport(db: Registry, variant: Variant): Result {
    if (db.phase !== 'importing' && variant.callOffAnything !== true) return 'fenced';
    const objects = variant.callOffRowsOnly === true ? db.objects : condemned(db, () => false);
    const empty = { chain: [], hot: 1, covers: [], tail: [] };
    return { ...db, ...empty, objects, phase: 'none', holder: '' };
  },
};
