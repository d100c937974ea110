import { decodeText } from './charsets.ts';
import { htmlText } from './html-text.ts';
import { rtfText } from './rtf-text.ts';
import { decodeQuotedPrintable } from './transfer-decoding.ts';

/**
 * Returns the words of a text in a format with a syntax of its own, which its beginning shows, or, for enriched text, its
 * type; null for any other text, HTML among it.
 */
export function formattedText(text: string, type = ''): string | null {
  if (/^\s{0,99}\{\\rtf/.test(text)) return rtfText(text);
  if (/^\s{0,99}BEGIN:V(?:CALENDAR|CARD|EVENT|TODO)\s/i.test(text)) return propertyText(text);
  if (type === 'text/enriched') return enrichedText(text);
  return type === 'text/richtext' ? richText(text) : null;
}

/** Properties of calendar entries (RFC 5545) and address cards (RFC 6350) that people would search for. */
const READ =
  /^(?:summary|description|location|comment|contact|organizer|attendee|dtstart|dtend|due|url|categories|x-alt-desc|conference|fn|n|nickname|email|tel|adr|label|org|title|role|note|bday|impp|x-(?:skype|jabber|icq|aim|msn)[\w-]{0,20})$/i;
/** Properties whose fields are separated by semicolons. */
const STRUCTURED = /^(?:n|adr|org)$/i;
/** A property: its name, perhaps behind that of a group, its parameters, and its value. */
const PROPERTY = /^(?:[\w-]{1,99}\.)?([\w-]{1,99})((?:;(?:"[^"]*"|[^":])*)?):(.*)$/s;
const ENCODED = /;(?:encoding=)?(quoted-printable|base64|b)(?:;|$)/i;
/** HTML that a calendar entry has as a value. */
const VALUE_LIMITS = { chars: 256 * 1024, tags: 20_000 };

/**
 * The words of a calendar or of address cards: lines unfolded, escapes undone, names of properties left out. A text
 * without any such property is given as it is.
 */
function propertyText(source: string): string {
  const lines = source
    .replace(/\r\n?/g, '\n')
    .replace(/\n[ \t]/g, '')
    .split('\n');
  const read: string[] = [];
  let isZone = false;
  for (let i = 0; i < lines.length; i++) {
    const line = lines[i] ?? '';
    // A time zone has the dates of its own rules.
    if (/^(?:begin|end):vtimezone\s*$/i.test(line)) isZone = /^b/i.test(line);
    const property = isZone ? null : PROPERTY.exec(line);
    if (property === null) continue;
    const [, name = '', parameters = '', value = ''] = property;
    const values = [value];
    const encoding = ENCODED.exec(parameters)?.[1]?.toLowerCase();
    if (encoding === 'quoted-printable')
      while (values.at(-1)?.endsWith('=') && i + 1 < lines.length) values.push(lines[++i] ?? '');
    if (!READ.test(name) || encoding === 'base64' || encoding === 'b') continue;
    read.push(valueText(name, parameters, quotedText(values, parameters)));
  }
  return read.length === 0 ? source : read.join('\n');
}

/** The value in its lines; those of version 2.1 of both formats may be quoted-printable, in a charset that they name. */
function quotedText(lines: readonly string[], parameters: string): string {
  if (!/;(?:encoding=)?quoted-printable/i.test(parameters)) return lines.join('');
  const bytes = decodeQuotedPrintable(Buffer.from(lines.join('\n')));
  return decodeText(bytes, /;charset=([^;:]{1,100})/i.exec(parameters)?.[1] ?? null);
}

function valueText(name: string, parameters: string, value: string): string {
  const person = /;CN=("[^"]*"|[^;:]*)/i.exec(parameters)?.[1] ?? '';
  const fields = STRUCTURED.test(name)
    ? value.replace(/(\\.)|;/gs, (_, escaped: string | undefined) => escaped ?? ' ')
    : value;
  const text = fields
    .replace(/\\(.)/gs, (_, sign: string) => (/n/i.test(sign) ? '\n' : sign))
    .replace(/^mailto:/i, '');
  const isHtml = /^x-alt-desc$/i.test(name) || /;fmttype="?text\/html/i.test(parameters);
  const shown = isHtml ? htmlText(text, 'short', VALUE_LIMITS).text : text;
  return `${person.replaceAll('"', '')} ${shown}`.trim();
}

/** Commands of text/enriched (RFC 1896) go, with their parameters; one line end is a blank, and more are one fewer. */
function enrichedText(source: string): string {
  return source
    .replace(/\r\n?/g, '\n')
    .replace(/\n(\n*)/g, (_, more: string) => (more === '' ? ' ' : more))
    .replace(/<param>[^<]{0,1000}<\/param>/gi, '')
    .replace(/<<|<\/?[a-z][\w-]{0,60}>/gi, (sign) => (sign === '<<' ? '<' : ''));
}

/** Commands of text/richtext (RFC 1341) go; those for line ends and signs become them. */
function richText(source: string): string {
  const signs: Readonly<Record<string, string>> = {
    nl: '\n',
    np: '\n',
    paragraph: '\n\n',
    lt: '<',
  };
  return source
    .replace(/\s+/g, ' ')
    .replace(/<comment>[^<]{0,10000}<\/comment>/gi, '')
    .replace(/<\/?([a-z][\w-]{0,60})>/gi, (_, name: string) => signs[name.toLowerCase()] ?? '');
}
