import { createReadStream } from 'node:fs';
import path from 'node:path';
import { addAbortSignal, type Readable } from 'node:stream';
import { type Command, Option } from 'commander';
import { isWithin } from '../../../disk/make-folders.ts';
import { refuseUnknownChoice } from '../../../engine/archive/chosen-names.ts';
import type { Reader } from '../../../engine/archive/reader.ts';
import { accountHosts, savedSearches, withSaved } from '../../../engine/saved-searches.ts';
import { combinedExit, EXIT, type ExitCode } from '../../../errors/exit-codes.ts';
import { exportTargetInside } from '../../../errors/export.ts';
import { errnoOf } from '../../../errors/mailkeep-error.ts';
import { usageError } from '../../../errors/usage.ts';
import type {
  ExportFailure,
  ExportProgress,
  ExportResult,
  ExportSelection,
} from '../../../export/export-options.ts';
import { EXPORT_FORMATS, type ExportFormat } from '../../../export/manifest.ts';
import { runExport } from '../../../export/run-export.ts';
import { terminalLine } from '../../../mail/terminal-safe.ts';
import { parseQuery } from '../../../search/parse.ts';
import { bytes, count, counted } from '../../../wording/amounts.ts';
import { withReader } from '../../archive-access.ts';
import type { Body, CommandContext } from '../../context.ts';
import { oneMessage } from '../../one-message.ts';
import { moment } from '../../option-values.ts';
import { present } from '../../output.ts';
import { shortId } from '../../place-line.ts';
import { openActivity } from '../../progress/activity.ts';
import { refuseUnknown } from '../../unknown-names.ts';

/** Nobody reads more places than this; the manifest and `--json` have them all. */
const MOST_SHOWN = 20;

const WHY: Readonly<Record<ExportFailure['reason'], string>> = {
  quarantined: 'in quarantine: it could not be fetched completely',
  damaged: 'DAMAGED: its stored bytes were changed',
  purged: 'its bytes were removed on purpose',
};

/** The result for people. */
export function exportText(result: ExportResult): string {
  const { to, format, exported, skipped, kept, failures, interrupted } = result;
  const lost = result.quarantined + result.damaged + result.purged;
  return present([
    `${interrupted ? 'Interrupted: ' : ''}exported ${counted(exported, 'place')} (${bytes(result.bytes)}) as ${format} to ${terminalLine(to)}; commit ${result.commit.number}`,
    skipped > 0 && `${counted(skipped, 'place')} were there already`,
    kept > 0 &&
      `${counted(kept, 'place')} of earlier exports are there in addition to those asked for`,
    lost > 0 && `${counted(lost, 'place')} could not be exported:`,
    failures.slice(0, MOST_SHOWN).map(failureText),
    failures.length > MOST_SHOWN &&
      `  … and ${counted(lost - MOST_SHOWN, 'more')}; --json and the manifest name them`,
  ]).join('\n');
}

function failureText({ id, mailbox, folder, uid, reason }: ExportFailure): string {
  return `  ${shortId(id)}  ${terminalLine(mailbox)} ${terminalLine(folder)} uid ${uid}: ${WHY[reason]}`;
}

/** Damage is 3; what is in quarantine or purged is named, and is 1, as after a sync. */
export function exitOfExport(result: ExportResult): ExitCode {
  const { damaged, quarantined, purged, interrupted } = result;
  return combinedExit([
    ...(interrupted ? [EXIT.interrupted] : []),
    ...(damaged > 0 ? [EXIT.damage] : []),
    ...(quarantined + purged > 0 ? [EXIT.failures] : []),
  ]);
}

/** Characters of a line: more than any id, whatever stands around it. */
const LONGEST = 100;

/**
 * Reads ids of messages, or their beginnings, one a line; empty lines count for nothing.
 *
 * @param from a file, or `-` for standard input
 * @returns docids
 * @throws usage-ids-unreadable, usage-unknown-message, usage-ambiguous-id, message-purged
 */
export async function docidsFrom(
  { stdin, signal, surroundings }: Pick<CommandContext, 'stdin' | 'signal' | 'surroundings'>,
  reader: Reader,
  from: string,
): Promise<number[]> {
  const input = from === '-' ? stdin() : createReadStream(path.resolve(surroundings.cwd, from));
  const docids: number[] = [];
  try {
    for await (const line of linesOf(addAbortSignal(signal, input))) {
      const id = line.trim();
      if (id === '') continue;
      const docid = reader.catalog.messages.docidOf(oneMessage(reader, id));
      if (docid !== undefined) docids.push(docid);
    }
  } catch (error) {
    const reason = errnoOf(error);
    if (reason === undefined) throw error;
    const source = from === '-' ? 'standard input' : from;
    throw usageError('usage-ids-unreadable', { source, reason });
  }
  return docids;
}

/** Lines as they come, each cut to what is looked at. */
async function* linesOf(input: Readable): AsyncGenerator<string, void, undefined> {
  let rest = '';
  for await (const chunk of input.setEncoding('utf8')) {
    const lines = `${rest}${chunk}`.split('\n');
    rest = (lines.pop() ?? '').slice(0, LONGEST);
    for (const line of lines) yield line.slice(0, LONGEST);
  }
  yield rest;
}

/** Which places are exported. */
export interface SelectionLine {
  readonly query?: string;
  readonly ids?: string;
  readonly mailbox?: string;
  readonly folder?: string;
  readonly deleted?: boolean;
  readonly withDeleted?: boolean;
  readonly asOf?: string;
}

interface ExportLine extends SelectionLine {
  readonly to: string;
  readonly format: ExportFormat;
  readonly incremental?: boolean;
  readonly sidecar?: boolean;
  readonly statusHeaders?: boolean;
}

const HELP = `
Writes the exact source of every message, once for each place. Needs no network, account or configuration.

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

export function define(command: Command, chosen: (body: Body) => void): void {
  command
    .requiredOption('--to <path>', 'target: a file for zip, otherwise a folder')
    .addOption(
      new Option('--format <format>', 'format of the export')
        .choices(EXPORT_FORMATS)
        .makeOptionMandatory(),
    )
    .option('--query <Q>', 'only messages that this query finds')
    .addOption(
      new Option(
        '--ids <file>',
        'only messages with these ids, one a line; - is standard input',
      ).conflicts('query'),
    )
    .option('--mailbox <address>', 'only this mailbox (address or resource id)')
    .option('--folder <path>', 'only this folder: a path, a pattern, or a purpose such as sent')
    .addOption(
      new Option(
        '--deleted',
        'messages deleted at the service, instead of those still there',
      ).conflicts('withDeleted'),
    )
    .option(
      '--with-deleted',
      'also messages deleted at the service, each from the folder it was last in',
    )
    .option('--as-of <T>', 'what existed at that time')
    .option('--incremental', 'add what is new since the last export to the same target')
    .option('--sidecar', 'also write JSON with places, flags and history of each message')
    .option('--status-headers', 'mbox: put Status, X-Status and X-Keywords into the messages')
    .addHelpText('after', HELP)
    .action((options: ExportLine) => chosen((context) => exportPlaces(context, options)));
}

async function exportPlaces(context: CommandContext, options: ExportLine) {
  const { output, notices, signal, surroundings } = context;
  if (options.statusHeaders === true && options.format !== 'mbox') {
    throw usageError('usage-invalid', {
      command: 'export',
      problem: '--status-headers is for --format mbox only.',
    });
  }
  if (options.format === 'zip' && /[/\\]$/.test(options.to)) {
    const expected = 'the name of a file for a zip';
    throw usageError('usage-option', { option: '--to', found: options.to, expected });
  }
  return withReader(context, async (reader) => {
    refuseUnknownChoice(reader, options);
    const selection = await selectionOf(context, reader, options);
    refuseUnknown(unknownInQuery(reader, selection), notices);
    const to = path.resolve(surroundings.cwd, options.to);
    if (isWithin(to, reader.dataDir)) throw exportTargetInside(to, reader.dataDir);
    const activity = openActivity(context, 'choosing what to export');
    const result = await runExport({
      to,
      format: options.format,
      selection,
      incremental: options.incremental ?? false,
      sidecar: options.sidecar ?? false,
      statusHeaders: options.statusHeaders ?? false,
      catalog: reader.catalog,
      sources: reader.sources(),
      signal,
      onProgress: (progress) => activity.show(() => progressText(progress)),
    }).finally(activity.stop);
    await output.object(result, () => exportText(result));
    return exitOfExport(result);
  });
}

export function unknownInQuery({ catalog }: Reader, { query, asOf }: ExportSelection) {
  if (query === null) return [];
  const { text: _, ...asked } = query;
  const moment = asOf === null ? {} : { asOf };
  return catalog.explainSearch({ ...asked, ...moment, limit: 1, sort: 'newest' }).unknown;
}

export async function selectionOf(
  context: CommandContext,
  reader: Reader,
  options: SelectionLine,
): Promise<ExportSelection> {
  const { dataDir } = reader;
  const at = context.now();
  const text =
    options.query === undefined ? null : withSaved(options.query, () => savedSearches(dataDir));
  const query = text === null ? null : parseQuery(text, { now: at });
  return {
    query:
      text === null || query === null
        ? null
        : { text, node: query.node, accounts: accountHosts(query.node, context) },
    docids: options.ids === undefined ? null : await docidsFrom(context, reader, options.ids),
    mailbox: options.mailbox ?? null,
    folder: options.folder ?? null,
    deleted: options.deleted ?? false,
    withDeleted: options.withDeleted ?? false,
    asOf: options.asOf === undefined ? (query?.asOf ?? null) : moment('--as-of', options.asOf, at),
  };
}

function progressText({ done, of, bytes: written, ofBytes }: ExportProgress): string {
  return `exported ${count(done)} of ${counted(of, 'place')}, ${bytes(written)} of ${bytes(ofBytes)}`;
}
