import {
  chmodSync,
  chownSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import { configFileText, isPiped } from './config-file.ts';
import { configError } from './error-tables.ts';
import { errnoName } from './errors.ts';
import { syncFolder } from './files.ts';

/** Fields of an account's `imap` section to set. */
export type ImapChanges = Readonly<
  Record<string, string | number | Readonly<Record<string, string>>>
>;

interface ConfigContent {
  readonly accounts: readonly { readonly name: string; readonly imap: Record<string, unknown> }[];
}

/**
 * Returns the text of a configuration with an account's `imap` section changed, and everything else as it was: order,
 * indentation and line breaks. A new field follows `host` in the same style. If the text is written in an unusual way,
 * the whole file is reformatted.
 *
 * @param text a valid configuration in which the account has `imap`
 */
export function editImapAccount(text: string, account: string, changes: ImapChanges): string {
  return Object.entries(changes).reduce((current, [field, value]) => {
    const wanted = JSON.parse(current) as ConfigContent;
    const section = wanted.accounts.find(({ name }) => name === account)?.imap;
    if (section === undefined) throw new Error('an account without an imap section');
    const isNew = !(field in section);
    section[field] = value;
    // A host or user can occur several times, so each place is tried until the result is the wanted one.
    for (const candidate of candidates(current, field, JSON.stringify(value), isNew)) {
      if (hasContent(candidate, wanted)) return candidate;
    }
    const [, indent = '  '] = /^\{\r?\n([ \t]+)/.exec(current) ?? [];
    return `${JSON.stringify(wanted, null, indent)}\n`;
  }, text);
}

const NAME = /"(\w+)"(\s{0,99}:\s{0,99})/g;
/** A string, an object without objects within it, a number or a word. */
const VALUE = /"(?:[^"\\]|\\.)*"|\{[^{}]*\}|[-\w.]+/y;

function* candidates(text: string, field: string, value: string, isNew: boolean) {
  for (const { index, 0: name, 1: found, 2: colon = '' } of text.matchAll(NAME)) {
    VALUE.lastIndex = index + name.length;
    const [old] = VALUE.exec(text) ?? [];
    if (old === undefined || found !== (isNew ? 'host' : field)) continue;
    const before = text.slice(0, index);
    const space = before.slice(before.trimEnd().length) || ' ';
    const replacement = isNew
      ? `${name}${old},${space}"${field}"${colon}${value}`
      : `${name}${value}`;
    yield before + replacement + text.slice(index + name.length + old.length);
  }
}

function hasContent(text: string, wanted: unknown): boolean {
  try {
    return isDeepStrictEqual(JSON.parse(text), wanted);
  } catch {
    return false;
  }
}

/**
 * A new text for a configuration file, in a temporary file next to it until it replaces the old one. The caller removes
 * it.
 */
export class ConfigDraft {
  /** The temporary file. */
  readonly #file: string;
  readonly #target: string;

  /** @throws config-not-editable */
  constructor(
    private readonly config: string,
    private readonly before: string,
  ) {
    if (isPiped(config)) throw configError('config-not-editable', { file: config, reason: 'pipe' });
    // A link stays a link.
    this.#target = realpathSync(config);
    this.#file = `${this.#target}.${process.pid}.tmp`;
  }

  /** @throws config-not-editable */
  write(text: string): void {
    this.#tried(() => {
      rmSync(this.#file, { force: true });
      writeFileSync(this.#file, text, { mode: 0o600, flag: 'wx', flush: true });
    });
  }

  /**
   * Replaces the configuration, atomically and durably, and keeps its owner and permissions.
   *
   * @throws config-not-editable, also if somebody has changed the file meanwhile
   */
  replace(): void {
    const { config } = this;
    if (configFileText(config) !== this.before) {
      throw configError('config-not-editable', { file: config, reason: 'changed' });
    }
    this.#tried(() => {
      const { mode, uid, gid } = statSync(this.#target);
      const own = statSync(this.#file);
      if (own.uid !== uid || own.gid !== gid) chownSync(this.#file, uid, gid);
      chmodSync(this.#file, mode & 0o777);
      renameSync(this.#file, this.#target);
      syncFolder(path.dirname(this.#target));
    });
  }

  remove(): void {
    rmSync(this.#file, { force: true });
  }

  #tried(act: () => void): void {
    try {
      act();
    } catch (error) {
      const facts = { file: this.config, reason: errnoName(error) };
      throw configError('config-not-editable', facts, error);
    }
  }
}
