import type { SplitPart, TreePart } from 'mailparser';
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

/** Reads what a leaf is from its part in mailparser's tree. */
export function leafInfo(made: TreePart): LeafInfo {
  const { node } = made;
  const contentId = made.headers.get('content-id');
  return {
    contentType: contentTypeOf(made),
    charset: node.charset || charsetNamed(headerValue(made, 'content-type')),
    disposition: node.disposition || null,
    filename: node.filename === false ? null : fileName(made),
    contentId:
      typeof contentId === 'string' ? contentId.trim().replace(/^<|>$/g, '') || null : null,
    flowed: node.flowed,
    deleteSpace: node.delSp,
    related: under(node, 'multipart/related'),
  };
}

function contentTypeOf({ node, contentType, headerLines }: TreePart): string {
  const digest = node.parentNode !== false && node.parentNode.multipart === 'digest';
  // The parts of a digest are messages unless they say otherwise (RFC 2046 section 5.1.5).
  if (digest && !headerLines.some(({ key }) => key === 'content-type')) return 'message/rfc822';
  // A type that is none is plain text (RFC 2045 section 5.2).
  const type = /^[\w!#$&.+^-]{1,127}\/[\w!#$&.+^-]{1,127}(?=$|[\s;,(])/.exec(contentType || '');
  return type === null ? 'text/plain' : type[0];
}

/** Read from the source, because mailsplit loses bytes that are not what their label says. */
function fileName(made: TreePart): string | null {
  return (
    headerParameter(headerValue(made, 'content-disposition'), 'filename') ??
    headerParameter(headerValue(made, 'content-type'), 'name')
  );
}

/** The first field of that name, unfolded; raw 8-bit text in it is UTF-8, or in the charset of the part. */
function headerValue({ node, headerLines }: TreePart, name: string): string {
  const line = headerLines.find(({ key }) => key === name)?.line ?? '';
  const unfolded = line.slice(line.indexOf(':') + 1).replace(/\r?\n[ \t]*/g, ' ');
  return rawText(unfolded.trim(), node.charset || null);
}

function under(node: SplitPart, contentType: string): boolean {
  for (let up = node.parentNode; up !== false; up = up.parentNode) {
    if (up.contentType === contentType) return true;
  }
  return false;
}
