import { displayWidth } from '../mail/terminal-safe.ts';

/** Beyond this many characters a line is no prose, and is left to the terminal. */
const MOST_CHARS = 20_000;

/**
 * A line (harmless already) broken between words so that none is wider than `columns`, where its words allow. What
 * marks it as quoted, and its indentation, stand before every piece.
 */
export function wrapLine(line: string, columns: number): string[] {
  if (line.length <= columns / 2 || line.length > MOST_CHARS || shownWidth(line) <= columns) {
    return [line];
  }
  const [start = ''] = /^(?:[ \t]*>)*[ \t]*/.exec(line) ?? [];
  const lead = displayWidth(start) < columns / 2 ? start : '';
  const room = columns - displayWidth(lead);
  const pieces: string[] = [];
  let piece = '';
  let width = 0;
  for (const word of line.slice(start.length).split(' ')) {
    const wide = shownWidth(word);
    if (piece !== '' && width + 1 + wide > room) {
      pieces.push(`${lead}${piece}`);
      piece = word;
      width = wide;
    } else {
      piece = piece === '' ? word : `${piece} ${word}`;
      width += piece === word ? wide : wide + 1;
    }
  }
  return [...pieces, `${lead}${piece}`];
}

/** Columns of a text that may have our own colours in it. */
function shownWidth(text: string): number {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: what picocolors writes
  return displayWidth(text.includes('\u001b') ? text.replace(/\u001b\[[\d;]*m/g, '') : text);
}

/** From here on nothing has to be wrapped: lines are written for such terminals. */
const WIDE_ENOUGH = 80;

/**
 * A text for a terminal that is narrower than what texts are written for: its lines are broken between words. JSON is
 * left to the terminal, so that it can be copied.
 */
export function fitNarrow(text: string, columns: number | undefined): string {
  if (columns === undefined || columns < 1 || columns >= WIDE_ENOUGH || /^[[{]/.test(text))
    return text;
  return text
    .split('\n')
    .flatMap((line) => wrapLine(line, columns))
    .join('\n');
}
