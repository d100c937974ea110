import { docidBase } from '../../mail/docid.ts';
import { fingerprint } from '../../mail/fingerprint.ts';
import { named } from '../bound-sql.ts';
import type { Connection } from '../connection.ts';
import type { FlagSets } from '../flag-sets.ts';
import { query, type Row } from '../query.ts';
import { envelopeOf } from './envelope.ts';
import type { FactOf, FoldedFolders, Uid } from './folders.ts';

const FIND = query<Uid>()((db, p) =>
  db
    .selectFrom('quarantine')
    .select(['id', 'from_commit', 'first_commit', 'acknowledged'])
    .where((eb) => eb.and(named(p, 'folder_id', 'generation', 'uid')))
    .where('to_commit', 'is', null),
);
const ADD = query<Omit<Row<'quarantine'>, 'id' | 'to_commit'>>()((db, p) =>
  db.insertInto('quarantine').values({
    ...named(p, 'folder_id', 'generation', 'uid', 'position', 'from_commit', 'first_commit'),
    ...named(p, 'flag_set', 'date', 'size', 'subject', 'sender_name', 'sender_address'),
    ...named(p, 'message_id', 'fingerprint', 'reason', 'detail', 'kept', 'acknowledged'),
    to_commit: null,
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
    const key = this.folders.uidOf(fact, commit);
    const before = this.connection.get(FIND, key);
    if (before !== undefined) {
      // A new attempt with another outcome: a new interval of the same place, except within one commit.
      if (before.from_commit === commit) this.connection.run(DROP, { id: before.id });
      else this.connection.run(CLOSE, { id: before.id, commit });
    }
    this.connection.run(ADD, {
      ...key,
      ...envelopeOf(listing),
      position: docidBase(listing.date, time),
      from_commit: commit,
      first_commit: before?.first_commit ?? commit,
      flag_set: this.flagSets.of(listing.flags).id,
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
    const found = this.connection.get(FIND, this.folders.uidOf(fact, commit));
    if (found === undefined) return false;
    // What is forgotten leaves nothing of its listing behind.
    if (fact.reason === 'forgotten') this.connection.run(DROP, { id: found.id });
    else this.connection.run(CLOSE, { id: found.id, commit });
    return true;
  }

  acknowledged(fact: FactOf<'acknowledged'>, commit: number): boolean {
    const found = this.connection.get(FIND, this.folders.uidOf(fact, commit));
    if (found === undefined) return false;
    this.connection.run(ACKNOWLEDGE, { id: found.id });
    return true;
  }
}
