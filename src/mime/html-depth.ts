import { Parser } from 'htmlparser2';

/** HTML given to the parser at once: within one piece, the depth may run past what is asked for. */
const PIECE = 16 * 1024;

/**
 * True when elements of the HTML stand within each other more than `most` levels deep, as its parser sees it (which
 * closes elements whose end tag is optional). Linear, unlike the parser itself on deeper HTML: it keeps the open
 * elements in an array whose front it shifts at every tag.
 */
export function isDeeperThan(html: string, most: number): boolean {
  let depth = 0;
  let deepest = 0;
  const parser = new Parser({
    onopentagname: () => {
      depth++;
      deepest = Math.max(deepest, depth);
    },
    onclosetag: () => {
      depth--;
    },
  });
  for (let at = 0; at < html.length && deepest <= most; at += PIECE) {
    parser.write(html.slice(at, at + PIECE));
  }
  return deepest > most;
}
