import type { Connection } from './connection.ts';
import { query } from './query.ts';

const TAKEN_FROM = query<{ docid: number; limit: number }>()((db, p) =>
  db
    .selectFrom('messages')
    .select('docid')
    .where('docid', '>=', p.docid)
    .orderBy('docid')
    .limit(p.limit),
);

const CHUNK = 256;
/** Bases remembered with the docid after their last: mail imported at once may share one second by the thousand. */
const REMEMBERED = 1_000;

/** Hands out docids for messages whose facts are about to be written. */
export class Docids {
  /** Handed out, and not in the catalog yet. */
  readonly #handed = new Set<number>();
  readonly #next = new Map<number, number>();

  constructor(private readonly connection: Connection) {}

  /** The first docid at or above `base` that no message has and nobody was given. */
  next(base: number): number {
    let docid = this.#next.get(base) ?? base;
    docid = this.#firstFree(docid);
    this.#handed.add(docid);
    if (this.#next.size >= REMEMBERED) this.#next.clear();
    this.#next.set(base, docid + 1);
    return docid;
  }

  /** The docid is in the catalog now, or will not be used. */
  settled(docid: number): void {
    this.#handed.delete(docid);
  }

  /** Nothing that was handed out and not folded will come: after a failed batch. */
  reset(): void {
    this.#handed.clear();
    this.#next.clear();
  }

  #firstFree(from: number): number {
    let docid = from;
    // Most are free at once: look at one row before reading a stretch of them.
    for (let limit = 1; ; limit = CHUNK) {
      const taken = this.connection.statement(TAKEN_FROM).all({ docid, limit });
      for (const row of taken) {
        while (docid < row.docid && this.#handed.has(docid)) docid += 1;
        if (docid < row.docid) return docid;
        docid = row.docid + 1;
      }
      while (this.#handed.has(docid)) docid += 1;
      if (taken.length < limit) return docid;
    }
  }
}
