import fc from 'fast-check';
import { MARK } from '../watch.ts';
import { HTML } from './html.ts';
import { BREAKERS, FILE_NAMES, HEADERS, TYPED } from './places.ts';
import { CSS, SVG_AND_MATH } from './svg-math-css.ts';

/** A message made to run something or to call somebody when it is shown. */
export interface HostileMail {
  readonly number: number;
  /** What is hostile about it, for a failure. */
  readonly what: string;
  readonly source: Buffer;
  /** The HTML it has, as a page without any protection would show it. */
  readonly html: string | null;
}

const SEED = 20_261_123;
/** Messages put together of several payloads by chance; always the same ones. */
const MIXED = 24;

/** Returns all hostile mails. @param trap address of a server that must not be asked for anything */
export function hostileMails(trap: string): HostileMail[] {
  const mails: HostileMail[] = [];
  const add = (what: string, make: (fill: (text: string) => string) => Made): void => {
    const number = mails.length;
    const mark = MARK + number;
    const fill = (text: string): string =>
      text
        .replaceAll('{js}', `self.ran=${mark};console.log(ran);alert(ran)`)
        .replaceAll('{url}', `${trap}/${number}`);
    const { fields = [], rest, html = null } = make(fill);
    mails.push({ number, what, source: Buffer.from(`${head(number, fields)}${rest}`), html });
  };
  for (const html of [...HTML, ...SVG_AND_MATH, ...CSS]) add(html, (fill) => htmlMail(fill(html)));
  for (const [i, header] of HEADERS.entries()) {
    // Raw, as an encoded word, and both with another way out.
    const breaker = BREAKERS[i % BREAKERS.length] ?? '';
    const other = BREAKERS[(i + 3) % BREAKERS.length] ?? '';
    add(`${header} ${breaker}`, (fill) => headerMail(fill(header.replaceAll('{x}', breaker))));
    add(`encoded ${header} ${other}`, (fill) =>
      headerMail(fill(header.replaceAll('{x}', encodedWord(fill(other))))),
    );
  }
  for (const [i, name] of FILE_NAMES.entries())
    add(`file name ${name.slice(0, 60)}`, (fill) =>
      attachmentMail(fill(name.replaceAll('{x}', BREAKERS[i % BREAKERS.length] ?? '')), fill),
    );
  for (const [type, content] of TYPED) {
    add(`body ${type}`, (fill) => bodyMail(fill(type), fill(content)));
    add(`attached ${type}`, (fill) => attachedMail(fill(type), fill(content)));
  }
  for (const breaker of BREAKERS)
    add(`text ${breaker}`, (fill) =>
      bodyMail('text/plain; charset=utf-8', fill(`${breaker}\r\n> ${breaker}`)),
    );
  add('a header of 200 kB', (fill) =>
    headerMail(`X-Long: ${fill('<script>{js}</script>').repeat(4_000)}`),
  );
  add('5,000 header fields', (fill) =>
    headerMail(
      Array.from({ length: 5_000 }, (_, i) => `X-${i}: ${fill('<svg onload={js}>')}`).join('\r\n'),
    ),
  );
  const pieces = fc.array(fc.constantFrom(...HTML, ...SVG_AND_MATH, ...CSS), {
    minLength: 3,
    maxLength: 8,
  });
  for (const all of fc.sample(pieces, { seed: SEED, numRuns: MIXED }))
    add(`mixed ${all.join('').slice(0, 60)}`, (fill) => htmlMail(fill(all.join(''))));
  return mails;
}

interface Made {
  /** Header fields that stand first, and so are the ones that count. */
  readonly fields?: readonly string[];
  /** The other fields, and the body. */
  readonly rest: string;
  readonly html?: string;
}

function encodedWord(text: string): string {
  return `=?utf-8?B?${Buffer.from(text).toString('base64')}?=`;
}

function head(number: number, fields: readonly string[]): string {
  const sent = new Date(Date.UTC(2026, 0, 5) + number * 60_000);
  return [
    ...fields,
    `Date: ${sent.toUTCString().replace('GMT', '+0000')}`,
    'From: Eve <eve@example.org>',
    'To: ada@example.org',
    `Subject: Hostile ${number}`,
    `Message-ID: <hostile-${number}@example.org>`,
    'MIME-Version: 1.0',
    '',
  ].join('\r\n');
}

function base64(text: string): string {
  return (
    Buffer.from(text, 'utf8')
      .toString('base64')
      .match(/.{1,76}/g) ?? []
  ).join('\r\n');
}

function part(type: string, text: string, ...fields: readonly string[]): string {
  return [
    `Content-Type: ${type}`,
    'Content-Transfer-Encoding: base64',
    ...fields,
    '',
    base64(text),
    '',
  ].join('\r\n');
}

function htmlMail(html: string): Made {
  return { rest: part('text/html; charset=utf-8', html), html };
}

function headerMail(field: string): Made {
  return { fields: [field], rest: part('text/html; charset=utf-8', '<p>A header.</p>') };
}

function bodyMail(type: string, text: string): Made {
  return { rest: part(type, text) };
}

function attachedMail(type: string, text: string): Made {
  const parts = [
    part('text/plain', 'Attached.'),
    part(type, text, 'Content-Disposition: attachment; filename="a"'),
  ];
  return { rest: multipart(parts) };
}

function attachmentMail(name: string, fill: (text: string) => string): Made {
  const extended = encodeURIComponent(name.toWellFormed()).replaceAll("'", '%27');
  const parts = [
    part('text/plain', 'Named.'),
    part(
      'text/html',
      fill('<script>{js}</script>'),
      `Content-Disposition: attachment; filename*=utf-8''${extended}`,
    ),
    // An inline part by its name, raw, as some programs write it.
    part(
      'text/html',
      fill('<script>{js}</script>'),
      `Content-Disposition: inline; filename="${name.replaceAll(/[\r\n"]/g, '')}"`,
    ),
  ];
  return { rest: multipart(parts) };
}

function multipart(parts: readonly string[]): string {
  const body = parts.map((text) => `--cut\r\n${text}`);
  return `Content-Type: multipart/mixed; boundary="cut"\r\n\r\n${body.join('')}--cut--\r\n`;
}
