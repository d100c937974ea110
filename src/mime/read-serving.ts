import type { MessagePort } from 'node:worker_threads';
import { attachmentOf, leavesOf } from './attachment-list.ts';
import { bodyText } from './body-text.ts';
import type { UnparsedReason } from './extraction.ts';
import type { HeaderBlock } from './header-block.ts';
import { charsetHint, fieldText, readHeaderBlock } from './header-block.ts';
import { headerFacts } from './header-facts.ts';
import type { LeafContent } from './leaf-content.ts';
import { collectText, isBodyText, isListed, leafText } from './leaf-content.ts';
import type { MimeLimits } from './limits.ts';
import type { MessageReading } from './message-reading.ts';
import type { ParsedTree, TakeLeaf } from './part-tree.ts';
import { parseTree } from './part-tree.ts';
import type { FromReader, ReadWorkerData, ToReader } from './worker-protocol.ts';

/** Reads the one message a port is asked for, and closes the port. */
export async function serveReading(port: MessagePort, data: ReadWorkerData): Promise<void> {
  const wire = new ReaderWire(port);
  const { want, limits } = data;
  if (want.kind === 'attachment') {
    await sendAttachment(wire, want.number, limits);
  } else {
    const head = new Head(limits.headerBytes);
    const source = head.passing(wire.pieces());
    let message: MessageReading;
    if (want.kind === 'message') {
      const tree = await parseTree(source, collectText(limits), limits);
      message = reading(head.block(), tree, tree.breach, limits);
    } else {
      for await (const _ of source) if (head.full) break;
      message = reading(head.block(), null, want.reason, limits);
    }
    wire.send({ kind: 'message', message });
    wire.send({
      kind: 'finished',
      attachments: message.attachments.length,
      breach: message.reason,
    });
  }
  port.close();
}

function reading(
  block: HeaderBlock,
  tree: ParsedTree<LeafContent> | null,
  reason: UnparsedReason | null,
  limits: MimeLimits,
): MessageReading {
  const facts = headerFacts(block.fields, limits);
  const hint = charsetHint(block.fields);
  const root = tree?.root ?? null;
  const body = root === null ? { text: '', cut: false } : bodyText(root, 'full', limits);
  const leaves = root === null ? [] : [...leavesOf(root, 1)].map(({ leaf }) => leaf);
  const html = leaves
    .filter(({ info }) => info.contentType === 'text/html' && isBodyText(info))
    .map(({ info, content }) => leafText(info, content, limits.textPartBytes));
  return {
    reason,
    headers: block.fields.map(({ label, value }) => ({
      name: label,
      value: fieldText(value, limits.fieldChars, hint),
    })),
    subject: facts.subject,
    from: facts.from,
    to: facts.to,
    cc: facts.cc,
    bcc: facts.bcc,
    messageId: facts.messageId,
    text: body.text,
    html: html.length === 0 ? null : html.join('\n'),
    attachments: leaves
      .filter(({ info }) => isListed(info))
      .map((leaf, i) => attachmentOf(leaf, i + 1)),
    truncated: block.cut || body.cut,
  };
}

async function sendAttachment(wire: ReaderWire, number: number, limits: MimeLimits): Promise<void> {
  let listed = 0;
  const take: TakeLeaf<{ size: number }> = (info) => {
    if (isListed(info)) listed++;
    const content = { size: 0 };
    if (!isListed(info) || listed !== number) return { content, sink: () => undefined };
    wire.send({
      kind: 'attachment',
      attachment: attachmentOf({ kind: 'leaf', info, content }, number),
    });
    return { content, sink: (chunk) => wire.sendChunk(chunk) };
  };
  // What follows the attachment need not be read.
  const tree = await parseTree(
    wire.pieces(() => listed > number),
    take,
    limits,
  );
  wire.send({ kind: 'finished', attachments: listed, breach: tree.breach });
}

/** Keeps the beginning of a source that passes by, for its header block. */
class Head {
  private readonly kept: Buffer[] = [];
  private bytes = 0;

  constructor(private readonly max: number) {}

  get full(): boolean {
    return this.bytes > this.max;
  }

  async *passing(source: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array> {
    for await (const piece of source) {
      if (!this.full) {
        this.kept.push(Buffer.from(piece));
        this.bytes += piece.byteLength;
      }
      yield piece;
    }
  }

  block(): HeaderBlock {
    return readHeaderBlock(Buffer.concat(this.kept), this.max);
  }
}

/** The reader's end of the wire: pieces are asked for one at a time, chunks sent one at a time. */
class ReaderWire {
  private awaited: ((message: ToReader) => void) | null = null;
  private awaitedMore: (() => void) | null = null;

  constructor(private readonly port: MessagePort) {
    port.on('message', (message: ToReader) => {
      if (message.kind === 'more') this.awaitedMore?.();
      else this.awaited?.(message);
    });
  }

  send(message: FromReader): void {
    this.port.postMessage(message);
  }

  sendChunk(chunk: Buffer): Promise<void> {
    return new Promise((resolve) => {
      this.awaitedMore = resolve;
      // A copy of its own: the chunk may be a view of a much larger buffer, which would travel whole.
      this.send({ kind: 'chunk', bytes: new Uint8Array(chunk) });
    });
  }

  async *pieces(enough: () => boolean = () => false): AsyncIterable<Uint8Array> {
    while (!enough()) {
      const message = await new Promise<ToReader>((resolve) => {
        this.awaited = resolve;
        this.send({ kind: 'next' });
      });
      if (message.kind !== 'piece') return;
      yield Buffer.from(message.bytes.buffer, message.bytes.byteOffset, message.bytes.byteLength);
    }
  }
}
