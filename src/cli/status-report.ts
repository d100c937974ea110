import { padColumns, terminalLine } from '../mail/terminal-safe.ts';
import { bytes, count, counted, span } from './amounts.ts';
import type { ArchiveStatus, Budget, FolderStatus, MailboxStatus } from './archive-status.ts';
import type { Colours } from './output.ts';

/** The status for people: the archive in a line, then each mailbox with its folders. */
export function statusText(
  status: ArchiveStatus,
  stale: readonly string[],
  now: number,
  colours: Colours,
): string {
  const disk = status.logBytes + status.catalogBytes;
  return [
    `${status.dataDir}: ${counted(status.messages, 'message')}, ${bytes(status.bytes)} of mail on ${bytes(disk)} of disk; commit ${status.commit.number}`,
    ...(status.pending === 0 ? [] : [notSearchableText(status.pending)]),
    ...(status.unparsed === 0
      ? []
      : [
          `${counted(status.unparsed, 'message')} could not be parsed as mail: found by their headers only`,
        ]),
    ...status.budget.flatMap((budget) => budgetLine(budget, now)),
    ...status.mailboxes.flatMap((mailbox) => [
      '',
      mailboxLine(mailbox, stale.includes(mailbox.address), now, colours),
      ...quotaLine(mailbox),
      ...mailbox.folders.map((folder) => folderLine(folder, colours)),
    ]),
  ].join('\n');
}

/** What is stored and cannot be found by its words yet. */
export function notSearchableText(pending: number): string {
  return `${counted(pending, 'message')} not searchable yet: the next sync goes on`;
}

/** A service that takes requests as fast as configured is not worth a line. */
function budgetLine({ gate, learnedPerMinute, heldUntil }: Budget, now: number): string[] {
  const where = terminalLine(gate);
  const rate =
    learnedPerMinute === null
      ? []
      : [
          `${where}: slowed to ${count(Math.floor(learnedPerMinute))} requests a minute by refusals`,
        ];
  const held = heldUntil === null ? 0 : Date.parse(heldUntil) - now;
  return held > 0 ? [...rate, `${where}: asked to be left alone for ${span(held)} more`] : rate;
}

function quotaLine({ quota }: MailboxStatus): string[] {
  const parts = (quota?.resources ?? []).flatMap(({ name, usage, limit }) => {
    if (limit === null || limit <= 0) return [];
    if (name === 'STORAGE') return [`${bytes(usage)} of ${bytes(limit)}`];
    return name === 'MESSAGE' ? [`${count(usage)} of ${count(limit)} messages`] : [];
  });
  return parts.length === 0 ? [] : [`  quota at the service: ${parts.join(', ')}`];
}

function mailboxLine(
  { address, messages, provenAt, complete }: MailboxStatus,
  stale: boolean,
  now: number,
  colours: Colours,
): string {
  const age =
    provenAt === null
      ? 'not wholly compared yet'
      : `compared ${span(now - Date.parse(provenAt))} ago`;
  const proof = `${age}${complete ? ', complete' : ''}`;
  const shown = stale ? colours.red(`${proof}: STALE`) : complete ? colours.green(proof) : proof;
  return `${colours.bold(terminalLine(address))}  ${counted(messages, 'message')}, ${shown}`;
}

function folderLine(folder: FolderStatus, colours: Colours): string {
  const parts = [
    `${count(folder.messages).padStart(9)}`,
    ...(folder.unread > 0 ? [`${count(folder.unread)} unread`] : []),
    ...(folder.assumed > 0 ? [`${count(folder.assumed)} assumed`] : []),
    ...(folder.held > 0 ? [`${count(folder.held)} held by the brake`] : []),
    ...(folder.ended > 0 ? [`${count(folder.ended)} ended`] : []),
    ...(folder.quarantined > 0
      ? [colours.yellow(`${count(folder.quarantined)} in quarantine`)]
      : []),
    ...(folder.forgotten > 0 ? [`${count(folder.forgotten)} forgotten`] : []),
    ...(folder.complete === false ? [colours.yellow('not complete')] : []),
    ...(folder.provenAt === null ? ['never compared'] : []),
  ];
  return `  ${padColumns(terminalLine(folder.folder), 28)}${parts.join(', ')}`;
}
