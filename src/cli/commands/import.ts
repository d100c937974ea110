import path from 'node:path';
import { locateDataDir } from '../../core/config-locate.ts';
import { usageError } from '../../core/error-tables.ts';
import { EXIT, type ExitCode, reasonText } from '../../core/errors.ts';
import { terminalLine } from '../../core/terminal-safe.ts';
import { bytes, count, counted, localTime } from '../../core/text.ts';
import {
  type ImportResult,
  importMail,
  type MailToImport,
  previewImport,
} from '../../transfer/run-import.ts';
import { withReader, withState } from '../archive.ts';
import { terminalPrompter } from '../ask.ts';
import {
  action,
  type CommandContext,
  type CommandResult,
  type Flags,
  invalidUsage,
  type Register,
  type Values,
} from '../context.ts';
import { wholeNumber } from '../option-values.ts';
import { firstLines, type Report, tableText } from '../output.ts';
import { openActivity } from '../progress.ts';

const HELP = `
Imports old backups into the archive as a mailbox of their own. list, search and export treat it like any other
mailbox, and no sync touches it. Every byte stays as it is. A message that a folder of that mailbox already has is
not added again.

What is read: .eml and .emlx files, mbox files, Maildirs, MH folders, folders and zip files with any of these, and
exports of mailkeep in every format. Folders become folders of the mailbox, also those of Thunderbird (NAME.sbd)
and Apple Mail (NAME.mbox). The labels of a Google Takeout become folders, and Opened, Unread and Starred become
flags. Flags come from file names, from MH sequences, and from the headers that mail programs add to an mbox. In a
Maildir of Dovecot, dovecot-keywords names the keywords.

An mbox is divided at lines of "From ", a sender and a date. Other lines that begin with "From " stay in the
message. Doubtful lines are listed with their offsets. One ">" is removed from lines of ">"s followed by "From ".

A message without a readable date is imported without one: list shows it last, and date: never finds it. The time
of its file is not used.

What mailkeep exported is restored with its folders and their special use, flags and received dates, from the
manifest (mailkeep-export.json) in the folder or above it, or in the zip. Missing messages, and messages whose
bytes differ from the manifest, are listed.

Everything that is not imported is listed, and the exit code is 1: files that cannot be read, files that are not
mail, links, empty messages, bytes before the first message of an mbox. A path that does not exist, or a file that
is neither mail nor a zip, stops the command before anything is imported.

--dry-run lists the folders with their numbers of messages, and writes nothing. On a terminal, the command asks
before it imports more than 100 messages; --yes skips the question.

--undo RUN removes what one import added; the import prints its number, and --list lists all of them. Messages that
other mailboxes, other folders or other imports have stay there. The mail can be imported again. An interrupted
--undo is continued by the same command. Imports by earlier versions have no number: "mailkeep forget --mailbox M"
removes a whole mailbox. Holds of the configuration (retention.hold) are respected: the exit code is then 4.

EXAMPLES
  mailkeep import ~/old-backup.mbox --mailbox "Backup 2019"
  mailkeep import ~/Maildir ~/saved/*.eml
  mailkeep import ~/Takeout.zip --mailbox gmail --dry-run
  mailkeep import /media/usb/mail.zip --mailbox restored
  mailkeep import --list
  mailkeep import --undo 41 --dry-run`;

const MAX_SHOWN = 20;

export const register: Register = (command, run) => {
  command
    .argument(
      '[path...]',
      '.eml and mbox files, Maildirs, folders with any of these, or exports of mailkeep',
    )
    .option('--mailbox <name>', 'name of the mailbox', 'imported')
    .option('--undo <run>', 'undo the import of this number', wholeNumber(1, MAX_COMMITS))
    .option('--list', 'list the imports that can be undone')
    .option('--dry-run', 'only show what would be imported or undone')
    .option('--yes', 'do not ask for confirmation')
    .addHelpText('after', HELP)
    .action(action(run, runImport));
};

async function runImport(
  context: CommandContext,
  paths: string[],
  options: ImportLine,
): Promise<CommandResult> {
  const { undo, list = false, dryRun = false, yes = false } = options;
  const takesPaths = undo === undefined && !list;
  if (takesPaths !== paths.length > 0 || (list && undo !== undefined)) {
    const problem = 'name the files to import, or use --undo or --list without files.';
    throw invalidUsage('import', problem);
  }
  if (list) return listImports(context);
  if (undo === undefined) return importPaths(context, paths, options);
  const { removeMail } = await import('../remove-mail.ts');
  const { findImportRun, listImportRemains } = await import('../../verify/purge.ts');
  return removeMail(context, { yes, dryRun }, (catalog, state) => {
    const found = findImportRun(state, undo);
    const name = `import ${undo} into ${found.mailbox}`;
    return { act: 'undo', name, run: undo, removable: listImportRemains(catalog, found) };
  });
}

async function listImports({ output, ...context }: CommandContext): Promise<void> {
  const { listImportRemains, listImportRuns } = await import('../../verify/purge.ts');
  return withReader(context, ({ catalog, dataDir }) =>
    withState(dataDir, (state) => {
      const runs = listImportRuns(state).map((found) => ({
        ...found,
        left: listImportRemains(catalog, found).places,
      }));
      const rows = runs.map(({ run: number, startedAt, mailbox, interrupted, added, left }) => [
        String(number),
        localTime(startedAt),
        terminalLine(mailbox),
        interrupted ? 'interrupted' : counted(added, 'message'),
        left === 0 ? 'undone' : counted(left, 'place'),
      ]);
      const imports = runs.map(({ commits: _, startedAt, ...found }) => ({
        ...found,
        startedAt: new Date(startedAt).toISOString(),
      }));
      return output.object({ imports }, () =>
        runs.length === 0
          ? 'No import is recorded.'
          : tableText(['RUN', 'TIME', 'MAILBOX', 'ADDED', 'STILL THERE'], rows, 2, output),
      );
    }),
  );
}

interface ImportLine extends Flags<'dryRun' | 'yes' | 'list'>, Values<'undo', number> {
  readonly mailbox: string;
}

const MAX_COMMITS = 2 ** 48;

const ASKED_ABOVE = 100;

async function importPaths(
  context: CommandContext,
  paths: readonly string[],
  { mailbox, dryRun = false, yes = false }: ImportLine,
): Promise<ExitCode> {
  const name = mailbox.trim();
  const { globals, environment, output, signal } = context;
  if (name === '' || name.length > 200 || name !== terminalLine(name)) {
    const expected = 'a name of at most 200 plain characters';
    throw usageError('usage-option', { option: '--mailbox', found: name, expected });
  }
  const activity = openActivity(context, 'looking for mail');
  const mail: MailToImport = {
    dataDir: locateDataDir(globals, environment),
    paths: paths.map((given) => path.resolve(environment.cwd, given)),
    name,
    onRead: ({ messages, added }) =>
      activity.show(() => `read ${counted(messages, 'message')}, ${count(added)} new`),
    onIndex: ({ indexed, remaining }) =>
      activity.show(() => `made ${count(indexed)} searchable, ${count(remaining)} to go`),
  };
  const prompter = yes || dryRun || globals.json ? undefined : terminalPrompter(context);
  let result: ImportResult & { readonly run?: number | null };
  try {
    if (prompter !== undefined) {
      const found = await previewImport(context, mail, false);
      if (found.added > ASKED_ABOVE && !signal.aborted) {
        activity.stop();
        const question = `Import ${counted(found.added, 'message')} into the mailbox ${terminalLine(name)}?`;
        await prompter.agree(question);
      }
    }
    result = await (dryRun ? previewImport(context, mail, true) : importMail(context, mail));
  } finally {
    activity.stop();
  }
  await output.object(result, () => importText(result));
  if (result.interrupted || signal.aborted) return EXIT.interrupted;
  return result.failures.length + result.passedOver > 0 ? EXIT.failures : EXIT.done;
}

function importText(result: ImportResult & { readonly run?: number | null }): Report {
  const { dryRun, added, places, known, forgotten, undated, manifests, failures, interrupted } =
    result;
  return [
    `${interrupted ? 'Interrupted: ' : ''}${dryRun ? 'would import' : 'imported'} ${counted(added, 'message')} (${bytes(result.bytes)}) from ${counted(result.files, 'file')} into the mailbox ${terminalLine(result.mailbox)}`,
    dryRun &&
      result.folders.map(
        ({ folder, added: more, known: there }) =>
          `  ${terminalLine(folder)}: ${counted(more, 'message')}${there > 0 ? `, ${count(there)} there already` : ''}`,
      ),
    places > added && `They are in ${count(places)} places: each label is a folder`,
    known > 0 && `${counted(known, 'message')} were there already`,
    forgotten > 0 &&
      `${counted(forgotten, 'message')} ${forgotten === 1 ? 'was' : 'were'} removed on purpose, and not brought back`,
    undated > 0 && `${counted(undated, 'message has', 'messages have')} no date that can be read`,
    manifests
      .filter(({ used }) => !used)
      .map(
        ({ path: at }) =>
          `The manifest ${terminalLine(at)} is damaged and was not used: folders, flags and dates are what the files say by themselves.`,
      ),
    doubtLines(result),
    passedOverLines(result),
    firstLines(
      failures,
      MAX_SHOWN,
      (it) => `  FAILED ${terminalLine(it.path)}: ${FAILURES[it.reason] ?? reasonText(it.reason)}`,
      (more) => `${restLine(more)}; --json lists them`,
    ),
    result.run !== undefined &&
      result.run !== null &&
      `To undo this import: mailkeep import --undo ${result.run}`,
  ];
}

function doubtLines({ doubtful, doubtfulLines }: ImportResult): string[] {
  if (doubtful === 0) return [];
  const line = ({ path: at, offset, text, isDelimiter }: (typeof doubtfulLines)[number]) => {
    const taken = isDelimiter ? 'begins a message' : 'is text of a message';
    return `  ${terminalLine(at)}, byte ${count(offset)}: "${terminalLine(text.slice(0, 80))}" ${taken}`;
  };
  return [
    `${counted(doubtful, 'line')} beginning with "From " may be read in two ways:`,
    ...firstLines(doubtfulLines, MAX_SHOWN, line, restLine, doubtful),
  ];
}

function passedOverLines({ passedOver, passedOverPaths }: ImportResult): string[] {
  if (passedOver === 0) return [];
  const line = (at: string) => `  ${terminalLine(at)}`;
  return [
    `${counted(passedOver, 'file')} passed over: no mail`,
    ...firstLines(passedOverPaths, MAX_SHOWN, line, restLine, passedOver),
  ];
}

function restLine(more: number): string {
  return `  … and ${count(more)} more`;
}

const FAILURES: Readonly<Record<string, string>> = {
  'no-from-line': 'no mbox: it has no line that begins a message',
  'bytes-before-from-line':
    'what lies before its first message belongs to no message, and was left out',
  'differs-from-manifest': 'its bytes are not those that the manifest lists',
  'listed-but-missing': 'the manifest lists it, and it is not there',
  empty: 'a message in it is empty, and was not imported',
  'emlx-damaged': 'its length is not the one in its first line',
  'emlx-partial': 'imported without the attachments, which Apple Mail keeps in other files',
  'zip-damaged': 'it is damaged, or packed in a way that is not supported',
  'zip-encrypted': 'it is encrypted',
  'zip-link': 'it is a link, which is not followed',
  'zip-name': 'its name is not one that a file can have here',
  'zip-bomb': 'it would unpack to far more than mail does',
};
