/** A node of the gateway tests as a process of its own. Its order is a line of JSON. */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { claim } from '../../../src/fleet/claims.ts';
import { startGateway } from '../../../src/fleet/gateway.ts';
import { openRegistry } from '../../../src/fleet/postgres.ts';
import { registryTarget } from '../../../src/fleet/postgres-target.ts';
import type { HeldShard } from '../../../src/fleet/relay.ts';
import { beginSession } from '../../../src/fleet/sessions.ts';
import { FLEET, KEYS, nameOf } from './gateways.ts';
import { DISK } from './scene.ts';

const order = z
  .object({
    registry: z.string(),
    node: z.string(),
    holds: z.array(z.object({ shard: z.int(), socket: z.string() })),
  })
  .parse(JSON.parse(process.argv[2] ?? ''));

const registry = await openRegistry(registryTarget(order.registry, {}));
const session = randomUUID();
const held = new Map<number, HeldShard>();
const anywhere = { host: '127.0.0.1', port: 0 };
const gateway = await startGateway({
  ...{ registry, session, fleet: FLEET, keys: KEYS, listen: anywhere, now: Date.now },
  web: { listen: anywhere, publicUrl: null },
  held: (shard) => held.get(shard),
  // The test sees what clients see.
  onError: () => undefined,
});
const { host, port } = gateway.address;
const place = { node: order.node, disk: DISK, address: `${host}:${port}` };
const facts = { session, ...place, room: 1000 };
await beginSession(registry, facts, 3_600_000);
for (const { shard, socket } of order.holds) {
  const outcome = await claim(registry, session, [shard]);
  if (outcome.outcome === 'refused') throw new Error(outcome.by);
  for (const { lease } of outcome.claimed)
    held.set(shard, { epoch: lease.epoch, socket: async () => socket, nameOf });
}
console.log(JSON.stringify({ url: gateway.url, session }));
process.stdin.resume();
process.stdin.once('end', () => process.exit(0));
