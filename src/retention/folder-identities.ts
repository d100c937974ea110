import type { Fact } from '../archive/format/facts.ts';
import type { Place } from '../mail/words.ts';

/**
 * Tells which folder a path meant at each moment of the log. Facts name folders by the path they had then; a rename
 * moves a folder's places to another path, and what stood there before is another folder.
 *
 * A key depends on nothing but the renames told until then: two readings of a log, which ask about other places, give
 * the same keys.
 */
export class FolderIdentities {
  /** Where renames led: the folder that a path means now. */
  readonly #renamed = new Map<string, string>();
  /** How often a folder was renamed away from a path: the next one of that name is another. */
  readonly #left = new Map<string, number>();

  /** To be told every fact in the order of the log. */
  tell(fact: Fact): void {
    if (fact.fact !== 'folder-renamed') return;
    const { host, mailbox, folder, to } = fact;
    const from = text(host, mailbox, folder);
    const moved = this.#of(from);
    this.#renamed.delete(from);
    this.#left.set(from, (this.#left.get(from) ?? 0) + 1);
    this.#renamed.set(text(host, mailbox, to), moved);
  }

  /** A key that stays the same through renames. */
  keyOf({ host, mailbox, folder, generation, uid }: Place): string {
    return `${this.#of(text(host, mailbox, folder))}/${generation}/${uid}`;
  }

  #of(path: string): string {
    return this.#renamed.get(path) ?? `${path}\0${this.#left.get(path) ?? 0}`;
  }
}

function text(host: string, mailbox: string, folder: string): string {
  return `${host}\0${mailbox}\0${folder}`;
}
