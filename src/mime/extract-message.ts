import { attachmentOf, DocumentFinder, leavesOf, nameOf } from './attachments.ts';
import { bodyText } from './body-text.ts';
import { cutText } from './charsets.ts';
import type {
  AttachedDocument,
  ExtractedAttachment,
  Extraction,
  UnparsedReason,
} from './extraction.ts';
import { readHeaderBlock } from './header-block.ts';
import { type HeaderFacts, headerFacts } from './header-facts.ts';
import { bytesOf, collectText, EMBEDDED, isListed, type LeafContent } from './leaf-content.ts';
import type { MimeLimits } from './limits.ts';
import { type Breach, type Leaf, parseTree } from './part-tree.ts';
import { walkParts } from './part-walk.ts';

/**
 * Everything of a message that can be searched. Never rejects because of the message: one that breaks a limit
 * or the parser is `unparsed`, with its headers and whatever text came before.
 *
 * @param cut true when `source` is only the beginning of the message
 */
export async function extractMessage(
  source: Buffer,
  cut: boolean,
  limits: MimeLimits,
): Promise<Extraction> {
  const block = readHeaderBlock(source, limits.headerBytes);
  const facts = headerFacts(block.fields, limits);
  const found: Findings = {
    breach: null,
    cut,
    truncated: cut || block.cut,
    bodies: [],
    attachments: [],
    documents: [],
    partsLeft: limits.parts,
    charsLeft: limits.bodyChars,
    tagsLeft: limits.htmlTags,
  };
  await look(source, 0, 0, found, limits);
  return extraction(facts, found.breach, found);
}

/** Headers only, for a message that ended its worker. */
export function extractHeaders(
  source: Buffer,
  cut: boolean,
  reason: UnparsedReason,
  limits: MimeLimits,
): Extraction {
  const block = readHeaderBlock(source, limits.headerBytes);
  return extraction(headerFacts(block.fields, limits), reason, {
    truncated: cut || block.cut,
    bodies: [],
    attachments: [],
    documents: [],
  });
}

interface Findings {
  breach: Breach | null;
  /** The source continues after what is read. */
  readonly cut: boolean;
  truncated: boolean;
  readonly bodies: string[];
  readonly attachments: ExtractedAttachment[];
  readonly documents: AttachedDocument[];
  partsLeft: number;
  charsLeft: number;
  tagsLeft: number;
}

function extraction(
  facts: HeaderFacts,
  reason: UnparsedReason | null,
  found: Pick<Findings, 'truncated' | 'bodies' | 'attachments' | 'documents'>,
): Extraction {
  return {
    status: reason === null ? 'parsed' : 'unparsed',
    reason,
    subject: facts.subject,
    from: facts.from,
    to: facts.to,
    cc: facts.cc,
    bcc: facts.bcc,
    deliveredTo: facts.deliveredTo,
    body: found.bodies.join('\n\n'),
    attachments: found.attachments,
    documents: found.documents,
    listId: facts.listId,
    messageId: facts.messageId,
    references: facts.references,
    truncated: found.truncated,
  };
}

/** Collects from one message, and then from those attached to it. `level` counts messages, `depth` parts. */
async function look(
  source: Buffer,
  level: number,
  depth: number,
  found: Findings,
  limits: MimeLimits,
): Promise<void> {
  const collect = collectText(limits);
  // Only the message's own attachments are read apart; what messages inside have is read with those.
  const finder = level === 0 ? new DocumentFinder() : null;
  const take = finder?.passing(collect) ?? collect;
  const left = { ...limits, depth: limits.depth - depth, parts: found.partsLeft };
  const tree = walkParts(source, take, left) ?? (await parseTree(source, take, left));
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
  if (finder !== null) {
    const leaves = [...leavesOf(tree.root, 1)].map(({ leaf }) => leaf);
    found.documents.push(...finder.documents(leaves, found.cut));
  }
  for (const { leaf, depth: below } of leavesOf(tree.root, depth + 1)) {
    // Attachments of attached messages are searched by name too, but only the message's own are numbered.
    if (level === 0 && isListed(leaf.info)) {
      found.attachments.push(attachmentOf(leaf, found.attachments.length + 1));
    } else if (level > 0 && leaf.info.filename !== null) found.bodies.push(nameOf(leaf.info) ?? '');
    if (EMBEDDED.test(leaf.info.contentType)) await lookInside(leaf, level, below, found, limits);
  }
}

async function lookInside(
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
    const source = bytesOf(leaf.content);
    const facts = headerFacts(readHeaderBlock(source, limits.headerBytes).fields, limits);
    const head = [facts.subject, facts.from, facts.to, facts.cc].filter((line) => line !== '');
    const text = cutText(head.join('\n'), found.charsLeft);
    if (text !== '') found.bodies.push(text);
    found.charsLeft -= text.length;
    await look(source, level + 1, depth, found, limits);
  }
}
