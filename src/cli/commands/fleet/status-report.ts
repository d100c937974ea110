import { bytes, count, counted, span } from '../../../core/text.ts';
import { type Attention, attentionText } from '../../../fleet/fleet-attention.ts';
import type { Fleet } from '../../../registry/fleet.ts';
import type { Remaining } from '../../../registry/purges.ts';
import type { Replication } from '../../../registry/reading.ts';
import type {
  AccountCount,
  CommitStatus,
  FleetStatus,
  NamedAccount,
  SessionStatus,
  TailStatus,
  UnfinishedPurge,
} from '../../../registry/status.ts';
import { type Colours, joinReport } from '../../output.ts';
import { objectsText, waitingText } from './status-words.ts';

/** Everything that `status` shows. */
export interface ShownStatus {
  readonly fleet: Fleet;
  readonly registry: string;
  readonly status: FleetStatus;
  readonly replication: Replication;
  /** Of each of the oldest unfinished forgets; null for one that is not decided. */
  readonly remaining: readonly (Remaining | null)[];
  readonly attention: readonly Attention[];
}

/** The state of a fleet for people. What needs attention is printed last, where it is noticed. */
export function statusText(shown: ShownStatus, now: number, colours: Colours): string {
  const { fleet, registry, status, replication, remaining, attention } = shown;
  return joinReport([
    `Fleet ${fleet.id}: ${registry}, ${fleet.bucket}`,
    '',
    nodeLines(status.sessions, colours),
    accountLine(status.accounts),
    commitLine(status.commits, now),
    tailLine(status.tail),
    `Objects: ${objectsText(status.objects)}`,
    forgetLines(status.purges.unfinished, status.purges.oldest, remaining),
    status.struck.map(
      ({ node, archives, ageMs }) =>
        `Node ${node} was struck off ${span(ageMs)} ago (copies of ${counted(archives, 'account')})`,
    ),
    replicationLine(replication, colours),
    attention.length > 0 && ['', ...attentionLines(attention, colours)],
  ]).join('\n');
}

/** What monitoring is alerted to. */
export function attentionLines(attention: readonly Attention[], { red }: Colours): string[] {
  return attention.map((found) => red(`ATTENTION: ${attentionText(found)}`));
}

function nodeLines(sessions: readonly SessionStatus[], colours: Colours): string[] {
  if (sessions.length === 0) return ['Nodes: no worker is running'];
  return ['Nodes:', ...sessions.map((session) => `  ${nodeLine(session, colours)}`)];
}

function nodeLine(session: SessionStatus, { red, yellow }: Colours): string {
  const { node, isDead, isDraining, archives, capacity, overMs, egress } = session;
  const held = counted(archives, 'account');
  if (isDead)
    return `${node}: ${red(`dead for ${span(Math.max(0, overMs))}`)}, ${held} to be taken`;
  if (isDraining) return `${node}: ${yellow('draining')}, ${held} left`;
  const from = egress === node ? '' : `, requests from ${egress}`;
  return `${node}: ${count(archives)} of at most ${counted(capacity, 'account')}${from}`;
}

function accountLine(accounts: readonly AccountCount[]): string {
  const sum = (chosen: (one: AccountCount) => boolean): number =>
    accounts.filter(chosen).reduce((total, one) => total + one.count, 0);
  const active = (holding: AccountCount['holding']) =>
    sum((one) => one.state === 'active' && one.holding === holding);
  const [held, dead, free] = [active('held'), active('dead'), active('free')];
  const [paused, importing, leaving] = [
    sum(({ state }) => state === 'paused'),
    sum(({ state }) => state === 'importing'),
    sum(({ state }) => state === 'leaving'),
  ];
  const unreleased = sum(({ state, holding }) => state !== 'active' && holding === 'held');
  const where = joinReport([
    `${count(held)} held`,
    free > 0 && `${count(free)} free`,
    dead > 0 && `${count(dead)} of dead sessions`,
  ]).join(', ');
  return `Accounts: ${joinReport([
    `${count(held + dead + free)} active (${where})`,
    paused > 0 && `${count(paused)} paused`,
    importing > 0 && `${count(importing)} being imported`,
    leaving > 0 && `${count(leaving)} removed`,
    unreleased > 0 && `${count(unreleased)} of these not let go of yet`,
  ]).join(', ')}`;
}

function commitLine({ newest, oldest, none }: CommitStatus, now: number): string[] {
  if (newest === undefined || oldest === undefined) return [];
  const ago = (one: NamedAccount & { headTime: number }) =>
    `${span(Math.max(0, now - one.headTime))} ago (${nameOf(one)})`;
  const without = none === 0 ? '' : `; ${counted(none, 'account')} without a commit`;
  return [`Last commits: the newest ${ago(newest)}, the oldest ${ago(oldest)}${without}`];
}

function tailLine({ archives, bytes: size, oldest }: TailStatus): string {
  if (oldest === undefined) return 'Commits in PostgreSQL: none';
  return `Commits in PostgreSQL: ${bytes(size)} of ${counted(archives, 'account')}, the oldest for ${span(oldest.ageMs)} (${nameOf(oldest)})`;
}

function forgetLines(
  unfinished: number,
  oldest: readonly UnfinishedPurge[],
  remaining: readonly (Remaining | null)[],
): string[] {
  if (unfinished === 0) return [];
  const rest = unfinished - oldest.length;
  return [
    `Forgets that have not ended: ${count(unfinished)}`,
    ...oldest.map((purge, i) => {
      const begun = purge.purges === null ? 'asked for' : 'decided';
      const waits = waitingText(purge, remaining[i] ?? null);
      return `  ${nameOf(purge)}: ${begun} ${span(purge.ageMs)} ago; it waits for ${waits}`;
    }),
    ...(rest > 0 ? [`  and ${count(rest)} more`] : []),
  ];
}

function replicationLine({ isSynchronous, failedOverMs }: Replication, colours: Colours): string {
  const failover = failedOverMs === undefined ? '' : `; it failed over ${span(failedOverMs)} ago`;
  return isSynchronous
    ? `PostgreSQL: with a synchronous replica${failover}`
    : `PostgreSQL: ${colours.red('NO SYNCHRONOUS REPLICA')}${failover}`;
}

function nameOf({ name, tenant }: NamedAccount): string {
  return `${name}, tenant ${tenant}`;
}
