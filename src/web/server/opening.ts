import type { CountRequest } from '../../catalog/search/search.ts';
import { hasCode } from '../../errors/mailkeep-error.ts';
import type { MessageId } from '../../mail/words.ts';
import { readFramedPage } from '../../mime/reading.ts';
import { type Sought, soughtWords } from '../../search/word-matches.ts';
import {
  type MessageFacts,
  MOST_UNFOLDED,
  type OpenMessage,
  VIEWS,
  type View,
  type ViewContent,
} from '../pages/message-props.ts';
import { attachmentNotes } from '../reading/attachment-notes.ts';
import type { Conversation } from '../reading/message-shapes.ts';
import { type ReadBack, readBack } from '../reading/message-view.ts';
import type { ReadingFor } from '../reading/reading-for.ts';
import { hopsOf } from '../reading/received-hops.ts';
import type { ServedReader } from '../reading/served-archive.ts';
import { sourceWindow } from '../reading/source-window.ts';
import { textPieces } from '../reading/text-pieces.ts';
import { Turns } from '../reading/turns.ts';
import type { Parameter } from './request-context.ts';

/** Messages that are parsed at a time, each in a thread of its own. */
const READINGS = 4;
const readings = new Turns(READINGS);
/** Where the links of framed mail lead first. */
const AWAY = '/away?to=';
/** Reads messages for a page: each to its last byte, so that their hashes are compared. */
export class Opening {
  readonly #sought: readonly Sought[];

  constructor(
    private readonly reader: ServedReader,
    private readonly how: ReadingFor,
    private readonly request: CountRequest | null,
  ) {
    this.#sought = request === null ? [] : soughtWords(request.node);
  }

  /** The query, if it has words: only what they find is unfolded, since a folder or a date finds all of a conversation. */
  get asked(): CountRequest | null {
    return this.#sought.length === 0 ? null : this.request;
  }

  /** Reads a message for the view that is asked for. With `part`, a script unfolds the others of its conversation by itself. */
  async message(
    id: MessageId,
    { found }: Conversation,
    asOf: number | null,
    parameter: Parameter,
  ): Promise<OpenMessage & { readonly content: ViewContent }> {
    const asked = parameter('view');
    const view = VIEWS.find((known) => known === asked) ?? 'thread';
    const own = this.#read(id, view === 'html');
    const isWhole = view === 'thread' && parameter('part') === undefined;
    const others = isWhole
      ? found.slice(0, MOST_UNFOLDED).map((other) => this.#read(other, false))
      : [];
    const [read, ...unfolded] = await Promise.all([own, ...others]);
    const content =
      view === 'thread'
        ? { view, others: unfolded.map(({ open }) => open) }
        : await this.#content(id, view, read, asOf, parameter);
    return { ...read.open, content };
  }

  async #read(
    id: MessageId,
    countsRemote: boolean,
  ): Promise<ReadBack & { readonly open: OpenMessage }> {
    const { reader } = this;
    const how = { ...this.how, countsRemote };
    const read = await readings.take(() => readBack(reader, id, how), how.signal);
    const docid = reader.catalog.messages.docidOf(id);
    const open = {
      id,
      facts: read.reading === null ? null : factsOf(read.reading),
      damage: read.damage,
      text: read.reading === null ? [] : textPieces(read.reading.text.trim(), this.#sought),
      texts: docid === undefined ? [] : reader.catalog.attachments.ofMessage(docid),
      notes: docid === undefined ? [] : attachmentNotes(reader, docid, this.request),
      commit: reader.catalog.history(id)[0]?.commit ?? null,
      lastSeen: reader.catalog.lastSeen(id),
    };
    return { ...read, open };
  }

  async #content(
    id: MessageId,
    view: Exclude<View, 'thread'>,
    { reading, damage }: ReadBack,
    asOf: number | null,
    parameter: Parameter,
  ): Promise<ViewContent> {
    const { reader, how } = this;
    switch (view) {
      case 'history':
        return { view, lines: reader.catalog.history(id), asOf };
      case 'headers': {
        const fields = reading?.headers ?? [];
        return { view, fields, hops: hopsOf(fields) };
      }
      case 'source': {
        const from = byteOf(parameter('from'));
        const asked = { from, find: parameter('find') ?? '', hit: byteOf(parameter('hit')) };
        if (damage !== null) return { view, window: null };
        const read = () => sourceWindow(reader, id, asked, how.signal);
        return { view, window: await readings.take(read, how.signal) };
      }
      case 'html': {
        const remote = reading?.remote ?? null;
        return { view, remote, isReadable: remote !== null };
      }
      case 'plain':
        return { view };
    }
  }
}

function byteOf(typed: string | undefined): number {
  const byte = Number(typed ?? '0');
  return Number.isSafeInteger(byte) && byte >= 0 ? byte : 0;
}

function factsOf(reading: NonNullable<ReadBack['reading']>): MessageFacts {
  const { from, to, cc, bcc, reason, encrypted, truncated, attachments, html, hasPlain } = reading;
  const hasHtml = html !== null;
  const onlyHtml = hasHtml && !hasPlain;
  return { from, to, cc, bcc, reason, encrypted, truncated, attachments, hasHtml, onlyHtml };
}

/**
 * The HTML of a message as a page that is framed.
 *
 * @returns null where it has none, or none that can be read within the limits
 */
export async function framedOrNull(reader: ServedReader, id: MessageId, how: ReadingFor) {
  try {
    return await readings.take(
      () => readFramedPage(reader.sources().streamMessage(id), AWAY, how),
      how.signal,
    );
  } catch (error) {
    if (hasCode(error, 'mail-unreadable')) return null;
    throw error;
  }
}
