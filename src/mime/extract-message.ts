import { AttachmentHashes, leavesIn, leavesOf, nameOf } from './attachments.ts';
import { bodyText } from './body-text.ts';
import { cutText } from './charsets.ts';
import type { Extraction, HashedAttachment, UnparsedReason } from './extraction.ts';
import { readHeaderBlock } from './header-block.ts';
import { type HeaderFacts, headerFacts } from './header-facts.ts';
import { bytesOf, collectText, EMBEDDED, type LeafContent } from './leaf-content.ts';
import type { MimeLimits } from './limits.ts';
import { type Breach, type Leaf, parseTree } from './part-tree.ts';

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
  });
}

interface Findings {
  breach: Breach | null;
  /** The source continues after what is read. */
  readonly cut: boolean;
  truncated: boolean;
  readonly bodies: string[];
  readonly attachments: HashedAttachment[];
  partsLeft: number;
  charsLeft: number;
  tagsLeft: number;
}

function extraction(
  facts: HeaderFacts,
  reason: UnparsedReason | null,
  found: Pick<Findings, 'truncated' | 'bodies' | 'attachments'>,
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
    listId: facts.listId,
    messageId: facts.messageId,
    references: facts.references,
    senders: facts.senders,
    recipients: facts.recipients,
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
  // Attachments of attached messages are searched by name too, but only the message's own are listed.
  const hashes = level === 0 ? new AttachmentHashes() : null;
  const take = hashes?.passing(collect) ?? collect;
  const left = { ...limits, depth: limits.depth - depth, parts: found.partsLeft };
  const tree = await parseTree(source, take, left);
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
  if (hashes !== null)
    found.attachments.push(...hashes.attachments(leavesIn(tree.root), found.cut));
  for (const { leaf, depth: below } of leavesOf(tree.root, depth + 1)) {
    if (level > 0 && leaf.info.filename !== null) found.bodies.push(nameOf(leaf.info) ?? '');
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
