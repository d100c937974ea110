import type { z } from 'zod';
import { configError } from '../errors/config.ts';
import { nearest } from '../names/nearest.ts';
import { isLoopback, parseListen, withScheme } from './address.ts';
import { annotatedSchema, knownKeys, schemaAt } from './json-schema.ts';

/** A wrong field: where, what stood there (never a secret), what belongs there. */
export interface ConfigProblem {
  readonly path: string;
  /** Null for a field that should not be there; `expected` then lists those that may. */
  readonly found: string | null;
  readonly expected: string;
  /** The name or value that was probably meant. */
  readonly suggestion?: string | null;
}

type Path = readonly PropertyKey[];

/** Returns the error of a file with these problems. */
export function configInvalid(file: string, problems: readonly ConfigProblem[]): Error {
  return configError('config-invalid', {
    file,
    paths: problems.map((problem) => problem.path),
    found: problems.map((problem) => problem.found ?? ''),
    expected: problems.map((problem) => problem.expected),
    suggestions: problems.map((problem) => problem.suggestion ?? ''),
  });
}

/** Words every issue of the validation, in the order of the schema. `raw` is the parsed file. */
export function problemsOf(issues: readonly z.core.$ZodIssue[], raw: unknown): ConfigProblem[] {
  const schema = annotatedSchema();
  return issues.flatMap((issue): ConfigProblem[] => {
    if (issue.code === 'unrecognized_keys') {
      const known = knownKeys(schemaAt(schema, issue.path)).filter((key) => key !== '$schema');
      return issue.keys.map((key) => ({
        path: pathText([...issue.path, key]),
        found: null,
        expected: known.join(', '),
        suggestion: nearest(key, known),
      }));
    }
    const node = schemaAt(schema, issue.path);
    const typed = valueAt(raw, issue.path);
    const values = issue.code === 'invalid_value' ? issue.values.map(String) : [];
    return [
      {
        path: pathText(issue.path),
        found: describe(typed, issue.path),
        expected: node?.expected ?? issue.message,
        suggestion: typeof typed === 'string' ? meantValue(typed, values, issue.path) : null,
      },
    ];
  });
}

/** One of a closed set of values, or an address without its scheme. */
function meantValue(typed: string, values: readonly string[], path: Path): string | null {
  const [field] = path.slice(-1);
  return nearest(typed, values) ?? (field === 'baseUrl' ? withScheme(typed) : null);
}

/**
 * Returns problems that no single field shows: http outside this machine, two accounts of one name, two listeners
 * on one port, the web interface open to other machines without https, webhooks that would deliver nowhere. Reads the raw file, so that these are reported together with wrong fields.
 */
export function crossProblems(raw: unknown): ConfigProblem[] {
  return [
    ...plainHttp(raw),
    ...repeatedNames(raw),
    ...sharedPorts(raw),
    ...openWeb(raw),
    ...noUrl(raw),
  ];
}

function plainHttp(raw: unknown): ConfigProblem[] {
  const everywhere = valueAt(raw, ['insecure']) === true;
  return accountsOf(raw).flatMap((account, i) => {
    if (everywhere || valueAt(account, ['insecure']) === true) return [];
    return [['baseUrl'], ['platform', 'url']].flatMap((field) => {
      const text = valueAt(account, field);
      if (typeof text !== 'string' || !URL.canParse(text)) return [];
      const { protocol, hostname } = new URL(text);
      if (protocol !== 'http:' || isLoopback(hostname)) return [];
      const path = ['accounts', i, ...field];
      return {
        path: pathText(path),
        found: describe(text, path),
        expected: 'https, since this host is not this machine (or "insecure": true next to it)',
      };
    });
  });
}

function repeatedNames(raw: unknown): ConfigProblem[] {
  const names = accountsOf(raw).map((account) => valueAt(account, ['name']));
  return names.flatMap((name, i) =>
    typeof name === 'string' && names.indexOf(name) < i
      ? {
          path: pathText(['accounts', i, 'name']),
          found: JSON.stringify(name),
          expected: 'a name that no other account has',
        }
      : [],
  );
}

/** The daemon's listeners, and where each listens unless the file says otherwise. */
const LISTENERS = [
  ['webhook', '127.0.0.1:8025'],
  ['health', '127.0.0.1:8026'],
  ['web', '127.0.0.1:8027'],
] as const;

function listenAt(raw: unknown, [section, fallback]: (typeof LISTENERS)[number]) {
  const settings = valueAt(raw, [section]);
  if (settings === undefined || settings === null) return undefined;
  const text = valueAt(settings, ['listen']) ?? fallback;
  return typeof text === 'string' ? parseListen(text) : undefined;
}

function sharedPorts(raw: unknown): ConfigProblem[] {
  const ports = LISTENERS.map((listener) => listenAt(raw, listener)?.port);
  return LISTENERS.flatMap(([section], i) => {
    const port = ports[i];
    const first = port === undefined || port === 0 ? -1 : ports.indexOf(port);
    const other = LISTENERS[first]?.[0];
    if (first < 0 || first === i || other === undefined) return [];
    const why = other === 'webhook' ? ', which faces the internet' : '';
    return {
      path: `${section}.listen`,
      found: `port ${port}`,
      expected: `another port than ${other}.listen${why}`,
    };
  });
}

/** Mail is never served in clear to another machine. */
function openWeb(raw: unknown): ConfigProblem[] {
  const at = listenAt(raw, LISTENERS[2]);
  const publicUrl = valueAt(raw, ['web', 'publicUrl']) ?? null;
  if (at === undefined || isLoopback(at.host) || publicUrl !== null) return [];
  return [
    {
      path: 'web.listen',
      found: at.host,
      expected: '127.0.0.1, or the https address of a reverse proxy in web.publicUrl',
    },
  ];
}

/** The service has to be told where to deliver to. */
function noUrl(raw: unknown): ConfigProblem[] {
  if (valueAt(raw, ['fleet', 'createWebhooks']) !== true) return [];
  if (typeof valueAt(raw, ['webhook', 'publicUrl']) === 'string') return [];
  const expected = 'false, or the address of the receivers in webhook.publicUrl';
  return [{ path: 'fleet.createWebhooks', found: 'true', expected }];
}

function accountsOf(raw: unknown): readonly unknown[] {
  const accounts = valueAt(raw, ['accounts']);
  return Array.isArray(accounts) ? accounts : [];
}

/** Returns what stands at a path of the parsed file; undefined where nothing does. */
export function valueAt(raw: unknown, path: Path): unknown {
  let value: unknown = raw;
  for (const key of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = Reflect.get(value, key);
  }
  return value;
}

/** Fields whose text may be a secret, or hold one: it is never shown, whatever is wrong with it. */
const SECRET_FIELD = /token|secret|password|credential|registry$|^url$|^publicUrl$|^command$/i;
const SHOWN_CHARACTERS = 80;

function describe(value: unknown, path: Path): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  if (typeof value === 'object') return 'an object';
  if (typeof value !== 'string') return String(value);
  if (value === '') return 'an empty text';
  if (path.some((key) => SECRET_FIELD.test(String(key)))) return 'a text (not shown)';
  // The part before @ of an address may be a password.
  if (/^[a-z][a-z0-9+.-]*:/i.test(value) && value.includes('@')) {
    return 'an address with a user name or password (not shown)';
  }
  const bare = /^[a-z][a-z0-9+.-]*:\/\//i.test(value) ? value.replace(/[?#].*$/s, '') : value;
  return JSON.stringify(
    bare.length > SHOWN_CHARACTERS ? `${bare.slice(0, SHOWN_CHARACTERS)}…` : bare,
  );
}

/** Returns a path as `accounts[0].token.env`; the whole file is `(file)`. */
export function pathText(path: Path): string {
  const text = path
    .map((key) => (typeof key === 'number' ? `[${key}]` : `.${String(key)}`))
    .join('');
  return text === '' ? '(file)' : text.replace(/^\./, '');
}
