import { hash } from 'node:crypto';

/**
 * One archive of a fleet, two nodes, one object store, and every request that is on its way. A commit is a text of number,
 * segment, kind, session, epoch and attempt; of the kinds, `secret` has bytes that a `purge` removes later.
 */
export interface State {
  readonly db: Registry;
  readonly store: Store;
  readonly nodes: readonly [Node, Node];
  /** The log of an archive that is to be imported; empty where the fleet made the archive. */
  readonly local: readonly string[];
  /** The secret was removed from the local archive before it was imported. */
  readonly isForgotten: boolean;
  /** They arrive in any order, at any time, or never; whoever sent them may have ended since. */
  readonly requests: readonly Request[];
  /** Commits that were acknowledged, and those that were reported as failed. */
  readonly acknowledged: readonly string[];
  readonly failed: readonly string[];
  readonly budget: Budget;
  /** A promise that a step broke as it was made. */
  readonly broken: string;
  /** The registry before the last transaction, where a replica may lack it. */
  readonly replica: Registry | undefined;
}

export interface Registry {
  /** `none`: the account is not there, or an import of it was called off. */
  readonly phase: 'none' | 'importing' | 'active' | 'paused';
  readonly epoch: number;
  readonly holder: string;
  readonly hot: number;
  readonly chain: readonly string[];
  readonly tail: readonly number[];
  readonly covers: readonly Cover[];
  readonly snapshot: string;
  readonly objects: Readonly<Record<string, StoredObject>>;
  readonly purges: number;
  readonly ended: number;
  /** A request to forget the secret; once it is settled, the number of purges at whose end it has ended. */
  readonly forget: 'none' | 'asked' | number;
  /** The entry of each node; 0 for none. */
  readonly cache: readonly [number, number];
}

export type Cover = readonly [key: string, first: number, last: number];
export type StoredObject = readonly [
  state: 'uploading' | 'live' | 'condemned' | 'swept' | 'gone',
  purges: number,
];

export interface Store {
  readonly objects: Readonly<Record<string, string>>;
  /** Uploads that were aborted: they cannot be completed any more. */
  readonly aborted: readonly string[];
}

/** A node, and what its worker believes. */
export interface Node {
  readonly session: string;
  readonly holds: boolean;
  readonly epoch: number;
  readonly chain: readonly string[];
  readonly hot: number;
  readonly purges: number;
  /** It has read the request to forget, and did not settle it yet. */
  readonly isAsked: boolean;
  /** The disk has the secret bytes. */
  readonly secret: boolean;
  /** The commit whose answer is waited for. */
  readonly waits: string;
  /** A request to resolve it was sent, and has no answer. */
  readonly isResolving: boolean;
  readonly job: Job | undefined;
  readonly importing: Importing | undefined;
  /** Commits that failed: names are never used twice. */
  readonly attempts: number;
}

/** What an importer believes. */
export interface Importing {
  /** It has not compared yet what an earlier import has left. */
  readonly isResumed: boolean;
  /** Commits that are stored. */
  readonly stored: number;
  /** The request whose answer it waits for. */
  readonly sends: 'tailImported' | 'finishImport' | '';
  /** As the local archive is, which nobody writes meanwhile. */
  readonly isForgotten: boolean;
}

export interface Job {
  readonly kind: 'chunk' | 'sealed' | 'snapshot';
  readonly key: string;
  readonly content: string;
  readonly first: number;
  readonly last: number;
  readonly segment: number;
  readonly stage: 'register' | 'complete' | 'verify' | 'cover';
  readonly isSent: boolean;
}

export interface Budget {
  readonly claims: number;
  readonly commits: number;
  readonly uploads: number;
  readonly snapshots: number;
  readonly purges: number;
  /** Requests to forget the secret; with none, holders forget it by themselves. */
  readonly asks: number;
  /** Crashes, and answers that never come. */
  readonly faults: number;
  /** Importers that begin or continue; with none, the fleet has made the archive. */
  readonly imports: number;
  readonly callOffs: number;
  /** Pauses of the account. */
  readonly pauses: number;
  /** Forgets in the local archive. */
  readonly localForgets: number;
}

export interface Fence {
  readonly session: string;
  readonly epoch: number;
}

export type Request =
  | (Fence & {
      readonly to: 'commit' | 'decidePurge';
      readonly id: string;
      readonly parent: string;
      readonly isChecked?: true;
    })
  | (Fence & { readonly to: 'resolve' })
  | (Fence & { readonly to: 'register'; readonly key: string; readonly purges: number })
  | (Fence & {
      readonly to: 'coverChunk' | 'coverSegment';
      readonly key: string;
      readonly first: number;
      readonly last: number;
      readonly segment: number;
    })
  | (Fence & { readonly to: 'putSnapshot'; readonly key: string })
  | (Fence & {
      readonly to: 'coverImported';
      readonly key: string;
      readonly first: number;
      readonly last: number;
    })
  | (Fence & { readonly to: 'tailImported'; readonly first: number })
  | (Fence & {
      readonly to: 'finishImport';
      readonly log: readonly string[];
      readonly isForgotten: boolean;
    })
  | { readonly to: 'leaveCache'; readonly node: 0 | 1; readonly entry: number }
  | { readonly to: 'complete'; readonly key: string; readonly content: string }
  | { readonly to: 'remove'; readonly key: string };

const IDLE = {
  ...{ holds: false, epoch: 0, chain: [], hot: 1, purges: 0, job: undefined },
  ...{ importing: undefined, waits: '', isResolving: false, isAsked: false },
} as const;

/** A closed segment with the secret, and the open one. */
const LOCAL = ['1.1.secret.local.0.0', '2.2.mail.local.0.0'];

/** The state in which nothing has happened. */
export function initial(budget: Budget): State {
  const isImport = budget.imports > 0;
  const node = (session: string): Node => ({ ...IDLE, session, secret: false, attempts: 0 });
  return {
    db: {
      phase: isImport ? 'none' : 'active',
      ...{ epoch: 0, holder: '', hot: 1, chain: [], tail: [], covers: [], snapshot: '' },
      ...{ objects: {}, purges: 0, ended: 0, forget: 'none', cache: [0, 0] },
    },
    store: { objects: {}, aborted: [] },
    nodes: [node('a0'), node('b0')],
    local: isImport ? LOCAL : [],
    isForgotten: false,
    requests: [],
    acknowledged: [],
    failed: [],
    budget,
    broken: '',
    replica: undefined,
  };
}

/** A worker that gave up what it believed. What is on its disk stays there. */
export function dropped(node: Node): Node {
  return { ...node, ...IDLE };
}

const parsed = new Map<string, readonly string[]>();

function partsOf(id: string): readonly string[] {
  const known = parsed.get(id);
  if (known !== undefined) return known;
  const parts = id.split('.');
  parsed.set(id, parts);
  return parts;
}

export const numberOf = (id: string) => Number(partsOf(id)[0]);
export const segmentOf = (id: string) => Number(partsOf(id)[1]);
export const isSecret = (id: string | undefined) => id !== undefined && partsOf(id)[2] === 'secret';
export const sessionOf = (id: string) => partsOf(id)[3] ?? '';
export const epochOf = (id: string) => partsOf(id)[4] ?? '';
/** The number of the commit with the secret; 0 if there is none. */
export const secretNumber = (chain: readonly string[]) => chain.findIndex(isSecret) + 1;
export const hasSecret = (content: string | undefined) => content?.endsWith('SECRET') === true;

const entriesOf = (record: object) => Object.entries(record).map(String).sort();

/** Tells states apart by what can still have an effect; 128 bits of a hash. */
export function keyOf({ db, store, nodes, requests, ...rest }: State): string {
  const { objects, ...registry } = db;
  const text = JSON.stringify([
    ...[Object.values(registry), entriesOf(objects), entriesOf(store.objects), store.aborted],
    nodes.map((node) => [Object.values(node), node.job === undefined ? 0 : 1, node.importing ?? 0]),
    requests.map((request) => JSON.stringify(request)).sort(),
    ...[rest.acknowledged, rest.failed, Object.values(rest.budget), rest.broken],
    rest.isForgotten,
    rest.replica ?? 0,
  ]);
  return hash('md5', text, 'base64');
}
