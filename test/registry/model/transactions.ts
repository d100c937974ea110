import type { TRANSACTIONS } from '../../../src/registry/transactions.ts';
import { importTransactions } from './import-transactions.ts';
import { isHeld, type Of, type Result, stateOf, withObject } from './registry-rows.ts';
import {
  type Cover,
  type Fence,
  type Node,
  numberOf,
  type Registry,
  secretNumber,
  segmentOf,
} from './state.ts';
import type { Variant } from './variants.ts';

/**
 * The transactions of the registry, by the names of the functions in `src/registry/`. Each is one step: what PostgreSQL does
 * inside is for the tests against PostgreSQL.
 */
export const transactions = {
  ...importTransactions,

  claim(db: Registry, node: 0 | 1, session: string, variant: Variant): Result {
    const isFree =
      db.phase === 'active' || (db.phase === 'importing' && variant.claimImporting === true);
    if (!isFree) return 'fenced';
    const epoch = db.epoch + 1;
    // The epoch of the claim is as good as a random entry: it is never given out again.
    const cache: [number, number] = [...db.cache];
    cache[node] = epoch;
    return { ...db, epoch, holder: session, cache };
  },

  commit(db: Registry, request: Of<'commit' | 'decidePurge'>, variant: Variant): Result {
    if (request.isChecked !== true && !isHeld(db, request, variant)) return 'fenced';
    if ((db.chain.at(-1) ?? '') !== request.parent) return 'fenced';
    const segment = segmentOf(request.id);
    if (variant.rollOnDiskOnly !== true && segment !== db.hot) return 'fenced';
    return {
      ...db,
      chain: [...db.chain, request.id],
      tail: [...db.tail, numberOf(request.id)],
      hot: variant.rollOnDiskOnly === true ? Math.max(db.hot, segment) : db.hot,
    };
  },

  decidePurge(db: Registry, request: Of<'commit' | 'decidePurge'>, variant: Variant): Result {
    const moved = transactions.commit(db, request, variant);
    if (moved === 'fenced') return moved;
    const objects = Object.entries(moved.objects).map(([key, [state, purges]]) => {
      const isOld =
        state === 'uploading' || (key === moved.snapshot && variant.keepSnapshot !== true);
      // What the variants leave out has to show without this help.
      const isCondemned = isOld && variant.endEarly !== true;
      return [key, [isCondemned ? 'condemned' : state, purges] as const] as const;
    });
    return {
      ...moved,
      purges: moved.purges + 1,
      snapshot: variant.keepSnapshot === true ? moved.snapshot : '',
      objects: Object.fromEntries(objects),
    };
  },

  changeState(db: Registry, from: Registry['phase'], to: Registry['phase']): Result {
    return db.phase === from ? { ...db, phase: to } : 'fenced';
  },

  resolve(db: Registry, by: Fence, variant: Variant): Result {
    if (db.epoch !== by.epoch || db.holder !== by.session) return 'fenced';
    return variant.resolveByReading === true ? db : { ...db, epoch: db.epoch + 1 };
  },

  roll(db: Registry, node: Node, variant: Variant): Result {
    if (!isHeld(db, node, variant) || db.hot !== node.hot) return 'fenced';
    if (db.chain.at(-1) !== node.chain.at(-1)) return 'fenced';
    return { ...db, hot: db.hot + 1 };
  },

  register(db: Registry, request: Of<'register'>, variant: Variant): Result {
    if (!isHeld(db, request, variant)) return 'fenced';
    if (variant.noPurgeCount !== true && request.purges !== db.purges) return 'fenced';
    const known = stateOf(db, request.key);
    if (variant.namedByContent === true && known !== undefined && known !== 'gone') return db;
    if (variant.namedByContent !== true && known !== undefined) return 'fenced';
    return { ...db, objects: { ...db.objects, [request.key]: ['uploading', db.purges] } };
  },

  coverChunk(db: Registry, request: Of<'coverChunk' | 'coverSegment'>, variant: Variant): Result {
    const secret = secretNumber(db.chain);
    const isPurged = db.purges > 0 && request.first <= secret && secret <= request.last;
    if (isPurged) return 'fenced';
    return cover(db, request, variant);
  },

  coverSegment(db: Registry, request: Of<'coverChunk' | 'coverSegment'>, variant: Variant): Result {
    const isOpen = variant.rollOnDiskOnly !== true && db.hot <= request.segment;
    return isOpen ? 'fenced' : cover(db, request, variant);
  },

  putSnapshot(db: Registry, { key, ...by }: Of<'putSnapshot'>, variant: Variant): Result {
    if (!isHeld(db, by, variant)) return 'fenced';
    if (variant.anyStateGoesLive !== true && stateOf(db, key) !== 'uploading') return 'fenced';
    const replaced =
      db.snapshot === '' ? db : { ...db, objects: withObject(db, db.snapshot, 'condemned') };
    return { ...replaced, snapshot: key, objects: withObject(replaced, key, 'live') };
  },

  endPurge(db: Registry, node: Node, at: 0 | 1, variant: Variant): Result {
    if (!isHeld(db, node, variant) || db.purges === db.ended) return 'fenced';
    const secret = secretNumber(db.chain);
    const isOld = (key: string) => (db.objects[key]?.[1] ?? 0) < db.purges;
    const isCovered = db.covers.some(
      ([key, first, last]) => first <= secret && secret <= last && isOld(key),
    );
    const isSnapshot = db.snapshot !== '' && isOld(db.snapshot) && variant.keepSnapshot !== true;
    const isWaiting = Object.entries(db.objects).some(
      ([key, [state]]) => isOld(key) && ['uploading', 'condemned', 'swept'].includes(state),
    );
    const isCached = db.cache[1 - at] !== 0;
    const isSomewhere =
      db.tail.includes(secret) ||
      isCovered ||
      isSnapshot ||
      (isWaiting && variant.endEarly !== true) ||
      (isCached && variant.noCaches !== true);
    return isSomewhere ? 'fenced' : { ...db, ended: db.purges };
  },

  askForget(db: Registry): Result {
    return db.phase === 'active' ? { ...db, forget: 'asked' } : 'fenced';
  },

  settleForgets(db: Registry, node: Node, variant: Variant): Result {
    if (variant.settleUnfenced !== true && !isHeld(db, node, variant)) return 'fenced';
    if (db.forget !== 'asked') return 'fenced';
    return { ...db, forget: variant.settleByKnown === true ? 0 : db.purges };
  },

  leaveCache(db: Registry, { node, entry }: Of<'leaveCache'>, variant: Variant): Result {
    if (db.cache[node] !== entry && variant.anyEntryLeaves !== true) return 'fenced';
    const cache: [number, number] = [...db.cache];
    cache[node] = 0;
    return { ...db, cache };
  },

  condemn(db: Registry, key: string): Result {
    if (stateOf(db, key) !== 'uploading') return 'fenced';
    return { ...db, objects: withObject(db, key, 'condemned') };
  },

  sweep(db: Registry, key: string): Result {
    if (stateOf(db, key) !== 'condemned') return 'fenced';
    return { ...db, objects: withObject(db, key, 'swept') };
  },

  markGone(db: Registry, key: string): Result {
    if (stateOf(db, key) !== 'swept') return 'fenced';
    return { ...db, objects: withObject(db, key, 'gone') };
  },
} satisfies Partial<Record<keyof typeof TRANSACTIONS, unknown>>;

function cover(
  db: Registry,
  { key, first, last, segment, ...by }: Of<'coverChunk' | 'coverSegment'>,
  variant: Variant,
): Result {
  if (!isHeld(db, by, variant)) return 'fenced';
  if (variant.anyStateGoesLive !== true && stateOf(db, key) !== 'uploading') {
    const isShared = variant.namedByContent === true && stateOf(db, key) === 'live';
    if (!isShared) return 'fenced';
  }
  const within = db.covers.filter(([, from, to]) => from <= last && to >= first);
  const rows = db.tail.filter((number) => number >= first && number <= last).length;
  const count = within.reduce((sum, [, from, to]) => sum + to - from + 1, rows);
  const isExact =
    count === last - first + 1 && within.every(([, from, to]) => from >= first && to <= last);
  if (!isExact && variant.rollOnDiskOnly !== true) return 'fenced';
  const isCovered = (number: number) =>
    variant.rollOnDiskOnly === true
      ? segmentOf(db.chain[number - 1] ?? '') === segment
      : number >= first && number <= last;
  let objects = db.objects;
  for (const [old] of within) {
    if (old !== key) objects = withObject({ ...db, objects }, old, 'condemned');
  }
  const left = db.covers.filter((one) => !within.includes(one));
  const covers: readonly Cover[] = [...left, [key, first, last] as const].toSorted(
    (a, b) => a[1] - b[1],
  );
  return {
    ...db,
    covers,
    tail: db.tail.filter((number) => !isCovered(number)),
    objects: withObject({ ...db, objects }, key, 'live'),
  };
}
