import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { Command } from 'commander';
import packageJson from '../../../../package.json' with { type: 'json' };
import { realFiles } from '../../../archive/files/real-files.ts';
import { isUnused } from '../../../archive/read/format-file.ts';
import type { AccountSettings, Settings } from '../../../config/settings.ts';
import { findControlSocket } from '../../../daemon/control-path.ts';
import { openWriter, type Writer } from '../../../engine/archive/writer.ts';
import { syncAccounts } from '../../../engine/pass/make-pass.ts';
import { type OpenAccounts, withAccounts } from '../../../engine/pass/open-pass.ts';
import { keepRun, recordOfFailure, recordOfPass } from '../../../engine/pass/run-record.ts';
import { chosenAccounts, type Narrowing, wantedOf } from '../../../engine/pass/selection.ts';
import { settingsOf } from '../../../engine/settings.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { readDamage, recalledVerification } from '../../../health/verification.ts';
import { shellWord } from '../../../mail/terminal-safe.ts';
import { catalogMirror } from '../../../sync/apply/catalog-mirror.ts';
import { planSync } from '../../../sync/plan-sync.ts';
import type { SyncResult } from '../../../sync/result.ts';
import { sayFacts } from '../../../wording/sentence-of.ts';
import type { Body, CommandContext } from '../../context.ts';
import { collected } from '../../option-values.ts';
import { present } from '../../output.ts';
import { type FollowedPass, followPass } from '../../progress/sync-progress.ts';
import { printPlan, printResult } from './sync-report.ts';

interface SyncCommand extends Narrowing {
  readonly mailboxes: string[];
  readonly folders: string[];
  readonly full: boolean;
  readonly dryRun: boolean;
  readonly acceptEndings: boolean;
  /** A log of JSON Lines on standard error instead of progress. */
  readonly log: boolean;
}

const HELP = `
Makes one pass: lists the mail at the service, fetches what is missing (newest first), and indexes it for search.
You can interrupt it at any time: committed mail is safe, and the next sync continues where this one stopped.
It ends with a summary that adds up: at the service = stored + not yet verified + incomplete + …

Without --full it finds all new mail, every change that affects a folder's counts or its newest page, and the
flags on that page. With --full the mirror is exact afterwards.

If too many messages disappear at once, or a folder, the deletion guard keeps them as pending deletions, and the
exit code is 4. They count as deleted when a sync after brake.confirmAfter finds them still gone, or with
--accept-endings.

With --quiet, a pass without problems prints nothing, so that cron sends no mail.

Names given with --mailbox and --folder may contain * for any text. --folder also takes the purpose of a folder:
sent, drafts, trash, spam (or junk), archive, flagged. They narrow what the configuration includes.

EXAMPLES
  mailkeep sync
  mailkeep sync --dry-run
  mailkeep sync --mailbox anna@example.org --folder INBOX
  mailkeep sync --json --quiet`;

type SyncLine = Partial<Omit<SyncCommand, 'mailboxes' | 'folders'>> & {
  readonly mailbox?: string[];
  readonly folder?: string[];
};

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .option('--account <name>', 'only this account of the configuration')
    .option('--mailbox <address>', 'only this mailbox; repeatable', collected)
    .option(
      '--folder <path>',
      'only this folder: a path, a pattern, or a purpose such as sent; repeatable',
      collected,
    )
    .option('--full', 'compare every message and flag, not only what counts and newest pages show')
    .option('--accept-endings', 'accept pending deletions')
    .option('--dry-run', 'show what would be done and what it costs, and change nothing')
    .option('--log', 'write a log to standard error as JSON Lines, instead of progress')
    .addHelpText('after', HELP)
    .action(({ mailbox = [], folder = [], ...options }: SyncLine) =>
      chosen((context) =>
        synchronise(context, {
          account: options.account,
          mailboxes: mailbox,
          folders: folder,
          full: options.full ?? false,
          dryRun: options.dryRun ?? false,
          acceptEndings: options.acceptEndings ?? false,
          log: options.log ?? false,
        }),
      ),
    );
}

/** `mailkeep sync`: one pass over the accounts of the configuration, by a daemon if one has the archive. */
async function synchronise(context: CommandContext, command: SyncCommand): Promise<ExitCode> {
  const settings = settingsOf(context);
  const chosen = chosenAccounts(settings, command.account);
  const handed = await handOver(context, settings, chosen, command);
  if (handed !== null) return handed;
  const place = command.dryRun ? placeToPlan(settings.dataDir) : { dir: settings.dataDir };
  try {
    const writer = await openWriter(context, place.dir, settings.archive.codec);
    const followed = await followPass(context, settings, command.log);
    try {
      return await withAccounts(context, settings, chosen, command, writer, followed, (open) =>
        command.dryRun
          ? planned(context, open, followed, command, writer)
          : passed(context, settings, open, followed, command, writer),
      );
    } finally {
      followed.stop();
      await writer.close();
    }
  } finally {
    place.leave?.();
  }
}

/**
 * Has a running daemon make the pass, which begins after this call; null where no daemon has the archive. Its accounts
 * and limits are the daemon's own. Interrupted, only the waiting ends.
 *
 * @throws usage-option for names that the configuration leaves out; what goes wrong in the daemon
 */
async function handOver(
  context: CommandContext,
  settings: Settings,
  chosen: readonly AccountSettings[],
  command: SyncCommand,
): Promise<ExitCode | null> {
  const { dataDir } = settings;
  const socket = findControlSocket(dataDir);
  if (socket === null) return null;
  wantedOf(chosen, command);
  const { log, ...message } = command;
  const followed = await followPass(context, settings, log);
  const { askSync } = await import('../../../daemon/control-client.ts');
  const answer = await askSync(socket, message, {
    version: packageJson.version,
    progress: followed.progress,
    signal: context.signal,
  }).finally(followed.stop);
  if (answer === null) return null;
  if ('plan' in answer) return printPlan(context, answer.plan, readDamage(dataDir));
  followed.result(answer.result);
  return printResult(context, command, answer.result, { dataDir, damage: readDamage(dataDir) });
}

/** Where there is no archive yet, a plan leaves none: it is made against an empty one elsewhere. */
function placeToPlan(dataDir: string): { readonly dir: string; readonly leave?: () => void } {
  if (!isUnused(realFiles, dataDir)) return { dir: dataDir };
  const dir = mkdtempSync(path.join(tmpdir(), 'mailkeep-plan-'));
  return { dir, leave: () => rmSync(dir, { recursive: true, force: true }) };
}

async function planned(
  context: CommandContext,
  { accounts }: OpenAccounts,
  followed: FollowedPass,
  { full }: SyncCommand,
  writer: Writer,
): Promise<ExitCode> {
  const plan = await planSync({
    accounts,
    mirror: catalogMirror(writer.catalog),
    memory: writer.state,
    full,
    signal: context.signal,
  });
  followed.stop();
  return printPlan(context, plan, recalledVerification(writer.state)?.damage ?? null);
}

async function passed(
  context: CommandContext,
  settings: Settings,
  open: OpenAccounts,
  followed: FollowedPass,
  command: SyncCommand,
  writer: Writer,
): Promise<ExitCode> {
  const { progress } = followed;
  const isFirst = writer.catalog.reached().number === 0;
  const names = open.accounts.map(({ name }) => name);
  const result = await keptInState(context, writer, names, () =>
    syncAccounts(context, writer, settings, open, command, progress),
  );
  followed.result(result);
  followed.stop();
  const damage = recalledVerification(writer.state)?.damage ?? null;
  const code = await printResult(context, command, result, { dataDir: writer.dataDir, damage });
  const hasMail = result.mailboxes.some(({ added }) => added > 0);
  if (isFirst && hasMail && code === EXIT.done) sayWhatNext(context);
  return code;
}

/** Names the next commands to a person. */
function sayWhatNext({ globals: { config, data }, notices }: CommandContext): void {
  if (!notices.live) return;
  const named = present([
    config !== undefined && ` --config ${shellWord(config)}`,
    data !== undefined && ` --data ${shellWord(data)}`,
  ]).join('');
  notices.say(`Now: mailkeep search${named} WORDS, or mailkeep web${named}`);
}

/** Makes a pass, and keeps in the state what it came to. */
async function keptInState(
  { now, report, words }: Pick<CommandContext, 'now' | 'report' | 'words'>,
  { state }: Pick<Writer, 'state'>,
  accounts: readonly string[],
  pass: () => Promise<SyncResult>,
): Promise<SyncResult> {
  const startedAt = now();
  const account = accounts.length === 1 ? (accounts[0] ?? null) : null;
  const frame = () => ({ kind: 'hand', account, startedAt, endedAt: now() });
  const failed = (error: unknown): void =>
    report({ event: 'state-not-written', what: 'run', error });
  try {
    const result = await pass();
    const record = recordOfPass(
      result,
      frame(),
      ({ code, facts }) => sayFacts(code, facts).message,
    );
    keepRun(state, record, failed);
    return result;
  } catch (error) {
    keepRun(state, recordOfFailure(error, frame(), words.error(error)), failed);
    throw error;
  }
}
