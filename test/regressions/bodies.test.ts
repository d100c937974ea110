import { describe, expect, it } from 'vitest';
import { ATTACHMENT_LIMITS } from '../../src/mail/attachment-text.ts';
import { bodyText, hasPlainBody } from '../../src/mail/body-text.ts';
import { documentText } from '../../src/mail/document-text.ts';
import { extractMessage, leavesIn } from '../../src/mail/extract-message.ts';
import { DEFAULT_LIMITS } from '../../src/mail/extraction.ts';
import { collectText, parseTree } from '../../src/mail/part-tree.ts';
import { html, mail, multipart, type PartSpec, text } from '../mime/compose.ts';

const part = (type: string, body: string): PartSpec => ({
  headers: { 'Content-Type': type },
  body,
});

/** What is indexed, and what people are shown. */
async function read(source: Buffer) {
  const { body, attachments } = await extractMessage(source, false, DEFAULT_LIMITS);
  const { root } = await parseTree(source, collectText(DEFAULT_LIMITS), DEFAULT_LIMITS);
  if (root === null) throw new Error('no message');
  const shown = bodyText(root, 'full', DEFAULT_LIMITS).text;
  return { indexed: body, shown, attachments, hasPlain: hasPlainBody(leavesIn(root)) };
}

const CALENDAR = [
  'BEGIN:VCALENDAR',
  'BEGIN:VTIMEZONE',
  'DTSTART:19700329T020000',
  'END:VTIMEZONE',
  'BEGIN:VEVENT',
  'SUMMARY:The quarterly review of the hippo',
  ' campus budget\\, second draft',
  'DESCRIPTION:Agenda:\\nOpening\\nClosing',
  'ATTENDEE;CN="Doe, Jane";RSVP=TRUE:mailto:jane@example.org',
  'X-ALT-DESC;FMTTYPE=text/html:<p>with a <b>kestrel</b></p>',
  'END:VEVENT',
  'END:VCALENDAR',
].join('\r\n');

describe('alternatives', () => {
  const page =
    '<!doctype html><html amp4email><style>a{visibility:hidden}</style><p>zebra</p></html>';

  it.each([
    'text/x-amp-html',
    'text/watch-html',
    'text/css',
    'text/xml',
    'text/x-unknown',
    'text/markdown',
  ])('%s is left out where there is plain text or HTML', async (type) => {
    for (const better of [text('the parcel arrives'), html('<p>the parcel arrives</p>')]) {
      for (const order of [
        [better, part(type, page)],
        [part(type, page), better],
      ]) {
        const { indexed, shown } = await read(multipart('alternative', order));
        expect([indexed, shown]).toEqual(['the parcel arrives', 'the parcel arrives']);
      }
    }
  });

  it.each([
    ['text/enriched', '<bold>Short</bold> words'],
    ['text/richtext', '<bold>Short</bold> words'],
    ['text/rtf', '{\\rtf1 Short words}'],
  ])('%s is read only where there is nothing better', async (type, body) => {
    const both = multipart('alternative', [part(type, body), html('<p>with a plover</p>')]);
    expect(await read(both)).toMatchObject({ indexed: 'with a plover', shown: 'with a plover' });
    const alone = multipart('alternative', [part(type, body), part('text/x-amp-html', page)]);
    expect(await read(alone)).toMatchObject({ indexed: 'Short words', shown: 'Short words' });
  });

  it('that are all unknown are read, pages as their text', async () => {
    const { indexed } = await read(multipart('alternative', [part('text/x-amp-html', page)]));
    expect(indexed).toBe('zebra');
  });

  it('with an empty plain text are the HTML', async () => {
    const { indexed, shown } = await read(
      multipart('alternative', [text(' \n'), html('<p>—!</p>')]),
    );
    expect([indexed, shown]).toEqual(['—!', '—!']);
  });

  it('keep the HTML next to a calendar, and the calendar next to both', async () => {
    const pair = await read(
      multipart('alternative', [html('<p>You are invited.</p>'), part('text/calendar', CALENDAR)]),
    );
    expect(pair.hasPlain).toBe(false);
    for (const shown of [pair.indexed, pair.shown]) {
      expect(shown).toContain('You are invited.');
      expect(shown).toContain('hippocampus budget, second draft');
    }
  });
});

describe('calendars and address cards', () => {
  it.each(['text/calendar; method=REQUEST', 'text/x-vcalendar', 'TEXT/CALENDAR'])(
    '%s as a body is its words',
    async (type) => {
      const { indexed, shown } = await read(mail({ 'Content-Type': type }, CALENDAR));
      expect(indexed).toBe(
        [
          'The quarterly review of the hippocampus budget, second draft',
          'Agenda:\nOpening\nClosing',
          'Doe, Jane jane@example.org',
          'with a kestrel',
        ].join('\n'),
      );
      expect(shown).toBe(indexed);
    },
  );

  const CARD = [
    'BEGIN:VCARD',
    'VERSION:3.0',
    'N:Müller;Jörg;;;',
    'item1.EMAIL;TYPE=INTERNET:jm@example.org',
    'ADR;TYPE=WORK:;;Main Street 5\\; left;Spring',
    ' field;;12345;',
    'NOTE:one\\ntwo \\\\n\\, three',
    'PHOTO;ENCODING=b:AAAA',
    ' BBBB',
    'END:VCARD',
  ].join('\r\n');
  const OLD_CARD = [
    'BEGIN:VCARD',
    'VERSION:2.1',
    'N;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:M=C3=BCller;J=C3=',
    '=B6rg;;;',
    'TITLE;QUOTED-PRINTABLE;CHARSET=koi8-r:=CD=C9=D2',
    'END:VCARD',
  ].join('\r\n');

  it.each([
    [
      CARD,
      'Müller Jörg\njm@example.org\nMain Street 5; left Springfield  12345\none\ntwo \\n, three',
    ],
    [OLD_CARD, 'Müller Jörg\nмир'],
  ])('cards, as a body and attached', async (card, expected) => {
    for (const type of ['text/vcard', 'text/x-vcard', 'text/directory; profile=vCard']) {
      const { indexed } = await read(mail({ 'Content-Type': `${type}; charset=utf-8` }, card));
      expect(trimmed(indexed)).toBe(expected);
    }
    const outcome = await documentText(Buffer.from(card), 'text:', ATTACHMENT_LIMITS);
    expect(outcome).toMatchObject({ status: 'done' });
    if (outcome.status === 'done') expect(trimmed(outcome.text)).toBe(expected);
  });

  it('a text with no known property is itself', async () => {
    const source = 'BEGIN:VCALENDAR\r\nno property';
    expect((await read(mail({ 'Content-Type': 'text/calendar' }, source))).indexed).toBe(
      'BEGIN:VCALENDAR\nno property',
    );
  });

  it('endless lines take linear time', async () => {
    for (const line of ['N;QUOTED-PRINTABLE:=\n', 'N:a\n ', 'NOTE;CN="":', ';"'])
      await read(mail({ 'Content-Type': 'text/vcard' }, `BEGIN:VCARD\n${line.repeat(100_000)}`));
  });
});

function trimmed(lines: string): string {
  return lines
    .split('\n')
    .map((line) => line.trim())
    .join('\n');
}

describe('formatted text', () => {
  it('RTF in the charsets of its fonts', async () => {
    const source = String.raw`{\rtf1\ansi\ansicpg1252{\fonttbl{\f0 Arial;}{\f1\fcharset204 Arial;}}{\info{\author Nobody}}
{\*\generator Hidden;}\f0 Hello \b bold\b0  caf\'e9\par \f1\'ef\'f0\'e8\'e2\'e5\'f2\f0  {\field{\*\fldinst{HYPERLINK "http://x"}}{\fldrslt a link}} 5\u8364?\{\}\par}`;
    const { indexed } = await read(mail({ 'Content-Type': 'text/rtf' }, source));
    expect(indexed).toBe('Hello bold café\nпривет a link 5€{}\n');
    const outcome = await documentText(Buffer.from(source), 'text:', ATTACHMENT_LIMITS);
    expect(outcome).toMatchObject({ text: 'Hello bold café\nпривет a link 5€{}' });
  });

  it.each([
    [
      'text/enriched',
      '<bold>Now</bold> is\nthe\n\n<color><param>red</param>time</color> <<a>',
      'Now is the\ntime <a>',
    ],
    [
      'text/richtext',
      '<bold>Now</bold> is<nl>the <comment>not this</comment>time <lt>a',
      'Now is\nthe time <a',
    ],
  ])('%s', async (type, source, expected) => {
    const { indexed } = await read(mail({ 'Content-Type': type }, source));
    expect(indexed).toBe(expected);
  });

  it('hostile RTF takes linear time', async () => {
    for (const piece of ['{', '}', "\\'e9", '\\u1?', '\\bin9', '{\\f1', '\\'])
      await read(mail({ 'Content-Type': 'text/rtf' }, `{\\rtf1 ${piece.repeat(200_000)}`));
  });
});

describe('words that only the HTML has', () => {
  const plain =
    'Your order has shipped. You can see all details of it, and the date of its delivery, on the page about it.';
  const page = (words: string) => html(`<p>${plain}</p><div>${words}</div>`);

  it('are indexed with their neighbours, and not shown again where the texts mostly agree', async () => {
    const { indexed, shown } = await read(
      multipart('alternative', [
        text(plain),
        page('Number <b>77</b>-9921: one <i>xylo</i>phone, 48.20 in total. Бандероль 東京都庁'),
      ]),
    );
    for (const words of ['77-9921', 'one xylophone', '48.20', 'Бандероль', '東京都庁'])
      expect(indexed).toContain(words);
    expect(indexed.match(/has shipped/g)).toHaveLength(1);
    expect(shown).toBe(plain);
  });

  it('are shown when they are most of it', async () => {
    const { shown } = await read(
      multipart('alternative', [
        text('Please use a modern mail program.'),
        html('<p>Order 77-9921: one xylophone.</p>'),
      ]),
    );
    expect(shown).toBe('Please use a modern mail program.\n\nOrder 77-9921: one xylophone.');
  });

  it.each([
    ['the same text', 'one two\nthree', '<p>One <b>two</b> three!</p>'],
    [
      'links, which people do not see',
      'one two',
      '<p><a href="https://track.example/x">one two</a></p>',
    ],
    [
      'styles and scripts',
      'one two',
      '<style>.xylophone{}</style><script>yawl()</script><p>one two</p>',
    ],
    ['Japanese wrapped elsewhere', '東京都\n庁の写真', '<p>東京都庁の写真</p>'],
    ['entities', 'café – naïve', '<p>caf&eacute; &ndash; na&#239;ve</p>'],
  ])('%s adds nothing', async (_, first, second) => {
    const { indexed, shown } = await read(multipart('alternative', [text(first), html(second)]));
    expect([indexed, shown]).toEqual([first, first]);
  });

  it('style sheets and scripts of a page are no text, and are listed', async () => {
    const { indexed, attachments } = await read(
      multipart('related', [html('<p>one</p>'), part('text/css', 'a{color:red}')]),
    );
    expect(indexed).toBe('one');
    expect(attachments.map(({ contentType }) => contentType)).toEqual(['text/css']);
  });
});

describe('words of HTML that stand apart on a page', () => {
  it.each([
    ['items outside a list', '<p>rail<li>crake<li>coot</p>'],
    ['items within another element', '<ul><font><li>rail<li>crake<li>coot</font></ul>'],
    ['items of a menu', '<menu><li>rail<li>crake<li>coot</menu>'],
    ['a disclosure', '<details><summary>rail</summary>crake</details>coot'],
    ['a figure', '<figure>rail</figure><figure>crake</figure>coot'],
    ['a group of fields', '<fieldset><legend>rail</legend>crake</fieldset>coot'],
    ['a list of terms', 'rail<dl>crake</dl>coot'],
    ['without frames', 'rail<noframes>crake</noframes>coot'],
  ])('%s', async (_, page) => {
    const type = { 'Content-Type': 'text/html' };
    expect((await read(mail(type, page))).indexed).toMatch(/rail\b[\s\S]*\bcrake\b[\s\S]*\bcoot/);
    // Too many elements to be read as a tree.
    const { indexed } = await read(mail(type, `${page}${'<i>'.repeat(DEFAULT_LIMITS.htmlTags)}`));
    expect(indexed).toMatch(/rail\b[\s\S]*\bcrake\b[\s\S]*\bcoot/);
  });

  it('a link in preformatted text', async () => {
    const page =
      '<pre>a <a href="http://rails.example/">corncrake</a>, <a href="http://b.example">http://b.example</a></pre>';
    const { indexed } = await read(mail({ 'Content-Type': 'text/html' }, page));
    expect(indexed).toBe('a corncrake [http://rails.example/], http://b.example');
  });
});
