import {
  type Content,
  type Database,
  isPrefix,
  mailOf,
  type ObjectRow,
  type Request,
  type State,
} from './state.ts';
import type { Variant } from './variants.ts';

type Of<To extends Request['to']> = Extract<Request, { to: To }>;

/** What a request leads to. `isDone` is its answer; undefined if it has none yet. */
export interface Arrived {
  readonly state: State;
  readonly isDone: boolean | undefined;
}

const refused = (state: State): Arrived => ({ state, isDone: false });
const done = (state: State): Arrived => ({ state, isDone: true });

export function isFenced(
  db: Database,
  { epoch, session }: { readonly epoch: number; readonly session: string },
  variant: Variant,
): boolean {
  if (variant.noFence === true) return true;
  if (db.isRestored && variant.anyTimeline !== true) return false;
  return db.epoch === epoch && (variant.epochOnly === true || db.holder === session);
}

export function setObject(db: Database, key: string, row: ObjectRow): Database {
  return { ...db, objects: { ...db.objects, [key]: row } };
}

export function arrive(state: State, request: Request, variant: Variant): Arrived {
  switch (request.to) {
    case 'register':
      return register(state, request, variant);
    case 'complete':
      return complete(state, request, variant);
    case 'ship':
      return ship(state, request, variant);
    case 'remove':
      return remove(state, request);
  }
}

function register(state: State, request: Of<'register'>, variant: Variant): Arrived {
  const { db } = state;
  const { key } = request;
  if (!isFenced(db, request, variant)) return refused(state);
  if (db.objects[key] !== undefined && variant.namesTwice !== true) return refused(state);
  const purges = variant.purgesAtRegistration === true ? db.purges : request.purges;
  return done({ ...state, db: setObject(db, key, ['uploading', purges]) });
}

/** Completes a multipart upload, or puts an object that nobody can call off. */
function complete(state: State, { key, content }: Of<'complete'>, variant: Variant): Arrived {
  const { bucket } = state;
  if (bucket.aborted.includes(key) && variant.singlePut !== true) return refused(state);
  const objects = { ...bucket.objects, [key]: content };
  return done({ ...state, bucket: { ...bucket, objects } });
}

function ship(state: State, request: Of<'ship'>, variant: Variant): Arrived {
  const { db, bucket } = state;
  const { key, content, previous } = request;
  if (request.isChecked !== true && !isFenced(db, request, variant)) return refused(state);
  if (variant.checkFirst === true && request.isChecked !== true) {
    const requests = [...state.requests, { ...request, isChecked: true as const }];
    return { state: { ...state, requests }, isDone: undefined };
  }
  if (db.manifest !== previous && variant.anyPrevious !== true) return refused(state);
  if (content.clean < db.clean && variant.anyPrevious !== true) return refused(state);
  const isUsable = (name: string) => {
    const row = db.objects[name]?.[0];
    return (
      row === 'live' || row === 'uploading' || (variant.anyState === true && row !== undefined)
    );
  };
  if (!content.names.every(isUsable)) return refused(state);
  const snapshot = db.objects[content.snapshot];
  if (snapshot !== undefined && snapshot[1] < content.clean && variant.keepSnapshot !== true) {
    return refused(state);
  }
  let next = db;
  for (const [name, [was, purges]] of Object.entries(db.objects)) {
    if (content.names.includes(name)) next = setObject(next, name, ['live', purges]);
    else if (was === 'live') next = setObject(next, name, ['condemned', purges]);
  }
  const shipped = new Set([...state.promised.shipped, ...content.log.map(mailOf)]);
  return done({
    ...state,
    db: { ...next, manifest: key, clean: content.clean },
    promised: { ...state.promised, shipped: [...shipped] },
    broken: wrongShip(state, request, bucket.objects[db.manifest]),
  });
}

function wrongShip(
  { db }: State,
  { epoch, session, content }: Of<'ship'>,
  before: Content | undefined,
): string {
  if (db.epoch !== epoch || db.holder !== session) return 'a session without the lease shipped';
  if (!isPrefix(before?.log ?? [], content.log)) return 'a manifest does not continue the log';
  return '';
}

function remove(state: State, { key }: Of<'remove'>): Arrived {
  const { db, bucket } = state;
  const { [key]: _, ...objects } = bucket.objects;
  const { [key]: row, ...rows } = db.objects;
  return done({
    ...state,
    bucket: { ...bucket, objects },
    db: row?.[0] === 'condemned' ? { ...db, objects: rows } : db,
  });
}
