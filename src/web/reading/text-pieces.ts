import { matchesBetween, type Sought } from '../../search/word-matches.ts';
import type { TextPiece } from './message-shapes.ts';

/** Pieces of a text on one page: a text of quotes and answers in turns, line by line, would cost seconds. */
const MOST_PIECES = 2_000;
/** Matches that are marked in one message. */
const MOST_MATCHES = 1_000;
/** Characters of a message in which matches are looked for: folding every word of them takes time. */
const MATCHED_CHARS = 200_000;

/**
 * Returns the text of a message in pieces: what is quoted is folded, and a signature dimmed.
 *
 * @param sought the words of the query, which are marked
 */
export function textPieces(text: string, sought: readonly Sought[] = []): TextPiece[] {
  const pieces: { kind: TextPiece['kind']; lines: string[] }[] = [];
  let signature = false;
  for (const line of text.replace(/\r\n?/g, '\n').split('\n')) {
    const quoted = /^[ \t]?>/.test(line);
    // RFC 3676 section 4.3; the blank behind the dashes is often lost.
    if (/^-- ?$/.test(line)) signature = true;
    if (quoted) signature = false;
    const kind = quoted ? 'quote' : signature ? 'signature' : 'text';
    const last = pieces.at(-1);
    if (last !== undefined && (last.kind === kind || pieces.length >= MOST_PIECES))
      last.lines.push(line);
    else pieces.push({ kind, lines: [line] });
  }
  let chars = MATCHED_CHARS;
  let most = MOST_MATCHES;
  return pieces.map((piece) => {
    if (sought.length === 0 || chars <= 0) return { ...piece, matches: [] };
    const shown = piece.lines.join('\n');
    const matches: TextPiece['matches'][number][] = [];
    for (const match of matchesBetween(shown, sought, 0, chars)) {
      if (matches.length >= most) break;
      matches.push(match);
    }
    chars -= shown.length;
    most -= matches.length;
    return { ...piece, matches };
  });
}
