import { createReadStream } from 'node:fs';
import path from 'node:path';
import { addAbortSignal, type Readable } from 'node:stream';
import { Option } from 'commander';
import { asList, type OneOrMore } from '../../catalog/folders.ts';
import { type Reader, refuseUnknownFolder } from '../../catalog/open-reader.ts';
import type { UnknownName } from '../../catalog/resolve-query.ts';
import { usageError } from '../../core/error-tables.ts';
import { combineExitCodes, EXIT, type ExitCode, errnoOf } from '../../core/errors.ts';
import { isWithin } from '../../core/files.ts';
import { terminalLine } from '../../core/terminal-safe.ts';
import { bytes, count, counted } from '../../core/text.ts';
import { exportError } from '../../transfer/errors.ts';
import { EXPORT_FORMATS, type ExportFormat } from '../../transfer/export-manifest.ts';
import type { ExportArchive, ExportFailure, ExportSelection } from '../../transfer/plan-export.ts';
import { type ExportResult, runExport } from '../../transfer/run-export.ts';
import {
  findMessage,
  readSelection,
  refuseUnknown,
  warnBeforeFirstCommit,
  withReader,
} from '../archive.ts';
import {
  action,
  type CommandContext,
  type Flags,
  type Register,
  refuse,
  type Values,
} from '../context.ts';
import { exclude, FOLDERS, MAILBOXES, withoutUndefined } from '../option-values.ts';
import { type Report, shortId } from '../output.ts';
import { openActivity } from '../progress.ts';

const LONGEST = 100;

/**
 * Yields the message id or prefix on each line of a file. Skips empty lines.
 * @param from a file, or `-` for standard input
 * @throws usage-ids-unreadable
 */
async function* idsFrom(
  { stdin, signal, environment }: Pick<CommandContext, 'stdin' | 'signal' | 'environment'>,
  from: string,
): AsyncGenerator<string, void, undefined> {
  const input = from === '-' ? stdin() : createReadStream(path.resolve(environment.cwd, from));
  try {
    for await (const line of linesOf(addAbortSignal(signal, input))) {
      const id = line.trim();
      if (id !== '') yield id;
    }
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    const source = from === '-' ? 'standard input' : from;
    throw usageError('usage-ids-unreadable', { source, reason });
  }
}

/** @throws usage-unknown-message, usage-ambiguous-id, message-purged; errors from `ids` */
async function docidsOf(
  reader: Reader,
  ids: AsyncIterable<string> | Iterable<string>,
): Promise<number[]> {
  const docids: number[] = [];
  for await (const id of ids) {
    const docid = reader.catalog.messages.docidOf(findMessage(reader, id));
    if (docid !== undefined) docids.push(docid);
  }
  return docids;
}

async function* linesOf(input: Readable): AsyncGenerator<string, void, undefined> {
  let remainder = '';
  for await (const chunk of input.setEncoding('utf8')) {
    const lines = `${remainder}${chunk}`.split('\n');
    remainder = (lines.pop() ?? '').slice(0, LONGEST);
    for (const line of lines) yield line.slice(0, LONGEST);
  }
  yield remainder;
}

interface TypedSelection extends Flags<'deleted' | 'withDeleted'>, Values<'query' | 'asOf'> {
  readonly mailbox?: OneOrMore;
  readonly folder?: OneOrMore;
}

/**
 * Returns an export's selection, and any unknown names in its query.
 * @param ids message ids or prefixes, if given
 * @throws usage-unknown-name for a mailbox or folder that never existed; errors from `parseQuery` and `docidsOf`
 */
async function selectPlaces(
  context: CommandContext,
  reader: Reader,
  typed: TypedSelection,
  ids: AsyncIterable<string> | Iterable<string> | undefined,
): Promise<{ readonly selection: ExportSelection; readonly unknown: readonly UnknownName[] }> {
  refuseUnknownFolder(reader, typed);
  const { query, asOf, unknown } = readSelection(context, reader, typed);
  const selection = {
    query,
    docids: ids === undefined ? null : await docidsOf(reader, ids),
    mailboxes: asList(typed.mailbox),
    folders: asList(typed.folder),
    deleted: typed.deleted ?? false,
    withDeleted: typed.withDeleted ?? false,
    asOf,
  };
  return { selection, unknown };
}

/** Maximum number of messages listed as text. The manifest and `--json` list them all. */
const MAX_SHOWN = 20;

const WHY: Readonly<Record<ExportFailure['reason'], string>> = {
  quarantined: 'in quarantine: it could not be fetched completely',
  damaged: 'DAMAGED: its stored bytes were changed',
  purged: 'its bytes were removed on purpose',
};

function exportText(result: ExportResult): Report {
  const { to, format, exported, skipped, kept, failures, interrupted } = result;
  const lost = result.quarantined + result.damaged + result.purged;
  return [
    `${interrupted ? 'Interrupted: ' : ''}exported ${counted(exported, 'place')} (${bytes(result.bytes)}) as ${format} to ${terminalLine(to)}; commit ${result.commit.number}`,
    skipped > 0 && `${counted(skipped, 'place')} were there already`,
    kept > 0 &&
      `${counted(kept, 'place')} of earlier exports are there in addition to those asked for`,
    lost > 0 && `${counted(lost, 'place')} could not be exported:`,
    failures.slice(0, MAX_SHOWN).map(failureText),
    failures.length > MAX_SHOWN &&
      `  … and ${counted(lost - MAX_SHOWN, 'more')}; --json and the manifest name them`,
  ];
}

function failureText({ id, mailbox, folder, uid, reason }: ExportFailure): string {
  return `  ${shortId(id)}  ${terminalLine(mailbox)} ${terminalLine(folder)} uid ${uid}: ${WHY[reason]}`;
}

/** Returns 3 for damage, or 1 for incomplete or purged messages, like a sync. */
function exitOfExport(result: ExportResult): ExitCode {
  const { damaged, quarantined, purged, interrupted } = result;
  return combineExitCodes([
    ...(interrupted ? [EXIT.interrupted] : []),
    ...(damaged > 0 ? [EXIT.damage] : []),
    ...(quarantined + purged > 0 ? [EXIT.failures] : []),
  ]);
}

interface ExportLine
  extends TypedSelection,
    Flags<'incremental' | 'sidecar' | 'statusHeaders'>,
    Values<'ids'> {
  readonly to: string;
  readonly format: ExportFormat;
}

const HELP = `
Writes the exact source of every message, once for each place. Needs no network or configuration.

  eml      a folder: MAILBOX/FOLDER/NAME.eml; names contain date (UTC), sender, subject, id and uid
  zip      one file with the same names; the same state of the archive gives the same bytes
  mbox     a folder: MAILBOX/FOLDER.mbox, in the mboxrd form
  maildir  a folder: a Maildir++ for each mailbox, flags in the names, received dates as times of files

A manifest, mailkeep-export.json, lists the hash of each message. To continue an interrupted export, run the
same command again. --query takes a query of search, including saved searches, and selects all places of the
messages it finds. --ids takes what "search --format ids" and "list --format ids" print, and selects all places
of those messages. --mailbox and --folder narrow the places, and take what list takes.

EXAMPLES
  mailkeep export --to backup --format eml
  mailkeep export --to mail.zip --format zip --as-of 2026-03-01
  mailkeep export --to anna --format maildir --mailbox anna@example.org --incremental
  mailkeep export --to rent --format mbox --query 'from:landlord after:2025'
  mailkeep search is:starred --format ids | mailkeep export --ids - --to starred --format eml`;

export const register: Register = (command, run) => {
  command
    .requiredOption('--to <path>', 'target: a file for zip, otherwise a folder')
    .addOption(
      new Option('--format <format>', 'format of the export')
        .choices(EXPORT_FORMATS)
        .makeOptionMandatory(),
    )
    .option('--query <Q>', 'only messages that this query finds')
    .option('--ids <file>', 'only messages with these ids, one a line; - is standard input')
    .option(...MAILBOXES)
    .option(...FOLDERS)
    .option('--deleted', 'messages deleted at the service, instead of those still there')
    .option(
      '--with-deleted',
      'also messages deleted at the service, each from the folder it was last in',
    )
    .option('--as-of <T>', 'what existed at that time')
    .option('--incremental', 'add what is new since the last export to the same target')
    .option('--sidecar', 'also write JSON with places, flags and history of each message')
    .option('--status-headers', 'mbox: put Status, X-Status and X-Keywords into the messages')
    .addHelpText('after', HELP)
    .action(action(run, exportPlaces));
  exclude(command, ['ids', 'query'], ['deleted', 'withDeleted']);
};

async function exportPlaces(context: CommandContext, line: ExportLine): Promise<ExitCode> {
  refuseMismatches(line);
  const to = path.resolve(context.environment.cwd, line.to);
  const { query, mailbox, folder, deleted = false, withDeleted = false, asOf } = line;
  const typed = { ...withoutUndefined({ query, mailbox, folder, asOf }), deleted, withDeleted };
  const ids = line.ids === undefined ? undefined : idsFrom(context, line.ids);
  return withReader(context, async (reader) => {
    const { selection, unknown } = await selectPlaces(context, reader, typed, ids);
    refuseUnknown(unknown, context.notices);
    warnBeforeFirstCommit(reader.catalog, selection.asOf, context.notices);
    if (isWithin(to, reader.dataDir))
      throw exportError('export-target-inside', { target: to, archive: reader.dataDir });
    const { catalog } = reader;
    return write(context, { catalog, sources: reader.sources(), selection }, { ...line, to });
  });
}

async function write(
  context: CommandContext,
  archive: ExportArchive,
  { to, format, incremental = false, sidecar = false, statusHeaders = false }: ExportLine,
): Promise<ExitCode> {
  const activity = openActivity(context, 'choosing what to export');
  const result = await runExport({
    ...archive,
    ...{ to, format, incremental, sidecar, statusHeaders, signal: context.signal },
    onProgress: ({ done, of, bytes: written, ofBytes }) =>
      activity.show(
        () =>
          `exported ${count(done)} of ${counted(of, 'place')}, ${bytes(written)} of ${bytes(ofBytes)}`,
      ),
  }).finally(activity.stop);
  await context.output.object(result, () => exportText(result));
  return exitOfExport(result);
}

/** @throws usage-invalid, usage-option */
function refuseMismatches({ format, statusHeaders, to }: ExportLine): void {
  refuse('export', {
    '--status-headers is for --format mbox only.': statusHeaders === true && format !== 'mbox',
  });
  if (format === 'zip' && /[/\\]$/.test(to)) {
    const expected = 'the name of a file for a zip';
    throw usageError('usage-option', { option: '--to', found: to, expected });
  }
}
