import { Option } from 'commander';
import { usageError } from '../../../errors/usage.ts';
import { csvField } from '../../line-format.ts';
import type { Output } from '../../output.ts';
import { tableText } from '../../output.ts';

const TABLE_FORMATS = ['text', 'csv'] as const;
/** How a table is printed, other than as JSON. */
export type TableFormat = (typeof TABLE_FORMATS)[number];

export function tableFormatOption(): Option {
  return new Option('--format <format>', 'how to print: text or CSV')
    .choices(TABLE_FORMATS)
    .default('text');
}

/** @throws usage-invalid for two formats at once */
export function refuseTwoTables(command: string, format: TableFormat, json: boolean): void {
  if (format !== 'text' && json)
    throw usageError('usage-invalid', {
      command,
      problem: `--format ${format} cannot be used with --json.`,
    });
}

/** A column: its name in CSV, its heading, its value, and how people read that. */
export interface Column<Row> {
  readonly name: string;
  readonly heading: string;
  readonly value: (row: Row) => string | number | null;
  readonly text?: (row: Row) => string;
}

/**
 * Prints rows as JSON lines, CSV, or a table.
 *
 * @param flexible the column that gives way on a narrow terminal
 * @returns how many there are
 */
export async function printTable<Row>(
  rows: readonly Row[],
  columns: readonly Column<Row>[],
  flexible: number,
  format: TableFormat,
  output: Output,
): Promise<number> {
  if (output.json) {
    for (const row of rows) await output.line(row, () => '');
    return rows.length;
  }
  if (format === 'csv') {
    const line = (fields: readonly string[]) =>
      output.bytes(Buffer.from(`${fields.join(',')}\r\n`));
    await line(columns.map(({ name }) => name));
    for (const row of rows) await line(columns.map(({ value }) => csvField(value(row))));
    return rows.length;
  }
  if (rows.length === 0) return 0;
  const cells = rows.map((row) =>
    columns.map(({ value, text }) => text?.(row) ?? String(value(row) ?? '')),
  );
  const headings = columns.map(({ heading }) => heading);
  await output.text(tableText(headings, cells, flexible, output));
  return rows.length;
}
