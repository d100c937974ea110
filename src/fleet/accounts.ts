import { type RawBuilder, sql } from 'kysely';
import { MailkeepError } from '../core/errors.ts';
import type { SealedSecret } from './keys.ts';
import {
  addEvent,
  fence,
  type Lease,
  lockHeld,
  type Outcome,
  one,
  oneHeld,
  Refusal,
  refusable,
  structural,
} from './outcomes.ts';
import type { Registry, Tx } from './postgres.ts';
import { skipNumbers, TIMELINE } from './schema.ts';

export interface NewAccount {
  readonly tenant: string;
  readonly name: string;
  /** As in a configuration, without secrets. */
  readonly settings: unknown;
  /** Seals the account's secrets: its id is part of what is authenticated. */
  readonly seal: (account: number) => readonly SealedSecret[];
}

/** How full a shard is. */
export interface ShardSize {
  readonly shard: number;
  readonly accounts: number;
  readonly messages: number;
  readonly catalogBytes: number;
}

/** A shard, or one of those that are added, by number from 0. */
export type Place = number | { readonly added: number };
/** Chooses the shards of new accounts. */
export type Placement = (sizes: readonly ShardSize[], count: number) => readonly Place[];

/** Adds accounts with their secrets. Refused if one of the names is taken; nothing is added then. */
export async function addAccounts(
  registry: Registry,
  accounts: readonly NewAccount[],
  placement: Placement,
  who: string,
): Promise<Outcome<{ added: readonly { readonly account: number; readonly shard: number }[] }>> {
  return structural(registry, 'add accounts', async (tx, version) => {
    await skipNumbers(tx);
    const places = placement(await shardSizes(tx), accounts.length);
    const added: { account: number; shard: number }[] = [];
    const shards = new Map<number, number>();
    for (const [at, { tenant, name, settings, seal }] of accounts.entries()) {
      const place = places[at] ?? { added: 0 };
      const known = typeof place === 'number' ? place : shards.get(place.added);
      const shard = known ?? (await newShard(tx, version));
      if (typeof place !== 'number') shards.set(place.added, shard);
      const row = sql<{ id: number }>`INSERT INTO account (tenant, name, shard, settings, version)
        VALUES (${tenant}, ${name}, ${shard}, ${JSON.stringify(settings)}::jsonb, ${version})
        ON CONFLICT DO NOTHING RETURNING id`;
      const { id: account } = await one(tx, row, 'name');
      for (const secret of seal(account)) await insertSecret(account, secret).execute(tx);
      await addEvent(tx, { who, what: 'account-added', shard, account });
      added.push({ account, shard });
    }
    return { added };
  });
}

/** Adds a shard, which a session may hold from the start, in epoch 1. */
export async function newShard(
  tx: Tx,
  version: number,
  session: string | null = null,
): Promise<number> {
  const added = sql<{ id: number }>`INSERT INTO shard (version, timeline, holder, epoch)
    VALUES (${version}, ${TIMELINE}, ${session}, ${session === null ? 0 : 1}) RETURNING id`;
  return (await one(tx, added, 'state')).id;
}

async function shardSizes(tx: Tx): Promise<readonly ShardSize[]> {
  const { rows } = await sql<ShardSize>`
    SELECT s.id AS shard, s.messages, s.catalog_bytes AS "catalogBytes",
      (SELECT count(*) FROM account a WHERE a.shard = s.id AND a.state <> 'removed') AS accounts
    FROM shard s ORDER BY s.id`.execute(tx);
  return rows;
}

export type AccountState = 'active' | 'paused' | 'removed';

/** Changes the state of an account. Refused unless it is in one of the states `from`. */
export async function changeAccount(
  registry: Registry,
  account: number,
  from: readonly AccountState[],
  to: AccountState,
  who: string,
): Promise<Outcome> {
  return structural(registry, 'change an account', async (tx, version) => {
    const changed = sql`UPDATE account SET state = ${to}, version = ${version}
      WHERE id = ${account} AND state = ANY(${[...from]}::text[]) RETURNING id`;
    await one(tx, changed, 'state');
    await addEvent(tx, { who, what: `account-${to}`, account });
    return {};
  });
}

/** Replaces settings and secrets of an account. Refused if it was removed. */
export async function updateAccount(
  registry: Registry,
  account: number,
  settings: unknown,
  secrets: readonly SealedSecret[],
  who: string,
): Promise<Outcome> {
  return structural(
    registry,
    'update an account',
    async (tx, version) => {
      const updated = sql`
        UPDATE account SET settings = ${JSON.stringify(settings)}::jsonb, version = ${version}
        WHERE id = ${account} AND state <> 'removed' RETURNING id`;
      await one(tx, updated, 'state');
      await addEvent(tx, { who, what: 'account-updated', account });
      return {};
    },
    async (tx) => {
      await sql`DELETE FROM secret WHERE account = ${account}`.execute(tx);
      for (const secret of secrets) await insertSecret(account, secret).execute(tx);
    },
  );
}

/** Records the last error of accounts, null for none. Those of other shards are left as they are. */
export async function recordAccountErrors(
  registry: Registry,
  lease: Lease,
  errors: ReadonlyMap<number, string | null>,
): Promise<Outcome> {
  return refusable(registry, 'record errors of accounts', async (tx) => {
    await lockHeld(tx, lease, 'SHARE');
    const changed = sql`UPDATE account a SET last_error = e.error
      FROM unnest(${[...errors.keys()]}::bigint[], ${[...errors.values()]}::text[]) AS e (id, error)
      WHERE a.id = e.id AND a.shard = ${lease.shard}
        AND a.last_error IS DISTINCT FROM e.error RETURNING a.id`;
    await one(tx, changed, 'state');
    return {};
  });
}

const SECRET = sql`purpose, key_id AS "keyId", nonce, sealed`;
type AccountSecret = SealedSecret & { readonly account: number };

function insertSecret(account: number, secret: SealedSecret): RawBuilder<unknown> {
  const { purpose, keyId, nonce, sealed } = secret;
  return sql`INSERT INTO secret (account, purpose, key_id, nonce, sealed)
    VALUES (${account}, ${purpose}, ${keyId}, ${nonce}, ${sealed})
    ON CONFLICT DO NOTHING RETURNING account`;
}

function replaceSecret(account: number, secret: SealedSecret, before: Buffer) {
  const { purpose, keyId, nonce, sealed } = secret;
  return sql`UPDATE secret SET key_id = ${keyId}, nonce = ${nonce}, sealed = ${sealed}
    WHERE account = ${account} AND purpose = ${purpose} AND nonce = ${before} RETURNING account`;
}

/** Replaces a version of a secret. Of two that replace the same one, the second is refused. @param before its nonce */
export async function putSecret(
  registry: Registry,
  account: number,
  secret: SealedSecret,
  before: Buffer,
): Promise<Outcome> {
  return structural(
    registry,
    'put a secret',
    async (tx, version) => {
      await sql`UPDATE account SET version = ${version} WHERE id = ${account}`.execute(tx);
      return {};
    },
    async (tx) => void (await one(tx, replaceSecret(account, secret, before), 'secret')),
  );
}

/**
 * Refreshes a secret, such as an OAuth refresh token, of which the service accepts the newest version only. Nobody else
 * refreshes it meanwhile, and the new version is stored before anyone uses it: also if the lease is lost meanwhile,
 * because the old version is used up then.
 *
 * @param refresh returns the new version; only the row of the secret is locked while it runs, at most a minute
 * @throws errors of the registry if it could not be stored although it was tried again. `refresh` has then used up the
 * old version.
 */
export async function refreshSecret(
  registry: Registry,
  lease: Lease,
  { account, purpose }: { readonly account: number; readonly purpose: string },
  refresh: (secret: SealedSecret) => Promise<SealedSecret>,
): Promise<Outcome<{ secret: SealedSecret }>> {
  let refreshed: { readonly secret: SealedSecret; readonly before: Buffer } | undefined;
  const transaction = refusable(registry, 'refresh a secret', async (tx) => {
    const locked = sql<SealedSecret>`SELECT ${SECRET} FROM secret
      WHERE account = ${account} AND purpose = ${purpose}
        AND EXISTS (SELECT 1 FROM account a WHERE a.id = account AND a.shard = ${lease.shard})
      FOR UPDATE`;
    const { rows } = await locked.execute(tx);
    // A statement of its own sees who holds the shard after the row was waited for.
    await oneHeld(tx, lease, sql`SELECT 1 FROM shard WHERE ${fence(lease)}`);
    const [found] = rows;
    if (found === undefined) throw new Refusal('secret');
    await sql`SELECT set_config('idle_in_transaction_session_timeout', '60s', true)`.execute(tx);
    const secret = await refresh(found);
    refreshed = { secret, before: found.nonce };
    await replaceSecret(account, secret, found.nonce).execute(tx);
    return { secret };
  });
  try {
    return await transaction;
  } catch (error) {
    // The service has given out the new version, so losing it would lock the account out.
    if (refreshed === undefined || !(error instanceof MailkeepError)) throw error;
    const { secret, before } = refreshed;
    await registry.statement('refresh a secret again', replaceSecret(account, secret, before));
    const rows = await registry.read(
      'look at a secret',
      sql`SELECT 1 FROM secret WHERE account = ${account} AND purpose = ${purpose}
        AND nonce = ${secret.nonce}`,
    );
    return rows.length === 1
      ? { outcome: 'committed', secret }
      : { outcome: 'refused', by: 'secret' };
  }
}

/** Returns the secrets of accounts. */
export async function secretsOf(
  registry: Registry,
  accounts: readonly number[],
): Promise<readonly AccountSecret[]> {
  const wanted = sql<AccountSecret>`SELECT account, ${SECRET} FROM secret
    WHERE account = ANY(${[...accounts]}::bigint[]) ORDER BY account, purpose`;
  return registry.read('look at secrets', wanted);
}

/** Returns one secret of each key, to see whether this machine has the keys. */
export async function secretSamples(registry: Registry): Promise<readonly AccountSecret[]> {
  const wanted = sql<AccountSecret>`SELECT DISTINCT ON (key_id) account, ${SECRET} FROM secret
    ORDER BY key_id, account`;
  return registry.read('look at keys', wanted);
}

/** Returns secrets that another key than this one has encrypted, by account and purpose. */
export async function secretsOfOtherKeys(
  registry: Registry,
  keyId: string,
  most: number,
): Promise<readonly AccountSecret[]> {
  const wanted = sql<AccountSecret>`SELECT account, ${SECRET} FROM secret
    WHERE key_id <> ${keyId} ORDER BY account, purpose LIMIT ${most}`;
  return registry.read('look at secrets of other keys', wanted);
}
