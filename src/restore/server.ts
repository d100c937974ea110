import type { Content } from './content.ts';
import type { FoundMessage } from './present.ts';

/** A folder as the server lists it. */
export interface ServerFolder {
  readonly path: string;
  /** `\Sent` and the like, where the server says so itself. */
  readonly specialUse: string | null;
  readonly subscribed: boolean;
  /** False for a name that only has folders below it. */
  readonly selectable: boolean;
}

/** A folder that is selected. */
export interface SelectedFolder {
  readonly path: string;
  readonly uidValidity: string;
  /** Null where the server sent no PERMANENTFLAGS. */
  readonly permanentFlags: readonly string[] | null;
  /** Keywords that messages of the folder have, and system flags. */
  readonly flags: ReadonlySet<string>;
  readonly messages: number;
  /** No message has a higher uid yet. */
  readonly lastUid: number;
}

/** A message as it is appended. */
export interface Appended {
  readonly content: Content;
  /** Bytes of the content. */
  readonly size: number;
  readonly flags: readonly string[];
  /** Null lets the server take the present. */
  readonly date: Date | null;
}

/** What the second look reads of every message. */
export interface SeenMessage {
  readonly uid: number;
  readonly size: number;
  readonly flags: ReadonlySet<string>;
  /** Milliseconds since the epoch. */
  readonly date: number;
}

/**
 * A connection to the server that mail is restored to. It sends CREATE, SUBSCRIBE, APPEND and commands that read,
 * nothing else. Every method throws restore-refused, restore-throttled and restore-connection-lost.
 */
export interface ServerConnection {
  readonly delimiter: string;
  /** Prefix of the personal namespace. */
  readonly prefix: string;
  /** Bytes of the largest message that the server announces to take; null where it announces none. */
  readonly appendLimit: number | null;
  /** How many messages one command can append; 1 on servers without MULTIAPPEND. */
  readonly mostAtOnce: number;
  list(): Promise<readonly ServerFolder[]>;
  /** Bytes left of the quota of INBOX; null where there is none. */
  quotaLeft(): Promise<number | null>;
  /** Creates a folder and subscribes to it. False where there was one. */
  create(path: string): Promise<boolean>;
  subscribe(path: string): Promise<void>;
  select(path: string): Promise<SelectedFolder>;
  /**
   * Appends to the selected folder: all of the messages or none, `mostAtOnce` of them at most. A message whose content
   * is given in pieces goes alone.
   *
   * @param asks has the server say that it takes a message of this size before its bytes are sent
   * @returns their uids, or null where the server does not report them
   * @throws what reading the content throws: the server has nothing of the message then
   */
  append(
    path: string,
    messages: readonly Appended[],
    asks: boolean,
  ): Promise<readonly number[] | null>;
  /** Messages of the selected folder from a uid on, in order. */
  messages(from: number): AsyncIterable<FoundMessage>;
  /** Flags, dates and sizes of the messages of the selected folder from a uid on, in order. */
  looks(from: number): AsyncIterable<SeenMessage>;
  /** The bytes of a message of the selected folder, in pieces; none if it is gone. */
  pieces(uid: number): AsyncIterable<Buffer>;
  close(): Promise<void>;
}
