import type { Budget } from './state.ts';

/** Rules of the protocol, each of which can be taken away. */
export interface Variant {
  readonly noFence?: boolean;
  readonly checkFirst?: boolean;
  readonly resolveByReading?: boolean;
  readonly lookAfterResolve?: boolean;
  readonly rollOnDiskOnly?: boolean;
  readonly notReadBack?: boolean;
  readonly namedByContent?: boolean;
  readonly singlePut?: boolean;
  readonly collectByListing?: boolean;
  readonly anyStateGoesLive?: boolean;
  readonly noPurgeCount?: boolean;
  readonly endEarly?: boolean;
  readonly noCaches?: boolean;
  readonly keepSnapshot?: boolean;
  readonly anyEntryLeaves?: boolean;
  readonly chunkOfPurged?: boolean;
  readonly headFirst?: boolean;
  readonly claimImporting?: boolean;
  readonly finishUncounted?: boolean;
  readonly tailAnywhere?: boolean;
  readonly callOffAnything?: boolean;
  readonly callOffRowsOnly?: boolean;
  readonly keepUnlike?: boolean;
  readonly settleUnfenced?: boolean;
  readonly settleFirst?: boolean;
  readonly settleByKnown?: boolean;
  /** PostgreSQL may fail over to a replica that lacks the last transaction. */
  readonly lossyReplica?: boolean;
  readonly epochOnly?: boolean;
}

const NOTHING_ELSE = { asks: 0, imports: 0, callOffs: 0, pauses: 0, localForgets: 0 };

const budget = (
  claims: number,
  commits: number,
  uploads: number,
  faults: number,
  purges = 0,
  snapshots = 0,
): Budget => ({ claims, commits, uploads, faults, purges, snapshots, ...NOTHING_ELSE });

/** The same, and the holder purges only what somebody asks it to forget. */
const asking = (bounds: Budget, asks: number): Budget => ({ ...bounds, asks });

/** Bounds within which every state is visited. The first ones are for every run of the tests, the others take minutes. */
export const BOUNDS: Readonly<Record<'small' | 'large', Readonly<Record<string, Budget>>>> = {
  small: {
    log: budget(3, 3, 0, 2),
    seal: budget(1, 1, 2, 1),
    segments: budget(1, 2, 1, 1),
    takeover: budget(2, 1, 1, 1),
    forget: budget(2, 1, 1, 0, 1),
    snapshot: budget(1, 1, 2, 0, 1, 1),
    asked: asking(budget(2, 1, 1, 0, 1), 2),
    interrupted: asking(budget(2, 1, 0, 2, 2), 1),
  },
  large: {
    log: budget(3, 3, 1, 2),
    seal: budget(2, 2, 2, 2, 0, 1),
    late: budget(1, 1, 2, 1, 1),
    forget: budget(2, 1, 2, 1, 1),
    snapshot: budget(2, 1, 2, 1, 1, 1),
    asked: asking(budget(3, 1, 1, 2, 2), 2),
  },
};

/** Archives that come from outside the fleet. */
const importing = (bounds: Partial<Budget>): Budget => ({ ...budget(0, 0, 1, 0), ...bounds });

/** Bounds of imports: importers that are killed, two at a time, called off, and workers that claim and pause meanwhile. */
export const IMPORTS: Readonly<Record<'small' | 'large', Readonly<Record<string, Budget>>>> = {
  small: {
    killed: importing({ imports: 2, uploads: 2, faults: 1, claims: 1 }),
    calledOff: importing({ imports: 2, uploads: 2, callOffs: 1, pauses: 1, claims: 1 }),
    forgotten: importing({ imports: 2, uploads: 2, faults: 1, localForgets: 1 }),
    continued: importing({ imports: 1, pauses: 1, claims: 2, commits: 1 }),
  },
  large: {
    killed: importing({ imports: 3, uploads: 3, faults: 2, claims: 1 }),
    calledOff: importing({ imports: 3, uploads: 2, faults: 1, callOffs: 2, pauses: 1, claims: 1 }),
    forgotten: importing({ imports: 3, uploads: 3, faults: 2, localForgets: 1 }),
    continued: importing({ imports: 2, uploads: 2, pauses: 1, claims: 2, commits: 2, faults: 1 }),
  },
};

/** One session holds the archive, and the secret is in its log. */
const SECRET = ['claim by a0', 'a0 sends 1.1.secret', 'commit'];

/** Bytes from before the purge are on their way to the store, and nobody waits for an answer. */
const UPLOADING = [
  ...SECRET,
  ...['a0 uploads chunk2', 'register', 'a0 sends complete', 'a0 has no answer', 'roll by a0'],
];

export interface Broken {
  /** What is done instead. */
  readonly instead: string;
  readonly variant: Variant;
  /** The least in which it shows. */
  readonly within: Budget;
  /** Where the search begins: labels of steps, or how they begin. */
  readonly after?: readonly string[];
  /** What is seen of it. */
  readonly shows: RegExp;
}

/** Each rule taken away in turn, and what follows. */
export const BROKEN: readonly Broken[] = [
  {
    instead: 'a commit does not compare epoch and session',
    variant: { noFence: true },
    within: budget(2, 1, 0, 0),
    shows: /without the lease/,
  },
  {
    instead: 'the lease is looked at in a statement before the one that writes',
    variant: { checkFirst: true },
    within: budget(2, 1, 0, 0),
    shows: /without the lease/,
  },
  {
    instead: 'an unknown outcome is resolved by reading the head, without a new epoch',
    variant: { resolveByReading: true },
    within: budget(1, 1, 0, 1),
    shows: /reported as failed/,
  },
  {
    instead: 'once a request to resolve has no answer, a look in the same epoch decides',
    variant: { lookAfterResolve: true },
    within: budget(1, 1, 0, 1),
    shows: /reported as failed/,
  },
  {
    instead:
      'segments are closed on disk only, and their rows are dropped by the number of the segment',
    variant: { rollOnDiskOnly: true, resolveByReading: true },
    within: budget(1, 2, 1, 1),
    shows: /stored 0 times/,
  },
  {
    instead: 'rows of the tail are dropped without reading the object back',
    variant: { notReadBack: true },
    within: budget(1, 1, 1, 1),
    shows: /not there/,
  },
  {
    instead: 'objects are named by their content',
    variant: { namedByContent: true },
    within: budget(1, 1, 2, 1),
    shows: /not there|was deleted/,
  },
  {
    instead: 'objects are put by one request that nobody can call off',
    variant: { singlePut: true },
    after: UPLOADING,
    within: budget(1, 1, 2, 1, 1),
    shows: /forgotten/,
  },
  {
    instead: 'garbage is what the store lists and nothing names',
    variant: { collectByListing: true, anyStateGoesLive: true },
    within: budget(1, 1, 1, 0),
    shows: /was deleted|not there/,
  },
  {
    instead: 'an object becomes live without asking whether it was condemned',
    variant: { anyStateGoesLive: true },
    within: budget(1, 1, 1, 0),
    shows: /was deleted|not there/,
  },
  {
    instead: 'an upload is registered whatever purges were decided since',
    variant: { noPurgeCount: true },
    after: SECRET,
    within: budget(1, 1, 2, 0, 1),
    shows: /forgotten/,
  },
  {
    instead: 'a purge ends while objects wait for their collection',
    variant: { endEarly: true },
    after: UPLOADING,
    within: budget(1, 1, 2, 1, 1),
    shows: /forgotten/,
  },
  {
    instead: 'a purge does not wait for the disks of other nodes',
    variant: { noCaches: true },
    after: SECRET,
    within: budget(2, 1, 1, 1, 1),
    shows: /disk/,
  },
  {
    instead: 'a purge leaves snapshots of the catalog alone',
    variant: { keepSnapshot: true },
    after: SECRET,
    within: budget(1, 1, 2, 0, 1, 1),
    shows: /forgotten, and still in snapshot/,
  },
  {
    instead: 'a node leaves the cache whatever entry it has there',
    variant: { anyEntryLeaves: true },
    // The holder has purged its disk's copy and crashes: what is left is to end the purge.
    after: [...SECRET, 'roll by a0', 'a0 sends 2.2.purge', 'decidePurge', 'a0 crashes', 'a1 wipes'],
    within: budget(3, 1, 1, 1, 1),
    shows: /disk/,
  },
  {
    instead:
      'a holder uploads chunks of commits with purged records, though no cover of them is accepted',
    variant: { chunkOfPurged: true },
    after: SECRET,
    within: budget(1, 1, 2, 0, 1),
    shows: /forgotten/,
  },
  {
    instead: 'whoever settles a request to forget need not hold the archive',
    variant: { settleUnfenced: true },
    within: asking(budget(2, 1, 0, 0, 1), 1),
    shows: /no commit decides it/,
  },
  {
    instead: 'a request to forget is settled before the commit that decides it',
    variant: { settleFirst: true },
    within: asking(budget(1, 1, 0, 1, 1), 1),
    shows: /no commit decides it/,
  },
  {
    instead: 'a request is settled with the purges that were known when it was read',
    variant: { settleByKnown: true },
    within: asking(budget(1, 1, 0, 0, 1), 1),
    shows: /counts as ended/,
  },
  {
    instead: 'the head of an imported log moves first',
    variant: { headFirst: true },
    within: importing({ imports: 1 }),
    shows: /stored 0 times/,
  },
  {
    instead: 'a log that is being imported can be claimed',
    variant: { claimImporting: true },
    within: importing({ imports: 1, claims: 1, commits: 1 }),
    shows: /stored 2 times|wrong object/,
  },
  // Fence and order of what is stored each suffice alone: an import is broken only without both.
  {
    instead: 'two importers are not told apart, and the head moves without counting what is stored',
    variant: { finishUncounted: true, noFence: true },
    within: importing({ imports: 2 }),
    shows: /stored 0 times/,
  },
  {
    instead:
      'two importers are not told apart, and the open segment is stored whatever is there before it',
    variant: { tailAnywhere: true, noFence: true },
    within: importing({ imports: 2, faults: 1, localForgets: 1 }),
    shows: /stored out of order/,
  },
  {
    instead: 'an import is called off without asking whether it has ended',
    variant: { callOffAnything: true },
    within: importing({ imports: 1, callOffs: 1 }),
    shows: /was called off/,
  },
  {
    instead: 'an import that is called off leaves its objects behind',
    variant: { callOffRowsOnly: true },
    within: importing({ imports: 1, callOffs: 1 }),
    shows: /never collected/,
  },
  {
    instead: 'an upload of an import becomes live although it was condemned',
    variant: { anyStateGoesLive: true },
    within: importing({ imports: 1 }),
    shows: /was deleted|not there/,
  },
  {
    instead: 'an import continues with whatever an earlier one has uploaded',
    variant: { keepUnlike: true },
    within: importing({ imports: 2, faults: 1, localForgets: 1 }),
    shows: /forgotten before it was imported/,
  },
  {
    instead: 'PostgreSQL fails over to a replica that lacks the last transaction',
    variant: { lossyReplica: true },
    within: budget(1, 1, 0, 0),
    shows: /acknowledged and lost/,
  },
  {
    instead: 'the same, and the fence is the epoch alone',
    variant: { lossyReplica: true, epochOnly: true },
    within: budget(2, 1, 0, 0),
    shows: /without the lease/,
  },
];
