import { bodyText } from './body-text.ts';
import { truncateText, withoutNul } from './charsets.ts';
import { isEncrypted } from './containers.ts';
import type {
  ExtractedAttachment,
  Extraction,
  HashedAttachment,
  MimeLimits,
  UnparsedReason,
} from './extraction.ts';
import { type HeaderFacts, readHeaderBlock, readHeaderFacts } from './headers.ts';
import {
  collectText,
  EMBEDDED,
  HEAD_BYTES,
  isBodyText,
  isListed,
  type Leaf,
  type LeafContent,
  type LeafInfo,
  type LimitViolation,
  leafBytes,
  type Part,
  parseTree,
} from './part-tree.ts';

const MAX_FILENAME_CHARS = 1000;

function* walkLeaves<T>(
  part: Part<T>,
  depth: number,
): Iterable<{ readonly leaf: Leaf<T>; readonly depth: number }> {
  if (part.kind === 'leaf') yield { leaf: part, depth };
  else for (const child of part.children) yield* walkLeaves(child, depth + 1);
}

export function leavesIn<T>(root: Part<T> | null): Leaf<T>[] {
  return root === null ? [] : [...walkLeaves(root, 1)].map(({ leaf }) => leaf);
}

export function attachmentOf(
  { info, content }: Leaf<{ readonly size: number }>,
  number: number,
): ExtractedAttachment {
  return {
    number,
    filename: cutFilename(info),
    contentType: info.contentType,
    size: content.size,
    inline: info.disposition === 'inline' || (info.disposition === null && info.related),
    contentId: info.contentId === null ? null : truncateText(withoutNul(info.contentId), 998),
  };
}

function cutFilename({ filename }: LeafInfo): string | null {
  return filename === null ? null : truncateText(withoutNul(filename), MAX_FILENAME_CHARS);
}

/**
 * How to read an attachment as text: `pdf`, `office` (OOXML or ODF), `old-office` (a new format labelled as an old
 * one), `encrypted` (never read), `mail`, or `text`, `html` or `calendar` followed by a colon and the declared charset.
 * Form and bytes alone determine the text, so an attachment shared by ten messages is read only once.
 */
type AttachmentForm = string;

const PDF = /^application\/(?:x-)?pdf$/;
const OFFICE =
  /^application\/vnd\.(?:openxmlformats-officedocument\.(?:wordprocessingml|spreadsheetml|presentationml)\.|oasis\.opendocument\.|ms-(?:word|excel|powerpoint)\.\w+\.macroenabled)/;
/** Types of old Office formats, which are not read. New formats and text tables often have these labels. */
const OLD_OFFICE =
  /^application\/(?:x-)?(?:msword|ms-?word|msexcel|excel|mspowerpoint|vnd\.ms-(?:excel|word|powerpoint|office)|rtf)$/;
/** Types for which the file name counts only if it has a document extension. */
const MEDIA = /^(?:image|audio|video|font)\//;
const MAIL = /^message\/(?:rfc822|global|news)$/;
const TEXT =
  /^(?:application\/(?:json|xml|csv|x-csv|x-sh|x-patch|x-ruby|x-python|x-tex|sql|yaml|x-yaml))$/;
const CALENDAR = /^(?:text|application)\/(?:calendar|ics|x-vcalendar)$/;
const HTML = /^(?:text\/html|application\/xhtml\+xml)$/;

const BY_ENDING: Readonly<Record<string, string>> = {
  pdf: 'pdf',
  ...assign(
    'office',
    'docx docm dotx dotm xlsx xlsm xltx xltm pptx pptm ppsx ppsm potx odt ott ods ots odp otp odg',
  ),
  ...assign('old-office', 'doc dot xls xlt ppt pps pot rtf'),
  eml: 'mail',
  ics: 'calendar',
  ...assign('html', 'html htm xhtml'),
  ...assign('text', 'txt text csv tsv md log json xml yaml yml ini diff patch tex vcf'),
};

/**
 * Returns a leaf's form, or null if it is not searchable. A specific type overrides the file name, which overrides the
 * first bytes, because programs label documents as `application/octet-stream`, `application/zip` or an old format.
 *
 * @param head the first 1,024 bytes
 */
export function attachmentForm(
  { contentType, filename, charset }: LeafInfo,
  head: Buffer,
): AttachmentForm | null {
  const type = contentType.toLowerCase();
  const ending = formByEnding(filename);
  const form =
    formByType(type) ??
    (MEDIA.test(type) && ending !== 'pdf' && ending !== 'office' ? null : ending) ??
    (OLD_OFFICE.test(type) ? 'old-office' : formByMagic(head));
  if (form !== 'text' && form !== 'html' && form !== 'calendar') return form;
  return `${form}:${(charset ?? '').trim().toLowerCase().slice(0, 40)}`;
}

function formByType(type: string): string | null {
  if (PDF.test(type)) return 'pdf';
  if (OFFICE.test(type)) return 'office';
  if (MAIL.test(type)) return 'mail';
  if (CALENDAR.test(type)) return 'calendar';
  if (HTML.test(type)) return 'html';
  return type.startsWith('text/') || TEXT.test(type) ? 'text' : null;
}

function formByEnding(filename: string | null): string | null {
  const ending = /\.([a-z]{2,5})[\s.]*$/i.exec(filename ?? '')?.[1]?.toLowerCase();
  return ending === undefined ? null : (BY_ENDING[ending] ?? null);
}

/** First entries of OOXML and ODF packages. Their names follow a 30-byte local header. */
const PACKAGE =
  /^(?:\[Content_Types\]\.xml|_rels\/|docProps\/|(?:word|xl|ppt)\/|mimetypeapplication\/vnd\.oasis\.opendocument)/;

function formByMagic(head: Buffer): string | null {
  if (isEncrypted(head)) return 'encrypted';
  const text = head.subarray(0, HEAD_BYTES).toString('latin1');
  if (text.includes('%PDF-')) return 'pdf';
  return text.startsWith('PK\x03\x04') && PACKAGE.test(text.slice(30)) ? 'office' : null;
}

function assign(form: string, endings: string): Record<string, string> {
  return Object.fromEntries(endings.split(' ').map((ending) => [ending, form]));
}

const MAX_DOCUMENTS = 200;

/**
 * Must be called only once.
 *
 * @param leaves all leaves of the message, in order
 * @param cut true if the source continues after the last leaf
 */
function listAttachments(leaves: readonly Leaf<LeafContent>[], cut: boolean): HashedAttachment[] {
  const last = leaves.at(-1);
  let documents = 0;
  return leaves
    .filter(({ info }) => isListed(info))
    .map((leaf, i) => {
      const { info, content } = leaf;
      const form = isBodyText(info) ? null : attachmentForm(info, content.head);
      if (form !== null) documents += 1;
      const complete = !cut || leaf !== last;
      return {
        ...attachmentOf(leaf, i + 1),
        form: documents > MAX_DOCUMENTS ? null : form,
        hash: complete ? (content.hash?.digest('hex') ?? null) : null,
      };
    });
}

/**
 * Returns a message's searchable content. Never rejects because of the message: one that exceeds a limit or fails to
 * parse is `unparsed`, with its headers and the text found so far.
 *
 * @param cut true if `source` is only the start of the message
 */
export async function extractMessage(
  source: Buffer,
  cut: boolean,
  limits: MimeLimits,
): Promise<Extraction> {
  const block = readHeaderBlock(source, limits.headerBytes);
  const facts = readHeaderFacts(block.fields, limits);
  const found: Findings = {
    breach: null,
    cut,
    truncated: cut || block.cut,
    bodies: [],
    attachments: [],
    partsLeft: limits.parts,
    charsLeft: limits.bodyChars,
    tagsLeft: limits.htmlTags,
  };
  await readTree(source, 0, 0, found, limits);
  return toExtraction(facts, found.breach, found);
}

export function extractHeaders(
  source: Buffer,
  cut: boolean,
  reason: UnparsedReason,
  limits: MimeLimits,
): Extraction {
  const block = readHeaderBlock(source, limits.headerBytes);
  return toExtraction(readHeaderFacts(block.fields, limits), reason, {
    truncated: cut || block.cut,
    bodies: [],
    attachments: [],
  });
}

interface Findings {
  breach: LimitViolation | null;
  readonly cut: boolean;
  truncated: boolean;
  readonly bodies: string[];
  readonly attachments: HashedAttachment[];
  partsLeft: number;
  charsLeft: number;
  tagsLeft: number;
}

function toExtraction(
  facts: HeaderFacts,
  reason: UnparsedReason | null,
  found: Pick<Findings, 'truncated' | 'bodies' | 'attachments'>,
): Extraction {
  return {
    status: reason === null ? 'parsed' : 'unparsed',
    reason,
    ...facts,
    body: found.bodies.join('\n\n'),
    attachments: found.attachments,
    truncated: found.truncated,
  };
}

/** Reads a message, then the messages attached to it. `level` counts messages and `depth` counts parts. */
async function readTree(
  source: Buffer,
  level: number,
  depth: number,
  found: Findings,
  limits: MimeLimits,
): Promise<void> {
  // Attachments of attached messages are searchable by name, but never listed.
  const take = collectText(limits, level === 0);
  const budget = { ...limits, depth: limits.depth - depth, parts: found.partsLeft };
  const tree = await parseTree(source, take, budget);
  found.partsLeft -= tree.parts;
  found.breach ??= tree.breach;
  if (tree.root === null) return;
  const body = bodyText(tree.root, 'short', {
    bodyChars: found.charsLeft,
    htmlChars: limits.htmlChars,
    htmlTags: found.tagsLeft,
  });
  if (body.text !== '') found.bodies.push(body.text);
  found.charsLeft -= body.text.length;
  found.tagsLeft -= body.tags;
  if (body.cut) found.truncated = true;
  if (level === 0) found.attachments.push(...listAttachments(leavesIn(tree.root), found.cut));
  for (const { leaf, depth: below } of walkLeaves(tree.root, depth + 1)) {
    if (level > 0 && leaf.info.filename !== null) found.bodies.push(cutFilename(leaf.info) ?? '');
    if (EMBEDDED.test(leaf.info.contentType))
      await collectEmbedded(leaf, level, below, found, limits);
  }
}

async function collectEmbedded(
  leaf: Leaf<LeafContent>,
  level: number,
  depth: number,
  found: Findings,
  limits: MimeLimits,
): Promise<void> {
  if (leaf.content.cut) found.truncated = true;
  if (found.breach !== null) return;
  if (level >= limits.embedded || found.charsLeft <= 0) {
    found.truncated = true;
    return;
  }
  if (depth >= limits.depth) found.breach = 'depth';
  else if (found.partsLeft <= 0) found.breach = 'parts';
  else {
    const source = leafBytes(leaf.content);
    const facts = readHeaderFacts(readHeaderBlock(source, limits.headerBytes).fields, limits);
    const head = [facts.subject, facts.from, facts.to, facts.cc].filter((line) => line !== '');
    const text = truncateText(head.join('\n'), found.charsLeft);
    if (text !== '') found.bodies.push(text);
    found.charsLeft -= text.length;
    await readTree(source, level + 1, depth, found, limits);
  }
}
