import type { ImapFlow } from 'imapflow';
import type { Content } from './content.ts';
import type { Appended } from './server.ts';
import { STAND_IN, StreamedLiteral, type WriteSocket } from './streamed-literal.ts';

/** Messages of one APPEND at most. */
const MOST_AT_ONCE = 32;

/** An element of a command as imapflow compiles it. */
interface Token {
  readonly type: 'ATOM' | 'STRING' | 'LITERAL';
  readonly value: string | Buffer;
}

/** A response code such as `APPENDUID 38505 3955:3958`. */
type ResponseCode = { value?: unknown }[];

interface Response {
  readonly response: { readonly attributes?: readonly { readonly section?: ResponseCode }[] };
}

/** What imapflow does not export: how it sends commands, and what of one follows when the server has asked for it. */
interface Internals {
  readonly socket?: WriteSocket;
  commandParts: Buffer[];
  write(chunk: Buffer): void;
  exec(
    command: string,
    attributes: readonly (Token | readonly Token[])[],
    options: unknown,
  ): Promise<Response>;
}

/**
 * Sends commands of imapflow as servers take them fastest, and with little memory: several messages in one APPEND with
 * MULTIAPPEND (RFC 3502), which are all stored or none; literals at once with LITERAL+ (RFC 7888); a large message in
 * pieces. imapflow itself sends one message in a command, copies it three times, and waits for the server to ask for a
 * literal of more than 4,096 bytes: a round trip more.
 */
export class Commands {
  readonly mostAtOnce: number;
  readonly #inner: Internals;
  #more: readonly Appended[] = [];
  #asks = true;
  /** What APPENDUID (RFC 4315) had, where several messages were sent. */
  #uids: readonly number[] | null = null;
  /** The message that is sent in pieces. */
  #streamed: StreamedLiteral | undefined;

  constructor(client: ImapFlow) {
    const inner = client as unknown as Internals;
    const { capabilities } = client;
    this.mostAtOnce =
      capabilities.has('MULTIAPPEND') && capabilities.has('LITERAL+') ? MOST_AT_ONCE : 1;
    // The end of a message does not wait for the server to acknowledge its beginning.
    inner.socket?.setNoDelay?.(true);
    if (capabilities.has('LITERAL+')) this.#sendLiteralsAtOnce(inner);
    if (this.mostAtOnce > 1) this.#appendSeveral(inner);
    this.#sendInPieces(inner, () => client.close());
    this.#inner = inner;
  }

  /**
   * Has the one APPEND of an action take all of these messages, and returns their uids.
   *
   * @param act appends a message with the given bytes; they stand for those of the first one
   * @throws what reading a message in pieces throws
   */
  async appending(
    messages: readonly Appended[],
    asks: boolean,
    act: (bytes: Buffer) => Promise<readonly number[] | null>,
  ): Promise<readonly number[] | null> {
    const [first, ...more] = messages;
    if (first === undefined) return [];
    const { content, size } = first;
    if (!Buffer.isBuffer(content)) return this.#inPieces(content, size, act);
    this.#more = more;
    this.#asks = asks;
    this.#uids = null;
    try {
      const uids = await act(content);
      return more.length === 0 ? uids : this.#uids;
    } finally {
      this.#more = [];
      this.#asks = true;
      this.#forgetLiterals();
    }
  }

  async #inPieces(
    pieces: () => AsyncIterable<Buffer>,
    size: number,
    act: (bytes: Buffer) => Promise<readonly number[] | null>,
  ): Promise<readonly number[] | null> {
    const streamed = new StreamedLiteral(pieces, size);
    this.#streamed = streamed;
    try {
      // A server that has answered early still gets all of it: nothing else may follow the half of a message.
      return await act(STAND_IN).finally(() => streamed.done());
    } finally {
      this.#streamed = undefined;
      this.#forgetLiterals();
    }
  }

  /** What a refused command would have sent must not go out when the server asks for something else. */
  #forgetLiterals(): void {
    this.#inner.commandParts = [];
  }

  #sendInPieces(inner: Internals, close: () => void): void {
    const write = inner.write.bind(inner);
    inner.write = (chunk) => {
      const { socket } = inner;
      if (socket === undefined || !this.#streamed?.replaces(chunk, write, socket, close))
        write(chunk);
    };
  }

  #sendLiteralsAtOnce(inner: Internals): void {
    const write = inner.write.bind(inner);
    inner.write = (chunk) => {
      const parts = [chunk, ...(inner.commandParts ?? [])];
      // Each part but the last ends in the length of a literal.
      if (this.#asks || parts.length === 1) return write(chunk);
      inner.commandParts = [];
      write(Buffer.concat(parts.map((part, i) => (i < parts.length - 1 ? unasked(part) : part))));
    };
  }

  #appendSeveral(inner: Internals): void {
    const exec = inner.exec.bind(inner);
    inner.exec = async (command, attributes, options) => {
      const more = this.#more;
      if (command !== 'APPEND' || more.length === 0) return exec(command, attributes, options);
      const tokens = more.flatMap(tokensOf);
      const response = await exec(command, [...attributes, ...tokens], options);
      const [, , uids] = response.response.attributes?.[0]?.section ?? [];
      const listed = uids === undefined ? [] : uidsIn(String(uids.value));
      if (uids !== undefined && listed.length === more.length + 1) {
        this.#uids = listed;
        // imapflow asks for the uid of the last message where it does not find one.
        uids.value = String(listed.at(-1));
      }
      return response;
    };
  }
}

function tokensOf({ content, flags, date }: Appended): (Token | readonly Token[])[] {
  return [
    flags.map((value) => ({ type: 'ATOM', value })),
    ...(date === null ? [] : [{ type: 'STRING', value: imapDate(date) } as const]),
    { type: 'LITERAL', value: held(content) },
  ];
}

function held(content: Content): Buffer {
  if (Buffer.isBuffer(content)) return content;
  throw new Error('a message that is sent in pieces goes alone');
}

/** `{42}` as `{42+}`, with the line end that follows. */
function unasked(part: Buffer): Buffer {
  return Buffer.concat([part.subarray(0, -3), Buffer.from('+}\r\n')]);
}

/** The numbers of a set such as `3955:3958,3960` (RFC 4315, 3); none for a set that is none. */
function uidsIn(set: string): number[] {
  return set.split(',').flatMap((range) => {
    const [first = Number.NaN, last = first] = range.split(':').map(Number);
    const count = last - first + 1;
    return count > 0 && count <= MOST_AT_ONCE
      ? Array.from({ length: count }, (_, i) => first + i)
      : [];
  });
}

const MONTHS = 'Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec'.split(' ');

/** A date-time of IMAP (RFC 9051, 9), in UTC. */
function imapDate(date: Date): string {
  const day = String(date.getUTCDate()).padStart(2);
  const time = date.toISOString().slice(11, 19);
  return `${day}-${MONTHS[date.getUTCMonth()]}-${date.getUTCFullYear()} ${time} +0000`;
}
