import { epochOf, hasSecret, numberOf, type State, secretNumber, sessionOf } from './state.ts';
import type { Variant } from './variants.ts';

/** Returns the promise that does not hold in a state; undefined if all do. */
export function brokenPromise(state: State, variant: Variant): string | undefined {
  if (state.broken !== '') return state.broken;
  return (
    brokenLog(state, variant) ?? brokenObjects(state) ?? brokenPurge(state) ?? brokenForget(state)
  );
}

function brokenLog(state: State, variant: Variant): string | undefined {
  const { db, acknowledged, failed, nodes } = state;
  const isThere = (id: string) => db.chain[numberOf(id) - 1] === id;
  const writers = new Map<string, string>();
  for (const [at, id] of db.chain.entries()) {
    if (numberOf(id) !== at + 1) return 'the chain has a gap';
    const writer = writers.get(epochOf(id)) ?? sessionOf(id);
    if (writer !== sessionOf(id)) return 'two sessions wrote in one epoch';
    writers.set(epochOf(id), writer);
  }
  const isLossy = variant.epochOnly === true;
  const lost = acknowledged.find((id) => !isThere(id));
  if (lost !== undefined && !isLossy) return `acknowledged and lost: ${lost}`;
  const undead = failed.find(isThere);
  const isExcused = isLossy || variant.rollOnDiskOnly === true;
  if (undead !== undefined && !isExcused) return `reported as failed, and there: ${undead}`;
  for (const node of nodes) {
    const isHolder = node.holds && node.epoch === db.epoch && node.session === db.holder;
    const isSame = node.chain.length === db.chain.length && node.chain.at(-1) === db.chain.at(-1);
    if (isHolder && node.waits === '' && !isSame && !isExcused) {
      return 'the holder believes in another log';
    }
  }
  return undefined;
}

function brokenObjects({ db, store, local }: State): string | undefined {
  // The head moves last: until then, what is stored is a beginning of the log to come.
  const log = db.phase === 'importing' && db.chain.length === 0 ? local : db.chain;
  const isPart = log !== db.chain;
  for (const [key, first, last] of db.covers) {
    const content = store.objects[key];
    if (content === undefined) return `a cover names an object that is not there: ${key}`;
    const [ids] = content.split('|');
    if (ids !== log.slice(first - 1, last).join(' ')) return `a cover names a wrong object: ${key}`;
  }
  if (db.snapshot !== '' && store.objects[db.snapshot] === undefined) {
    return `the snapshot is not there: ${db.snapshot}`;
  }
  for (let number = 1; number <= log.length; number += 1) {
    const covers = db.covers.filter(([, first, last]) => first <= number && number <= last);
    const times = covers.length + (db.tail.includes(number) ? 1 : 0);
    if (isPart && times === 0 && storedAfter(db, number))
      return `commit ${number} is stored out of order`;
    if (isPart && times === 0) break;
    if (times !== 1) return `commit ${number} is stored ${times} times`;
  }
  const isNamed = (key: string) =>
    key === db.snapshot || db.covers.some(([covering]) => covering === key);
  const leaked = Object.entries(db.objects).find(
    ([key, [found]]) => found === 'live' && !isNamed(key),
  );
  if (leaked !== undefined) return `in use by nothing, and never collected: ${leaked[0]}`;
  return undefined;
}

function storedAfter({ covers, tail }: State['db'], number: number): boolean {
  return tail.some((one) => one > number) || covers.some(([, first]) => first > number);
}

function brokenPurge({ db, store, nodes }: State): string | undefined {
  if (db.ended === 0) return undefined;
  const kept = Object.entries(store.objects).find(([, content]) => hasSecret(content));
  if (kept !== undefined) return `forgotten, and still in ${kept[0]}`;
  if (db.tail.includes(secretNumber(db.chain))) return 'forgotten, and still in the tail';
  const node = nodes.find(({ secret }) => secret);
  return node === undefined ? undefined : `forgotten, and still on the disk of ${node.session}`;
}

function brokenForget({ db }: State): string | undefined {
  const decided = db.chain.filter((id) => id.includes('.purge.')).length;
  if (decided > 1) return 'what was asked once is decided twice';
  if (typeof db.forget !== 'number') return undefined;
  if (decided === 0) return 'what was to be forgotten counts as decided, and no commit decides it';
  const isEnded = db.ended >= db.forget;
  return isEnded && db.ended < db.purges
    ? 'a request counts as ended, and the bytes are still somewhere'
    : undefined;
}
