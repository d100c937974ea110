import { createHash, randomUUID } from 'node:crypto';
import { type RawBuilder, sql } from 'kysely';
import {
  addAccounts,
  changeAccount,
  type NewAccount,
  putSecret,
  recordAccountErrors,
  refreshSecret,
  updateAccount,
} from '../../../src/fleet/accounts.ts';
import {
  type ClaimedShard,
  claim,
  moveShard,
  release,
  reportFailure,
  reportRecovery,
} from '../../../src/fleet/claims.ts';
import { addGrant, redeemLink, revokeGrant } from '../../../src/fleet/grants.ts';
import { FleetKeys, type SealedSecret } from '../../../src/fleet/keys.ts';
import {
  abandon,
  type BegunUpload,
  markGone,
  type NewManifest,
  type ObjectKind,
  register,
  ship,
  sweep,
} from '../../../src/fleet/objects.ts';
import type { Lease, Outcome } from '../../../src/fleet/outcomes.ts';
import type { Registry } from '../../../src/fleet/postgres.ts';
import {
  decidePurge,
  endPurges,
  merged,
  ranAhead,
  removeNode,
  wiped,
} from '../../../src/fleet/purges.ts';
import { recoverShard } from '../../../src/fleet/recover.ts';
import { beginSession, endSession, renew } from '../../../src/fleet/sessions.ts';

const KEYS = FleetKeys.parse(`key-1 ${'5a'.repeat(32)}\n`, 'test');
const LONG_MS = 3_600_000;
/** Of every node that has no folders. */
export const DISK = '3f0f6c3a-52b1-4c8e-9a57-0b3f5d6f7a11';

/** Returns what was committed. @throws Error if it was refused */
export function done<Done extends object>(outcome: Outcome<Done>): Done {
  if (outcome.outcome === 'refused') throw new Error(`refused by ${outcome.by}`);
  return outcome;
}

export function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** Starts a session that lives as long as the test. */
export async function newSession(registry: Registry, node: string): Promise<string> {
  const session = randomUUID();
  const place = { node, disk: DISK, address: `${node}.example:8443` };
  const facts = { session, ...place, room: 1000 };
  done(await beginSession(registry, facts, LONG_MS));
  return session;
}

export function secretOf(nonce: number, purpose = 'token'): SealedSecret {
  const sealed = Buffer.from(`sealed ${nonce}`);
  return { purpose, keyId: 'k', nonce: Buffer.alloc(12, nonce), sealed };
}

export function accountOf(name: string, tenant = 'acme'): NewAccount {
  return { tenant, name, settings: { baseUrl: 'https://mail' }, seal: () => [secretOf(1)] };
}

/** Adds an account in a shard of its own. */
export async function newShard(registry: Registry, name: string) {
  const { added } = done(
    await addAccounts(registry, [accountOf(name)], () => [{ added: 0 }], 'operator'),
  );
  const [first] = added;
  if (first === undefined) throw new Error('no account was added');
  return first;
}

export async function claimed(
  registry: Registry,
  session: string,
  shard: number,
): Promise<ClaimedShard> {
  const [first] = done(await claim(registry, session, [shard])).claimed;
  if (first === undefined) throw new Error('the shard cannot be claimed');
  return first;
}

export function uploadOf(name: string, kind: ObjectKind, purges = 0): BegunUpload {
  return { name, kind, uploadId: `upload of ${name}`, bytes: 1_000, purges };
}

/** A manifest that follows another one. Its sequence is the number in its name. */
export function manifestOf(
  name: string,
  previous: string | null,
  names: readonly string[],
  clean = 0,
): NewManifest {
  const sequence = Number(name.replaceAll(/\D/g, ''));
  const sizes = { messages: 10, catalogBytes: 1_000 };
  return {
    name,
    sha256: sha256(name),
    sequence,
    commitNumber: sequence * 10,
    previous,
    names,
    clean,
    ...sizes,
  };
}

/** Transactions of a holder, which are refused to anyone else. */
export const FENCED = [
  'register',
  'ship',
  'release',
  'reportFailure',
  'reportRecovery',
  'decidePurge',
  'endPurges',
  'merged',
  'recordAccountErrors',
  'refreshSecret',
] as const;
export type FencedName = (typeof FENCED)[number];

/** A shard that `a` holds and has shipped once, after `b` had held it. */
export interface Scene {
  readonly registry: Registry;
  readonly shard: number;
  readonly account: number;
  readonly lease: Lease;
  /** A living session of node `b`. */
  readonly other: string;
  /** Entries of the nodes in the list of folders. */
  readonly entries: { readonly a: number; readonly b: number };
  /** When `t/swept` was deleted. */
  readonly sweptAt: string;
  readonly token: string;
  /** Sends a transaction of a holder. */
  readonly send: Readonly<Record<FencedName, (by: Lease) => Promise<Outcome>>>;
  /** Sends any other transaction that can be refused. */
  readonly also: Readonly<Record<string, () => Promise<Outcome>>>;
}

export async function newScene(registry: Registry): Promise<Scene> {
  const other = await newSession(registry, 'b');
  const { shard, account } = await newShard(registry, 'anna');
  const earlier = await claimed(registry, other, shard);
  done(await release(registry, earlier.lease));
  const session = await newSession(registry, 'a');
  const { lease, entry } = await claimed(registry, session, shard);
  const first = [uploadOf('m/1', 'manifest'), uploadOf('d/1', 'segment')];
  const left = ['t/condemned', 't/swept', 't/left', 't/abandoned'];
  const uploads = [...first, ...left.map((name) => uploadOf(name, 'tail'))];
  done(await register(registry, lease, uploads));
  done(await ship(registry, lease, manifestOf('m/1', null, ['d/1'])));
  const purge = { reason: 'forgotten', work: Buffer.from('sealed work'), askedBy: 'anna' } as const;
  done(await decidePurge(registry, lease, purge));
  const second = [uploadOf('m/2', 'manifest', 1), uploadOf('d/2', 'tail', 1)];
  done(await register(registry, lease, [...second, uploadOf('s/2', 'snapshot', 1)]));
  await abandon(registry, ['t/condemned', 't/swept']);
  done(await sweep(registry, 't/swept', null));
  await statement(
    registry,
    sql`UPDATE shard SET failing = '{"code": "disk-full", "node": "a", "since": "x"}'`,
  );
  await statement(registry, sql`UPDATE folder SET ahead = true WHERE node = 'a'`);
  const [swept] = await statement<{ at: string }>(
    registry,
    sql`SELECT swept_at::text AS at FROM object WHERE name = 't/swept'`,
  );
  const sweptAt = swept?.at ?? '';
  const rights = { accounts: [account], mailboxes: null };
  const grant = { name: 'phone', tenant: 'acme', rights, expiresAt: null } as const;
  const token = (await addGrant(registry, KEYS, { use: 'token', ...grant })).id;
  const link = await addGrant(registry, KEYS, { use: 'link', ...grant });
  const entries = { a: entry, b: earlier.entry };
  const next = manifestOf('m/2', 'm/1', ['d/1', 'd/2', 's/2'], 1);
  const times = { settleMs: 0 };
  const found = { shard, epoch: 7, objects: [] };
  return {
    ...{ registry, shard, account, lease, other, entries, sweptAt, token },
    send: {
      register: (by) => register(registry, by, [uploadOf('d/new', 'tail')]),
      ship: (by) => ship(registry, by, next),
      release: (by) => release(registry, by),
      reportFailure: (by) => reportFailure(registry, by, 'disk-full', 60_000),
      reportRecovery: (by) => reportRecovery(registry, by),
      decidePurge: (by) => decidePurge(registry, by, purge),
      endPurges: (by) => endPurges(registry, by, false),
      merged: (by) => merged(registry, by, { messages: 3 }),
      recordAccountErrors: (by) =>
        recordAccountErrors(registry, by, new Map([[account, 'token-refused']])),
      refreshSecret: (by) =>
        refreshSecret(registry, by, { account, purpose: 'token' }, async () => secretOf(2)),
    },
    also: {
      claim: () => claim(registry, other, [shard]).then(nothingIsRefused),
      renew: () => renew(registry, session, LONG_MS),
      endSession: () => endSession(registry, session),
      wiped: () => wiped(registry, other, { shard, entry: entries.b }),
      ranAhead: () => ranAhead(registry, other, { shard, entry: entries.b }),
      sweep: () => sweep(registry, 't/condemned', null),
      'sweep again': () => sweep(registry, 't/swept', sweptAt),
      markGone: () => markGone(registry, 't/swept', sweptAt, times),
      moveShard: () => moveShard(registry, shard, 'b'),
      changeAccount: () => changeAccount(registry, account, ['active'], 'paused', 'operator'),
      updateAccount: () =>
        updateAccount(registry, account, { changed: true }, [secretOf(4)], 'operator'),
      addAccounts: () => addAccounts(registry, [accountOf('ben')], () => [shard], 'operator'),
      putSecret: () => putSecret(registry, account, secretOf(3), Buffer.alloc(12, 1)),
      revokeGrant: () => revokeGrant(registry, token, 'anna'),
      redeemLink: () => redeemLink(registry, KEYS, link.secret, 'Firefox', LONG_MS),
      removeNode: () => removeNode(registry, 'c'),
      recoverShard: () => recoverShard(registry, found, ['a', 'b']),
    },
  };
}

/** A claim that takes nothing changes nothing but the version. */
function nothingIsRefused(
  outcome: Outcome<{ claimed: readonly ClaimedShard[] }>,
): Outcome<{ claimed: readonly ClaimedShard[] }> {
  const isNothing = outcome.outcome === 'committed' && outcome.claimed.length === 0;
  return isNothing ? { outcome: 'refused', by: 'lease' } : outcome;
}

export function statement<Row>(
  registry: Registry,
  query: RawBuilder<Row>,
): Promise<readonly Row[]> {
  return registry.statement('test', query);
}
