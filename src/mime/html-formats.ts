/** What an element does to the text of a page. */
export type Format =
  | { readonly kind: 'inline' | 'apart' | 'link' | 'skip' | 'break' | 'rule' | 'image' }
  | {
      readonly kind: 'block' | 'pre' | 'quote';
      readonly leading: number;
      readonly trailing: number;
    }
  | { readonly kind: 'list'; readonly isOrdered: boolean };

const INLINE: Format = { kind: 'inline' };

const FORMATS = new Map<string, Format>([
  ...each('article aside div footer form header main nav section', block(1, 1)),
  ...each('tr caption dl dt dd center address option optgroup body figure figcaption', block(1, 1)),
  ...each('details summary fieldset legend hgroup noframes', block(1, 1)),
  // Outside a list; the items of a list have a block each.
  ...each('li', block(1, 1)),
  ...each('p h4 h5 h6 table', block(2, 2)),
  ...each('h1 h2 h3', block(3, 2)),
  ...each('pre', { kind: 'pre', leading: 2, trailing: 2 }),
  ...each('blockquote', { kind: 'quote', leading: 2, trailing: 2 }),
  ...each('ul menu dir', { kind: 'list', isOrdered: false }),
  ...each('ol', { kind: 'list', isOrdered: true }),
  // In a line with others whose words must not run together with theirs.
  ...each('td th button label textarea select iframe text', { kind: 'apart' }),
  ...each('title wbr script style', { kind: 'skip' }),
  ...each('br', { kind: 'break' }),
  ...each('hr', { kind: 'rule' }),
  ...each('img', { kind: 'image' }),
  ...each('a', { kind: 'link' }),
]);

/** Returns what an element of this name (in lower case) does to the text. */
export function formatOf(name: string): Format {
  return FORMATS.get(name) ?? INLINE;
}

function block(leading: number, trailing: number): Format {
  return { kind: 'block', leading, trailing };
}

function each(names: string, format: Format): [string, Format][] {
  return names.split(' ').map((name) => [name, format]);
}
