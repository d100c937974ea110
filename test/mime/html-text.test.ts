import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { htmlText } from '../../src/mail/html-text.ts';

const MANY = 2 * 1024 * 1024;
const ALL = { chars: MANY, tags: MANY };
const convert = (html: string) => htmlText(html, 'short', ALL).text;

describe('htmlText', () => {
  it.each([
    [
      '<table><tr><td>foo</td><td>bar</td></tr><tr><th>a</th><th>b</th></tr></table>',
      'foo bar\na b',
    ],
    ['before<body>inside</body>after', 'before\ninside\nafter'],
    ['<ul><li>a</li><li>b</li></ul>', ' * a\n * b'.trim()],
    ['<h1>Not shouted</h1>', 'Not shouted'],
    ['a<b>b</b>c', 'abc'],
    ['<style>p{}</style><title>t</title><script>s()</script><!-- c -->x', 'x'],
    ['<img src="http://tracker/x.gif" alt="Logo"> <img src="y.gif">', 'Logo'],
    ['&Uuml;ber&nbsp;&#8364;', 'Über €'],
    ['one<br>two', 'one\ntwo'],
    ['<p>unclosed <font>tags <b>everywhere', 'unclosed tags everywhere'],
  ])('%s', (html, text) => {
    expect(convert(html)).toBe(text);
  });

  it('keeps where links lead, without what only tracks', () => {
    const long = `https://example.org/offers/${'x'.repeat(60)}`;
    expect(convert(`<a href="${long}?utm=${'y'.repeat(500)}">see</a>`)).toBe(`see [${long}]`);
    expect(convert('<a href="https://example.org/?id=7">see</a>')).toBe(
      'see [https://example.org/?id=7]',
    );
    expect(convert('<a href="https://example.org">https://example.org</a>')).toBe(
      'https://example.org',
    );
    expect(convert('<a href="mailto:a@example.org">a@example.org</a>')).toBe('a@example.org');
    expect(convert('<a href="javascript:alert(1)">click</a>')).toBe('click');
    expect(htmlText(`<a href="${long}?id=1">see</a>`, 'full', ALL).text).toBe(`see [${long}?id=1]`);
  });

  it('drops pictures inside the HTML before it cuts', () => {
    const html = `<img src="data:image/png;base64,${'iVBORw0KGgo'.repeat(20_000)}"><p>after</p>`;
    expect(htmlText(html, 'short', { ...ALL, chars: 10_000 })).toMatchObject({
      text: 'after',
      cut: false,
    });
    expect(htmlText(`<p>${'word '.repeat(100)}</p>`, 'short', { ...ALL, chars: 53 }).cut).toBe(
      true,
    );
  });

  it.each([
    ['divs', '<div>', '</div>'],
    ['inline elements that nothing closes', '<b>', '</i>'],
    ['tables', '<table><tr><td>', '</td></tr></table>'],
    ['links', '<a href="https://example.org/">', '</a>'],
  ])('keeps words under 20,000 nested %s', (_, open, close) => {
    const html = `first ${open.repeat(20_000)}deep words${close.repeat(20_000)} last`;
    expect(convert(html).split(/\s+/)).toEqual(
      expect.arrayContaining(['first', 'deep', 'words', 'last']),
    );
  });

  it('keeps links and lists in HTML of many elements', () => {
    const rows = (n: number) =>
      Array.from(
        { length: n },
        (_, i) => `<li>${i} <a href="https://a.example/?q=1&amp;r">&lt;b&gt;`,
      );
    const html = `<ul>${rows(4000).join('</a>')}</a></ul>`;
    const lines = convert(html).split('\n');
    expect(lines).toHaveLength(4000);
    expect(lines.at(-1)).toBe(' * 3999 <b> [https://a.example/?q=1&r]');
  });

  it('flattens what has more tags than are left, and counts those of trees', () => {
    const html = '<p>a</p><a href="https://b.example/">c</a>';
    expect(htmlText(html, 'short', { ...ALL, tags: 4 })).toMatchObject({
      text: expect.stringContaining('https://b.example/'),
      tags: 4,
    });
    expect(htmlText(html, 'short', { ...ALL, tags: 3 })).toMatchObject({ text: 'a\nc', tags: 0 });
  });

  it('flattens megabytes of it as it flattens each of its lines', () => {
    const line = (i: number) => `<p class="p${i}">w${i} <<b>x</b> 1 < 2<!-- ${i} --> &lt;y</p>`;
    const flat = (html: string) => htmlText(html, 'short', { ...ALL, tags: 0 }).text;
    const numbers = Array.from({ length: 20_000 }, (_, i) => i);
    expect(flat(numbers.map(line).join('')).split(/\n+/)).toEqual(
      numbers.map((i) => flat(line(i))),
    );
  });

  it('keeps words where a tag stands within a tag', () => {
    const html = `first ${'<<b>b>word<<b>/x> '.repeat(20_000)}last`;
    const words = convert(html).split(/[^a-z]+/);
    expect(words.filter((word) => word === 'word')).toHaveLength(20_000);
  });

  it('keeps words below the depth the converter walks, in small HTML too', () => {
    expect(convert(`<p>top</p>${'<i>'.repeat(1000)}bottom`)).toContain('bottom');
  });

  it('keeps all of very many siblings', () => {
    const text = convert(Array.from({ length: 120_000 }, (_, i) => `<i>w${i}</i> `).join(''));
    expect(text.split(' ')).toHaveLength(120_000);
  });

  it.each([
    ['opening brackets', '<'.repeat(MANY)],
    ['unfinished tags', '<a'.repeat(MANY / 2)],
    ['unfinished comments', '<!--'.repeat(MANY / 4)],
    ['entities', '&amp;'.repeat(MANY / 5)],
    ['ampersands', '&'.repeat(MANY)],
    ['attributes', `<a ${Array.from({ length: 100_000 }, (_, i) => `a${i}=1`).join(' ')}>x</a>`],
    ['blanks', ' '.repeat(MANY)],
    ['line breaks', '<br>'.repeat(MANY / 4)],
  ])('comes to an end with a flood of %s', (_, html) => {
    expect(typeof convert(html)).toBe('string');
  });

  it('never throws, and never loses a word of well-formed markup', () => {
    const word = fc.stringMatching(/^[a-zäöü]{1,8}$/);
    const tree = fc.letrec<{ node: string }>((tie) => ({
      node: fc.oneof(
        { maxDepth: 6, withCrossShrink: true },
        word.map((w) => ` ${w} `),
        fc
          .tuple(
            fc.constantFrom('p', 'div', 'b', 'a', 'td', 'li', 'blockquote', 'h2', 'center'),
            fc.array(tie('node'), { maxLength: 4 }),
          )
          .map(([tag, inner]) => `<${tag}>${inner.join('')}</${tag}>`),
      ),
    })).node;
    fc.assert(
      fc.property(tree, (html) => {
        const words = (s: string) => s.match(/[a-zäöü]+/g) ?? [];
        expect(words(convert(html))).toEqual(words(html.replace(/<[^>]*>/g, ' ')));
      }),
    );
    fc.assert(fc.property(fc.string({ unit: 'binary' }), (soup) => void convert(`<p>${soup}<b>`)));
  });
});
