import { accessSync, constants } from 'node:fs';
import { archiveError } from '../archive/errors.ts';
import { parseQuery } from '../catalog/parse-query.ts';
import {
  expandSaved,
  listSavedSearches,
  readSavedSearches,
  readSearchName,
  type SavedSearch,
  saveSearchIn,
} from '../catalog/saved-searches.ts';
import { catalogError, usageError } from '../core/error-tables.ts';
import { describeError, errnoName, MailkeepError } from '../core/errors.ts';
import { type StateFile, stateFile } from '../core/state.ts';
import { savedTerm } from '../core/text.ts';
import { writableState } from './sessions.ts';

export interface SaveResult {
  readonly saved: readonly SavedSearch[];
  readonly problem: {
    readonly message: string;
    readonly hint: string | null;
    readonly taken: SavedSearch | null;
  } | null;
}

interface ToSave {
  readonly name: string;
  readonly query: string;
  readonly replace: boolean;
}

/** Saves a query under a name, like `search --save`. Saved searches within it are expanded. */
export function saveSearchFor(
  dataDir: string,
  { name, query, replace }: ToSave,
  now: number,
): SaveResult {
  const plain = readSearchName(name);
  return changed(dataDir, (state) => {
    const known = listSavedSearches(state);
    const text = expandSaved(query, () => known);
    parseQuery(text, { now });
    const before = known.find((search) => search.name === plain);
    if (before !== undefined && before.query !== text && !replace)
      throw usageError('usage-search-exists', { ...before });
    saveSearchIn(state, 'Name', plain, text);
  });
}

export function forgetSearchFor(dataDir: string, typed: string): SaveResult {
  const name = readSearchName(typed);
  return changed(dataDir, (state) => {
    // Throws an error that suggests a similar name.
    expandSaved(savedTerm(name), () => listSavedSearches(state));
    saveSearchIn(state, 'Name', name, undefined);
  });
}

function changed(dataDir: string, change: (state: StateFile) => void): SaveResult {
  try {
    const state = writableState(dataDir);
    if (state === undefined) throw unwritable(dataDir);
    try {
      state.together(() => change(state));
      return { saved: listSavedSearches(state), problem: null };
    } finally {
      state.close();
    }
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    const { message, hint } = describeError(error);
    const { name, query } = error.facts;
    const isTaken = error.code === 'usage-search-exists';
    const taken = isTaken ? { name: String(name), query: String(query) } : null;
    return {
      saved: readSavedSearches(dataDir),
      problem: { message, hint: isTaken ? null : hint, taken },
    };
  }
}

function unwritable(dataDir: string): MailkeepError {
  const file = stateFile(dataDir);
  for (const target of [dataDir, file]) {
    try {
      accessSync(target, constants.W_OK);
    } catch (error) {
      return archiveError('archive-unwritable', { file: target, errno: errnoName(error) }, error);
    }
  }
  return catalogError('catalog-io', { file, reason: 'it is damaged or in use' });
}
