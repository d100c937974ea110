import { createHash } from 'node:crypto';
import { globSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Hono } from 'hono';
import { mailboxKey } from '../../src/core/state.ts';
import { randomFrom } from '../../src/sandbox/generated-mail.ts';
import { MAILBOX_OPERATIONS } from '../../src/service/mailbox-wire.ts';
import { archiveRoutes } from '../../src/web/app.tsx';
import { TOOLS } from '../../src/web/mcp-tools.ts';
import { START } from '../export/stored-archive.ts';
import { HOUR, OURS, POSITIONS, THEIRS, theirFile, theirs } from './equal-archives.ts';
import { type Answer, type Asked, idOf } from './served.ts';

/*
 * Each operation of each surface gets each kind of id that belongs to another mailbox, in each place where an id can be.
 * The operations, their parameters and the tools' arguments are those that the program has. See equal-archives.ts.
 */

export const HOST = 'mail.example.net';
const web = fileURLToPath(new URL('../../src/web/', import.meta.url));

const IDS = theirs.map(idOf);
const [MESSAGE = '', OTHER_MESSAGE = ''] = IDS;
const hash = (text: string): string => createHash('sha256').update(text).digest('hex');

/** What names something of another mailbox, by kind. */
const FOREIGN: Readonly<Record<string, readonly string[]>> = {
  message: [...IDS, idOf(theirFile)],
  'beginning of a message': [MESSAGE.slice(0, 8), OTHER_MESSAGE.slice(0, 4)],
  query: [`id:${MESSAGE}`, `thread:${MESSAGE}`, `NOT id:${OTHER_MESSAGE}`, 'in:Zebra', 'zebra'],
  'query by owner': [`mailbox:${THEIRS}`, 'account:zebra', 'from:zebra@example.org', '@zebra'],
  position: POSITIONS.flatMap((at) => [`@${at}`, `${at}-1`, String(at)]),
  file: [hash('the timetable of the ferry'), idOf(theirFile)],
  mailbox: [`AC-${THEIRS}`, THEIRS, mailboxKey({ host: HOST, mailbox: `AC-${THEIRS}` })],
  folder: ['Zebra', 'INBOX/Zebra'],
  uid: ['1', '2', '4', '1000', '1001', '1004'],
  moment: [0.5, 1.5, 2.5, 4.5].map((hours) => String(START + hours * HOUR)),
};

/** The addresses of pages and data, and the names of their parameters. */
function webSurface() {
  const app = new Hono();
  archiveRoutes(app as never, { archive: { dataDir: '' } } as never);
  const routes = app.routes.filter(({ method }) => method === 'GET').map((route) => route.path);
  const source = globSync('*.{ts,tsx}', { cwd: web })
    .map((name) => readFileSync(path.join(web, name), 'utf8'))
    .join('\n');
  const named = source.matchAll(/(?:parameter|req\.query)\('(\w+)'\)/g);
  return {
    // A stream of events does not end.
    routes: [...new Set(routes)].filter((route) => route !== '/api/events'),
    parameters: [...new Set([...named].map(([, name = '']) => name))].sort(),
  };
}

export const surface = webSurface();

export interface Call extends Asked {
  readonly target: string;
  readonly by: 'cookie' | 'token';
}

/** Calls by operation. */
type Calls = Generator<readonly [operation: string, call: Call]>;

function* pageCalls(value: string): Calls {
  const { routes, parameters } = surface;
  const encoded = encodeURIComponent(value);
  for (const route of routes) {
    const filled = (segment: string) => route.replace(/:\w+(?:\{[^}]*\}+)?/g, segment);
    if (filled('1') !== route) yield [route, { target: filled(encoded), by: 'cookie' }];
    for (const name of parameters)
      yield [route, { target: `${filled('1')}?${name}=${encoded}`, by: 'cookie' }];
  }
}

function* toolCalls(value: string): Calls {
  for (const { name, input } of TOOLS)
    for (const argument of Object.keys(input.shape)) {
      const args = { ...required(input.shape), [argument]: value };
      yield [name, rpc('tools/call', { name, arguments: args })];
    }
  yield ['resources/read', rpc('resources/read', { uri: `mail://${THEIRS}/${value}` })];
}

function* apiCalls(value: string): Calls {
  for (const { method, path: route } of Object.values(MAILBOX_OPERATIONS))
    for (const [, foreign] of route.matchAll(/\{(\w+)\}/g)) {
      const target = route.replace(/\{(\w+)\}/g, (_, name) =>
        name === foreign ? encodeURIComponent(value) : (OWN[name] ?? '1'),
      );
      const body = method === 'GET' ? {} : { body: JSON.stringify({ text: value, uid: value }) };
      yield [`${method} ${route}`, { target, method, by: 'token', headers: JSON_TYPE, ...body }];
    }
}

/** Returns some calls of each operation with each kind of id. @param ofEach calls of each operation with each kind */
export function chosenCalls(seed: number, ofEach: number): Call[] {
  const random = randomFrom(seed, 'foreign ids');
  return Object.values(FOREIGN).flatMap((values) => {
    const byOperation = new Map<string, Call[]>();
    for (const value of values)
      for (const calls of [pageCalls(value), toolCalls(value), apiCalls(value)])
        for (const [operation, call] of calls)
          byOperation.set(operation, [...(byOperation.get(operation) ?? []), call]);
    return [...byOperation.values()].flatMap((calls) =>
      Array.from({ length: ofEach }, () => calls[random.below(calls.length)]).flatMap(
        (call) => call ?? [],
      ),
    );
  });
}

const OWN: Readonly<Record<string, string>> = { mailboxResourceId: `AC-${OURS}`, folder: 'INBOX' };
const JSON_TYPE = { 'content-type': 'application/json' };

/** What a tool needs besides: a message of nobody. */
function required(shape: object): Record<string, unknown> {
  return {
    ...('id' in shape ? { id: 'e'.repeat(64) } : {}),
    ...('number' in shape ? { number: 1 } : {}),
    ...('by' in shape ? { by: 'from' } : {}),
  };
}

function rpc(method: string, params: object): Call {
  const headers = { ...JSON_TYPE, accept: 'application/json, text/event-stream' };
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
  return { target: '/mcp', method: 'POST', by: 'token', headers, body };
}

/** What an answer says, without where the archive is and what is random. @param places texts to replace */
export function plainAnswer(
  { status, headers, bytes }: Answer,
  places: Readonly<Record<string, string>>,
): string {
  const isText = /^(?:text|application\/json)/.test(headers['content-type'] ?? '');
  let text = bytes.toString(isText ? 'utf8' : 'base64');
  const marker = /⟦([0-9a-f]{24}) /.exec(text)?.[1] ?? 'no marker';
  for (const [found, name] of Object.entries(places)) text = text.replaceAll(found, name);
  const plain = text
    .replaceAll(marker, 'MARKER')
    .replace(/name="(?:token|id)" value="[^"]*"/g, 'FIELD')
    .replace(/"id":"[0-9a-f]{24}"/g, 'ID');
  return JSON.stringify([status, headers['content-type'], headers.location, plain]);
}
