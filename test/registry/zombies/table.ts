import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import { addAccount, changeState } from '../../../src/registry/accounts.ts';
import { condemn, markGone, sweep, sweepAgain } from '../../../src/registry/collection.ts';
import { decidePurge, roll } from '../../../src/registry/commits.ts';
import { putSecret, saveMemory } from '../../../src/registry/fleet.ts';
import { askForget, settleForgets } from '../../../src/registry/forgets.ts';
import { leaveCache, release } from '../../../src/registry/leases.ts';
import { endPurge } from '../../../src/registry/purges.ts';
import { drainSession, strikeNode } from '../../../src/registry/sessions.ts';
import { coverSegment, putSnapshot, register } from '../../../src/registry/uploads.ts';
import { batchAfter, claimed, done, sha256 } from '../servers/fleet.ts';
import { IMPORT_ZOMBIES } from './imports.ts';
import {
  as,
  beginAgain,
  chunkOf,
  committedOne,
  decidedOne,
  ofLease,
  ofSession,
  onceReady,
  onlyToEnd,
  ready,
  rolledOnce,
  sent,
  sessionEnded,
  set,
  staleHead,
  staleObject,
  statement,
  states,
  type Zombie,
} from './kinds.ts';
import { FORGET, secretOf, type Transaction } from './scene.ts';

/** Transactions that nothing can refuse: what they do is right whoever sends them, and whenever. */
export const UNFENCED = {
  addArchive: 'adds a row of its own; a second one of that name changes nothing',
  addTenant: 'adds a row of its own',
  condemnAbandoned: 'condemns what is uploading only, which anybody may do at any time',
  drainNode: 'anybody may ask what lives to take nothing more, at any time',
  initFleet: 'the first one stays',
  markDead: 'compares the clock of the server with what the server stored',
  noteFailover: 'says what the server says of itself',
  removeSessions: 'removes what is dead and what no archive names',
} as const satisfies Partial<Record<Transaction, string>>;

/** Every transaction with those that are refused. One that is missing does not compile. */
export const ZOMBIES: Readonly<Record<Transaction, readonly Zombie[]>> = {
  addAccount: [
    as('the same account was added before', 'name', 'addAccount', sent('addAccount')),
    {
      zombie: 'the tenant has an account of that name',
      by: 'name',
      send: ({ registry }) => {
        const account = { tenant: 'tenant', name: 'anna', settings: {} };
        const log = { logId: Buffer.alloc(8, 1), genesis: Buffer.alloc(32) };
        return addAccount(registry, { ...account, ...log }, () => []);
      },
    },
  ],
  changeState: [
    as('it was changed since', 'state', 'changeState', sent('changeState')),
    {
      zombie: 'it is in another state',
      by: 'state',
      send: ({ registry, archive }) => changeState(registry, archive, ['paused'], 'active'),
    },
    {
      zombie: 'there is no such account',
      by: 'state',
      send: ({ registry, archive }) => changeState(registry, archive + 1, ['active'], 'paused'),
    },
  ],
  ...IMPORT_ZOMBIES,
  addArchive: [],
  addTenant: [],
  condemnAbandoned: [],
  drainNode: [],
  initFleet: [],
  markDead: [],
  noteFailover: [],
  removeSessions: [],
  commit: [...ofLease('commit'), ...staleHead('commit')],
  decidePurge: [...ofLease('decidePurge'), ...staleHead('decidePurge')],
  roll: [
    ...ofLease('roll'),
    as('another batch was committed since', 'head', 'roll', committedOne),
    as('the segment was closed already', 'head', 'roll', rolledOnce),
    {
      zombie: 'the segment is empty',
      by: 'head',
      before: rolledOnce,
      send: ({ registry, lease, head }) =>
        roll(registry, lease, { segment: 3, headHash: head.headHash }),
    },
  ],
  keepWebhook: ofLease('keepWebhook'),
  forgetWebhook: onceReady(
    ({ send, lease }) => send.keepWebhook(lease).then(done),
    ofLease('forgetWebhook'),
  ),
  resolve: ofLease('resolve'),
  release: ofLease('release'),
  register: [
    ...ofLease('register'),
    as('a purge was decided since', 'purges', 'register', decidedOne),
    ...['c/ready', 'catalog/first', 'c/condemned', 'c/swept', 'c/gone'].map(
      (key): Zombie => ({
        zombie: `the key ${key} was used before`,
        by: 'object',
        send: ({ registry, lease }) =>
          register(registry, lease, { key, kind: 'chunk', uploadId: 'new', purges: 0 }),
      }),
    ),
  ],
  coverChunk: [
    ...ofLease('coverChunk'),
    ...staleObject('coverChunk', 'c/ready'),
    as('the same cover came before', 'object', 'coverChunk', sent('coverChunk')),
    as('a purge condemned what was uploading', 'object', 'coverChunk', decidedOne),
    {
      zombie: 'a purge concerns a commit of the range',
      by: 'bytes',
      before: async ({ registry, lease, head }) => {
        const purge = { commits: [4], records: [] };
        done(await decidePurge(registry, lease, batchAfter(head), purge));
        const upload = { key: 'c/since', kind: 'chunk', uploadId: 'u', purges: 1 } as const;
        done(await register(registry, lease, upload));
      },
      send: (scene) => chunkOf(scene, 'c/since', 3, 4),
    },
    as('another chunk covered a part of the range since', 'range', 'coverChunk', (scene) =>
      chunkOf(scene, 'c/left', 4, 5).then(done),
    ),
    ...(
      [
        ['ends beyond the head', 3, 6],
        ['begins before the first commit', 0, 3],
        ['begins in the segment before', 2, 3],
      ] as const
    ).map(
      ([zombie, first, last]): Zombie => ({
        zombie: `the range ${zombie}`,
        by: 'range',
        send: (scene) => chunkOf(scene, 'c/ready', first, last),
      }),
    ),
    {
      zombie: 'the last commit is another',
      by: 'range',
      send: (scene) => chunkOf(scene, 'c/ready', 3, 4, sha256('another')),
    },
  ],
  coverSegment: [
    ...ofLease('coverSegment'),
    ...staleObject('coverSegment', 's/ready'),
    as('the same cover came before', 'object', 'coverSegment', sent('coverSegment')),
    as('a purge condemned what was uploading', 'object', 'coverSegment', decidedOne),
    ...(
      [
        ['the segment is appended to', 'segment', 2, 3, 5],
        ['not all of the segment is in the range', 'range', 1, 1, 1],
        ['more than the segment is in the range', 'range', 1, 1, 6],
        ['the range continues in the next segment', 'range', 1, 1, 3],
      ] as const
    ).map(
      ([zombie, by, segment, first, last]): Zombie => ({
        zombie,
        by,
        send: ({ registry, lease }) =>
          coverSegment(registry, lease, ready('s/ready'), {
            ...{ first, last, lastHash: sha256(`batch ${last}`) },
            ...{ segment, generation: 2, at: 64 },
          }),
      }),
    ),
    {
      zombie: 'the same generation was covered since',
      by: 'range',
      before: async (scene) => {
        await sent('coverSegment')(scene);
        const upload = { key: 's/again', kind: 'sealed', uploadId: 'u', purges: 0 } as const;
        done(await register(scene.registry, scene.lease, upload));
      },
      send: ({ registry, lease }) =>
        coverSegment(registry, lease, ready('s/again'), {
          ...{ first: 1, last: 2, lastHash: sha256('batch 2') },
          ...{ segment: 1, generation: 2, at: 64 },
        }),
    },
  ],
  putSnapshot: [
    ...ofLease('putSnapshot'),
    ...staleObject('putSnapshot', 'catalog/ready'),
    as('the same snapshot came before', 'object', 'putSnapshot', sent('putSnapshot')),
    as('a purge condemned what was uploading', 'object', 'putSnapshot', decidedOne),
    {
      zombie: 'its commit is beyond the head',
      by: 'head',
      send: ({ registry, lease }) =>
        putSnapshot(registry, lease, ready('catalog/ready'), {
          ...{ number: 6, hash: sha256('batch 6'), catalogVersion: 1 },
        }),
    },
  ],
  endPurge: onceReady(onlyToEnd, [
    ...ofLease('endPurge'),
    as('it has ended', 'purges', 'endPurge', sent('endPurge')),
    {
      zombie: 'there is no such purge',
      by: 'purges',
      send: ({ registry, lease }) => endPurge(registry, lease, 2),
    },
    ...(['uploading', 'condemned', 'swept'] as const).map((state) =>
      as(`an object from before is ${state}`, 'bytes', 'endPurge', set('c/ready', state)),
    ),
    as('a purged commit is in the tail', 'bytes', 'endPurge', (scene) =>
      statement(scene, sql`UPDATE purge SET commits = ARRAY[2, 5]`),
    ),
    as('an object from before covers a purged commit', 'bytes', 'endPurge', (scene) =>
      statement(scene, sql`UPDATE object SET purges = 0 WHERE key = 's/purged'`),
    ),
    as('a snapshot is from before', 'bytes', 'endPurge', (scene) =>
      statement(
        scene,
        sql`INSERT INTO snapshot SELECT archive, key, 1, '', 1 FROM object WHERE key = 'c/ready'`,
      ),
    ),
    as('what the archive remembers is from before', 'bytes', 'endPurge', ({ archive, ...scene }) =>
      statement(scene, sql`INSERT INTO memory VALUES (${archive}, 1, 0, 'memory')`),
    ),
    as('another node may have a copy', 'bytes', 'endPurge', ({ archive, ...scene }) =>
      statement(scene, sql`INSERT INTO cache VALUES (${archive}, 'c', ${randomUUID()})`),
    ),
  ]),
  askForget: [
    as('the account left the fleet since', 'state', 'askForget', ({ archive, ...scene }) =>
      statement(scene, sql`UPDATE archive SET state = 'leaving' WHERE id = ${archive}`),
    ),
    {
      zombie: 'its archive is being imported',
      by: 'state',
      send: ({ registry, importer: { archive } }) => askForget(registry, { ...FORGET, archive }),
    },
    {
      zombie: 'there is no such account',
      by: 'state',
      send: ({ registry }) => askForget(registry, { ...FORGET, archive: 99 }),
    },
  ],
  settleForgets: onceReady(sent('askForget'), [
    ...ofLease('settleForgets'),
    as('it was settled before', 'purges', 'settleForgets', sent('settleForgets')),
    {
      zombie: 'there is no such request',
      by: 'purges',
      send: ({ registry, lease }) => settleForgets(registry, lease, [randomUUID()]),
    },
    as('the request is of another archive', 'purges', 'settleForgets', (scene) =>
      statement(scene, sql`UPDATE forget SET archive = archive + 1`),
    ),
  ]),
  enterCache: [
    ...ofLease('enterCache'),
    as('its session is dead', 'session', 'enterCache', sessionEnded),
  ],
  saveMemory: [
    ...ofLease('saveMemory'),
    as('a purge was decided since', 'purges', 'saveMemory', decidedOne),
    as('a newer one was saved since', 'head', 'saveMemory', ({ registry, lease }) =>
      saveMemory(registry, lease, { number: 5, bytes: Buffer.from('newer'), purges: 0 }).then(done),
    ),
    {
      zombie: 'its commit is beyond the head',
      by: 'head',
      send: ({ registry, lease }) =>
        saveMemory(registry, lease, { number: 6, bytes: Buffer.from('memory'), purges: 0 }),
    },
  ],
  claim: onceReady(
    ({ registry, lease }) => release(registry, lease),
    [
      ...ofSession('claim'),
      as('its session drains', 'session', 'claim', ({ registry, lease }) =>
        drainSession(registry, lease.session).then(done),
      ),
    ],
  ),
  renew: ofSession('renew'),
  drainSession: ofSession('drainSession'),
  endSession: ofSession('endSession'),
  beginSession: [
    {
      zombie: 'a session of that name lives',
      by: 'session',
      send: ({ registry, lease }) => beginAgain(registry, lease.session),
    },
    {
      zombie: 'a session of that name is dead',
      by: 'session',
      before: sessionEnded,
      send: ({ registry, lease }) => beginAgain(registry, lease.session),
    },
  ],
  strikeNode: [
    {
      zombie: 'a session of the node lives',
      by: 'session',
      // The node of the positive case has a row, and no session.
      ready: ({ archive, ...scene }) =>
        statement(scene, sql`INSERT INTO cache VALUES (${archive}, 'c', ${randomUUID()})`),
      send: ({ registry }) => strikeNode(registry, 'a'),
    },
  ],
  leaveCache: [
    as('the node claimed again since', 'entry', 'leaveCache', async (scene) => {
      done(await release(scene.registry, scene.lease));
      await claimed(scene.registry, scene.other, scene.archive);
    }),
    as('it left already', 'entry', 'leaveCache', sent('leaveCache')),
    {
      zombie: 'the entry is of another node',
      by: 'entry',
      send: ({ registry, archive, entry }) => leaveCache(registry, { archive, node: 'a', entry }),
    },
  ],
  condemn: states(['catalog/first', 'c/condemned', 'c/swept', 'c/gone', 'unknown'], condemn),
  sweep: states(['c/ready', 'catalog/first', 'c/swept', 'c/gone', 'unknown'], sweep),
  sweepAgain: [
    ...states(
      ['c/ready', 'catalog/first', 'c/condemned', 'c/gone', 'unknown'],
      (registry, key, { sweptAt }) => sweepAgain(registry, key, sweptAt),
    ),
    as('somebody swept again since', 'object', 'sweepAgain', sent('sweepAgain')),
  ],
  markGone: [
    ...states(
      ['c/ready', 'catalog/first', 'c/condemned', 'c/gone', 'unknown'],
      (registry, key, { sweptAt }) => markGone(registry, key, sweptAt, 0),
    ),
    as('somebody swept again since', 'object', 'markGone', sent('sweepAgain')),
    {
      zombie: 'it has not settled',
      by: 'object',
      send: ({ registry, sweptAt }) => markGone(registry, 'c/swept', sweptAt, 3_600_000),
    },
  ],
  putSecret: [
    as('it was replaced since', 'key', 'putSecret', ({ registry, archive }) =>
      statement(
        { registry },
        sql`UPDATE secret SET nonce = ${Buffer.alloc(12, 9)} WHERE archive = ${archive}`,
      ),
    ),
    {
      zombie: 'there is one already',
      by: 'key',
      send: ({ registry, archive }) =>
        putSecret(registry, secretOf(archive, Buffer.alloc(12, 3)), null),
    },
  ],
};
