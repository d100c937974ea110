import { isRestoreError } from '../errors/restore.ts';
import type { JournaledPlan } from './journal.ts';
import type { ServerConnection, ServerFolder } from './server.ts';
import {
  type Layout,
  type NameRules,
  type SourceFolder,
  type TargetFolder,
  targetFolders,
} from './target-folders.ts';

/** Where the folders of a plan go, by their numbers. */
export type Targets = ReadonlyMap<number, TargetFolder>;

/** What decides where folders go. */
export interface Naming {
  readonly folders: ReadonlyMap<number, SourceFolder>;
  readonly layout: Layout;
  readonly connection: Pick<ServerConnection, 'delimiter' | 'prefix' | 'create' | 'subscribe'>;
  readonly listed: readonly ServerFolder[];
}

/** Returns where folders go if the server refuses these characters in names. */
export function nameFolders(
  { folders, layout, connection, listed }: Naming,
  refused: string,
): Targets {
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
export interface MadeFolders {
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
export async function createFolders(
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
