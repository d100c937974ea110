import sanitize from 'sanitize-html';
import { isDeeperThan } from './html-depth.ts';
import { htmlText } from './html-text.ts';

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
export const PICTURE = /^image\/(?:png|jpe?g|gif|webp|bmp)$/i;
const PICTURE_INSIDE = /^data:image\/(?:png|jpe?g|gif|webp|bmp);base64,[a-z0-9+/=\s]*$/i;

/** Characters of the message's own pictures in a page: one may be named any number of times. */
const INSERTED_LENGTH = 32 * 1024 * 1024;

/** Elements within elements; beyond this, a page shows the text of the HTML only. No program writes a tenth of it. */
const MAX_DEPTH = 1000;

/**
 * A message's HTML as a page of its own that can be opened without harm: no scripts, no handlers, no forms, no
 * frames, no remote pictures or styles, nothing that calls home before a link is followed. Pictures stay where they
 * are inside the page (`data:`), and those that the message brings along are put there; of others the alternative
 * text is left, and of those beyond 32 MiB of pictures put there. HTML that nests deeper than 1,000 levels is shown as
 * its text.
 *
 * @param pictures `data:` URIs by the Content-ID that the page names them by
 */
export function safeHtml(html: string, pictures: ReadonlyMap<string, string> = new Map()): string {
  const body = isDeeperThan(html, MAX_DEPTH) ? textOf(html) : cleaned(html, pictures);
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

function cleaned(html: string, pictures: ReadonlyMap<string, string>): string {
  let room = INSERTED_LENGTH;
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
      img: (tagName, { src, ...attribs }) => {
        const uri = src?.trim() ?? '';
        const own = ownPicture(uri, pictures);
        const fits = own !== undefined && own.length <= room;
        if (fits) room -= own.length;
        const inside = fits ? own : PICTURE_INSIDE.test(uri) ? uri : undefined;
        return { tagName, attribs: inside === undefined ? attribs : { ...attribs, src: inside } };
      },
      a: sanitize.simpleTransform('a', { rel: 'noopener noreferrer nofollow', target: '_blank' }),
    },
    nestingLimit: 200,
  });
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
