import { displayWidth } from '../mail/terminal-safe.ts';

/** Beyond this many characters a line is no prose, and is left to the terminal. */
const MOST_CHARS = 20_000;

/**
 * A line (harmless already) broken between words so that none is wider than `columns`, where its words allow. What
 * marks it as quoted, and its indentation, stand before every piece.
 */
export function wrapLine(line: string, columns: number): string[] {
  if (line.length <= columns / 2 || line.length > MOST_CHARS || displayWidth(line) <= columns) {
    return [line];
  }
  const [start = ''] = /^(?:[ \t]*>)*[ \t]*/.exec(line) ?? [];
  const lead = displayWidth(start) < columns / 2 ? start : '';
  const room = columns - displayWidth(lead);
  const pieces: string[] = [];
  let piece = '';
  let width = 0;
  for (const word of line.slice(start.length).split(' ')) {
    const wide = displayWidth(word);
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
