import type { Variant } from './variants.ts';

/**
 * One shard, two nodes, one bucket, and every request that is on its way. A commit is a text of mail, session and
 * epoch. The mail that begins with `s` has bytes that a forget removes; the commit of the forget is named `p`.
 *
 * One object stands for all that a ship uploads: its manifest, the commits that are new, and perhaps a snapshot.
 */
export interface State {
  readonly db: Database;
  readonly bucket: Bucket;
  readonly nodes: readonly [Node, Node];
  /** They arrive in any order, at any time, or never. Their senders may have ended since. */
  readonly requests: readonly Request[];
  /** A backup of PostgreSQL. */
  readonly backup: Database | undefined;
  readonly promised: Promised;
  readonly budget: Budget;
  /** A promise that the step to this state broke. */
  readonly broken: string;
}

export interface Database {
  readonly epoch: number;
  /** A session, or empty. */
  readonly holder: string;
  /** Key of the current manifest, or empty. */
  readonly manifest: string;
  /** Purges that the manifest is clean of, were decided, and have ended. */
  readonly clean: number;
  readonly purges: number;
  readonly ended: number;
  readonly objects: Readonly<Record<string, ObjectRow>>;
  /** Nodes whose disk may have bytes of the shard. */
  readonly folders: readonly [boolean, boolean];
  /** The timeline of PostgreSQL is not the one in the row of the fleet. */
  readonly isRestored: boolean;
}

export type ObjectRow = readonly [state: 'uploading' | 'live' | 'condemned', purges: number];

export interface Bucket {
  readonly objects: Readonly<Record<string, Content>>;
  /** Uploads that cannot be completed any more. */
  readonly aborted: readonly string[];
  /** Purges in the exported registry. */
  readonly exported: number;
}

export interface Content {
  /** All objects that the manifest needs, itself included. */
  readonly names: readonly string[];
  /** The object with the catalog's snapshot, or empty. */
  readonly snapshot: string;
  /** The shard's log as of this manifest. */
  readonly log: readonly string[];
  /** Commits whose bytes are in this object. */
  readonly data: readonly string[];
  /** The object contains the bytes of the secret, in its data or its snapshot. */
  readonly secret: boolean;
  readonly epoch: number;
  readonly sequence: number;
  /** Purges that its bytes are clean of, and that its writer knew. */
  readonly clean: number;
  readonly purges: number;
}

export interface Node {
  readonly session: string;
  /** It believes to hold the shard. */
  readonly holds: boolean;
  readonly epoch: number;
  readonly purges: number;
  readonly folder: Folder;
  /** A folder that ran ahead of a chain that it is not part of. */
  readonly aside: Pick<Folder, 'log' | 'secret'> | undefined;
  readonly job: Job | undefined;
  /** Complete uploads that no accepted manifest names yet. */
  readonly unnamed: readonly string[];
  readonly sequence: number;
}

export interface Folder {
  readonly log: readonly string[];
  /** The disk has the bytes of the secret. */
  readonly secret: boolean;
  /** Purges that were carried out in it. */
  readonly done: number;
  /** The last manifest that is known to be shipped, and its log. */
  readonly base: string;
  readonly baseLog: readonly string[];
}

export interface Job {
  readonly key: string;
  readonly content: Content;
  readonly previous: string;
  readonly stage: 'register' | 'complete' | 'ship';
  readonly isSent: boolean;
}

interface Sender {
  readonly key: string;
  readonly epoch: number;
  readonly session: string;
}
export type Request =
  | (Sender & { readonly to: 'register'; readonly purges: number })
  | (Sender & { readonly to: 'complete'; readonly content: Content })
  | (Sender & {
      readonly to: 'ship';
      readonly previous: string;
      readonly content: Content;
      readonly isChecked?: true;
    })
  | { readonly to: 'remove'; readonly key: string };

/** What was promised to others, which has to be true for good. */
export interface Promised {
  /** Mail of accepted manifests. */
  readonly shipped: readonly string[];
  readonly isForgetAcknowledged: boolean;
  readonly hasForgetEnded: boolean;
}

export interface Budget {
  readonly claims: number;
  readonly commits: number;
  readonly uploads: number;
  /** Crashes, and answers that never come. */
  readonly faults: number;
  readonly forgets: number;
  readonly snapshots: number;
  /** Uploads that a collector takes for abandoned. */
  readonly abandoned: number;
  /** Backups of PostgreSQL that are restored. */
  readonly restores: number;
}

const EMPTY: Folder = { log: [], secret: false, done: 0, base: '', baseLog: [] };
export const NO_FOLDER = EMPTY;

function newNode(name: string): Node {
  const session = `${name}0`;
  const nothing = { aside: undefined, job: undefined, unnamed: [], sequence: 0 };
  return { session, holds: false, epoch: 0, purges: 0, folder: EMPTY, ...nothing };
}

export function initial(budget: Budget): State {
  return {
    db: {
      ...{ epoch: 0, holder: '', manifest: '', clean: 0, purges: 0, ended: 0 },
      ...{ objects: {}, folders: [false, false], isRestored: false },
    },
    bucket: { objects: {}, aborted: [], exported: 0 },
    nodes: [newNode('a'), newNode('b')],
    requests: [],
    backup: undefined,
    promised: { shipped: [], isForgetAcknowledged: false, hasForgetEnded: false },
    budget,
    broken: '',
  };
}

export function mailOf(commit: string): string {
  return commit.slice(0, commit.indexOf('|'));
}

export function isSecret(commit: string): boolean {
  return commit.startsWith('s');
}

export function hasPurge(log: readonly string[]): boolean {
  return log.some((commit) => commit.startsWith('p'));
}

export function isPrefix(part: readonly string[], log: readonly string[]): boolean {
  return part.length <= log.length && part.every((commit, at) => log[at] === commit);
}

/** A text that is equal for equal states only. */
export function keyOf({ db, bucket, nodes, requests, backup, promised, budget }: State): string {
  const sorted = (rows: object) => Object.entries(rows).sort(([a], [b]) => (a < b ? -1 : 1));
  const row = (of: Database) => ({ ...of, objects: sorted(of.objects) });
  return JSON.stringify([
    row(db),
    [sorted(bucket.objects), bucket.aborted.toSorted(), bucket.exported],
    nodes,
    requests.map((request) => JSON.stringify(request)).sort(),
    backup === undefined ? 0 : row(backup),
    [promised.shipped.toSorted(), promised.isForgetAcknowledged, promised.hasForgetEnded],
    budget,
  ]);
}

/** Drops requests that cannot have an effect any more, so that states that differ by nothing else are one. */
export function withoutEffectless(state: State, variant: Variant): State {
  // Rows of a backup may make any request valid again.
  if (state.backup !== undefined || state.db.isRestored) return state;
  const { db, bucket, nodes } = state;
  const isAwaited = (request: Request) =>
    'session' in request &&
    nodes.some(({ session, job }) => session === request.session && job?.key === request.key);
  const isDead = (request: Request) => {
    if (request.to === 'remove') return false;
    if (request.to === 'complete') {
      return bucket.aborted.includes(request.key) && variant.singlePut !== true;
    }
    if (variant.noFence === true || ('isChecked' in request && request.isChecked)) return false;
    if (variant.epochOnly === true) return db.epoch > request.epoch;
    return db.epoch !== request.epoch || db.holder !== request.session;
  };
  return {
    ...state,
    requests: state.requests.filter((request) => isAwaited(request) || !isDead(request)),
  };
}
