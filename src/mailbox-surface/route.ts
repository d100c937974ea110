/** A path with named segments: `/api/v1/mailboxes/:mailboxResourceId/quota`. */
export interface Routed {
  readonly method: string;
  readonly path: string;
}

/** Returns a path of the interface, such as `/folders/{folder}`, as one with named segments. */
export function routePath(path: string): string {
  return path.replace(/\{(\w+)\}/g, ':$1');
}

/** Parts a request target into its path, still percent-encoded, and its query. */
export function splitUrl(url = '/'): { readonly path: string; readonly query: URLSearchParams } {
  const mark = url.indexOf('?');
  return mark < 0
    ? { path: url, query: NO_QUERY }
    : { path: url.slice(0, mark), query: new URLSearchParams(url.slice(mark + 1)) };
}

const NO_QUERY = new URLSearchParams();

export type RouteMatch<T extends Routed> =
  | { readonly kind: 'found'; readonly route: T; readonly params: Readonly<Record<string, string>> }
  | { readonly kind: 'wrong-method'; readonly allowed: readonly string[] }
  | { readonly kind: 'unknown' };

interface Compiled<T> {
  readonly route: T;
  readonly segments: readonly string[];
}

/**
 * Finds the route of a method and a path. A literal segment wins over a named one, also when only the named
 * one knows the method: `GET …/messages/search` is a wrong method, not a message called "search".
 */
export class RouteTable<T extends Routed> {
  readonly #byLength = new Map<number, Compiled<T>[]>();

  constructor(routes: readonly T[]) {
    for (const route of routes) {
      const segments = route.path.split('/');
      const same = this.#byLength.get(segments.length) ?? [];
      same.push({ route, segments });
      this.#byLength.set(segments.length, same);
    }
    for (const same of this.#byLength.values()) {
      same.sort((a, b) => named(a.segments) - named(b.segments));
    }
  }

  /** @param path percent-encoded, without query */
  match(method: string, path: string): RouteMatch<T> {
    const segments = path.split('/');
    const allowed: string[] = [];
    let matchedNames = -1;
    for (const candidate of this.#byLength.get(segments.length) ?? []) {
      const names = named(candidate.segments);
      if (matchedNames >= 0 && names > matchedNames) break;
      if (!fits(candidate.segments, segments)) continue;
      if (candidate.route.method === method) {
        const params = bind(candidate.segments, segments);
        return { kind: 'found', route: candidate.route, params };
      }
      matchedNames = names;
      allowed.push(candidate.route.method);
    }
    return allowed.length > 0 ? { kind: 'wrong-method', allowed } : { kind: 'unknown' };
  }
}

function named(segments: readonly string[]): number {
  return segments.filter((segment) => segment.startsWith(':')).length;
}

function fits(pattern: readonly string[], segments: readonly string[]): boolean {
  for (let index = 0; index < pattern.length; index += 1) {
    const expected = pattern[index] ?? '';
    const found = segments[index] ?? '';
    if (expected.startsWith(':') ? found === '' : expected !== found) return false;
  }
  return true;
}

/**
 * Returns the values of the named segments. One that is not valid percent-encoding stays as it was sent: it names
 * nothing that exists, so its operation refuses it with a status that it declares.
 */
function bind(pattern: readonly string[], segments: readonly string[]): Record<string, string> {
  const params: Record<string, string> = {};
  for (let index = 0; index < pattern.length; index += 1) {
    const expected = pattern[index] ?? '';
    if (!expected.startsWith(':')) continue;
    const raw = segments[index] ?? '';
    params[expected.slice(1)] = raw.includes('%') ? decoded(raw) : raw;
  }
  return params;
}

function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch (error) {
    if (error instanceof URIError) return segment;
    throw error;
  }
}
