import { type At, type Step, sent, spent, withDb, withNode } from './changes.ts';
import { dropped, type Node, type State } from './state.ts';
import { transactions } from './transactions.ts';
import { localContent } from './upload-steps.ts';
import type { Variant } from './variants.ts';

/** What an importer does apart from uploading, and what others do meanwhile. */
export function* importSteps(state: State, at: At, variant: Variant): Generator<Step> {
  if (state.local.length === 0) return;
  const node = state.nodes[at];
  if (node.importing !== undefined) yield* ownSteps(state, at, variant);
  else if (!node.holds && state.budget.imports > 0) yield* firstSteps(state, at, variant);
  if (at === 0) yield* otherSteps(state, variant);
}

function* firstSteps(state: State, at: At, variant: Variant): Generator<Step> {
  const { db, local, isForgotten } = state;
  const node = state.nodes[at];
  const { session } = node;
  // The nodes are alike, so the first one begins.
  const begun =
    db.epoch > 0 || at === 0 ? transactions.beginImport(db, session, local, variant) : 'fenced';
  const resumed = transactions.resumeImport(db, session);
  for (const [label, next, isResumed] of [
    ['beginImport', begun, false],
    ['resumeImport', resumed, true],
  ] as const) {
    if (next === 'fenced') continue;
    const importing = { isResumed, stored: 0, sends: '', isForgotten } as const;
    const importer = { ...node, epoch: next.epoch, importing };
    const after = withNode(withDb(spent(state, 'imports'), next, variant), at, importer);
    yield { label: `${label} by ${session}`, next: after };
  }
}

function* ownSteps(state: State, at: At, variant: Variant): Generator<Step> {
  const { db, budget } = state;
  const node = state.nodes[at];
  const { session, epoch, importing, job } = node;
  if (importing === undefined) return;
  if (budget.faults > 0) {
    const again = `${session[0]}${Number(session[1]) + 1}`;
    const next = withNode(spent(state, 'faults'), at, { ...dropped(node), session: again });
    yield { label: `${session} crashes`, next };
  }
  if (importing.isResumed) {
    const stored = keptBy(state, importing.isForgotten, variant);
    const trimmed = transactions.trimImport(db, node, stored, variant);
    const label = `trimImport by ${session}`;
    if (trimmed === 'fenced') {
      yield { label: `${label}: fenced`, next: withNode(state, at, dropped(node)) };
    } else {
      const ready: Node = { ...node, importing: { ...importing, isResumed: false, stored } };
      yield { label, next: withNode(withDb(state, trimmed, variant), at, ready) };
    }
    return;
  }
  if (job !== undefined || importing.sends !== '' || importing.stored === 0) return;
  const { local: log } = state;
  const { isForgotten } = importing;
  const request =
    importing.stored < log.length
      ? ({ to: 'tailImported', first: importing.stored + 1, session, epoch } as const)
      : ({ to: 'finishImport', log, isForgotten, session, epoch } as const);
  const sender: Node = { ...node, importing: { ...importing, sends: request.to } };
  yield {
    label: `${session} sends ${request.to}`,
    next: sent(withNode(state, at, sender), request),
  };
}

/** How far what an earlier import has left is what this one would upload. */
function keptBy({ db, store, local }: State, isForgotten: boolean, variant: Variant): number {
  let kept = 0;
  for (const [key, first, last] of db.covers) {
    const content = localContent(local, { kind: 'sealed', first, last }, isForgotten);
    if (store.objects[key] !== content && variant.keepUnlike !== true) break;
    kept = last;
  }
  return kept;
}

function* otherSteps(state: State, variant: Variant): Generator<Step> {
  const { db, budget, nodes } = state;
  if (budget.callOffs > 0) {
    const off = transactions.callOffImport(db, variant);
    const broken = db.chain.length > 0 ? 'what was imported was called off' : '';
    if (off !== 'fenced') {
      const next = withDb(spent(state, 'callOffs'), off, variant);
      yield { label: 'callOffImport', next: { ...next, broken } };
    }
  }
  if (budget.pauses > 0) {
    const paused = transactions.changeState(db, 'active', 'paused');
    if (paused !== 'fenced') {
      yield {
        label: 'changeState to paused',
        next: withDb(spent(state, 'pauses'), paused, variant),
      };
    }
  }
  const resumed = transactions.changeState(db, 'paused', 'active');
  if (resumed !== 'fenced') {
    yield { label: 'changeState to active', next: withDb(state, resumed, variant) };
  }
  // Whoever imports keeps others from writing to the local archive.
  const isLocked = nodes.some(({ importing }) => importing !== undefined);
  if (budget.localForgets > 0 && !isLocked) {
    const next = { ...spent(state, 'localForgets'), isForgotten: true };
    yield { label: 'the local archive forgets', next };
  }
}
