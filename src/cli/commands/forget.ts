import { type Command, Option } from 'commander';
import type { Catalog } from '../../catalog/catalog.ts';
import { isMailbox } from '../../catalog/folders.ts';
import { refuseUnknownChoice } from '../../catalog/open-reader.ts';
import { openWriter } from '../../catalog/open-writer.ts';
import { usageError } from '../../core/error-tables.ts';
import { EXIT, type ExitCode } from '../../core/errors.ts';
import { counted } from '../../core/text.ts';
import type { MessageId } from '../../core/types.ts';
import { isImported } from '../../mail/identity.ts';
import type { Survey } from '../../verify/find-purged.ts';
import { finishPurge, journalForget, planForget } from '../../verify/purge.ts';
import { withReader } from '../archive.ts';
import { confirmed } from '../ask.ts';
import type { Body, CommandContext } from '../context.ts';
import {
  candidateLines,
  type ForgetCandidate,
  type ForgetChoice,
  forgetCandidates,
  originText,
  shortIds,
  wouldText,
} from '../forget-candidates.ts';
import type { QuarantineChoice } from '../option-values.ts';
import { type MailToRemove, removeMail } from '../remove-mail.ts';

const HELP = `
Removes messages permanently, for example when somebody with the right to ask requests it: their bytes, the
text taken from them and from their attachments, their words in the index, what was listed about them, bytes
kept aside, and every older file with any of it. The catalog is rebuilt for that, which takes a while. An
attachment that another message shares stays, and that message is named.

What remains is the id, the time, and the places at which the service still shows the message: it is not
fetched there again, and counts as forgotten in the summary of a sync. At another place it is recognised by
its hash and not stored. Exports, second copies, backups and snapshots are not changed: "mailkeep copy"
removes it from a copy.

--mailbox M removes a whole mailbox: one that was imported by mistake, or of somebody who asks for deletion. The
mailbox, its folders and everything known about them go; messages that other mailboxes have stay there. A
mailbox that its account still has comes back with the next sync, unless mailboxes.exclude names it. Holds of the
configuration (retention.hold) are respected: the exit code is 4, and nothing is removed.

--quarantine forgets messages that could not be fetched completely; select with --mailbox, --folder and --uid.

After an interruption at any moment, the same command finishes the work.

In a fleet, --account asks the node that holds the account, on any of its nodes: the request is recorded, and carried
out by that node or the next one. The command waits until the last copy is gone, which takes a quarter of an hour or
more; --no-wait ends it once the request is recorded, and --list prints how far requests have come. --quarantine cannot
be used with --account. See docs/fleet.md.

EXAMPLES
  mailkeep forget 3f2a91c4
  mailkeep forget 3f2a91c4 9b01d7aa --yes
  mailkeep forget --mailbox left@example.org --dry-run
  mailkeep forget --quarantine --mailbox anna@example.org --folder INBOX --uid 4711
  mailkeep forget --account anna 3f2a91c4 --no-wait
  mailkeep forget --account anna --list`;

interface ForgetLine extends QuarantineChoice {
  readonly quarantine?: boolean;
  readonly yes?: boolean;
  readonly dryRun?: boolean;
  readonly account?: string;
  readonly tenant?: string;
  readonly wait: boolean;
  readonly list?: boolean;
}

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .argument('[id...]', 'ids of messages, or their beginnings')
    .option('--quarantine', 'forget what is in quarantine')
    .option(
      '--mailbox <address>',
      'a whole mailbox (address or resource id), or with --quarantine: in this one',
    )
    .option('--folder <path>', 'with --quarantine: this folder')
    .addOption(new Option('--uid <n>', 'with --quarantine: this uid').argParser(Number))
    .option('--yes', 'do not ask')
    .option('--dry-run', 'print what would be forgotten')
    .option('--account <name>', 'an account of the fleet, instead of the archive here')
    .option('--tenant <name>', 'the tenant of the account, if several have one of that name')
    .option('--no-wait', 'with --account: end once the request is recorded')
    .option('--list', 'with --account: print its requests, and how far they have come')
    .addHelpText('after', HELP)
    .action((ids: readonly string[], { quarantine = false, yes = false, ...line }: ForgetLine) =>
      chosen((context) => run(context, { ids, quarantine, yes, ...line })),
    );
}

interface ForgetOptions extends ForgetChoice, ForgetLine {
  readonly quarantine: boolean;
  readonly yes: boolean;
}

async function run(context: CommandContext, options: ForgetOptions): Promise<ExitCode> {
  checkChoice(options);
  const { account, tenant, list = false, dryRun = false } = options;
  if (account !== undefined) {
    const { forgetInFleet, listForgets } = await import('../forget-in-fleet.ts');
    const which = { account, tenant };
    return list ? listForgets(context, which) : forgetInFleet(context, which, options);
  }
  const { mailbox, quarantine, yes } = options;
  if (mailbox !== undefined && !quarantine) {
    return removeMail(context, { yes, dryRun }, (catalog) => mailboxToRemove(catalog, mailbox));
  }
  return dryRun ? printCandidates(context, options) : forget(context, options);
}

/** @throws usage-unknown-name */
function mailboxToRemove(catalog: Catalog, mailbox: string): MailToRemove {
  refuseUnknownChoice({ catalog }, { mailbox, deleted: true });
  const chosen = catalog.folders.mailboxes().filter((box) => isMailbox(box, mailbox));
  const name = `the mailbox ${chosen.map(({ address }) => address).join(' and ')}`;
  return { act: 'forget', name, removable: catalog.ended.removable(chosen) };
}

/** Prints what would be forgotten, without a lock: the holder of an account in a fleet runs this for others. */
async function printCandidates(context: CommandContext, choice: ForgetChoice): Promise<ExitCode> {
  const candidates = await withReader(context, (reader) => {
    refuseUnknownChoice(reader, { ...choice, deleted: true });
    return forgetCandidates(reader, choice);
  });
  await context.output.object({ wouldForget: candidates }, () => wouldText(candidates));
  return EXIT.done;
}

/**
 * `mailkeep forget`: removes messages with every trace of them.
 *
 * @throws usage-invalid, usage-unknown-message, usage-ambiguous-id, forget-nothing-chosen, operation-needs-yes,
 *   archive-in-use: nothing was changed
 * @throws log-damaged, disk-full and its like, purge-interrupted: the same command continues
 */
async function forget(context: CommandContext, options: ForgetOptions): Promise<ExitCode> {
  const dataDir = await withReader(context, (reader) => {
    refuseUnknownChoice(reader, { ...options, deleted: true });
    return reader.dataDir;
  });
  let writer = await openWriter(context, dataDir);
  try {
    const before = await finishPurge(context, writer);
    if (before?.closed === true) writer = await openWriter(context, dataDir);
    const candidates = forgetCandidates(writer, options);
    context.notices.say('Reading the log for data of these messages.');
    const plan = await planForget(writer, candidates, context.signal);
    const isOld = ({ purged }: ForgetCandidate) => purged === 'forgotten';
    const forgotten = [...candidates.filter(isOld), ...candidates.filter((one) => !isOld(one))].map(
      ({ message }) => message,
    );
    if (plan.facts.length === 0) {
      await context.output.object({ forgotten, shared: [] }, () => goneText(forgotten));
      return EXIT.done;
    }
    const shown = [...candidateLines(candidates), ...sharedText(plan.survey)];
    if (!options.yes && !(await confirmed(context, 'forget', shown))) return EXIT.done;
    await journalForget(writer, plan);
    const done = await finishPurge(context, writer);
    const { facts, survey } = plan;
    const atOrigin = facts.flatMap(({ places = [] }) => places.filter((at) => !isImported(at)));
    const result = { forgotten, shared: survey.shared, atOrigin, segments: done?.segments ?? 0 };
    await context.output.object(result, () =>
      [
        goneText(forgotten),
        ...sharedText(survey),
        ...originText(atOrigin.length, facts.length),
      ].join('\n'),
    );
    return EXIT.done;
  } finally {
    await writer.close();
  }
}

function checkChoice(options: ForgetOptions): void {
  const { ids, quarantine, mailbox, folder, uid, account, wait, list = false } = options;
  const invalid = (problem: string) => usageError('usage-invalid', { command: 'forget', problem });
  if (account === undefined && (options.tenant !== undefined || list || !wait)) {
    throw invalid('--tenant, --list and --no-wait belong to --account.');
  }
  const places = [mailbox, folder, uid].some((option) => option !== undefined);
  if (list && (quarantine || places || ids.length > 0)) throw invalid('--list takes no messages.');
  if (list) return;
  if (quarantine && account !== undefined) {
    throw invalid('--quarantine cannot be used with --account.');
  }
  if (quarantine ? ids.length > 0 : folder !== undefined || uid !== undefined) {
    throw invalid('--folder and --uid belong to --quarantine, which takes no ids.');
  }
  if (quarantine && !places) throw invalid('select with --mailbox, --folder and --uid.');
  if (quarantine) return;
  if (mailbox !== undefined && account !== undefined) {
    throw invalid('--mailbox cannot be used with --account.');
  }
  if (mailbox !== undefined && ids.length > 0) {
    throw invalid('--mailbox removes a whole mailbox, and takes no ids.');
  }
  if (mailbox === undefined && ids.length === 0) {
    throw invalid('name the messages by their ids, or a mailbox with --mailbox.');
  }
}

function goneText(forgotten: readonly MessageId[]): string {
  return `Forgotten: ${counted(forgotten.length, 'message')} (${shortIds(forgotten)}).`;
}

function sharedText({ shared }: Survey): string[] {
  return shared.map(({ message, blob, with: other }) => {
    const having =
      other === null ? 'something in quarantine has it too' : `${shortIds([other])} has it too`;
    return `An attachment of ${shortIds([message])} stays, because ${having} (${shortIds([blob])}).`;
  });
}
