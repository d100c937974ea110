import { freeBytes } from '../archive/free-space.ts';
import { dropOldGenerations } from '../archive/old-generations.ts';
import { sealClosedSegments } from '../archive/seal-segment.ts';
import type { AccountSettings, Settings } from '../config/settings.ts';
import { hasCode } from '../errors/mailkeep-error.ts';
import { usageError } from '../errors/usage.ts';
import { createIndexer } from '../indexer/indexer.ts';
import { systemClock } from '../limiter/clock.ts';
import { Limiter } from '../limiter/limiter.ts';
import { openExtractorPool } from '../mime/extractor-pool.ts';
import { catalogMirror } from '../sync/apply/catalog-mirror.ts';
import type { Wanted } from '../sync/apply/survey.ts';
import { type Selection, selects } from '../sync/plan/selection.ts';
import { planSync } from '../sync/plan-sync.ts';
import type { ProgressListener } from '../sync/progress.ts';
import type { SyncResult } from '../sync/result.ts';
import { runSync } from '../sync/run-sync.ts';
import { openOrigin } from './compose/origin.ts';
import { rememberProofs } from './compose/proofs.ts';
import { settingsOf } from './compose/settings.ts';
import { openWriter, type Writer } from './compose/writer.ts';
import type { CommandContext } from './context.ts';
import { EXIT, type ExitCode } from './exit-codes.ts';
import { planText } from './plan-report.ts';
import { showProgress } from './progress/sync-progress.ts';
import { exitOfSync, syncReport } from './sync-report.ts';

export interface SyncCommand {
  readonly account: string | undefined;
  readonly mailboxes: readonly string[];
  readonly folders: readonly string[];
  readonly full: boolean;
  readonly dryRun: boolean;
  readonly acceptEndings: boolean;
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
  const shown = await showProgress(context.notices, context.now, requestsPerMinute);
  const counted = new RequestCounts(shown.listen);
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
  const opened = chosen.map((account) => ({
    account,
    ...openOrigin({
      account,
      env: context.surroundings.env,
      limiter,
      spoolDir: writer.spoolDir,
      onRequest: ({ operation }) => counted.add(account.name, operation),
    }),
  }));
  const accounts = opened.map(({ account, origin }) => ({
    name: account.name,
    wanted: wantedOf(account, command),
    origin,
  }));
  try {
    return command.dryRun
      ? await planned(context, settings, accounts, writer)
      : await passed(context, settings, accounts, command, writer, shown.listen, counted);
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
  counted: RequestCounts,
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
      tidy: (signal) => tidy(writer, startedAtCommit, context.now(), signal),
      freeBytes: () => freeBytes(dataDir),
      requests: () => counted.byOperation(),
      now: context.now,
      after: (ms, act) => systemClock.after(ms, act),
      progress,
      signal: context.signal,
    });
    rememberProofs(state, result, startedAt);
    mindNames(command, result);
    await context.output.object(result, () => syncReport(result));
    return exitOfSync(result);
  } finally {
    await extractor.close();
  }
}

/** From this size on a segment is worth sealing at the end of a pass: a quiet day's mail is not. */
const WORTH_SEALING_BYTES = 8 * 1024 * 1024;

/**
 * Seals what is closed, lets go of what that replaced, and closes the gaps of a first sync. The replaced file goes
 * at once: the sealed one was read back and verified whole, and a reader that has the old one open keeps it, or
 * finds the new one when it looks again. Keeping it would double the disk a first sync needs.
 */
async function tidy(writer: Writer, startedAtCommit: number, now: number, signal: AbortSignal) {
  const { dataDir, log, sources, catalog } = writer;
  await log.rollIfLarger(WORTH_SEALING_BYTES);
  const { sealed } = await sealClosedSegments({ dir: dataDir, before: log.segment, signal });
  const dropped = await dropOldGenerations({ dir: dataDir, now, keepMs: 0 });
  if (sealed.length + dropped.length > 0) sources.refresh();
  if (startedAtCommit > 0 || signal.aborted) return;
  try {
    catalog.compact();
  } catch (error) {
    // Somebody reads: the gaps fill with the mail to come.
    if (!hasCode(error, 'catalog-busy')) throw error;
  }
}

/** Requests that were sent, by operation; those that were tried again count again. */
class RequestCounts {
  readonly #byOperation = new Map<string, number>();
  readonly #byAccount = new Map<string, number>();
  readonly #progress: ProgressListener;

  constructor(progress: ProgressListener) {
    this.#progress = progress;
  }

  add(account: string, operation: string): void {
    this.#byOperation.set(operation, (this.#byOperation.get(operation) ?? 0) + 1);
    const requests = (this.#byAccount.get(account) ?? 0) + 1;
    this.#byAccount.set(account, requests);
    this.#progress({ event: 'requests', account, requests });
  }

  byOperation(): Record<string, number> {
    return Object.fromEntries([...this.#byOperation].sort(([a], [b]) => (a < b ? -1 : 1)));
  }
}

function chosenAccounts(
  { accounts }: Settings,
  name: string | undefined,
): readonly AccountSettings[] {
  if (name === undefined) return accounts;
  const chosen = accounts.filter((account) => account.name === name);
  if (chosen.length === 0) {
    const known = accounts.map((account) => account.name);
    throw usageError('usage-unknown-account', { account: name, known });
  }
  return chosen;
}

/** `--mailbox` and `--folder` narrow what the configuration includes. */
function wantedOf({ mailboxes, folders }: AccountSettings, command: SyncCommand): Wanted {
  return {
    mailboxes: narrowed(mailboxes, command.mailboxes, '--mailbox'),
    folders: narrowed(folders, command.folders, '--folder'),
  };
}

function narrowed(selection: Selection, names: readonly string[], option: string): Selection {
  if (names.length === 0) return selection;
  const leftOut = names.find((name) => !name.includes('*') && !selects(selection, name));
  if (leftOut !== undefined) {
    throw usageError('usage-option', {
      option,
      found: leftOut,
      expected: 'a name that the configuration does not leave out',
    });
  }
  return { include: names, exclude: selection.exclude };
}

/** A name that nothing at the service has would otherwise look like a pass that found all well. */
function mindNames(command: SyncCommand, { mailboxes, certificates, failures }: SyncResult): void {
  if (failures.length > 0) return;
  const [mailbox] = command.mailboxes;
  if (mailbox !== undefined && mailboxes.length === 0) {
    const expected = 'the address of a mailbox that the token reaches';
    throw usageError('usage-option', { option: '--mailbox', found: mailbox, expected });
  }
  const [folder] = command.folders;
  if (folder !== undefined && certificates.length === 0) {
    const expected = 'the path of a folder that the service lists';
    throw usageError('usage-option', { option: '--folder', found: folder, expected });
  }
}
