import { Parser } from 'htmlparser2';
import sanitize from 'sanitize-html';
import { htmlBodies } from './body-text.ts';
import { leavesIn } from './extract-message.ts';
import type { MimeLimits } from './extraction.ts';
import { htmlText } from './html-text.ts';
import { MAX_IMAGE_BYTES, MAX_POINTS, readImageHeader } from './image-header.ts';
import {
  collectText,
  keepLeaf,
  type LeafContent,
  type LeafHandler,
  type LimitViolation,
  leafBytes,
  parseTree,
} from './part-tree.ts';
import type { LinkTarget } from './reading.ts';
import { StyleFilter } from './safe-css.ts';

/** Number of remote images per host. They are never fetched. */
export type RemoteImages = Readonly<Record<string, number>>;

/** Placeholder base: relative addresses in a message have nothing to resolve against. */
const NOWHERE = 'https://message.invalid/';

/** Returns the hosts that a browser might contact for `src` and `srcset`, even from addresses like `//host/picture`. */
function remoteHosts({
  src = '',
  srcset = '',
}: Readonly<Record<string, string>>): ReadonlySet<string> {
  const hosts = new Set<string>();
  for (const address of [src, ...parseSrcset(srcset)]) {
    const uri = address.trim();
    if (uri === '' || !URL.canParse(uri, NOWHERE)) continue;
    const { protocol, host } = new URL(uri, NOWHERE);
    const isRemote = protocol === 'http:' || protocol === 'https:';
    if (isRemote && host !== 'message.invalid') hosts.add(host);
  }
  return hosts;
}

/** Returns the addresses in a `srcset`. Each ends at a blank or comma. A descriptor up to the next comma may follow. */
function parseSrcset(srcset: string): string[] {
  const urls: string[] = [];
  let isAddress = true;
  for (const word of srcset.split(/\s/)) {
    // The next address may directly follow the comma that ends a descriptor.
    const from = isAddress ? 0 : word.indexOf(',') + 1;
    const isDescription = !isAddress && from === 0;
    if (word === '' || isDescription) continue;
    const address = trimCommas(word.slice(from));
    if (address !== '') urls.push(address);
    isAddress = address === '' || word.endsWith(',');
  }
  return urls;
}

function trimCommas(word: string): string {
  let [from, to] = [0, word.length];
  while (word[from] === ',') from += 1;
  while (to > from && word[to - 1] === ',') to -= 1;
  return word.slice(from, to);
}

/** UTF-16 units of HTML per parser write. The depth is checked only between writes. */
const PIECE = 16 * 1024;

interface Sheet {
  readonly media: string;
  text: string;
}

type Attributes = Readonly<Record<string, string>>;

/**
 * Returns the style sheets of HTML and the attributes of its body, or null if it nests deeper than `most` levels.
 * Counts as the sanitizer's parser does, closing elements that need no end tag. That parser takes quadratic time for
 * deep HTML, as every tag shifts an array of open elements.
 */
function scanHtml(html: string, most: number) {
  let depth = 0;
  let deepest = 0;
  const sheets: Sheet[] = [];
  let body: Attributes | null = null;
  let open: Sheet | null = null;
  const parser = new Parser({
    onopentagname: () => {
      depth++;
      deepest = Math.max(deepest, depth);
    },
    onopentag: (name, attributes) => {
      if (name === 'body') body ??= attributes;
      const { media = '', type = '' } = attributes;
      if (name !== 'style' || !/^(?:text\/css)?$/i.test(type.trim())) return;
      open = { media, text: '' };
      sheets.push(open);
    },
    ontext: (text) => {
      if (open !== null) open.text += text;
    },
    onclosetag: () => {
      open = null;
      depth--;
    },
  });
  for (let at = 0; at < html.length && deepest <= most; at += PIECE) {
    parser.write(html.slice(at, at + PIECE));
  }
  const found: { readonly sheets: readonly Sheet[]; readonly body: Attributes } = {
    sheets,
    body: body ?? {},
  };
  return deepest > most ? null : found;
}

/** Even if something slips through, the browser loads only styles and inline images. */
const POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'";

/** An image without any byte, which browsers show as a box of its declared size with the alternative text. */
const BLOCKED = 'data:image/gif;base64,';

/** Blocked images have a style until the message gives them one. The page scrolls, also where the message forbids it. */
const OWN_STYLE =
  ':where(img[src$="base64,"],img:not([src])){' +
  'display:inline-block;box-sizing:border-box;overflow:hidden;' +
  'outline:1px dashed #aaa;outline-offset:-1px;background:#8881;color:#555;font:12px sans-serif}' +
  ':root,:root>body{overflow:visible!important}';

/** Elements for appearance and structure, without active content. */
const TAGS = [
  ...sanitize.defaults.allowedTags,
  ...'img font center big strike del ins address'.split(' '),
];

/** Formats that contain nothing but images. An SVG is a document. */
const PICTURE = /^image\/(?:png|jpe?g|gif|webp|bmp)$/i;
const PICTURE_INSIDE = /^data:image\/(?:png|jpe?g|gif|webp|bmp);base64,[a-z0-9+/=\s]*$/i;

/** Maximum characters of embedded images in a page. An image can be used any number of times. */
const INSERTED_LENGTH = 32 * 1024 * 1024;
/** Pixels per page, because a browser may decode all images at the same time. */
const PAGE_POINTS = 10 * MAX_POINTS;

interface PageOptions {
  readonly links?: LinkTarget;
  readonly onRemote?: (host: string) => void;
}

/** Maximum nesting depth: ten times that of any program's output. */
const MAX_DEPTH = 1000;

/**
 * Returns a message's HTML as a harmless standalone page: no scripts, handlers, forms, frames or remote images, no styles
 * that load anything (see safe-css.ts), and no requests until the user follows a link. Inline images (`data:`) are kept
 * and embedded ones are inserted, up to 32 MiB. Other images are replaced by their alternative text, as are images above
 * 24 megapixels, beyond ten times that per page, or without readable dimensions. HTML deeper than 1,000 levels is shown
 * as text.
 *
 * @param pictures `data:` URIs by Content-ID
 */
export function safeHtml(
  html: string,
  pictures: ReadonlyMap<string, string> = new Map(),
  { links = null, onRemote = () => {} }: PageOptions = {},
): string {
  const scan = scanHtml(html, MAX_DEPTH);
  const styles = new StyleFilter();
  const cleanStyle = ({ css, urls }: ReturnType<StyleFilter['sheet']>): string => {
    for (const src of urls) for (const host of remoteHosts({ src })) onRemote(host);
    return css;
  };
  const style = (text: string): string => cleanStyle(styles.attribute(text));
  const sheets = (scan?.sheets ?? []).map(({ text, media }) =>
    cleanStyle(styles.sheet(text, media)),
  );
  return [
    '<!doctype html>',
    '<html><head><meta charset="utf-8">',
    `<meta http-equiv="Content-Security-Policy" content="${POLICY}">`,
    '<meta name="referrer" content="no-referrer">',
    ...[OWN_STYLE, ...sheets].filter((css) => css !== '').map((css) => `<style>${css}</style>`),
    `</head>${bodyTag(scan?.body ?? {}, style)}`,
    scan === null ? textPage(html) : sanitizeHtml(html, pictures, { links, onRemote, style }),
    '</body></html>',
  ].join('\n');
}

const BODY_ATTRIBUTES = ['bgcolor', 'class', 'dir', 'id', 'lang', 'text'];

function bodyTag(attributes: Attributes, style: (text: string) => string): string {
  const kept = Object.entries(attributes).flatMap(([name, value]) => {
    const safe = name === 'style' ? style(value) : BODY_ATTRIBUTES.includes(name) ? value : '';
    return safe === '' ? [] : [` ${name}="${escapeHtml(safe)}"`];
  });
  return `<body${kept.join('')}>`;
}

function textPage(html: string): string {
  const { text } = htmlText(html, 'full', { chars: html.length, tags: 0 });
  return `<pre style="white-space: pre-wrap">${escapeHtml(text)}</pre>`;
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

function sanitizeHtml(
  html: string,
  pictures: ReadonlyMap<string, string>,
  { links, onRemote, style: cleanStyle }: Required<PageOptions> & { style(text: string): string },
): string {
  let room = INSERTED_LENGTH;
  let pointsLeft = PAGE_POINTS;
  const points = new Map<string, number>();
  const getPoints = (uri: string): number => {
    const count = points.get(uri) ?? countPoints(uri);
    points.set(uri, count);
    return count;
  };
  return sanitize(html, {
    allowedTags: TAGS,
    disallowedTagsMode: 'discard',
    // The package's own list, and what a browser shows in its window's title only.
    nonTextTags: ['script', 'style', 'textarea', 'option', 'xmp', 'title'],
    allowedAttributes: {
      '*': 'align bgcolor class color dir height id lang style title valign width'.split(' '),
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
    parseStyleAttributes: false,
    transformTags: {
      '*': (tagName, { style = '', ...attribs }) => {
        const safe = TAGS.includes(tagName) ? cleanStyle(style) : '';
        return { tagName, attribs: safe === '' ? attribs : { ...attribs, style: safe } };
      },
      img: (tagName, { src, srcset = '', ...attribs }) => {
        const uri = src?.trim() ?? '';
        const picture = embeddedPicture(uri, pictures);
        const fits = picture !== undefined && picture.length <= room;
        if (fits) room -= picture.length;
        const hosts = remoteHosts({ src: uri, srcset });
        for (const host of hosts) onRemote(host);
        const image = fits ? picture : PICTURE_INSIDE.test(uri) ? uri : undefined;
        const size = image === undefined ? 0 : getPoints(image);
        if (image === undefined || size > MAX_POINTS || size > pointsLeft)
          return { tagName, attribs: hosts.size > 0 ? { ...attribs, src: BLOCKED } : attribs };
        pointsLeft -= size;
        return { tagName, attribs: { ...attribs, src: image } };
      },
      // A `source` in a `picture` is removed, but its hosts are counted.
      source: (tagName, { srcset = '', ...attribs }) => {
        for (const host of remoteHosts({ srcset })) onRemote(host);
        return { tagName, attribs };
      },
      a: (tagName, { href, ...attribs }) => {
        const to = href === undefined ? undefined : linkTo(href.trim(), links);
        const rel = { rel: 'noopener noreferrer nofollow', target: '_blank' };
        return {
          tagName,
          attribs: { ...attribs, ...(to === undefined ? {} : { href: to }), ...rel },
        };
      },
    },
    nestingLimit: 200,
  });
}

function linkTo(href: string, links: LinkTarget): string | undefined {
  if (links === null) return href;
  return /^(?:https?|mailto):/i.test(href)
    ? `${links}${encodeURIComponent(href.toWellFormed())}`
    : undefined;
}

/** Returns an image's pixel count, or infinity if its dimensions cannot be read. */
function countPoints(uri: string): number {
  const header = readImageHeader(Buffer.from(uri.slice(uri.indexOf(',') + 1), 'base64'));
  const points = header === undefined ? 0 : header.width * header.height;
  return points > 0 ? points : Number.POSITIVE_INFINITY;
}

function embeddedPicture(uri: string, pictures: ReadonlyMap<string, string>): string | undefined {
  if (!/^cid:/i.test(uri)) return undefined;
  return pictures.get(uri.slice(4)) ?? pictures.get(decodePercent(uri.slice(4)));
}

/** Content-IDs in links are percent-encoded (RFC 2392). */
function decodePercent(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Maximum number of remote image hosts to count. */
const MAX_HOSTS = 200;

/** Total bytes of all embedded images. */
const PICTURES_BYTES = 16 * 1024 * 1024;

/** Returns a message's HTML as one page with embedded images. The page is null if there is no HTML. */
export async function safePage(
  source: AsyncIterable<Uint8Array>,
  limits: MimeLimits,
  links: LinkTarget = null,
): Promise<{
  readonly page: string | null;
  readonly remote: RemoteImages;
  readonly reason: LimitViolation | null;
}> {
  const { root, breach } = await parseTree(source, keepPictures(collectText(limits)), limits);
  const leaves = leavesIn(root);
  const html = htmlBodies(leaves, limits.textPartBytes);
  if (html.length === 0) return { page: null, remote: {}, reason: breach };
  const pictures = new Map<string, string>();
  for (const { info, content } of leaves) {
    if (info.contentId === null || !PICTURE.test(info.contentType)) continue;
    if (content.cut || pictures.has(info.contentId)) continue;
    const type = info.contentType.toLowerCase();
    pictures.set(info.contentId, `data:${type};base64,${leafBytes(content).toString('base64')}`);
  }
  return { ...buildPage(html.join('\n'), pictures, links), reason: breach };
}

/** Counts the remote images omitted from a page of this HTML. */
export function countRemoteImages(html: string): RemoteImages {
  return buildPage(html, new Map(), null).remote;
}

function buildPage(
  html: string,
  pictures: ReadonlyMap<string, string>,
  links: LinkTarget,
): { readonly page: string; readonly remote: RemoteImages } {
  const remote = new Map<string, number>();
  const onRemote = (host: string): void => {
    if (remote.has(host) || remote.size < MAX_HOSTS) remote.set(host, (remote.get(host) ?? 0) + 1);
  };
  const page = safeHtml(html, pictures, { links, onRemote });
  return { page, remote: Object.fromEntries(remote) };
}

/** Wraps `take` to keep image bytes for a page, up to a limit. */
function keepPictures(take: LeafHandler<LeafContent>): LeafHandler<LeafContent> {
  let room = PICTURES_BYTES;
  return (info) => {
    if (info.contentId === null || !PICTURE.test(info.contentType)) return take(info);
    const { content, sink } = keepLeaf(MAX_IMAGE_BYTES);
    return {
      content,
      sink: (chunk) => {
        if (chunk.length > room) content.cut = true;
        if (content.cut) return undefined;
        room -= chunk.length;
        return sink(chunk);
      },
    };
  };
}
