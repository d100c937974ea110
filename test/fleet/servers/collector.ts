import type { UploadingStore } from '../../../src/copies/object-store.ts';
import { condemnAbandoned, markGone, sweep, sweepAgain } from '../../../src/registry/collection.ts';
import { objectsToCollect, type WaitingObject } from '../../../src/registry/reading.ts';
import type { Registry } from '../../../src/registry/registry.ts';
import { signal } from '../../objects/store-contract.ts';
import { AT_ONCE } from '../../registry/servers/fleet.ts';

const MOST = 1_000;

/** What a collector does, with every upload taken for abandoned and nothing waited for. */
export class Collector {
  /** How often an object that was deleted was there when it was looked for again. */
  foundAgain = 0;

  /** @param atOnce asks for both removals at the same time, so that a slow gateway is met more often */
  constructor(
    private readonly registry: Registry,
    private readonly objects: UploadingStore,
    private readonly atOnce = false,
  ) {}

  /** Condemns what nobody finished, gives it up and deletes it. */
  async sweep(): Promise<void> {
    await this.remove(await this.condemn());
  }

  /** Condemns what nobody finished, and returns what there is to remove. */
  async condemn(): Promise<readonly WaitingObject[]> {
    const { registry } = this;
    await condemnAbandoned(registry, 0, MOST);
    const waiting = await objectsToCollect(registry, AT_ONCE, MOST);
    return waiting.filter(({ state }) => state === 'condemned');
  }

  /** Gives up and deletes what is condemned. */
  async remove(condemned: readonly WaitingObject[]): Promise<void> {
    for (const { key, uploadId } of condemned) {
      await this.#remove(key, uploadId);
      await sweep(this.registry, key);
    }
  }

  /** Looks again for what was swept, until nothing is left to do. */
  async settle(): Promise<void> {
    const { registry, objects } = this;
    for (;;) {
      const waiting = await objectsToCollect(registry, AT_ONCE, MOST);
      if (waiting.length === 0) return;
      for (const { key, uploadId, sweptAt } of waiting) {
        // A part that was on its way at the first time may have come afterwards.
        await objects.giveUpUpload({ name: key, uploadId }, signal);
        if ((await objects.head(key, signal)) === undefined) {
          await markGone(registry, key, sweptAt ?? '', 0);
          continue;
        }
        this.foundAgain += 1;
        await this.#remove(key, uploadId);
        await sweepAgain(registry, key, sweptAt ?? '');
      }
    }
  }

  async #remove(key: string, uploadId: string): Promise<void> {
    const givingUp = this.objects.giveUpUpload({ name: key, uploadId }, signal);
    if (!this.atOnce) await givingUp;
    await Promise.all([givingUp, this.objects.delete(key, signal)]);
  }
}
