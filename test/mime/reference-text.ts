import { compile, type HtmlToTextOptions } from 'html-to-text';

/** Marks where html-to-text met a limit of its own. */
export const MET_LIMIT = '\uf8fe';

const OWN_LINE = ['tr', 'caption', 'dt', 'dd', 'center', 'address', 'option', 'body', 'figcaption'];
const OWN_WORDS = ['td', 'th', 'button', 'label', 'textarea', 'select', 'iframe', 'text'];

/** Returns html-to-text with the layout of our texts. */
export function referenceText(settings: {
  readonly address: (href: string) => string;
  readonly depth: number;
  readonly children: number;
  readonly keepsLines: boolean;
}): (html: string) => string {
  const heading = { selector: '', options: { uppercase: false } };
  const options: HtmlToTextOptions = {
    wordwrap: false,
    preserveNewlines: settings.keepsLines,
    baseElements: { selectors: [], returnDomByDefault: true },
    limits: {
      maxInputLength: Number.MAX_SAFE_INTEGER,
      maxDepth: settings.depth,
      maxChildNodes: settings.children,
      ellipsis: MET_LIMIT,
    },
    selectors: [
      ...['h1', 'h2', 'h3', 'h4', 'h5', 'h6'].map((selector) => ({ ...heading, selector })),
      { selector: 'title', format: 'skip' },
      ...OWN_LINE.map((selector) => ({
        selector,
        format: 'block',
        options: { leadingLineBreaks: 1, trailingLineBreaks: 1 },
      })),
      ...OWN_WORDS.map((selector) => ({ selector, format: 'apart' })),
      { selector: 'img', format: 'imageText' },
      {
        selector: 'a',
        options: {
          pathRewrite: settings.address,
          hideLinkHrefIfSameAsText: true,
          noAnchorUrl: true,
        },
      },
    ],
    formatters: {
      apart: (element, walk, builder) => {
        builder.addInline(' ');
        walk(element.children, builder);
        builder.addInline(' ');
      },
      imageText: (element, _walk, builder) => {
        const alt: unknown = element.attribs?.alt;
        if (typeof alt === 'string' && alt.trim() !== '') builder.addInline(alt);
      },
    },
  };
  return compile(options);
}
