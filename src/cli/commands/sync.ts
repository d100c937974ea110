import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import packageJson from '../../../package.json' with { type: 'json' };
import { realFiles } from '../../archive/file-system.ts';
import { isUnused } from '../../archive/recovery.ts';
import { loadSettings } from '../../catalog/archive-settings.ts';
import { openWriter, type Writer } from '../../catalog/open-writer.ts';
import type { AccountSettings, Settings } from '../../core/config-schema.ts';
import { combineExitCodes, describeFacts, EXIT, type ExitCode } from '../../core/errors.ts';
import type { KnownDamage } from '../../core/state.ts';
import { shellWord, terminalLine } from '../../core/terminal-safe.ts';
import {
  bytes,
  consistencyEquation,
  consistencyText,
  count,
  counted,
  pendingText,
  span,
  termsText,
  unverifiedText,
} from '../../core/text.ts';
import { addSums, isHeldOnly, type ListedTotals } from '../../core/types.ts';
import { findControlSocket } from '../../daemon/control-path.ts';
import { planSync } from '../../sync/account-sync.ts';
import type { FolderPlan } from '../../sync/plan/plan-folder.ts';
import {
  type FolderReconciliation,
  recordFailedRun,
  recordSyncRun,
  type SyncPlan,
  type SyncResult,
  storeRun,
  sumOf,
  totalsOf,
} from '../../sync/result.ts';
import { type ConnectedAccounts, syncAccounts, withAccounts } from '../../sync/run-sync.ts';
import {
  chooseAccounts,
  refuseUnknownNames,
  type SyncRestrictions,
  selectMail,
  unmatchedText,
} from '../../sync/selection.ts';
import { readDamage, recallVerification } from '../../verify/verification.ts';
import { action, type CommandContext, type Flags, type Register, type Values } from '../context.ts';
import { collect, FOLDERS } from '../option-values.ts';
import { displayName, joinReport } from '../output.ts';
import { followSyncRun, placesText, type SyncRunProgress, timeText } from '../progress.ts';
import {
  damageProblem,
  listProblems,
  printError,
  type SyncProblem,
  syncExitCode,
} from '../warnings.ts';

/** Returns one line per mailbox, and a final line with totals. */
export function syncReport(result: SyncResult): string {
  return [
    ...result.mailboxes.map((mailbox) => mailboxLine(mailbox, result.mailboxes)),
    ...certificateLines(result.certificates),
    ...excludedLines(result),
    ...(result.unmatched ?? []).map((one) => `Warning: ${terminalLine(unmatchedText(one))}`),
    closingLine(result),
    ...unverifiedLine(result),
  ].join('\n');
}

function mailboxLine(
  mailbox: SyncResult['mailboxes'][number],
  all: SyncResult['mailboxes'],
): string {
  const changes = joinReport([
    mailbox.added > 0 && `${count(mailbox.added)} new (${bytes(mailbox.bytes)})`,
    mailbox.ended > 0 && `${count(mailbox.ended)} deleted at the service`,
    mailbox.relinked > 0 && `${count(mailbox.relinked)} moved`,
    mailbox.flagsChanged > 0 && `${count(mailbox.flagsChanged)} with other flags`,
    mailbox.quarantined > 0 && `${count(mailbox.quarantined)} incomplete`,
    mailbox.held > 0 && pendingText(mailbox.held),
  ]);
  const isShared = all.some((one) => one !== mailbox && one.address === mailbox.address);
  const account = isShared && mailbox.account ? ` (account ${terminalLine(mailbox.account)})` : '';
  const address = `${displayName(mailbox.address)}${account}`;
  const { comparison, compared, folders } = mailbox;
  if (comparison === 'none') return `${address}: ${['not compared', ...changes].join('; ')}`;
  const done = changes.length === 0 ? 'no change' : changes.join(', ');
  if (comparison === 'some') {
    return `${address}: ${done} in ${count(compared)} of ${counted(folders, 'folder')}; the others were not compared`;
  }
  return `${address}: ${done}; ${counted(folders, 'folder')}`;
}

/** Lists folders that are not fully stored. */
function certificateLines(certificates: readonly FolderReconciliation[]): string[] {
  const folders = certificates.filter(
    (folder) => !folder.complete || folder.originTotal !== folder.stored,
  );
  return folders.map(
    (folder) =>
      `${displayName(folder.mailbox, folder.folder)}: ${consistencyText(folder, folder.originTotal)}${incompleteNote(folder)}`,
  );
}

/** Explains why a folder is incomplete. Pending deletions are left; the next sync compares everything else again. */
function incompleteNote(folder: FolderReconciliation): string {
  if (folder.complete) return '';
  return isHeldOnly(folder)
    ? ' (until accepted, or still gone at a later sync)'
    : ' (not complete; the next sync compares it again)';
}

function excludedLines({ excluded }: SyncResult): string[] {
  if (excluded.length === 0) return [];
  const names = excluded.map(({ mailbox, folder }) => displayName(mailbox, folder));
  return [`Left out by the configuration: ${names.join(', ')}`];
}

function closingLine(result: SyncResult): string {
  return `${comparedText(result)}; ${counted(result.requests, 'request')}, ${span(result.durationMs)}.`;
}

function unverifiedLine({ certificates }: SyncResult): string[] {
  const { assumed } = addSums(certificates);
  return assumed === 0 ? [] : [`${unverifiedText(assumed, 'mailkeep verify --origin')}.`];
}

function comparedText({ certificates, mailboxes }: SyncResult): string {
  const sum = sumOf({ certificates, mailboxes });
  if (sum === null) return 'No folder was compared';
  const { compared, folders } = totalsOf(mailboxes, 'compared', 'folders');
  const listed: ListedTotals = {
    messages: sum.originTotal,
    folders,
    unfinished: Math.max(0, folders - compared),
    unreadMailboxes: mailboxes.filter((one) => one.comparison === 'none' && one.folders === 0)
      .length,
  };
  const { unread } = consistencyEquation(sum, listed);
  if (unread !== '') {
    const messages = counted(listed.messages, 'message');
    return `Total: ${termsText(sum)} of at least ${messages} at the service; ${unread}`;
  }
  return `Total: ${consistencyText(sum, sum.originTotal)}, in ${counted(sum.folders, 'folder')}${sum.complete ? '' : ', not all of them complete'}`;
}

const ACTIONS: Readonly<Record<FolderPlan['action'], string>> = {
  nothing: 'nothing to do',
  look: 'look at the newest page',
  search: 'search for what differs',
  walk: 'walk through it',
  sweep: 'read every page',
};

const REASONS: Readonly<Record<FolderPlan['reason'], string>> = {
  empty: 'empty there and here',
  'new-folder': 'not in the archive yet',
  interrupted: 'an earlier sync did not finish it',
  'fewer-at-origin': 'the service counts fewer messages than the archive',
  'more-at-origin': 'the service counts more messages than the archive',
  'unread-differs': 'the service counts other unread messages than the archive',
  full: 'every message and flag is asked for',
  'newest-page': 'counts agree',
  renamed: 'seems to be a renamed folder',
  renumbered: 'its messages were renumbered; known ones are not fetched again',
  unlisted: 'no longer listed; what the archive has of it stays',
};

/** Returns one line per folder with the reason and cost, then the total. */
export function planText(plan: SyncPlan): string {
  const folders = plan.mailboxes.flatMap(({ account, address, folders: planned, excluded }) => [
    ...planned.map((folder) => {
      const { action, reason, messages, bytes: size, requests } = folder;
      const { renamedFrom } = folder;
      const why =
        renamedFrom === undefined
          ? REASONS[reason]
          : `seems to be ${displayName(renamedFrom)}, renamed: then nothing is fetched`;
      const fetch = messages > 0 ? `, fetch ${counted(messages, 'message')}` : '';
      const isShared = plan.mailboxes.some(
        (one) => one.address === address && one.account !== account,
      );
      const suffix = isShared ? ` (account ${terminalLine(account)})` : '';
      const place = `${displayName(address, folder.folder)}${suffix}`;
      // Sources that limit bytes have no planned requests.
      const isMetered = plan.traffic !== undefined && planned.every((one) => one.requests === 0);
      const cost = isMetered
        ? size !== undefined && `about ${bytes(size)}`
        : counted(requests, 'request');
      return joinReport([`${place}: ${ACTIONS[action]}${fetch} (${why})`, cost]).join('; ');
    }),
    ...excluded.map((folder) => `${displayName(address, folder)}: left out by the configuration`),
  ]);
  return [
    ...folders,
    joinReport([
      `Total: ${placesText(plan.messages)}.`,
      timeText(plan) || false,
      'No message was fetched or written.',
    ]).join(' '),
  ].join('\n');
}

/**
 * Prints the result and problems of a sync. Returns exit code 3 if damage is known.
 * @param archive the archive's folder, and damage found by verifications
 * @throws usage-unreachable-mailbox, usage-unlisted-folder
 */
async function printResult(
  context: CommandContext,
  command: SyncRestrictions,
  result: SyncResult,
  { dataDir, damage }: { readonly dataDir: string; readonly damage: KnownDamage | null },
): Promise<ExitCode> {
  refuseUnknownNames(command, result, dataDir);
  const found = damage === null ? [] : [damageProblem(damage)];
  const code = combineExitCodes([syncExitCode(result), ...found.map(({ exit }) => exit)]);
  // Cron mails all output, so a sync without problems prints nothing.
  const silent = context.globals.quiet && !context.globals.json && code === EXIT.done;
  const printed = { ...result, sum: sumOf(result), damage };
  if (!silent) await context.output.object(printed, () => syncReport(result));
  printProblems(context, [...found, ...listProblems(result)]);
  return code;
}

/**
 * Prints the plan of a sync. If damage is known, also prints it and returns 3, as the sync would.
 * @param damage found by verifications
 */
async function printPlan(
  context: CommandContext,
  plan: SyncPlan,
  damage: KnownDamage | null,
): Promise<ExitCode> {
  await context.output.object({ ...plan, damage }, () => planText(plan));
  if (damage === null) return EXIT.done;
  const problem = damageProblem(damage);
  printProblems(context, [problem]);
  return problem.exit;
}

/** Maximum number of problems shown as text. The result contains them all. */
const MAX_SHOWN = 20;

/** Prints problems on standard error. With --json, prints only the most severe one. */
function printProblems(
  { globals, notices }: CommandContext,
  problems: readonly SyncProblem[],
): void {
  for (const problem of problems.slice(0, globals.json ? 1 : MAX_SHOWN)) {
    printError(notices.stream, globals.json, problem);
  }
  const more = problems.length - MAX_SHOWN;
  if (more > 0) notices.say(`… and ${counted(more, 'more failure')}; --json has them all.`);
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

type SyncLine = Flags<'full' | 'acceptEndings' | 'dryRun' | 'log'> &
  Values<'account'> &
  Values<'mailbox' | 'folder', string[]>;

export const register: Register = (command, run) => {
  command
    .option('--account <name>', 'only this account of the configuration')
    .option('--mailbox <address>', 'only this mailbox; repeatable', collect)
    .option(...FOLDERS)
    .option('--full', 'compare every message and flag, not only what counts and newest pages show')
    .option('--accept-endings', 'accept pending deletions')
    .option('--dry-run', 'show what would be done and what it costs, and change nothing')
    .option('--log', 'write a log to standard error as JSON Lines, instead of progress')
    .addHelpText('after', HELP)
    .action(action(run, synchronise));
};

function commandOf({ mailbox: mailboxes = [], folder: folders = [], account, ...line }: SyncLine) {
  const { full = false, dryRun = false, acceptEndings = false, log = false } = line;
  return { account, mailboxes, folders, full, dryRun, acceptEndings, log };
}
type SyncCommand = ReturnType<typeof commandOf>;

async function synchronise(context: CommandContext, line: SyncLine): Promise<ExitCode> {
  const command = commandOf(line);
  const settings = loadSettings(context);
  const accounts = chooseAccounts(settings, command.account);
  const code = await handOver(context, settings, accounts, command);
  if (code !== null) return code;
  const place = command.dryRun ? placeToPlan(settings.dataDir) : { dir: settings.dataDir };
  try {
    const writer = await openWriter(context, place.dir, settings.archive.codec);
    const followed = await followSyncRun(context, settings, command.log);
    try {
      return await withAccounts(context, settings, accounts, command, writer, followed, (open) =>
        command.dryRun
          ? runPlan(context, open, followed, command, writer)
          : runPass(context, settings, open, followed, command, writer),
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
 * Asks a running daemon to sync; returns null if no daemon serves the archive. The daemon uses its own accounts and
 * limits. Interrupting the command only stops the waiting.
 * @throws usage-option for excluded names; errors from the daemon
 */
async function handOver(
  context: CommandContext,
  settings: Settings,
  accounts: readonly AccountSettings[],
  command: SyncCommand,
): Promise<ExitCode | null> {
  const { dataDir } = settings;
  const socket = findControlSocket(dataDir);
  if (socket === null) return null;
  selectMail(accounts, command);
  const { log, ...message } = command;
  const followed = await followSyncRun(context, settings, log);
  const { askSync } = await import('../../daemon/control.ts');
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

/** Returns the archive, or an empty temporary folder if there is no archive. Planning leaves nothing behind. */
function placeToPlan(dataDir: string): { readonly dir: string; readonly leave?: () => void } {
  if (!isUnused(realFiles, dataDir)) return { dir: dataDir };
  const dir = mkdtempSync(path.join(tmpdir(), 'mailkeep-plan-'));
  return { dir, leave: () => rmSync(dir, { recursive: true, force: true }) };
}

async function runPlan(
  context: CommandContext,
  { accounts }: ConnectedAccounts,
  followed: SyncRunProgress,
  { full }: SyncCommand,
  writer: Writer,
): Promise<ExitCode> {
  const plan = await planSync(writer, accounts, full, context.signal);
  followed.stop();
  return printPlan(context, plan, recallVerification(writer.state)?.damage ?? null);
}

async function runPass(
  context: CommandContext,
  settings: Settings,
  open: ConnectedAccounts,
  followed: SyncRunProgress,
  command: SyncCommand,
  writer: Writer,
): Promise<ExitCode> {
  const { progress } = followed;
  const isFirst = writer.catalog.reached().number === 0;
  const names = open.accounts.map(({ name }) => name);
  const result = await recordRun(context, writer, names, () =>
    syncAccounts(context, writer, settings, open, command, progress),
  );
  followed.result(result);
  followed.stop();
  const damage = recallVerification(writer.state)?.damage ?? null;
  const code = await printResult(context, command, result, { dataDir: writer.dataDir, damage });
  const hasMail = result.mailboxes.some(({ added }) => added > 0);
  if (isFirst && hasMail && code === EXIT.done) sayWhatNext(context);
  return code;
}

function sayWhatNext({ globals: { config, data }, notices }: CommandContext): void {
  if (!notices.live) return;
  const options = joinReport([
    config !== undefined && ` --config ${shellWord(config)}`,
    data !== undefined && ` --data ${shellWord(data)}`,
  ]).join('');
  notices.say(`Now: mailkeep search${options} WORDS, or mailkeep web${options}`);
}

async function recordRun(
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
    const record = recordSyncRun(
      result,
      frame(),
      ({ code, facts }) => describeFacts(code, facts).message,
    );
    storeRun(state, record, failed);
    return result;
  } catch (error) {
    storeRun(state, recordFailedRun(error, frame(), words.error(error)), failed);
    throw error;
  }
}
