import type {
  Dimension,
  DuplicateRow,
  LargeMessage,
  StatsRow,
  Sums,
} from '../../../catalog/stats/rows.ts';
import { bytes, count, counted } from '../../../wording/amounts.ts';
import type { Output } from '../../output.ts';
import { dateText, senderText, shortId } from '../../place-line.ts';
import { type Column, printTable, type TableFormat } from './table-format.ts';

/** The query of a row within the one that was asked for, if any. */
function whole<Row extends { readonly query: string | null }>(
  row: Row,
  within: string | undefined,
): Row {
  return within === undefined || row.query === null
    ? row
    : { ...row, query: `${within} ${row.query}` };
}

const MESSAGES: Column<StatsRow> = {
  name: 'messages',
  heading: 'messages',
  value: ({ messages }) => messages,
  text: ({ messages }) => count(messages),
};
const BYTES: Column<StatsRow> = {
  name: 'bytes',
  heading: 'size',
  value: ({ bytes: size }) => size,
  text: ({ bytes: size }) => bytes(size ?? 0),
};
const DELETED: Column<StatsRow> = {
  name: 'deleted',
  heading: 'deleted',
  value: ({ deleted }) => deleted,
  text: ({ deleted }) => count(deleted ?? 0),
};
const CONTENTS: Column<StatsRow> = {
  name: 'contents',
  heading: 'contents',
  value: ({ contents }) => contents ?? null,
  text: ({ contents }) => count(contents ?? 0),
};
const LAST: Column<StatsRow> = {
  name: 'last',
  heading: 'last',
  value: ({ last }) => last ?? null,
  text: ({ last }) => (last == null ? '' : dateText(last)),
};

function columnsOf(by: Dimension): readonly Column<StatsRow>[] {
  const key: Column<StatsRow> = { name: by, heading: by, value: (row) => row.key };
  if (by === 'type') return [key, MESSAGES, CONTENTS, BYTES];
  const isPeople = by === 'from' || by === 'to' || by === 'domain';
  return isPeople ? [key, MESSAGES, LAST] : [key, MESSAGES, BYTES, DELETED];
}

/** @param within the query that was asked for, as the beginning of others */
export function printRows(
  by: Dimension,
  rows: readonly StatsRow[],
  within: string | undefined,
  format: TableFormat,
  output: Output,
): Promise<number> {
  const shown = rows.map((row) => whole(row, within));
  return printTable(shown, columnsOf(by), 0, format, output);
}

export async function printTotals(sums: Sums, format: TableFormat, output: Output): Promise<void> {
  if (format === 'csv') {
    const { messages, bytes: size, deleted } = sums;
    await output.bytes(Buffer.from(`messages,bytes,deleted\r\n${messages},${size},${deleted}\r\n`));
    return;
  }
  await output.object(
    sums,
    () =>
      `${counted(sums.messages, 'message')}, ${bytes(sums.bytes)}, ${count(sums.deleted)} of them deleted at the service.`,
  );
}

export function printLargest(
  messages: readonly LargeMessage[],
  format: TableFormat,
  output: Output,
): Promise<number> {
  return printTable(
    messages,
    [
      {
        name: 'bytes',
        heading: 'size',
        value: ({ size }) => size,
        text: ({ size }) => bytes(size),
      },
      { name: 'id', heading: 'id', value: ({ id }) => id, text: ({ id }) => shortId(id) },
      {
        name: 'date',
        heading: 'received',
        value: ({ date }) => date,
        text: ({ date }) => dateText(date),
      },
      {
        name: 'from',
        heading: 'from',
        value: ({ from }) => from?.address ?? null,
        text: ({ from }) => senderText(from),
      },
      { name: 'subject', heading: 'subject', value: ({ subject }) => subject },
    ],
    4,
    format,
    output,
  );
}

export function printDuplicates(
  rows: readonly DuplicateRow[],
  within: string | undefined,
  format: TableFormat,
  output: Output,
): Promise<number> {
  return printTable(
    rows.map((row) => whole(row, within)),
    [
      {
        name: 'messages',
        heading: 'messages',
        value: ({ messages }) => messages,
        text: ({ messages }) => count(messages),
      },
      {
        name: 'bytes',
        heading: 'size',
        value: ({ bytes: size }) => size,
        text: ({ bytes: size }) => bytes(size),
      },
      { name: 'messageId', heading: 'Message-ID', value: ({ messageId }) => messageId },
      { name: 'subject', heading: 'subject', value: ({ subject }) => subject },
    ],
    3,
    format,
    output,
  );
}
