import sanitize from 'sanitize-html';

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

/**
 * A message's HTML as a page of its own that can be opened without harm: no scripts, no handlers, no forms, no
 * frames, no remote pictures or styles, nothing that calls home before a link is followed. Pictures stay where they
 * are inside the page (`data:`); of others the alternative text is left.
 */
export function safeHtml(html: string): string {
  const body = sanitize(html, {
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
      a: sanitize.simpleTransform('a', { rel: 'noopener noreferrer nofollow', target: '_blank' }),
    },
    nestingLimit: 200,
  });
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
