import { terminalLine, terminalSafe } from '../mail/terminal-safe.ts';
import type { MessageReading } from '../mime/message-reading.ts';
import { bytes } from './amounts.ts';
import type { Colours } from './output.ts';

/** A message for reading on a terminal: the headers people look at, the text, the attachments. */
export function messageText(id: string, message: MessageReading, colours: Colours): string {
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
    .map(([name, value]) => [name, terminalLine(value)] as const)
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
    ...terminalSafe(message.text)
      .trim()
      .split('\n')
      .map((line) => (line.startsWith('>') ? colours.dim(line) : line)),
    ...(message.truncated ? [colours.dim('[the rest is left out; see --raw]')] : []),
    ...attachmentLines(id, message, colours),
  ].join('\n');
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
