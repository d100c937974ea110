import { describe, expect, test } from 'vitest';
import { displayWidth, fitColumns, terminalLine } from '../../src/core/terminal-safe.ts';
import { ATTACHMENT_LIMITS } from '../../src/mail/attachment-text.ts';
import { documentText } from '../../src/mail/document-text.ts';
import { extractMessage } from '../../src/mail/extract-message.ts';
import { DEFAULT_LIMITS } from '../../src/mail/extraction.ts';
import { safeFileName } from '../../src/mail/file-names.ts';
import { parseHeaderDate } from '../../src/mail/header-date.ts';
import { foldWord, indexText } from '../../src/mail/normalise.ts';
import { safePage } from '../../src/mail/safe-page.ts';
import { zip } from '../attachments/documents.ts';
import { rawMail } from './compose.ts';

/** Characters of the shorter text; the longer has twice as many. */
const LENGTH = 200_000;
/** The longer just fits into what is read of a header field, and what stands around it too. */
const FIELD = DEFAULT_LIMITS.fieldChars / 2 - 64;
/** The longer has just fewer elements, of four characters or more, than become a tree. */
const TREE = 119_900;
const RUNS = 3;
/** Twice the text may take three times as long, and this many milliseconds for a collection of garbage at a bad time. */
const FACTOR = 3;
const SLACK_MS = 60;

/** Least processor time of a few runs, milliseconds. */
async function cost(run: () => unknown): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  for (let i = 0; i < RUNS; i++) {
    const before = process.cpuUsage();
    await run();
    const { user, system } = process.cpuUsage(before);
    least = Math.min(least, (user + system) / 1000);
    // What takes this long is not noise.
    if (least > 2000) break;
  }
  return least;
}

async function expectLinear(
  make: (length: number) => () => unknown,
  shorter = LENGTH,
): Promise<void> {
  // Once without measuring, so that nothing is compiled in the measured time.
  await make(2000)();
  const once = await cost(make(shorter));
  const twice = await cost(make(2 * shorter));
  expect(twice).toBeLessThan(FACTOR * once + SLACK_MS);
}

const times = (text: string, length: number) => text.repeat(Math.ceil(length / text.length));
const bodied = (type: string, encoding: string, body: string) =>
  rawMail({ Subject: 's', 'Content-Type': type, 'Content-Transfer-Encoding': encoding }, body);
const headed = (name: string, value: string) => rawMail({ Subject: 's', [name]: value }, 'b');
const utf8 = (text: string) => Buffer.from(text).toString('latin1');

const part = (html: string) => `\n--b\nContent-Type: text/html\n\n${html}`;
const HTML_PART = part('<b></x>'.repeat(400));
const LARGE_PART = part('<b></x>'.repeat(10_000));

type Make = (length: number) => string;

describe('twice the text of a body takes twice the time at most', () => {
  test.each<[string, string, string, Make]>([
    ['blanks in quoted-printable', 'text/plain', 'quoted-printable', (n) => `${times(' ', n)}x`],
    ['blanks of an attachment', 'image/png', 'quoted-printable', (n) => `${times(' ', n)}x`],
    ['equals signs', 'text/plain', 'quoted-printable', (n) => times('= ', n)],
    ['blanks', 'text/plain', '8bit', (n) => `${times(' ', n)}x`],
    ['flowed blanks', 'text/plain; format=flowed', '8bit', (n) => `${times(' ', n)}x`],
    ['blanks in HTML', 'text/html', '8bit', (n) => `${times('&nbsp; ', n)}x`],
    ['kept blanks in HTML', 'text/html', '8bit', (n) => `<pre>${times(' ', n)}x</pre>`],
    ['unclosed elements', 'text/html', '8bit', (n) => times('<b>x', n)],
    ['end tags of nothing', 'text/html', '8bit', (n) => times('<b></x>', n)],
    ['self-closing titles', 'text/html', '8bit', (n) => times('<title/>', n)],
    ['nested forms', 'text/html', '8bit', (n) => times('<form>', n)],
    ['nested links', 'text/html', '8bit', (n) => times('<a href=x>', n)],
    ['frames', 'text/html', '8bit', (n) => `<iframe>${times('<b></x>', n)}`],
    ['tags within tags', 'text/html', '8bit', (n) => times('<<b>b><<b>/x>', n)],
    ['tags within attributes', 'text/html', '8bit', (n) => times('<b a="</b>">', n)],
    ['small HTML parts', 'multipart/mixed; boundary=b', '8bit', (n) => times(HTML_PART, n)],
    ['large HTML parts', 'multipart/mixed; boundary=b', '8bit', (n) => times(LARGE_PART, 4 * n)],
    ['elements that are closed by others', 'text/html', '8bit', (n) => times('<li><td>', n)],
    ['end tags', 'text/html', '8bit', (n) => times('</p></x>', n)],
    ['line breaks in HTML', 'text/html', '8bit', (n) => times('<br>', n)],
    ['quotes in HTML', 'text/html', '8bit', (n) => times('<blockquote>x', n)],
    ['opened tags', 'text/html', '8bit', (n) => times('<a <!--', n)],
    ['attributes', 'text/html', '8bit', (n) => `<p ${times('a=b ', n)}>`],
    ['long links', 'text/html', '8bit', (n) => `<a href="http://${times('?#', n)}">x</a>`],
    ['markers of pictures', 'text/html', '8bit', (n) => times('base64,', n)],
    ['delimiters', 'multipart/mixed; boundary=b', '8bit', (n) => times('--b \n', n)],
    ['a padded delimiter', 'multipart/mixed; boundary=b', '8bit', (n) => `--b${times(' ', n)}x\n`],
  ])('%s', async (_, type, encoding, body) => {
    const extracting = (length: number) => {
      const source = bodied(type, encoding, body(length));
      return () => extractMessage(source, false, DEFAULT_LIMITS);
    };
    if (type === 'text/html') await expectLinear(extracting, TREE);
    await expectLinear(extracting);
  });
});

describe('twice the text of a header takes twice the time at most', () => {
  test.each<[string, string, Make]>([
    ['carriage returns', 'X-Other', (n) => `${times('\r', n)}x`],
    ['lines of carriage returns', 'X-Other', (n) => `x${times('\r\r\n', n)}x`],
    ['blanks', 'Subject', (n) => `${times(' ', n)}x`],
    ['quotes around a charset', 'Content-Type', (n) => `text/plain; charset="x${times("'", n)}y"`],
    [
      'letters of a file name',
      'Content-Disposition',
      (n) => `attachment; filename="${times(utf8('é'), n)}${utf8('€')}"`,
    ],
    ['dots of a file name', 'Content-Disposition', (n) => `x; filename="${times('.aa ', n)}x"`],
    ['parameters', 'Content-Type', (n) => `text/plain; ${times('a*1=b; ', n)}`],
    ['comments', 'Content-Transfer-Encoding', (n) => times('(', n)],
    ['brackets', 'Content-ID', (n) => times('<', n)],
    ['at signs', 'To', (n) => `<${times('a@', n)}`],
    ['quoted names', 'To', (n) => times('"a"@x ', n)],
    ['words before an address', 'To', (n) => `${times('a . ', n)}@b`],
    ['nested comments', 'To', (n) => `${times('(', n)}${times(')', n)}`],
    ['an international domain', 'To', (n) => `a@xn--${times('a9', n)}`],
    ['encoded words', 'Subject', (n) => times('=?utf-8?q?a?= ', n)],
    ['blanks behind an encoded word', 'Subject', (n) => `=?utf-8?q?a?=${times(' ', n)}x`],
    ['blanks in an encoded word', 'Subject', (n) => `=?utf-8?q?${times('= ', n)}?=`],
    ['broken encoded words', 'Subject', (n) => times('=?a?q?', n)],
    ['ids', 'References', (n) => times('<a ', n)],
    ['a list', 'List-Id', (n) => times('<a', n)],
  ])('%s', async (_, name, value) => {
    const extracting = (length: number) => {
      const source = headed(name, value(length));
      return () => extractMessage(source, false, DEFAULT_LIMITS);
    };
    // Most fields are cut before they are read: twice as much behind the cut would cost the same.
    await expectLinear(extracting, FIELD);
    await expectLinear(extracting);
  });
});

test('twice the people and the ids of a reply take twice the time at most', async () => {
  const make = (length: number) => {
    const people = times('To: a@example.org, b@example.org\n', length / 2);
    const ids = times('<c@example.org> ', Math.min(length / 2, FIELD));
    const source = Buffer.from(`${people}In-Reply-To: ${ids}\n\nb`);
    return () => extractMessage(source, false, DEFAULT_LIMITS);
  };
  await expectLinear(make, 20_000);
});

describe('twice the HTML takes twice the time at most to show', () => {
  test.each<[string, Make]>([
    ['unclosed elements', (n) => times('<div>', n)],
    ['elements that are closed by others', (n) => times('<li><td>', n)],
    ['end tags of nothing', (n) => times('<b></x>', n)],
    ['unclosed fonts', (n) => times('<font>x', n)],
    ['end tags', (n) => times('</p>', n)],
    ['pictures', (n) => `<img src="data:image/png;base64,${times('a ', n)}!">`],
    ['links', (n) => `<a href="${times('java<!--', n)}">`],
    ['frames', (n) => times('<iframe>', n)],
    ['what is without scripts', (n) => times('<div><noscript></div>', n)],
    ['signs', (n) => times('a&', n)],
    ['rules', (n) => `<style>${times('a{top:0}', n)}</style>`],
    ['broken texts in styles', (n) => `<style>${times('"\n', n)}</style>`],
    ['names in styles', (n) => `<style>.${times('\\61 ', n)}{top:0}</style>`],
    ['brackets in styles', (n) => `<p style="${times('(', n)}">`],
    ['style sheets', (n) => times('<style>a{top:0}</style>', n)],
    ['styles', (n) => times('<p style="top:0">', n)],
  ])('%s', async (_, html) => {
    await expectLinear((length) => {
      const source = bodied('text/html', 'quoted-printable', html(length));
      return () => safePage(pieces(source), DEFAULT_LIMITS);
    });
  });
});

describe('twice the text of an attachment takes twice the time at most', () => {
  test.each<[string, string, Make]>([
    ['blanks', 'text:', (n) => `${times(' ', n)}x`],
    ['lines of blanks', 'text:', (n) => `${times('\n ', n)}x`],
    ['blanks in HTML', 'html:', (n) => `${times('&nbsp;', n)}x`],
    ['parameters', 'calendar:', (n) => `ATTENDEE${times(';CN=', n)}:x`],
    ['quotes', 'calendar:', (n) => `A;${times('a"b"', n)}"`],
    ['names', 'calendar:', (n) => times('A', n)],
    ['folded lines', 'calendar:', (n) => `SUMMARY:${times('\n ', n)}`],
    ['quoted-printable in a message', 'mail', (n) => `${QUOTED}${times(' ', n)}x`],
  ])('%s', async (_, form, text) => {
    await expectLinear((length) => {
      const source = Buffer.from(text(length));
      return () => documentText(source, form, ATTACHMENT_LIMITS);
    });
  });

  test('elements of an office document', async () => {
    const make = async (length: number) => zip({ 'word/document.xml': times('<a>', length) });
    const documents = { small: await make(10 * LENGTH), large: await make(20 * LENGTH) };
    await expectLinear((length) => {
      const document = length > LENGTH ? documents.large : documents.small;
      return () => documentText(document, 'office', ATTACHMENT_LIMITS);
    });
  });
});

const QUOTED = 'Subject: s\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n';

describe('twice a line takes twice the time at most', () => {
  test.each<[string, (length: number) => () => unknown]>([
    ['to name a file', (n) => naming(`${times('. ', n)}x`)],
    ['to name a file below folders', (n) => naming(`${times('/ . ', n)}x`)],
    ['to make it harmless', (n) => bound(terminalLine, `${times(' ', n)}\u001b`)],
    ['to measure marks', (n) => bound(displayWidth, `a${times('\u0301', n)}`)],
    ['to measure flags', (n) => bound(displayWidth, times('\u{1f1e6}', n))],
    ['to cut it', (n) => bound((text) => fitColumns(text, 40), `a${times('\u0301', n)}b`)],
    ['to index marks', (n) => bound(indexText, `a${times('\u0301\u0323', n / 5)}`)],
    ['to index halfwidth marks', (n) => bound(indexText, times('\uff9e\u0323', n / 5))],
    ['to index marks that hide', (n) => bound(indexText, times('\u0301\u200d\u0323\u200d', n / 2))],
    ['to fold marks', (n) => bound(foldWord, `a${times('\u0301\u0323', n / 5)}`)],
    ['to find a date', (n) => bound(parseHeaderDate, `1 ${times('a', n)}${times(' ', n)}`)],
  ])('%s', async (_, make) => {
    await expectLinear(make);
  });
});

/** The same text every time, but made new: what is known of a text from an earlier run does not help. */
function bound<T>(act: (text: string) => T, text: string): () => T {
  return () => act(Buffer.from(text).toString());
}

function naming(name: string): () => string {
  return () => safeFileName(name, { fallback: 'x', taken: new Set() });
}

async function* pieces(source: Buffer): AsyncGenerator<Uint8Array> {
  yield source;
}

test('a megabyte of blanks in quoted-printable costs hardly more than one of letters', async () => {
  const reading = (text: string) => {
    const source = bodied('text/plain', 'quoted-printable', text);
    return () => extractMessage(source, false, DEFAULT_LIMITS);
  };
  const letters = await cost(reading('x'.repeat(1_000_000)));
  const blanks = await cost(reading(`${' '.repeat(1_000_000)}x`));
  expect(blanks).toBeLessThan(letters + 1000);
});
