import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import { endFleet, type Fleet, Node, Servers } from './nodes.ts';

interface TwoNodes {
  readonly servers: Servers;
  readonly fleet: Fleet;
  readonly a: Node;
  readonly b: Node;
}

/** Gives each test a fleet of its own with two nodes. */
export function twoNodes(take: (made: TwoNodes) => void): void {
  let servers: Servers;
  let made: TwoNodes | undefined;
  beforeAll(async () => {
    servers = await Servers.start();
  });
  beforeEach(async () => {
    const fleet = await servers.fleet();
    made = { servers, fleet, a: new Node('a', fleet), b: new Node('b', fleet) };
    take(made);
  });
  afterEach(async () => {
    await made?.a.close();
    await made?.b.close();
    if (made !== undefined) await endFleet(made.fleet);
    made = undefined;
  });
  afterAll(async () => {
    await servers?.stop();
  });
}
