import { createHash, type Hash } from 'node:crypto';
import { cutText, withoutNul } from './charsets.ts';
import { isEncrypted } from './containers.ts';
import type { ExtractedAttachment, HashedAttachment } from './extraction.ts';
import { isBodyText, isListed, type LeafContent } from './leaf-content.ts';
import type { LeafInfo } from './leaf-info.ts';
import type { Leaf, Part, TakeLeaf } from './part-tree.ts';

const MAX_FILENAME_CHARS = 1000;

/** All leaves under a part in the order of the source, each with its depth (the part's own is `depth`). */
export function* leavesOf<T>(
  part: Part<T>,
  depth: number,
): Iterable<{ readonly leaf: Leaf<T>; readonly depth: number }> {
  if (part.kind === 'leaf') yield { leaf: part, depth };
  else for (const child of part.children) yield* leavesOf(child, depth + 1);
}

/** Returns all leaves of a message in the order of the source; none where it has no root. */
export function leavesIn<T>(root: Part<T> | null): Leaf<T>[] {
  return root === null ? [] : [...leavesOf(root, 1)].map(({ leaf }) => leaf);
}

/** A leaf as the attachment of this number. */
export function attachmentOf(
  { info, content }: Leaf<{ readonly size: number }>,
  number: number,
): ExtractedAttachment {
  return {
    number,
    filename: nameOf(info),
    contentType: info.contentType,
    size: content.size,
    inline: info.disposition === 'inline' || (info.disposition === null && info.related),
    contentId: info.contentId === null ? null : cutText(withoutNul(info.contentId), 998),
  };
}

/** The file name as the mail gives it, which may be anything but endless. */
export function nameOf({ filename }: LeafInfo): string | null {
  return filename === null ? null : cutText(withoutNul(filename), MAX_FILENAME_CHARS);
}

/**
 * How the bytes of an attachment are read as text: `pdf`, `office` (OOXML or ODF), `old-office` (only what is another form
 * under such a name), `encrypted` (not read), `mail`, or `text`, `html` or
 * `calendar` with a colon and the charset the mail names (nothing where it names none). Together with the bytes it
 * decides the text, so that the same attachment in ten messages is read once.
 */
export type AttachmentForm = string;

const PDF = /^application\/(?:x-)?pdf$/;
const OFFICE =
  /^application\/vnd\.(?:openxmlformats-officedocument\.(?:wordprocessingml|spreadsheetml|presentationml)\.|oasis\.opendocument\.|ms-(?:word|excel|powerpoint)\.\w+\.macroenabled)/;
/** Types of old office formats, which programs use for new ones and for tables as text. None of the old is read. */
const OLD_OFFICE =
  /^application\/(?:x-)?(?:msword|ms-?word|msexcel|excel|mspowerpoint|vnd\.ms-(?:excel|word|powerpoint|office)|rtf)$/;
/** Types of which nothing but a document has an ending of one. */
const MEDIA = /^(?:image|audio|video|font)\//;
const MAIL = /^message\/(?:rfc822|global|news)$/;
/** Types outside text/ whose bytes are text all the same. */
const TEXT =
  /^(?:application\/(?:json|xml|csv|x-csv|x-sh|x-patch|x-ruby|x-python|x-tex|sql|yaml|x-yaml))$/;
const CALENDAR = /^(?:text|application)\/(?:calendar|ics|x-vcalendar)$/;
const HTML = /^(?:text\/html|application\/xhtml\+xml)$/;

const BY_ENDING: Readonly<Record<string, string>> = {
  pdf: 'pdf',
  ...each(
    'office',
    'docx docm dotx dotm xlsx xlsm xltx xltm pptx pptm ppsx ppsm potx odt ott ods ots odp otp odg',
  ),
  ...each('old-office', 'doc dot xls xlt ppt pps pot rtf'),
  eml: 'mail',
  ics: 'calendar',
  ...each('html', 'html htm xhtml'),
  ...each('text', 'txt text csv tsv md log json xml yaml yml ini diff patch tex vcf'),
};

/** Bytes at the beginning of a file that tell what it is. */
const MAGIC_BYTES = 1024;

/**
 * The form of a leaf that has text to be searched, or null. A type that has a form of its own outranks the file name,
 * and that the first bytes: programs label documents as `application/octet-stream`, `application/zip` or an old format.
 *
 * @param head the first 1,024 bytes
 */
export function attachmentForm(
  { contentType, filename, charset }: LeafInfo,
  head: Buffer,
): AttachmentForm | null {
  const type = contentType.toLowerCase();
  const ending = byEnding(filename);
  const form =
    formOf(type) ??
    (MEDIA.test(type) && ending !== 'pdf' && ending !== 'office' ? null : ending) ??
    (OLD_OFFICE.test(type) ? 'old-office' : byMagic(head));
  if (form !== 'text' && form !== 'html' && form !== 'calendar') return form;
  return `${form}:${(charset ?? '').trim().toLowerCase().slice(0, 40)}`;
}

function formOf(type: string): string | null {
  if (PDF.test(type)) return 'pdf';
  if (OFFICE.test(type)) return 'office';
  if (MAIL.test(type)) return 'mail';
  if (CALENDAR.test(type)) return 'calendar';
  if (HTML.test(type)) return 'html';
  return type.startsWith('text/') || TEXT.test(type) ? 'text' : null;
}

function byEnding(filename: string | null): string | null {
  const ending = /\.([a-z]{2,5})[\s.]*$/i.exec(filename ?? '')?.[1]?.toLowerCase();
  return ending === undefined ? null : (BY_ENDING[ending] ?? null);
}

/** Names of the first entries of OOXML and ODF packages, behind the 30 bytes of a local header. */
const PACKAGE =
  /^(?:\[Content_Types\]\.xml|_rels\/|docProps\/|(?:word|xl|ppt)\/|mimetypeapplication\/vnd\.oasis\.opendocument)/;

function byMagic(head: Buffer): string | null {
  if (isEncrypted(head)) return 'encrypted';
  const text = head.subarray(0, MAGIC_BYTES).toString('latin1');
  if (text.includes('%PDF-')) return 'pdf';
  return text.startsWith('PK\x03\x04') && PACKAGE.test(text.slice(30)) ? 'office' : null;
}

function each(form: string, endings: string): Record<string, string> {
  return Object.fromEntries(endings.split(' ').map((ending) => [ending, form]));
}

/** The text of further attachments of a message is not read; they are found by name. */
const MAX_DOCUMENTS = 200;

/** Lists the attachments of a message, and hashes their bytes as they pass. */
export class AttachmentHashes {
  readonly #hashes = new Map<LeafContent, Hash>();
  readonly #heads = new Map<LeafContent, Buffer>();

  /** As `take`, hashing what is listed. */
  passing(take: TakeLeaf<LeafContent>): TakeLeaf<LeafContent> {
    return (info) => {
      const { content, sink } = take(info);
      if (!isListed(info)) return { content, sink };
      const hash = createHash('sha256');
      this.#hashes.set(content, hash);
      return {
        content,
        sink: (chunk) => {
          hash.update(chunk);
          const head = this.#heads.get(content) ?? Buffer.alloc(0);
          if (head.length < MAGIC_BYTES)
            this.#heads.set(content, Buffer.concat([head, chunk.subarray(0, MAGIC_BYTES)]));
          return sink(chunk);
        },
      };
    };
  }

  /**
   * Returns the attachments, numbered from 1. To be called once.
   *
   * @param leaves all leaves of the message, in order
   * @param cut true when the source continues after the last of them
   */
  attachments(leaves: readonly Leaf<LeafContent>[], cut: boolean): HashedAttachment[] {
    const last = leaves.at(-1);
    let documents = 0;
    return leaves
      .filter(({ info }) => isListed(info))
      .map((leaf, i) => {
        // What is a body already is searched as one.
        const head = this.#heads.get(leaf.content) ?? Buffer.alloc(0);
        const form = isBodyText(leaf.info) ? null : attachmentForm(leaf.info, head);
        if (form !== null) documents += 1;
        const complete = !cut || leaf !== last;
        return {
          ...attachmentOf(leaf, i + 1),
          form: documents > MAX_DOCUMENTS ? null : form,
          hash: complete ? (this.#hashes.get(leaf.content)?.digest('hex') ?? null) : null,
        };
      });
  }
}
