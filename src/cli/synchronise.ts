import type { RequestReport } from '../api/exchange.ts';
import { freeBytes } from '../archive/free-space.ts';
import type { AccountSettings, Settings } from '../config/settings.ts';
import { createIndexer } from '../indexer/indexer.ts';
import { systemClock } from '../limiter/clock.ts';
import { Limiter } from '../limiter/limiter.ts';
import { openExtractorPool } from '../mime/extractor-pool.ts';
import { catalogMirror } from '../sync/apply/catalog-mirror.ts';
import { planSync } from '../sync/plan-sync.ts';
import type { ProgressListener } from '../sync/progress.ts';
import type { SyncResult } from '../sync/result.ts';
import { runSync } from '../sync/run-sync.ts';
import { counted } from './amounts.ts';
import { openOrigin } from './compose/origin.ts';
import { rememberProofs } from './compose/proofs.ts';
import { RequestCounts } from './compose/request-counts.ts';
import { settingsOf } from './compose/settings.ts';
import { tidy } from './compose/tidy.ts';
import { openWriter, type Writer } from './compose/writer.ts';
import type { CommandContext } from './context.ts';
import { EXIT, type ExitCode } from './exit-codes.ts';
import { type EventLog, openLog } from './log.ts';
import { planText } from './plan-report.ts';
import { showProgress } from './progress/sync-progress.ts';
import { exitOfSync, syncReport, troublesOf } from './sync-report.ts';
import { chosenAccounts, mindNames, type Narrowing, wantedOf } from './sync-selection.ts';
import { tell } from './tell.ts';

export interface SyncCommand extends Narrowing {
  readonly full: boolean;
  readonly dryRun: boolean;
  readonly acceptEndings: boolean;
  /** A log of JSON Lines on standard error in the place of progress. */
  readonly log: boolean;
}

/** `mailkeep sync`: one pass over the accounts of the configuration. */
export async function synchronise(
  context: CommandContext,
  command: SyncCommand,
): Promise<ExitCode> {
  const settings = settingsOf(context);
  const chosen = chosenAccounts(settings, command.account);
  const writer = await openWriter(context, settings.dataDir);
  try {
    return await withOrigins(context, settings, chosen, command, writer);
  } finally {
    await writer.close();
  }
}

async function withOrigins(
  context: CommandContext,
  settings: Settings,
  chosen: readonly AccountSettings[],
  command: SyncCommand,
  writer: Writer,
): Promise<ExitCode> {
  const { requestsPerMinute } = settings.rateLimit;
  const log = await openLog(context.notices.stream, command.log ? settings.log.level : 'silent');
  const shown = command.log
    ? { listen: log.progress, stop: () => {} }
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
  const wanted = wantedOf(chosen, command);
  const opened = chosen.map((account) => {
    const onRequest = (report: RequestReport): void => {
      requests.add(account.name, report.operation);
      log.request(report);
    };
    const { env } = context.surroundings;
    const { origin, close } = openOrigin({
      account,
      env,
      limiter,
      spoolDir: writer.spoolDir,
      onRequest,
    });
    return { name: account.name, wanted: wanted(account), origin, close };
  });
  try {
    return command.dryRun
      ? await planned(context, settings, opened, writer)
      : await passed(context, settings, opened, command, writer, shown.listen, requests, log);
  } finally {
    shown.stop();
    await Promise.all(opened.map(({ close }) => close()));
    limiter.save();
  }
}

type Accounts = Parameters<typeof runSync>[0]['accounts'];

async function planned(
  context: CommandContext,
  settings: Settings,
  accounts: Accounts,
  writer: Writer,
): Promise<ExitCode> {
  const plan = await planSync({
    accounts,
    mirror: catalogMirror(writer.catalog),
    memory: writer.state,
    requestsPerMinute: settings.rateLimit.requestsPerMinute,
    signal: context.signal,
  });
  await context.output.object(plan, () => planText(plan));
  return EXIT.done;
}

async function passed(
  context: CommandContext,
  settings: Settings,
  accounts: Accounts,
  command: SyncCommand,
  writer: Writer,
  progress: ProgressListener,
  requests: RequestCounts,
  events: EventLog,
): Promise<ExitCode> {
  const { dataDir, catalog, sources, log, state } = writer;
  const startedAt = context.now();
  const startedAtCommit = catalog.reached().number;
  const extractor = openExtractorPool();
  try {
    const result = await runSync({
      accounts,
      order: settings.sync.order,
      requestsPerMinute: settings.rateLimit.requestsPerMinute,
      concurrency: settings.rateLimit.concurrency,
      policy: {
        full: command.full,
        acceptEndings: command.acceptEndings,
        confirmAfterMs: settings.brake.confirmAfterMs,
        brake: settings.brake,
      },
      minFreeBytes: settings.minFreeBytes,
      startedAtCommit,
      log,
      mirror: catalogMirror(catalog),
      memory: state,
      indexing: createIndexer({
        store: catalog.index,
        sources,
        extractor,
        progress: ({ indexed, remaining }) => progress({ event: 'indexing', indexed, remaining }),
      }),
      tidy: (signal) => tidy(writer, startedAtCommit, context.now, signal),
      freeBytes: () => freeBytes(dataDir),
      requests: () => requests.byOperation(),
      now: context.now,
      after: (ms, act) => systemClock.after(ms, act),
      progress,
      signal: context.signal,
    });
    rememberProofs(state, result, startedAt);
    mindNames(command, result);
    const code = exitOfSync(result);
    // Under cron every line becomes a mail: a pass without trouble is none.
    const silent = context.globals.quiet && !context.globals.json && code === EXIT.done;
    if (!silent) await context.output.object(result, () => syncReport(result));
    events.result(result);
    tellTroubles(context, result);
    return code;
  } finally {
    await extractor.close();
  }
}

/** More sentences than this nobody reads; the result has them all. */
const MOST_TOLD = 20;

/** Names what went wrong on standard error: every failure for people, the one that counts most for programs. */
function tellTroubles({ globals, notices }: CommandContext, result: SyncResult): void {
  const troubles = troublesOf(result);
  for (const trouble of troubles.slice(0, globals.json ? 1 : MOST_TOLD)) {
    tell(notices.stream, globals.json, trouble);
  }
  const more = troubles.length - MOST_TOLD;
  if (more > 0) notices.say(`… and ${counted(more, 'more failure')}; --json has them all.`);
}
