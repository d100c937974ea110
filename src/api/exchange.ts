import type { IncomingHttpHeaders } from 'node:http';
import type { Lane } from '../limiter/lanes.ts';
import type { Operation } from '../wire/operation.ts';
import type { Body } from './bodies.ts';

/** Where a body of bytes goes when it is too large for memory. */
export interface Spool {
  readonly dir: string;
  readonly inMemoryLimit: number;
  readonly ceiling: number;
}

/** One request, before a token and a turn are found for it. */
export interface Request {
  readonly operation: Operation;
  /** Path and query, encoded. */
  readonly path: string;
  /** JSON, or null for none. */
  readonly body: string | null;
  /** For operations that answer with bytes. */
  readonly spool: Spool | null;
  readonly lane: Lane;
  /** Who takes turns within the lane: the mailbox. */
  readonly key: string;
  readonly signal: AbortSignal | undefined;
}

/** One answer, whatever its status, read to its end. */
export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Body;
  /** Content-Length, null where it was not sent. */
  readonly contentLength: number | null;
}

/** What one HTTP exchange cost. */
export interface RequestReport {
  readonly operation: string;
  /** Resource id of the mailbox it was about; empty for none. */
  readonly key: string;
  readonly surface: 'mailbox' | 'platform';
  readonly host: string;
  /** 0 where no answer came. */
  readonly status: number;
  readonly ms: number;
  /** Of the answer's body. */
  readonly bytes: number;
}
