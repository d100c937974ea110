import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { countRemoteImages, safeHtml } from '../../src/mail/safe-page.ts';
import { pngHead } from './compose.ts';

const OWN = `data:image/png;base64,${pngHead(9, 9).toString('base64')}`;

const body = (html: string): string =>
  /<body>\n([\s\S]*)\n<\/body>/.exec(safeHtml(html))?.[1] ?? '';

describe('a page made of a message', () => {
  it.each([
    ['a script', '<p>a<script>alert(1)</script>b</p>', '<p>ab</p>'],
    ['a handler', '<p onclick="alert(1)" onmouseover=x>a</p>', '<p>a</p>'],
    ['a script as a link', '<a href="javascript:alert(1)">a</a>', 'a</a>'],
    ['a frame', 'a<iframe src="https://evil.example"></iframe>', 'a'],
    ['a form', '<form action="https://evil.example"><input name=p>a</form>', 'a'],
    ['a style sheet', '<style>@import url(https://evil.example)</style>a', 'a'],
    ['an SVG', '<svg onload=alert(1)><script>x</script></svg>a', 'a'],
    ['a refresh', '<meta http-equiv=refresh content="0;url=https://evil.example">a', 'a'],
    ['a title', '<title>evil</title>a', 'a'],
    ['a base', '<base href="https://evil.example">a', 'a'],
  ])('loses %s', (_what, html, left) => {
    const page = body(html);
    expect(page).toContain(left);
    expect(page).not.toMatch(/script|onclick|onload|evil|iframe|form|style|svg|meta|base/i);
  });

  it('keeps pictures that lie inside it, and calls for no others', () => {
    expect(body(`<img src="${OWN}" alt="x">`)).toContain(OWN);
    const remote = body(
      '<img src="https://tracker.example/p.gif" alt="seen"><img src="//x.example/">',
    );
    expect(remote).not.toMatch(/example/);
    expect(remote).toContain('alt="seen"');
    expect(remote.match(/src="data:image\/gif;base64,"/g)).toHaveLength(2);
  });

  it.each([
    [
      'http and https',
      '<img src="http://a.example/1"><img src="HTTPS://A.example/2">',
      { 'a.example': 2 },
    ],
    ['no protocol', '<img src="//b.example/1"><img src=" \\\\b.example/2">', { 'b.example': 2 }],
    [
      'a set',
      '<img srcset="https://c.example/1 1x, //d.example/2 2x">',
      { 'c.example': 1, 'd.example': 1 },
    ],
    [
      'a set without blanks',
      '<img srcset="//c.example/1 1x,//d.example/2 2x,">',
      { 'c.example': 1, 'd.example': 1 },
    ],
    [
      'one server for one picture',
      '<img src="//e.example/1" srcset="//e.example/2 2x">',
      { 'e.example': 1 },
    ],
    [
      'sources',
      '<picture><source srcset="//f.example/1"><img src="cid:x"></picture>',
      { 'f.example': 1 },
    ],
    [
      'nothing remote',
      '<img src="a.png"><img src="/b"><img src="cid:x"><img src="data:image/png;base64,AAAA"><img srcset=",, ,">',
      {},
    ],
    ['what is no address', '<img src="https://"><img src="http:"><img src="//">', {}],
  ])('counts pictures of other servers: %s', (_what, html, hosts) => {
    expect(countRemoteImages(html)).toEqual(hosts);
    expect(safeHtml(html)).not.toContain('.example');
  });

  it('replaces the names of pictures by those of the message, and knows no others', () => {
    const pictures = new Map([['logo@x', OWN]]);
    const page = safeHtml(
      '<img src="cid:logo@x"><img src="CID:logo%40x"><img src="cid:other" alt="gone"><img src="data:text/html;base64,AAAA"><img src="data:image/svg+xml;base64,AAAA">',
      pictures,
    );
    expect(page.split(`src="${OWN}"`)).toHaveLength(3);
    expect(page).toContain('alt="gone"');
    expect(page).not.toMatch(/cid:|text\/html|svg/i);
  });

  it('puts in no more than 32 MiB of pictures, however often one is named', () => {
    const picture = `data:image/png;base64,${pngHead(9, 9, 1.5 * 1024 * 1024 - 41).toString('base64')}`;
    const html = '<img src="cid:logo" alt="it">'.repeat(40);
    const page = safeHtml(html, new Map([['logo', picture]]));
    expect(page.length).toBeLessThan(33 * 1024 * 1024);
    expect(page.match(/src="data:/g)).toHaveLength(15);
    expect(page.match(/alt="it"/g)).toHaveLength(40);
  });

  it('keeps text, tables and links', () => {
    const page = body(
      '<table><tr><td bgcolor="red"><a href="https://ok.example/">go</a></td></tr></table>',
    );
    expect(page).toContain('<td bgcolor="red">');
    expect(page).toContain('href="https://ok.example/"');
    expect(page).toContain('noopener');
  });

  it('keeps styles, and nothing that they load', () => {
    const page = safeHtml(
      '<body bgcolor="#eee" style="margin:0;background:url(https://a.example)" onload=x class=\'a"b\'>' +
        '<style media=screen>.b{color:red;background:url(//a.example/2)}</style>' +
        '<style type="text/x-other">p{top:0}</style><style>@import "//a.example/3";p{left:0}</style>' +
        '<p class="b" id=c style="color:red;position:fixed">a</p>',
    );
    expect(page).toContain(
      '</head><body bgcolor="#eee" style="margin:0;background:none;" class="a&#34;b">\n',
    );
    expect(page).toContain('<style>@media screen{.b{color:red;background:none;}\n}</style>');
    expect(page).toContain('<style>p{left:0;}\n</style>\n</head>');
    expect(page).toContain('<p class="b" id="c" style="color:red;">a</p>');
    expect(page).not.toMatch(/example|onload|top:0/);
  });

  it('counts the pictures that styles would load', () => {
    const html =
      '<body style="background:url(//c.example)">' +
      '<style>p{background:url(//a.example/1)}</style>' +
      '<p style="background:url(//b.example)">a</p>'.repeat(2);
    expect(countRemoteImages(html)).toEqual({ 'a.example': 1, 'b.example': 2, 'c.example': 1 });
  });

  it('forbids everything else to the browser', () => {
    expect(safeHtml('a')).toContain("default-src 'none'");
  });

  it('leaves no element that acts in any soup of tags', () => {
    const piece = fc.oneof(
      fc.constantFrom(
        '<script>',
        '</script>',
        '<img src=x onerror=y>',
        '<svg/onload=z>',
        '<!--',
        '-->',
      ),
      fc.constantFrom(
        '<a href="java\nscript:x">',
        '<style>',
        '<iframe src=x>',
        '"',
        "'",
        '<',
        '>',
        '&lt;',
      ),
      fc.string(),
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 20 }), (pieces) => {
        const page = body(pieces.join(''));
        expect(page).not.toMatch(/<(script|style|iframe|svg|object|embed|form|link|meta|base)\b/i);
        expect(page).not.toMatch(/<[^>]*\son\w+\s*=/i);
      }),
    );
  });
});

it('shows the text of HTML that nests without end', () => {
  const page = safeHtml(
    `<p>before &lt;b&gt;</p>${'<div>'.repeat(400_000)}<a href="https://a.example/">in</a>`,
  );
  expect(page).toContain('<pre style="white-space: pre-wrap">before &#60;b&#62;');
  expect(page).toMatch(/\bin\b/);
  expect(page).not.toContain('<div>');
});
