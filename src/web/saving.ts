import { accessSync, constants } from 'node:fs';
import { archiveError } from '../archive/errors.ts';
import { parseQuery } from '../catalog/parse-query.ts';
import {
  type SavedSearch,
  savedIn,
  savedSearches,
  saveIn,
  withSaved,
} from '../catalog/saved-searches.ts';
import { catalogError, usageError } from '../core/error-tables.ts';
import { errnoName, MailkeepError, sentenceOf } from '../core/errors.ts';
import { type StateFile, stateFile } from '../core/state.ts';
import { writableState } from './sessions.ts';

export interface Saving {
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

/** Saves a query under a name, like `search --save`: saved searches in it are expanded. */
export function saveFor(dataDir: string, { name, query, replace }: ToSave, now: number): Saving {
  const plain = name.replace(/^@/, '');
  return changed(dataDir, (state) => {
    const known = savedIn(state);
    const text = withSaved(query, () => known);
    parseQuery(text, { now });
    const before = known.find((search) => search.name === plain);
    if (before !== undefined && before.query !== text && !replace)
      throw usageError('usage-search-exists', { ...before });
    saveIn(state, 'Name', plain, text);
  });
}

export function forgetFor(dataDir: string, name: string): Saving {
  return changed(dataDir, (state) => {
    // Throws an error that suggests a similar name.
    withSaved(`@${name.replace(/^@/, '')}`, () => savedIn(state));
    saveIn(state, 'Name', name.replace(/^@/, ''), undefined);
  });
}

function changed(dataDir: string, change: (state: StateFile) => void): Saving {
  try {
    const state = writableState(dataDir);
    if (state === undefined) throw unwritable(dataDir);
    try {
      state.together(() => change(state));
      return { saved: savedIn(state), problem: null };
    } finally {
      state.close();
    }
  } catch (error) {
    if (!(error instanceof MailkeepError)) throw error;
    const { message, hint } = sentenceOf(error);
    const { name, query } = error.facts;
    const isTaken = error.code === 'usage-search-exists';
    const taken = isTaken ? { name: String(name), query: String(query) } : null;
    return {
      saved: savedSearches(dataDir),
      problem: { message, hint: isTaken ? null : hint, taken },
    };
  }
}

function unwritable(dataDir: string): MailkeepError {
  const file = stateFile(dataDir);
  for (const needed of [dataDir, file]) {
    try {
      accessSync(needed, constants.W_OK);
    } catch (error) {
      return archiveError('archive-unwritable', { file: needed, errno: errnoName(error) }, error);
    }
  }
  return catalogError('catalog-io', { file, reason: 'it is damaged or in use' });
}
