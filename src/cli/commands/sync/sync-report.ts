import { combinedExit, EXIT_OF_FAMILY, type ExitCode } from '../../../errors/exit-codes.ts';
import { syncError } from '../../../errors/sync.ts';
import {
  accountedFor,
  addSums,
  differsByHeldOnly,
  type FolderSums,
} from '../../../sync/plan/folder-sums.ts';
import {
  type FolderCertificate,
  isHeldOnly,
  type MailboxResult,
  type SyncFailure,
  type SyncResult,
} from '../../../sync/result.ts';
import { bytes, count, counted, span } from '../../../wording/amounts.ts';
import { sayFacts, sentenceOf } from '../../../wording/sentence-of.ts';
import type { ErrorReport } from '../../notices.ts';
import { shownName } from '../../place-line.ts';

/** Returns the exit code of a pass: by its failures, by what the brake holds and by what is quarantined. */
export function exitOfSync(result: SyncResult): ExitCode {
  return combinedExit(troublesOf(result).map(({ exit }) => exit));
}

/** A problem that a pass reports in addition to its result, and the exit code that it alone would cause. */
export interface Trouble extends ErrorReport {
  readonly exit: ExitCode;
}

/** Returns everything that went wrong in a pass, the problems that decide the exit code first. */
export function troublesOf({ failures, mailboxes }: SyncResult): Trouble[] {
  const held = mailboxes.filter((mailbox) => mailbox.held > 0);
  const quarantined = mailboxes.filter((mailbox) => mailbox.quarantined > 0);
  const sums = [
    ...(held.length === 0
      ? []
      : [
          syncError('sync.held', {
            held: sum(held, 'held'),
            mailboxes: addresses(held),
            until: latest(held),
          }),
        ]),
    ...(quarantined.length === 0
      ? []
      : [
          syncError('sync.quarantined', {
            quarantined: sum(quarantined, 'quarantined'),
            mailboxes: addresses(quarantined),
          }),
        ]),
  ].map((error) => ({ ...sentenceOf(error), exit: EXIT_OF_FAMILY[error.family] }));
  const troubles = [...failures.map(describeFailure), ...sums];
  const worst = combinedExit(troubles.map(({ exit }) => exit));
  return troubles.sort((a, b) => Number(b.exit === worst) - Number(a.exit === worst));
}

function describeFailure(failure: SyncFailure): Trouble {
  const place = shownName(
    ...[failure.mailbox ?? failure.account, failure.folder, failure.uid].flatMap((part) =>
      part === null || part === '' ? [] : [String(part)],
    ),
  );
  const { message, hint } = sayFacts(failure.code, failure.facts);
  return {
    code: failure.code,
    message: place === '' ? message : `${place}: ${message}`,
    hint,
    exit: EXIT_OF_FAMILY[failure.family],
  };
}

function sum(mailboxes: readonly MailboxResult[], field: 'held' | 'quarantined'): number {
  return mailboxes.reduce((total, mailbox) => total + mailbox[field], 0);
}

/** Returns the latest time: ISO times sort as texts. */
function latest(mailboxes: readonly MailboxResult[]): string | null {
  return (
    mailboxes
      .flatMap(({ heldUntil }) => heldUntil ?? [])
      .sort()
      .at(-1) ?? null
  );
}

function addresses(mailboxes: readonly MailboxResult[]): string[] {
  return mailboxes.map(({ address }) => shownName(address));
}

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
  const changes = [
    mailbox.added > 0 ? `${count(mailbox.added)} new (${bytes(mailbox.bytes)})` : '',
    mailbox.ended > 0 ? `${count(mailbox.ended)} ended` : '',
    mailbox.relinked > 0 ? `${count(mailbox.relinked)} moved` : '',
    mailbox.flagsChanged > 0 ? `${count(mailbox.flagsChanged)} with other flags` : '',
    mailbox.quarantined > 0 ? `${count(mailbox.quarantined)} in quarantine` : '',
    mailbox.held > 0 ? `${count(mailbox.held)} held by the brake` : '',
  ].filter((part) => part !== '');
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
      `${shownName(folder.mailbox, folder.folder)}: ${equation(folder.originTotal, folder)}${incompleteNote(folder)}`,
  );
}

/** What the brake holds waits for the user or for its second check; the next sync compares everything else again. */
function incompleteNote(folder: FolderCertificate): string {
  if (folder.complete) return '';
  return isHeldOnly(folder)
    ? ' (held until accepted, or still gone at a later sync)'
    : ' (not complete; the next sync compares it again)';
}

function equation(originTotal: number, sums: FolderSums): string {
  // The origin does not count what the brake keeps current: adding it would only make the sum look wrong.
  const heldApart = differsByHeldOnly(originTotal, sums);
  const parts = [
    `${count(sums.stored)} stored`,
    ...(sums.assumed > 0 ? [`${count(sums.assumed)} assumed`] : []),
    ...(sums.quarantined > 0 ? [`${count(sums.quarantined)} quarantined`] : []),
    ...(sums.held > 0 && !heldApart ? [`${count(sums.held)} held`] : []),
    ...(sums.forgotten > 0 ? [`${count(sums.forgotten)} forgotten`] : []),
  ];
  const sign = heldApart || accountedFor(sums) === originTotal ? '=' : '≠';
  const held = heldApart ? `; ${count(sums.held)} more held by the brake` : '';
  return `${counted(originTotal, 'place')} at the origin ${sign} ${parts.join(' + ')}${held}`;
}

function excludedLines({ excluded }: SyncResult): string[] {
  if (excluded.length === 0) return [];
  const names = excluded.map(({ mailbox, folder }) => shownName(mailbox, folder));
  return [`Left out by the configuration: ${names.join(', ')}`];
}

function closingLine(result: SyncResult): string {
  const originTotal = result.certificates.reduce((sum, folder) => sum + folder.originTotal, 0);
  const complete = result.certificates.every((folder) => folder.complete);
  const proof =
    result.certificates.length === 0
      ? 'No folder was compared'
      : `In all: ${equation(originTotal, addSums(result.certificates))}, in ${counted(result.certificates.length, 'folder')}${complete ? '' : ', not all of them complete'}`;
  return `${proof}; ${counted(result.requests, 'request')}, ${span(result.durationMs)}.`;
}
