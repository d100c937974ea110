import { type At, type Step, sent, spent, withDb, withNode } from './changes.ts';
import { importSteps } from './import-steps.ts';
import {
  dropped,
  hasSecret,
  isSecret,
  type Node,
  type Registry,
  type Request,
  type State,
  segmentOf,
} from './state.ts';
import { transactions } from './transactions.ts';
import { uploadSteps } from './upload-steps.ts';
import type { Variant } from './variants.ts';

/** Every step that can follow a state. */
export function* steps(state: State, variant: Variant): Generator<Step> {
  for (const [at, request] of state.requests.entries()) {
    const requests = state.requests.filter((_, other) => other !== at);
    yield arrival({ ...state, requests }, request, variant);
  }
  if (state.replica !== undefined) {
    const next = { ...state, db: state.replica, replica: undefined };
    yield { label: 'a failover takes back the last transaction', next };
  }
  for (const at of [0, 1] as const) {
    yield* workerSteps(state, at, variant);
    yield* uploadSteps(state, at, variant);
    yield* importSteps(state, at, variant);
  }
  yield* collectorSteps(state, variant);
  // Somebody has read the message, so it is in the log. The request may come again.
  const asked = state.budget.asks > 0 ? transactions.askForget(state.db) : 'fenced';
  if (asked !== 'fenced' && state.db.chain.some(isSecret)) {
    yield { label: 'askForget', next: withDb(spent(state, 'asks'), asked, variant) };
  }
}

/** A request comes to where it was sent, and its answer to whoever still waits for it. */
function arrival(state: State, request: Request, variant: Variant): Step {
  const label = `${request.to} ${subjectOf(request)} arrives`;
  if (request.to === 'complete') {
    const { key, content } = request;
    const isLate = variant.singlePut !== true && state.store.aborted.includes(key);
    const objects = isLate ? state.store.objects : { [key]: content, ...state.store.objects };
    const next = { ...state, store: { ...state.store, objects } };
    return { label, next: answered(next, request, !isLate, variant) };
  }
  if (request.to === 'remove') {
    const { [request.key]: _, ...objects } = state.store.objects;
    const isNamed =
      state.db.snapshot === request.key || state.db.covers.some(([key]) => key === request.key);
    const swept = transactions.sweep(state.db, request.key);
    const next = {
      ...state,
      db: swept === 'fenced' ? state.db : swept,
      store: { ...state.store, objects },
      broken: isNamed ? `an object in use was deleted: ${request.key}` : '',
    };
    return { label, next };
  }
  if (variant.checkFirst === true && request.to === 'commit' && request.isChecked !== true) {
    const isHeld = state.db.epoch === request.epoch && state.db.holder === request.session;
    const next = isHeld
      ? sent(state, { ...request, isChecked: true })
      : answered(state, request, false, variant);
    return { label: `the lease for ${label}`, next };
  }
  const result = applied(state.db, request, variant);
  if (result === 'fenced') {
    return { label: `${label}: fenced`, next: answered(state, request, false, variant) };
  }
  const isWrong =
    (request.to === 'commit' || request.to === 'decidePurge') &&
    (state.db.epoch !== request.epoch || state.db.holder !== request.session);
  const broken = isWrong ? 'a commit without the lease' : brokenBy(state, request);
  const next = { ...withDb(state, result, variant), broken };
  return { label, next: answered(next, request, true, variant) };
}

function subjectOf(request: Request): string | number {
  if ('key' in request) return request.key;
  if ('id' in request) return request.id;
  return 'entry' in request ? request.entry : request.epoch;
}

/** What was removed from the local archive before an import began must not come from an earlier one. */
function brokenBy({ db, store }: State, request: Request): string {
  if (request.to !== 'finishImport' || !request.isForgotten) return '';
  const kept = db.covers.find(([key]) => hasSecret(store.objects[key]));
  return kept === undefined ? '' : `forgotten before it was imported, and still in ${kept[0]}`;
}

function applied(
  db: Registry,
  request: Exclude<Request, { to: 'complete' | 'remove' }>,
  variant: Variant,
): Registry | 'fenced' {
  switch (request.to) {
    case 'commit':
      return transactions.commit(db, request, variant);
    case 'decidePurge':
      return transactions.decidePurge(db, request, variant);
    case 'resolve':
      return transactions.resolve(db, request, variant);
    case 'register':
      return transactions.register(db, request, variant);
    case 'coverChunk':
      return transactions.coverChunk(db, request, variant);
    case 'coverSegment':
      return transactions.coverSegment(db, request, variant);
    case 'coverImported':
      return transactions.coverImported(db, request, variant);
    case 'tailImported':
      return transactions.tailImported(db, request, variant);
    case 'finishImport':
      return transactions.finishImport(db, request, variant);
    case 'putSnapshot':
      return transactions.putSnapshot(db, request, variant);
    case 'leaveCache':
      return transactions.leaveCache(db, request, variant);
  }
}

function answered(state: State, request: Request, isDone: boolean, variant: Variant): State {
  if (request.to === 'tailImported' || request.to === 'finishImport') {
    return importAnswered(state, request, isDone);
  }
  // A request to resolve that is on its way has no answer: whoever sent it asks again.
  if (request.to === 'leaveCache' || request.to === 'resolve') return state;
  const at = state.nodes.findIndex((node) =>
    'id' in request ? node.waits === request.id : isWaitingFor(node, request),
  );
  const node = state.nodes[at];
  if (node === undefined) return state;
  if ('id' in request) {
    const settled = settle(state, at as At, isDone);
    return isDone ? settled : withNode(settled, at as At, dropped(settled.nodes[at as At]));
  }
  const { job } = node;
  if (job === undefined || !isDone) return withNode(state, at as At, { ...node, job: undefined });
  if (job.stage === 'cover') {
    // From here on, the local copy is the new file.
    const isClean = job.kind === 'sealed' && job.first === 1 && !job.content.endsWith('SECRET');
    const secret = node.secret && !isClean;
    const { importing } = node;
    const covered =
      importing === undefined ? {} : { importing: { ...importing, stored: job.last } };
    return withNode(state, at as At, { ...node, ...covered, secret, job: undefined });
  }
  const afterComplete = variant.notReadBack === true ? 'cover' : 'verify';
  const stage = job.stage === 'register' ? 'complete' : afterComplete;
  return withNode(state, at as At, { ...node, job: { ...job, stage, isSent: false } });
}

function isWaitingFor({ job, session }: Node, request: Request): boolean {
  if (job?.isSent !== true || !('key' in request) || job.key !== request.key) return false;
  if ('session' in request && request.session !== session) return false;
  const stages = { register: 'register', complete: 'complete', remove: 'verify' } as const;
  return job.stage === (request.to in stages ? stages[request.to as 'register'] : 'cover');
}

function importAnswered(
  state: State,
  request: Extract<Request, { to: 'tailImported' | 'finishImport' }>,
  isDone: boolean,
): State {
  const { to, session } = request;
  const at = state.nodes.findIndex(
    (node) => node.session === session && node.importing?.sends === to,
  );
  const node = state.nodes[at];
  if (node?.importing === undefined) return state;
  if (!isDone) return withNode(state, at as At, dropped(node));
  if (request.to === 'finishImport') {
    const next = withNode(state, at as At, dropped(node));
    return { ...next, acknowledged: [...state.acknowledged, ...request.log] };
  }
  const importing = { ...node.importing, stored: state.local.length, sends: '' } as const;
  return withNode(state, at as At, { ...node, importing });
}

/** A worker learns whether its commit happened. */
function settle(state: State, at: At, isDone: boolean): State {
  const node = state.nodes[at];
  const id = node.waits;
  const known = isDone
    ? {
        ...node,
        ...{ waits: '', isResolving: false },
        chain: [...node.chain, id],
        purges: node.purges + (id.includes('.purge.') ? 1 : 0),
      }
    : { ...node, waits: '', isResolving: false, attempts: node.attempts + 1 };
  const list = isDone ? 'acknowledged' : 'failed';
  return { ...withNode(state, at, known), [list]: [...state[list], id] };
}

function* workerSteps(state: State, at: At, variant: Variant): Generator<Step> {
  const { db, budget } = state;
  const node = state.nodes[at];
  const { session, epoch } = node;
  // A lease may be lost at any moment: no promise depends on a clock. The nodes are alike, so the first one begins.
  if (node.importing !== undefined) return;
  const claimed = budget.claims > 0 ? transactions.claim(db, at, session, variant) : 'fenced';
  if (!node.holds && claimed !== 'fenced' && (db.epoch > 0 || at === 0 || state.nodes[0].holds)) {
    const objects = [...db.covers.map(([key]) => key), db.snapshot];
    const secret =
      objects.some((key) => state.store.objects[key]?.endsWith('SECRET')) ||
      db.tail.some((number) => isSecret(db.chain[number - 1]));
    const { chain, hot, purges } = db;
    const holder = { ...node, holds: true, epoch: claimed.epoch, chain, hot, purges, secret };
    const next = withNode(withDb(spent(state, 'claims'), claimed, variant), at, holder);
    yield { label: `claim by ${session}`, next };
  }
  if (node.holds && budget.faults > 0) {
    const again = `${session[0]}${Number(session[1]) + 1}`;
    const next = withNode(spent(state, 'faults'), at, { ...dropped(node), session: again });
    yield { label: `${session} crashes`, next };
  }
  const entry = db.cache[at];
  const isLeaving = state.requests.some(
    (request) => request.to === 'leaveCache' && request.node === at && request.entry === entry,
  );
  if (db.purges > db.ended && db.holder !== session && entry > 0 && !isLeaving) {
    const wiped = withNode(state, at, { ...dropped(node), secret: false });
    yield { label: `${session} wipes`, next: sent(wiped, { to: 'leaveCache', node: at, entry }) };
  }
  if (!node.holds) return;
  if (node.waits !== '') {
    yield* resolveSteps(state, at, variant);
    return;
  }
  const isForgetting = budget.purges > 0;
  const isLeft = node.purges === 0 && node.chain.some(isSecret);
  const kinds: ('mail' | 'secret' | 'purge')[] = [];
  if (budget.commits > 0) kinds.push(isForgetting && node.chain.length === 0 ? 'secret' : 'mail');
  const mayForget = db.forget === 'none' ? budget.asks === 0 : node.isAsked;
  if (isForgetting && isLeft && mayForget) kinds.push('purge');
  yield* forgetSteps(state, at, isLeft, variant);
  for (const kind of kinds) {
    const number = node.chain.length + 1;
    const id = [number, node.hot, kind, session, epoch, node.attempts].join('.');
    const to = kind === 'purge' ? 'decidePurge' : 'commit';
    const parent = node.chain.at(-1) ?? '';
    const waiting = { ...node, waits: id, secret: node.secret || kind === 'secret' };
    const sender = withNode(spent(state, kind === 'purge' ? 'purges' : 'commits'), at, waiting);
    yield {
      label: `${session} sends ${id}`,
      next: sent(sender, { to, id, parent, session, epoch }),
    };
  }
  if (node.chain.some((id) => segmentOf(id) === node.hot)) {
    const label = `roll by ${session}`;
    const hot = node.hot + 1;
    const rolled = transactions.roll(db, node, variant);
    if (variant.rollOnDiskOnly === true) {
      yield { label, next: withNode(state, at, { ...node, hot }) };
    } else if (rolled === 'fenced') {
      yield { label: `${label}: fenced`, next: withNode(state, at, dropped(node)) };
    } else {
      yield { label, next: withNode(withDb(state, rolled, variant), at, { ...node, hot }) };
    }
  }
  if (node.purges > 0 && !node.secret) {
    const ended = transactions.endPurge(db, node, at, variant);
    if (ended !== 'fenced')
      yield { label: `endPurge by ${session}`, next: { ...state, db: ended } };
  }
}

/** A holder reads a request to forget, and settles it once nothing of that is left in the log as it knows it. */
function* forgetSteps(state: State, at: At, isLeft: boolean, variant: Variant): Generator<Step> {
  const { db } = state;
  const node = state.nodes[at];
  const { session } = node;
  if (!node.isAsked) {
    if (db.forget !== 'asked') return;
    const next = withNode(state, at, { ...node, isAsked: true });
    yield { label: `${session} reads what is to be forgotten`, next };
    return;
  }
  if (isLeft && variant.settleFirst !== true) return;
  const label = `settleForgets by ${session}`;
  const settled = transactions.settleForgets(db, node, variant);
  const known = { ...node, isAsked: false };
  if (settled !== 'fenced')
    yield { label, next: withNode(withDb(state, settled, variant), at, known) };
  else yield { label: `${label}: fenced`, next: withNode(state, at, dropped(node)) };
}

/** A worker has no answer to its commit. It asks until a request to resolve is accepted, or the archive is lost. */
function* resolveSteps(state: State, at: At, variant: Variant): Generator<Step> {
  const { db, budget } = state;
  const node = state.nodes[at];
  const { session, epoch, waits, isResolving } = node;
  if (budget.faults > 0) {
    const asked = withNode(spent(state, 'faults'), at, { ...node, isResolving: true });
    yield {
      label: `${session} asks to resolve ${waits}, without an answer`,
      next: sent(asked, { to: 'resolve', session, epoch }),
    };
  }
  if (budget.faults === 0 && !isResolving) return;
  const label = `resolve ${waits}`;
  const isThere = db.chain[node.chain.length] === waits;
  const settled = settle(isResolving ? state : spent(state, 'faults'), at, isThere);
  const resolved = transactions.resolve(db, node, variant);
  if (resolved !== 'fenced') {
    const next = { ...settled, db: resolved };
    yield { label, next: withNode(next, at, { ...next.nodes[at], epoch: resolved.epoch }) };
  } else if (isResolving && db.holder === session && db.epoch > epoch) {
    // A later epoch of the same session is that of an earlier request, and is resolved in turn.
    yield { label: `found ${label}`, next: withNode(state, at, { ...node, epoch: db.epoch }) };
  } else {
    const next = withNode(settled, at, dropped(settled.nodes[at]));
    yield { label: `${label}: fenced`, next };
  }
  if (variant.lookAfterResolve === true && isResolving && db.holder === session) {
    const next = withNode(settled, at, { ...settled.nodes[at], epoch: db.epoch });
    yield { label: `${session} looks for ${waits}`, next };
  }
}

/** A collector may take for garbage what somebody is uploading: that has to be harmless. */
function* collectorSteps(state: State, variant: Variant): Generator<Step> {
  const { db, store, requests } = state;
  const isLeaving = (key: string) =>
    requests.some((request) => request.to === 'remove' && request.key === key);
  const collected = (key: string): Step => {
    const isKnown = store.aborted.includes(key) || variant.namedByContent === true;
    const aborted = isKnown ? store.aborted : [...store.aborted, key].toSorted();
    const next = sent({ ...state, store: { ...store, aborted } }, { to: 'remove', key });
    return { label: `${key} is aborted and deleted`, next };
  };
  if (variant.collectByListing === true) {
    const isNamed = (key: string) =>
      db.snapshot === key || db.covers.some(([covering]) => covering === key);
    for (const key of Object.keys(store.objects)) {
      if (!isNamed(key) && !isLeaving(key)) yield collected(key);
    }
    return;
  }
  for (const [key, [found]] of Object.entries(db.objects)) {
    if (found === 'condemned' && !isLeaving(key)) yield collected(key);
    const condemned = transactions.condemn(db, key);
    if (condemned !== 'fenced')
      yield { label: `condemn ${key}`, next: { ...state, db: condemned } };
    const gone = transactions.markGone(db, key);
    if (gone === 'fenced') continue;
    // It is looked for again: what came back is deleted once more.
    if (store.objects[key] === undefined) {
      yield { label: `markGone ${key}`, next: { ...state, db: gone } };
    } else if (!isLeaving(key)) yield collected(key);
  }
}
