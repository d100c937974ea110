import { EXIT, type ExitCode } from '../../../core/errors.ts';
import { attentionOf } from '../../../fleet/attention.ts';
import { attentionText } from '../../../fleet/fleet-attention.ts';
import { purgeRemaining, type Remaining } from '../../../registry/purges.ts';
import { replicationOf } from '../../../registry/reading.ts';
import type { Registry } from '../../../registry/registry.ts';
import { fleetStatus, type UnfinishedPurge } from '../../../registry/status.ts';
import type { CommandContext } from '../../context.ts';
import { withFleet } from './open-fleet.ts';
import { attentionLines, type ShownStatus, statusText } from './status-report.ts';

export interface StatusLine {
  /** Milliseconds. */
  readonly maxAge?: number;
}

/** Forgets, and nodes that were struck off, that are shown at most. */
const MOST = 10;

/** `mailkeep fleet status`: ends with 1 if something needs attention. */
export async function statusCommand(
  context: CommandContext,
  { maxAge }: StatusLine,
): Promise<ExitCode> {
  const { output, now, globals } = context;
  return withFleet(context, async ({ registry, fleet }) => {
    const staleBefore = maxAge === undefined ? 0 : now() - maxAge;
    const status = await fleetStatus(registry, { staleBefore, most: MOST });
    const replication = await replicationOf(registry);
    const remaining = await remainingOf(registry, status.purges.oldest);
    const attention = attentionOf(status, replication, maxAge !== undefined);
    const shown = { fleet, registry: registry.label, status, replication, remaining, attention };
    // Under cron every line becomes a mail: a check that finds nothing wrong prints none.
    const isSilent = globals.quiet && !output.json && attention.length === 0;
    if (!isSilent) {
      await output.object(factsOf(shown), () =>
        globals.quiet
          ? attentionLines(attention, output.colours).join('\n')
          : statusText(shown, now(), output.colours),
      );
    }
    return attention.length === 0 ? EXIT.done : EXIT.failures;
  });
}

async function remainingOf(registry: Registry, purges: readonly UnfinishedPurge[]) {
  const found: (Remaining | null)[] = [];
  for (const { archive, purges: number, holder } of purges) {
    found.push(number === null ? null : await purgeRemaining(registry, archive, number, holder));
  }
  return found;
}

function factsOf({ fleet, registry, status, replication, remaining, attention }: ShownStatus) {
  const { sessions, accounts, commits, tail, objects, purges, struck } = status;
  const { newest, oldest } = commits;
  const commitOf = (one: typeof newest) =>
    one === undefined
      ? null
      : { account: one.name, tenant: one.tenant, at: new Date(one.headTime).toISOString() };
  return {
    ...{ fleet: fleet.id, registry, store: fleet.bucket },
    attention: attention.map((found) => ({ code: found.code, message: attentionText(found) })),
    sessions: sessions.map(({ session, node, egress, capacity, isDraining, isDead, archives }) => ({
      ...{
        session,
        node,
        egress,
        capacity,
        draining: isDraining,
        dead: isDead,
        accounts: archives,
      },
    })),
    accounts,
    newestCommit: commitOf(newest),
    oldestCommit: commitOf(oldest),
    withoutCommits: commits.none,
    tail: {
      ...{ accounts: tail.archives, bytes: tail.bytes },
      oldest:
        tail.oldest === undefined
          ? null
          : {
              account: tail.oldest.name,
              tenant: tail.oldest.tenant,
              seconds: seconds(tail.oldest.ageMs),
            },
    },
    objects,
    forgets: {
      unfinished: purges.unfinished,
      oldest: purges.oldest.map(({ name, tenant, purges: number, state, holder, ageMs }, i) => ({
        ...{ account: name, tenant, state, held: holder !== null, seconds: seconds(ageMs) },
        decided: number !== null,
        waitsFor: remaining[i] ?? null,
      })),
    },
    replication: {
      synchronous: replication.isSynchronous,
      failedOverSeconds:
        replication.failedOverMs === undefined ? null : seconds(replication.failedOverMs),
    },
    struckNodes: struck.map(({ node, archives, ageMs }) => ({
      ...{ node, accounts: archives, seconds: seconds(ageMs) },
    })),
  };
}

function seconds(ms: number): number {
  return Math.round(ms / 1000);
}
