import type { LogReader } from '../archive/log-reader.ts';
import type { ListedPlace } from '../catalog/list.ts';
import { Statements, scratchDatabase } from '../core/sqlite.ts';
import type { FlagSet, MessageId } from '../core/types.ts';
import type { RestoreConnection } from './imap-connection.ts';
import type { Alteration } from './restore-comparison.ts';
import type { RestoreJournal } from './restore-journal.ts';
import type { RestoreSelection, SelectableCatalog, SourceFolder } from './restore-selection.ts';

/** Why a message is not restored. The first three reasons concern the archive, the others the server. */
export type RefusalReason =
  | 'quarantined'
  | 'damaged'
  | 'purged'
  | 'append-limit'
  | 'quota'
  | 'folder'
  | 'server';

type RestoreOutcome = 'appended' | 'present' | 'refused';

export interface PlannedMessage {
  readonly seq: number;
  readonly folder: number;
  readonly id: MessageId;
  readonly size: number;
  /** Milliseconds since the epoch; null if the service provided no date. */
  readonly received: number | null;
  readonly flags: FlagSet;
  readonly messageId: string | null;
}

/** A message appended under this plan, in this run or an earlier one. */
export interface AppendedMessage extends PlannedMessage {
  readonly uid: number;
  /** Bytes sent; null if an earlier run sent the message. */
  readonly sent: number | null;
  readonly isDelicate: boolean;
}

export interface NamedMessage {
  readonly id: MessageId | null;
  readonly mailbox: string;
  readonly folder: string;
  readonly uid: number;
}

interface Row extends Omit<PlannedMessage, 'flags'> {
  readonly flags: string;
  readonly outcome: 'due' | RestoreOutcome;
  readonly uid: number | null;
  readonly sent: number | null;
  readonly ours: 0 | 1;
  readonly delicate: 1 | null;
  readonly reason: RefusalReason | null;
  readonly text: string | null;
}

type Settlement = Partial<Pick<Row, 'uid' | 'sent' | 'ours' | 'delicate' | 'reason' | 'text'>>;

const PAGE = 500;
const COLUMNS =
  'seq, folder, id, size, received, flags, message_id AS messageId, uid, sent, delicate';
/** Appended by this run, or by an earlier one according to the journal. */
const OURS = 'uid IS NOT NULL AND ours = 1';

/** The messages to restore. Stored in a temporary database, because they may not fit in memory. */
export class RestorePlan {
  readonly #db = new Statements(
    scratchDatabase(`
      CREATE TABLE items (
        seq INTEGER PRIMARY KEY, folder INTEGER NOT NULL, id TEXT, size INTEGER NOT NULL, received INTEGER,
        flags TEXT NOT NULL, message_id TEXT, origin_uid INTEGER NOT NULL,
        outcome TEXT NOT NULL, reason TEXT, text TEXT, uid INTEGER, sent INTEGER, delicate INTEGER, ours INTEGER,
        again INTEGER, looked INTEGER, altered TEXT
      );
      CREATE INDEX items_due ON items (folder, outcome, seq);
      CREATE INDEX items_uids ON items (folder, uid) WHERE uid IS NOT NULL;
      CREATE INDEX items_altered ON items (altered) WHERE altered IS NOT NULL;
      BEGIN`),
  );
  readonly #folders = new Map<number, SourceFolder>();
  #added = 0;

  addFolder({
    id,
    address,
    path,
    delimiter,
    specialUse,
  }: SourceFolder & { readonly id: number }): void {
    if (!this.#folders.has(id)) this.#folders.set(id, { address, path, delimiter, specialUse });
  }

  /** A folder's places must be added oldest first. */
  add({ line, folder }: ListedPlace): void {
    this.addFolder(folder);
    this.#added += 1;
    this.#db.run(
      `INSERT INTO items (folder, id, size, received, flags, message_id, origin_uid, outcome, reason)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      folder.id,
      line.id,
      line.size,
      line.date === null ? null : Date.parse(line.date),
      JSON.stringify(line.flags),
      line.messageId,
      line.uid,
      line.id === null ? 'refused' : 'due',
      line.id === null ? 'quarantined' : null,
    );
  }

  folders(): ReadonlyMap<number, SourceFolder> {
    return this.#folders;
  }

  /** Yields messages in order. The caller can settle messages while iterating. */
  *due(folder: number): Generator<PlannedMessage, void, undefined> {
    for (const row of this.#page(folder, "outcome = 'due'")) yield toPlanned(row);
  }

  appendedAs(folder: number, uid: number): AppendedMessage | undefined {
    const row = this.#db.get<Row>(
      `SELECT ${COLUMNS} FROM items WHERE folder = ? AND uid = ? AND ${OURS}`,
      folder,
      uid,
    );
    return row === undefined ? undefined : toAppended(row);
  }

  *unseen(folder: number): Generator<AppendedMessage, void, undefined> {
    for (const row of this.#page(folder, `${OURS} AND looked IS NULL`)) yield toAppended(row);
  }

  seen(seq: number): void {
    this.#db.run('UPDATE items SET looked = 1 WHERE seq = ?', seq);
  }

  /** Marks a message that was sent again after a lost response, so the server may have it twice. */
  sentAgain(seq: number): void {
    this.#db.run('UPDATE items SET again = 1 WHERE seq = ?', seq);
  }

  *again(folder: number): Generator<PlannedMessage, void, undefined> {
    for (const row of this.#page(folder, "again = 1 AND outcome = 'appended'"))
      yield toPlanned(row);
  }

  present(seq: number, uid: number, isOurs: boolean): void {
    this.#settle(seq, 'present', { uid, ours: isOurs ? 1 : 0 });
  }

  /**
   * @param sent bytes sent
   * @param isDelicate whether servers are known to change some of the message's bytes
   */
  appended(seq: number, uid: number | null, sent: number, isDelicate: boolean): void {
    this.#settle(seq, 'appended', { uid, sent, ours: 1, delicate: isDelicate ? 1 : null });
  }

  refuse(seq: number, reason: RefusalReason, text: string | null): void {
    this.#settle(seq, 'refused', { reason, text });
  }

  refuseFolder(folder: number, text: string): void {
    this.#db.run(
      "UPDATE items SET outcome = 'refused', reason = 'folder', text = ? WHERE folder = ? AND outcome = 'due'",
      text,
      folder,
    );
  }

  alter(seq: number, reasons: readonly Alteration[]): void {
    const sql = 'SELECT altered FROM items WHERE seq = ?';
    const { altered } = this.#db.get<{ altered: string | null }>(sql, seq) ?? {};
    const before: readonly Alteration[] = JSON.parse(altered ?? '[]');
    const all = JSON.stringify([...new Set([...before, ...reasons])].sort());
    this.#db.run('UPDATE items SET altered = ? WHERE seq = ?', all, seq);
  }

  named(seq: number): NamedMessage {
    const [found] = this.#selectNamed<object>('seq', 'seq = ?', 1, seq);
    return found ?? { id: null, mailbox: '', folder: '', uid: 0 };
  }

  added(): number {
    return this.#added;
  }

  /** `planned` is the sum of the other counts. `bytes` covers due messages only. */
  counts() {
    const counts = new Map(
      [...this.#folders.keys()].map((folder) => [
        folder,
        { planned: 0, due: 0, appended: 0, present: 0, refused: 0, bytes: 0 },
      ]),
    );
    const rows = this.#db.all<Pick<Row, 'folder' | 'outcome'> & { n: number; bytes: number }>(
      'SELECT folder, outcome, count(*) AS n, sum(size) AS bytes FROM items GROUP BY folder, outcome',
    );
    for (const { folder, outcome, n, bytes } of rows) {
      const sums = counts.get(folder);
      if (sums === undefined) continue;
      sums.planned += n;
      sums[outcome] += n;
      if (outcome === 'due') sums.bytes += bytes;
    }
    return counts;
  }

  *sizes(): Generator<number, void, undefined> {
    const sql = "SELECT size FROM items WHERE outcome = 'due' ORDER BY folder, seq";
    for (const { size } of this.#db.iterate<Pick<Row, 'size'>>(sql)) yield size;
  }

  refused(limit: number) {
    type Refused = { reason: RefusalReason; text: string | null };
    return this.#selectNamed<Refused>('reason, text', 'reason IS NOT NULL', limit);
  }

  altered(limit: number) {
    const rows = this.#selectNamed<{ altered: string }>('altered', 'altered IS NOT NULL', limit);
    return rows.map(({ altered, ...named }) => {
      const reasons: readonly Alteration[] = JSON.parse(altered);
      return { ...named, reasons };
    });
  }

  alterations() {
    const rows = this.#db.all<{ altered: string; n: number }>(
      'SELECT altered, count(*) AS n FROM items WHERE altered IS NOT NULL GROUP BY altered',
    );
    const reasons: Partial<Record<Alteration, number>> = {};
    let messages = 0;
    for (const { altered, n } of rows) {
      messages += n;
      const list: readonly Alteration[] = JSON.parse(altered);
      for (const reason of list) reasons[reason] = (reasons[reason] ?? 0) + n;
    }
    return { messages, reasons };
  }

  refusals(): Readonly<Partial<Record<RefusalReason, number>>> {
    const rows = this.#db.all<{ reason: RefusalReason; n: number }>(
      'SELECT reason, count(*) AS n FROM items WHERE reason IS NOT NULL GROUP BY reason',
    );
    return Object.fromEntries(rows.map(({ reason, n }) => [reason, n]));
  }

  close(): void {
    this.#db.db.close();
  }

  #settle(
    seq: number,
    outcome: RestoreOutcome,
    { uid = null, sent = null, ours = 0, delicate = null, reason = null, text = null }: Settlement,
  ): void {
    this.#db.run(
      `UPDATE items SET outcome = ?, uid = ?, sent = ?, ours = ?, delicate = ?, reason = ?, text = ? WHERE seq = ?`,
      ...[outcome, uid, sent, ours, delicate, reason, text, seq],
    );
  }

  #selectNamed<T>(columns: string, condition: string, limit: number, ...values: readonly number[]) {
    const sql = `SELECT folder AS number, id, origin_uid AS uid, ${columns} FROM items WHERE ${condition} ORDER BY seq LIMIT ?`;
    type NamedRow = { number: number; id: string | null; uid: number } & T;
    const rows = this.#db.all<NamedRow>(sql, ...values, limit);
    return rows.map(({ number, ...row }) => {
      const { address: mailbox = '', path: folder = '' } = this.#folders.get(number) ?? {};
      return { ...row, mailbox, folder };
    });
  }

  /** Reads in pages, because the caller may write between two rows. */
  *#page(folder: number, condition: string): Generator<Row, void, undefined> {
    const sql = `SELECT ${COLUMNS} FROM items WHERE folder = ? AND seq > ? AND ${condition} ORDER BY seq LIMIT ${PAGE}`;
    for (let after = 0; ; ) {
      const rows = this.#db.all<Row>(sql, folder, after);
      yield* rows;
      const last = rows.at(-1);
      if (last === undefined) return;
      after = last.seq;
    }
  }
}

function toAppended(row: Row): AppendedMessage {
  return { ...toPlanned(row), uid: row.uid ?? 0, sent: row.sent, isDelicate: row.delicate === 1 };
}

function toPlanned({ seq, folder, id, size, received, flags, messageId }: Row): PlannedMessage {
  return { seq, folder, id, size, received, flags: JSON.parse(flags), messageId };
}

/** Where to restore: under a dated path, under a given path, or to the original folders. */
export type Destination =
  | { readonly kind: 'dated' }
  | { readonly kind: 'into'; readonly levels: readonly string[] }
  | { readonly kind: 'in-place' };

export interface RestoreOptions {
  /** Server and user as text, without a password. Identifies the target in the journal. */
  readonly target: string;
  readonly host: string;
  /** @throws restore-login-refused, restore-certificate, restore-unreachable */
  readonly connect: () => Promise<RestoreConnection>;
  readonly selection: RestoreSelection;
  readonly destination: Destination;
  readonly fresh: boolean;
  readonly dryRun: boolean;
  readonly jobs: number;
  readonly catalog: SelectableCatalog;
  readonly sources: Pick<LogReader, 'readMessage' | 'streamMessage'>;
  /** Undefined in a dry run if no journal exists. */
  readonly journal: RestoreJournal | undefined;
  readonly signal: AbortSignal;
  readonly now: () => number;
  /** Resolves after `ms` milliseconds, or immediately when the signal aborts. */
  readonly sleep: (ms: number) => Promise<void>;
  readonly onProgress?: (progress: RestoreProgress) => void;
}

export type RestoreProgress =
  | { readonly step: 'looking'; readonly folder: string }
  | {
      readonly step: 'sending';
      readonly done: number;
      readonly of: number;
      readonly bytes: number;
      readonly ofBytes: number;
      readonly elapsed: number;
    };
