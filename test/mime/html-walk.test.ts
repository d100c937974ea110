import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { walkFlatHtml, walkHtml } from '../../src/mail/html-text.ts';
import { MET_LIMIT, referenceText } from './reference-text.ts';

const LIMITS = { depth: 6, children: 8 };
const address = (href: string) => (href.startsWith('x') ? '' : href.trim());
const reference = referenceText({ address, ...LIMITS, keepsLines: false });
const flatReference = referenceText({ address, depth: 1000, children: 1000, keepsLines: true });

/** Elements of every kind that the layout knows, and such as parsers treat in ways of their own. */
const name = fc.oneof(
  fc.constantFrom('p', 'div', 'b', 'a', 'a', 'td', 'ul', 'ol', 'li', 'li', 'blockquote', 'pre'),
  fc.constantFrom('menu', 'dir', 'dl', 'details', 'summary', 'figure', 'legend', 'noframes'),
  fc.constantFrom('h1', 'h3', 'h5', 'table', 'tr', 'th', 'span', 'label', 'br', 'hr', 'img', 'wbr'),
  fc.constantFrom('title', 'script', 'style', 'textarea', 'select', 'option', 'svg', 'math', 'mi'),
  fc.constantFrom(
    'form',
    'body',
    'iframe',
    'xmp',
    'foreignObject',
    'image',
    'plaintext',
    'noembed',
  ),
);
const space = fc.constantFrom(' ', '  ', '\n', '\t \n', '\u00a0', '\u200b', '\r\n', '\f', '\u3000');
const word = fc.constantFrom(
  'a',
  'b',
  'cd',
  'e.g.',
  'ä',
  '😀',
  '1',
  '-',
  '&amp;',
  '&lt;',
  '&nbsp;',
  '&#32;',
  '&#10',
  '&copy',
  '&x;',
);
const href = fc.constantFrom(
  'a',
  'cd',
  'acd',
  'mailto:a',
  '#a',
  'x',
  '',
  ' a b ',
  '&#97;',
  'a\nb',
  'http://a/?b=c&d',
);
const attribute = fc.oneof(
  href.map((value) => `href="${value}"`),
  href.map((value) => `alt='${value}'`),
  fc.constantFrom(
    'start=3',
    'start="-1"',
    'start=x',
    'start=',
    'start=1.5',
    'class=a>',
    'href',
    'HREF=b',
  ),
  fc.constantFrom('href=a/', '"', "'", '<', '=', "a='\"'", 'type=1', 'type=z', 'alt'),
);
const tag = fc
  .tuple(
    name,
    fc.array(attribute, { maxLength: 2 }),
    fc.constantFrom('>', '>', '>', '/>', ' >', ''),
  )
  .map(([element, attributes, end]) => `<${[element, ...attributes].join(' ')}${end}`);
const odd = fc.constantFrom(
  ...[
    '<!-- c -->',
    '<!---->',
    '<!-->',
    '<!x>',
    '<?x?>',
    '<![CDATA[a<b]]>',
    '<!DOCTYPE html>',
    '<!--',
  ],
  ...[
    '<',
    '>',
    '</',
    '</>',
    '</ p>',
    '<p',
    '<a href="',
    '-->',
    ']]>',
    '<1',
    '&',
    '</br>',
    '</p>',
    '<>',
  ],
);
const piece = fc.oneof(
  tag,
  tag,
  name.map((element) => `</${element}>`),
  word,
  word,
  space,
  odd,
);
const soup = fc.array(piece, { maxLength: 40, size: 'max' }).map((pieces) => pieces.join(''));

/** Elements that are closed in their order, as most are. */
const tree = fc.letrec<{ node: string }>((tie) => ({
  node: fc.oneof(
    { maxDepth: 5, depthSize: 'large', withCrossShrink: true },
    fc.tuple(space, word, space).map((parts) => parts.join('')),
    word,
    space,
    fc.constant('<!-- c -->'),
    fc
      .tuple(
        name,
        fc.array(attribute, { maxLength: 1 }),
        fc.array(tie('node'), { maxLength: 5, size: 'max' }),
      )
      .map(([element, attributes, inner]) => {
        const start = [element, ...attributes].join(' ');
        return `<${start}>${inner.join('')}</${element}>`;
      }),
  ),
})).node;

describe('the walk gives the text of html-to-text', () => {
  it('for elements in and out of order, within and beyond the limits', () => {
    let within = 0;
    let asked = 0;
    fc.assert(
      fc.property(fc.oneof(soup, tree), (html) => {
        const expected = reference(html);
        const text = walkHtml(html, address, LIMITS);
        asked++;
        if (text === null) expect(expected).toContain(MET_LIMIT);
        else {
          within++;
          expect(text).toBe(expected);
        }
      }),
      { numRuns: 10_000 },
    );
    expect(within / asked).toBeGreaterThan(0.5);
    expect(within).toBeLessThan(asked);
  });

  it('for HTML whose line feeds are kept', () => {
    fc.assert(
      fc.property(fc.oneof(soup, tree), (html) => {
        expect(walkFlatHtml(html, address)).toBe(flatReference(html));
      }),
      { numRuns: 5_000 },
    );
  });

  it('for HTML that the parser gets in several pieces', () => {
    const html = '<p>a &amp; b < c <a href="d<e">&#102;</a><!-- < --><textarea><g></textarea>';
    const wide = { depth: 6, children: 100_000 };
    const whole = referenceText({ address, ...wide, keepsLines: false });
    expect(walkHtml(html.repeat(1_000), address, wide)).toBe(whole(html.repeat(1_000)));
  });

  it.each(['1', 'a', 'A', 'i', 'I'])('for the numbers of lists of type %s', (type) => {
    for (let start = 1; start < 3999; start += start < 60 ? 1 : 37) {
      const html = `<ol type=${type} start=${start}><li>b<li>c</ol>`;
      expect(walkHtml(html, address, LIMITS)).toBe(reference(html));
    }
  });
});

it('numbers that have no letters or Roman digits are shown in decimal', () => {
  const list = (type: string, start: string) =>
    walkHtml(`<ol type=${type} start="${start}"><li>x</ol>`, address, LIMITS);
  expect(list('i', '4000')).toBe(' 4000. x');
  expect(list('I', '10000000')).toBe(' 10000000. x');
  expect(list('I', '1e999')).toBe(' Infinity. x');
  expect(list('A', '-5')).toBe(' -5. x');
});
