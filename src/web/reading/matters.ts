import type { Stale } from '../../engine/archive/reader.ts';
import type { ArchiveStatus, MailboxStatus } from '../../engine/status/archive-status.ts';
import { fullnessOf, percentOf } from '../../health/facts.ts';
import { isImported } from '../../mail/imported.ts';
import { counted } from '../../wording/amounts.ts';

/** Something about the archive that a person should know of, and what to do about it. */
export interface Matter {
  readonly level: 'bad' | 'warn';
  readonly title: string;
  readonly text: string;
  /** What may be done about it on the command line, without the program's name; null where time alone helps. */
  readonly command: string | null;
}

/** From here on a mailbox counts as full, in per cent of its quota. */
const FULL_PERCENT = 95;

/** Returns what needs a person, the worst first. Everything is known offline: nothing is asked of the service. */
export function mattersOf(status: ArchiveStatus, behind: Stale | null): Matter[] {
  const { verification, pending, mailboxes } = status;
  const found = verification?.found ?? 0;
  const matters: Matter[] = [];
  if (verification?.ok === false)
    matters.push({
      level: 'bad',
      title: `The archive is damaged: ${counted(found, 'finding')}`,
      text: verification.findings
        .slice(0, 3)
        .map(({ text }) => text)
        .join('. '),
      command: 'verify --repair',
    });
  if (behind !== null)
    matters.push({
      level: 'warn',
      title: 'The catalog lacks the newest mail',
      text: `It has reached commit ${behind.reached} of ${behind.last}; the log has the rest.`,
      command: 'rebuild',
    });
  for (const mailbox of mailboxes) matters.push(...mattersOfMailbox(mailbox));
  if (verification === null && status.messages > 0)
    matters.push({
      level: 'warn',
      title: 'The archive was never verified',
      text: 'A verification reads every byte and compares it with its hash.',
      command: 'verify',
    });
  if (pending > 0)
    matters.push({
      level: 'warn',
      title: `${counted(pending, 'message')} cannot be found by words yet`,
      text: 'Folder, flags, date and size already find them. The next sync indexes them.',
      command: null,
    });
  return matters.toSorted((a, b) => Number(b.level === 'bad') - Number(a.level === 'bad'));
}

function mattersOfMailbox(mailbox: MailboxStatus): Matter[] {
  const { address, quarantined, held, suspendedSince, unwatched, folders } = mailbox;
  const matters: Matter[] = [];
  if (held > 0)
    matters.push({
      level: 'warn',
      title: `${address}: ${counted(held, 'message')} held by the brake`,
      text: 'So many disappeared at the service at once that a later comparison must confirm it.',
      command: 'list --held',
    });
  if (quarantined > 0)
    matters.push({
      level: 'warn',
      title: `${address}: ${counted(quarantined, 'message')} in quarantine`,
      text: 'They could not be fetched completely, and are tried again.',
      command: 'quarantine',
    });
  if (suspendedSince !== null)
    matters.push({
      level: 'warn',
      title: `${address} is suspended at the service`,
      text: `First seen so on ${suspendedSince.slice(0, 10)}. What is archived stays readable.`,
      command: null,
    });
  const full = fullnessOf(mailbox.quota?.resources ?? []);
  if (full !== null && percentOf(full.share) >= FULL_PERCENT)
    matters.push({
      level: 'warn',
      title: `${address} is ${percentOf(full.share)}% full at the service`,
      text: 'A full mailbox receives no mail.',
      command: null,
    });
  const late = folders.filter(({ complete, unwatched: left }) => complete === false && !left);
  if (late.length > 0 && !unwatched && !isImported(mailbox))
    matters.push({
      level: 'warn',
      title: `${address}: ${counted(late.length, 'folder')} not complete`,
      text: `At the last comparison the service had more than the archive: ${late
        .slice(0, 3)
        .map(({ folder }) => folder)
        .join(', ')}${late.length > 3 ? ' and others' : ''}.`,
      command: 'sync',
    });
  return matters;
}
