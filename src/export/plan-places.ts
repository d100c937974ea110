import type { ListedPlace } from '../catalog/list.ts';
import { receivedAt } from '../mail/docid.ts';
import { harmlessName } from '../mail/file-names.ts';
import type { MailboxKey } from '../mail/words.ts';
import { encodeModifiedUtf7, lettersOf } from '../mailfiles/maildir-names.ts';
import type { SearchNode } from '../search/ast.ts';
import type { ExportOptions, ExportTarget } from './export-options.ts';
import type { ManifestHead, MissingPlace } from './manifest.ts';
import { componentName, distinctName, messageName, type NamedMessage, NameSpace } from './names.ts';
import { ExportPlan, namesakeOf, type PlannedPlace } from './plan.ts';

/** A folder as the catalog names it. */
export interface NamedFolder extends MailboxKey {
  /** The mailbox's address. */
  readonly address: string;
  readonly path: string;
  /** What parts the levels of the path; empty where there are none. */
  readonly delimiter: string;
  /** How many folders that were met before have the same path; default 0. */
  readonly namesake?: number;
}

/** Levels of folders beyond these are put into one, so that the path stays one that systems can open. */
const MOST_LEVELS = 8;
/** Bytes of a Maildir++ folder's name, its dot included. */
const MAILDIR_BYTES = 200;

/**
 * Where folders go below the export's own folder. Given all folders in the order in which the archive met them,
 * it assigns the same paths in every export, whatever is exported.
 */
export class FolderPaths {
  readonly #mailboxes = new NameSpace();
  readonly #inside = new Map<string, NameSpace>();

  /** @param format `nested`: folders within folders where `/` parts them; `maildir`: Maildir++ */
  constructor(private readonly format: 'nested' | 'maildir') {}

  /** Path of the folder, parted by `/`; for a Maildir's INBOX that of the Maildir itself. */
  of(folder: NamedFolder): string {
    const mailbox = this.#mailboxes.name(
      `${folder.host} ${folder.mailbox}`,
      componentName(folder.address),
    );
    if (this.format === 'maildir') {
      const name = maildirName(folder);
      return name === '' ? mailbox : `${mailbox}/${this.#within(mailbox, originOf(folder), name)}`;
    }
    // Below a delimiter other than "/", the whole path is one name, as people know it.
    const levels = folder.delimiter === '/' ? folder.path.split('/') : [folder.path];
    const shown =
      levels.length <= MOST_LEVELS
        ? levels
        : [...levels.slice(0, MOST_LEVELS - 1), levels.slice(MOST_LEVELS - 1).join('/')];
    const parent = shown
      .slice(0, -1)
      .reduce(
        (above, level) => `${above}/${this.#within(above, level, componentName(level))}`,
        mailbox,
      );
    const last = shown.at(-1) ?? '';
    const origin = originOf({ ...folder, path: last });
    const name = componentName(last);
    const given = (folder.namesake ?? 0) === 0 ? name : distinctName(name, origin);
    return `${parent}/${this.#within(parent, origin, given)}`;
  }

  #within(parent: string, origin: string, name: string): string {
    const known = this.#inside.get(parent) ?? new NameSpace();
    this.#inside.set(parent, known);
    return known.name(origin, name);
  }
}

/** What a name stands for: of folders with one path each has its own. */
function originOf({ path, namesake = 0 }: Pick<NamedFolder, 'path' | 'namesake'>): string {
  return namesake === 0 ? path : `${path}\0${namesake}`;
}

/** `.Lists.foo` for `INBOX.Lists.foo` as well as for `Lists/foo`; empty for INBOX. */
function maildirName({ path, delimiter, namesake = 0 }: NamedFolder): string {
  const levels = delimiter === '' ? [path] : path.split(delimiter);
  const below = levels[0]?.toUpperCase() === 'INBOX' ? levels.slice(1) : levels;
  if (below.length === 0 && namesake === 0) return '';
  // A dot would part levels where there are none.
  const safe = below.map((level) => harmlessName(level).replace(/[./]/g, '_') || '_');
  const name = `.${encodeModifiedUtf7(safe.join('.'))}`;
  const kept = namesake === 0 && safe.every((level, i) => level === below[i]);
  if (kept && Buffer.byteLength(name) <= MAILDIR_BYTES) return name;
  return `.${encodeModifiedUtf7(distinctName(safe.join('.') || 'INBOX', originOf({ path, namesake })).replace(/^\.+/, ''))}`;
}

/**
 * The name of a message in `cur/`: received second, something of its own, size (as Dovecot and Courier read it) and
 * flags. Windows allows no colon in names; there readers look for `;`.
 */
export function maildirFileName(
  message: NamedMessage & { readonly size: number; readonly flags: readonly string[] },
  infoMark: ':' | ';',
): string {
  const { id, generation, uid, date, size, flags } = message;
  const seconds = date === null ? 0 : Math.max(0, Math.floor(Date.parse(date) / 1000));
  const own = `${id.slice(0, 16)}U${uid}G${generation}`;
  return `${seconds}.${own}.mailkeep,S=${size}${infoMark}2,${lettersOf(flags)}`;
}

/** Failures beyond these are counted, and named in the manifest only. */
const MOST_NAMED = 10_000;

export interface Planned {
  readonly plan: ExportPlan;
  readonly commit: ManifestHead['commit'];
  readonly asOf: ManifestHead['asOf'];
  /** Places of the selection. */
  readonly places: number;
  /** Of them, those that an earlier export has. */
  readonly skipped: number;
  /** Places that only an earlier export has. */
  readonly kept: number;
  readonly quarantined: number;
  readonly failures: readonly MissingPlace[];
}

/** Writes down what an export consists of, as of one state of the archive. The caller closes the plan. */
export async function planPlaces(options: ExportOptions, target: ExportTarget): Promise<Planned> {
  const plan = new ExportPlan();
  try {
    await target.recall(plan);
    const earlier = plan.count();
    const read = options.catalog.snapshot(() => readPlaces(options, plan));
    plan.order();
    return { plan, ...read, kept: earlier - read.known };
  } catch (error) {
    plan.close();
    throw error;
  }
}

function readPlaces(options: ExportOptions, plan: ExportPlan) {
  const { catalog, selection, incremental } = options;
  const { query, docids = null, asOf } = selection;
  const isNarrowed = query !== null || docids !== null;
  const moment = asOf === null ? {} : { asOf };
  if (query !== null) {
    const { text: _, ...asked } = query;
    plan.narrow(catalog.foundDocids({ ...asked, ...moment }));
  }
  if (docids !== null) plan.narrow(docids);
  const pathOf = pathsOf(options);
  let [places, skipped, known, quarantined] = [0, 0, 0, 0];
  const failures: MissingPlace[] = [];
  for (const { line, folder: named, generation, docid } of listed(options, plan, isNarrowed)) {
    const { id } = line;
    if (id === null) {
      // Without bytes it is unknown whether the query would find a message.
      if (isNarrowed) continue;
      places += 1;
      quarantined += 1;
      const { mailbox: address, folder: path, uid } = line;
      const at = { mailbox: address, folder: path, ...namesakeOf(named), generation, uid };
      const missing = { id, ...at };
      plan.addMissing({ ...missing, reason: 'quarantined' });
      if (failures.length < MOST_NAMED) failures.push({ ...missing, reason: 'quarantined' });
      continue;
    }
    if (isNarrowed && !plan.isFound(docid)) continue;
    places += 1;
    const place = {
      line: { ...line, id },
      host: named.host,
      resourceId: named.mailbox,
      delimiter: named.delimiter,
      specialUse: named.specialUse,
      namesake: named.namesake,
      generation,
      docid,
    };
    if (plan.has(place)) {
      known += 1;
      if (incremental) {
        skipped += 1;
        continue;
      }
    }
    plan.add({ ...place, path: pathOf(named, place) });
  }
  const { number, hash } = catalog.reached();
  const at = asOf === null ? null : catalog.commitAt(asOf);
  return {
    commit: { number, hash },
    asOf:
      asOf === null
        ? null
        : { number: at?.number ?? 0, time: new Date(at?.time ?? 0).toISOString() },
    places,
    skipped,
    known,
    quarantined,
    failures,
  };
}

/** The places of a selection; where it is narrowed, of more messages than are meant. */
function* listed(
  { catalog, selection }: ExportOptions,
  plan: ExportPlan,
  isNarrowed: boolean,
): Generator<ListedPlace, void, undefined> {
  const { query, mailbox, folder, deleted, withDeleted = false, asOf } = selection;
  const range = isNarrowed ? plan.range() : undefined;
  if (isNarrowed && range === undefined) return;
  const moment = asOf === null ? {} : { asOf };
  const filter = {
    ...(mailbox === null ? {} : { mailbox }),
    ...(folder === null ? {} : { folder }),
    // Only the time in which the messages were received is walked over.
    ...(range === undefined
      ? {}
      : { from: receivedAt(range.low), to: receivedAt(range.high) + 1000 }),
    ...moment,
  };
  yield* catalog.listPlaces({ ...filter, deleted });
  if (deleted || !withDeleted) return;
  const nodes = [IS_DELETED, ...(query === null ? [] : [query.node])];
  const { accounts = new Map() } = query ?? {};
  const node = { kind: 'and', nodes, span: IS_DELETED.span } as const;
  plan.noteGone(catalog.foundDocids({ node, accounts, ...moment }));
  yield* lastPlaces(catalog.listPlaces({ ...filter, deleted: true }), (docid) =>
    plan.isGone(docid),
  );
}

const IS_DELETED: SearchNode = { kind: 'state', state: 'deleted', span: { start: 0, end: 0 } };

/** Of each message that is gone, the ended place, or those that ended together last; places of one message come together. */
function* lastPlaces(
  ended: Iterable<ListedPlace>,
  isGone: (docid: number) => boolean,
): Generator<ListedPlace, void, undefined> {
  let last: ListedPlace[] = [];
  for (const place of ended) {
    const [before] = last;
    if (before !== undefined && before.docid !== place.docid) {
      yield* last;
      last = [];
    }
    if (!isGone(place.docid)) continue;
    const at = place.line.endedAt ?? '';
    const lastAt = last[0]?.line.endedAt ?? '';
    if (last.length === 0 || at > lastAt) last = [place];
    else if (at === lastAt) last.push(place);
  }
  yield* last;
}

/** Where places go, by format. */
function pathsOf({ format, catalog, platform = process.platform }: ExportOptions) {
  const paths = new FolderPaths(format === 'maildir' ? 'maildir' : 'nested');
  // In the order in which the archive met them, so that a later folder never changes an earlier one's path.
  const met = catalog.folders.all({ gone: true }).toSorted((a, b) => a.id - b.id);
  for (const { folder, ...rest } of met) paths.of({ ...rest, path: folder });
  const infoMark = platform === 'win32' ? ';' : ':';
  return (
    folder: Parameters<FolderPaths['of']>[0],
    { line, generation }: Omit<PlannedPlace, 'path' | 'before'>,
  ): string => {
    const base = paths.of(folder);
    if (format === 'mbox') return `${base}.mbox`;
    if (format === 'maildir') {
      return `${base}/cur/${maildirFileName({ ...line, generation }, infoMark)}`;
    }
    return `${base}/${messageName({ ...line, generation })}.eml`;
  };
}
