import { Semaphore } from '../core/concurrency.ts';
import { MailkeepError } from '../core/errors.ts';
import { isRestoreError, restoreError } from './errors.ts';
import type { ServerConnection, ServerFolder } from './imap-connection.ts';
import {
  type Destination,
  type PlannedMessage,
  type RestoreOptions,
  RestorePlan,
  type RestoreResult,
} from './plan-restore.ts';
import { fitMessage, fitSizes, lookAtFolder, restOfUnknown } from './restore-comparison.ts';
import { countLeftOut, FolderRun, type SharedRun } from './restore-folder.ts';
import {
  type JournaledPlan,
  Line,
  type PlanJournal,
  type Rate,
  type RestoreJournal,
} from './restore-journal.ts';
import {
  choose,
  type Layout,
  type NameRules,
  readForm,
  type SourceFolder,
  type TargetFolder,
  targetFolders,
} from './restore-selection.ts';
import type { SecondLook } from './verify-restored.ts';

/** Where the folders of a plan go, by their numbers. */
type Targets = ReadonlyMap<number, TargetFolder>;

/** What decides where folders go. */
interface Naming {
  readonly folders: ReadonlyMap<number, SourceFolder>;
  readonly layout: Layout;
  readonly connection: Pick<ServerConnection, 'delimiter' | 'prefix' | 'create' | 'subscribe'>;
  readonly listed: readonly ServerFolder[];
}

/** Returns where folders go if the server refuses these characters in names. */
function nameFolders({ folders, layout, connection, listed }: Naming, refused: string): Targets {
  const rules: NameRules = {
    delimiter: connection.delimiter,
    prefix: connection.prefix,
    refused,
    specialUse: new Map(
      listed.flatMap(({ path, specialUse }) => (specialUse === null ? [] : [[specialUse, path]])),
    ),
  };
  const sources = [...folders.values()];
  const targets = new Map(targetFolders(sources, layout, rules).map((one) => [one.source, one]));
  const named = new Map<number, TargetFolder>();
  for (const [number, source] of folders) {
    const target = targets.get(source);
    if (target !== undefined) named.set(number, target);
  }
  return named;
}

/** What became of the folders. */
interface MadeFolders {
  readonly targets: Targets;
  /** Characters that the server refuses, as far as it has refused any. */
  readonly refused: string;
  /** The server's words, by folders that it takes under no name. */
  readonly failed: ReadonlyMap<number, string>;
  /** Paths of folders that were not there before. */
  readonly made: ReadonlySet<string>;
}

/** Why a folder was not created. */
interface Refusal {
  readonly words: string;
  readonly isOfName: boolean;
}

/** Response codes that are not about the characters of a name. */
const NOT_THE_NAME: ReadonlySet<string> = new Set(['NOPERM', 'OVERQUOTA', 'LIMIT', 'READ-ONLY']);

/**
 * Creates the folders that are missing, with those above them, and subscribes to them. No server says which characters
 * it refuses: they are tried one by one, and replaced in all names once one is known.
 */
async function createFolders(
  naming: Naming,
  plan: Pick<JournaledPlan, 'refused'>,
): Promise<MadeFolders> {
  const { connection, listed } = naming;
  const there = new Map(listed.map((folder) => [folder.path, folder]));
  const failed = new Map<number, string>();
  const made = new Set<string>();
  let { refused } = plan;
  let targets = nameFolders(naming, refused);
  const make = async (path: string): Promise<Refusal | null> => {
    const known = there.get(path);
    if (known?.selectable === true) {
      if (!known.subscribed) await connection.subscribe(path);
      return null;
    }
    try {
      if (await connection.create(path)) made.add(path);
    } catch (error) {
      if (!isRestoreError(error, 'restore-refused')) throw error;
      const { response, text } = error.facts;
      return { words: text, isOfName: response === null || !NOT_THE_NAME.has(response) };
    }
    there.set(path, { path, specialUse: null, subscribed: true, selectable: true });
    return null;
  };
  for (const number of naming.folders.keys()) {
    const path = targets.get(number)?.path ?? '';
    const refusal = await make(path);
    if (refusal === null) continue;
    const { words, isOfName } = refusal;
    let isMade = false;
    for (const trial of isOfName ? trials(path, words, connection.delimiter) : []) {
      const named = nameFolders(naming, refused + trial);
      const other = named.get(number)?.path;
      if (other === undefined || other === path || (await make(other)) !== null) continue;
      refused += trial;
      targets = named;
      isMade = true;
      break;
    }
    if (!isMade) failed.set(number, words);
  }
  // What was learned last may have given other names to folders before it.
  for (const [number, { path }] of targets) {
    const refusal = failed.has(number) ? null : await make(path);
    if (refusal !== null) failed.set(number, refusal.words);
  }
  return { targets, refused, failed, made };
}

/** Letters, digits, spaces and what every server takes. */
const ORDINARY = /[\p{L}\p{M}\p{N} _()-]/u;

/** Which characters to replace, likeliest first: the one that the server names, each other one, all of them, and all beyond ASCII. */
function trials(path: string, words: string, delimiter: string): string[] {
  const odd = [...new Set(path)].filter((char) => char !== delimiter && !ORDINARY.test(char));
  const [, named] = /'(.)'/u.exec(words) ?? [];
  const likely = named !== undefined && odd.includes(named) ? [named] : [];
  const wide = [...new Set(path)].filter((char) => char > '~');
  const all = odd.join('');
  return [...new Set([...likely, ...odd, all, [...new Set([...odd, ...wide])].join('')])].filter(
    (trial) => trial !== '',
  );
}

/** From here on a message is large, in bytes. */
const LARGE = 8 * 1024 * 1024;

/** Named messages beyond these are counted only. */
const MOST_NAMED = 10_000;

/**
 * Restores messages of an archive into mailboxes of an IMAP server: plans what goes where, sends what is not there, and
 * looks at it once it is. The journal and what the server has decide what is there, so a run that was interrupted at any
 * moment is continued by the same options. Memory does not grow with the number of messages, but for a folder that has
 * messages already.
 *
 * @throws restore-running, restore-several-mailboxes, restore-login-refused, restore-certificate, restore-unreachable:
 * nothing was sent
 */
export async function runRestore(options: RestoreOptions): Promise<RestoreResult> {
  const { target, dryRun, journal } = options;
  const release = dryRun ? undefined : journal?.hold(target, whatOf(options));
  const plan = new RestorePlan();
  try {
    return await new Restore(options, plan).run();
  } finally {
    plan.close();
    release?.();
  }
}

class Restore {
  readonly #lines: Line[] = [];
  readonly #looks: SecondLook[] = [];
  readonly #leftOut = { recent: 0, deleted: 0 };
  readonly #remade = new Map<number, number>();
  #journaled: JournaledPlan | undefined;
  #continued = false;
  #targets: Targets = new Map();
  #ended: MailkeepError | null = null;
  #rate: Rate | null = null;
  #connections = 1;
  #expected: RestoreResult['expected'] = { 'append-limit': 0, quota: 0 };

  constructor(
    private readonly options: RestoreOptions,
    private readonly plan: RestorePlan,
  ) {}

  async run(): Promise<RestoreResult> {
    const { options, plan } = this;
    const what = whatOf(options);
    if (!options.fresh) this.#journaled = options.journal?.unfinished(options.target, what);
    this.#continued = this.#journaled !== undefined;
    const selection = this.#continued
      ? { ...options.selection, asOf: this.#journaled?.asOf ?? null }
      : options.selection;
    choose(options.catalog, selection, plan);
    const layout = this.#layout();
    this.#rate = options.journal?.rateOf(options.target) ?? null;
    const line = this.#line();
    try {
      const connection = await line.open();
      const naming: Naming = {
        folders: plan.folders(),
        layout,
        connection,
        listed: await connection.list(),
      };
      const limits = {
        appendLimit: connection.appendLimit,
        quotaLeft: await connection.quotaLeft(),
      };
      if (options.dryRun) {
        this.#targets = nameFolders(naming, this.#journaled?.refused ?? '');
        const there = naming.listed.filter(({ selectable }) => selectable);
        const permanent = await this.#look(
          connection,
          new Set(there.map(({ path }) => path)),
          null,
        );
        this.#expected = this.#expect(limits);
        this.#expectAlterations(permanent);
      } else {
        this.#journaled ??= this.#begin(what, layout);
        await this.#carryOut(this.#journaled, naming, limits, line);
      }
      this.#checkAllCounted();
      return this.#result(selection.asOf, limits);
    } finally {
      await Promise.all(this.#lines.map((one) => one.close()));
    }
  }

  #line(): Line {
    const line = new Line(this.options);
    this.#lines.push(line);
    return line;
  }

  #layout(): Layout {
    const { destination, now } = this.options;
    const addresses = [...new Set([...this.plan.folders().values()].map(({ address }) => address))];
    if (destination.kind === 'in-place') {
      if (addresses.length > 1)
        throw restoreError('restore-several-mailboxes', { mailboxes: addresses });
      return { kind: 'in-place' };
    }
    // A mailbox that has come to the archive since must not move the folders of others.
    if (this.#journaled !== undefined) return this.#journaled.layout;
    const levels = levelsOf(destination, now());
    return { kind: 'below', levels, byAddress: addresses.length > 1 };
  }

  #begin(what: string, layout: Layout): JournaledPlan {
    const { target, journal, now, selection } = this.options;
    return journalOf(journal).begin(target, what, {
      startedAt: now(),
      layout,
      asOf: selection.asOf,
    });
  }

  /** Finds out what folders have already. Returns the PERMANENTFLAGS of each, by its number in the plan. */
  async #look(
    connection: ServerConnection,
    paths: ReadonlySet<string>,
    journal: PlanJournal | null,
  ): Promise<ReadonlyMap<number, readonly string[] | null>> {
    const { options, plan } = this;
    const permanent = new Map<number, readonly string[] | null>();
    const read = async (message: PlannedMessage) => {
      const form = await readForm(options.sources, message);
      return typeof form === 'string' ? undefined : form;
    };
    // Before a folder is selected, so that what comes late is seen.
    const openSince = journal?.openSince() ?? null;
    if (openSince !== null) await options.sleep(restOfUnknown(openSince, options.now()));
    for (const [folder, { path }] of this.#targets) {
      if (!paths.has(path) || options.signal.aborted) continue;
      options.onProgress?.({ step: 'looking', folder: path });
      try {
        const selected = await connection.select(path);
        permanent.set(folder, selected.permanentFlags);
        const deps = { plan, connection, journal, read };
        this.#remade.set(folder, await lookAtFolder(deps, folder, selected));
      } catch (error) {
        if (!isRestoreError(error, 'restore-refused')) throw error;
        plan.refuseFolder(folder, error.facts.text);
      }
    }
    return permanent;
  }

  /** Which messages the server will not have as they are, as far as that is known before any is read. */
  #expectAlterations(permanent: ReadonlyMap<number, readonly string[] | null>): void {
    const { plan } = this;
    for (const folder of plan.folders().keys())
      for (const message of plan.due(folder)) {
        const { altered } = fitMessage(message, permanent.get(folder) ?? null);
        if (altered.length > 0) plan.alter(message.seq, altered);
        countLeftOut(message.flags, this.#leftOut);
      }
  }

  /** How many messages the server will refuse by what it announces. */
  #expect(limits: RestoreResult['limits']): RestoreResult['expected'] {
    const verdicts = fitSizes([...this.plan.sizes()], limits);
    const count = (reason: string): number => verdicts.filter((one) => one === reason).length;
    return { 'append-limit': count('append-limit'), quota: count('quota') };
  }

  async #carryOut(
    journaled: JournaledPlan,
    naming: Naming,
    limits: RestoreResult['limits'],
    line: Line,
  ): Promise<void> {
    const { options, plan } = this;
    const journal = journalOf(options.journal);
    try {
      const { targets, refused, failed, made } = await createFolders(naming, journaled);
      this.#targets = targets;
      if (refused !== journaled.refused) journal.refuse(journaled, refused);
      for (const [folder, words] of failed) plan.refuseFolder(folder, words);
      const paths = [...targets]
        .filter(([folder, { path }]) => !failed.has(folder) && !made.has(path))
        .map(([, { path }]) => path);
      await this.#look(await line.open(), new Set(paths), journal.entriesOf(journaled));
      this.#expected = this.#expect(limits);
      await this.#send(journaled, failed, line);
    } catch (error) {
      if (!(error instanceof MailkeepError) || error.family !== 'origin') throw error;
      if (!options.signal.aborted) this.#ended = error;
    }
    // What the server may take another time, the same command sends again, to the same place.
    const { quota = 0, folder = 0, server = 0 } = plan.refusals();
    const isDone = this.#ended === null && !options.signal.aborted && quota + folder + server === 0;
    if (isDone) journal.finish(journaled, options.now());
  }

  /** Sends the folders, those with most bytes first; each connection takes the next one when it has done with one. */
  async #send(
    journaled: JournaledPlan,
    failed: ReadonlyMap<number, string>,
    first: Line,
  ): Promise<void> {
    const { options, plan } = this;
    const { jobs, signal } = options;
    const journal = journalOf(options.journal);
    const counts = plan.counts();
    const queue = [...this.#targets]
      .filter(([folder]) => !failed.has(folder) && this.#hasWork(counts.get(folder)))
      .toSorted(([a], [b]) => (counts.get(b)?.bytes ?? 0) - (counts.get(a)?.bytes ?? 0));
    const shared = this.#shared(journaled, [...counts.values()]);
    const startedAt = options.now();
    const work = async (line: Line): Promise<void> => {
      for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
        const [folder, { path }] = next;
        if (signal.aborted) return;
        const look = await new FolderRun(shared, line, folder, path).all();
        if (look !== undefined) this.#looks.push(look);
      }
    };
    const more = Array.from({ length: Math.min(jobs, queue.length) - 1 }, async () => {
      const line = this.#line();
      try {
        await line.open();
      } catch (error) {
        // Fewer connections do as well: servers limit them.
        if (error instanceof MailkeepError) return;
        throw error;
      }
      this.#connections += 1;
      await work(line);
    });
    const outcomes = await Promise.allSettled([work(first), ...more]);
    const elapsed = Math.max(1, options.now() - startedAt) / 1000;
    const { done, bytes } = this.#sent;
    if (done > 0 && bytes > 0) {
      this.#rate = { messagesPerSecond: done / elapsed, bytesPerSecond: bytes / elapsed };
      journal.measured(journaled, this.#rate);
    }
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason;
  }

  readonly #sent = { done: 0, bytes: 0 };

  /** Something is to be sent, or an earlier run has sent something that nobody has looked at since. */
  #hasWork(counts: { readonly due: number; readonly present: number } | undefined): boolean {
    if (counts === undefined) return false;
    return counts.due > 0 || (this.#continued && counts.present > 0);
  }

  #shared(journaled: JournaledPlan, counts: readonly { due: number; bytes: number }[]): SharedRun {
    const { options, plan } = this;
    const { now, onProgress } = options;
    const of = counts.reduce((sum, { due }) => sum + due, 0);
    const ofBytes = counts.reduce((sum, { bytes }) => sum + bytes, 0);
    const startedAt = now();
    const large = new Semaphore(1);
    return {
      ...options,
      plan,
      journal: journalOf(options.journal).entriesOf(journaled),
      read: (message) => readForm(options.sources, message),
      // One large message at a time, and any number of others.
      inTurn: (size, act) => (size < LARGE ? act() : large.run(act)),
      leftOut: this.#leftOut,
      quota: { floor: Number.POSITIVE_INFINITY },
      onSettled: (sent) => {
        this.#sent.done += 1;
        this.#sent.bytes += sent;
        const { done, bytes } = this.#sent;
        onProgress?.({ step: 'sending', done, of, bytes, ofBytes, elapsed: now() - startedAt });
      },
    };
  }

  /** Accounts for every message, by what was planned and by what became of it. */
  #checkAllCounted(): void {
    const { options, plan } = this;
    let accounted = 0;
    for (const { due, appended, present, refused } of plan.counts().values()) {
      const isOver = options.dryRun || options.signal.aborted || this.#ended !== null;
      accounted += appended + present + refused + (isOver ? due : 0);
    }
    if (accounted !== plan.added())
      throw restoreError('restore-incomplete', { planned: plan.added(), accounted });
  }

  #result(asOf: number | null, limits: RestoreResult['limits']): RestoreResult {
    const { options, plan } = this;
    const { number, hash } = options.catalog.reached();
    const total = { planned: 0, due: 0, appended: 0, present: 0, refused: 0, bytes: 0 };
    const counts = plan.counts();
    const folders = [...plan.folders()].map(([folder, { address, path }]) => {
      const of = counts.get(folder) ?? total;
      for (const key of ['planned', 'due', 'appended', 'present', 'refused', 'bytes'] as const)
        total[key] += of[key];
      const target = this.#targets.get(folder);
      return {
        mailbox: address,
        folder: path,
        to: target?.path ?? null,
        replaced: target?.replaced ?? false,
        numbered: target?.numbered ?? false,
        remade: this.#remade.get(folder) ?? 0,
        ...of,
      };
    });
    return {
      to: options.target,
      plan: this.#journaled?.number ?? null,
      continued: this.#continued,
      begun: this.#journaled === undefined ? null : isoTime(this.#journaled.startedAt),
      dryRun: options.dryRun,
      commit: { number, hash },
      asOf: asOf === null ? null : isoTime(asOf),
      folders,
      ...total,
      limits,
      expected: this.#expected,
      rate: this.#rate,
      refusals: plan.refusals(),
      failures: plan.refused(MOST_NAMED),
      altered: plan.alterations(),
      alterations: plan.altered(MOST_NAMED),
      leftOut: this.#leftOut,
      looked: {
        compared: sumOf(this.#looks, ({ compared }) => compared),
        fetched: sumOf(this.#looks, ({ fetched }) => fetched),
      },
      lost: this.#looks.flatMap(({ lost }) => lost),
      doubled: this.#looks.flatMap(({ doubled }) => doubled),
      connections: this.#connections,
      interrupted: options.signal.aborted,
      ended: this.#ended,
    };
  }
}

/** Only a dry run does without a journal. */
function journalOf(journal: RestoreJournal | undefined): RestoreJournal {
  if (journal === undefined) throw new Error('a restore needs its journal');
  return journal;
}

function isoTime(time: number): string {
  return new Date(time).toISOString();
}

function sumOf<T>(values: readonly T[], part: (value: T) => number): number {
  return values.reduce((sum, value) => sum + part(value), 0);
}

/** The journal's name of a selection and where it goes: the same command has the same one. */
function whatOf({ selection, destination }: RestoreOptions): string {
  const { query, mailboxes, folders, asOfText, deleted } = selection;
  const places = [[...mailboxes].sort(), [...folders].sort()];
  return JSON.stringify([query?.text ?? null, ...places, asOfText, deleted, destination]);
}

function levelsOf(
  destination: Exclude<Destination, { kind: 'in-place' }>,
  now: number,
): readonly string[] {
  if (destination.kind === 'into') return destination.levels;
  const day = new Date(now);
  const two = (value: number): string => String(value).padStart(2, '0');
  return ['Restored', `${day.getFullYear()}-${two(day.getMonth() + 1)}-${two(day.getDate())}`];
}
