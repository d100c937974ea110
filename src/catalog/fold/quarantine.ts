import type { Fact } from '../../archive/format/facts.ts';
import { docidBase } from '../../mail/docid.ts';
import { fingerprint } from '../../mail/fingerprint.ts';
import type { Place } from '../../mail/words.ts';
import type { Connection } from '../connection.ts';
import type { FlagSets } from '../flag-sets.ts';
import { query } from '../query.ts';
import type { FoldedFolders } from './folders.ts';
import { envelopeOf } from './messages.ts';

type FactOf<N extends Fact['fact']> = Extract<Fact, { fact: N }>;

const FIND = query<{ folder: number; generation: number; uid: number }>()((db, p) =>
  db
    .selectFrom('quarantine')
    .select(['id', 'from_commit', 'first_commit', 'acknowledged'])
    .where('folder_id', '=', p.folder)
    .where('generation', '=', p.generation)
    .where('uid', '=', p.uid)
    .where('to_commit', 'is', null),
);
const ADD = query<{
  folder: number;
  generation: number;
  uid: number;
  position: number;
  commit: number;
  firstCommit: number;
  flagSet: number;
  date: number | null;
  size: number;
  subject: string | null;
  senderName: string | null;
  senderAddress: string | null;
  messageId: string | null;
  fingerprint: Buffer;
  reason: string;
  detail: string;
  kept: Buffer | null;
  acknowledged: number;
}>()((db, p) =>
  db.insertInto('quarantine').values({
    folder_id: p.folder,
    generation: p.generation,
    uid: p.uid,
    position: p.position,
    from_commit: p.commit,
    to_commit: null,
    first_commit: p.firstCommit,
    flag_set: p.flagSet,
    date: p.date,
    size: p.size,
    subject: p.subject,
    sender_name: p.senderName,
    sender_address: p.senderAddress,
    message_id: p.messageId,
    fingerprint: p.fingerprint,
    reason: p.reason,
    detail: p.detail,
    kept: p.kept,
    acknowledged: p.acknowledged,
  }),
);
const CLOSE = query<{ id: number; commit: number }>()((db, p) =>
  db.updateTable('quarantine').set({ to_commit: p.commit }).where('id', '=', p.id),
);
const DROP = query<{ id: number }>()((db, p) => db.deleteFrom('quarantine').where('id', '=', p.id));
const ACKNOWLEDGE = query<{ id: number }>()((db, p) =>
  db.updateTable('quarantine').set({ acknowledged: 1 }).where('id', '=', p.id),
);

/** Quarantined places in the fold; as with places, false means that the fact names nothing known. */
export class FoldedQuarantine {
  constructor(
    private readonly connection: Connection,
    private readonly folders: FoldedFolders,
    private readonly flagSets: FlagSets,
  ) {}

  quarantined(fact: FactOf<'quarantined'>, commit: number, time: number): boolean {
    const { listing } = fact;
    const key = this.#key(fact, commit);
    const before = this.connection.statement(FIND).get(key);
    if (before !== undefined) {
      // A new attempt with another outcome: a new interval of the same place, except within one commit.
      if (before.from_commit === commit) this.connection.statement(DROP).run({ id: before.id });
      else this.connection.statement(CLOSE).run({ id: before.id, commit });
    }
    this.connection.statement(ADD).run({
      ...key,
      ...envelopeOf(listing),
      position: docidBase(listing.date, time),
      commit,
      firstCommit: before?.first_commit ?? commit,
      flagSet: this.flagSets.of(listing.flags).id,
      size: listing.size,
      fingerprint: Buffer.from(fingerprint(listing), 'hex'),
      reason: fact.reason,
      detail: fact.detail,
      kept: fact.kept === undefined ? null : Buffer.from(fact.kept, 'hex'),
      acknowledged: before?.acknowledged ?? 0,
    });
    return true;
  }

  released(fact: FactOf<'released'>, commit: number): boolean {
    const found = this.connection.statement(FIND).get(this.#key(fact, commit));
    if (found === undefined) return false;
    // What is forgotten leaves nothing of its listing behind.
    if (fact.reason === 'forgotten') this.connection.statement(DROP).run({ id: found.id });
    else this.connection.statement(CLOSE).run({ id: found.id, commit });
    return true;
  }

  acknowledged(fact: FactOf<'acknowledged'>, commit: number): boolean {
    const found = this.connection.statement(FIND).get(this.#key(fact, commit));
    if (found === undefined) return false;
    this.connection.statement(ACKNOWLEDGE).run({ id: found.id });
    return true;
  }

  #key(place: Place, commit: number) {
    const folder = this.folders.ofPlace(place, commit);
    return { folder: folder.id, generation: place.generation, uid: place.uid };
  }
}
