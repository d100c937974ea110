import type { Fact } from '../archive/facts.ts';
import type { Place } from '../mail/words.ts';

/**
 * Tells which folder a path meant at each moment of the log. Facts name folders by the path they had then; a rename
 * moves a folder's places to another path, and what stood there before is another folder.
 */
export class FolderIdentities {
  readonly #folders = new Map<string, number>();
  #next = 1;

  /** To be told every fact in the order of the log. */
  tell(fact: Fact): void {
    if (fact.fact !== 'folder-renamed') return;
    const { host, mailbox, folder, to } = fact;
    const moved = this.#of(host, mailbox, folder);
    this.#folders.delete(text(host, mailbox, folder));
    this.#folders.set(text(host, mailbox, to), moved);
  }

  /** A key that stays the same through renames. */
  keyOf({ host, mailbox, folder, generation, uid }: Place): string {
    return `${this.#of(host, mailbox, folder)}/${generation}/${uid}`;
  }

  #of(host: string, mailbox: string, folder: string): number {
    const key = text(host, mailbox, folder);
    const known = this.#folders.get(key);
    if (known !== undefined) return known;
    this.#folders.set(key, this.#next);
    this.#next += 1;
    return this.#next - 1;
  }
}

function text(host: string, mailbox: string, folder: string): string {
  return `${host}\0${mailbox}\0${folder}`;
}
