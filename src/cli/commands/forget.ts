import { randomBytes } from 'node:crypto';
import { Option } from 'commander';
import type { Catalog } from '../../catalog/catalog.ts';
import { hasMailboxName } from '../../catalog/folders.ts';
import { findPurgedMessage, type Reader, refuseUnknownFolder } from '../../catalog/open-reader.ts';
import { openWriter } from '../../catalog/open-writer.ts';
import { terminalLine } from '../../core/terminal-safe.ts';
import { counted } from '../../core/text.ts';
import type { MailboxKey, MessageId } from '../../core/types.ts';
import { isImported } from '../../mail/identity.ts';
import { retentionError } from '../../verify/errors.ts';
import type { PurgeSearch } from '../../verify/find-purged.ts';
import {
  finishPurge,
  journalForget,
  type MessageToForget,
  planForget,
} from '../../verify/purge.ts';
import { findMessage, type IncompleteSelection, selectIncomplete, withReader } from '../archive.ts';
import { confirm } from '../ask.ts';
import {
  type CommandContext,
  type CommandResult,
  type Flags,
  type Register,
  refuse,
} from '../context.ts';
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

With --mailbox M, only this mailbox loses the messages, and never gets them again: if another mailbox has the same
message, it stays there, and the bytes go with the last one.

Without ids, --mailbox M removes a whole mailbox: one that was imported by mistake, or of somebody who asks for deletion. The
mailbox, its folders and everything known about them go; messages that other mailboxes have stay there. A
mailbox that its account still has comes back with the next sync, unless mailboxes.exclude names it. Holds of the
configuration (retention.hold) are respected: the exit code is 4, and nothing is removed.

--quarantine forgets messages that could not be fetched completely; select with --mailbox, --folder and --uid.

After an interruption at any moment, the same command finishes the work.

EXAMPLES
  mailkeep forget 3f2a91c4
  mailkeep forget 3f2a91c4 9b01d7aa --yes
  mailkeep forget 3f2a91c4 --mailbox anna@example.org
  mailkeep forget --mailbox left@example.org --dry-run
  mailkeep forget --quarantine --mailbox anna@example.org --folder INBOX --uid 4711`;

type ForgetLine = IncompleteSelection & Flags<'quarantine' | 'yes' | 'dryRun'>;

export const register: Register = (command, run) => {
  command
    .argument('[id...]', 'ids of messages, or their beginnings')
    .option('--quarantine', 'forget what is in quarantine')
    .option(
      '--mailbox <address>',
      'from this mailbox only (address or resource id); without ids: the whole mailbox',
    )
    .option('--folder <path>', 'with --quarantine: this folder')
    .addOption(new Option('--uid <n>', 'with --quarantine: this uid').argParser(Number))
    .option('--yes', 'do not ask')
    .option('--dry-run', 'print what would be forgotten')
    .addHelpText('after', HELP)
    .action((ids: readonly string[], { quarantine = false, yes = false, ...line }: ForgetLine) =>
      run((context) => runForget(context, { ids, quarantine, yes, ...line })),
    );
};

type ForgetOptions = ForgetChoice & ForgetLine & { readonly yes: boolean };

async function runForget(context: CommandContext, options: ForgetOptions): Promise<CommandResult> {
  checkChoice(options);
  const { ids, mailbox, quarantine, yes, dryRun = false } = options;
  if (mailbox !== undefined && !quarantine && ids.length === 0) {
    return removeMail(context, { yes, dryRun }, (catalog) => mailboxToRemove(catalog, mailbox));
  }
  return dryRun ? printCandidates(context, options) : forget(context, options);
}

/** @throws usage-unknown-name */
function mailboxToRemove(catalog: Catalog, mailbox: string): MailToRemove {
  refuseUnknownFolder({ catalog }, { mailbox, deleted: true });
  const mailboxes = mailboxesIn(catalog, { mailbox }) ?? [];
  const name = `the mailbox ${mailboxes.map(({ address }) => address).join(' and ')}`;
  return { act: 'forget', name, removable: catalog.ended.removable(mailboxes) };
}

/** Returns the mailboxes of a name; undefined if none is named. */
function mailboxesIn({ folders }: Catalog, { mailbox }: Pick<ForgetChoice, 'mailbox'>) {
  if (mailbox === undefined) return undefined;
  return folders.mailboxes().filter((box) => hasMailboxName(box, mailbox));
}

/** Prints what would be forgotten. */
async function printCandidates(context: CommandContext, choice: ForgetChoice): Promise<void> {
  const candidates = await withReader(context, (reader) => {
    refuseUnknownFolder(reader, { ...choice, deleted: true });
    return forgetCandidates(reader, choice);
  });
  await context.output.object({ wouldForget: candidates }, () => dryRunText(candidates));
}

/**
 * Removes messages and all their data.
 * @throws usage-invalid, usage-unknown-message, usage-ambiguous-id, forget-nothing-chosen, operation-needs-yes,
 *   archive-in-use: nothing was changed
 * @throws log-damaged, disk-full and similar errors, purge-interrupted: run the command again to resume
 */
async function forget(context: CommandContext, options: ForgetOptions): Promise<void> {
  const dataDir = await withReader(context, (reader) => {
    refuseUnknownFolder(reader, { ...options, deleted: true });
    return reader.dataDir;
  });
  let writer = await openWriter(context, dataDir);
  try {
    const before = await finishPurge(context, writer);
    if (before?.closed === true) writer = await openWriter(context, dataDir);
    const candidates = forgetCandidates(writer, options);
    context.notices.say('Reading the log for data of these messages.');
    const from = options.quarantine ? undefined : mailboxesIn(writer.catalog, options);
    const plan = await planForget(writer, candidates, context.signal, from);
    const isOld = ({ purged }: ForgetCandidate) => purged === 'forgotten';
    const forgotten = [...candidates.filter(isOld), ...candidates.filter((one) => !isOld(one))].map(
      ({ message }) => message,
    );
    if (plan.facts.length === 0) {
      await context.output.object({ forgotten, shared: [] }, () => goneText(forgotten));
      return;
    }
    const lines = [...candidateLines(candidates), ...sharedText(plan.purgeSearch)];
    if (!options.yes) await confirm(context, 'forget', lines);
    await journalForget(writer, plan);
    const done = await finishPurge(context, writer);
    const { facts, purgeSearch } = plan;
    const atOrigin = facts.flatMap(({ places = [] }) => places.filter((at) => !isImported(at)));
    const result = {
      forgotten,
      shared: purgeSearch.shared,
      atOrigin,
      segments: done?.segments ?? 0,
    };
    await context.output.object(result, () => [
      goneText(forgotten),
      ...sharedText(purgeSearch),
      ...stillAtServiceText(atOrigin.length, facts.length),
    ]);
  } finally {
    await writer.close();
  }
}

/** @throws usage-invalid */
function checkChoice(options: ForgetOptions): void {
  const { ids, quarantine, mailbox, folder, uid } = options;
  const places = [mailbox, folder, uid].some((option) => option !== undefined);
  refuse('forget', {
    '--folder and --uid belong to --quarantine, which takes no ids.': quarantine
      ? ids.length > 0
      : folder !== undefined || uid !== undefined,
    'select with --mailbox, --folder and --uid.': quarantine && !places,
    'name the messages by their ids, or a mailbox with --mailbox.':
      !quarantine && mailbox === undefined && ids.length === 0,
  });
}

function goneText(forgotten: readonly MessageId[]): string {
  return `Forgotten: ${counted(forgotten.length, 'message')} (${shortIds(forgotten)}).`;
}

function sharedText({ shared }: PurgeSearch): string[] {
  return shared.map(({ message, blob, with: other }) => {
    const reason =
      other === null ? 'something in quarantine has it too' : `${shortIds([other])} has it too`;
    return `An attachment of ${shortIds([message])} stays, because ${reason} (${shortIds([blob])}).`;
  });
}

interface ForgetChoice extends IncompleteSelection {
  readonly ids: readonly string[];
  readonly quarantine: boolean;
}

interface ForgetCandidate extends MessageToForget {
  /** Describes where an incomplete message is. */
  readonly at: string | null;
  readonly date: string | null;
  readonly subject: string | null;
  readonly purged: 'pruned' | 'forgotten' | null;
  /** How many of its places are still at the service. */
  readonly atOrigin: number;
}

const SHORT = 12;

/**
 * Returns the messages to forget, without duplicates.
 * @throws usage-unknown-message, usage-ambiguous-id, forget-nothing-chosen
 */
function forgetCandidates(
  { catalog }: Pick<Reader, 'catalog'>,
  choice: ForgetChoice,
): readonly ForgetCandidate[] {
  const candidates = new Map<MessageId, ForgetCandidate>();
  const from = mailboxesIn(catalog, choice);
  const isConcerned = (place: MailboxKey) =>
    from?.some(({ host, mailbox }) => place.host === host && place.mailbox === mailbox) ?? true;
  for (const prefix of choice.ids) {
    const purged = findPurgedMessage({ catalog }, prefix);
    const isForgottenIn = (id: MessageId) => (box: MailboxKey) =>
      catalog.messages.forgottenAs(id, box) !== undefined;
    // Only the whole id tells of a message that its last mailbox has forgotten.
    const message =
      purged?.id ??
      (from?.some(isForgottenIn(prefix)) === true ? prefix : findMessage({ catalog }, prefix));
    const { subject = null, date = null } = catalog.messages.summary(message) ?? {};
    const places = catalog.ended
      .placesOf(catalog.messages.docidOf(message) ?? 0)
      .filter(isConcerned);
    const open = places.filter((place) => place.endedAt === null && !isImported(place));
    const about = { at: null, date, subject, atOrigin: open.length };
    const isForgottenThere = places.length === 0 && from?.every(isForgottenIn(message)) === true;
    const isForgotten = purged?.reason === 'forgotten' || isForgottenThere;
    const before = isForgotten ? 'forgotten' : purged === undefined ? null : 'pruned';
    candidates.set(message, { message, ...about, purged: before });
  }
  if (choice.quarantine) {
    for (const entry of selectIncomplete(catalog, choice)) {
      // Its hash is unknown, so a random number stands in for it, which reveals nothing.
      const message = randomBytes(32).toString('hex');
      const { host, mailbox, folder, generation, uid } = entry;
      const place = { host, mailbox, folder, generation, uid };
      const at = `${entry.address} / ${folder} / ${uid}`;
      const about = { date: null, subject: entry.subject, atOrigin: isImported(place) ? 0 : 1 };
      candidates.set(message, { message, place, at, ...about, purged: null });
    }
  }
  if (candidates.size === 0) throw retentionError('forget-nothing-chosen', {});
  return [...candidates.values()];
}

/** Returns a terminal-safe line for each candidate that has not yet been forgotten. */
function candidateLines(candidates: readonly ForgetCandidate[]): string[] {
  return candidates
    .filter(({ purged }) => purged !== 'forgotten')
    .map(({ message, at, date, subject, purged }) => {
      const id = message.slice(0, SHORT);
      if (purged !== null) return `Forget ${id}  (pruned)`;
      const label = at ?? `${id}  ${date ?? ''}`;
      return terminalLine(`Forget ${label}  ${subject ?? '(no subject)'}`);
    });
}

function dryRunText(candidates: readonly ForgetCandidate[]): string {
  const lines = candidateLines(candidates);
  return lines.length === 0 ? 'All of these were forgotten before.' : lines.join('\n');
}

function shortIds(messages: readonly MessageId[]): string {
  return messages.map((id) => id.slice(0, SHORT)).join(', ');
}

function stillAtServiceText(atOrigin: number, messages: number): string[] {
  if (atOrigin === 0) return [];
  const it = messages === 1 ? 'it' : 'them';
  return [
    `The service still has ${it} at ${counted(atOrigin, 'place')}, and will not be asked for ${it} again. Delete ${it} there as well.`,
  ];
}
