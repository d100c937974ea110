/** Keys that a program chose; any other key (an address, a path, a number) is data. */
const CHOSEN_KEY = /^[A-Za-z_][A-Za-z0-9_-]*$/;

/** Collects the key paths of JSON values with their types. */
export class Shapes {
  readonly #types = new Map<string, Set<string>>();
  /** Objects seen at a path, and how many of them had each key. */
  readonly #objects = new Map<string, { count: number; readonly keys: Map<string, number> }>();
  readonly #maps: ReadonlySet<string>;
  readonly #opaque: ReadonlySet<string>;

  /**
   * @param maps paths of objects whose keys are data although they look chosen, such as names of operations
   * @param opaque paths of which only the type is noted: what is in them is recorded elsewhere, or follows no shape
   */
  constructor(maps: readonly string[] = [], opaque: readonly string[] = []) {
    this.#maps = new Set(maps);
    this.#opaque = new Set(opaque);
  }

  add(value: unknown, path = ''): void {
    this.#note(path, typeOf(value));
    if (this.#opaque.has(path)) return;
    if (Array.isArray(value)) for (const element of value) this.add(element, `${path}[]`);
    else if (typeof value === 'object' && value !== null) this.#addObject(value, path);
  }

  /** Returns types by path, such as `messages[].id` with `string`. A key that some objects lack is `|undefined`. */
  entries(): Record<string, string> {
    const entries: Record<string, string> = {};
    for (const [path, types] of this.#types) {
      const optional = this.#isOptional(path) ? ['undefined'] : [];
      entries[path === '' ? '(value)' : path] = [...[...types].sort(), ...optional].join('|');
    }
    return entries;
  }

  #addObject(value: object, path: string): void {
    const isMap = this.#maps.has(path) || Object.keys(value).some((key) => !CHOSEN_KEY.test(key));
    const known = this.#objects.get(path) ?? { count: 0, keys: new Map<string, number>() };
    this.#objects.set(path, known);
    known.count += 1;
    for (const [key, inner] of Object.entries(value)) {
      const name = isMap ? '*' : key;
      const at = path === '' ? name : `${path}.${name}`;
      known.keys.set(at, isMap ? known.count : (known.keys.get(at) ?? 0) + 1);
      this.add(inner, at);
    }
  }

  #isOptional(path: string): boolean {
    for (const { count, keys } of this.#objects.values()) {
      const had = keys.get(path);
      if (had !== undefined && !path.endsWith('*')) return had < count;
    }
    return false;
  }

  #note(path: string, type: string): void {
    const types = this.#types.get(path) ?? new Set();
    this.#types.set(path, types.add(type));
  }
}

function typeOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'array' : typeof value;
}
