import { randomBytes } from 'node:crypto';
import { type Command, Option } from 'commander';
import { realFiles } from '../../../archive/files/real-files.ts';
import type { QuarantineEntry } from '../../../catalog/quarantine.ts';
import { refuseUnknownChoice } from '../../../engine/archive/chosen-names.ts';
import { purgedMessage } from '../../../engine/archive/purged-message.ts';
import { openWriter, type Writer } from '../../../engine/archive/writer.ts';
import { finishPurge } from '../../../engine/purge.ts';
import { EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { retentionError } from '../../../errors/retention.ts';
import { usageError } from '../../../errors/usage.ts';
import { isImported } from '../../../mail/import-host.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import type { MessageId, Place } from '../../../mail/words.ts';
import { journalPurge, type PurgedFact } from '../../../retention/carry-out.ts';
import { purgedFact } from '../../../retention/plan-prune.ts';
import { type Survey, surveyPurge } from '../../../retention/survey.ts';
import { counted } from '../../../wording/amounts.ts';
import { withReader } from '../../archive-access.ts';
import { confirmed } from '../../ask.ts';
import type { Body, CommandContext } from '../../context.ts';
import { oneMessage } from '../../one-message.ts';
import { chosenEntries, type QuarantineChoice } from '../../quarantine-choice.ts';

const HELP = `
Removes messages permanently, for example when somebody with the right to ask requests it: their bytes, the
text taken from them and from their attachments, their words in the index, what was listed about them, bytes
kept aside, and every older file with any of it. The catalog is rebuilt for that, which takes a while. An
attachment that another message shares stays, and that message is named.

What remains is the id, the time, and the places at which the service still shows the message: it is not
fetched there again, and counts as forgotten in the summary of a sync. At another place it is recognised by
its hash and not stored. Exports, second copies, backups and snapshots are not changed: "mailkeep copy"
removes it from a copy.

--quarantine forgets messages that could not be fetched completely; select with --mailbox, --folder and --uid.

After an interruption at any moment, the same command finishes the work.

EXAMPLES
  mailkeep forget 3f2a91c4
  mailkeep forget 3f2a91c4 9b01d7aa --yes
  mailkeep forget --quarantine --mailbox anna@example.org --folder INBOX --uid 4711`;

interface ForgetLine extends QuarantineChoice {
  readonly quarantine?: boolean;
  readonly yes?: boolean;
}

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .argument('[id...]', 'ids of messages, or their beginnings')
    .option('--quarantine', 'forget what is in quarantine')
    .option('--mailbox <address>', 'with --quarantine: this mailbox (address or resource id)')
    .option('--folder <path>', 'with --quarantine: this folder')
    .addOption(new Option('--uid <n>', 'with --quarantine: this uid').argParser(Number))
    .option('--yes', 'do not ask')
    .addHelpText('after', HELP)
    .action((ids: readonly string[], { quarantine = false, yes = false, ...choice }: ForgetLine) =>
      chosen((context) => forget(context, { ids, quarantine, yes, ...choice })),
    );
}

interface ForgetOptions extends QuarantineChoice {
  readonly ids: readonly string[];
  readonly quarantine: boolean;
  readonly yes: boolean;
}

const SHORT = 12;

/**
 * `mailkeep forget`: removes messages with every trace of them.
 *
 * @throws usage-invalid, usage-unknown-message, usage-ambiguous-id, forget-nothing-chosen, operation-needs-yes,
 *   archive-in-use: nothing was changed
 * @throws log-damaged, disk-full and its like, purge-interrupted: the same command continues
 */
async function forget(context: CommandContext, options: ForgetOptions): Promise<ExitCode> {
  checkChoice(options);
  const dataDir = await withReader(context, (reader) => {
    refuseUnknownChoice(reader, { ...options, deleted: true });
    return reader.dataDir;
  });
  let writer = await openWriter(context, dataDir);
  try {
    const before = await finishPurge(context, writer);
    if (before?.closed === true) writer = await openWriter(context, dataDir);
    const { facts: fresh, wanted, lines, already } = chosen(writer, options);
    if (fresh.length + already.length === 0) throw retentionError('forget-nothing-chosen', {});
    context.notices.say('Reading the log for data of these messages.');
    const survey = await surveyPurge(realFiles, dataDir, wanted, context.signal, writer.segments);
    // What had been forgotten can have been in quarantine since, when it came again.
    const facts = fresh.length === 0 && survey.records.size === 0 ? [] : [...fresh, ...already];
    const forgotten = [...already, ...fresh].map(({ message }) => message);
    if (facts.length === 0) {
      await context.output.object({ forgotten, shared: [] }, () => goneText(forgotten));
      return EXIT.done;
    }
    const shown = [...lines, ...sharedText(survey)];
    if (!options.yes && !(await confirmed(context, 'forget', shown))) return EXIT.done;
    const { log, catalog } = writer;
    catalog.foldBatch(await journalPurge(realFiles, dataDir, log, facts, survey, writer));
    const done = await finishPurge(context, writer);
    const atOrigin = facts.flatMap(({ places = [] }) => places.filter((at) => !isImported(at)));
    const result = { forgotten, shared: survey.shared, atOrigin, segments: done?.segments ?? 0 };
    await context.output.object(result, () =>
      [goneText(forgotten), ...sharedText(survey), ...originText(atOrigin, facts.length)].join(
        '\n',
      ),
    );
    return EXIT.done;
  } finally {
    await writer.close();
  }
}

function checkChoice({ ids, quarantine, mailbox, folder, uid }: ForgetOptions): void {
  const invalid = (problem: string) => usageError('usage-invalid', { command: 'forget', problem });
  const places = [mailbox, folder, uid].some((option) => option !== undefined);
  if (quarantine ? ids.length > 0 : places) {
    throw invalid('--mailbox, --folder and --uid belong to --quarantine, which takes no ids.');
  }
  if (quarantine && !places) throw invalid('select with --mailbox, --folder and --uid.');
  if (!quarantine && ids.length === 0) throw invalid('name the messages by their ids.');
}

function chosen(writer: Writer, options: ForgetOptions) {
  const { catalog } = writer;
  const facts: PurgedFact[] = [];
  const lines: string[] = [];
  const already: PurgedFact[] = [];
  const messages = new Set<MessageId>();
  const quarantined = new Map<MessageId, Place>();
  for (const typed of options.ids) {
    const purged = purgedMessage(writer, typed);
    if (purged !== undefined) {
      if (messages.has(purged.id)) continue;
      messages.add(purged.id);
      // What was pruned may come back, until it is forgotten.
      const list = purged.reason === 'forgotten' ? already : facts;
      list.push({ fact: 'purged', message: purged.id, reason: 'forgotten' });
      if (list === facts) lines.push(`Forget ${purged.id.slice(0, SHORT)}  (pruned)`);
      continue;
    }
    const id = oneMessage(writer, typed);
    if (messages.has(id)) continue;
    messages.add(id);
    const docid = catalog.messages.docidOf(id) ?? 0;
    facts.push(purgedFact(id, 'forgotten', catalog.ended.placesOf(docid)));
    const { subject = null, date = null } = catalog.messages.summary(id) ?? {};
    lines.push(
      terminalLine(`Forget ${id.slice(0, SHORT)}  ${date ?? ''}  ${subject ?? '(no subject)'}`),
    );
  }
  if (options.quarantine) {
    for (const entry of chosenEntries(catalog, options)) {
      // No hash of it is known: a number stands for it, which reveals nothing.
      const id = randomBytes(32).toString('hex');
      const place = placeOf(entry);
      quarantined.set(id, place);
      facts.push({ fact: 'purged', message: id, reason: 'forgotten', places: [place] });
      const where = `${entry.address} / ${entry.folder} / ${entry.uid}`;
      lines.push(terminalLine(`Forget ${where}  ${entry.subject ?? '(no subject)'}`));
    }
  }
  return { facts, wanted: { messages, quarantined }, lines, already };
}

function placeOf({ host, mailbox, folder, generation, uid }: QuarantineEntry): Place {
  return { host, mailbox, folder, generation, uid };
}

function goneText(forgotten: readonly MessageId[]): string {
  const ids = forgotten.map((id) => id.slice(0, SHORT)).join(', ');
  return `Forgotten: ${counted(forgotten.length, 'message')} (${ids}).`;
}

function sharedText({ shared }: Survey): string[] {
  return shared.map(({ message, blob, with: other }) => {
    const having =
      other === null ? 'something in quarantine has it too' : `${other.slice(0, SHORT)} has it too`;
    return `An attachment of ${message.slice(0, SHORT)} stays, because ${having} (${blob.slice(0, SHORT)}).`;
  });
}

function originText(places: readonly Place[], messages: number): string[] {
  if (places.length === 0) return [];
  const it = messages === 1 ? 'it' : 'them';
  return [
    `The service still has ${it} at ${counted(places.length, 'place')}, and will not be asked for ${it} again. Delete ${it} there as well.`,
  ];
}
