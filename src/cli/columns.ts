import { displayWidth, padColumns, terminalLine } from '../mail/terminal-safe.ts';
import type { Output } from './output.ts';

/**
 * Rows as a table without lines, under their headings. Cells are made harmless for a terminal. On a terminal the
 * column at `flexible` gives way when the rest needs its room; elsewhere every cell is whole.
 */
export function tableText(
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  flexible: number,
  output: Pick<Output, 'interactive' | 'columns' | 'colours'>,
): string {
  const cells = [headings, ...rows].map((row) => row.map(terminalLine));
  const widths = headings.map((_, i) =>
    Math.max(...cells.map((row) => displayWidth(row[i] ?? ''))),
  );
  if (output.interactive) {
    const all = widths.reduce((sum, width) => sum + width + GAP.length, -GAP.length);
    const wanted = widths[flexible] ?? 0;
    widths[flexible] = Math.min(wanted, Math.max(LEAST, wanted - (all - output.columns)));
  }
  return cells
    .map((row, i) => {
      const line = row.map((cell, j) => padColumns(cell, widths[j] ?? 0)).join(GAP);
      return i === 0 ? output.colours.dim(line.trimEnd()) : line.trimEnd();
    })
    .join('\n');
}

const GAP = '  ';
/** What is left of a column at least. */
const LEAST = 16;
