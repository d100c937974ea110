import { compile, type HtmlToTextOptions } from 'html-to-text';

/** Marks where html-to-text met a limit of its own. */
export const MET_LIMIT = '\uf8fe';

const OWN_LINE = [
  ...[
    'tr',
    'caption',
    'dl',
    'dt',
    'dd',
    'center',
    'address',
    'option',
    'optgroup',
    'body',
    'figure',
  ],
  ...['figcaption', 'details', 'summary', 'fieldset', 'legend', 'hgroup', 'noframes', 'li'],
];
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
      ...['menu', 'dir'].map((selector) => ({ selector, format: 'unorderedList' })),
      ...OWN_WORDS.map((selector) => ({ selector, format: 'apart' })),
      { selector: 'img', format: 'imageText' },
      { selector: 'a', format: 'shownLink' },
    ],
    formatters: {
      // As its own, which does not take words within <pre> for those of the link.
      shownLink: (element, walk, builder) => {
        const source = String(element.attribs?.href ?? '').replace(/^mailto:/, '');
        const href = source === '' || source.startsWith('#') ? '' : settings.address(source);
        let words = '';
        builder.pushWordTransform((word) => {
          words += word;
          return word;
        });
        const add = builder.addInline;
        builder.addInline = (text, how) => {
          const isLiteral = Reflect.get(Reflect.get(builder, '_stackItem'), 'isPre') === true;
          if (isLiteral && how?.noWordTransform !== true) words += text.trim().replaceAll(' ', '');
          add.call(builder, text, how);
        };
        walk(element.children, builder);
        builder.addInline = add;
        builder.popWordTransform();
        if (href === '' || href === words) return;
        builder.addInline(words === '' ? href : ` [${href}]`, { noWordTransform: true });
      },
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
