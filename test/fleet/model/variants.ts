import type { Budget } from './state.ts';

/** Rules of the protocol, each of which can be taken away. */
export interface Variant {
  readonly noFence?: boolean;
  readonly epochOnly?: boolean;
  readonly checkFirst?: boolean;
  readonly anyPrevious?: boolean;
  readonly anyState?: boolean;
  readonly namesTwice?: boolean;
  readonly singlePut?: boolean;
  readonly collectByListing?: boolean;
  readonly assumeComplete?: boolean;
  readonly purgesAtRegistration?: boolean;
  readonly keepSnapshot?: boolean;
  readonly doneAtCommit?: boolean;
  readonly asideIsDone?: boolean;
  readonly acknowledgeFirst?: boolean;
  readonly forgetOnlyHere?: boolean;
  readonly endWithObjects?: boolean;
  readonly endWithFolders?: boolean;
  readonly wipeAhead?: boolean;
  readonly mergeForgotten?: boolean;
  readonly anyFolder?: boolean;
  readonly trustFolder?: boolean;
  readonly anyTimeline?: boolean;
  readonly longestLog?: boolean;
  readonly sequenceOfBase?: boolean;
  readonly knownFoldersOnly?: boolean;
  readonly keepUploads?: boolean;
  readonly recoverAtOnce?: boolean;
}

const NOTHING: Budget = {
  ...{ claims: 1, commits: 1, uploads: 1, faults: 0 },
  ...{ forgets: 0, snapshots: 0, abandoned: 0, restores: 0 },
};
const within = (bounds: Partial<Budget>): Budget => ({ ...NOTHING, ...bounds });

/** Bounds within which every state is visited. The large ones take minutes. */
export const BOUNDS: Readonly<Record<'small' | 'large', Readonly<Record<string, Budget>>>> = {
  small: {
    ship: within({ claims: 2, commits: 2, uploads: 2, faults: 1 }),
    late: within({ commits: 2, uploads: 3, faults: 1 }),
    ahead: within({ claims: 3, commits: 2, uploads: 1, faults: 1 }),
    abandoned: within({ uploads: 2, abandoned: 1, faults: 1 }),
    forget: within({ claims: 2, uploads: 2, forgets: 1 }),
    snapshot: within({ uploads: 2, forgets: 1, snapshots: 1 }),
    restore: within({ claims: 2, commits: 1, uploads: 1, restores: 1 }),
  },
  large: {
    ship: within({ claims: 3, commits: 3, uploads: 2, faults: 2 }),
    late: within({ claims: 2, commits: 2, uploads: 3, faults: 2 }),
    ahead: within({ claims: 4, commits: 3, uploads: 2, faults: 1 }),
    abandoned: within({ claims: 2, uploads: 2, abandoned: 2, faults: 1 }),
    forget: within({ claims: 3, commits: 2, uploads: 2, forgets: 1, faults: 1 }),
    snapshot: within({ claims: 2, uploads: 2, forgets: 1, snapshots: 2, faults: 1 }),
    restore: within({ claims: 3, commits: 2, uploads: 2, restores: 1 }),
    'forget and restore': within({ claims: 2, uploads: 2, forgets: 1, restores: 1 }),
  },
};

export interface Broken {
  readonly instead: string;
  readonly variant: Variant;
  readonly within: Budget;
  /** Steps that were made before, where the way is long. */
  readonly after?: readonly string[];
  readonly shows: RegExp;
}

/** The steps of a ship without faults. */
const shipOf = (session: string) => [
  `${session} begins`,
  ...['register', 'complete', 'ship'].flatMap((to) => [`${session} sends ${to}`, to]),
];

export const BROKEN: readonly Broken[] = [
  {
    instead: 'a ship does not compare epoch and session',
    variant: { noFence: true },
    within: within({ claims: 2 }),
    shows: /without the lease/,
  },
  {
    instead: 'the lease is checked in a statement of its own',
    variant: { checkFirst: true },
    within: within({ claims: 2 }),
    shows: /without the lease/,
  },
  {
    instead: 'the fence is the epoch alone',
    variant: { epochOnly: true },
    within: within({ claims: 2, restores: 1 }),
    shows: /without the lease/,
  },
  {
    instead: 'a ship does not compare the manifest that it follows',
    variant: { anyPrevious: true },
    within: within({ commits: 2, uploads: 2, faults: 1 }),
    shows: /does not continue/,
  },
  {
    instead: 'a manifest may name objects in any state',
    variant: { anyState: true },
    within: within({ abandoned: 1 }),
    shows: /is not there/,
  },
  {
    instead: 'an object is named by its content',
    variant: { namesTwice: true },
    within: within({ claims: 2, uploads: 2, abandoned: 1, faults: 1 }),
    shows: /is not there/,
  },
  {
    instead: 'objects are put in one request that cannot be called off',
    variant: { singlePut: true },
    within: within({ uploads: 2, faults: 1, forgets: 1 }),
    after: ['a0 claims', 'a0 stores', ...shipOf('a0').slice(0, 4), 'a0 promises', 'a0 has no'],
    shows: /in the bucket/,
  },
  {
    instead: 'what the manifest does not name is garbage',
    variant: { collectByListing: true },
    within: within({}),
    shows: /is not there/,
  },
  {
    instead: 'an upload without an answer is taken for complete',
    variant: { assumeComplete: true },
    within: within({ faults: 1 }),
    shows: /is not there/,
  },
  {
    instead: 'an upload is as clean as the shard when it is registered',
    variant: { purgesAtRegistration: true },
    within: within({ claims: 2, uploads: 2, forgets: 1 }),
    shows: /in the bucket/,
  },
  {
    instead: 'a snapshot of the catalog outlives a forget',
    variant: { keepSnapshot: true },
    within: within({ uploads: 2, forgets: 1, snapshots: 1 }),
    shows: /in the bucket/,
  },
  {
    instead: 'a forget is carried out once its commit is there',
    variant: { doneAtCommit: true },
    within: within({ forgets: 1 }),
    shows: /in the bucket|on the disk/,
  },
  {
    instead: 'a folder that waits for its merge does not keep a forget from ending',
    variant: { asideIsDone: true },
    within: within({ claims: 3, commits: 2, uploads: 2, forgets: 1 }),
    after: ['a0 claims', 'a0 stores s2', 'b0 claims', 'b0 stores', 'a0 learns', 'b0 promises'],
    shows: /on the disk/,
  },
  {
    instead: 'a forget is acknowledged before its row is there',
    variant: { acknowledgeFirst: true },
    within: within({ forgets: 1 }),
    shows: /acknowledged/,
  },
  {
    instead: 'a forget is known to PostgreSQL alone',
    variant: { forgetOnlyHere: true },
    within: within({ forgets: 1, restores: 1 }),
    shows: /acknowledged/,
  },
  {
    instead: 'a forget ends with the manifest, whatever waits to be deleted',
    variant: { endWithObjects: true },
    within: within({ uploads: 2, forgets: 1 }),
    shows: /in the bucket/,
  },
  {
    instead: 'a forget does not wait for the disks of other nodes',
    variant: { endWithFolders: true },
    within: within({ claims: 2, uploads: 2, forgets: 1 }),
    shows: /on the disk/,
  },
  {
    instead: 'a node wipes a folder that ran ahead',
    variant: { wipeAhead: true },
    within: within({ claims: 2, uploads: 0 }),
    shows: /wiped/,
  },
  {
    instead: 'a merge does not look at purges',
    variant: { mergeForgotten: true },
    within: within({ claims: 3, commits: 2, uploads: 2, forgets: 1 }),
    after: ['a0 claims', 'a0 stores', 'b0 claims', 'b0 stores', 'b0 promises'],
    shows: /came back|on the disk/,
  },
  {
    instead: 'a node continues with its folder, whatever the manifest is',
    variant: { anyFolder: true },
    within: within({ claims: 3, commits: 3, uploads: 2 }),
    after: ['a0 claims', 'a0 stores', 'a0 stores', 'b0 claims'],
    shows: /does not continue/,
  },
  {
    instead: 'a folder that was behind is as clean as the manifest',
    variant: { trustFolder: true },
    within: within({ claims: 3, uploads: 2, forgets: 1 }),
    after: [
      ...['a0 claims', 'a0 stores', ...shipOf('a0')],
      ...['b0 claims', 'b0 promises', 'b0 commits', 'b0 removes', ...shipOf('b0'), 'a0 learns'],
    ],
    shows: /on the disk|in the bucket/,
  },
  {
    instead: 'sessions work on in a restored database',
    variant: { anyTimeline: true },
    within: within({ claims: 2, commits: 2, uploads: 2, restores: 1 }),
    shows: /was lost|does not continue|without the lease/,
  },
  {
    instead: 'the longest log of the bucket is recovered',
    variant: { longestLog: true },
    within: within({ claims: 2, commits: 3, uploads: 2, restores: 1 }),
    after: ['a0 claims', 'a0 stores', 'a0 stores', ...shipOf('a0').slice(0, 5), 'b0 claims'],
    shows: /was lost/,
  },
  {
    instead: 'attempts at the same manifest have one sequence number',
    variant: { sequenceOfBase: true },
    within: within({ commits: 2, uploads: 2, faults: 1, restores: 1 }),
    shows: /was lost/,
  },
  {
    instead: 'a recovery enters no folders',
    variant: { knownFoldersOnly: true },
    within: within({ claims: 3, uploads: 2, forgets: 1, restores: 1 }),
    after: [
      ...['a0 claims', 'a0 stores', ...shipOf('a0')],
      ...['a backup', 'b0 claims', 'the backup', 'recover'],
    ],
    shows: /on the disk/,
  },
  {
    instead: 'a recovery leaves uploads alone',
    variant: { keepUploads: true },
    within: within({ claims: 2, uploads: 2, forgets: 1, restores: 1 }),
    after: [
      ...['a0 claims', 'a0 stores', 'a0 promises', 'a0 commits', 'a0 begins', 'a0 removes'],
      ...[
        'a0 sends register',
        'register',
        'a0 sends complete',
        'a backup',
        'the backup',
        'recover',
      ],
    ],
    shows: /in the bucket/,
  },
  {
    instead: 'a recovery does not wait for deletions that are under way',
    variant: { recoverAtOnce: true },
    within: within({ commits: 1, forgets: 1, restores: 1 }),
    shows: /is not there/,
  },
];
