import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { isUnused } from '../archive/read/format-file.ts';
import { freeBytes } from '../archive/files/free-space.ts';
import { realFiles } from '../archive/files/real-files.ts';
import type { Settings } from '../config/settings.ts';
import { recalledVerification } from '../health/verification.ts';
import { createIndexer } from '../indexer/indexer.ts';
import { systemClock } from '../limiter/clock.ts';
import { openExtractorPool } from '../mime/extractor-pool.ts';
import { catalogMirror } from '../sync/apply/catalog-mirror.ts';
import { BY_HAND } from '../sync/apply/pass-context.ts';
import { planSync } from '../sync/plan-sync.ts';
import { runSync } from '../sync/run-sync.ts';
import { attachmentReading } from './compose/attachment-reading.ts';
import { settingsOf } from './compose/settings.ts';
import { tidy } from './compose/tidy.ts';
import { type OpenAccounts, withOrigins } from './compose/with-origins.ts';
import { openWriter, type Writer } from './compose/writer.ts';
import type { CommandContext } from './context.ts';
import type { ExitCode } from './exit-codes.ts';
import { handOver } from './hand-over.ts';
import { chosenAccounts, type Narrowing } from './sync-selection.ts';
import { tellPlan, tellResult } from './tell-result.ts';

export interface SyncCommand extends Narrowing {
  readonly full: boolean;
  readonly dryRun: boolean;
  readonly acceptEndings: boolean;
  /** A log of JSON Lines on standard error instead of progress. */
  readonly log: boolean;
}

/** `mailkeep sync`: one pass over the accounts of the configuration. */
export async function synchronise(
  context: CommandContext,
  command: SyncCommand,
): Promise<ExitCode> {
  const settings = settingsOf(context);
  const chosen = chosenAccounts(settings, command.account);
  const handed = await handOver(context, settings, chosen, command);
  if (handed !== null) return handed;
  const place = command.dryRun ? placeToPlan(settings.dataDir) : { dir: settings.dataDir };
  try {
    const writer = await openWriter(context, place.dir, settings.archive.codec);
    try {
      return await withOrigins(context, settings, chosen, command, writer, command.log, (open) =>
        command.dryRun
          ? planned(context, settings, open, command, writer)
          : passed(context, settings, open, command, writer),
      );
    } finally {
      await writer.close();
    }
  } finally {
    place.leave?.();
  }
}

/** Where there is no archive yet, a plan leaves none: it is made against an empty one elsewhere. */
function placeToPlan(dataDir: string): { readonly dir: string; readonly leave?: () => void } {
  if (!isUnused(realFiles, dataDir)) return { dir: dataDir };
  const dir = mkdtempSync(path.join(tmpdir(), 'mailkeep-plan-'));
  return { dir, leave: () => rmSync(dir, { recursive: true, force: true }) };
}

async function planned(
  context: CommandContext,
  settings: Settings,
  { accounts, stopProgress }: OpenAccounts,
  { full }: SyncCommand,
  writer: Writer,
): Promise<ExitCode> {
  const plan = await planSync({
    accounts,
    mirror: catalogMirror(writer.catalog),
    memory: writer.state,
    requestsPerMinute: settings.rateLimit.requestsPerMinute,
    full,
    signal: context.signal,
  });
  stopProgress();
  return tellPlan(context, plan, recalledVerification(writer.state)?.damage ?? null);
}

async function passed(
  context: CommandContext,
  settings: Settings,
  { accounts, requests, progress, stopProgress, events }: OpenAccounts,
  command: SyncCommand,
  writer: Writer,
): Promise<ExitCode> {
  const { dataDir, catalog, sources, log, state } = writer;
  const startedAtCommit = catalog.reached().number;
  const extractor = openExtractorPool();
  const indexing = createIndexer({
    store: catalog.index,
    sources,
    extractor,
    progress: ({ indexed, remaining }) => progress({ event: 'indexing', indexed, remaining }),
  });
  const attachments = attachmentReading(writer, indexing);
  try {
    const result = await runSync({
      accounts,
      order: settings.sync.order,
      first: settings.sync.first,
      requestsPerMinute: settings.rateLimit.requestsPerMinute,
      concurrency: settings.rateLimit.concurrency,
      policy: {
        ...BY_HAND,
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
      indexing,
      tidy: async (signal) => {
        await attachments.read({ signal, forMs: ATTACHMENTS_MS, now: context.now });
        return tidy(writer, startedAtCommit, context.now, signal);
      },
      freeBytes: () => freeBytes(dataDir),
      requests: () => requests.byOperation(),
      now: context.now,
      after: (ms, act) => systemClock.after(ms, act),
      progress,
      signal: context.signal,
    });
    events.result(result);
    stopProgress();
    const damage = recalledVerification(state)?.damage ?? null;
    return await tellResult(context, command, result, { dataDir, damage });
  } finally {
    await Promise.all([extractor.close(), attachments.close()]);
  }
}

/** How long a pass goes on to read attachments, when all messages are searchable; the next pass goes on there. */
const ATTACHMENTS_MS = 10_000;
