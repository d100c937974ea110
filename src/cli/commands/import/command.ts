import path from 'node:path';
import type { Command } from 'commander';
import { locateDataDir } from '../../../config/located-fields.ts';
import { importMail } from '../../../engine/import-mail.ts';
import { EXIT } from '../../../errors/exit-codes.ts';
import { usageError } from '../../../errors/usage.ts';
import type { FailureReason } from '../../../import/read-mail.ts';
import type { ImportResult } from '../../../import/run-import.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import { bytes, count, counted } from '../../../wording/amounts.ts';
import { reasonText } from '../../../wording/sentence.ts';
import type { Body, CommandContext } from '../../context.ts';
import { present } from '../../output.ts';
import { openActivity } from '../../progress/activity.ts';

const HELP = `
Imports old backups into the archive: .eml files, mbox files and Maildirs (with their flags, folders and
dates) become a mailbox of their own. list, search and export treat it like any other, and no sync touches it.
Every byte stays as it is. A message that a folder of that mailbox already has is not added again.

A folder with cur/ and new/ is a Maildir. Any other folder is walked: its folders become folders of the
mailbox, .eml files become messages, and files that begin with "From " are read as mboxes. mboxes are read as
mboxrd: one ">" is removed from every line of ">"s followed by "From ". That is also right for mboxo files,
except for lines that were ">From " before they were quoted.

What mailkeep exported is restored with its folders and their special use, flags and received dates, in every
format: from the manifest (mailkeep-export.json) in the folder or above it, or in the zip. Missing messages,
and messages whose bytes differ from the manifest, are named. Without a manifest, or with a damaged one, an
export is imported like any other folder.

What cannot be read is named, the rest is imported, and the exit code is 1; the same holds for an mbox without
a "From " line, and for one with bytes before the first. A path that does not exist, or a file that is neither
an mbox nor a message (ending in .eml, or beginning with a header field), stops the command before anything is
imported. In a folder, files that are not mail by their names and first bytes are passed over; the report names
the first ten.

EXAMPLES
  mailkeep import ~/old-backup.mbox --mailbox "Backup 2019"
  mailkeep import ~/Maildir ~/saved/*.eml
  mailkeep import /media/usb/mail.zip --mailbox restored`;

const MOST_SHOWN = 20;

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .argument(
      '<path...>',
      '.eml and mbox files, Maildirs, folders with any of these, or exports of mailkeep',
    )
    .option('--mailbox <name>', 'name of the mailbox', 'imported')
    .addHelpText('after', HELP)
    .action((paths: string[], { mailbox }: { readonly mailbox: string }) =>
      chosen((context) => importPaths(context, paths, mailbox.trim())),
    );
}

async function importPaths(context: CommandContext, paths: readonly string[], name: string) {
  const { globals, surroundings, output, signal } = context;
  if (name === '' || name.length > 200 || name !== terminalLine(name)) {
    const expected = 'a name of at most 200 plain characters';
    throw usageError('usage-option', { option: '--mailbox', found: name, expected });
  }
  const activity = openActivity(context, 'looking for mail');
  const result = await importMail(context, {
    dataDir: locateDataDir(globals, surroundings),
    paths: paths.map((given) => path.resolve(surroundings.cwd, given)),
    name,
    onRead: ({ messages, added }) =>
      activity.show(() => `read ${counted(messages, 'message')}, ${count(added)} new`),
    onIndex: ({ indexed, remaining }) =>
      activity.show(() => `made ${count(indexed)} searchable, ${count(remaining)} to go`),
  }).finally(activity.stop);
  await output.object(result, () => importText(result));
  if (result.interrupted || signal.aborted) return EXIT.interrupted;
  return result.failures.length > 0 ? EXIT.failures : EXIT.done;
}

function importText(result: ImportResult): string {
  const { added, known, forgotten, manifests, failures, interrupted } = result;
  return present([
    `${interrupted ? 'Interrupted: ' : ''}imported ${counted(added, 'message')} (${bytes(result.bytes)}) from ${counted(result.files, 'file')} into the mailbox ${terminalLine(result.mailbox)}`,
    known > 0 && `${counted(known, 'message')} were there already`,
    forgotten > 0 &&
      `${counted(forgotten, 'message')} ${forgotten === 1 ? 'was' : 'were'} removed on purpose, and not brought back`,
    manifests
      .filter(({ used }) => !used)
      .map(
        ({ path: at }) =>
          `The manifest ${terminalLine(at)} is damaged and was not used: folders, flags and dates are what the files say by themselves.`,
      ),
    passedOverLines(result),
    failures
      .slice(0, MOST_SHOWN)
      .map((it) => `  FAILED ${terminalLine(it.path)}: ${failureText(it.reason)}`),
    failures.length > MOST_SHOWN &&
      `  … and ${count(failures.length - MOST_SHOWN)} more; --json names them`,
  ]).join('\n');
}

function passedOverLines({ passedOver, passedOverPaths }: ImportResult): string[] {
  if (passedOver === 0) return [];
  const unnamed = passedOver - passedOverPaths.length;
  return [
    `${counted(passedOver, 'file')} passed over: no mail`,
    ...passedOverPaths.map((at) => `  ${terminalLine(at)}`),
    ...(unnamed > 0 ? [`  … and ${count(unnamed)} more`] : []),
  ];
}

function failureText(reason: FailureReason): string {
  if (reason === 'no-from-line') return 'no mbox: it has no "From " line';
  if (reason === 'bytes-before-from-line') {
    return 'what lies before its first "From " line belongs to no message, and was left out';
  }
  if (reason === 'differs-from-manifest') return 'its bytes are not those that the manifest lists';
  if (reason === 'listed-but-missing') return 'the manifest lists it, and it is not there';
  return reasonText(reason);
}
