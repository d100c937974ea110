import type { RequestReport } from '../../api/exchange.ts';
import type { AccountSettings, Settings } from '../../config/settings.ts';
import { systemClock } from '../../limiter/clock.ts';
import { Limiter } from '../../limiter/limiter.ts';
import type { ProgressListener } from '../../sync/progress.ts';
import type { AccountToSync } from '../../sync/run-sync.ts';
import type { CommandContext } from '../context.ts';
import { type EventLog, openLog } from '../log.ts';
import { showProgress } from '../progress/sync-progress.ts';
import { type Narrowing, wantedOf } from '../sync-selection.ts';
import { openOrigin } from './origin.ts';
import { RequestCounts } from './request-counts.ts';
import type { Writer } from './writer.ts';

/** The accounts of a command with their services open, and what is seen of the asking. */
export interface OpenAccounts {
  readonly accounts: readonly AccountToSync[];
  readonly requests: RequestCounts;
  readonly progress: ProgressListener;
  /** Clears the progress: to be called before a result is printed. */
  readonly stopProgress: () => void;
  readonly events: EventLog;
}

/**
 * Opens the services of the chosen accounts behind one limiter, for as long as `act` takes. Progress goes to
 * standard error, or a log of JSON Lines instead.
 */
export async function withOrigins<T>(
  context: CommandContext,
  settings: Settings,
  chosen: readonly AccountSettings[],
  narrowing: Narrowing,
  writer: Writer,
  logged: boolean,
  act: (open: OpenAccounts) => Promise<T>,
): Promise<T> {
  const { requestsPerMinute } = settings.rateLimit;
  const events = await openLog(context.notices.stream, logged ? settings.log.level : 'silent');
  const shown = logged
    ? { listen: events.progress, stop: () => {} }
    : await showProgress(context.notices, context.now, requestsPerMinute);
  const requests = new RequestCounts(shown.listen);
  const limiter = new Limiter({
    policy: settings.rateLimit,
    clock: { ...systemClock, now: context.now },
    store: {
      load: (key) => writer.state.get('limiter', key),
      save: (key, state) => writer.state.set('limiter', key, state),
    },
    onWait: ({ host, until, reason }) =>
      shown.listen({ event: 'waiting', account: host, until, reason }),
  });
  const wanted = wantedOf(chosen, narrowing);
  const opened = chosen.map((account) => {
    const onRequest = (report: RequestReport): void => {
      requests.add(account.name, report.operation);
      events.request(report);
    };
    const { env } = context.surroundings;
    const { spoolDir } = writer;
    const { origin, close } = openOrigin({ account, env, limiter, spoolDir, onRequest });
    return { name: account.name, wanted: wanted(account), origin, close };
  });
  try {
    return await act({
      accounts: opened,
      requests,
      progress: shown.listen,
      stopProgress: () => shown.stop(),
      events,
    });
  } finally {
    shown.stop();
    await Promise.all(opened.map(({ close }) => close()));
    limiter.save();
  }
}
