import { createHmac, randomBytes, randomUUID } from 'node:crypto';
import { type RawBuilder, sql } from 'kysely';
import { z } from 'zod';
import type { FleetKeys } from './keys.ts';
import { addEvent, interval, type Outcome, one, refusable } from './outcomes.ts';
import type { Registry } from './postgres.ts';

/** What a session or token may read. */
const rightsShape = z.strictObject({
  /** Ids of accounts; null for all accounts of the tenant. */
  accounts: z.array(z.int()).max(300).readonly().nullable(),
  /** Keys of mailboxes of these accounts; null for all. */
  mailboxes: z.array(z.string()).max(100).readonly().nullable(),
});
export type Rights = z.output<typeof rightsShape>;

/** A session of a browser or an API token, which are rows of `token`. */
export interface Grant extends Rights {
  readonly id: string;
  /** Null for operators. */
  readonly tenant: string | null;
  /** Of the token, or the browser's User-Agent. */
  readonly name: string;
  readonly createdAt: Date;
  readonly usedAt: Date | null;
  readonly expiresAt: Date | null;
}

/** What a secret is for. Each use has its own key, so that no secret counts as another. */
type SecretUse = 'link' | 'session' | 'token';

const NAME_LENGTH = 400;
const USE_RECORD_MS = 60_000;

/** Returns the keyed hashes under which a secret may be stored, one for each key of the file, the newest first. */
function lookups(keys: FleetKeys, use: SecretUse, secret: string): readonly Buffer[] {
  return keys
    .deriveAll(`mailkeep fleet ${use} lookup 1`)
    .map((key) => createHmac('sha256', key).update(secret).digest());
}

/** Returns the key for tokens of forms, which all nodes have in common. */
export function formKey(keys: FleetKeys): Buffer {
  return keys.deriveOldest('mailkeep fleet forms 1');
}

export interface NewGrant {
  readonly use: SecretUse;
  readonly tenant: string | null;
  readonly name: string;
  readonly rights: Rights;
  readonly expiresAt: Date | null;
}

/**
 * Adds an API token, or the code of a sign-in link, which is used once. Only a keyed hash is stored.
 *
 * @returns the secret: 256 random bits
 */
export async function addGrant(
  registry: Registry,
  keys: FleetKeys,
  { use, tenant, name, rights, expiresAt }: NewGrant,
): Promise<{ readonly id: string; readonly secret: string }> {
  const id = randomUUID();
  const secret = `${use === 'token' ? 'mk_' : ''}${randomBytes(32).toString('base64url')}`;
  const [lookup] = lookups(keys, use, secret);
  const kind = use === 'token' ? 'api' : 'web';
  const grants = JSON.stringify(rightsShape.parse(rights));
  await registry.transaction('add a grant', async (tx) => {
    await sql`INSERT INTO token (id, lookup, kind, tenant, name, grants, expires_at)
      VALUES (${id}, ${lookup}, ${kind}, ${tenant}, ${name}, ${grants}::jsonb,
        ${expiresAt}::timestamptz)`.execute(tx);
    await addEvent(tx, { who: name, what: `token-${kind}`, facts: { id, tenant } });
  });
  return { id, secret };
}

/** Refused if it is not valid any more. */
export async function revokeGrant(registry: Registry, id: string, who: string): Promise<Outcome> {
  return refusable(registry, 'revoke a grant', async (tx) => {
    const revoked = sql`UPDATE token SET revoked_at = clock_timestamp()
      WHERE id = ${id} AND revoked_at IS NULL RETURNING id`;
    await one(tx, revoked, 'state');
    await addEvent(tx, { who, what: 'token-revoked', facts: { id } });
    return {};
  });
}

/** Condition that a token is valid. A revocation counts once it is committed, so nothing of it is cached. */
const VALID = sql`t.revoked_at IS NULL AND coalesce(t.expires_at > clock_timestamp(), true)`;
const GRANT = sql`t.id, t.tenant, t.name, t.grants, t.created_at AS "createdAt",
  t.used_at AS "usedAt", t.expires_at AS "expiresAt"`;
/** Condition that a token covers an account. */
const COVERS = sql`a.state <> 'removed' AND (t.tenant IS NULL OR a.tenant = t.tenant)
  AND (t.grants -> 'accounts' = 'null'::jsonb OR t.grants -> 'accounts' @> to_jsonb(a.id))`;

type GrantRow = Omit<Grant, keyof Rights> & { readonly grants: unknown };

function grantOf(row: GrantRow): Grant | undefined {
  const { id, tenant, name, createdAt, usedAt, expiresAt, grants } = row;
  const { data } = rightsShape.safeParse(grants);
  return data && { id, tenant, name, createdAt, usedAt, expiresAt, ...data };
}

/** Returns the valid session or token of a secret, and records its use. */
export async function findGrant(
  registry: Registry,
  keys: FleetKeys,
  use: SecretUse,
  secret: string,
): Promise<Grant | undefined> {
  // Anybody may send anything, and connections are few.
  if (!/^(?:mk_)?[\w-]{43}$/.test(secret)) return undefined;
  const [row] = await registry.read<GrantRow & { isOld: boolean }>(
    'find a grant',
    sql`SELECT ${GRANT}, coalesce(t.used_at < clock_timestamp() - ${interval(USE_RECORD_MS)}, true)
        AS "isOld"
      FROM token t WHERE t.lookup = ANY(${lookups(keys, use, secret)}::bytea[]) AND ${VALID}`,
  );
  if (row === undefined) return undefined;
  if (row.isOld) await recordUse(registry, row.id);
  return grantOf(row);
}

/** Returns the valid sessions and tokens, the newest first. @param tenant undefined for all */
export async function listGrants(registry: Registry, tenant: string | undefined) {
  const rows = await registry.read<GrantRow & { kind: 'api' | 'web' }>(
    'list grants',
    sql`SELECT ${GRANT}, t.kind FROM token t
      WHERE ${VALID} AND (${tenant ?? null}::text IS NULL OR t.tenant = ${tenant ?? null})
      ORDER BY t.created_at DESC, t.id`,
  );
  return rows.flatMap((row) => {
    const grant = grantOf(row);
    return grant === undefined ? [] : [{ kind: row.kind, ...grant }];
  });
}

export async function recordUse(registry: Registry, grant: string): Promise<void> {
  await registry.statement(
    'record the use of a grant',
    sql`UPDATE token SET used_at = clock_timestamp() WHERE id = ${grant}`,
  );
}

/** Starts a session with the code of a sign-in link, which is used up. Refused if the code is not valid. */
export async function redeemLink(
  registry: Registry,
  keys: FleetKeys,
  code: string,
  agent: string,
  sessionMs: number,
): Promise<Outcome<{ secret: string }>> {
  const secret = randomBytes(32).toString('base64url');
  const [lookup] = lookups(keys, 'session', secret);
  return refusable(registry, 'redeem a sign-in link', async (tx) => {
    const begun = sql<{ tenant: string | null; id: string }>`
      WITH link AS (UPDATE token t SET revoked_at = clock_timestamp()
        WHERE t.lookup = ANY(${lookups(keys, 'link', code)}::bytea[]) AND ${VALID}
        RETURNING tenant, grants)
      INSERT INTO token (id, lookup, kind, tenant, name, grants, expires_at)
      SELECT ${randomUUID()}, ${lookup}, 'web', tenant, ${agent.slice(0, NAME_LENGTH)}, grants,
        clock_timestamp() + ${interval(sessionMs)} FROM link RETURNING tenant, id`;
    const { id, tenant } = await one(tx, begun, 'state');
    await addEvent(tx, { who: tenant ?? 'operator', what: 'sign-in', facts: { id } });
    return { secret };
  });
}

/** Where an account that a grant covers is read. */
export interface Route {
  readonly account: number;
  readonly name: string;
  readonly shard: number;
  readonly epoch: number;
  /** Session of the holder; null if nobody holds the shard, or its lease was not renewed. */
  readonly session: string | null;
  readonly node: string | null;
  readonly address: string | null;
}

/** At most this many accounts are searched together. */
const MOST_ROUTES = 3_000;

/** Returns where the accounts of a grant are read. @param name of one account; undefined for all */
export async function routesOf(
  registry: Registry,
  grant: string,
  name?: string,
): Promise<readonly Route[]> {
  const named: RawBuilder<unknown> = name === undefined ? sql`true` : sql`a.name = ${name}`;
  return registry.read(
    'find holders',
    sql<Route>`SELECT a.id AS account, a.name, a.shard, s.epoch, w.session, w.node, w.address
      FROM token t JOIN account a ON ${COVERS} JOIN shard s ON s.id = a.shard
      LEFT JOIN worker w ON w.session = s.holder AND NOT w.dead
        AND w.lease_until > clock_timestamp()
      WHERE t.id = ${grant} AND ${VALID} AND ${named} ORDER BY a.id LIMIT ${MOST_ROUTES}`,
  );
}

/** Which mailboxes an account mirrors: its credentials may reach those of other accounts as well. */
const selectionShape = z
  .object({
    include: z.array(z.string()).default(['*']),
    exclude: z.array(z.string()).default([]),
  })
  .nullish()
  .transform((selection) => selection ?? { include: ['*'], exclude: [] })
  .catch({ include: [], exclude: [] });

export interface CoveredAccount {
  readonly account: number;
  readonly tenant: string;
  readonly name: string;
  readonly mailboxes: z.output<typeof selectionShape>;
}

/** What a grant covers in a shard. */
export interface Reader {
  readonly grant: Grant;
  /** The session that passes on the request has not ended. */
  readonly isSenderAlive: boolean;
  readonly accounts: readonly CoveredAccount[];
}

/**
 * Looks up a grant for the holder of a shard. Undefined if it is not valid, or covers nothing there.
 *
 * @param session null if the grant's own certificate was shown
 */
export async function readerOf(
  registry: Registry,
  { grant, account, shard }: { grant: string; account: number | null; shard: number },
  session: string | null,
): Promise<Reader | undefined> {
  type Covered = GrantRow & {
    lives: boolean;
    covered: Omit<CoveredAccount, 'mailboxes'>;
    boxes: unknown;
  };
  const rows = await registry.read<Covered>(
    'look up a grant',
    sql`SELECT ${GRANT}, ${LIVES(session)} AS lives,
        json_build_object('account', a.id, 'tenant', a.tenant, 'name', a.name) AS covered,
        a.settings -> 'mailboxes' AS boxes
      FROM token t JOIN account a ON ${COVERS}
      WHERE t.id = ${grant} AND ${VALID} AND a.shard = ${shard}
        AND (${account}::bigint IS NULL OR a.id = ${account}) ORDER BY a.id`,
  );
  const [first] = rows;
  const found = first && grantOf(first);
  if (first === undefined || found === undefined) return undefined;
  const accounts = rows.map(({ covered, boxes }) => ({
    ...covered,
    mailboxes: selectionShape.parse(boxes),
  }));
  return { grant: found, isSenderAlive: first.lives, accounts };
}

const LIVES = (session: RawBuilder<unknown> | string | null) =>
  sql`(${session}::uuid IS NULL OR EXISTS (SELECT 1 FROM worker w
    WHERE w.session = ${session}::uuid AND NOT w.dead))`;

/** Returns which of some grants are valid, of those whose session lives. In the order given. */
export async function areValid(
  registry: Registry,
  open: readonly { readonly grant: string; readonly session: string | null }[],
): Promise<readonly boolean[]> {
  const rows = await registry.read(
    'look at open answers',
    sql<{ isValid: boolean }>`
      SELECT EXISTS (SELECT 1 FROM token t WHERE t.id = o.grant_id AND ${VALID})
        AND ${LIVES(sql`o.session`)} AS "isValid"
      FROM unnest(${open.map(({ grant }) => grant)}::uuid[],
        ${open.map(({ session }) => session)}::uuid[]) WITH ORDINALITY AS o (grant_id, session, at)
      ORDER BY o.at`,
  );
  return rows.map(({ isValid }) => isValid);
}
