import { findControlSocket } from '../../../daemon/control-path.ts';
import type { DaemonStatus } from '../../../daemon/status.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import { count, counted, span } from '../../../wording/amounts.ts';
import type { Colours } from '../../output.ts';

/** What a running daemon says of itself; null where none has the archive. */
export async function runningDaemon(dataDir: string): Promise<DaemonStatus | null> {
  const socket = findControlSocket(dataDir);
  if (socket === null) return null;
  const { askStatus } = await import('../../../daemon/control-client.ts');
  return askStatus(socket);
}

/** A running daemon for people: what comes next, what goes on, and what does not. */
export function daemonLines(
  daemon: DaemonStatus | null,
  now: number,
  colours: Colours,
): readonly string[] {
  if (daemon === null) return [];
  const since = span(Math.max(0, now - Date.parse(daemon.startedAt)));
  const next = daemon.schedule.flatMap(({ name, nextAt }) =>
    nextAt === null ? [] : [`${name} in ${span(Math.max(0, Date.parse(nextAt) - now))}`],
  );
  const waiting = Object.values(daemon.waiting).reduce((sum, n) => sum + n, 0);
  const work =
    daemon.underway.length + waiting === 0
      ? []
      : [
          `  ${counted(daemon.underway.length, 'pass', 'passes')} under way, ${count(waiting)} waiting`,
        ];
  return [
    '',
    `daemon ${daemon.pid}, for ${since}; ${next.join(', ')}`,
    ...work,
    ...daemon.accounts.map((account) => accountLine(account, now, colours)),
  ];
}

function accountLine(
  { name, state, since, retryAt, mailboxes, roundMs, everyMs }: DaemonStatus['accounts'][number],
  now: number,
  colours: Colours,
): string {
  const label = `  ${terminalLine(name)}: `;
  const ago = (at: string | null): string =>
    span(at === null ? 0 : Math.max(0, now - Date.parse(at)));
  const retry = retryAt === null ? 0 : Math.max(0, Date.parse(retryAt) - now);
  if (state !== 'ok') {
    const what =
      state === 'refused' ? 'its token has been refused' : 'the service has been unreachable';
    return `${label}${colours.red(`${what} for ${ago(since)}`)}; next attempt in ${span(retry)}`;
  }
  const fresh = [
    ...(roundMs === null ? [] : [`the last round took ${span(roundMs)}`]),
    ...(everyMs === null ? [] : [`one began every ${span(everyMs)}`]),
  ];
  return `${label}${[counted(mailboxes, 'mailbox', 'mailboxes'), ...fresh].join(', ')}`;
}
