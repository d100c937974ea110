import type { Fact } from '../../archive/format/facts.ts';
import type { FolderKey, MailboxKey } from '../../mail/words.ts';
import { named } from '../bound-sql.ts';
import type { Connection } from '../connection.ts';
import { highestUid } from '../folders.ts';
import { query, type Row } from '../query.ts';

export type FactOf<N extends Fact['fact']> = Extract<Fact, { fact: N }>;

/** What names the rows of a place. */
export type Uid = Pick<Row<'places'>, 'folder_id' | 'generation' | 'uid'>;

const FIND_MAILBOX = query<{ host: string; mailbox: string }>()((db, p) =>
  db
    .selectFrom('mailboxes')
    .select('id')
    .where((eb) => eb.and({ host: p.host, mailbox: p.mailbox })),
);
const ADD_MAILBOX = query<Omit<Row<'mailboxes'>, 'id'>>()((db, p) =>
  db.insertInto('mailboxes').values(named(p, 'host', 'mailbox', 'address', 'from_commit')),
);
const SET_ADDRESS = query<{ id: number; address: string }>()((db, p) =>
  db.updateTable('mailboxes').set({ address: p.address }).where('id', '=', p.id),
);
const FIND_FOLDER = query<{ mailbox: number; path: string }>()((db, p) =>
  db
    .selectFrom('folders')
    .select(['id', 'mailbox_id', 'delimiter', 'special_use', 'generation', 'gone_commit'])
    .where((eb) => eb.and({ mailbox_id: p.mailbox, path: p.path }))
    // The live one first, else the one that went last.
    .orderBy((eb) => eb('gone_commit', 'is', null), 'desc')
    .orderBy('gone_commit', 'desc')
    .orderBy('id', 'desc')
    .limit((eb) => eb.lit(1)),
);
const ADD_FOLDER = query<Omit<Row<'folders'>, 'id' | 'gone_commit'>>()((db, p) =>
  db.insertInto('folders').values({
    ...named(p, 'mailbox_id', 'path', 'name', 'delimiter', 'special_use', 'generation'),
    gone_commit: null,
  }),
);
const SET_FOLDER = query<
  Pick<Row<'folders'>, 'id' | 'path' | 'name' | 'delimiter' | 'special_use'>
>()((db, p) =>
  db
    .updateTable('folders')
    .set({ ...named(p, 'path', 'name', 'delimiter', 'special_use'), gone_commit: null })
    .where('id', '=', p.id),
);
const SET_GONE = query<{ id: number; commit: number }>()((db, p) =>
  db.updateTable('folders').set({ gone_commit: p.commit }).where('id', '=', p.id),
);
const SET_GENERATION = query<{ id: number; generation: number }>()((db, p) =>
  db.updateTable('folders').set({ generation: p.generation }).where('id', '=', p.id),
);
const CLOSE_SPAN = query<{ folder: number; commit: number }>()((db, p) =>
  db
    .updateTable('folder_spans')
    .set({ to_commit: p.commit })
    .where('folder_id', '=', p.folder)
    .where('to_commit', 'is', null),
);
const OPEN_SPAN = query<Omit<Row<'folder_spans'>, 'to_commit'>>()((db, p) =>
  db
    .insertInto('folder_spans')
    .values({ ...named(p, 'folder_id', 'from_commit', 'path', 'special_use'), to_commit: null })
    // A second change within one commit: only the last can ever be seen.
    .onConflict((conflict) =>
      conflict
        .columns(['folder_id', 'from_commit'])
        .doUpdateSet({ ...named(p, 'path', 'special_use'), to_commit: null }),
    ),
);
const ADD_GENERATION = query<Omit<Row<'generations'>, 'highest_uid'>>()((db, p) =>
  db
    .insertInto('generations')
    .values({ ...named(p, 'folder_id', 'generation', 'from_commit', 'reason'), highest_uid: 0 })
    .onConflict((conflict) => conflict.columns(['folder_id', 'generation']).doNothing()),
);
const RAISE_HIGHEST = query<{ folder: number; generation: number; uid: number }>()((db, p) =>
  db
    .updateTable('generations')
    .set({ highest_uid: p.uid })
    .where((eb) => eb.and({ folder_id: p.folder, generation: p.generation }))
    .where('highest_uid', '<', p.uid),
);

type PlaceKey = FolderKey & { readonly generation: number; readonly uid: number };

interface KnownFolder {
  readonly id: number;
  readonly mailboxId: number;
  /** Generations that have a row, with the highest uid seen in them (0: none). */
  readonly generations: Map<number, number>;
}

/** Mailboxes, folders and generations in the fold: keys to numbers, and the facts about them. */
export class FoldedFolders {
  readonly #mailboxes = new Map<string, number>();
  readonly #live = new Map<string, KnownFolder>();
  readonly #touched = new Set<KnownFolder>();
  /** By the folder's number, for a folder that comes back under a path has seen its uids already. */
  readonly #generations = new Map<number, KnownFolder['generations']>();

  constructor(private readonly connection: Connection) {}

  mailbox(fact: FactOf<'mailbox'>, commit: number): void {
    const id = this.#mailboxOf(fact, commit, fact.address);
    this.connection.run(SET_ADDRESS, { id, address: fact.address });
  }

  folder(fact: FactOf<'folder'>, commit: number): void {
    const mailbox = this.#mailboxOf(fact, commit);
    const found = this.connection.get(FIND_FOLDER, { mailbox, path: storedName(fact.folder) });
    const shown = {
      path: storedName(fact.folder),
      name: storedName(fact.name),
      delimiter: fact.delimiter,
      special_use: fact.specialUse,
    };
    let id: number;
    if (found === undefined) {
      id = this.connection.run(ADD_FOLDER, {
        mailbox_id: mailbox,
        ...shown,
        generation: fact.generation,
      }).lastInsertRowid;
    } else {
      id = found.id;
      this.connection.run(SET_FOLDER, { id, ...shown });
      this.connection.run(SET_GENERATION, { id, generation: fact.generation });
    }
    if (found === undefined || found.gone_commit !== null || found.special_use !== fact.specialUse)
      this.#openSpan(id, commit, storedName(fact.folder), fact.specialUse);
    this.#generation(this.#remember(fact, id, mailbox), fact.generation, commit, null);
  }

  renamed(fact: FactOf<'folder-renamed'>, commit: number): void {
    const target = { host: fact.host, mailbox: fact.mailbox, folder: fact.to };
    const mailbox = this.#mailboxOf(fact, commit);
    const found = this.connection.get(FIND_FOLDER, { mailbox, path: storedName(fact.folder) });
    if (found === undefined || found.gone_commit !== null) {
      this.of(target, commit);
      return;
    }
    // A live folder that stands where this one goes was replaced by it.
    const replaced = this.connection.get(FIND_FOLDER, { mailbox, path: storedName(fact.to) });
    if (replaced !== undefined && replaced.gone_commit === null) this.#gone(replaced.id, commit);
    const { id, delimiter, special_use: specialUse } = found;
    const path = storedName(fact.to);
    const name = path.slice(delimiter === '' ? 0 : path.lastIndexOf(delimiter) + delimiter.length);
    this.connection.run(SET_FOLDER, { id, path, name, delimiter, special_use: specialUse });
    this.#openSpan(id, commit, path, specialUse);
    const known = this.#live.get(folderText(fact));
    this.#live.delete(folderText(fact));
    if (known === undefined) this.#live.delete(folderText(target));
    else this.#live.set(folderText(target), known);
  }

  gone(fact: FactOf<'folder-gone'>, commit: number): void {
    this.#gone(this.of(fact, commit), commit);
    this.#live.delete(folderText(fact));
  }

  generation(fact: FactOf<'generation'>, commit: number): void {
    const folder = this.#known(fact, commit, fact.generation);
    this.#generation(folder, fact.generation, commit, fact.reason);
    this.connection.run(SET_GENERATION, { id: folder.id, generation: fact.generation });
  }

  /** Returns the number of a live folder. One that no fact has named (a damaged log) is created from its path. */
  of(key: FolderKey, commit: number): number {
    return this.#known(key, commit).id;
  }

  /** What names the rows of a place, noting its uid as seen. */
  uidOf(place: PlaceKey, commit: number): Uid {
    const { folder } = this.ofArrival(place, commit);
    return { folder_id: folder.id, generation: place.generation, uid: place.uid };
  }

  /** The folder of a place, noting its uid as seen; `first` when the uid is above all that were seen: no row has it, and none need be looked for. */
  ofArrival(
    key: PlaceKey,
    commit: number,
  ): { readonly folder: KnownFolder; readonly first: boolean } {
    const folder = this.#known(key, commit, key.generation);
    if (!folder.generations.has(key.generation))
      this.#generation(folder, key.generation, commit, null);
    const first = key.uid > (folder.generations.get(key.generation) ?? 0);
    if (first) {
      folder.generations.set(key.generation, key.uid);
      this.#touched.add(folder);
    }
    return { folder, first };
  }

  /** Writes the highest uids of the batch. */
  finish(): void {
    for (const folder of this.#touched)
      for (const [generation, uid] of folder.generations)
        this.connection.run(RAISE_HIGHEST, { folder: folder.id, generation, uid });
    this.#touched.clear();
  }

  /** After a transaction that was undone. */
  forget(): void {
    this.#mailboxes.clear();
    this.#live.clear();
    this.#touched.clear();
    this.#generations.clear();
  }

  #mailboxOf(key: MailboxKey, commit: number, address = key.mailbox): number {
    const text = `${key.host}\0${key.mailbox}`;
    let id = this.#mailboxes.get(text);
    if (id === undefined) {
      const { host, mailbox } = key;
      id =
        this.connection.get(FIND_MAILBOX, { host, mailbox })?.id ??
        this.connection.run(ADD_MAILBOX, { host, mailbox, address, from_commit: commit })
          .lastInsertRowid;
      this.#mailboxes.set(text, id);
    }
    return id;
  }

  #known(key: FolderKey, commit: number, generation = 1): KnownFolder {
    const known = this.#live.get(folderText(key));
    if (known !== undefined) return known;
    const mailbox = this.#mailboxOf(key, commit);
    const found = this.connection.get(FIND_FOLDER, { mailbox, path: storedName(key.folder) });
    if (found !== undefined) return this.#remember(key, found.id, mailbox);
    const path = storedName(key.folder);
    const id = this.connection.run(ADD_FOLDER, {
      mailbox_id: mailbox,
      path,
      name: path,
      delimiter: '.',
      special_use: null,
      generation,
    }).lastInsertRowid;
    this.#openSpan(id, commit, path, null);
    const folder = this.#remember(key, id, mailbox);
    this.#generation(folder, generation, commit, null);
    return folder;
  }

  #remember(key: FolderKey, id: number, mailboxId: number): KnownFolder {
    const text = folderText(key);
    let known = this.#live.get(text);
    if (known?.id !== id) {
      const generations = this.#generations.get(id) ?? new Map<number, number>();
      this.#generations.set(id, generations);
      known = { id, mailboxId, generations };
      this.#live.set(text, known);
    }
    return known;
  }

  #generation(folder: KnownFolder, generation: number, commit: number, reason: string | null) {
    this.connection.run(ADD_GENERATION, {
      folder_id: folder.id,
      generation,
      from_commit: commit,
      reason,
    });
    if (folder.generations.has(generation)) return;
    folder.generations.set(generation, highestUid(this.connection, folder.id, generation));
  }

  #gone(id: number, commit: number): void {
    this.connection.run(SET_GONE, { id, commit });
    this.connection.run(CLOSE_SPAN, { folder: id, commit });
  }

  #openSpan(folder: number, commit: number, path: string, specialUse: string | null): void {
    this.connection.run(CLOSE_SPAN, { folder, commit });
    this.connection.run(OPEN_SPAN, {
      folder_id: folder,
      from_commit: commit,
      path,
      special_use: specialUse,
    });
  }
}

/**
 * A name as SQLite can hold it. Half of a surrogate pair is no text, and binding it stores U+FFFD whatever half it was:
 * two folders of the log would become one row. So the half's number stays in the name.
 */
export function storedName(name: string): string {
  if (name.isWellFormed()) return name;
  return name.replace(/\p{Surrogate}/gu, (half) => `\ufffd${half.charCodeAt(0).toString(16)}`);
}

function folderText(key: FolderKey): string {
  return `${key.host}\0${key.mailbox}\0${key.folder}`;
}
