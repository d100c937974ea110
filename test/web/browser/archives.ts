import { cpSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Sandbox, startSandbox } from '../../../src/sandbox/sandbox.ts';
import type { Folder } from '../../../src/sandbox/store.ts';
import { mailkeep, type Workplace, workplace } from '../../cli/child.ts';
import { letter } from '../served.ts';
import type { HostileMail } from './hostile/mails.ts';
import { oncePerRun } from './packed-program.ts';

const DAY = 86_400_000;

async function sync({ config }: Workplace, now?: number, ...more: string[]): Promise<void> {
  const args = ['sync', '--quiet', '--config', config, ...more];
  const clock = now === undefined ? {} : { now: () => now };
  const { code, stderr } = await mailkeep(args, clock);
  // A folder that was just deleted leaves pending deletions.
  if (code !== 0 && code !== 4) throw new Error(`sync ended with ${code}: ${stderr}`);
}

/** Folders whose names are hostile; a file system takes all of them. */
const FOLDERS = [
  '"><img src=x onerror=alert(4217001)>',
  '<script>alert(4217002)<',
  "' onmouseover=alert(4217003) x='",
  'javascript:alert(4217004)',
  '</title><svg onload=alert(4217005)>',
  '&lt;img src=x onerror=alert(4217006)&gt;',
  '{{constructor.constructor(`alert(4217007)`)()}}',
  '\u202e<b onclick=alert(4217008)>',
];

/**
 * Mirrors hostile mails with all that is indexed of them, and imports folders with hostile names.
 *
 * @param more other mail to import: files, or folders of them
 */
export async function hostileArchive(
  mails: readonly HostileMail[],
  more: readonly string[] = [],
): Promise<string> {
  const folder = mkdtempSync(path.join(tmpdir(), 'hostile-'));
  const served = path.join(folder, 'served');
  mkdirSync(served);
  for (const [i, { source }] of mails.entries())
    writeFileSync(path.join(served, `${i}.eml`), source);
  const named = path.join(folder, 'named');
  for (const name of FOLDERS) {
    mkdirSync(path.join(named, name), { recursive: true });
    writeFileSync(path.join(named, name, 'a.eml'), letter(`In ${name.length}`, 'text'));
  }
  const sandbox = await startSandbox({ from: [served] });
  try {
    const place = workplace(sandbox);
    const imported = await mailkeep(['import', '--data', place.data, '--quiet', named, ...more]);
    if (imported.code !== 0) throw new Error(imported.stderr);
    // Reads the attachments of what was imported as well.
    await sync(place);
    return place.data;
  } finally {
    await sandbox.close();
  }
}

/** An archive with a past, whose commits have moments of their own. */
export interface PastArchive {
  readonly data: string;
  /** When the mailboxes were mirrored; milliseconds since the epoch, oldest first. */
  readonly moments: readonly number[];
  /** A moment after all of it, for the server. */
  readonly now: number;
}

const MOMENTS = [
  Date.UTC(2026, 9, 1, 8),
  Date.UTC(2026, 9, 20, 8),
  Date.UTC(2026, 10, 5, 8),
] as const;

/**
 * Two mailboxes over three weeks: mail comes, is read, starred, moved and deleted, and a folder disappears. Made once
 * per run; each caller gets a copy.
 */
export async function pastArchive(messages = 160): Promise<PastArchive> {
  const made = await oncePerRun(`past-${messages}`, () => makePastArchive(messages));
  const data = path.join(mkdtempSync(path.join(tmpdir(), 'past-')), 'archive');
  cpSync(made, data, { recursive: true });
  return { data, moments: MOMENTS, now: MOMENTS[2] + 15 * DAY };
}

async function makePastArchive(messages: number): Promise<string> {
  const [first, second, third] = MOMENTS;
  const sandbox = await startSandbox({
    seed: 11,
    mail: { messages },
    addresses: ['ada@example.org', 'office@example.org'],
    now: () => first - DAY,
  });
  try {
    const place = workplace(sandbox);
    await sync(place, first);
    change(sandbox, 1, first + 9 * DAY);
    await sync(place, second);
    change(sandbox, 2, second + 9 * DAY);
    await sync(place, third);
    // A folder that two passes do not find is gone.
    await sync(place, third + DAY, '--accept-endings');
    return place.data;
  } finally {
    await sandbox.close();
  }
}

/** What happens at the service between two looks; another part of the mail with each step. */
function change({ service: { store } }: Sandbox, step: number, received: number): void {
  for (const mailbox of store.mailboxes.values()) {
    const inbox = store.folderFor(mailbox, 'INBOX');
    const kept = store.folderFor(mailbox, 'INBOX.Kept');
    const passing = store.folderFor(mailbox, 'INBOX.Passing');
    const uids = uidsOf(inbox);
    for (const [i, uid] of uids.entries()) {
      if (i % 20 === step) store.remove(inbox, uid);
      else if (i % 20 === step + 5) store.move(inbox, uid, kept);
      else if (i % 20 === step + 7) store.move(inbox, uid, passing);
      else if (i % 20 === step + 9) store.copy(inbox, uid, kept);
      else if (i % 10 === step + 3) store.changeFlags(inbox, uid, ['\\Flagged'], ['\\Seen']);
    }
    for (let i = 0; i < 4; i += 1) {
      const subject = `Step ${step} number ${i}`;
      const source = Buffer.from(
        letter(subject, `It came at step ${step}.`, [`X-Of: ${mailbox.address}`]),
      );
      store.add(inbox, source, received + i * 3_600_000, i % 2 === 0 ? ['\\Seen'] : []);
    }
    if (step === 2) store.deleteFolder(mailbox, 'INBOX.Passing');
  }
}

function uidsOf(folder: Folder): number[] {
  return [...folder.entries()].map(({ uid }) => uid);
}
