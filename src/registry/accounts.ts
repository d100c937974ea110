import { type RawBuilder, sql } from 'kysely';
import {
  insertArchive,
  insertSecret,
  type NewArchive,
  type SealedSecret,
  tenantOf,
} from './fleet.ts';
import { type Outcome, outcomeOf, Refusal } from './outcome.ts';
import type { Registry } from './registry.ts';

/** An account that is to be added: its archive, and the name of its tenant. */
export interface NewAccount extends Omit<NewArchive, 'tenant'> {
  readonly tenant: string;
}

/**
 * Adds an account: its tenant unless there is one, its archive without commits, and its secrets. All in one transaction, so
 * that nobody claims an archive whose token is missing. Refused if the tenant has an account of that name.
 *
 * @param seal encrypts the secrets of an archive, whose id is part of what is authenticated
 * @throws outcome-unknown: the account may be there, or come later, whole
 */
export async function addAccount(
  registry: Registry,
  { tenant: tenantName, ...account }: NewAccount,
  seal: (archive: number) => readonly SealedSecret[],
): Promise<Outcome<{ archive: number }>> {
  return outcomeOf(registry, 'add an account', async (tx) => {
    const tenant = await tenantOf(tx, tenantName);
    const { rows } = await insertArchive({ ...account, tenant }).execute(tx);
    const archive = rows[0]?.id;
    if (archive === undefined) throw new Refusal({ by: 'name' });
    for (const secret of seal(archive)) {
      await insertSecret({ ...secret, archive }).execute(tx);
    }
    return { archive };
  });
}

/**
 * `active`: to be mirrored. `paused`: nobody claims it. `leaving`: it is no account of the fleet any more; its data stay.
 * `importing`: its archive comes from elsewhere, and is not complete yet; nobody claims it.
 */
export type AccountState = 'active' | 'paused' | 'leaving' | 'importing';

/**
 * Changes the state of an account. Only what is active is claimed; who holds it learns of the change by `unwantedArchives`,
 * and may still commit until then. Refused if it is in no state that the change begins with.
 *
 * @returns the node that holds it, or null, and how many forgets of it have not ended: they wait until it is active again
 */
export async function changeState(
  registry: Registry,
  archive: number,
  from: readonly AccountState[],
  to: AccountState,
): Promise<Outcome<{ node: string | null; forgets: number }>> {
  const [row] = await registry.statement<{ node: string | null; forgets: number }>(
    'change the state of an account',
    sql`UPDATE archive a SET state = ${to} WHERE id = ${archive} AND state = ANY(${[...from]}::text[])
      RETURNING
        (SELECT w.node FROM worker w WHERE w.session = a.holder AND NOT w.dead) AS node,
        ${unfinishedForgets(sql`a.id`)} AS forgets`,
  );
  return row === undefined ? { outcome: 'fenced', by: 'state' } : { outcome: 'committed', ...row };
}

/** How many forgets of an archive have not ended: purges, and requests that none has carried out yet. */
export function unfinishedForgets(archive: RawBuilder<unknown>): RawBuilder<number> {
  return sql<number>`(
    (SELECT count(*) FROM purge p WHERE p.archive = ${archive} AND p.finished_at IS NULL)
    + (SELECT count(*) FROM forget f WHERE f.archive = ${archive} AND f.purges IS NULL))`;
}
