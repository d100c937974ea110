import type { Reader } from '../catalog/open-reader.ts';
import type { ParseContext } from '../catalog/query-ast.ts';
import { unknownText } from '../catalog/resolve-query.ts';
import type { CountRequest, HitCount, SearchHit } from '../catalog/search.ts';
import { type Snippet, type SoughtPhrase, snippet, soughtPhrases } from '../catalog/snippets.ts';
import { Semaphore } from '../core/concurrency.ts';
import { capitalise, hasCode } from '../core/errors.ts';
import type { MessageId } from '../core/types.ts';
import { isRichHtml } from '../mail/extraction.ts';
import { readFramedPage } from '../mail/reading.ts';
import { dayName } from './dashboard-data.ts';
import { downloadFormat, exportOffer } from './exporting.ts';
import {
  type FrameState,
  frameState,
  type HealthTab,
  healthTab,
  parseServiceCheckResult,
} from './health.ts';
import { type PastSum, ServiceSums } from './issues.ts';
import {
  countPosition,
  countRows,
  deadline,
  type ListPlace,
  type ListSort,
  listPlace,
  type MailCounts,
  type MailList,
  mailList,
  mailRows,
  type NoResults,
  type OtherQuery,
} from './mail-list.ts';
import {
  intactText,
  matchRanges,
  namedMessage,
  readConversation,
  readHops,
  readVerified,
  SourceFinder,
  type VerifiedRead,
} from './message-view.ts';
import {
  type Conversation,
  MAX_OF_THREAD,
  MAX_UNFOLDED,
  type MessagePlace,
  openedHit,
  VIEWS,
  type View,
  WINDOW_BYTES,
} from './pages/message-props.ts';
import type { Page } from './pages/page.ts';
import {
  asOfTermText,
  filterText,
  removeTerm,
  replaceTerm,
  type Term,
  termsOf,
  withAsOf,
} from './query-text.ts';
import { type ArchiveParts, type Parameter, wholeNumber } from './request-context.ts';
import { machineZone, type ReadingFor, type ServedReader, yieldBetween } from './served-archive.ts';
import { FolderTrees } from './side-tree.ts';
import { type ParsedQuery, parseQueryText, plainRequest, textPieces } from './understood-query.ts';

/** Maximum attachments per message whose text is searched. Each can have 256 Ki characters of text. */
const MAX_TEXTS = 16;
const COUNTING_MS = 150;

/**
 * Returns attachment data that the message itself does not contain. @param request null for an invalid query
 */
function attachmentNotes(
  { catalog }: Pick<Reader, 'catalog'>,
  docid: number,
  request: CountRequest | null,
) {
  const words = request === null ? [] : soughtPhrases(request.node, ['any']);
  let texts = 0;
  const hitIn = (textId: number | null): Snippet | null => {
    if (words.length === 0 || textId === null || texts >= MAX_TEXTS) return null;
    texts += 1;
    const known = intactText(catalog, textId);
    return known === undefined || known === 'damaged' ? null : (snippet(known.text, words) ?? null);
  };
  return catalog.snapshot(() =>
    catalog.files
      .ofMessage({ asOf: request?.asOf }, docid, deadline(COUNTING_MS))
      .map(({ number, hash, messages, textId }) => ({
        number,
        hash,
        messages,
        hit: hitIn(textId),
      })),
  );
}

const NEAR_COUNTING_MS = 25;

/** Maximum length of an address, in characters (RFC 5321, sections 4.5.3.1.1 and 4.5.3.1.2). */
const MAX_ADDRESS = 320;

function findRelated(
  reader: Pick<Reader, 'catalog'>,
  { line }: SearchHit,
  moment: number | null,
  context: ParseContext,
) {
  const { from, date } = line;
  const [place] = line.places;
  const queries: { label: string; query: string }[] = [];
  if (from !== null && from.address.length <= MAX_ADDRESS)
    queries.push({
      label: `All mail with ${from.name === '' ? from.address : from.name}`,
      query: `contact:<${from.address}>`,
    });
  if (date !== null)
    queries.push({ label: 'That day', query: `on:${dayName(Date.parse(date), context.timeZone)}` });
  if (place !== undefined)
    queries.push({
      label: place.folder,
      query: `${filterText('mailbox', place.mailbox)} ${filterText('in', place.folder)}`,
    });
  return queries.flatMap(({ label, query }) => {
    const parsed = plainRequest(query, context);
    if (parsed === null) return [];
    const request = { node: parsed.node, asOf: moment ?? undefined };
    const found = reader.catalog.prepare(request).countWhile(deadline(NEAR_COUNTING_MS));
    return [{ label, query: withAsOf(query, moment), found }];
  });
}

const TRYING_MS = 100;
const MAX_TERMS = 12;
/** Maximum letters to cut from the end of a word, enough for a plural or tense ending. */
const MAX_ENDING = 3;
/** Minimum letters in a prefix, because shorter ones match almost anything. */
const MIN_BEGINNING = 4;
const TEXTS: ReadonlySet<string | null> = new Set([null, 'subject', 'body', 'filename']);

type Attempt = (query: string) => HitCount | null;

/**
 * Suggests alternatives to a query without results: words are spelled differently, a term is removed, or a word becomes a
 * prefix. If removing any one of several terms helps, the query with the fewest results is closest to what was meant.
 */
function nothingFound(
  { catalog }: Pick<Reader, 'catalog'>,
  { query, request }: Pick<ReturnType<MailPages['asked']>, 'query' | 'request'>,
  understand: (query: string) => ParsedQuery,
): NoResults {
  const unknown = request === null ? [] : catalog.prepare(request).unknownNames();
  const notes = unknown.map((name) => `${capitalise(unknownText(name, name.found))}.`);
  const { terms, isEither } = termsOf(query);
  const spelling = request && catalog.respell(query, request, deadline(TRYING_MS));
  if (isEither) return { notes, without: null, beginning: null, spelling };
  const candidates = terms.filter(({ operator }) => operator !== 'asof').slice(0, MAX_TERMS);
  const mayContinue = deadline(TRYING_MS);
  const attempt: Attempt = (other) => {
    const parsed = mayContinue() ? understand(other).request : null;
    return parsed === null ? null : catalog.prepare(parsed).countWhile(mayContinue);
  };
  return {
    notes,
    spelling,
    beginning: tryPrefixes(query, candidates, attempt),
    without: candidates.length < 2 ? null : removeOneTerm(query, candidates, attempt),
  };
}

function removeOneTerm(query: string, terms: readonly Term[], attempt: Attempt): OtherQuery | null {
  let best: OtherQuery | null = null;
  for (const term of terms) {
    const shorter = removeTerm(query, term);
    const found = attempt(shorter);
    if (found === null || found.count === 0) continue;
    const isCloser =
      best === null || (found.complete && (!best.found.complete || found.count < best.found.count));
    if (isCloser) best = { term: term.text, query: shorter, found };
  }
  return best;
}

/** Searches for each word as a prefix, then for shorter and shorter prefixes. The longest prefix with results wins. */
function tryPrefixes(query: string, terms: readonly Term[], attempt: Attempt): OtherQuery | null {
  for (let cut = 0; cut <= MAX_ENDING; cut += 1)
    for (const term of terms) {
      const beginning = prefixTerm(term, cut);
      if (beginning === null) continue;
      const other = replaceTerm(query, term, beginning);
      const found = attempt(other);
      if (found !== null && found.count > 0) return { term: beginning, query: other, found };
    }
  return null;
}

/** Returns a term with its word shortened by `cut` letters and made a prefix; null if that is impossible. */
function prefixTerm({ negated, operator, value, text }: Term, cut: number): string | null {
  if (negated || value === null || !TEXTS.has(operator) || !text.endsWith(value)) return null;
  const letters = [...value];
  if (letters.length - cut < MIN_BEGINNING || !/^\p{L}+$/u.test(value)) return null;
  return `${text.slice(0, -value.length)}${letters.slice(0, letters.length - cut).join('')}*`;
}

const LEAD_BYTES = 4 * 1024;

/**
 * Reads part of a source as UTF-8, and the rest to check its hash. Positions and sizes are in bytes, except in `text`.
 *
 * @param hit the first match at or after this position is shown
 * @throws message-damaged, blob-damaged
 */
async function sourceWindow(
  reader: Pick<Reader, 'sources'>,
  id: MessageId,
  { from, find, hit }: { from: number; find: string; hit: number },
  signal: AbortSignal,
) {
  const pieces = () => yieldBetween(reader.sources().streamMessage(id), signal);
  const finder = new SourceFinder(find, hit);
  if (find !== '') for await (const piece of pieces()) finder.push(piece);
  const found = finder.found();
  const start = found.at === null ? from : Math.max(0, found.at - LEAD_BYTES);
  const shown: Buffer[] = [];
  let size = 0;
  for await (const piece of pieces()) {
    const [first, end] = [Math.max(0, start - size), start + WINDOW_BYTES - size];
    if (first < piece.length && end > 0) shown.push(Buffer.from(piece.subarray(first, end)));
    size += piece.length;
  }
  const bytes = Buffer.concat(shown);
  const text = bytes.toString('utf8');
  return {
    from: start,
    length: bytes.length,
    size,
    text,
    /** Results of searching the whole source, with the matches in `text`; null if there was no search. */
    find: find === '' ? null : { ...found, text: find, matches: matchRanges(text, find) },
    // Start of the current match in `text`, unless the source contains a partial character before it.
    current: found.at === null ? null : bytes.subarray(0, found.at - start).toString('utf8').length,
  };
}

const READINGS = 4;
const readings = new Semaphore(READINGS);
const AWAY = '/away?to=';
/** Reads messages for a page, each to the end to check its hash. */
export class MessageReading {
  readonly #phrases: readonly SoughtPhrase[];

  constructor(
    private readonly reader: ServedReader,
    private readonly how: ReadingFor,
    private readonly request: CountRequest | null,
  ) {
    this.#phrases = request === null ? [] : soughtPhrases(request.node);
  }

  /** The query; null if it has no words, because a term such as a folder would unfold a whole conversation. */
  get asked(): CountRequest | null {
    return this.#phrases.length === 0 ? null : this.request;
  }

  /** Reads a message for the requested view. A script sets `part` to load the conversation's other messages. */
  async message(
    id: MessageId,
    { all, found }: Conversation,
    asOf: number | null,
    parameter: Parameter,
  ) {
    const name = parameter('view');
    const chosen = VIEWS.find((known) => known === name);
    // The conversation shows the other messages, and what the query found.
    const mayShowHtml = all.length === 1 && this.asked === null && parameter('text') === undefined;
    const main = this.#read(id, chosen === undefined ? mayShowHtml && 'rich' : chosen === 'html');
    const isWhole = (chosen ?? 'thread') === 'thread' && parameter('part') === undefined;
    const others = isWhole
      ? found.slice(0, MAX_UNFOLDED).map((other) => this.#read(other, false))
      : [];
    const [read, ...unfolded] = await Promise.all([main, ...others]);
    const opensHtml = mayShowHtml && read.open.facts?.isRich === true;
    /** The view of the message's address without one. */
    const opensAs = opensHtml ? ('html' as const) : ('thread' as const);
    const view = chosen ?? opensAs;
    const content =
      view === 'thread'
        ? // The query also matches these, so they are unfolded as well.
          { view, others: unfolded.map(({ open }) => open) }
        : await this.#content(id, view, read, asOf, parameter);
    return { ...read.open, opensAs, content };
  }

  async #read(id: MessageId, countsRemote: boolean | 'rich') {
    const { reader } = this;
    const options = { ...this.how, countsRemote };
    const read = await readings.run(() => readVerified(reader, id, options), options.signal);
    const docid = reader.catalog.messages.docidOf(id);
    const open = {
      id,
      /** Null if the stored bytes are damaged. */
      facts: read.reading === null ? null : factsOf(read.reading),
      damage: read.damage,
      text: read.reading === null ? [] : textPieces(read.reading.text.trim(), this.#phrases),
      texts: docid === undefined ? [] : reader.catalog.attachments.ofMessage(docid),
      notes: docid === undefined ? [] : attachmentNotes(reader, docid, this.request),
      commit: reader.catalog.history(id)[0]?.commit ?? null,
      /** Last sighting in each folder that later lost the message. */
      lastSeen: reader.catalog.lastSeen(id),
    };
    return { ...read, open };
  }

  async #content(
    id: MessageId,
    view: Exclude<View, 'thread'>,
    { reading, damage }: VerifiedRead,
    asOf: number | null,
    parameter: Parameter,
  ) {
    const { reader, how } = this;
    switch (view) {
      case 'history':
        return { view, lines: reader.catalog.history(id), asOf };
      case 'headers': {
        const fields = reading?.headers ?? [];
        return { view, fields, hops: readHops(fields) };
      }
      case 'source': {
        const from = wholeNumber(parameter('from')) ?? 0;
        const hit = wholeNumber(parameter('hit')) ?? 0;
        const range = { from, find: parameter('find') ?? '', hit };
        if (damage !== null) return { view, window: null };
        const read = () => sourceWindow(reader, id, range, how.signal);
        return { view, window: await readings.run(read, how.signal) };
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

/** Returns facts about a message whose hash is correct. `onlyHtml` means that the text comes from the HTML. */
function factsOf(reading: NonNullable<VerifiedRead['reading']>) {
  const { from, to, cc, bcc, reason, encrypted, truncated, attachments, html, hasPlain } = reading;
  const hasHtml = html !== null;
  const onlyHtml = hasHtml && !hasPlain;
  const isRich = hasHtml && isRichHtml(html);
  const about = { from, to, cc, bcc, reason, encrypted, truncated, attachments };
  return { ...about, hasHtml, onlyHtml, isRich };
}

/** Returns a message's HTML as a page for a frame; null if it has no HTML or exceeds the limits. */
export async function framedOrNull(reader: ServedReader, id: MessageId, options: ReadingFor) {
  try {
    return await readings.run(
      () => readFramedPage(reader.sources().streamMessage(id), AWAY, options),
      options.signal,
    );
  } catch (error) {
    if (hasCode(error, 'mail-unreadable')) return null;
    throw error;
  }
}

const STATE_MS = 5_000;

export interface QueryAnswer {
  readonly page: Page;
  readonly status: 200 | 400 | 404 | 410;
}

export class MailPages {
  readonly #trees = new FolderTrees();
  readonly #sums = new ServiceSums();
  #cached: { readonly version: number; readonly of: FrameState } | undefined;

  constructor(
    private readonly parts: Pick<ArchiveParts, 'archive' | 'accounts' | 'policy' | 'now'>,
  ) {}

  async mail(reader: ServedReader, parameter: Parameter, signal: AbortSignal) {
    // A user who lists messages will probably open one soon.
    this.parts.archive.spare.prepare();
    const asked = this.asked(reader, parameter);
    const sort = sortOf(parameter);
    const place = listPlace(reader, parameter, sort);
    const listed = asked.request && mailList(reader, asked.request, sort, place, parameter('m'));
    /** Null for an invalid query. */
    const list: MailList | null =
      listed?.all?.count === 0 ? { ...listed, nothing: this.#suggest(reader, asked) } : listed;
    const around = {
      kind: 'mail' as const,
      frame: this.frame(reader, asked),
      list,
      sort,
      /** Last message of the previous page, as given in the address. */
      after: afterOf(place, parameter),
      pending: reader.catalog.index.pendingCount(),
    };
    // Last, since other requests run while a message is read.
    const found = await this.message(reader, parameter, 'mail', signal, asked);
    const message = found.kind === 'message' ? found : null;
    return { page: { ...around, message }, status: statusOf(asked.problem) };
  }

  rows(reader: ServedReader, parameter: Parameter, limit: number) {
    const { request, problem } = this.asked(reader, parameter);
    if (request === null) return { problem };
    const sort = sortOf(parameter);
    const place = listPlace(reader, parameter, sort);
    return { ...mailRows(reader, request, sort, place, limit), problem };
  }

  position(reader: ServedReader, parameter: Parameter) {
    const { request } = this.asked(reader, parameter);
    const sort = sortOf(parameter);
    const place = listPlace(reader, (name) => (name === 'at' ? parameter(name) : undefined), sort);
    return request && place ? countPosition(reader, request, sort, place) : null;
  }

  counts(reader: ServedReader, parameter: Parameter): MailCounts | null {
    const asked = this.asked(reader, parameter);
    const { request } = asked;
    if (request === null) return null;
    return reader.catalog.snapshot(() => {
      const counts = countRows(reader, request);
      const isNothing = counts.all?.count === 0 && counts.all.complete;
      return isNothing ? { ...counts, nothing: this.#suggest(reader, asked) } : counts;
    });
  }

  past(reader: ServedReader, asOf: number, parameter: Parameter): PastSum {
    return this.#sums.past(reader, asOf, this.#context(parameter));
  }

  knownCount(reader: ServedReader, query: string): number | null {
    return this.#trees.known(reader, query);
  }

  async alone(reader: ServedReader, typed: string, parameter: Parameter, signal: AbortSignal) {
    const asked = this.asked(reader, parameter);
    const frame = this.frame(reader, asked);
    const own: Parameter = (name) => (name === 'm' ? typed : parameter(name));
    const found = await this.message(reader, own, 'message', signal, asked);
    const page =
      found.kind === 'message'
        ? ({ kind: 'message', frame, message: found } as const)
        : ({ kind: 'no-message', frame, found } as const);
    return { page, status: STATUS[found.kind] };
  }

  /**
   * @param token form token for requesting a check for new mail; the form is shown only to users who may use it
   * @param hasDaemon whether a daemon is running for the archive; null in a limited view
   */
  health(
    reader: ServedReader,
    tab: HealthTab,
    parameter: Parameter,
    { token, hasDaemon }: { token: string; hasDaemon: boolean | null },
  ) {
    const { known, ...content } = healthTab(reader, this.parts, tab, parameter);
    const context = this.#context(parameter);
    const frame = this.frame(reader, { query: '', asOf: null, problem: null, context }, known);
    // If a daemon cannot be detected, as in a fleet, the page neither mentions one nor offers to check for mail.
    const mayLook = content.whole && hasDaemon !== null;
    const look = mayLook ? { token, said: parseServiceCheckResult(parameter('look')) } : null;
    const page = { kind: 'health' as const, frame, look, hasDaemon, ...content };
    return { page, status: 200 as const };
  }

  export(reader: ServedReader, parameter: Parameter) {
    const asked = this.asked(reader, parameter);
    const { request, problem } = asked;
    const page = {
      kind: 'export' as const,
      frame: this.frame(reader, asked),
      /** Null for an invalid query. */
      offer: request && exportOffer(reader, request),
      format: downloadFormat(parameter('format')) ?? ('zip' as const),
      /** Code of the last refusal; null if there was none. */
      refused: problem === null ? (parameter('refused') ?? null) : null,
    };
    return { page, status: statusOf(asked.problem) };
  }

  frame(
    reader: ServedReader,
    { query, asOf, problem, context }: Omit<ReturnType<MailPages['asked']>, 'request'>,
    known = this.#stateOf(reader),
  ) {
    const { state, issues, tags } = known;
    return {
      /** The query exactly as typed. */
      query,
      problem,
      tree: this.#trees.of(reader, asOf === null ? '' : asOfTextIn(query, asOf), context, tags),
      consistency: this.#sums.of(reader),
      /** Totals at the moment of `asof:`; null for now. */
      past: asOf === null ? null : this.#sums.past(reader, asOf, context),
      issues,
      state,
      /** IANA name of the zone in which dates in the query are read. */
      zone: context.timeZone ?? machineZone(),
    };
  }

  async message(
    reader: ServedReader,
    parameter: Parameter,
    page: MessagePlace['page'],
    signal: AbortSignal,
    { query, asOf, request, context } = this.asked(reader, parameter),
  ) {
    const match = namedMessage(reader, parameter('m') ?? '');
    if (match.kind === 'several') {
      const subjectOf = (id: MessageId) =>
        reader.catalog.messages.summary(id)?.subject ?? '(no subject)';
      const links = match.ids.map((id) => ({ id, subject: subjectOf(id) }));
      return { kind: 'several' as const, links };
    }
    if (match.kind !== 'one') return match;
    const { id } = match;
    const { now, archive } = this.parts;
    const reading = new MessageReading(reader, { spare: archive.spare, signal }, request);
    const conversation = readConversation(reader, id, asOf, now(), reading.asked, MAX_OF_THREAD);
    if (conversation === null) return { kind: 'not-then' as const };
    const sort = sortOf(parameter);
    const after =
      page === 'mail' ? afterOf(listPlace(reader, parameter, sort), parameter) : undefined;
    const place: MessagePlace = { page, query, sort: sort === 'newest' ? undefined : sort, after };
    return {
      kind: 'message' as const,
      place,
      conversation,
      ...(await reading.message(id, conversation, asOf, parameter)),
      /** Empty unless the message is shown at full width. */
      near: page === 'message' ? findRelated(reader, openedHit(conversation), asOf, context) : [],
      dataDir: reader.dataDir,
    };
  }

  #suggest(reader: ServedReader, asked: ReturnType<MailPages['asked']>): NoResults {
    const { context } = asked;
    return nothingFound(reader, asked, (text) => this.#understand(reader, text, context));
  }

  asked(reader: ServedReader, parameter: Parameter) {
    const query = parameter('q') ?? '';
    const context = this.#context(parameter);
    return { query, context, ...this.#understand(reader, query, context) };
  }

  #context(parameter: Parameter): ParseContext {
    return { now: this.parts.now(), timeZone: parameter('zone') };
  }

  #understand(reader: ServedReader, query: string, context: ParseContext): ParsedQuery {
    return parseQueryText(query, reader, context, this.parts.accounts);
  }

  /** Caches the state shown on every page, which takes several queries per folder to compute. */
  #stateOf(reader: ServedReader): FrameState {
    const version = reader.catalog.version();
    const at = this.parts.now();
    const cached = this.#cached;
    if (cached?.version === version && at - cached.of.state.now < STATE_MS) return cached.of;
    const of = frameState(reader, at);
    this.#cached = { version, of };
    return of;
  }
}

/** Returns a query's moment as typed, or in query syntax if it comes from a saved search. */
function asOfTextIn(query: string, moment: number): string {
  return asOfTermText(query) || withAsOf('', moment);
}

const STATUS = { message: 200, none: 404, 'not-then': 404, several: 200, purged: 410 } as const;

/** Returns the HTTP status of a page with the results of a query. */
export function statusOf(problem: ParsedQuery['problem']): QueryAnswer['status'] {
  return problem === null ? 200 : 400;
}

function sortOf(parameter: Parameter): ListSort {
  return parameter('sort') === 'oldest' ? 'oldest' : 'newest';
}

function afterOf(place: ListPlace | undefined, parameter: Parameter): string | undefined {
  return place?.side === 'after' ? parameter('after')?.slice(0, 16) : undefined;
}
