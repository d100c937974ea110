import { MailkeepError } from '../errors/mailkeep-error.ts';
import type { ObjectStore } from '../objects/store.ts';

/** Which version of each object is read: the newest, until that is found to be damaged or missing. */
export class ChosenVersions {
  readonly #chosen = new Map<string, string>();
  readonly #left = new Map<string, string[]>();

  constructor(
    private readonly store: ObjectStore,
    private readonly signal: AbortSignal,
  ) {}

  /** Undefined for the newest. */
  of(name: string): string | undefined {
    return this.#chosen.get(name);
  }

  /**
   * Chooses the next version of the object that an error is about. Returns false where there is none, or the error is not
   * about damage of an object.
   */
  async another(error: unknown): Promise<boolean> {
    const name = damagedObject(error);
    if (name === undefined) return false;
    const left = this.#left.get(name) ?? [...(await this.store.versions(name, this.signal))];
    const next = left.shift();
    this.#left.set(name, left);
    if (next === undefined) return false;
    this.#chosen.set(name, next);
    return true;
  }
}

function damagedObject(error: unknown): string | undefined {
  if (!(error instanceof MailkeepError) || error.family !== 'damage') return undefined;
  const { name } = error.facts;
  return typeof name === 'string' ? name : undefined;
}
