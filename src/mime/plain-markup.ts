import { Parser } from 'htmlparser2';

/** HTML given to the parser at once: within one piece, the depth may run past what is asked for. */
const PIECE = 16 * 1024;

/** Elements without a text that anybody reads. */
const UNREAD = new Set(['script', 'style', 'title']);
/** Elements that have no end tag, and say something. */
const EMPTY = new Set(['br', 'hr', 'img', 'wbr']);
/**
 * Elements whose content parsers take for text, or read by other rules, depending on their version. Within the others
 * all parsers agree.
 */
const AMBIGUOUS = new Set(['iframe', 'noembed', 'noframes', 'plaintext', 'textarea', 'xmp']);
const FOREIGN = new Set(['svg', 'math']);
/** Attributes that the text of a page needs. */
const READ_ATTRIBUTES = ['href', 'alt', 'start', 'type'];

/**
 * Rewrites HTML so that every parser sees the same tree, no deeper than `most.depth` levels: each element that is
 * opened is closed, in order; text is escaped; what nobody reads is left out. Null for HTML that is deeper, or that has
 * more than `most.elements` elements.
 *
 * The parser that turns HTML into text is older than this one and closes fewer elements by itself, so the depth that
 * this one finds says nothing about what the other makes of the original. Its time grows with the depth at every tag.
 */
export function plainMarkup(
  html: string,
  most: { readonly depth: number; readonly elements: number },
): string | null {
  const out: string[] = [];
  let depth = 0;
  let elements = 0;
  let unread = 0;
  let over = false;
  const parser = new Parser({
    onopentag(name, attributes) {
      depth++;
      elements++;
      if (depth > most.depth || elements > most.elements) over = true;
      if (UNREAD.has(name)) unread++;
      else if (unread === 0) out.push(`<${shownName(name)}${shownAttributes(attributes)}>`);
    },
    ontext(text) {
      if (unread === 0) out.push(escaped(text));
    },
    onclosetag(name, implied) {
      depth--;
      if (UNREAD.has(name)) unread--;
      else if (unread === 0 && !EMPTY.has(name)) out.push(`</${shownName(name)}>`);
      // A link that the next one ended: the address that the text shows behind it must not touch the next word.
      if (name === 'a' && implied) out.push(' ');
    },
  });
  for (let at = 0; at < html.length && !over; at += PIECE) parser.write(html.slice(at, at + PIECE));
  if (over) return null;
  parser.end();
  return over ? null : out.join('');
}

function shownName(name: string): string {
  if (AMBIGUOUS.has(name)) return 'label';
  return FOREIGN.has(name) ? 'span' : name;
}

function shownAttributes(attributes: Readonly<Record<string, string>>): string {
  return READ_ATTRIBUTES.map((name) => {
    const value = attributes[name];
    return value === undefined ? '' : ` ${name}="${escaped(value)}"`;
  }).join('');
}

function escaped(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}
