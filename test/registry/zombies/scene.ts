import { randomUUID } from 'node:crypto';
import { addAccount, changeState } from '../../../src/registry/accounts.ts';
import { condemn, markGone, sweep, sweepAgain } from '../../../src/registry/collection.ts';
import { commit, decidePurge, roll } from '../../../src/registry/commits.ts';
import { putSecret, saveMemory } from '../../../src/registry/fleet.ts';
import { askForget, settleForgets } from '../../../src/registry/forgets.ts';
import {
  beginImport,
  callOffImport,
  coverImported,
  finishImport,
  type ImportedRange,
  resumeImport,
  tailImported,
  trimImport,
} from '../../../src/registry/imports.ts';
import { claim, enterCache, leaveCache, release, resolve } from '../../../src/registry/leases.ts';
import type { Head, Lease, Outcome } from '../../../src/registry/outcome.ts';
import { endPurge } from '../../../src/registry/purges.ts';
import type { Registry } from '../../../src/registry/registry.ts';
import {
  beginSession,
  drainSession,
  endSession,
  renew,
  strikeNode,
} from '../../../src/registry/sessions.ts';
import type { TRANSACTIONS } from '../../../src/registry/transactions.ts';
import {
  coverChunk,
  coverSegment,
  putSnapshot,
  type Range,
  register,
} from '../../../src/registry/uploads.ts';
import { forgetWebhook, type KeptWebhook, keepWebhook } from '../../../src/registry/webhooks.ts';
import {
  batchAfter,
  claimed,
  committedBatches,
  done,
  GENESIS,
  newArchive,
  newSession,
  sha256,
  upload,
} from '../servers/fleet.ts';

export type Transaction = keyof typeof TRANSACTIONS;

/**
 * A fleet of one archive, in which each transaction would happen: a closed segment and an
 * open one in the tail, objects in every state, a snapshot, a secret. Two nodes live. What else one needs is in its rows.
 */
export interface Scene {
  readonly registry: Registry;
  readonly archive: number;
  /** The holder's. */
  readonly lease: Lease;
  readonly head: Head;
  /** Of whoever imports another archive. */
  readonly importer: Lease;
  /** A living session of another node. */
  readonly other: string;
  /** The entry of the other node, which had the archive before. */
  readonly entry: string;
  readonly sweptAt: string;
  /** Sends each transaction as the holder of that lease would. */
  readonly send: Readonly<Record<Transaction, (lease: Lease) => Promise<Outcome>>>;
}

const IMPORTS: ReadonlySet<Transaction> = new Set([
  ...(['resumeImport', 'trimImport', 'coverImported', 'tailImported'] as const),
  ...(['finishImport', 'callOffImport'] as const),
]);

/** Returns the lease with which a transaction happens. */
export function leaseOf({ lease, importer }: Scene, name: Transaction): Lease {
  return IMPORTS.has(name) ? importer : lease;
}

const CLOSED: Range = {
  ...{ first: 1, last: 2, lastHash: sha256('batch 2') },
  ...{ segment: 1, generation: 2, at: 64 },
};
const NOBODY = async (): Promise<Outcome> => {
  throw new Error('never refused');
};
const ACCOUNT = {
  ...{ tenant: 'new tenant', name: 'ben', logId: Buffer.alloc(8, 1), genesis: GENESIS },
  settings: {},
};
const NONCE = Buffer.alloc(12, 1);
const WEBHOOK: KeptWebhook = {
  ...{ id: 'w1', host: 'mail.example.org', mailboxId: 'AC1', mailbox: 'anna@example.org' },
  url: 'https://hooks.example.org/mail',
};
const webhookSecret = (archive: number) => ({
  ...secretOf(archive, NONCE),
  ...{ purpose: 'webhook/w1', lookup: sha256('secret') },
});

/** A request to forget a message. */
export const FORGET = {
  ...{ id: 'f0f0f0f0-f0f0-4f0f-8f0f-f0f0f0f0f0f0', node: 'b' },
  wanted: [{ message: 'ab'.repeat(32) }],
};

/** An account whose archive is imported, and another one. */
export const IMPORTED = {
  ...{ tenant: 'tenant', name: 'imported', logId: Buffer.alloc(8, 2), genesis: GENESIS },
  settings: {},
};
const NEXT_IMPORT = { ...IMPORTED, name: 'next', logId: Buffer.alloc(8, 3) };

/** The next commits of the import. */
export const NEXT_RANGE: ImportedRange = {
  ...{ first: 5, last: 6, lastHash: sha256('batch 6'), previousHash: sha256('batch 4') },
  ...{ segment: 2, generation: 1, at: 100 },
};

/** The next commit of the import, as a row of the tail. */
export const NEXT_BATCH = {
  ...{ number: 5, previousHash: sha256('batch 4'), hash: sha256('batch 5'), time: 1, segment: 2 },
  ...{ at: 100, firstOrdinal: 3, records: 1, rawBytes: 10, codec: 0, bytes: Buffer.alloc(10) },
};

/** The end of what was imported. */
export const IMPORT_END = {
  ...{ headNumber: 4, headHash: sha256('batch 4'), headTime: 1, hotSegment: 2, hotOffset: 100 },
  ...{ hotOrdinal: 3, hotPrevious: 2, hotPreviousHash: sha256('batch 2') },
};

/** Begins an import, and stores a sealed segment and a part of the open one. */
async function begunImport(registry: Registry): Promise<Lease> {
  const session = randomUUID();
  const seal = (id: number) => [secretOf(id, NONCE)];
  const { head } = done(await beginImport(registry, IMPORTED, session, seal));
  const lease = { archive: head.archive, epoch: head.epoch, session };
  const place = { segment: 1, generation: 2, at: 64 };
  const first = { first: 1, last: 2, lastHash: sha256('batch 2'), previousHash: GENESIS };
  const sealed = await upload(registry, lease, 'sealed', 's/imported');
  done(await coverImported(registry, lease, sealed, { ...first, ...place }));
  const second = { first: 3, last: 4, lastHash: sha256('batch 4'), previousHash: first.lastHash };
  const chunk = await upload(registry, lease, 'chunk', 'c/imported');
  const open = { segment: 2, generation: 1, at: 64 };
  done(await coverImported(registry, lease, chunk, { ...second, ...open }));
  await upload(registry, lease, 'chunk', 'c/import');
  return lease;
}

/** Makes a scene in an empty registry. */
export async function newScene(registry: Registry): Promise<Scene> {
  const other = await newSession(registry, 'b');
  const archive = await newArchive(registry, 'anna');
  const earlier = await claimed(registry, other, archive);
  done(await release(registry, earlier.lease));
  const session = await newSession(registry, 'a');
  const { lease, head: empty } = await claimed(registry, session, archive);
  const two = await committedBatches(registry, lease, empty, 2);
  const { head: rolled } = done(
    await roll(registry, lease, { segment: 1, headHash: two.headHash }),
  );
  const head = await committedBatches(registry, lease, rolled, 3);
  for (const key of ['c/ready', 'c/gone', 'c/swept', 'c/condemned', 'c/left']) {
    await upload(registry, lease, 'chunk', key);
  }
  for (const key of ['c/gone', 'c/swept', 'c/condemned']) done(await condemn(registry, key));
  await upload(registry, lease, 'sealed', 's/ready');
  await upload(registry, lease, 'snapshot', 'catalog/ready');
  const first = await upload(registry, lease, 'snapshot', 'catalog/first');
  const of = { number: 2, hash: two.headHash, catalogVersion: 1 };
  done(await putSnapshot(registry, lease, first, of));
  const gone = done(await sweep(registry, 'c/gone'));
  done(await markGone(registry, 'c/gone', gone.sweptAt, 0));
  const { sweptAt } = done(await sweep(registry, 'c/swept'));
  done(await putSecret(registry, secretOf(archive, NONCE), null));
  const importer = await begunImport(registry);
  const ready = (key: string) => ({ key, bytes: 10, sha256: sha256(key) });
  const chunk: Range = {
    ...{ first: 3, last: 4, lastHash: sha256('batch 4') },
    ...{ segment: 2, generation: 1, at: 64 },
  };
  const send: Scene['send'] = {
    addAccount: () => addAccount(registry, ACCOUNT, (id) => [secretOf(id, NONCE)]),
    changeState: () => changeState(registry, archive, ['active'], 'paused'),
    addArchive: NOBODY,
    addTenant: NOBODY,
    condemnAbandoned: NOBODY,
    drainNode: NOBODY,
    initFleet: NOBODY,
    markDead: NOBODY,
    noteFailover: NOBODY,
    removeSessions: NOBODY,
    commit: (by) => commit(registry, by, batchAfter(head)),
    decidePurge: (by) => decidePurge(registry, by, batchAfter(head), { commits: [1], records: [] }),
    resolve: (by) => resolve(registry, by),
    roll: (by) => roll(registry, by, { segment: 2, headHash: head.headHash }),
    release: (by) => release(registry, by),
    register: (by) =>
      register(registry, by, { key: 'c/new', kind: 'chunk', uploadId: 'new', purges: 0 }),
    coverChunk: (by) => coverChunk(registry, by, ready('c/ready'), chunk),
    coverSegment: (by) => coverSegment(registry, by, ready('s/ready'), CLOSED),
    putSnapshot: (by) =>
      putSnapshot(registry, by, ready('catalog/ready'), {
        ...{ number: 4, hash: sha256('batch 4'), catalogVersion: 1 },
      }),
    endPurge: (by) => endPurge(registry, by, 1),
    askForget: (by) => askForget(registry, { ...FORGET, archive: by.archive }),
    settleForgets: (by) => settleForgets(registry, by, [FORGET.id]),
    enterCache: (by) => enterCache(registry, by),
    saveMemory: (by) =>
      saveMemory(registry, by, { number: 4, bytes: Buffer.from('memory'), purges: 0 }),
    claim: (by) => claim(registry, { session: by.session, most: 5, catalogVersion: 1 }),
    renew: (by) => renew(registry, by.session, 60_000),
    drainSession: (by) => drainSession(registry, by.session),
    endSession: (by) => endSession(registry, by.session),
    beginSession: () =>
      beginSession(
        registry,
        {
          ...{ session: randomUUID(), node: 'a', address: 'x', egress: 'y' },
          ...{ program: 1, capacity: 1 },
        },
        1_000,
      ),
    strikeNode: () => strikeNode(registry, 'c'),
    leaveCache: () => leaveCache(registry, { archive, node: 'b', entry: earlier.entry }),
    condemn: () => condemn(registry, 'c/left'),
    sweep: () => sweep(registry, 'c/condemned'),
    sweepAgain: () => sweepAgain(registry, 'c/swept', sweptAt),
    markGone: () => markGone(registry, 'c/swept', sweptAt, 0),
    keepWebhook: (by) => keepWebhook(registry, by, WEBHOOK, webhookSecret(by.archive)),
    forgetWebhook: (by) => forgetWebhook(registry, by, { id: 'w1', purpose: 'webhook/w1' }),
    putSecret: () => putSecret(registry, secretOf(archive, Buffer.alloc(12, 2)), NONCE),
    beginImport: () => beginImport(registry, NEXT_IMPORT, randomUUID(), () => []),
    resumeImport: (by) => resumeImport(registry, by.archive, by.session),
    trimImport: (by) => trimImport(registry, by, 2),
    coverImported: (by) => coverImported(registry, by, ready('c/import'), NEXT_RANGE),
    tailImported: (by) => tailImported(registry, by, [NEXT_BATCH]),
    finishImport: (by) => finishImport(registry, by, IMPORT_END),
    callOffImport: (by) => callOffImport(registry, by.archive),
  };
  return { registry, archive, lease, head, importer, other, entry: earlier.entry, sweptAt, send };
}

/** A secret of the archive under a nonce. */
export function secretOf(archive: number, nonce: Buffer) {
  return { archive, purpose: 'token', keyId: 'k', nonce, sealed: Buffer.from('sealed') };
}
