import type { ImapFlow } from 'imapflow';
import type { Appended } from './server.ts';

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
  readonly socket?: { setNoDelay?(on: boolean): unknown };
  commandParts: Buffer[];
  write(chunk: Buffer): void;
  exec(
    command: string,
    attributes: readonly (Token | readonly Token[])[],
    options: unknown,
  ): Promise<Response>;
}

/**
 * Sends commands of imapflow as servers take them fastest: several messages in one APPEND with MULTIAPPEND (RFC 3502),
 * which are all stored or none, and literals at once with LITERAL+ (RFC 7888). imapflow itself sends one message in a
 * command, and waits for the server to ask for a literal of more than 4,096 bytes: a round trip more.
 */
export class Commands {
  readonly mostAtOnce: number;
  #more: readonly Appended[] = [];
  #asks = true;
  /** What APPENDUID (RFC 4315) had, where several messages were sent. */
  #uids: readonly number[] | null = null;

  constructor(client: ImapFlow) {
    const inner = client as unknown as Internals;
    const { capabilities } = client;
    this.mostAtOnce =
      capabilities.has('MULTIAPPEND') && capabilities.has('LITERAL+') ? MOST_AT_ONCE : 1;
    // The end of a message does not wait for the server to acknowledge its beginning.
    inner.socket?.setNoDelay?.(true);
    if (capabilities.has('LITERAL+')) this.#sendLiteralsAtOnce(inner);
    if (this.mostAtOnce > 1) this.#appendSeveral(inner);
  }

  /** Has the one APPEND of an action take these messages as well, and returns the uids of all. */
  async appending(
    more: readonly Appended[],
    asks: boolean,
    act: () => Promise<readonly number[] | null>,
  ): Promise<readonly number[] | null> {
    this.#more = more;
    this.#asks = asks;
    this.#uids = null;
    try {
      const uids = await act();
      return more.length === 0 ? uids : this.#uids;
    } finally {
      this.#more = [];
      this.#asks = true;
    }
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

function tokensOf({ bytes, flags, date }: Appended): (Token | readonly Token[])[] {
  return [
    flags.map((value) => ({ type: 'ATOM', value })),
    ...(date === null ? [] : [{ type: 'STRING', value: imapDate(date) } as const]),
    { type: 'LITERAL', value: bytes },
  ];
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
