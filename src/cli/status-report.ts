import { isImported } from '../mail/imported.ts';
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
    ...attachmentLine(status.attachments),
    ...status.budget.flatMap((budget) => budgetLine(budget, now)),
    ...status.mailboxes.flatMap((mailbox) => [
      '',
      mailboxLine(mailbox, stale.includes(mailbox.address), now, colours),
      ...quotaLine(mailbox),
      ...mailbox.folders.map((folder) => folderLine(folder, isImported(mailbox), now, colours)),
    ]),
    ...staleLine(stale, colours),
  ].join('\n');
}

/** Last, where it is seen: what monitoring was told of. */
function staleLine(stale: readonly string[], colours: Colours): string[] {
  if (stale.length === 0) return [];
  return ['', colours.red(`Stale: ${stale.map(terminalLine).join(', ')}`)];
}

/** What is stored and cannot be found by its words yet. */
export function notSearchableText(pending: number): string {
  return `${counted(pending, 'message')} not searchable yet: the next sync goes on`;
}

function attachmentLine({ pending, done, failed }: ArchiveStatus['attachments']): string[] {
  if (pending + done + failed === 0) return [];
  const parts = [
    `${count(done)} searchable`,
    ...(pending > 0 ? [`${count(pending)} to be read by the next sync`] : []),
    ...(failed > 0 ? [`${count(failed)} not readable`] : []),
  ];
  return [`text of attachments: ${parts.join(', ')}`];
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
  mailbox: MailboxStatus,
  stale: boolean,
  now: number,
  colours: Colours,
): string {
  const { address, messages, provenAt, complete } = mailbox;
  const age = isImported(mailbox)
    ? 'imported'
    : provenAt === null
      ? 'not wholly compared yet'
      : `compared ${span(now - Date.parse(provenAt))} ago`;
  const proof = `${age}${complete ? ', complete' : ''}${mailbox.unwatched ? ', unwatched' : ''}`;
  const shown = stale ? colours.red(`${proof}: STALE`) : complete ? colours.green(proof) : proof;
  return `${colours.bold(terminalLine(address))}  ${counted(messages, 'message')}, ${shown}`;
}

/** Flags that are compared in the same pass as the rest are not worth a word. */
const OLDER_MS = 60_000;

/** How old a folder's proof is, and that of its flags where a plain pass did not show them all. */
function proofParts({ provenAt, flagsAt }: FolderStatus, now: number): string[] {
  if (provenAt === null) return ['never compared'];
  const age = (at: string): string => span(now - Date.parse(at));
  const flags =
    flagsAt === null
      ? ', older flags never'
      : Date.parse(provenAt) - Date.parse(flagsAt) > OLDER_MS
        ? `, all flags ${age(flagsAt)} ago`
        : '';
  return [`compared ${age(provenAt)} ago${flags}`];
}

function folderLine(
  folder: FolderStatus,
  imported: boolean,
  now: number,
  colours: Colours,
): string {
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
    ...(imported ? [] : proofParts(folder, now)),
    ...(folder.unwatched ? ['unwatched'] : []),
  ];
  return `  ${padColumns(terminalLine(folder.folder), 28)}${parts.join(', ')}`;
}
