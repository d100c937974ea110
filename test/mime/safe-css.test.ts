import fc from 'fast-check';
import { transform } from 'lightningcss';
import { describe, expect, it, test } from 'vitest';
import { StyleFilter } from '../../src/mail/safe-css.ts';
import { CSS } from '../web/browser/hostile/svg-math-css.ts';

const SEED = 20261130;
const RUNS = 1000;

const sheet = (css: string, media?: string): string =>
  new StyleFilter().sheet(css, media).css.trim();
const attribute = (css: string): string => new StyleFilter().attribute(css).css;

describe('the style of an element', () => {
  it.each([
    [
      'color:RED; Font: 12px/1.5 "A B",Arial !important',
      'color:RED;Font:12px/1.5 "A B",Arial !important;',
    ],
    ['display:none;max-height:0', 'display:none;max-height:0;'],
    ['background:#fff url(x) no-repeat', 'background:#fff none no-repeat;'],
    [
      'background:linear-gradient(90deg,#fff,rgb(0 0 0/50%))',
      'background:linear-gradient(90deg,#fff,rgb(0 0 0/50%));',
    ],
    ['--gap:4px;width:calc(100% - var(--gap))', '--gap:4px;width:calc(100% - var(--gap));'],
    ['position:absolute', 'position:absolute;'],
    ['color:red;;*zoom:1;width 1px;left:1px', 'color:red;left:1px;'],
    ['color:red;{x:y}left:1px', 'color:red;left:1px;'],
  ])('keeps %s', (css, kept) => {
    expect(attribute(css)).toBe(kept);
  });

  it.each([
    'background:u\\72l(where)',
    'background:\\000075RL("where")',
    'list-style:url(where',
    '--x:url(where);background:var(--x)',
  ])('has nothing to load with %s', (css) => {
    const { css: safe, urls } = new StyleFilter().attribute(css);
    expect(safe).toContain(':none;');
    expect(safe).not.toMatch(/where|url/i);
    expect(urls).toEqual(['where']);
  });

  it.each([
    'background:image-set("x" 1x)',
    'background:-webkit-image-set(url(x) 1x)',
    'background:src("x")',
    'background:cross-fade(url(x),url(y))',
    'background:element(#x)',
    'background:url/**/(x',
    'content:attr(href)',
    'background:attr(data-x type(<url>))',
    'width:expression(alert(1))',
    'width:exp/**/ression(alert(1))',
    'w\\69dth:e\\78pression(alert(1))',
    'behavior:url(x)',
    'beh\\61vior:none',
    '-moz-binding:url(x#y)',
    'filter:progid:DXImageTransform.Microsoft.AlphaImageLoader(src="x")',
    'position:fixed',
    'position:/**/f\\69xed!important',
    'p\\6fsition:-webkit-sticky',
    'position:var(--x)',
    '--x:{background:red}',
    'color-scheme:dark',
    'color',
    ':red',
  ])('does not keep %s', (css) => {
    expect(attribute(`left:1px;${css};`)).toMatch(/^left:1px;(?:background:url \(x\);)?$/);
  });
});

describe('a style sheet', () => {
  it.each([
    ['<!-- p{color:red} -->', 'p{color:red;}'],
    [
      '.sm\\:w-full>td[class="a b"]:not(.c)::before{content:"x"}',
      '.sm\\3a w-full>td[class="a b"]:not(.c)::before{content:"x";}',
    ],
    [
      '@media only screen and (max-width:600px){a{width:100%!important}}',
      '@media only screen and (max-width:600px){a{width:100%!important;}\n}',
    ],
    ['@supports (display:grid){a{display:grid}}', '@supports (display:grid){a{display:grid;}\n}'],
    ['a{color:red;&:hover{left:0}top:0}', 'a{color:red;top:0;}'],
    ['a{color:red', 'a{color:red;}'],
  ])('keeps %s', (css, kept) => {
    expect(sheet(css)).toBe(kept);
  });

  it.each([
    '@import "x";',
    '@\\69mport url(x);',
    '@import url(x) layer(a) supports(display:grid);',
    '@font-face{font-family:a;src:url(x)}',
    '@namespace url(x);',
    '@page{background:url(x)}',
    '@property --x{syntax:"<url>";initial-value:url(x);inherits:false}',
    '@layer a{p{background:url(x)}}',
    '@media (prefers-color-scheme:dark){p{color:#fff}}',
    '@supports (background:url(x)){p{color:red}}',
    'p:has(a){color:red}',
    'p;q{color:red}',
    '@media (a</style){p{top:0}}',
  ])('does not keep %s', (css) => {
    expect(sheet(`${css} b{top:0}`)).toBe('b{top:0;}');
  });

  it('ends no element that it stands in', () => {
    const css = sheet(
      'a::before{content:"</style><script>"} .\\<{top:0} a[b="\\3c/style>"]{top:0}',
    );
    expect(css).not.toContain('<');
    expect(css).toContain('content:"\\3c /style>\\3c script>"');
  });

  it('applies to the media of its element', () => {
    expect(sheet('a{top:0}', 'screen')).toBe('@media screen{a{top:0;}\n}');
    expect(sheet('a{top:0}', 'screen{}b{background:url(x)}')).toBe('');
  });
});

describe('the styles of a message are limited', () => {
  it.each([
    ['length', `a{color:red}${' '.repeat(512 * 1024)}`],
    ['depth', `${'@media all{'.repeat(40)}a{color:red}`],
    ['errors', `a{color:red}${'"\n'.repeat(2000)}`],
  ])('in %s', (_what, css) => {
    expect(sheet(css)).toBe('');
  });

  it('in selectors', () => {
    const rules = sheet('a,b{top:0}'.repeat(3000)).split('\n');
    expect(rules).toHaveLength(2000);
  });

  it('together, each style attribute once', () => {
    const styles = new StyleFilter();
    const long = (i: number) => `color:red;/*${String(i).repeat(100_000)}*/`;
    for (let i = 0; i < 99; i += 1) expect(styles.attribute(long(1)).css).toBe('color:red;');
    for (const i of [2, 3, 4, 5]) expect(styles.attribute(long(i)).css).toBe('color:red;');
    expect(styles.attribute(long(6)).css).toBe('');
  });
});

/** Returns what another parser finds to load, and what else must not be there. */
function wrongIn(css: string): string[] {
  const { dependencies } = transform({
    ...{ filename: 'mail.css', code: Buffer.from(css) },
    ...{ analyzeDependencies: true, errorRecovery: true },
  });
  const bare = css.replace(/"(?:\\.|[^"\\])*"/g, '""').replace(/\\[\da-f]+ /g, '_');
  const refused =
    /\b(?:url|src|image|(?:-webkit-)?image-set|attr|expression|element|paint|cross-fade|env)\(|@(?!media |supports )[\w-]*|<\/|\/\*|(?<=[{;])(?:position:(?!static|relative|absolute|initial|inherit|unset)|behavior:|-moz-binding:)/gi;
  return [
    ...(dependencies ?? []).map((found) => JSON.stringify(found)),
    ...[...bare.matchAll(refused)].map(([text]) => text),
    ...(css.includes('</') ? ['</'] : []),
  ];
}

const HOSTILE = CSS.flatMap((html) => [
  ...[...html.matchAll(/<style>(.*?)<\/style/gs)].map(([, css = '']) => css),
  ...[...html.matchAll(/style="(.*?)"/gs)].map(([, css = '']) => `p{${css}}`),
]).map((css) => css.replaceAll('{url}', 'https://x.example/a').replaceAll('&quot;', '"'));
const SEEDS = [
  ...HOSTILE,
  '@media screen and (max-width:600px){.a>td{background:#fff url( "https://x.example" ) 0 0/cover!important}}',
  'a::after{content:"a\\"b" attr(href);position:fixed}b{position:sticky;background:url(https://x.example)}',
];

/** What changes where a browser sees an address, a text, a comment or the end of a rule. */
const PIECES = fc.constantFrom(
  ...'\\ " \' /* */ { } ( ) [ ] ; : , ! @ # < > \n \r \f \0 \t'.split(' '),
  ...[
    '\\\n',
    '/**/',
    '<!--',
    '-->',
    '</style>',
    'url(',
    'URL("',
    'u\\72 l(',
    '\\75rl(',
    'src(',
    ')',
  ],
  ...['image-set(', 'attr(x)', '@import ', "@import'x'", 'position:fixed', '--a:', 'var(--a)', ' '],
);
const MUTATION = fc.record({
  at: fc.nat(),
  length: fc.constantFrom(0, 0, 1, 1, 2, 9),
  kind: fc.constantFrom('insert', 'escape', 'upper', 'double'),
  piece: PIECES,
  blank: fc.constantFrom('', ' ', '\n', '\t'),
});

test(`${RUNS} mutations of hostile CSS load nothing, seed ${SEED}`, () => {
  let [before, kept] = [0, 0];
  const mutated = fc.tuple(fc.constantFrom(...SEEDS), fc.array(MUTATION, { maxLength: 6 }));
  fc.assert(
    fc.property(mutated, ([seed, mutations]) => {
      const css = mutations.reduce((text, { at, length, kind, piece, blank }) => {
        const from = at % (text.length + 1);
        const cut = text.slice(from, from + Math.max(length, kind === 'escape' ? 1 : 0));
        const by = {
          insert: () => piece,
          escape: () =>
            [...cut].map((sign) => `\\${sign.codePointAt(0)?.toString(16)}${blank}`).join(''),
          upper: () => cut.toUpperCase(),
          double: () => cut + cut,
        };
        return text.slice(0, from) + by[kind]() + text.slice(from + cut.length);
      }, seed);
      const [rules, style] = [sheet(css), attribute(css)];
      expect([...wrongIn(rules), ...wrongIn(`a{${style}}`)]).toEqual([]);
      // Written once more, it stays as it is.
      expect(sheet(rules)).toBe(rules);
      before += isLoading(css) ? 1 : 0;
      kept += rules.includes(':') ? 1 : 0;
    }),
    { seed: SEED, numRuns: RUNS },
  );
  // Most of them load something as they are, and not all of them are dropped as a whole.
  expect(before).toBeGreaterThan(RUNS / 3);
  expect(kept).toBeGreaterThan(RUNS / 3);
});

/** Reports whether CSS loads something, unless the other parser refuses it. */
function isLoading(css: string): boolean {
  try {
    return wrongIn(css).length > 0;
  } catch {
    return false;
  }
}
