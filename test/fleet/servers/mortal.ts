import { permutation, seeded } from '../../bench/seeded.ts';

/** At which of its acts a process is killed: before it was sent, or before its answer came. */
export interface Death {
  readonly act: number;
  readonly when: 'before' | 'after';
}

/** A process, as far as its servers can tell: what it asks of them is counted, and after its death it asks for nothing. */
export class Mortal {
  /** What it asked for since it was doomed, or since its beginning. */
  acts = 0;
  isDead = false;
  #death: Death | undefined;

  /** Counts from here on, and dies at that act, if it comes to it. */
  doom(death?: Death): void {
    this.acts = 0;
    this.#death = death;
  }

  /** Returns the same with these methods counted. */
  asked<T extends object>(target: T, methods: readonly (keyof T)[]): T {
    return new Proxy(target, {
      get: (of, name) => {
        const value: unknown = Reflect.get(of, name, of);
        if (typeof value !== 'function') return value;
        const bound: unknown = value.bind(of);
        if (typeof bound !== 'function' || !methods.some((method) => method === name)) return bound;
        return (...given: unknown[]) => {
          const asked = () => bound(...given);
          return name === 'get' ? this.#pieces(asked) : this.#asked(asked);
        };
      },
    });
  }

  async #asked(ask: () => Promise<unknown>): Promise<unknown> {
    this.#die('before');
    const answer = await ask();
    this.#die('after');
    return answer;
  }

  async *#pieces(ask: () => AsyncIterable<unknown>): AsyncGenerator<unknown> {
    this.#die('before');
    yield* ask();
    this.#die('after');
  }

  #die(when: Death['when']): void {
    if (when === 'before') this.acts += 1;
    if (this.acts === this.#death?.act && when === this.#death.when) this.isDead = true;
    if (this.isDead) throw new Error('killed');
  }
}

/**
 * Returns deaths at every act, before it and after it, or some of them.
 *
 * @param kills how many, or `all`
 */
export function chosenDeaths(acts: number, kills: string, seed: number): readonly Death[] {
  const all = Array.from({ length: acts }, (_, at) => at + 1).flatMap((act): Death[] => [
    { act, when: 'before' },
    { act, when: 'after' },
  ]);
  if (kills === 'all') return all;
  const random = seeded('kills', seed);
  return permutation(all.length, random)
    .slice(0, Number(kills))
    .flatMap((at) => all[at] ?? []);
}
