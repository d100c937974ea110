import type { SegmentStore } from '../archive/read/segment-store.ts';
import type { KnownMailbox } from '../catalog/folders.ts';
import { MailkeepError } from '../errors/mailkeep-error.ts';
import { isForeign } from '../listener/admission.ts';
import { bodyTooLarge, parseJsonBody } from '../mailbox-surface/json-body.ts';
import { envelope, Refusal, unauthorized } from '../mailbox-surface/refusal.ts';
import { RouteTable, routePath } from '../mailbox-surface/route.ts';
import type { ApiToken } from '../state/values.ts';
import { MAILBOX_OPERATIONS } from '../wire/mailbox-operations.ts';
import type { QuotaRecord } from '../wire/mailbox-records.ts';
import type { Operation } from '../wire/operation.ts';
import { ContentThreads } from './content-threads.ts';
import { MirrorView, type OpenArchive } from './mirror-view.ts';
import { type MirroredMailbox, mirroredMailboxes } from './mirrored-mailboxes.ts';
import { momentOf } from './moment.ts';
import { READING } from './operations.ts';
import { responseOf, sending } from './responses.ts';
import { TokenTurns } from './token-turns.ts';

/** Bytes of a request's body: criteria of a search. */
const MOST_BODY_BYTES = 1 << 20;
/** Stands for the order whose mailboxes these are: the archive knows of none. */
const ORDER = 'mirror';
/** A search ends by itself before, unless one message takes too long; in milliseconds. */
const SEARCHING_MS = 65_000;
/** One message may take this long to be rendered or taken apart, in milliseconds. */
const RENDERING_MS = 20_000;
/** Searches of different tokens that are done at once. */
const SEARCHES = 2;

const ROUTES = new RouteTable(
  Object.values(MAILBOX_OPERATIONS).map((operation) => ({
    method: operation.method,
    path: routePath(operation.path),
    operation,
  })),
);

export interface MirrorOptions {
  readonly dataDir: string;
  /** Where segments are that are not in the folder; without it, all are. */
  readonly segments?: SegmentStore | undefined;
  /** Opens the archive for one request; it stays open until it is released. */
  readonly hold: () => {
    readonly archive: OpenArchive & { readonly key: object };
    readonly release: () => void;
  };
  /** Returns the token of a secret. */
  readonly authorize: (secret: string) => ApiToken | undefined;
  /** Returns the key of a mailbox, as tokens name it. */
  readonly keyOf: (mailbox: KnownMailbox) => string;
  readonly quotaOf: (mailbox: MirroredMailbox) => QuotaRecord;
  readonly onError: (error: unknown) => void;
  /** Returns milliseconds of a clock that never jumps. */
  readonly clock?: () => number;
}

/**
 * The mailbox surface of the service, answered from the archive: every operation that reads. Those that would write are
 * refused. It takes bearer tokens and no cookies.
 */
export class MirrorSurface {
  readonly #views = new WeakMap<object, MirrorView>();
  /** Apart from each other: however many searches there are, messages are rendered. */
  readonly #threads: Readonly<Record<'searching' | 'rendering', ContentThreads>>;
  readonly #turns = new TokenTurns();

  constructor(private readonly options: MirrorOptions) {
    const { segments } = options;
    this.#threads = {
      searching: new ContentThreads(SEARCHES, SEARCHING_MS, segments),
      rendering: new ContentThreads(1, RENDERING_MS, segments),
    };
  }

  /**
   * Answers a request; never rejects: what goes wrong becomes an answer.
   *
   * @param ownOrigin of the pages that this server has; a page of another one may not ask
   */
  async fetch(request: Request, ownOrigin: string): Promise<Response> {
    try {
      return await this.#answer(request, ownOrigin);
    } catch (error) {
      const refused = refusalOf(error);
      const cause = error instanceof Refusal ? error.cause : error;
      if (cause !== undefined) this.options.onError(cause);
      return responseOf(envelope(refused));
    }
  }

  async close(): Promise<void> {
    const { searching, rendering } = this.#threads;
    await Promise.all([searching.close(), rendering.close()]);
  }

  async #answer(request: Request, ownOrigin: string): Promise<Response> {
    const url = new URL(request.url);
    const match = ROUTES.match(request.method, url.pathname);
    if (match.kind !== 'found') throw noRoute(match);
    const { operation } = match.route;
    if (isForeign(request, ownOrigin))
      throw new Refusal(403, 'ERR_FORBIDDEN_ORIGIN', 'A page of another origin may not ask here');
    const authorize = () => this.#authorize(request.headers.get('authorization'));
    const token = authorize();
    const handler = READING[operation.name];
    if (handler === undefined || !Object.hasOwn(READING, operation.name)) throw readOnly(operation);
    const leave = await this.#turns.enter(token.id);
    let release = () => {};
    const done = () => {
      release();
      leave();
    };
    try {
      const held = this.options.hold();
      release = held.release;
      const { archive } = held;
      const { catalog } = archive;
      const moment = momentOf(url.searchParams.get('asOf'), (at) => catalog.commitAt(at)?.number);
      const { dataDir, quotaOf, keyOf, clock = () => performance.now() } = this.options;
      const reached = catalog.folders
        .mailboxes()
        .filter((one) => token.mailboxes?.includes(keyOf(one)) ?? true);
      const reply = await handler({
        operation,
        token,
        params: match.params,
        query: url.searchParams,
        body: operation.body === null ? undefined : await jsonBody(request),
        mailboxes: mirroredMailboxes(reached),
        moment,
        archive,
        dataDir,
        view: this.#viewOf(archive),
        threads: this.#threads,
        orderId: ORDER,
        quotaOf,
        alone: (act) => this.#turns.alone(token.id, act),
        clock,
        isGone: () => request.signal.aborted,
      });
      // It may have waited or searched for a while, and the token may have been revoked meanwhile.
      authorize();
      return sending(reply, authorize, done);
    } catch (error) {
      done();
      throw error;
    }
  }

  #authorize(header: string | null): ApiToken {
    const secret = /^Bearer +([^\s]+) *$/i.exec(header ?? '')?.[1];
    const token = secret === undefined ? undefined : this.options.authorize(secret);
    if (token !== undefined) return token;
    throw unauthorized('The token is missing, malformed, expired or revoked');
  }

  #viewOf(archive: OpenArchive & { readonly key: object }): MirrorView {
    let view = this.#views.get(archive.key);
    if (view === undefined) {
      view = new MirrorView(archive);
      this.#views.set(archive.key, view);
    }
    return view;
  }
}

function readOnly({ name }: Operation): Refusal {
  return new Refusal(
    403,
    'ERR_READ_ONLY',
    'This is a mirror of the mailboxes: it can be read, and changes nothing',
    { operation: name },
  );
}

/** What is not in the archive as it should be is an upstream that cannot be reached; all else is a failure of ours. */
function refusalOf(error: unknown): unknown {
  if (error instanceof MailkeepError && error.family === 'damage')
    return new Refusal(502, 'ERR_DAMAGED', 'This part of the archive is damaged');
  return error;
}

function noRoute(match: { readonly kind: string; readonly allowed?: readonly string[] }): Refusal {
  const { allowed } = match;
  if (allowed === undefined) return new Refusal(404, 'ERR_NOT_FOUND', 'There is no such route');
  const allow = allowed.join(', ');
  const message = `There is no such route; this path has ${allow}`;
  return new Refusal(404, 'ERR_NOT_FOUND', message, { allowed }, { allow });
}

async function jsonBody(request: Request): Promise<unknown> {
  const { body } = request;
  const chunks: Uint8Array[] = [];
  let length = 0;
  if (body !== null)
    for await (const chunk of body) {
      length += chunk.length;
      if (length > MOST_BODY_BYTES) throw bodyTooLarge(MOST_BODY_BYTES);
      chunks.push(chunk);
    }
  return parseJsonBody(Buffer.concat(chunks), request.headers.get('content-type') ?? undefined);
}
