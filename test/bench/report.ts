import { formatRatio } from './figures.ts';

/** A line of the table. Texts are ready to print; `ratio` is mailkeep's figure over the one it is held against. */
export interface Row {
  readonly work: string;
  readonly peers: string;
  readonly mailkeep: string;
  readonly ratio?: number;
  readonly target: string;
  /** Whether the target is met; absent where there is nothing to hold the figure against. */
  readonly met?: boolean;
}

const HEADERS = ['Work', 'Peers', 'mailkeep', 'Ratio', 'Target', 'Met'] as const;

/** The table as Markdown, its columns aligned for reading as text. */
export function formatTable(rows: readonly Row[]): string {
  const cells = rows.map((row) => [
    row.work,
    row.peers,
    row.mailkeep,
    row.ratio === undefined ? '' : formatRatio(row.ratio),
    row.target,
    row.met === undefined ? '' : row.met ? 'yes' : 'NO',
  ]);
  const lines: readonly (readonly string[])[] = [HEADERS, ...cells];
  const widths = HEADERS.map((_, column) =>
    Math.max(...lines.map((line) => (line[column] ?? '').length)),
  );
  const print = (line: readonly string[]): string =>
    `| ${line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`;
  const rule = `|${widths.map((width) => '-'.repeat(width + 2)).join('|')}|`;
  return [print(HEADERS), rule, ...cells.map(print)].join('\n');
}
