import type { HelpBlock, HelpRow } from './help-text.ts';

/** Returns text as man(7) prints it: nothing in it is a request or an escape. */
export function roffText(text: string): string {
  const escaped = text
    .replaceAll('\\', '\\e')
    .replaceAll('-', '\\-')
    .replaceAll('~', '\\(ti')
    .replaceAll('^', '\\(ha')
    .replaceAll('`', '\\(ga')
    .replaceAll("'", '\\(aq')
    .replaceAll('"', '\\(dq')
    .replace(/[^\0-\x7f]/gu, (letter) => `\\[u${codePoint(letter)}]`);
  // A dot or an apostrophe at the beginning of a line makes a request of it.
  return /^\./.test(escaped) ? `\\&${escaped}` : escaped;
}

function codePoint(letter: string): string {
  return (letter.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
}

export function roffRows(rows: readonly HelpRow[]): string[] {
  return rows.flatMap(({ term, description }) => [
    '.TP',
    `.B ${roffText(term)}`,
    roffText(description),
  ]);
}

/** @param heading the request for headings of this level */
export function roffBlocks(blocks: readonly HelpBlock[], heading: '.SH' | 'bold'): string[] {
  return blocks.flatMap((block): string[] => {
    if (block.kind === 'lines') {
      return ['.PP', '.RS 2', '.nf', ...block.lines.map(roffText), '.fi', '.RE'];
    }
    const text = roffText(block.text);
    if (block.kind === 'paragraph') return ['.PP', text];
    return heading === '.SH' ? [`.SH ${text}`] : ['.PP', `.B ${text}`];
  });
}
