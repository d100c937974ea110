import { MailParser, type SplitPart } from 'mailparser';
import { headerParameter } from './encoded-words.ts';
import { charsetNamed, rawText } from './header-block.ts';

/** What the header block of a leaf says of it. */
export interface LeafInfo {
  readonly contentType: string;
  readonly charset: string | null;
  /** `inline`, `attachment`, or null where the mail does not say. */
  readonly disposition: string | null;
  readonly filename: string | null;
  /** Without angle brackets. */
  readonly contentId: string | null;
  readonly flowed: boolean;
  readonly deleteSpace: boolean;
  /** True under a multipart/related. */
  readonly related: boolean;
}

/** A leaf without a header block. */
export const PLAIN_TEXT: LeafInfo = {
  contentType: 'text/plain',
  charset: null,
  disposition: null,
  filename: null,
  contentId: null,
  flowed: false,
  deleteSpace: false,
  related: false,
};

/** What the header block of a part says of it. */
export interface PartInfo {
  readonly leaf: LeafInfo;
  /** Lower-case subtype of a multipart; null for a leaf. */
  readonly multipart: string | null;
  /** In which ways the boundary can be read, one char a byte. */
  readonly boundaries: readonly string[];
  /** Transfer encoding, in lower case. */
  readonly encoding: string;
}

/** mailparser's own header parsing, without the streams around it. */
type PartClass = new (parent: false, config: object) => SplitPart;
const MimePart = new MailParser().splitter.node.constructor as PartClass;

/**
 * Reads what a part is from its `Content-` fields. Of several types the first counts; but a part is a multipart if one of
 * them names a boundary, and has the boundaries of all: parts behind another one would be lost.
 *
 * @param around subtypes of the multiparts that it is in, the innermost last
 */
export function partInfo(fields: readonly Buffer[], around: readonly string[]): PartInfo {
  const info = infoOf(fields, around);
  const parted = fields.filter((lines) => PARTED.test(lines.toString('latin1')));
  if (parted.length <= (info.boundaries.length > 0 ? 1 : 0)) return info;
  const others = parted.slice(0, MOST_TYPES).map((lines) => infoOf([lines], around));
  const boundaries = [info, ...others].flatMap((one) => one.boundaries);
  const multipart = info.multipart ?? others[0]?.multipart ?? null;
  return { ...info, multipart, boundaries: [...new Set(boundaries)] };
}

const PARTED = /^content-type[ \t]*:\s*multipart\/[\s\S]*boundary/i;
const MOST_TYPES = 8;

function infoOf(fields: readonly Buffer[], around: readonly string[]): PartInfo {
  const node = new MimePart(false, {});
  for (const lines of fields) node.addHeaderChunk(withLineEnd(lines));
  node.parseHeaders();
  const type = fieldValue(node, 'content-type');
  const contentType = contentTypeOf(node, around.at(-1) === 'digest' && type === null);
  const leaf: LeafInfo = {
    contentType,
    charset: node.charset || charsetNamed(type ?? ''),
    disposition: node.disposition || null,
    filename: node.filename === false ? null : fileName(node),
    contentId: (fieldValue(node, 'content-id') ?? '').replace(/^<|>$/g, '') || null,
    flowed: node.flowed,
    deleteSpace: node.delSp,
    related: around.includes('related'),
  };
  const isMultipart = contentType.startsWith('multipart/');
  return {
    leaf,
    multipart: isMultipart ? contentType.slice('multipart/'.length) : null,
    boundaries: isMultipart ? boundariesOf(node, type ?? '') : [],
    encoding: /[\w-]+/.exec(node.encoding || '')?.[0] ?? '',
  };
}

/** One line end, for mailsplit takes quadratic time to look for the last of many. */
function withLineEnd(lines: Buffer): Buffer {
  const text = lines.toString('latin1');
  return Buffer.from(
    `${text
      .split(/[\r\n]+/)
      .join('\r\n')
      .trimEnd()}\r\n`,
    'latin1',
  );
}

function contentTypeOf({ contentType }: SplitPart, isUntoldInDigest: boolean): string {
  // The parts of a digest are messages unless they say otherwise (RFC 2046 section 5.1.5).
  if (isUntoldInDigest) return 'message/rfc822';
  // A type that is none is plain text (RFC 2045 section 5.2), and an odd multipart is mixed (RFC 2046 section 5.1.7).
  const type = /^([\w!#$&.+^-]{1,127})\s{0,9}\/\s{0,9}([\w!#$&.+^-]{1,127})(?=$|[\s;,(])/.exec(
    contentType || '',
  );
  if (type !== null) return `${type[1]}/${type[2]}`;
  return /^multipart\s{0,9}\//.test(contentType || '') ? 'multipart/mixed' : 'text/plain';
}

/** With and without what may be a comment or a quote, for a parameter that is missing where only its semicolon is. */
function boundariesOf({ _boundary: read }: SplitPart, type: string): string[] {
  const text = read === false ? '' : read.toString('utf8');
  const named = /\bboundary\s{0,9}=\s{0,9}(?:"([^"]{1,200})"|([^\s";]{1,200}))/i.exec(type);
  const ways = [text, text.replace(/\s{0,9}\([^()]{0,200}\)$/, ''), text.replace(/^'(.*)'$/, '$1')];
  const all = [...ways, named?.[1] ?? named?.[2] ?? ''].map((way) => way.trimEnd());
  // A header that is no UTF-8 is read as Latin-1.
  const bytes = all.flatMap((way) => [
    Buffer.from(way).toString('latin1'),
    Buffer.from(way, 'latin1').toString('latin1'),
  ]);
  return [...new Set(bytes)].filter((way) => way !== '');
}

/** Read from the source, because mailsplit loses bytes that are not what their label says. */
function fileName(node: SplitPart): string | null {
  return (
    headerParameter(fieldValue(node, 'content-disposition') ?? '', 'filename') ??
    headerParameter(fieldValue(node, 'content-type') ?? '', 'name')
  );
}

/** The first field of that name, unfolded, or null; raw 8-bit text in it is UTF-8, or in the charset of the part. */
function fieldValue({ headers, charset }: SplitPart, name: string): string | null {
  const lines = headers === false ? [] : headers.getList();
  const line = lines.find(({ key }) => key === name)?.line;
  if (line === undefined) return null;
  const unfolded = line.slice(line.indexOf(':') + 1).replace(/\r?\n[ \t]*/g, ' ');
  return rawText(unfolded.trim(), charset || null);
}
