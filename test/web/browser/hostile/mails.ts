import fc from 'fast-check';
import { CALENDAR, CARD } from './cards.ts';
import { DOCUMENTS } from './documents.ts';
import { HTML } from './html.ts';
import { attached, encodedWord, type Letter, multipart, named, part, sourceOf } from './letters.ts';
import { HANDLERS, MORE_HTML } from './more-html.ts';
import { type Fill, type Filled, type Kind, markOf, type Payload, Payloads } from './payload.ts';
import { BREAKERS, FILE_NAMES, HEADERS } from './places.ts';
import { CSS, SVG_AND_MATH } from './svg-math-css.ts';
import { TYPED } from './typed.ts';

/** A message made of payloads, each in a place where none of the others can hide it. */
export interface HostileMail {
  readonly payloads: readonly Payload[];
  readonly source: Buffer;
}

const SEED = 20_261_123;
/** Messages put together of several payloads by chance; always the same ones. */
const MIXED = 16;
/** Payloads of a kind in one message. */
const TOGETHER = 8;
/** Breakers that each header field is written with: half of them raw, half as encoded words. */
const ROUNDS = 4;
/** What swallows the HTML behind it, or counts once in a document. */
const ALONE =
  /<!|<\?|<(?:plaintext|xmp|noscript|noembed|noframes|textarea|title|frameset|body|html|base|meta|isindex|keygen|listing|scr)\b|<<|`/i;
/** What must be closed, or hides what comes after it. */
const CLOSED =
  'script style svg math table template form iframe object video audio select details dialog marquee button map font'.split(
    ' ',
  );

/** Returns whether other HTML may stand behind this one, and is none of it. */
function isClosed(html: string): boolean {
  const times = (text: string): number => html.toLowerCase().split(text).length;
  return (
    !html.includes('\u0000') &&
    !ALONE.test(html) &&
    CLOSED.every((name) => times(`<${name}`) === times(`</${name}>`))
  );
}

/** Returns all hostile mails. @param trap address of a server that must not be asked for anything */
export async function hostileMails(trap: string): Promise<HostileMail[]> {
  const payloads = new Payloads(trap);
  const made: { readonly of: readonly Filled[]; readonly letter: Letter }[] = [
    ...htmlMails(payloads, 'HTML', [...HTML, ...MORE_HTML]),
    ...htmlMails(payloads, 'handler attribute', HANDLERS.map(handled)),
    ...htmlMails(payloads, 'SVG or MathML', SVG_AND_MATH),
    ...htmlMails(payloads, 'CSS', CSS),
    ...headerMails(payloads),
    ...nameMails(payloads),
    ...typedMails(payloads),
    ...cardMails(payloads),
    ...(await documentMails(payloads)),
    textMail(payloads),
    ...largeMails(payloads),
    ...mixedMails(payloads),
  ];
  return made.map(({ of, letter }, i) => ({
    payloads: of.map(({ payload }) => payload),
    source: sourceOf(letter, i),
  }));
}

type Made = { readonly of: readonly Filled[]; readonly letter: Letter };

function handled(event: string): string {
  return `<p tabindex=0 autofocus on${event}="{js}">x</p>`;
}

/** What stands behind a payload in a page: it is there only if the payload has ended. */
function shown(number: number): string {
  return `payload ${number} was shown`;
}

function htmlMails(payloads: Payloads, kind: Kind, all: readonly string[]): Made[] {
  const single = all.filter((html) => !isClosed(html));
  const many = chunks(all.filter(isClosed), TOGETHER);
  return [...single.map((html) => [html]), ...many].map((together) => {
    const of = together.map((html) =>
      payloads.add(kind, html, (fill, number) => ({
        html: fill(html),
        sign: { view: 'html', text: shown(number) },
      })),
    );
    const bodies = of.map(({ payload: { html, number } }) => {
      const sign = `<p>${shown(number)}</p>`;
      // Nothing stands behind what may swallow the rest.
      return together.length === 1 ? `${sign}${html}` : `${html}${sign}`;
    });
    return { of, letter: { rest: part('text/html; charset=utf-8', bodies.join('\n')) } };
  });
}

/** Each mail has each field once: of several with the same name, one would count. */
function headerMails(payloads: Payloads): Made[] {
  return Array.from({ length: ROUNDS }, (_, round) => round).flatMap((round) =>
    distinctNames(HEADERS).map((headers) => {
      const of: Filled[] = [];
      const fields = headers.map((header) => {
        const breaker = BREAKERS[(HEADERS.indexOf(header) + round * 3) % BREAKERS.length] ?? '';
        const isRaw = round % 2 === 0;
        const filled = payloads.add(
          'header field',
          `${isRaw ? '' : 'encoded '}${header} ${breaker}`,
          (_fill, number) => ({
            // An address of the trap alone has no mark.
            sign: header.includes('{x}') && isRaw ? mark(number, 'headers') : null,
          }),
        );
        of.push(filled);
        const text = isRaw ? breaker : encodedWord(filled.fill(breaker));
        return filled.fill(header.replaceAll('{x}', text));
      });
      return { of, letter: { fields, rest: part('text/html; charset=utf-8', '<p>A header.</p>') } };
    }),
  );
}

function nameMails(payloads: Payloads): Made[] {
  return chunks(FILE_NAMES, TOGETHER / 2).map((names) => {
    const of: Filled[] = [];
    const parts = names.flatMap((name) => {
      const breaker = BREAKERS[FILE_NAMES.indexOf(name) % BREAKERS.length] ?? '';
      const filled = payloads.add('file name', name.slice(0, 60), (_fill, number) => ({
        sign: /^\{x\}|\{js\}/.test(name) ? mark(number, 'thread') : null,
      }));
      of.push(filled);
      const content = filled.fill('<script>{js}</script>');
      return named(filled.fill(name.replaceAll('{x}', breaker)), content);
    });
    return { of, letter: { rest: multipart([part('text/plain', 'Named.'), ...parts]) } };
  });
}

function typedMails(payloads: Payloads): Made[] {
  // What is HTML, or made of parts itself, stands alone: nothing around it is read otherwise.
  const isAlone = ([type]: readonly [string, string]) =>
    /html|^(?:multipart|message)\//i.test(type);
  const bodies = [
    ...TYPED.filter(isAlone).map((one) => [one]),
    ...chunks(
      TYPED.filter((one) => !isAlone(one)),
      TOGETHER,
    ),
  ].map((together) => {
    const of = together.map(([type]) => payloads.add('body of another type', type, () => ({})));
    const parts = of.map(({ fill }, i) => {
      const [type = '', content = ''] = together[i] ?? [];
      return part(fill(type), fill(content));
    });
    const [only = ''] = parts;
    return { of, letter: { rest: parts.length === 1 ? only : multipart(parts) } };
  });
  const files = chunks(TYPED, TOGETHER).map((together) => {
    const of = together.map(([type]) => payloads.add('attached file', type, () => ({})));
    return withParts(of, (fill, i) => {
      const [type = '', content = ''] = together[i] ?? [];
      return attached(fill(type), fill(content), `a${i}`);
    });
  });
  return [...bodies, ...files];
}

/** A calendar of each line, all in one mail; and a card, as a body and attached. */
function cardMails(payloads: Payloads): Made[] {
  const whole = (lines: readonly string[], [open, close]: readonly [string, string]): string =>
    [open, ...lines, close].join('\r\n');
  const kinds = [
    [CALENDAR, 'text/calendar; method=REQUEST', EVENT],
    [CARD, 'text/vcard', ADDRESS],
  ] as const;
  return kinds.flatMap(([lines, type, around]) => {
    const add = () =>
      lines.map((line) => payloads.add('calendar or card', `${type} ${line}`, () => ({})));
    const texts = (of: readonly Filled[]) =>
      whole(
        of.map(({ fill }, i) => fill(lines[i] ?? '')),
        around,
      );
    const body = add();
    const file = add();
    return [
      { of: body, letter: { rest: part(type, texts(body)) } },
      {
        of: file,
        letter: {
          rest: multipart([part('text/plain', 'Attached.'), attached(type, texts(file), 'a.ics')]),
        },
      },
    ];
  });
}

const EVENT = [
  'BEGIN:VCALENDAR\r\nVERSION:2.0\r\nMETHOD:REQUEST\r\nBEGIN:VEVENT\r\nDTSTART:20260105T100000Z',
  'END:VEVENT\r\nEND:VCALENDAR\r\n',
] as const;
const ADDRESS = ['BEGIN:VCARD\r\nVERSION:4.0', 'END:VCARD\r\n'] as const;

async function documentMails(payloads: Payloads): Promise<Made[]> {
  const mails: Made[] = [];
  for (const together of chunks(DOCUMENTS, TOGETHER)) {
    const of = together.map(({ what, hasText }) =>
      payloads.add('document', what, (_fill, number) => ({
        sign: hasText ? mark(number, 'files') : null,
      })),
    );
    const files = await Promise.all(together.map(({ make }, i) => make(of[i]?.fill ?? String)));
    mails.push(
      withParts(of, (_fill, i) => {
        const { type = '', extension = '' } = together[i] ?? {};
        return attached(type, files[i] ?? '', `a${i}.${extension}`);
      }),
    );
  }
  return mails;
}

function textMail(payloads: Payloads): Made {
  const of = BREAKERS.map((breaker) =>
    payloads.add('plain text', breaker, (_fill, number) => ({ sign: mark(number, 'plain') })),
  );
  const lines = of.map(({ fill }, i) => fill(`${BREAKERS[i]}\r\n> ${BREAKERS[i]}\r\n`));
  return { of, letter: { rest: part('text/plain; charset=utf-8', lines.join('\r\n')) } };
}

function largeMails(payloads: Payloads): Made[] {
  const rest = part('text/plain', 'A large header.');
  const long = payloads.add('size', 'a header field of 200 kB', () => ({}));
  const many = payloads.add('size', '5,000 header fields', (_fill, number) => ({
    sign: mark(number, 'headers'),
  }));
  const field = `X-Long: ${long.fill('<script>{js}</script>').repeat(4_000)}`;
  const svg = many.fill('<svg onload={js}>');
  const fields = Array.from({ length: 5_000 }, (_, i) => `X-${i}: ${svg}`);
  return [
    { of: [long], letter: { fields: [field], rest } },
    { of: [many], letter: { fields, rest } },
  ];
}

function mixedMails(payloads: Payloads): Made[] {
  const pieces = fc.array(fc.constantFrom(...HTML, ...MORE_HTML, ...SVG_AND_MATH, ...CSS), {
    minLength: 3,
    maxLength: 8,
  });
  return fc.sample(pieces, { seed: SEED, numRuns: MIXED }).map((all) => {
    const filled = payloads.add('several by chance', all.join('').slice(0, 80), (fill) => ({
      html: fill(all.join('')),
    }));
    return {
      of: [filled],
      letter: { rest: part('text/html; charset=utf-8', filled.payload.html ?? '') },
    };
  });
}

function withParts(of: readonly Filled[], make: (fill: Fill, i: number) => string): Made {
  const parts = of.map(({ fill }, i) => make(fill, i));
  return { of, letter: { rest: multipart([part('text/plain', 'Attached.'), ...parts]) } };
}

function mark(number: number, view: 'headers' | 'plain' | 'thread' | 'files') {
  return { view, text: String(markOf(number)) };
}

function chunks<T>(all: readonly T[], size: number): T[][] {
  const count = Math.ceil(all.length / size);
  return Array.from({ length: count }, (_, i) => all.slice(i * size, (i + 1) * size));
}

/** Returns the fields in as few groups as have no name twice. */
function distinctNames(headers: readonly string[]): string[][] {
  const groups: string[][] = [];
  for (const header of headers) {
    const name = (one: string) => one.replace(/:.*/s, '').toLowerCase();
    const group = groups.find((known) => !known.some((other) => name(other) === name(header)));
    if (group === undefined) groups.push([header]);
    else group.push(header);
  }
  return groups;
}
