import { type Narrowing, refuseUnknownNames } from '../../../engine/pass/selection.ts';
import { combinedExit, EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import type { KnownDamage } from '../../../state/values.ts';
import type { FolderPlan } from '../../../sync/plan/plan-folder.ts';
import type { SyncPlan } from '../../../sync/plan-sync.ts';
import {
  type FolderCertificate,
  isHeldOnly,
  type SyncResult,
  sumOf,
} from '../../../sync/result.ts';
import { bytes, count, counted, span } from '../../../wording/amounts.ts';
import { closingText, pendingText } from '../../../wording/closing-sum.ts';
import type { CommandContext } from '../../context.ts';
import { printError } from '../../notices.ts';
import { present } from '../../output.ts';
import { shownName } from '../../place-line.ts';
import { placesText, timeText } from '../../progress/progress-text.ts';
import { damageTrouble, exitOfSync, type Trouble, troublesOf } from '../../troubles.ts';

/** Returns what a pass did, for people: a line for each mailbox, and the closing sentence with the sums. */
export function syncReport(result: SyncResult): string {
  return [
    ...result.mailboxes.map(mailboxLine),
    ...certificateLines(result.certificates),
    ...excludedLines(result),
    closingLine(result),
  ].join('\n');
}

function mailboxLine(mailbox: SyncResult['mailboxes'][number]): string {
  const changes = present([
    mailbox.added > 0 && `${count(mailbox.added)} new (${bytes(mailbox.bytes)})`,
    mailbox.ended > 0 && `${count(mailbox.ended)} deleted at the service`,
    mailbox.relinked > 0 && `${count(mailbox.relinked)} moved`,
    mailbox.flagsChanged > 0 && `${count(mailbox.flagsChanged)} with other flags`,
    mailbox.quarantined > 0 && `${count(mailbox.quarantined)} incomplete`,
    mailbox.held > 0 && pendingText(mailbox.held),
  ]);
  const address = shownName(mailbox.address);
  const { comparison, compared, folders } = mailbox;
  if (comparison === 'none') return `${address}: ${['not compared', ...changes].join('; ')}`;
  const done = changes.length === 0 ? 'no change' : changes.join(', ');
  if (comparison === 'some') {
    return `${address}: ${done} in ${count(compared)} of ${counted(folders, 'folder')}; the others were not compared`;
  }
  return `${address}: ${done}; ${counted(folders, 'folder')}`;
}

/** Lists every folder whose numbers are not simply "all stored". */
function certificateLines(certificates: readonly FolderCertificate[]): string[] {
  const odd = certificates.filter(
    (folder) => !folder.complete || folder.originTotal !== folder.stored,
  );
  return odd.map(
    (folder) =>
      `${shownName(folder.mailbox, folder.folder)}: ${closingText(folder, folder.originTotal)}${incompleteNote(folder)}`,
  );
}

/** Pending deletions wait for the user or for a later check; the next sync compares everything else again. */
function incompleteNote(folder: FolderCertificate): string {
  if (folder.complete) return '';
  return isHeldOnly(folder)
    ? ' (until accepted, or still gone at a later sync)'
    : ' (not complete; the next sync compares it again)';
}

function excludedLines({ excluded }: SyncResult): string[] {
  if (excluded.length === 0) return [];
  const names = excluded.map(({ mailbox, folder }) => shownName(mailbox, folder));
  return [`Left out by the configuration: ${names.join(', ')}`];
}

function closingLine(result: SyncResult): string {
  const sum = sumOf(result.certificates);
  const proof =
    sum === null
      ? 'No folder was compared'
      : `Total: ${closingText(sum, sum.originTotal)}, in ${counted(sum.folders, 'folder')}${sum.complete ? '' : ', not all of them complete'}`;
  return `${proof}; ${counted(result.requests, 'request')}, ${span(result.durationMs)}.`;
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
};

/** What a pass would do, for people: each folder with the reason and the price, then the sum. */
export function planText(plan: SyncPlan): string {
  const folders = plan.mailboxes.flatMap(({ address, folders: planned, excluded }) => [
    ...planned.map((folder) => {
      const fetch = folder.messages > 0 ? `, fetch ${counted(folder.messages, 'message')}` : '';
      const place = shownName(address, folder.folder);
      return `${place}: ${ACTIONS[folder.action]}${fetch} (${REASONS[folder.reason]}); ${counted(folder.requests, 'request')}`;
    }),
    ...excluded.map((folder) => `${shownName(address, folder)}: left out by the configuration`),
  ]);
  return [
    ...folders,
    `Total: ${placesText(plan.messages)}. ${timeText(plan)} No message was fetched or written.`,
  ].join('\n');
}

/**
 * Prints the result of a pass and names what went wrong. A pass over an archive with known damage ends with 3.
 *
 * @param archive its folder, and what verifications found: null where no damage is known
 * @throws usage-unreachable-mailbox, usage-unlisted-folder
 */
export async function printResult(
  context: CommandContext,
  command: Narrowing,
  result: SyncResult,
  { dataDir, damage }: { readonly dataDir: string; readonly damage: KnownDamage | null },
): Promise<ExitCode> {
  refuseUnknownNames(command, result, dataDir);
  const found = damage === null ? [] : [damageTrouble(damage)];
  const code = combinedExit([exitOfSync(result), ...found.map(({ exit }) => exit)]);
  // Under cron every line becomes a mail: a pass without trouble is none.
  const silent = context.globals.quiet && !context.globals.json && code === EXIT.done;
  const printed = { ...result, sum: sumOf(result.certificates), damage };
  if (!silent) await context.output.object(printed, () => syncReport(result));
  printTroubles(context, [...found, ...troublesOf(result)]);
  return code;
}

/**
 * Prints what a pass would do. Damage that is known is named and ends with 3, as the pass itself would.
 *
 * @param damage what verifications found; null where no damage is known
 */
export async function printPlan(
  context: CommandContext,
  plan: SyncPlan,
  damage: KnownDamage | null,
): Promise<ExitCode> {
  await context.output.object({ ...plan, damage }, () => planText(plan));
  if (damage === null) return EXIT.done;
  const trouble = damageTrouble(damage);
  printTroubles(context, [trouble]);
  return trouble.exit;
}

/** Nobody reads more sentences than this; the result has them all. */
const MOST_SHOWN = 20;

/** Names what went wrong on standard error: every failure for people, the one that counts most for programs. */
function printTroubles({ globals, notices }: CommandContext, troubles: readonly Trouble[]): void {
  for (const trouble of troubles.slice(0, globals.json ? 1 : MOST_SHOWN)) {
    printError(notices.stream, globals.json, trouble);
  }
  const more = troubles.length - MOST_SHOWN;
  if (more > 0) notices.say(`… and ${counted(more, 'more failure')}; --json has them all.`);
}
