import type { Store } from '../store/store.ts';
import { type Delivery, deliveryState } from './delivery.ts';

/** Finished deliveries that are remembered; the oldest go first. */
const DEFAULT_KEPT = 10_000;
const KIND = 'delivery';

/** Deliveries as the store keeps them: the ones under way, which a restart takes up again, and the finished ones. */
export class DeliveryLog {
  readonly #store: Store;
  readonly #kept: number;
  readonly #queued = new Map<string, Delivery>();
  /** In the order in which they ended. */
  readonly #finished = new Map<string, Delivery>();

  constructor(store: Store, kept = DEFAULT_KEPT) {
    this.#store = store;
    this.#kept = kept;
    for (const { body } of store.documents(KIND)) this.#hold(deliveryState.parse(body));
  }

  get queuedCount(): number {
    return this.#queued.size;
  }

  /** A delivery that is still under way. */
  getQueued(id: string): Delivery | null {
    return this.#queued.get(id) ?? null;
  }

  queued(): Delivery[] {
    return [...this.#queued.values()];
  }

  finished(): Delivery[] {
    return [...this.#finished.values()];
  }

  put(delivery: Delivery): void {
    this.#store.putDocument(KIND, delivery.id, delivery);
    this.#hold(delivery);
    for (const oldest of this.#finished.keys()) {
      if (this.#finished.size <= this.#kept) break;
      this.remove(oldest);
    }
  }

  remove(id: string): void {
    this.#store.removeDocument(KIND, id);
    this.#queued.delete(id);
    this.#finished.delete(id);
  }

  #hold(delivery: Delivery): void {
    this.#queued.delete(delivery.id);
    if (delivery.state === 'queued') this.#queued.set(delivery.id, delivery);
    else this.#finished.set(delivery.id, delivery);
  }
}
