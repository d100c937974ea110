import { existsSync, rmSync, statSync, truncateSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { openLogReader } from '../../src/archive/log-reader.ts';
import { carryOutPurges, encodeWork, mergeFolder } from '../../src/fleet/exclusive.ts';
import { CONTEXT, type Fleet, Node, withoutServers } from './servers/nodes.ts';
import { twoNodes } from './servers/two-nodes.ts';

const MAILBOX = { host: 'mail.example.org', mailbox: 'm1' };

describe.skipIf(withoutServers())('a folder that ran ahead', () => {
  let fleet: Fleet;
  let a: Node;
  let b: Node;

  twoNodes((made) => {
    ({ fleet, a, b } = made);
  });

  /** Node a ships three messages, stores others and dies; node b takes over. Returns the messages that only a has. */
  const runAhead = async (commits = 1): Promise<readonly string[]> => {
    await a.takeOver();
    await a.store();
    await a.ship();
    const shipped = await a.messages();
    await a.store(commits);
    const stored = await a.messages();
    await a.close();
    await a.lose();
    await b.takeOver();
    await b.store();
    await b.ship();
    // Some of the generated messages are the same.
    const known = new Set([...shipped, ...(await b.messages())]);
    return [...new Set(stored)].filter((id) => !known.has(id));
  };
  /** The messages of a node, with their places. */
  const placesAt = (node: Node, message: string) => {
    const docid = node.catalog.messages.docidOf(message);
    return docid === undefined ? undefined : node.catalog.ended.placesOf(docid);
  };

  test('is merged: its messages are there as deleted ones, and are shipped', async () => {
    const ahead = await runAhead(2);
    await b.close();
    await b.lose();
    expect((await a.takeOver()).aside).toHaveLength(1);
    expect(await a.merge()).toEqual([{ merged: ahead.length, purged: 0, damaged: 0 }]);
    const generation = -(a.claimed?.lease.epoch ?? 0);
    const uids = ahead.map((message) => {
      const [place, ...others] = placesAt(a, message) ?? [];
      expect(others).toEqual([]);
      expect(place).toMatchObject({ ...MAILBOX, folder: 'INBOX', generation });
      expect(place?.endedAt).not.toBeNull();
      return place?.uid;
    });
    expect(uids).toEqual(ahead.map((_, at) => at + 1));
    expect(await a.ship()).toBe('shipped');
    await a.lose();
    const c = new Node('c', fleet);
    await c.takeOver();
    const sources = openLogReader({ dir: c.dir, locator: c.catalog.locator });
    for (const message of ahead) expect(sources.readMessage(message).length).toBeGreaterThan(0);
    sources.close();
    await c.close();
  });

  test('is merged again after an interruption, and adds only what lacks', async () => {
    const ahead = await runAhead(2);
    await b.close();
    await b.lose();
    const {
      aside: [aside = ''],
    } = await a.takeOver();
    await a.close();
    const folders = { dir: a.dir, aside, generation: -7 };
    const stop = new AbortController();
    const purges = a.claimed?.purges ?? [];
    const interrupted = { ...CONTEXT, signal: stop.signal };
    stop.abort();
    await expect(mergeFolder(interrupted, folders, purges, Buffer.from)).rejects.toThrow();
    expect(await mergeFolder(CONTEXT, folders, purges, Buffer.from)).toMatchObject({
      merged: ahead.length,
    });
    const before = await a.commits();
    expect(await mergeFolder(CONTEXT, folders, purges, Buffer.from)).toMatchObject({ merged: 0 });
    expect(await a.commits()).toEqual(before);
    await a.startWriter();
    for (const message of ahead) expect(placesAt(a, message)).toHaveLength(1);
  });

  test('brings nothing back that was forgotten meanwhile', async () => {
    await a.takeOver();
    await a.store();
    await a.ship();
    const [shipped = ''] = await a.messages();
    await a.store();
    const ahead = (await a.messages()).at(-1) ?? '';
    await a.decide([shipped, ahead]);
    await a.close();
    await a.lose();
    // Node b has never seen one of the two.
    await b.takeOver();
    await b.store();
    for (const id of [shipped, ahead]) expect(b.catalog.messages.purgedFor(id)).toBe('forgotten');
    await b.ship();
    await b.close();
    await b.lose();
    expect((await a.takeOver()).aside).toHaveLength(1);
    expect(await a.merge()).toEqual([expect.objectContaining({ damaged: 0 })]);
    const messages = await a.messages();
    expect(messages).not.toContain(ahead);
    expect(messages).not.toContain(shipped);
  });

  test('brings no mailbox back that was forgotten meanwhile', async () => {
    const [ahead = ''] = await runAhead();
    await b.decide([], [MAILBOX]);
    const work = encodeWork({ messages: [], mailboxes: [MAILBOX] });
    await b.close();
    const purges = [{ number: 1, reason: 'forgotten', work } as const];
    expect(await carryOutPurges(CONTEXT, b.dir, purges, Buffer.from)).toBe(1);
    await b.startWriter();
    expect(await b.messages()).toEqual([]);
    expect(b.catalog.folders.mailboxes()).toEqual([]);
    await b.ship();
    await b.close();
    await b.lose();
    expect((await a.takeOver()).aside).toHaveLength(1);
    expect(a.claimed?.purges).toHaveLength(1);
    expect(await a.merge()).toEqual([expect.objectContaining({ merged: 0, damaged: 0 })]);
    expect(await a.messages()).not.toContain(ahead);
  });

  test('is merged as far as it can be read', async () => {
    const ahead = await runAhead(3);
    await b.close();
    await b.lose();
    const file = path.join(a.dir, 'log', '0000000001.1.seg');
    truncateSync(file, statSync(file).size - 700);
    expect((await a.takeOver()).aside).toHaveLength(1);
    const [result] = await a.merge();
    expect(result?.merged).toBeGreaterThanOrEqual(3);
    expect(result?.merged).toBeLessThan(ahead.length);
    expect(existsSync(`${a.dir}.aside-1`)).toBe(false);
    rmSync(a.dir, { recursive: true });
  });
});
