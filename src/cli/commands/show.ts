import { spawn } from 'node:child_process';
import { finished } from 'node:stream/promises';
import type { Reader } from '../../catalog/open-reader.ts';
import { EXIT, type ExitCode } from '../../core/errors.ts';
import { fitColumns, terminalLine, terminalSafe } from '../../core/terminal-safe.ts';
import { bytes } from '../../core/text.ts';
import type { MessageId } from '../../core/types.ts';
import type { MessageReading } from '../../mail/extraction.ts';
import { readMessage, readPage } from '../../mail/reading.ts';
import { findMessage, withReader } from '../archive.ts';
import {
  action,
  type CommandContext,
  type CommandResult,
  type Flags,
  type Register,
} from '../context.ts';
import { exclude } from '../option-values.ts';
import { type Colours, commandLine, joinReport, type Output, wrapLine } from '../output.ts';

/** Fields that also appear in list and search have the same names there. */
function messageJson(reader: Reader, id: MessageId, reading: MessageReading) {
  const { html: _html, hasPlain: _hasPlain, remote: _remote, ...shown } = reading;
  const summary = reader.catalog.messages.summary(id);
  return { id, ...shown, ...summary, size: summary?.size ?? reader.sources().sizeOf(id) };
}

type Paper = Pick<Output, 'colours' | 'interactive' | 'columns'>;

/** Longer lines are hard to read. */
const MAX_COLUMNS = 100;
/** Maximum characters shown per header field. Hundreds of recipients would push the message off the screen. */
const FIELD_CHARS = 1000;

/**
 * Formats a message for a terminal: main headers, text and attachments.
 * @param data the `--data` folder, for the suggested command
 */
export function messageText(
  id: string,
  message: MessageReading,
  paper: Paper,
  data?: string,
): string {
  const { colours } = paper;
  const date = message.headers.find(({ name }) => name.toLowerCase() === 'date')?.value ?? '';
  const fields: [string, string][] = [
    ['From', message.from],
    ['To', message.to],
    ['Cc', message.cc],
    ['Bcc', message.bcc],
    ['Date', date],
    ['Subject', message.subject],
  ];
  const lines = fields
    .map(([name, value]) => [name, shortenField(terminalLine(value))] as const)
    .filter(([, value]) => value !== '')
    .map(
      ([name, value]) =>
        `${colours.dim(`${name}:`.padEnd(9))}${name === 'Subject' ? colours.bold(value) : value}`,
    );
  return joinReport([
    lines,
    message.reason !== null &&
      colours.yellow(`This message could not be read to its end (${message.reason}); see --raw.`),
    message.encrypted !== null &&
      colours.yellow(
        `This message is encrypted (${message.encrypted}): its text cannot be read here.`,
      ),
    '',
    bodyLines(terminalSafe(message.text).trim(), paper),
    message.truncated && colours.dim('[the rest is left out; see --raw]'),
    attachmentLines(id, message, colours, data),
  ]).join('\n');
}

function shortenField(value: string): string {
  if (value.length <= FIELD_CHARS) return value;
  // Cuts at a space, to avoid splitting a character. Long header fields are lists, which contain spaces.
  const end = value.lastIndexOf(' ', FIELD_CHARS);
  return `${fitColumns(value.slice(0, end > 0 ? end : FIELD_CHARS), 2 * FIELD_CHARS)} … (--headers has all of it)`;
}

/** Dims quoted text and the signature. */
function bodyLines(text: string, { colours, interactive, columns }: Paper): string[] {
  let signature = false;
  return text.split('\n').flatMap((line) => {
    // RFC 3676, section 4.3. Mail programs often strip the space after the dashes.
    if (/^-- ?$/.test(line)) signature = true;
    const quoted = /^[ \t]*>/.test(line);
    if (quoted) signature = false;
    const pieces = interactive ? wrapLine(line, Math.min(columns, MAX_COLUMNS)) : [line];
    return quoted || signature ? pieces.map((piece) => colours.dim(piece)) : pieces;
  });
}

function attachmentLines(
  id: string,
  { attachments }: MessageReading,
  colours: Colours,
  data: string | undefined,
): string[] {
  if (attachments.length === 0) return [];
  return [
    '',
    ...attachments.map(
      ({ number, filename, contentType, size }) =>
        `${colours.dim(`[${number}]`)} ${terminalLine(filename ?? '(no name)')}  ${terminalLine(contentType)}, ${bytes(size)}`,
    ),
    colours.dim(commandLine(`attachments ${id.slice(0, 12)} --save DIR`, data)),
  ];
}

/** Shows colours, exits if everything fits on one screen, and leaves the text visible. */
const DEFAULT_PAGER = 'less -FRX';

/** Returns the value of `MAILKEEP_PAGER` or `PAGER`, or less; undefined if paging is disabled. */
export function choosePager(env: Readonly<Record<string, string | undefined>>): string | undefined {
  const pager = env.MAILKEEP_PAGER ?? env.PAGER ?? DEFAULT_PAGER;
  return pager.trim() === '' || pager.trim() === 'cat' ? undefined : pager;
}

/** Prints terminal-safe text. On a terminal, uses the pager if it starts. */
export async function printPaged(
  { output, environment: { env } }: Pick<CommandContext, 'output' | 'environment'>,
  text: string,
): Promise<void> {
  const pager = output.interactive ? choosePager(env) : undefined;
  if (pager === undefined || !(await runPager(pager, env, text))) await output.text(text);
}

/** Returns false if the pager could not start. */
async function runPager(
  pager: string,
  env: Readonly<Record<string, string | undefined>>,
  text: string,
): Promise<boolean> {
  // Runs in a shell, because these variables can contain options and pipes. The command contains no mail data.
  const child = spawn('/bin/sh', ['-c', pager], {
    stdio: ['pipe', 'inherit', 'inherit'],
    // Same defaults as git. Without them, less would print our colour codes literally.
    env: { ...env, LESS: env.LESS ?? 'FRX' },
  });
  const ended = new Promise<number | null>((resolve) => {
    child.on('error', () => resolve(NOT_FOUND));
    child.on('close', resolve);
  });
  child.stdin.end(`${text}\n`);
  // Quitting the pager early is not an error.
  await finished(child.stdin).catch(() => undefined);
  const code = await ended;
  return code !== NOT_FOUND && code !== NOT_EXECUTABLE;
}

/** Exit codes by which a shell reports a missing or non-executable command. */
const NOT_FOUND = 127;
const NOT_EXECUTABLE = 126;

/** Prints a thread's messages, oldest first: one pager on a terminal, one line each in JSON. */
async function showThread(
  context: CommandContext,
  reader: Reader,
  id: MessageId,
  { pager }: { readonly pager: boolean },
): Promise<ExitCode> {
  const { output, signal } = context;
  const paged: string[] | undefined = pager && output.interactive ? [] : undefined;
  for (const [i, one] of reader.catalog.threadOf(id).entries()) {
    if (signal.aborted) return EXIT.interrupted;
    const reading = await readMessage(reader.sources().streamMessage(one));
    const text = (): string => {
      const own = messageText(one, reading, output, context.globals.data);
      return i === 0 ? own : `\n${output.colours.dim('─'.repeat(40))}\n${own}`;
    };
    if (paged === undefined) await output.line(messageJson(reader, one, reading), text);
    else paged.push(text());
  }
  if (paged !== undefined) await printPaged(context, paged.join('\n'));
  return EXIT.done;
}

type ShowLine = Flags<'raw' | 'headers' | 'html' | 'thread'> & { readonly pager: boolean };

const HELP = `
Shows a message for reading: headers, text (HTML as text, links visible), attachments. ID is an id from list
or search; its first characters are enough if no other id begins with them.

On a terminal the output goes through a pager: MAILKEEP_PAGER or PAGER, otherwise less -FRX.

--raw writes the source exactly as the service gave it, byte for byte.
--html writes the message's HTML as a page that is safe to open: no scripts, no forms, no remote pictures,
nothing that contacts the sender. Pictures included in the message are embedded. A message without HTML prints
nothing but a note on standard error. The HTML as its sender wrote it is in the source (--raw).

EXAMPLES
  mailkeep show 3f2a91c4
  mailkeep show 3f2a91c4 --headers
  mailkeep show 3f2a91c4 --thread
  mailkeep show 3f2a91c4 --raw >message.eml
  mailkeep show 3f2a91c4 --html >message.html`;

export const register: Register = (command, run) => {
  command
    .argument('<id>', 'id of a message, or its beginning')
    .option('--raw', 'the exact source')
    .option('--headers', 'the header fields only, decoded')
    .option('--html', 'the HTML as a page that is safe to open')
    .option('--thread', 'every message of its thread, oldest first')
    .option('--no-pager', 'print it all at once')
    .addHelpText('after', HELP)
    .action(action(run, show));
  exclude(command, ['raw', 'headers', 'html'], ['headers', 'html']);
  exclude(command, ['thread', 'raw', 'headers', 'html']);
};

function show(context: CommandContext, typed: string, options: ShowLine): Promise<CommandResult> {
  return withReader<CommandResult>(context, (reader) => {
    const id = findMessage(reader, typed);
    if (options.thread === true) return showThread(context, reader, id, options);
    if (options.raw === true) return raw(context, reader, id);
    if (options.html === true) return html(context, reader, id);
    return (options.headers === true ? headers : message)(context, reader, id, options);
  });
}

async function raw({ output }: CommandContext, reader: Reader, id: MessageId): Promise<void> {
  for await (const piece of reader.sources().streamMessage(id)) await output.bytes(piece);
}

async function html(
  { output, notices }: CommandContext,
  reader: Reader,
  id: MessageId,
): Promise<void> {
  const page = await readPage(reader.sources().streamMessage(id));
  if (page === null) notices.warn(`message ${id.slice(0, 12)} has no HTML`);
  if (page !== null || output.json) {
    await output.object({ id, html: page }, () => terminalSafe(page ?? ''));
  }
}

async function headers(
  context: CommandContext,
  reader: Reader,
  id: MessageId,
  { pager }: ShowLine,
): Promise<void> {
  const { headers: fields } = await readMessage(reader.sources().streamMessage(id));
  await printMessage(context, pager, { id, headers: fields }, () =>
    fields.map(({ name, value }) => `${terminalLine(name)}: ${terminalLine(value)}`).join('\n'),
  );
}

async function message(
  context: CommandContext,
  reader: Reader,
  id: MessageId,
  { pager }: ShowLine,
): Promise<void> {
  const reading = await readMessage(reader.sources().streamMessage(id));
  await printMessage(context, pager, messageJson(reader, id, reading), () =>
    messageText(id, reading, context.output, context.globals.data),
  );
}

async function printMessage(
  context: CommandContext,
  pager: boolean,
  value: unknown,
  text: () => string,
): Promise<void> {
  if (pager && context.output.interactive) await printPaged(context, text());
  else await context.output.object(value, text);
}
