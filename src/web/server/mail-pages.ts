import type { MessageId } from '../../mail/words.ts';
import {
  type MessageContent,
  type MessagePlace,
  MOST_OF_THREAD,
  type NoMessage,
  ownHit,
} from '../pages/message-props.ts';
import type { Frame, Page } from '../pages/page.ts';
import { ClosingSums, type PastSum } from '../reading/closing-sum.ts';
import { downloadFormat, exportOffer } from '../reading/export-offer.ts';
import { type HealthTab, lookAnswer } from '../reading/health/health-content.ts';
import { type ListPlace, type ListSort, listPlace } from '../reading/list-place.ts';
import {
  countsOf,
  type MailCounts,
  mailList,
  mailRows,
  type NothingFound,
  positionIn,
} from '../reading/mail-list.ts';
import { conversationOf, namedMessage } from '../reading/message-view.ts';
import { nearTo } from '../reading/near.ts';
import { nothingFound } from '../reading/nothing-found.ts';
import { asOf, asOfWord } from '../reading/query-text.ts';
import type { ServedReader } from '../reading/served-archive.ts';
import { SideTrees } from '../reading/side-tree.ts';
import {
  type QueryProblem,
  type Understood,
  understandQuery,
} from '../reading/understood-query.ts';
import { type FrameState, frameState, healthTab } from './health-pages.ts';
import { Opening } from './opening.ts';
import type { ArchiveParts, Parameter } from './request-context.ts';

/** How old what a page says of the archive's state may be, in milliseconds. */
const STATE_MS = 5_000;

/** A page, and the status of the answer that carries it. */
export interface Answered {
  readonly page: Page;
  readonly status: 200 | 400 | 404 | 410;
}

/** Rows of a list, or why its query has none. */
export type Rows =
  | (ReturnType<typeof mailRows> & { readonly problem: null })
  | { readonly problem: QueryProblem };

/** Makes the pages of the archive from what it holds at the time of a request. */
export class MailPages {
  readonly #trees = new SideTrees();
  readonly #sums = new ClosingSums();
  #known: { readonly version: number; readonly of: FrameState } | undefined;

  constructor(
    private readonly parts: Pick<ArchiveParts, 'archive' | 'accounts' | 'policy' | 'now'>,
  ) {}

  async mail(reader: ServedReader, parameter: Parameter, signal: AbortSignal): Promise<Answered> {
    // Whoever lists messages is about to open one.
    this.parts.archive.spare.prepare();
    const query = parameter('q') ?? '';
    const sort = sortOf(parameter);
    const understood = this.understand(reader, query);
    const place = listPlace(reader, parameter, sort);
    const found =
      understood.request === null ? null : mailList(reader, understood.request, sort, place);
    const list =
      found?.all?.count === 0 ? { ...found, nothing: this.#nothing(reader, query) } : found;
    const around = {
      kind: 'mail',
      frame: this.frame(reader, query, understood),
      list,
      sort,
      after: afterOf(place, parameter),
      pending: reader.catalog.index.pendingCount(),
    } as const;
    // Last, since others have their turns while a message is read.
    const message = await this.message(reader, parameter, 'mail', signal);
    const page: Page = { ...around, message: message.kind === 'message' ? message : null };
    return { page, status: understood.problem === null ? 200 : 400 };
  }

  /** Reads a page of rows only: for a list that moves, or a query that is being typed. */
  rows(reader: ServedReader, parameter: Parameter, limit: number): Rows {
    const { request, problem } = this.understand(reader, parameter('q') ?? '');
    if (request === null) return { problem };
    const sort = sortOf(parameter);
    const place = listPlace(reader, parameter, sort);
    return { ...mailRows(reader, request, sort, place, limit), problem: null };
  }

  /** Where in the list the row is that `at` names, or would be. */
  position(reader: ServedReader, parameter: Parameter): ReturnType<typeof positionIn> | null {
    const { request } = this.understand(reader, parameter('q') ?? '');
    const sort = sortOf(parameter);
    const named: Parameter = (name) => (name === 'at' ? parameter(name) : undefined);
    const place = listPlace(reader, named, sort);
    return request === null || place === undefined
      ? null
      : positionIn(reader, request, sort, place);
  }

  /** Counts what a query finds, as far as there is time. */
  counts(reader: ServedReader, parameter: Parameter): MailCounts | null {
    const query = parameter('q') ?? '';
    const { request } = this.understand(reader, query);
    if (request === null) return null;
    return reader.catalog.snapshot(() => {
      const counts = countsOf(reader, request);
      const isNothing = counts.all?.count === 0 && counts.all.complete;
      return isNothing ? { ...counts, nothing: this.#nothing(reader, query) } : counts;
    });
  }

  /** What the archive knew at a time. */
  past(reader: ServedReader, asOf: number): PastSum {
    return this.#sums.past(reader, asOf, this.parts.now());
  }

  /** How many messages a query finds, where the side tree has counted them already. */
  knownCount(query: string): number | null {
    return this.#trees.known(query);
  }

  async alone(
    reader: ServedReader,
    typed: string,
    parameter: Parameter,
    signal: AbortSignal,
  ): Promise<Answered> {
    const query = parameter('q') ?? '';
    const frame = this.frame(reader, query, this.understand(reader, query));
    const asked: Parameter = (name) => (name === 'm' ? typed : parameter(name));
    const message = await this.message(reader, asked, 'message', signal);
    return message.kind === 'message'
      ? { page: { kind: 'message', frame, message }, status: 200 }
      : { page: { kind: 'no-message', frame, found: message }, status: STATUS[message.kind] };
  }

  /** @param token of the form that has the daemon look; it is not shown to who may not ask for that */
  health(
    reader: ServedReader,
    tab: HealthTab,
    parameter: Parameter,
    { token, hasDaemon }: { readonly token: string; readonly hasDaemon: boolean | null },
  ): Answered {
    const { known, ...content } = healthTab(reader, this.parts, tab, parameter);
    const frame = this.frame(reader, '', { asOf: null, problem: null }, known);
    // Where nobody knows of a daemon, such as in a fleet, nothing is said of it or asked of it.
    const mayLook = content.whole && hasDaemon !== null;
    const look = mayLook ? { token, said: lookAnswer(parameter('look')) } : null;
    return { page: { kind: 'health', frame, look, hasDaemon, ...content }, status: 200 };
  }

  /** What a query finds, as something to save. */
  export(reader: ServedReader, parameter: Parameter): Answered {
    const query = parameter('q') ?? '';
    const understood = this.understand(reader, query);
    const { request, problem } = understood;
    const page: Page = {
      kind: 'export',
      frame: this.frame(reader, query, understood),
      offer: request === null ? null : exportOffer(reader, request),
      format: downloadFormat(parameter('format')) ?? 'zip',
      refused: problem === null ? (parameter('refused') ?? null) : null,
    };
    return { page, status: problem === null ? 200 : 400 };
  }

  /** What stands around every page. */
  frame(
    reader: ServedReader,
    query: string,
    { asOf, problem }: Pick<Understood, 'asOf' | 'problem'>,
    known = this.#stateOf(reader),
  ): Frame {
    const { now } = this.parts;
    const { state, matters, tags } = known;
    return {
      query,
      problem,
      tree: this.#trees.of(reader, asOf === null ? '' : asOfTextIn(query, asOf), now(), tags),
      closing: this.#sums.of(reader),
      past: asOf === null ? null : this.#sums.past(reader, asOf, now()),
      matters,
      state,
    };
  }

  /** The frame of a page by its query alone: what a list does not need with every key. */
  frameOf(reader: ServedReader, parameter: Parameter): Frame {
    const query = parameter('q') ?? '';
    return this.frame(reader, query, this.understand(reader, query));
  }

  /** The message that `m` names, in the view that is asked for. */
  async message(
    reader: ServedReader,
    parameter: Parameter,
    page: MessagePlace['page'],
    signal: AbortSignal,
  ): Promise<MessageContent | NoMessage> {
    const named = namedMessage(reader, parameter('m') ?? '');
    if (named.kind === 'several') {
      const subjectOf = (id: MessageId) =>
        reader.catalog.messages.summary(id)?.subject ?? '(no subject)';
      return { kind: 'several', links: named.ids.map((id) => ({ id, subject: subjectOf(id) })) };
    }
    if (named.kind !== 'one') return named;
    const { id } = named;
    const query = parameter('q') ?? '';
    const { asOf, request } = this.understand(reader, query);
    const { now, archive } = this.parts;
    const opening = new Opening(reader, { spare: archive.spare, signal }, request);
    const conversation = conversationOf(reader, id, asOf, now(), opening.asked, MOST_OF_THREAD);
    if (conversation === null) return { kind: 'not-then' };
    return {
      kind: 'message',
      place: {
        page,
        query,
        sort: sortOf(parameter) === 'newest' ? undefined : 'oldest',
        after:
          page === 'mail'
            ? afterOf(listPlace(reader, parameter, sortOf(parameter)), parameter)
            : undefined,
      },
      conversation,
      ...(await opening.message(id, conversation, asOf, parameter)),
      near: page === 'message' ? nearTo(reader, ownHit(conversation), asOf, now()) : [],
      dataDir: reader.dataDir,
    };
  }

  #nothing(reader: ServedReader, query: string): NothingFound {
    return nothingFound(reader, query, (text) => this.understand(reader, text));
  }

  /** Understands what stands in the query box of a reader. */
  understand(reader: ServedReader, query: string): Understood {
    return understandQuery(query, reader, this.parts.now(), this.parts.accounts);
  }

  /** How the archive is, for every page: it costs some queries a folder. */
  #stateOf(reader: ServedReader): FrameState {
    const version = reader.catalog.version();
    const at = this.parts.now();
    const known = this.#known;
    if (known?.version === version && at - known.of.state.now < STATE_MS) return known.of;
    const of = frameState(reader, at);
    this.#known = { version, of };
    return of;
  }
}

/** The moment of a query as it was typed; where a saved search names it, as a query has it. */
function asOfTextIn(query: string, moment: number): string {
  return asOfWord(query) || asOf('', moment);
}

const STATUS = { none: 404, 'not-then': 404, several: 200, purged: 410 } as const;

function sortOf(parameter: Parameter): ListSort {
  return parameter('sort') === 'oldest' ? 'oldest' : 'newest';
}

/** What `after` says, as it stands in addresses. */
function afterOf(place: ListPlace | undefined, parameter: Parameter): string | undefined {
  return place?.side === 'after' ? parameter('after')?.slice(0, 16) : undefined;
}
