import { fitColumns, terminalLine, terminalSafe } from '../../../mail/terminal-safe.ts';
import type { MessageReading } from '../../../mime/message-reading.ts';
import { bytes } from '../../../wording/amounts.ts';
import type { Colours, Output } from '../../output.ts';
import { wrapLine } from '../../wrap-text.ts';

/** What a message for reading is printed on. */
export type Paper = Pick<Output, 'colours' | 'interactive' | 'columns'>;

/** Lines wider than this are hard to read, however wide the terminal. */
const MOST_COLUMNS = 100;
/** Of a header field: a list of hundreds of recipients would hide the message. */
const FIELD_CHARS = 1000;

/** A message for reading on a terminal: the headers people look at, the text, the attachments. */
export function messageText(id: string, message: MessageReading, paper: Paper): string {
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
    .map(([name, value]) => [name, shortened(terminalLine(value))] as const)
    .filter(([, value]) => value !== '')
    .map(
      ([name, value]) =>
        `${colours.dim(`${name}:`.padEnd(9))}${name === 'Subject' ? colours.bold(value) : value}`,
    );
  return [
    ...lines,
    ...(message.reason === null
      ? []
      : [
          colours.yellow(
            `This message could not be read to its end (${message.reason}); see --raw.`,
          ),
        ]),
    '',
    ...bodyLines(terminalSafe(message.text).trim(), paper),
    ...(message.truncated ? [colours.dim('[the rest is left out; see --raw]')] : []),
    ...attachmentLines(id, message, colours),
  ].join('\n');
}

function shortened(value: string): string {
  if (value.length <= FIELD_CHARS) return value;
  // A space, so that no character is cut in half: there is one somewhere in a list of people.
  const end = value.lastIndexOf(' ', FIELD_CHARS);
  return `${fitColumns(value.slice(0, end > 0 ? end : FIELD_CHARS), 2 * FIELD_CHARS)} … (--headers has all of it)`;
}

/** The text with what is quoted, and the signature, out of the way of the eye. */
function bodyLines(text: string, { colours, interactive, columns }: Paper): string[] {
  let signature = false;
  return text.split('\n').flatMap((line) => {
    // RFC 3676 section 4.3; the blank behind the dashes is often lost.
    if (/^-- ?$/.test(line)) signature = true;
    const quoted = /^[ \t]*>/.test(line);
    if (quoted) signature = false;
    const shown = interactive ? wrapLine(line, Math.min(columns, MOST_COLUMNS)) : [line];
    return quoted || signature ? shown.map((piece) => colours.dim(piece)) : shown;
  });
}

function attachmentLines(id: string, { attachments }: MessageReading, colours: Colours): string[] {
  if (attachments.length === 0) return [];
  return [
    '',
    ...attachments.map(
      ({ number, filename, contentType, size }) =>
        `${colours.dim(`[${number}]`)} ${terminalLine(filename ?? '(no name)')}  ${terminalLine(contentType)}, ${bytes(size)}`,
    ),
    colours.dim(`mailkeep attachments ${id.slice(0, 12)} --save DIR`),
  ];
}
