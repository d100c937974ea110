import { hasCode, MailkeepError } from '../../../src/core/errors.ts';
import { makeChunk, storeChunk } from '../../../src/fleet/chunks.ts';
import type { Registry } from '../../../src/registry/registry.ts';
import { endSession } from '../../../src/registry/sessions.ts';
import { type Seeded, seeded } from '../../bench/seeded.ts';
import { type Cut, CuttingProxy } from '../../registry/servers/cutting-proxy.ts';
import { newSession } from '../../registry/servers/fleet.ts';
import type { Postgres } from '../../registry/servers/postgres.ts';
import { type FleetArchive, Node, patienceOf } from './fleet-archive.ts';

const COMMIT = 'INSERT INTO tail';
const ROLL = 'hot_segment = hot_segment + 1';
const RESOLVE = 'SET epoch = epoch + 1 WHERE';
const LOST: readonly Cut[] = ['before', 'after', 'held'];
/** Waits of an eighth of a second and more: requests to resolve are sent five times. */
const PATIENCE_MS = 1_500;

/** A node that wants to be the writer of an archive, and whose requests get lost. It believes what it was told last. */
export class Racer {
  readonly #random: Seeded;
  #session: string | undefined;
  #isHolding = false;

  private constructor(
    readonly proxy: CuttingProxy,
    readonly node: Node,
    private readonly archive: FleetArchive,
    private readonly place: {
      readonly name: string;
      readonly seed: number;
      readonly others: readonly Racer[];
    },
  ) {
    this.#random = seeded('fleet history', place.seed, place.name);
  }

  static async start(
    server: Postgres,
    database: string,
    archive: FleetArchive,
    place: Racer['place'],
  ): Promise<Racer> {
    const proxy = await CuttingProxy.start(server.socket);
    const registry = await server.open(database, {}, proxy.folder);
    // What is on its way may arrive while its sender waits.
    const late = seeded('fleet history, late', place.seed, place.name);
    const patience = patienceOf(PATIENCE_MS, async () => {
      if (late.below(3) === 0) await proxy.deliver();
    });
    return new Racer(proxy, new Node(registry, archive, patience), archive, place);
  }

  async act(steps: number): Promise<void> {
    for (let step = 0; step < steps; step += 1) {
      await this.#step();
      this.proxy.cutNothing();
    }
  }

  /** Becomes the holder for certain, once nobody else acts. */
  async takeAtLast(): Promise<void> {
    await this.bury();
    for (const other of this.place.others) await other.bury();
    this.#session = await newSession(this.#registry, `${this.place.name}-last`);
    if (!(await this.node.take(this.#session))) throw new Error('the archive cannot be claimed');
  }

  /** Ends the session, whatever it believes. */
  async bury(): Promise<void> {
    if (this.#session !== undefined) await endSession(this.#registry, this.#session);
  }

  async stop(): Promise<void> {
    await this.node.remove();
    await this.proxy.stop();
  }

  get #registry(): Registry {
    return this.archive.registry;
  }

  async #step(): Promise<void> {
    const draw = this.#random.below(100);
    if (!this.#isHolding) return this.#take();
    if (draw < 55) return this.#commit();
    if (draw < 65) return this.#roll();
    if (draw < 73) return this.#chunk();
    if (draw < 80) return this.#together();
    if (draw < 90) return this.proxy.deliver();
    if (draw < 95) return this.#buryAnother();
    return this.#reopen();
  }

  async #take(): Promise<void> {
    this.#session ??= await newSession(this.#registry, `${this.place.name}-${this.place.seed}`);
    this.#isHolding = await this.node.take(this.#session);
    // It is dead, or another one holds the archive, however busy it is.
    if (this.#isHolding || this.#random.below(12) > 0) return;
    await this.bury();
    this.#session = undefined;
    await this.#buryAnother();
  }

  /** All draws come before the first request, so that they do not depend on how long one takes. */
  async #together(): Promise<void> {
    await Promise.all([this.#chunk(), this.#commit()]);
  }

  async #commit(): Promise<void> {
    this.#cut(COMMIT);
    const isDelivered = this.#random.below(2) === 0;
    const told = await this.node.commit(1 + this.#random.below(3));
    if (told === 'fenced') await this.#drop();
    // What could be accepted late is so as long as nothing follows.
    if (told === 'failed' && isDelivered) await this.proxy.deliver();
  }

  async #roll(): Promise<void> {
    this.#cut(ROLL);
    try {
      await this.node.writer.rollIfLarger(1);
    } catch (error) {
      if (hasCode(error, 'log-fenced')) await this.#drop();
      else if (!hasCode(error, 'log-write-failed')) throw error;
    }
  }

  /** Loses a request and some of those that resolve it, or nothing. */
  #cut(text: string): void {
    if (this.#random.below(2) === 0) return;
    const how: readonly Cut[] = [...LOST, 'doubled'];
    this.proxy.cutNext(text, how[this.#random.below(how.length)] ?? 'after');
    for (let cuts = this.#random.below(7); cuts > 0; cuts -= 1) {
      this.proxy.cutNext(RESOLVE, LOST[this.#random.below(LOST.length)] ?? 'after');
    }
  }

  async #chunk(): Promise<void> {
    const { held } = this.node;
    const { hotSegment } = held.head;
    const segment = 1 + this.#random.below(hotSegment);
    const mostRawBytes = 1 + this.#random.below(20_000);
    const how = this.#random.below(2) === 0 ? 'before' : 'after';
    const isCut = this.#random.below(3) === 0;
    const content = await makeChunk(held, segment, mostRawBytes);
    if (content === undefined) return;
    if (isCut) this.proxy.cutNext('commit\0', how);
    try {
      // Refused where the lease is another by now; the next commit finds that out.
      await storeChunk(held, content, this.archive.uploadUnder(held));
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
    }
  }

  async #buryAnother(): Promise<void> {
    const others = this.place.others.filter((other) => other !== this);
    await others[this.#random.below(others.length)]?.bury();
  }

  /** The process ends, and another one opens the copy under the same lease. */
  async #reopen(): Promise<void> {
    if (this.#random.below(2) === 0) await this.node.open();
    else await this.#drop();
  }

  async #drop(): Promise<void> {
    await this.node.close();
    this.#isHolding = false;
    // Only a session that ended leaves an archive of which it does not know that it holds it.
    if (this.node.held.lostBy === 'lease') return;
    await this.bury();
    this.#session = undefined;
  }
}
