import { Option } from 'commander';
import type { QuarantineEntry } from '../../catalog/messages.ts';
import { refuseUnknownFolder } from '../../catalog/open-reader.ts';
import { openWriter } from '../../catalog/open-writer.ts';
import { terminalLine } from '../../core/terminal-safe.ts';
import { bytes, counted } from '../../core/text.ts';
import { type IncompleteSelection, selectIncomplete, withReader } from '../archive.ts';
import { type CommandContext, type Flags, invalidUsage, type Register } from '../context.ts';
import { dateText, displayName } from '../output.ts';

const HELP = `
Lists messages that the service shows but that could not be fetched completely: one line each, with the reason
and since when. They block nothing, count as quarantined in the summary of a sync, and are retried: by every
mailkeep sync at once, by the daemon after growing intervals. A message that is fetched leaves the list.

ack silences messages you know about: they are still counted and retried, but a sync that fails on them again
prints nothing about them and exits with code 0. Select with --mailbox, --folder and --uid; --all selects
everything.

EXAMPLES
  mailkeep quarantine
  mailkeep quarantine ack --mailbox anna@example.org --folder INBOX --uid 4711
  mailkeep quarantine ack --all`;

export const register: Register = (command, run) => {
  command
    .argument('[action]', 'ack: silence the selected messages')
    .option('--mailbox <address>', 'only this mailbox (address or resource id)')
    .option('--folder <path>', 'only this folder')
    .addOption(new Option('--uid <n>', 'only this uid').argParser(Number))
    .option('--all', 'with ack: everything in quarantine')
    .addHelpText('after', HELP)
    .action((name: string | undefined, options: IncompleteSelection & Flags<'all'>) =>
      run((context) =>
        name === undefined ? listQuarantine(context, options) : acknowledge(context, name, options),
      ),
    );
};

/**
 * Acknowledges incomplete messages. They still count as incomplete.
 * @throws usage-invalid for another action, without a selection, or if it selects nothing
 */
async function acknowledge(
  context: CommandContext,
  action: string,
  { all = false, ...choice }: IncompleteSelection & Flags<'all'>,
): Promise<void> {
  const invalid = (problem: string) => invalidUsage('quarantine', problem);
  if (action !== 'ack') throw invalid(`unknown action '${action}'. Did you mean ack?`);
  const options = [choice.mailbox, choice.folder, choice.uid];
  const chosen = options.some((option) => option !== undefined);
  if (chosen === all) {
    throw invalid('choose by --mailbox, --folder and --uid, or everything by --all.');
  }
  // Opening a reader locates the archive and reports a missing one.
  const dataDir = await withReader(context, (reader) => {
    refuseUnknownFolder(reader, { ...choice, deleted: true });
    return reader.dataDir;
  });
  const writer = await openWriter(context, dataDir);
  try {
    const selected = selectIncomplete(writer.catalog, choice);
    if (selected.length === 0 && !all) {
      throw invalid('nothing in quarantine matches; "mailkeep quarantine" lists what is there.');
    }
    const entries = selected.filter(({ acknowledged }) => !acknowledged);
    const batch = writer.log.newBatch();
    for (const { host, mailbox, folder, generation, uid } of entries) {
      batch.addFact({ fact: 'acknowledged', host, mailbox, folder, generation, uid });
    }
    if (entries.length > 0) writer.catalog.foldBatch(await writer.log.commit(batch));
    await context.output.object(
      { acknowledged: entries.length },
      () => `${counted(entries.length, 'message')} in quarantine silenced.`,
    );
  } finally {
    await writer.close();
  }
}

async function listQuarantine(context: CommandContext, choice: IncompleteSelection): Promise<void> {
  return withReader(context, async (reader) => {
    // The entry's folder may have been deleted.
    refuseUnknownFolder(reader, { ...choice, deleted: true });
    const all = reader.catalog.quarantine.open();
    const entries = selectIncomplete(reader.catalog, choice);
    for (const entry of entries) {
      await context.output.line(lineOf(entry), () => textOf(entry));
    }
    if (all.length === 0) context.notices.say('Nothing is in quarantine.');
    else if (entries.length === 0)
      context.notices.say('Nothing in quarantine matches your selection.');
  });
}

/** Times are ISO 8601 in UTC. `kept` is the hash of the bytes received. */
function lineOf(entry: QuarantineEntry) {
  return {
    mailbox: entry.address,
    folder: entry.folder,
    uid: entry.uid,
    reason: entry.reason,
    detail: entry.detail,
    size: entry.size,
    date: entry.date === null ? null : new Date(entry.date).toISOString(),
    subject: entry.subject,
    messageId: entry.messageId,
    since: new Date(entry.since).toISOString(),
    acknowledged: entry.acknowledged,
    kept: entry.kept,
  };
}

function textOf(entry: QuarantineEntry): string {
  const { address, folder, uid, subject, reason, detail, size, since, acknowledged } = entry;
  const place = displayName(address, folder, String(uid));
  const why = terminalLine(`${reason}: ${detail}`);
  const note = acknowledged ? ', acknowledged' : '';
  return `${dateText(new Date(since).toISOString())}  ${place}  ${terminalLine(subject ?? '(no subject)')} (${bytes(size)}): ${why}${note}`;
}
