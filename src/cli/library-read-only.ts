import './all-errors.ts';
import { z } from 'zod';
import type { AffectedMessage } from '../catalog/comparison.ts';
import type { Finding } from '../catalog/findings.ts';
import {
  catalogLag,
  findPurgedMessage,
  openReaderAt,
  type Reader,
  refuseUnknownFolder,
  refuseUnknownNames,
} from '../catalog/open-reader.ts';
import { parseQuery } from '../catalog/parse-query.ts';
import { usageError } from '../core/error-tables.ts';
import { describeError, MailkeepError } from '../core/errors.ts';
import type { MessageId } from '../core/types.ts';
import type { PlaceLine, SearchLine } from '../mail/identity.ts';
import { retentionError } from '../verify/errors.ts';
import { readArchive } from '../verify/verify.ts';
import { findingText } from './finding-text.ts';
import type {
  Archive,
  ArchivedMailbox,
  ListOptions,
  Problem,
  SearchOptions,
  VerifyOptions,
  VerifyReport,
} from './library.ts';

const ID = z
  .string()
  .regex(/^[0-9a-f]{4,64}$/, 'expected 4 to 64 hexadecimal digits in lower case');
const TIME = z.date().transform((date) => date.getTime());
const LIST = z.strictObject({
  mailbox: z.string().optional(),
  folder: z.string().optional(),
  deleted: z.boolean().optional(),
  asOf: TIME.optional(),
  after: TIME.optional(),
  before: TIME.optional(),
  sort: z.enum(['newest', 'oldest']).optional(),
});
const SEARCH = z.strictObject({
  limit: z.int().min(1).max(1_000_000).default(20),
  sort: z.enum(['newest', 'oldest', 'relevance']).default('newest'),
  asOf: TIME.optional(),
  after: ID.optional(),
});
const VERIFY = z.strictObject({
  full: z.boolean().default(true),
  signal: z.instanceof(AbortSignal).optional(),
});

export class ReadOnlyArchive implements Archive {
  private constructor(private readonly reader: Reader) {}

  static open(dataDir: string): ReadOnlyArchive {
    return withSentences(() => {
      const dir = checkArgument(z.string().min(1), 'dataDir', dataDir);
      return new ReadOnlyArchive(openReaderAt(dir));
    });
  }

  get dataDir(): string {
    return this.reader.dataDir;
  }

  commitsBehind(): number {
    return withSentences(() => {
      const behind = catalogLag(this.dataDir, () => this.reader.catalog.reached().number);
      return behind === null ? 0 : behind.last - behind.reached;
    });
  }

  mailboxes(): ArchivedMailbox[] {
    const { catalog } = this.reader;
    const { folders } = catalog;
    return withSentences(() =>
      catalog.snapshot(() =>
        folders.mailboxes().map(({ address, host, mailbox }) => ({
          address,
          host,
          resourceId: mailbox,
          folders: folders.all({ mailbox: { host, mailbox }, gone: true }).map((known) => ({
            path: known.folder,
            specialUse: known.specialUse,
            messages: folders.counts(known.id).open,
            gone: known.gone,
          })),
        })),
      ),
    );
  }

  list(options: ListOptions = {}): IterableIterator<PlaceLine> {
    const places = withSentences(() => {
      const { after: from, before: to, ...others } = checkArgument(LIST, 'options', options);
      const filter = { ...others, from, to };
      refuseUnknownFolder(this.reader, filter);
      return this.reader.catalog.list(filter);
    });
    return eachWithSentences(places);
  }

  search(query: string, options: SearchOptions = {}): SearchLine[] {
    return withSentences(() => {
      const { limit, sort, asOf: at, after: last } = checkArgument(SEARCH, 'options', options);
      const parsed = parseQuery(checkArgument(z.string(), 'query', query), { now: Date.now() });
      if (last !== undefined && sort === 'relevance')
        throw invalid('options.after', 'an order by date');
      const { catalog } = this.reader;
      const after = last === undefined ? last : catalog.messages.docidOf(this.#idOf(last));
      const asOf = at ?? parsed.asOf ?? undefined;
      const search = catalog.prepare({ node: parsed.node, asOf });
      refuseUnknownNames(search.unknownNames());
      return search.page({ limit, sort, after }).hits.map(({ line }) => line);
    });
  }

  async *read(id: MessageId): AsyncGenerator<Buffer, void, undefined> {
    try {
      yield* this.reader.sources().streamMessage(this.#idOf(id));
    } catch (error) {
      throw withSentence(error);
    }
  }

  async verify(options: VerifyOptions = {}): Promise<VerifyReport> {
    try {
      const { full, signal } = checkArgument(VERIFY, 'options', options);
      const { messages, rebuilt, last, catalog, found, findings } = await readArchive(
        this.dataDir,
        {
          full,
          vouched: [],
          signal: signal ?? new AbortController().signal,
          progress: () => {},
        },
      );
      const sound = found === 0 && (catalog === 'equal' || catalog === 'behind');
      const commit = last === null ? null : { number: last.number, hash: last.hash };
      return { sound, messages, rebuilt, commit, catalog, found, problems: findings.map(problem) };
    } catch (error) {
      throw withSentence(error);
    }
  }

  close(): void {
    this.reader.close();
  }

  #idOf(id: string): MessageId {
    const prefix = checkArgument(ID, 'id', id);
    const named = this.reader.catalog.messages.byPrefix(prefix);
    if (named.match === 'unique') return named.id;
    if (named.match === 'ambiguous')
      throw usageError('usage-ambiguous-id', { id, candidates: named.candidates });
    const purged = findPurgedMessage(this.reader, prefix);
    if (purged === undefined) throw usageError('usage-unknown-message', { id });
    throw retentionError('message-purged', purged);
  }
}

function problem(finding: Finding): Problem {
  return {
    what: finding.what,
    sentence: findingText(finding),
    messages: affectedMessages(finding).flatMap(({ id }) => id ?? []),
  };
}

function affectedMessages(finding: Finding): readonly AffectedMessage[] {
  if ('messages' in finding) return finding.messages;
  return 'message' in finding && finding.message !== null ? [finding.message] : [];
}

/** Checks an argument at run time, because JavaScript callers have no type checker. */
function checkArgument<T>(shape: z.ZodType<T>, name: string, given: unknown): T {
  const parsed = shape.safeParse(given);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw invalid([name, ...(issue?.path ?? [])].join('.'), issue?.message ?? '');
}

function invalid(argument: string, problem: string): MailkeepError {
  return usageError('argument-invalid', { argument, problem });
}

function withSentences<T>(act: () => T): T {
  try {
    return act();
  } catch (error) {
    throw withSentence(error);
  }
}

function* eachWithSentences<T>(items: IterableIterator<T>): Generator<T, void, undefined> {
  try {
    yield* items;
  } catch (error) {
    throw withSentence(error);
  }
}

/** Replaces an error's message with the command line's sentence. Omits the hint, which refers to options. */
function withSentence(error: unknown): unknown {
  if (error instanceof MailkeepError) error.message = describeError(error).message;
  return error;
}
