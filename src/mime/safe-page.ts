import { Parser } from 'htmlparser2';
import sanitize from 'sanitize-html';
import { leavesIn } from './attachments.ts';
import { htmlBodies } from './body-text.ts';
import { htmlText } from './html-text.ts';
import { bytesOf, collectText, type LeafContent } from './leaf-content.ts';
import type { MimeLimits } from './limits.ts';
import { type Breach, parseTree, type TakeLeaf } from './part-tree.ts';
import { MOST_POINTS, pictureHeader } from './picture-header.ts';
import { type RemotePictures, remoteHosts } from './remote-pictures.ts';
import type { LinkTarget } from './worker-protocol.ts';

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
