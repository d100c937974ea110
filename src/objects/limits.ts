/** Every ceiling on what a server may say, and on how long it may take, in one place. */
const MIB = 1024 * 1024;

/** A page of 1,000 objects is about 500 kB. */
export const MOST_XML_BYTES = 8 * MIB;
export const MOST_HEADER_BYTES = 64 * 1024;
/** Objects up to this length are sent in one request, larger ones in parts of it. */
export const PART_BYTES = 8 * MIB;
/** What is to be new is sent in one request, because servers that refuse existing objects may not do so for parts. */
export const MOST_NEW_BYTES = 64 * MIB;
/** Of the S3 protocol. */
export const MOST_PARTS = 10_000;
/** Pages of a listing in a row that list nothing. */
export const MOST_EMPTY_PAGES = 100;

/** How long an answer may take. All in milliseconds. */
export interface Timeouts {
  readonly connect: number;
  /** Until the answer begins, in addition to the time that the request's bytes need at `SLOWEST_BYTES_PER_MS`. */
  readonly answer: number;
  /** Silence within the answer, while somebody waits for its bytes. */
  readonly idle: number;
}

export const TIMEOUTS: Timeouts = { connect: 10_000, answer: 60_000, idle: 60_000 };

/** 16 kB/s. */
export const SLOWEST_BYTES_PER_MS = 16;
