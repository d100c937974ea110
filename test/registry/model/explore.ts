import { brokenPromise } from './promises.ts';
import { type Budget, initial, keyOf, numberOf, type Request, type State } from './state.ts';
import { steps } from './steps.ts';
import type { Variant } from './variants.ts';

export interface Explored {
  readonly states: number;
  readonly steps: number;
  /** The promise that does not hold, and the steps to where it does not. */
  readonly broken: { readonly promise: string; readonly trace: readonly string[] } | undefined;
  /** What happened at all, by the name of the step: an exploration in which nothing happens shows nothing. */
  readonly happened: ReadonlySet<string>;
}

/**
 * Visits every state within bounds, nearest first, until a promise is broken.
 *
 * @param after steps that were made before, by how their labels begin
 */
export function explore(
  budget: Budget,
  variant: Variant = {},
  after: readonly string[] = [],
): Explored {
  const first = after.reduce((state, label) => {
    const step = [...steps(state, variant)].find((one) => one.label.startsWith(label));
    if (step === undefined) throw new Error(`no step begins with ${label}`);
    return step.next;
  }, initial(budget));
  const seen = new Set([keyOf(first)]);
  const parents = [-1];
  const labels = [''];
  const happened = new Set<string>();
  let count = 0;
  let frontier: (readonly [State, number])[] = [[first, 0]];
  while (frontier.length > 0) {
    const next: (readonly [State, number])[] = [];
    for (const [state, at] of frontier) {
      for (const step of steps(state, variant)) {
        count += 1;
        // Also where it leads to a state that is known.
        happened.add(kindOf(step.label));
        const promise = brokenPromise(step.next, variant);
        const reduced = withoutEffectless(step.next, variant);
        const key = keyOf(reduced);
        if (promise === undefined && seen.has(key)) continue;
        seen.add(key);
        parents.push(at);
        labels.push(step.label);
        if (promise !== undefined) {
          const trace: string[] = [];
          for (let x = parents.length - 1; x > 0; x = parents[x] ?? 0)
            trace.unshift(labels[x] ?? '');
          return { states: seen.size, steps: count, broken: { promise, trace }, happened };
        }
        next.push([reduced, parents.length - 1]);
      }
    }
    frontier = next;
  }
  return { states: seen.size, steps: count, broken: undefined, happened };
}

/** `coverSegment fenced` of a label such as `coverSegment sealed1 arrives: fenced`. */
function kindOf(label: string): string {
  const [name = ''] = label.split(' ');
  return label.endsWith('fenced') ? `${name} fenced` : name;
}

/** Leaves out what can have no effect any more, so that states that differ by nothing else are one. */
function withoutEffectless(state: State, variant: Variant): State {
  if (variant.lossyReplica === true) return state;
  const { db, store, nodes } = state;
  const isAwaited = (request: Request) =>
    nodes.some(({ waits, job, importing, session }) => {
      if ('id' in request) return waits === request.id;
      if ('key' in request) return job?.key === request.key;
      return 'session' in request && session === request.session && importing?.sends === request.to;
    });
  const isDead = (request: Request): boolean => {
    if (request.to === 'leaveCache') {
      return db.cache[request.node] !== request.entry && variant.anyEntryLeaves !== true;
    }
    if (request.to === 'complete') {
      return variant.singlePut !== true && store.aborted.includes(request.key);
    }
    if (request.to === 'remove') return false;
    const isHeld = db.epoch === request.epoch && db.holder === request.session;
    const isChecked = 'isChecked' in request;
    if (!isHeld && !isChecked && variant.noFence !== true) return true;
    return 'id' in request && numberOf(request.id) <= db.chain.length;
  };
  const requests = state.requests.filter((request) => isAwaited(request) || !isDead(request));
  // The chain only grows: what is in it stays, and what failed and is not on its way cannot come.
  const isThere = (id: string) => db.chain[numberOf(id) - 1] === id;
  const isComing = (id: string) => requests.some((request) => 'id' in request && request.id === id);
  return {
    ...state,
    requests,
    acknowledged: state.acknowledged.filter((id) => !isThere(id)),
    failed: state.failed.filter((id) => isThere(id) || isComing(id)),
  };
}
