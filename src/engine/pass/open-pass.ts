import type { RequestReport } from '../../api/exchange.ts';
import type { AccountSettings, Settings } from '../../config/settings.ts';
import { systemClock } from '../../limiter/clock.ts';
import type { ProgressListener } from '../../sync/progress.ts';
import type { AccountToSync } from '../../sync/run-sync.ts';
import type { Writer } from '../archive/writer.ts';
import type { EngineContext } from '../context.ts';
import { AccountOrigins, limiterStore, PLATFORM_PATIENCE } from '../origins/account-origins.ts';
import { RequestLog } from '../origins/request-log.ts';
import { Meter } from './meter.ts';
import { type Narrowing, wantedOf } from './selection.ts';

/** The accounts of a pass by hand with their services open. */
export interface OpenAccounts {
  readonly accounts: readonly AccountToSync[];
  /** Requests so far, by operation, over all accounts. */
  readonly requests: () => Record<string, number>;
}

/** Those who follow a pass by hand. */
export interface PassListeners {
  readonly progress: ProgressListener;
  readonly request: (report: RequestReport) => void;
}

/** Opens the services of the chosen accounts behind one limiter, for as long as `act` takes. */
export async function withAccounts<T>(
  { surroundings, now }: Pick<EngineContext, 'surroundings' | 'now'>,
  settings: Pick<Settings, 'rateLimit'>,
  chosen: readonly AccountSettings[],
  narrowing: Narrowing,
  writer: Writer,
  { progress, request }: PassListeners,
  act: (open: OpenAccounts) => Promise<T>,
): Promise<T> {
  const wanted = wantedOf(chosen, narrowing);
  const total = new Meter();
  const byAccount = new Map(chosen.map(({ name }) => [name, new Meter()]));
  const origins = new AccountOrigins({
    accounts: chosen,
    rateLimit: settings.rateLimit,
    env: surroundings.env,
    spoolDir: writer.spoolDir,
    clock: { ...systemClock, now },
    store: limiterStore(writer.state),
    requests: new RequestLog(writer.state, settings.rateLimit.requestsPerMinute, now),
    platformRetries: PLATFORM_PATIENCE,
    onWait: ({ host, until, reason }) =>
      progress({ event: 'waiting', account: host, until, reason }),
    onRequest: (account, report) => {
      total.add(report);
      const own = byAccount.get(account);
      own?.add(report);
      const perMinute = origins.get(account)?.requestsPerMinute() ?? 0;
      progress({ event: 'requests', account, requests: own?.requests ?? 0, perMinute });
      request(report);
    },
  });
  const accounts = origins.all().map((account) => ({
    name: account.settings.name,
    wanted: wanted(account.settings),
    origin: origins.fresh(account),
  }));
  try {
    return await act({ accounts, requests: () => total.byOperation() });
  } finally {
    await origins.close();
    origins.save();
  }
}
