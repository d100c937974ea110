import type { Difference } from './compare.ts';

/** A message that the other parser reads differently. */
export interface Differing {
  readonly difference: Difference;
  /** One char a byte. */
  readonly source: string;
  /** Letters and digits of the text that the index holds, without what separates them. */
  readonly joined: string;
}

interface DifferenceClass {
  readonly name: string;
  /** Why our reading is as good as the other one, or better. */
  readonly why: string;
  fits(differing: Differing): boolean;
}

const ENCODED_MULTIPART = [
  /^content-type:\s*multipart\//im,
  /^content-transfer-encoding:\s*(?:base64|quoted-printable)/im,
];
/** A multipart whose header does not say its boundary, or not in that field. */
const UNBOUNDED = /^content-type:[ \t]*multipart\/(?!.*boundary=).*\n(?![ \t]+boundary=)/im;
/** A part between two delimiters that is one line of text. */
const NO_HEADER = /^--(.+)\n[^:\n]+\n--\1(?:--)?$/m;
const TWO_TYPES = /^content-type:.*\n(?:(?:[ \t]|[\w-]+:).*\n)*content-type:/im;
const TYPE = /^content-type:[ \t]*([^\s;]+)/gim;
/** A closing delimiter, or two dashes, between the fields of a header. */
const STRAY =
  /^[\w-]+:.*\n(?:[ \t].*\n)*--(?:.*--)?[ \t]*\n(?:[ \t].*\n)*(?:mime-version|content-[\w-]+):/im;
/** Longer words are lines of base64. */
const ENCODED = 20;

/** Reasons for differences, all of them intended. The first that fits counts. */
const CLASSES: readonly DifferenceClass[] = [
  {
    name: 'uuencoded file',
    why: 'we list files that are uuencoded within text, which is the text of other parsers',
    fits: ({ difference: { missing }, source }) =>
      missing.length === 0 && /^begin [0-7]{3,4} +\S/m.test(source),
  },
  {
    name: 'opened container',
    why: 'we open signed S/MIME and winmail.dat, and list what is in them as well',
    fits: ({ difference: { missing, words }, source }) =>
      missing.length + words.length === 0 && /pkcs7-mime|ms-tnef|\.p7[mz]|winmail/i.test(source),
  },
  {
    name: 'multipart with a transfer encoding',
    why: 'we look for parts in what the encoding of a whole multipart hides; the other parser finds none',
    fits: ({ difference: { missing, extra, words }, source }) =>
      missing.length === 0 &&
      extra.length > 0 &&
      withLineFeeds(source)
        .split('\n\n')
        .some((block) => ENCODED_MULTIPART.every((field) => field.test(block))) &&
      isStructure(words, source),
  },
  {
    name: 'boundary recovered',
    why: 'the other parser takes a multipart for text when its boundary is lost; we take the first delimiter that a header follows. Its words beyond ours are delimiters, headers and encoded bytes',
    fits: ({ difference: { missing, extra, words, leaves }, source }) =>
      missing.every((line) => line.includes(' | multipart/')) &&
      (leaves.some(({ type }) => type.startsWith('multipart/')) ||
        (extra.length > 0 &&
          (isFirstDelimiterLost(source) || UNBOUNDED.test(withLineFeeds(source))))) &&
      isStructure(words, source),
  },
  {
    name: 'behind a closing delimiter',
    why: 'the other parser drops parts that follow the closing delimiter of their own multipart, or one right behind another delimiter',
    fits: ({ difference: { missing, words, extra }, source }) =>
      missing.length === 0 &&
      words.length === 0 &&
      extra.length > 0 &&
      (/(?:^|[\r\n])--([^\r\n]+)--[ \t]*[\r\n](?:[\s\S]*[\r\n])?--\1[ \t]*[\r\n]/.test(source) ||
        /^--(.+)\n--\1--\ncontent-/im.test(withLineFeeds(source))),
  },
  {
    name: 'type by file name',
    why: 'without a valid Content-Type we go by the ending of the file name; the other parser says text/plain, or takes a parameter for a piece of the type',
    fits: ({ difference: { missing, extra, words } }) =>
      words.every((word) => word.length > ENCODED) &&
      missing.length > 0 &&
      missing.every((line) => {
        const [name, type = '', ...bytes] = line.split(' | ');
        const isOdd = type === 'text/plain' || type.includes(' ');
        return isOdd && extra.some((one) => isSame(one, [name, null, ...bytes]));
      }),
  },
  {
    name: 'file name of odd bytes',
    why: 'the other parser loses names with raw 8-bit text, with blanks and no quotes, or with encoded words that touch each other; type and bytes agree',
    fits: ({ difference: { missing, extra, words } }) =>
      words.length === 0 &&
      missing.length > 0 &&
      missing.every((line) => {
        const [name = '', ...rest] = line.split(' | ');
        return extra.some((one) => {
          const ours = one.split(' | ')[0] ?? '';
          const isLess = ours.startsWith(name) || /\ufffd|=\?/.test(name);
          return isLess && isSame(one, [null, ...rest]);
        });
      }),
  },
  {
    name: 'delimiter right behind a header',
    why: 'a delimiter ends a header for us; the other parser reads on, and takes the header of the part for the rest',
    fits: ({ difference: { missing, extra, words }, source }) =>
      missing.length === 0 &&
      extra.length > 0 &&
      /^[\w-]+:.*\n(?:[ \t].*\n)*--/m.test(withLineFeeds(source)) &&
      isStructure(words, source),
  },
  {
    name: 'empty line before a header',
    why: 'we read a header behind empty lines; the words that are not in the text are those of its fields',
    fits: ({ difference: { missing, words }, source }) =>
      missing.length === 0 &&
      words.some((word) => word.length <= ENCODED) &&
      /(?:^|\n\n)\n+[\w-]+:/.test(withLineFeeds(source)) &&
      isStructure(words, source),
  },
  {
    name: 'field given twice',
    why: 'of two fields of one part that say its name or type we take the first; other parsers take the last',
    fits: ({ difference: { missing, extra, words }, source }) =>
      words.length === 0 &&
      missing.length <= extra.length &&
      /^(content-(?:type|disposition)):.*\n(?:(?:[ \t]|[\w-]+:).*\n)*\1:/im.test(
        withLineFeeds(source),
      ) &&
      missing.every((line) => {
        const [name = '', ...rest] = line.split(' | ');
        return source.includes(`"${name}"`) && extra.some((one) => isSame(one, [null, ...rest]));
      }),
  },
  {
    name: 'two types',
    why: 'of two types in one header we take the multipart whose parts follow; the other parser takes the first one for the whole body',
    fits: ({ difference: { missing, words }, source }) =>
      missing.every((line) => line.startsWith(' | ')) &&
      TWO_TYPES.test(withLineFeeds(source)) &&
      isStructure(words, source),
  },
  {
    name: 'two types of a file',
    why: 'of two types in one header we take the first; GMime takes the last',
    fits: ({ difference: { missing, extra, words }, source }) => {
      const blocks = withLineFeeds(source).split(/\n\n+/);
      const at = blocks.findIndex((block) => TWO_TYPES.test(block));
      const types = [...(blocks[at] ?? '').matchAll(TYPE)].map(([, type = '']) =>
        type.toLowerCase(),
      );
      const isMoved = (line: string): boolean => {
        const [name, type = '', ...bytes] = line.split(' | ');
        const isOurs = (one: string): boolean =>
          isSame(one, [name, null, ...bytes]) && types.includes(one.split(' | ')[1] ?? '');
        return types.includes(type) && extra.some(isOurs);
      };
      // What is a file by its first type is no text.
      const isHidden = at >= 0 && types[0]?.startsWith('text/') === false;
      const text = isHidden
        ? blocks
            .slice(at + 1)
            .join('\n')
            .toLowerCase()
        : '';
      return (
        missing.length === extra.length &&
        missing.length + words.length > 0 &&
        missing.every(isMoved) &&
        words.every((word) => text.includes(word))
      );
    },
  },
  {
    name: 'part of a digest without a header',
    why: 'we list a message of one line of text; GMime does not take it for a part',
    fits: ({ difference: { missing, extra, words }, source }) =>
      missing.length + words.length === 0 &&
      extra.every((line) => line.startsWith(' | message/rfc822 | ')) &&
      NO_HEADER.test(withLineFeeds(source)),
  },
  {
    name: 'header to us, text to the other parser',
    why: 'we read a header with a damaged line in it; the words that are not in the text are those of its fields',
    fits: ({ difference: { missing, words }, source }) =>
      missing.length === 0 &&
      words.some((word) => word.length <= ENCODED) &&
      isStructure(words, withDamagedLines(source)),
  },
  {
    name: 'more behind the name of an encoding',
    why: 'Python leaves quoted-printable as it is when blanks follow that word in the header; its words are the digits of escapes',
    fits: ({ difference: { missing, extra, words }, source }) =>
      missing.length + extra.length === 0 &&
      /^content-transfer-encoding:.*quoted-printable[ \t]+$/im.test(source.replaceAll('\r', '')) &&
      words.every((word) => /^[0-9a-f]{2}$/.test(word)),
  },
  {
    name: 'two equals signs in quoted-printable',
    why: 'each parser reads "==" at the end of a line in a way of its own; we take the first for text and the second for a soft line break',
    fits: ({ difference: { missing, extra, words }, source }) =>
      words.length === 0 &&
      /^content-transfer-encoding[ \t]*:[ \t]*quoted-printable/im.test(source) &&
      /==[\r\n]/.test(source) &&
      isSameButBytes(missing, extra),
  },
  {
    name: 'line end of the last part',
    why: 'where no delimiter follows the last part, Python takes its last line end off; it belongs to the part',
    fits: ({ difference: { missing, extra, words } }) =>
      words.length === 0 &&
      isSameButBytes(missing, extra) &&
      missing.every((line, i) => {
        const more = sizeOf(extra[i]) - sizeOf(line);
        return more === 1 || more === 2;
      }),
  },
  {
    name: 'bytes that contradict their encoding',
    why: 'of base64 with lines of text in it, or of an impossible length, we decode the base64 and keep the text; the other parser decodes the text as well, or nothing',
    fits: ({ difference: { missing, extra, words }, source }) =>
      /^content-transfer-encoding[ \t]*:[ \t]*base64/im.test(source) &&
      isSameButBytes(missing, extra) &&
      isStructure(words, source),
  },
  {
    name: 'nothing of the last part',
    why: 'where no delimiter follows the last part, notmuch may give an attachment without its bytes',
    fits: ({ difference: { missing, extra, words } }) =>
      words.length === 0 &&
      missing.length > 0 &&
      isSameButBytes(missing, extra) &&
      missing.every((line) => sizeOf(line) === 0),
  },
  {
    name: 'carriage return alone',
    why: 'a carriage return ends a line for us, and is a character of it for GMime',
    fits: ({ difference: { missing, extra, words }, source }) =>
      missing.length === 0 &&
      extra.length > 0 &&
      /\r[^\r\n]/.test(source) &&
      isStructure(words, source),
  },
  {
    name: 'text that is called base64',
    why: 'the other parser decodes the letters of plain text',
    fits: ({ difference: { missing, extra, words }, source }) =>
      missing.length + extra.length === 0 &&
      /^content-transfer-encoding[ \t]*:[ \t]*base64/im.test(source) &&
      words.length > 0,
  },
  {
    name: 'words that markup joins',
    why: 'elements within a word, line ends between characters of scripts without spaces, and signs such as the trademark separate words in one reading and not in the other; all their characters are in the text',
    fits: ({ difference: { missing, extra, words }, joined }) =>
      missing.length + extra.length === 0 && words.every((word) => joined.includes(word)),
  },
  {
    name: 'comments and conditions of HTML',
    why: 'the other parser shows conditional comments, and comments without an end, which browsers do not',
    fits: ({ difference: { missing, extra }, source }) =>
      missing.length + extra.length === 0 &&
      (/<!(?:--)?\[(?:if|endif)/i.test(source) ||
        source.lastIndexOf('<!--') > source.lastIndexOf('-->')),
  },
  {
    name: 'text to us, header to the other parser',
    why: 'two lines that are no fields end a header for us; GMime passes over any number. Our text holds the fields behind them',
    fits: ({ difference: { missing, extra, words }, joined }) =>
      words.length === 0 &&
      missing.length > 0 &&
      missing.every((line) => {
        const [name = '', type = ''] = line.split(' | ');
        const field = name === '' ? `contenttype${type}` : `filename${name}`;
        return joined.includes(field.replace(/[^\p{L}\p{N}]/gu, ''));
      }) &&
      extra.every((line) => missing.some((one) => isSame(line, [null, one.split(' | ')[1]]))),
  },
  {
    name: 'closing delimiter within a header',
    why: 'we pass over a closing delimiter, or two dashes, before fields that describe the body; the other parser ends the header there',
    fits: ({ difference: { missing, extra, words }, source }) =>
      STRAY.test(withLineFeeds(source)) &&
      missing.length <= extra.length &&
      missing.every((line) => extra.some((one) => isSame(one, [null, line.split(' | ')[1]]))) &&
      isStructure(words, source),
  },
];

/** The class of a difference; or those of one attachment in it and of the rest, where two parts are damaged. */
export function classesOf(differing: Differing): readonly string[] {
  const whole = nameOf(differing);
  if (whole !== undefined) return [whole];
  const { missing, extra } = differing.difference;
  for (const [i, line] of missing.entries()) {
    for (const [j, one] of extra.entries()) {
      const [name = '', type = '', , hash = ''] = line.split(' | ');
      if (!isSame(one, [name, type]) && !isSame(one, [name, null, null, hash])) continue;
      const pair = { missing: [line], extra: [one], words: [] };
      const rest = { missing: missing.toSpliced(i, 1), extra: extra.toSpliced(j, 1) };
      const first = nameOf(withOnly(differing, pair));
      const second = nameOf(withOnly(differing, rest));
      if (first !== undefined && second !== undefined) return [first, second];
    }
  }
  return [];
}

function nameOf(differing: Differing): string | undefined {
  return CLASSES.find(({ fits }) => fits(differing))?.name;
}

function withOnly(differing: Differing, some: Partial<Difference>): Differing {
  return { ...differing, difference: { ...differing.difference, ...some } };
}

/** Whether parts come before the first delimiter that the header names. */
function isFirstDelimiterLost(source: string): boolean {
  const [, boundary = ''] = /boundary="?([^"\r\n;]+)/i.exec(source) ?? [];
  const [, first = boundary] = /[\r\n]--([^\r\n]+)[\r\n]+content-/i.exec(source) ?? [];
  return first !== boundary;
}

/** The source with each line before a field as one of the header, as a damaged line may be. */
function withDamagedLines(source: string): string {
  return withLineFeeds(source).replace(/^(?=.*\n[\w-]+:)/gm, ' ');
}

function withLineFeeds(source: string): string {
  return source.replace(/\r+\n?/g, '\n');
}

/** Whether both have the same attachments, but for their bytes. A name of one parser only is none. */
function isSameButBytes(missing: readonly string[], extra: readonly string[]): boolean {
  const isFound = (line: string): boolean => {
    const [name = '', type = ''] = line.split(' | ');
    const known = type === 'text/plain' ? null : type;
    return extra.some((one) => isSame(one, [name === '' ? null : name, known]));
  };
  return missing.length === extra.length && missing.every(isFound);
}

function sizeOf(line = ''): number {
  return Number(line.split(' | ')[2]);
}

/** Whether each word is on a line of a header, a delimiter or an encoding, and not in the text of the message. */
function isStructure(words: readonly string[], source: string): boolean {
  const lines = source
    .toLowerCase()
    .split(/[\r\n]+/)
    .filter((line) => /^(?:[^\s:]+[ \t]*:|[ \t]|--)|^[\w+/=-]{16,}$|=[0-9a-f]{2}|=$/.test(line));
  const said = lines.join('\n');
  return words.every((word) => word.length > ENCODED || said.includes(word));
}

/** Compares the pieces of a line; a piece of null may be anything. */
function isSame(line: string, pieces: readonly (string | null | undefined)[]): boolean {
  const ours = line.split(' | ');
  return pieces.every((piece, i) => piece === null || piece === ours[i]);
}
