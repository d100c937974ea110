import { Parser } from 'htmlparser2';
import sanitize from 'sanitize-html';
import { htmlBodies } from './body-text.ts';
import { leavesIn } from './extract-message.ts';
import type { MimeLimits } from './extraction.ts';
import { htmlText } from './html-text.ts';
import {
  type Breach,
  bytesOf,
  collectText,
  type LeafContent,
  parseTree,
  type TakeLeaf,
} from './part-tree.ts';
import type { LinkTarget } from './reading.ts';

/** Pictures that browsers show by themselves, and that hold nothing but a picture. */
export type PictureType = 'image/png' | 'image/jpeg' | 'image/gif' | 'image/webp' | 'image/bmp';

interface PictureHeader {
  readonly type: PictureType;
  readonly width: number;
  readonly height: number;
  /** It has more than one frame. */
  readonly moves: boolean;
}

/** Bytes of a picture that is shown, and points of each of its frames. */
export const MOST_PICTURE_BYTES = 2 * 1024 * 1024;
const MOST_POINTS = 24_000_000;

/**
 * Returns the type of a picture that a page may show, by its first bytes and whatever else says how large it is once it
 * is unpacked; undefined for anything else: another format, one that is cut off, moves, or has too many points.
 *
 * @param bytes the whole file
 */
export function shownPicture(bytes: Uint8Array): PictureType | undefined {
  if (bytes.byteLength > MOST_PICTURE_BYTES) return undefined;
  const header = pictureHeader(bytes);
  if (header === undefined || header.moves) return undefined;
  const points = header.width * header.height;
  return points > 0 && points <= MOST_POINTS ? header.type : undefined;
}

/** Returns what a picture says of itself; undefined where the bytes are none of the five types, or cut off before that. */
export function pictureHeader(bytes: Uint8Array): PictureHeader | undefined {
  const view = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  try {
    for (const read of [png, jpeg, gif, webp, bmp]) {
      const header = read(view);
      if (header !== undefined) return header;
    }
  } catch (error) {
    // It ends before it has said how large it is.
    if (!(error instanceof RangeError)) throw error;
  }
  return undefined;
}

/** W3C PNG, 5.2 and 11.2.1; a chunk acTL before the first IDAT makes it move. */
function png(bytes: Buffer): PictureHeader | undefined {
  if (!startsWith(bytes, '\x89PNG\r\n\x1a\n') || ascii(bytes, 12, 4) !== 'IHDR') return undefined;
  const header = { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) };
  let moves = false;
  for (let at = 8; at < bytes.length; at += 12 + bytes.readUInt32BE(at)) {
    const kind = ascii(bytes, at + 4, 4);
    if (kind === 'acTL') moves = true;
    if (kind === 'IDAT') break;
  }
  return { type: 'image/png', ...header, moves };
}

/** ITU T.81, B.1.1 and B.2.2: segments up to the frame header, of which there is one. */
function jpeg(bytes: Buffer): PictureHeader | undefined {
  if (!startsWith(bytes, '\xff\xd8\xff')) return undefined;
  for (let at = 2; ; ) {
    // As libjpeg does: bytes between segments, fill bytes and stuffed zeros are passed over.
    while (bytes.readUInt8(at) !== 0xff) at += 1;
    while (bytes.readUInt8(at) === 0xff) at += 1;
    const marker = bytes.readUInt8(at);
    at += 1;
    // Stuffed, or a marker without a length.
    if (marker === 0 || marker === 0x01 || (marker >= 0xd0 && marker <= 0xd7)) continue;
    if (marker === 0xd8 || marker === 0xd9 || marker === 0xda) return undefined;
    if (marker >= 0xc0 && marker <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(marker)) {
      const [height, width] = [bytes.readUInt16BE(at + 3), bytes.readUInt16BE(at + 5)];
      return { type: 'image/jpeg', width, height, moves: false };
    }
    at += Math.max(2, bytes.readUInt16BE(at));
  }
}

/** GIF 89a: each frame says for itself where it lies, and may lie outside of the screen. */
function gif(bytes: Buffer): PictureHeader | undefined {
  if (!startsWith(bytes, 'GIF87a') && !startsWith(bytes, 'GIF89a')) return undefined;
  let width = bytes.readUInt16LE(6);
  let height = bytes.readUInt16LE(8);
  let frames = 0;
  let at = 13 + tableBytes(bytes.readUInt8(10));
  // Until its end, or where it is cut off: what is there is shown all the same.
  while (at < bytes.length && bytes.readUInt8(at) !== 0x3b) {
    const block = bytes.readUInt8(at);
    if (block === 0x2c) {
      frames += 1;
      width = Math.max(width, bytes.readUInt16LE(at + 1) + bytes.readUInt16LE(at + 5));
      height = Math.max(height, bytes.readUInt16LE(at + 3) + bytes.readUInt16LE(at + 7));
      at += 11 + tableBytes(bytes.readUInt8(at + 9));
    } else if (block === 0x21) at += 2;
    else return undefined;
    while (at < bytes.length && bytes.readUInt8(at) !== 0) at += 1 + bytes.readUInt8(at);
    at += 1;
  }
  return frames === 0 ? undefined : { type: 'image/gif', width, height, moves: frames > 1 };
}

function tableBytes(flags: number): number {
  return (flags & 0x80) === 0 ? 0 : 3 * 2 ** ((flags & 7) + 1);
}

/** RFC 9649, 2.3 to 2.7. */
function webp(bytes: Buffer): PictureHeader | undefined {
  if (!startsWith(bytes, 'RIFF') || ascii(bytes, 8, 4) !== 'WEBP') return undefined;
  const type = 'image/webp';
  switch (ascii(bytes, 12, 4)) {
    case 'VP8 ': {
      if (bytes.readUIntBE(23, 3) !== 0x9d012a) return undefined;
      const [width, height] = [bytes.readUInt16LE(26) & 0x3fff, bytes.readUInt16LE(28) & 0x3fff];
      return { type, width, height, moves: false };
    }
    case 'VP8L': {
      if (bytes.readUInt8(20) !== 0x2f) return undefined;
      const bits = bytes.readUInt32LE(21);
      const [width, height] = [(bits & 0x3fff) + 1, ((bits >>> 14) & 0x3fff) + 1];
      return { type, width, height, moves: false };
    }
    case 'VP8X': {
      const [width, height] = [bytes.readUIntLE(24, 3) + 1, bytes.readUIntLE(27, 3) + 1];
      return { type, width, height, moves: (bytes.readUInt8(20) & 2) !== 0 };
    }
    default:
      return undefined;
  }
}

/** The header of OS/2 1.x has 12 bytes, those of Windows 40 and more; a negative height is a picture from top to bottom. */
function bmp(bytes: Buffer): PictureHeader | undefined {
  if (!startsWith(bytes, 'BM')) return undefined;
  const type = 'image/bmp';
  const header = bytes.readUInt32LE(14);
  if (header === 12)
    return { type, width: bytes.readUInt16LE(18), height: bytes.readUInt16LE(20), moves: false };
  if (![40, 52, 56, 108, 124].includes(header)) return undefined;
  // 4 and 5 are a JPEG or PNG of its own size inside.
  if ([4, 5].includes(bytes.readUInt32LE(30))) return undefined;
  const [width, height] = [bytes.readInt32LE(18), Math.abs(bytes.readInt32LE(22))];
  return { type, width, height, moves: false };
}

function startsWith(bytes: Buffer, magic: string): boolean {
  return ascii(bytes, 0, magic.length) === magic;
}

function ascii(bytes: Buffer, at: number, length: number): string {
  return bytes.toString('latin1', at, at + length);
}

/** How many pictures of other servers a page was to show, by host. None is ever fetched. */
export type RemotePictures = Readonly<Record<string, number>>;

/** What addresses without a host of their own are resolved against: a message is at no address. */
const NOWHERE = 'https://message.invalid/';

/**
 * Returns the servers that a browser might ask for a picture: by `src`, and by the candidates of `srcset`. Without a
 * protocol (`//host/picture`) they are servers as well.
 */
function remoteHosts({
  src = '',
  srcset = '',
}: Readonly<Record<string, string>>): ReadonlySet<string> {
  const hosts = new Set<string>();
  for (const address of [src, ...candidates(srcset)]) {
    const uri = address.trim();
    if (uri === '' || !URL.canParse(uri, NOWHERE)) continue;
    const { protocol, host } = new URL(uri, NOWHERE);
    const isRemote = protocol === 'http:' || protocol === 'https:';
    if (isRemote && host !== 'message.invalid') hosts.add(host);
  }
  return hosts;
}

/** The addresses of a `srcset`: each ends at a blank, or with a comma; what follows it, up to a comma, describes it. */
function candidates(srcset: string): string[] {
  const found: string[] = [];
  let isAddress = true;
  for (const word of srcset.split(/\s/)) {
    // Behind the comma that ends a description, the next address may follow without a blank.
    const from = isAddress ? 0 : word.indexOf(',') + 1;
    const isDescription = !isAddress && from === 0;
    if (word === '' || isDescription) continue;
    const address = withoutCommas(word.slice(from));
    if (address !== '') found.push(address);
    isAddress = address === '' || word.endsWith(',');
  }
  return found;
}

function withoutCommas(word: string): string {
  let [from, to] = [0, word.length];
  while (word[from] === ',') from += 1;
  while (to > from && word[to - 1] === ',') to -= 1;
  return word.slice(from, to);
}

/** HTML given to the parser at once: within one piece, the depth may run past what is asked for. */
const PIECE = 16 * 1024;

/**
 * True when elements of the HTML stand within each other more than `most` levels deep, as its parser sees it (which
 * closes elements whose end tag is optional). Linear, unlike the parser itself on deeper HTML: it keeps the open
 * elements in an array whose front it shifts at every tag.
 */
function isDeeperThan(html: string, most: number): boolean {
  let depth = 0;
  let deepest = 0;
  const parser = new Parser({
    onopentagname: () => {
      depth++;
      deepest = Math.max(deepest, depth);
    },
    onclosetag: () => {
      depth--;
    },
  });
  for (let at = 0; at < html.length && deepest <= most; at += PIECE) {
    parser.write(html.slice(at, at + PIECE));
  }
  return deepest > most;
}

/** What a browser may do with the page, whatever slipped through: nothing but show text, styles and inline pictures. */
const POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'";

/** Elements that carry the look and the structure of mail, and nothing that acts. */
const TAGS = [
  ...sanitize.defaults.allowedTags,
  'img',
  'font',
  'center',
  'big',
  'strike',
  'del',
  'ins',
  'address',
];

/** Pictures that are nothing but pictures: an SVG is a document. */
const PICTURE = /^image\/(?:png|jpe?g|gif|webp|bmp)$/i;
const PICTURE_INSIDE = /^data:image\/(?:png|jpe?g|gif|webp|bmp);base64,[a-z0-9+/=\s]*$/i;

/** Characters of the message's own pictures in a page: one may be named any number of times. */
const INSERTED_LENGTH = 32 * 1024 * 1024;
/** Points of all pictures in a page, which a browser may unpack at once. */
const PAGE_POINTS = 10 * MOST_POINTS;

interface PageOptions {
  readonly links?: LinkTarget;
  /** Hears of each picture of another server. */
  readonly onRemote?: (host: string) => void;
}

/** Elements within elements; beyond this, a page shows the text of the HTML only. No program writes a tenth of it. */
const MAX_DEPTH = 1000;

/**
 * A message's HTML as a page of its own that can be opened without harm: no scripts, no handlers, no forms, no
 * frames, no remote pictures or styles, nothing that calls home before a link is followed. Pictures stay where they
 * are inside the page (`data:`), and those that the message brings along are put there; of others the alternative
 * text is left, and of those beyond 32 MiB of pictures put there. Pictures of more than 24 megapixels, and those beyond
 * ten times that in a page, are left out, as are those whose bytes do not say how large they are. HTML that nests deeper than 1,000 levels is shown as
 * its text.
 *
 * @param pictures `data:` URIs by the Content-ID that the page names them by
 */
export function safeHtml(
  html: string,
  pictures: ReadonlyMap<string, string> = new Map(),
  { links = null, onRemote = () => {} }: PageOptions = {},
): string {
  const options = { links, onRemote };
  const body = isDeeperThan(html, MAX_DEPTH) ? textOf(html) : cleaned(html, pictures, options);
  return [
    '<!doctype html>',
    '<html><head><meta charset="utf-8">',
    `<meta http-equiv="Content-Security-Policy" content="${POLICY}">`,
    '<meta name="referrer" content="no-referrer">',
    '</head><body>',
    body,
    '</body></html>',
  ].join('\n');
}

/** The text of the HTML, its lines as they are. */
function textOf(html: string): string {
  const { text } = htmlText(html, 'full', { chars: html.length, tags: 0 });
  const escaped = text.replace(/[&<>]/g, (sign) => `&#${sign.charCodeAt(0)};`);
  return `<pre style="white-space: pre-wrap">${escaped}</pre>`;
}

function cleaned(
  html: string,
  pictures: ReadonlyMap<string, string>,
  { links, onRemote }: Required<PageOptions>,
): string {
  let room = INSERTED_LENGTH;
  let pointsLeft = PAGE_POINTS;
  const points = new Map<string, number>();
  const pointsOf = (uri: string): number => {
    const known = points.get(uri) ?? pointsOfPicture(uri);
    points.set(uri, known);
    return known;
  };
  return sanitize(html, {
    allowedTags: TAGS,
    disallowedTagsMode: 'discard',
    allowedAttributes: {
      '*': ['align', 'bgcolor', 'color', 'dir', 'height', 'lang', 'title', 'valign', 'width'],
      a: ['href', 'rel', 'target'],
      img: ['alt', 'src'],
      table: ['border', 'cellpadding', 'cellspacing'],
      td: ['colspan', 'rowspan'],
      th: ['colspan', 'rowspan', 'scope'],
      font: ['face', 'size'],
    },
    allowedSchemes: ['http', 'https', 'mailto', 'tel'],
    allowedSchemesByTag: { img: ['data'] },
    allowProtocolRelative: false,
    transformTags: {
      img: (tagName, { src, srcset = '', ...attribs }) => {
        const uri = src?.trim() ?? '';
        const own = ownPicture(uri, pictures);
        const fits = own !== undefined && own.length <= room;
        if (fits) room -= own.length;
        for (const host of remoteHosts({ src: uri, srcset })) onRemote(host);
        const inside = fits ? own : PICTURE_INSIDE.test(uri) ? uri : undefined;
        const size = inside === undefined ? 0 : pointsOf(inside);
        if (inside === undefined || size > MOST_POINTS || size > pointsLeft)
          return { tagName, attribs };
        pointsLeft -= size;
        return { tagName, attribs: { ...attribs, src: inside } };
      },
      // Of a `picture`: it goes, and so does what it would load.
      source: (tagName, { srcset = '', ...attribs }) => {
        for (const host of remoteHosts({ srcset })) onRemote(host);
        return { tagName, attribs };
      },
      a: (tagName, { href, ...attribs }) => {
        const to = href === undefined ? undefined : linkTo(href.trim(), links);
        const away = { rel: 'noopener noreferrer nofollow', target: '_blank' };
        return {
          tagName,
          attribs: { ...attribs, ...(to === undefined ? {} : { href: to }), ...away },
        };
      },
    },
    nestingLimit: 200,
  });
}

/** Where a link leads; undefined for one that leads nowhere. */
function linkTo(href: string, links: LinkTarget): string | undefined {
  if (links === null) return href;
  return /^(?:https?|mailto):/i.test(href)
    ? `${links}${encodeURIComponent(href.toWellFormed())}`
    : undefined;
}

/** Points of one frame of a picture in a `data:` URI; more than any picture may have where its bytes do not say so. */
function pointsOfPicture(uri: string): number {
  const header = pictureHeader(Buffer.from(uri.slice(uri.indexOf(',') + 1), 'base64'));
  const points = header === undefined ? 0 : header.width * header.height;
  return points > 0 ? points : Number.POSITIVE_INFINITY;
}

function ownPicture(uri: string, pictures: ReadonlyMap<string, string>): string | undefined {
  if (!/^cid:/i.test(uri)) return undefined;
  return pictures.get(uri.slice(4)) ?? pictures.get(percentDecoded(uri.slice(4)));
}

/** Content-IDs in links are percent-encoded (RFC 2392). */
function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Servers that pictures are counted of. */
const MOST_HOSTS = 200;

/** Bytes of one picture that is put into a page, and of all of them. */
const PICTURE_BYTES = 2 * 1024 * 1024;
const PICTURES_BYTES = 16 * 1024 * 1024;

/** The HTML of a message as one page, its own pictures inside; null where it has none. */
export async function safePage(
  source: AsyncIterable<Uint8Array>,
  limits: MimeLimits,
  links: LinkTarget = null,
): Promise<{
  readonly page: string | null;
  readonly remote: RemotePictures;
  readonly reason: Breach | null;
}> {
  const { root, breach } = await parseTree(source, keepingPictures(collectText(limits)), limits);
  const leaves = leavesIn(root);
  const html = htmlBodies(leaves, limits.textPartBytes);
  if (html.length === 0) return { page: null, remote: {}, reason: breach };
  const pictures = new Map<string, string>();
  for (const { info, content } of leaves) {
    if (info.contentId === null || !PICTURE.test(info.contentType)) continue;
    if (content.cut || content.kept === null || pictures.has(info.contentId)) continue;
    const type = info.contentType.toLowerCase();
    pictures.set(info.contentId, `data:${type};base64,${bytesOf(content).toString('base64')}`);
  }
  return { ...counting(html.join('\n'), pictures, links), reason: breach };
}

/** Returns how many pictures of other servers the page of some HTML would leave out. */
export function remotePictures(html: string): RemotePictures {
  return counting(html, new Map(), null).remote;
}

function counting(
  html: string,
  pictures: ReadonlyMap<string, string>,
  links: LinkTarget,
): { readonly page: string; readonly remote: RemotePictures } {
  const remote = new Map<string, number>();
  const onRemote = (host: string): void => {
    if (remote.has(host) || remote.size < MOST_HOSTS) remote.set(host, (remote.get(host) ?? 0) + 1);
  };
  const page = safeHtml(html, pictures, { links, onRemote });
  return { page, remote: Object.fromEntries(remote) };
}

/** As `take`, and the bytes of pictures that a page may name, up to a ceiling. */
function keepingPictures(take: TakeLeaf<LeafContent>): TakeLeaf<LeafContent> {
  let room = PICTURES_BYTES;
  return (info) => {
    if (info.contentId === null || !PICTURE.test(info.contentType)) return take(info);
    const content: LeafContent = { size: 0, kept: [], keptBytes: 0, cut: false };
    return {
      content,
      sink: (chunk) => {
        content.size += chunk.length;
        if (content.size > PICTURE_BYTES || chunk.length > room) content.cut = true;
        if (content.cut) return undefined;
        room -= chunk.length;
        // The decoder may use its buffer again.
        content.kept?.push(Buffer.from(chunk));
        content.keptBytes += chunk.length;
        return undefined;
      },
    };
  };
}
