import { workerData } from 'node:worker_threads';
import {
  catchStrayErrors,
  needsReplacement,
  openThreadPort,
  PieceIntake,
} from '../core/in-thread.ts';
import { bodyText, hasPlainBody, htmlBodies } from './body-text.ts';
import { isContainer, isEncrypted } from './containers.ts';
import { attachmentOf, extractHeaders, extractMessage, leavesIn } from './extract-message.ts';
import {
  type Extraction,
  emptyExtraction,
  type IndexEntry,
  indexEntry,
  isRichHtml,
  keepHead,
  type MessageReading,
  type MimeLimits,
  type UnparsedReason,
} from './extraction.ts';
import {
  fieldText,
  type HeaderBlock,
  headerCharset,
  readHeaderBlock,
  readHeaderFacts,
} from './headers.ts';
import {
  collectText,
  isListed,
  type Leaf,
  type LeafContent,
  type LeafHandler,
  type ParsedTree,
  parseTree,
} from './part-tree.ts';
import type {
  ExtractWorkerData,
  FromReader,
  GroupedJob,
  GroupResults,
  JobGroup,
  ReadTask,
  ReadWorkerData,
  ToReader,
} from './reading.ts';

/** Extracts groups of jobs one message at a time, recording the current message in `current`. */
function serveExtraction(data: ExtractWorkerData): void {
  const current = new Int32Array(data.current);
  const withStrayErrors = catchStrayErrors();
  let previous: Promise<void> = Promise.resolve();
  const port = openThreadPort<JobGroup, GroupResults>((group) => {
    previous = previous.then(async () => {
      const results: { seq: number; entry: IndexEntry }[] = [];
      for (const job of group.jobs) {
        Atomics.store(current, 0, job.seq);
        const extraction = await extractJob(group, job, data.limits, withStrayErrors);
        results.push({ seq: job.seq, entry: indexEntry(extraction) });
      }
      Atomics.store(current, 0, 0);
      const worn = needsReplacement(data.limits.wornBytes);
      port.send({ results, worn });
    });
    // Without memory for the results, the thread ends, and the host repeats its jobs in another.
    previous.catch(() => process.exit(1));
  });
}

async function extractJob(
  group: JobGroup,
  job: GroupedJob,
  limits: MimeLimits,
  withStrayErrors: ReturnType<typeof catchStrayErrors>,
): Promise<Extraction> {
  const source = Buffer.from(group.buffer, job.offset, job.length);
  let reason = job.unparsed;
  if (reason === null) {
    try {
      return await withStrayErrors(() => extractMessage(source, job.cut, limits));
    } catch {
      // The parser's error would mean nothing to users.
      reason = 'malformed';
    }
  }
  try {
    return extractHeaders(source, job.cut, reason, limits);
  } catch {
    return emptyExtraction(reason);
  }
}

/** Reads messages in sequence. The host sends the next task after the last answer to the one before. */
class ReaderWire {
  readonly #intake = new PieceIntake(() => this.send({ kind: 'next' }));
  readonly #port = openThreadPort<ToReader, FromReader>((message) => {
    if (message.kind === 'more') this.#awaitedMore?.();
    // An error ends the thread.
    else if (message.kind === 'want') void serve(this, message.want, this.limits);
    else this.#intake.take(message);
  });
  #awaitedMore: (() => void) | null = null;
  #sending: Promise<void> = Promise.resolve();

  constructor(private readonly limits: MimeLimits) {}

  send(message: FromReader): void {
    this.#port.send(message);
  }

  /** Resolves when the host requests more. Chunks of different attachments wait for one another. */
  sendChunk(number: number, chunk: Buffer): Promise<void> {
    // Copy the chunk: it may be a view of a large buffer, all of which would be transferred.
    const bytes = new Uint8Array(chunk);
    const sending = this.#sending.then(
      () =>
        new Promise<void>((resolve) => {
          this.#awaitedMore = resolve;
          this.send({ kind: 'chunk', number, bytes });
        }),
    );
    this.#sending = sending;
    return sending;
  }

  pieces(): AsyncIterable<Uint8Array> {
    return this.#intake.pieces();
  }
}

async function serve(wire: ReaderWire, task: ReadTask, limits: MimeLimits): Promise<void> {
  if (task.kind === 'attachments') {
    await sendAttachments(wire, limits);
  } else if (task.kind === 'page') {
    const { safePage } = await import('./safe-page.ts');
    wire.send({ kind: 'page', ...(await safePage(wire.pieces(), limits, task.links)) });
  } else {
    const head: Uint8Array[] = [];
    // One byte more shows that the header continues.
    const source = keepHead(wire.pieces(), head, limits.headerBytes + 1);
    const block = () => readHeaderBlock(Buffer.concat(head), limits.headerBytes);
    let message: MessageReading;
    if (task.kind === 'message') {
      const tree = await parseTree(source, collectText(limits), limits);
      message = toReading(block(), tree, tree.breach, limits);
      const { countsRemote } = task;
      const isLeftOut = countsRemote === 'rich' && !isRichHtml(message.html ?? '');
      if (countsRemote && message.html !== null && !isLeftOut) {
        const { countRemoteImages: remotePictures } = await import('./safe-page.ts');
        message = { ...message, remote: remotePictures(message.html) };
      }
    } else {
      for await (const _ of source);
      message = toReading(block(), null, task.reason, limits);
    }
    wire.send({ kind: 'message', message });
  }
}

function toReading(
  block: HeaderBlock,
  tree: ParsedTree<LeafContent> | null,
  reason: UnparsedReason | null,
  limits: MimeLimits,
): MessageReading {
  const { subject, from, to, cc, bcc, messageId } = readHeaderFacts(block.fields, limits);
  const hint = headerCharset(block.fields);
  const root = tree?.root ?? null;
  const body = root === null ? { text: '', cut: false } : bodyText(root, 'full', limits);
  const leaves = leavesIn(root);
  const html = htmlBodies(leaves, limits.textPartBytes);
  return {
    reason,
    headers: block.fields.map(({ label, value }) => ({
      name: label,
      value: fieldText(value, limits.fieldChars, hint),
    })),
    ...{ subject, from, to, cc, bcc, messageId },
    encrypted: detectEncryption(leaves, body.text),
    text: body.text,
    html: html.length === 0 ? null : html.join('\n'),
    remote: null,
    hasPlain: hasPlainBody(leaves),
    attachments: leaves
      .filter(({ info }) => isListed(info))
      .map((leaf, i) => attachmentOf(leaf, i + 1)),
    truncated: block.cut || body.cut,
  };
}

function detectEncryption(
  leaves: readonly Leaf<LeafContent>[],
  text: string,
): MessageReading['encrypted'] {
  const isPgp = leaves.some(({ info }) => info.contentType === 'application/pgp-encrypted');
  if (isPgp || /^-----BEGIN PGP MESSAGE-----/m.test(text)) return 'OpenPGP';
  const isCms = leaves.some(({ info, content }) => isContainer(info) && isEncrypted(content.head));
  return isCms ? 'S/MIME' : null;
}

async function sendAttachments(wire: ReaderWire, limits: MimeLimits): Promise<void> {
  let count = 0;
  /** Number of the last leaf if it is an attachment. A limit may have truncated it. */
  let last: number | null = null;
  const ended = new Set<number>();
  const completeAll = (): void => {
    for (const number of ended) {
      if (number === last) continue;
      ended.delete(number);
      wire.send({ kind: 'complete', number });
    }
  };
  const take: LeafHandler<{ size: number }> = (info) => {
    const content = { size: 0 };
    last = null;
    if (!isListed(info)) return { content, sink: () => undefined };
    const number = ++count;
    last = number;
    const attachment = attachmentOf({ kind: 'leaf', info, content }, number);
    wire.send({ kind: 'attachment', attachment });
    return {
      content,
      sink: (chunk) => wire.sendChunk(number, chunk),
      ended: () => {
        ended.add(number);
        completeAll();
      },
    };
  };
  const { breach } = await parseTree(wire.pieces(), take, limits);
  if (breach === null) last = null;
  completeAll();
  wire.send({ kind: 'finished', breach });
}

/** The mime worker thread, started by mime-threads.ts. */
const data: ExtractWorkerData | ReadWorkerData = workerData;
if (data.mode === 'extract') serveExtraction(data);
else new ReaderWire(data.limits);
