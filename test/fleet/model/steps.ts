import {
  type Budget,
  type Content,
  type Database,
  type Folder,
  hasPurge,
  isPrefix,
  isSecret,
  type Job,
  mailOf,
  NO_FOLDER,
  type Node,
  type Request,
  type State,
} from './state.ts';
import { arrive, isFenced, setObject } from './transactions.ts';
import type { Variant } from './variants.ts';

export interface Step {
  readonly label: string;
  readonly next: State;
}

type At = 0 | 1;

/** Everything that can happen next. */
export function* steps(state: State, variant: Variant): Generator<Step> {
  for (const [at, request] of state.requests.entries()) {
    const requests = state.requests.toSpliced(at, 1);
    const { state: arrived, isDone } = arrive({ ...state, requests }, request, variant);
    const next = isDone === undefined ? arrived : answered(arrived, request, isDone);
    yield {
      label: `${request.to} ${request.key} arrives${isDone === false ? ': refused' : ''}`,
      next,
    };
  }
  for (const at of [0, 1] as const) {
    yield* leaseSteps(state, at, variant);
    if (state.nodes[at].holds) {
      yield* folderSteps(state, at, variant);
      yield* shipSteps(state, at, variant);
    } else yield* wipeSteps(state, at, variant);
  }
  yield* collectorSteps(state, variant);
  yield* databaseSteps(state, variant);
}

function withNode(state: State, at: At, change: Partial<Node>): State {
  const node = { ...state.nodes[at], ...change };
  return { ...state, nodes: at === 0 ? [node, state.nodes[1]] : [state.nodes[0], node] };
}

function withFolder(state: State, at: At, change: Partial<Folder>): State {
  return withNode(state, at, { folder: { ...state.nodes[at].folder, ...change } });
}

function spend(state: State, what: keyof Budget): State {
  return { ...state, budget: { ...state.budget, [what]: state.budget[what] - 1 } };
}

const SURRENDERED = { holds: false, job: undefined, unnamed: [] } as const;

/** The sender's next step after an answer, if it still waits for one. */
function answered(state: State, request: Request, isDone: boolean): State {
  if (request.to === 'remove') return state;
  const at = ([0, 1] as const).find((one) => state.nodes[one].session === request.session);
  if (at === undefined) return state;
  const { job } = state.nodes[at];
  if (job?.key !== request.key || job.stage !== request.to) return state;
  if (request.to === 'ship') return isDone ? shipped(state, at, job) : readRow(state, at);
  if (!isDone)
    return request.to === 'register' ? readRow(state, at) : withNode(state, at, { job: undefined });
  const stage = request.to === 'register' ? 'complete' : 'ship';
  return withNode(state, at, { job: { ...job, stage, isSent: false } });
}

function shipped(state: State, at: At, { key, content }: Pick<Job, 'key' | 'content'>): State {
  const next = withNode(state, at, { job: undefined, unnamed: [] });
  return withFolder(next, at, { base: key, baseLog: content.log });
}

/** After a refusal or a lost answer: the row says whether the lease holds, and which manifest is current. */
function readRow(state: State, at: At): State {
  const { db, bucket } = state;
  const { session, epoch, folder, job, unnamed } = state.nodes[at];
  if (db.epoch !== epoch || db.holder !== session) return withNode(state, at, SURRENDERED);
  const content = bucket.objects[db.manifest];
  if (db.manifest !== folder.base && content !== undefined) {
    return shipped(state, at, { key: db.manifest, content });
  }
  const isComplete = job?.stage === 'ship';
  const kept = isComplete && job !== undefined ? [...unnamed, job.key] : unnamed;
  return withNode(state, at, { job: undefined, unnamed: kept });
}

// Leases.

function* leaseSteps(state: State, at: At, variant: Variant): Generator<Step> {
  const { db, budget } = state;
  const node = state.nodes[at];
  const { session } = node;
  // A lease may run out at any moment, whatever its holder does.
  const isAllowed = !db.isRestored || variant.anyTimeline === true;
  if (!node.holds && budget.claims > 0 && isAllowed && (db.epoch > 0 || at === 0)) {
    yield { label: `${session} claims`, next: claimed(spend(state, 'claims'), at, variant) };
  }
  if (node.holds && (db.epoch !== node.epoch || db.holder !== session)) {
    yield {
      label: `${session} learns that it holds nothing`,
      next: withNode(state, at, SURRENDERED),
    };
  }
  if (node.holds && budget.faults > 0) {
    const name = `${session[0]}${Number(session[1]) + 1}`;
    const next = withNode(spend(state, 'faults'), at, { ...SURRENDERED, session: name });
    yield { label: `${session} crashes`, next };
  }
}

function claimed(state: State, at: At, variant: Variant): State {
  const { db, bucket } = state;
  const { session } = state.nodes[at];
  const epoch = db.epoch + 1;
  const folders: Database['folders'] = at === 0 ? [true, db.folders[1]] : [db.folders[0], true];
  const next = { ...state, db: { ...db, epoch, holder: session, folders } };
  const manifest = bucket.objects[db.manifest];
  if (db.manifest !== '' && manifest === undefined) {
    return { ...next, broken: 'the manifest is not there' };
  }
  const opened = opensFolder(state.nodes[at], db, manifest, bucket.objects, variant);
  const believes = { holds: true, epoch, purges: db.purges, job: undefined, unnamed: [] };
  return withNode(next, at, { ...opened, ...believes, sequence: manifest?.sequence ?? 0 });
}

/** Compares a node's folder with the manifest: continues it, completes it, or sets it aside and restores. */
function opensFolder(
  { folder, aside }: Node,
  db: Database,
  manifest: Content | undefined,
  objects: Readonly<Record<string, Content>>,
  variant: Variant,
): Pick<Node, 'folder' | 'aside'> {
  const log = manifest?.log ?? [];
  const base = { base: db.manifest, baseLog: log };
  // What has ended was carried out in every folder that was known, or the folder was wiped.
  const known = Math.max(folder.done, db.ended);
  if (isPrefix(log, folder.log) || (variant.anyFolder === true && folder.log.length > 0)) {
    return { folder: { ...folder, done: known, ...base }, aside };
  }
  const names = manifest?.names ?? [];
  const secret = names.some((name) => objects[name]?.secret === true);
  if (isPrefix(folder.log, log) && folder.log.length > 0) {
    const done = variant.trustFolder === true ? db.clean : known;
    return { folder: { log, secret: folder.secret || secret, done, ...base }, aside };
  }
  const set = [...(aside?.log ?? []), ...folder.log];
  return {
    folder: { log, secret, done: db.clean, ...base },
    aside:
      set.length === 0 ? undefined : { log: set, secret: folder.secret || aside?.secret === true },
  };
}

// What a holder does in its folder.

function* folderSteps(state: State, at: At, variant: Variant): Generator<Step> {
  const { db, budget, promised } = state;
  const node = state.nodes[at];
  const { session, epoch, folder, aside } = node;
  const commit = (mail: string) => `${mail}|${session}|${epoch}`;
  if (budget.commits > 0) {
    const isFirst = budget.forgets > 0 && ![...folder.log, ...(aside?.log ?? [])].some(isSecret);
    const mail = `${isFirst ? 's' : 'm'}${budget.commits}`;
    const log = [...folder.log, commit(mail)];
    const next = withFolder(spend(state, 'commits'), at, { log, secret: folder.secret || isFirst });
    yield { label: `${session} stores ${mail}`, next };
  }
  const isForgettable = budget.forgets > 0 && folder.log.some(isSecret);
  if (isForgettable && (isFenced(db, node, variant) || variant.acknowledgeFirst === true)) {
    const isLate = variant.acknowledgeFirst === true;
    const decided = isLate
      ? state
      : { ...state, db: { ...db, purges: 1 }, bucket: exported(state, variant) };
    const next = withNode(spend(decided, 'forgets'), at, { purges: 1 });
    const isForgetAcknowledged = true;
    yield {
      label: `${session} promises to forget`,
      next: { ...next, promised: { ...promised, isForgetAcknowledged } },
    };
  }
  if (node.purges > 0 && folder.done === 0) {
    if (!hasPurge(folder.log)) {
      const log = [...folder.log, commit('p')];
      const done = variant.doneAtCommit === true ? 1 : 0;
      yield { label: `${session} commits the forget`, next: withFolder(state, at, { log, done }) };
    } else {
      const next = withFolder(state, at, { secret: false, done: 1 });
      yield { label: `${session} removes the bytes`, next };
    }
  }
  if (aside !== undefined) yield merge(state, at, variant);
  if (mayEnd(state, at, variant)) {
    yield {
      label: `${session} ends the forget`,
      next: { ...state, db: { ...db, ended: 1 }, promised: { ...promised, hasForgetEnded: true } },
    };
  }
}

function exported({ bucket }: State, variant: Variant): State['bucket'] {
  return variant.forgetOnlyHere === true ? bucket : { ...bucket, exported: 1 };
}

/** Adds the mail of the folder that was set aside, without what was forgotten since, and wipes it. */
function merge(state: State, at: At, variant: Variant): Step {
  const { session, epoch, folder, aside, purges } = state.nodes[at];
  const isForgotten = (purges > 0 || hasPurge(folder.log)) && variant.mergeForgotten !== true;
  const there = new Set(folder.log.map(mailOf));
  const mails = new Set((aside?.log ?? []).map(mailOf));
  const added = [...mails].filter(
    (mail) => !there.has(mail) && mail !== 'p' && !(isForgotten && isSecret(mail)),
  );
  const log = [...folder.log, ...added.map((mail) => `${mail}|${session}|${epoch}`)];
  const secret = folder.secret || added.some(isSecret);
  const next = withNode(withFolder(state, at, { log, secret }), at, { aside: undefined });
  return { label: `${session} merges what it had`, next };
}

function mayEnd({ db, nodes }: State, at: At, variant: Variant): boolean {
  const { holds, aside } = nodes[at];
  if (!holds || db.purges === 0 || db.ended === 1 || db.clean === 0) return false;
  if (!isFenced(db, nodes[at], variant)) return false;
  if (aside !== undefined && variant.asideIsDone !== true) return false;
  const isWaiting = Object.values(db.objects).some(([is, purges]) => is !== 'live' && purges === 0);
  if (isWaiting && variant.endWithObjects !== true) return false;
  return variant.endWithFolders === true || !db.folders[at === 0 ? 1 : 0];
}

function* wipeSteps(state: State, at: At, variant: Variant): Generator<Step> {
  const { db, promised } = state;
  const { session, folder, aside } = state.nodes[at];
  if (db.holder === session || !db.folders[at] || db.isRestored) return;
  const isAhead = aside !== undefined || folder.log.length > folder.baseLog.length;
  if (isAhead && variant.wipeAhead !== true) return;
  const lost = folder.log.filter((commit) => !promised.shipped.includes(mailOf(commit)));
  const folders: Database['folders'] = at === 0 ? [false, db.folders[1]] : [db.folders[0], false];
  const next = withNode({ ...state, db: { ...db, folders } }, at, {
    folder: NO_FOLDER,
    aside: undefined,
  });
  const broken = lost.some((commit) => mailOf(commit) !== 'p') ? 'unshipped mail was wiped' : '';
  yield { label: `${session} wipes its folder`, next: { ...next, broken } };
}

// Shipping.

function* shipSteps(state: State, at: At, variant: Variant): Generator<Step> {
  const { budget, bucket } = state;
  const node = state.nodes[at];
  const { session, job } = node;
  if (job === undefined) {
    if (budget.uploads === 0) return;
    yield* uploads(state, at, variant);
  } else if (!job.isSent) {
    const next = withNode(state, at, { job: { ...job, isSent: true } });
    const requests = [...state.requests, requestOf(job, node)];
    yield { label: `${session} sends ${job.stage} ${job.key}`, next: { ...next, requests } };
  } else if (budget.faults > 0) {
    const label = `${session} has no answer to ${job.stage} ${job.key}`;
    const next = spend(state, 'faults');
    const isThere = bucket.objects[job.key] !== undefined || variant.assumeComplete === true;
    if (job.stage === 'ship') yield { label, next: readRow(next, at) };
    else if (job.stage === 'complete' && isThere) {
      yield { label, next: withNode(next, at, { job: { ...job, stage: 'ship', isSent: false } }) };
    } else yield { label, next: withNode(next, at, { job: undefined }) };
  }
}

function requestOf({ key, stage, content, previous }: Job, { session, epoch }: Node): Request {
  const sender = { key, session, epoch };
  if (stage === 'register') return { to: stage, ...sender, purges: content.clean };
  if (stage === 'complete') return { to: stage, ...sender, content };
  return { to: stage, ...sender, content, previous };
}

/** Starts to upload what is new, and names again what is still right. */
function* uploads(state: State, at: At, variant: Variant): Generator<Step> {
  const { budget, bucket } = state;
  const node = state.nodes[at];
  const { session, epoch, folder, unnamed } = node;
  const clean = folder.done;
  const base = bucket.objects[folder.base];
  const isNew = folder.log.length > folder.baseLog.length || clean > (base?.clean ?? 0);
  const known = [...(base?.names ?? []), ...unnamed].filter((name) => {
    const object = bucket.objects[name];
    if (object === undefined || !object.data.every((one) => folder.log.includes(one))) return false;
    // Marks contain which records were removed, so bytes from before have another one.
    return !(object.secret && object.data.some(isSecret) && folder.done > 0 && !folder.secret);
  });
  const kept = known.flatMap((name) => bucket.objects[name]?.data ?? []);
  const data = folder.log.filter((commit) => !kept.includes(commit));
  const before = base?.snapshot ?? '';
  const isKept = (bucket.objects[before]?.clean ?? 0) >= clean || variant.keepSnapshot === true;
  const carried = before !== '' && isKept ? before : '';
  const log = folder.log;
  const sequence = variant.sequenceOfBase === true ? (base?.sequence ?? 0) : node.sequence;
  for (const snapshot of budget.snapshots > 0 && log.length > 0 ? ['new', carried] : [carried]) {
    if (!isNew && snapshot !== 'new') continue;
    const name = `k${budget.uploads}`;
    const bytes = folder.secret && (snapshot === 'new' || data.some(isSecret));
    const text = `c${[log.length, data.length, clean, snapshot, bytes].join('.')}`;
    const key = variant.namesTwice === true ? text : name;
    const used = snapshot === 'new' ? key : snapshot;
    const names = [
      ...new Set([...known.filter((one) => one !== key), key, ...(used === '' ? [] : [used])]),
    ];
    const content: Content = {
      ...{ names, snapshot: used, log, data, secret: bytes },
      ...{ epoch, sequence: sequence + 1, clean, purges: node.purges },
    };
    const job: Job = { key, content, previous: folder.base, stage: 'register', isSent: false };
    const spent = spend(state, 'uploads');
    const next = snapshot === 'new' ? spend(spent, 'snapshots') : spent;
    yield {
      label: `${session} begins ${key}${snapshot === 'new' ? ' with a snapshot' : ''}`,
      next: withNode(next, at, { job, sequence: sequence + 1 }),
    };
  }
}

// The collector, and what happens to PostgreSQL.

function* collectorSteps(state: State, variant: Variant): Generator<Step> {
  const { db, bucket, budget, requests } = state;
  if (db.isRestored) return;
  const collected = (key: string): Step => {
    const isCalledOff = variant.namesTwice === true || bucket.aborted.includes(key);
    const aborted = isCalledOff ? bucket.aborted : [...bucket.aborted, key];
    const remove: Request = { to: 'remove', key };
    const next = { ...state, bucket: { ...bucket, aborted }, requests: [...requests, remove] };
    return { label: `${key} is collected`, next };
  };
  const isComing = (key: string) => requests.some((one) => one.to === 'remove' && one.key === key);
  if (variant.collectByListing === true) {
    const names = bucket.objects[db.manifest]?.names ?? [];
    for (const key of Object.keys(bucket.objects)) {
      if (!names.includes(key) && !isComing(key)) yield collected(key);
    }
    return;
  }
  for (const [key, [is, purges]] of Object.entries(db.objects)) {
    if (is === 'uploading' && budget.abandoned > 0) {
      const next = { ...state, db: setObject(db, key, ['condemned', purges]) };
      yield { label: `${key} is abandoned`, next: spend(next, 'abandoned') };
    }
    // An upload that a forget waits for is taken for abandoned as well.
    if (is === 'uploading' && purges < db.purges) {
      const next = { ...state, db: setObject(db, key, ['condemned', purges]) };
      yield { label: `${key} is condemned by a forget`, next };
    }
    if (is === 'condemned' && !isComing(key)) yield collected(key);
  }
}

function* databaseSteps(state: State, variant: Variant): Generator<Step> {
  const { db, budget, backup, requests } = state;
  if (budget.restores > 0 && backup === undefined && db.epoch > 0) {
    yield { label: 'a backup is made', next: { ...state, backup: db } };
  }
  if (budget.restores > 0 && backup !== undefined) {
    const next = { ...spend(state, 'restores'), db: { ...backup, isRestored: true } };
    yield { label: 'the backup is restored', next };
  }
  // Nobody of the old timeline starts a deletion, and those under way end within minutes.
  const isQuiet = requests.every(({ to }) => to !== 'remove') || variant.recoverAtOnce === true;
  if (db.isRestored && isQuiet) yield { label: 'recover', next: recovered(state, variant) };
}

function recovered(state: State, variant: Variant): State {
  const { db, bucket, requests, nodes } = state;
  const complete = Object.entries(bucket.objects)
    .filter(([, { names }]) => names.every((name) => bucket.objects[name] !== undefined))
    .sort(([, a], [, b]) => {
      if (variant.longestLog === true) return b.log.length - a.log.length;
      return b.epoch - a.epoch || b.sequence - a.sequence;
    });
  const [key, content] = complete[0] ?? ['', undefined];
  const highest = Math.max(db.epoch, ...complete.map(([, { epoch }]) => epoch));
  const rows = Object.entries(bucket.objects).map(
    ([name, { clean }]): [string, Database['objects'][string]] => [
      name,
      [content?.names.includes(name) === true ? 'live' : 'condemned', clean],
    ],
  );
  const underway = [
    ...requests.flatMap((request) => (request.to === 'complete' ? [request.key] : [])),
    ...nodes.flatMap(({ job }) => (job === undefined ? [] : [job.key])),
  ].filter((name) => bucket.objects[name] === undefined);
  const aborted =
    variant.keepUploads === true ? bucket.aborted : [...new Set([...bucket.aborted, ...underway])];
  const shipped = new Set([...state.promised.shipped, ...(content?.log ?? []).map(mailOf)]);
  return {
    ...state,
    bucket: { ...bucket, aborted },
    backup: undefined,
    promised: { ...state.promised, shipped: [...shipped] },
    db: {
      epoch: variant.epochOnly === true ? db.epoch : highest + 1,
      holder: '',
      manifest: key,
      clean: content?.clean ?? 0,
      purges: Math.max(db.purges, content?.purges ?? 0, bucket.exported),
      ended: Math.min(db.ended, content?.clean ?? 0),
      objects: Object.fromEntries(rows),
      folders: variant.knownFoldersOnly === true ? db.folders : [true, true],
      isRestored: false,
    },
  };
}
