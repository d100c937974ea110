import type { Orders } from './access/orders.ts';
import type { Tokens } from './access/tokens.ts';
import type { ServiceSettings } from './settings.ts';
import type { Store } from './store/store.ts';
import type { Webhooks } from './webhooks/webhooks.ts';

/** What the operations of all surfaces work on. */
export interface ServiceState {
  readonly store: Store;
  readonly tokens: Tokens;
  readonly orders: Orders;
  readonly webhooks: Webhooks;
  readonly settings: ServiceSettings;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Told of every failure that nobody asked for; the client only gets a 500. */
  readonly report: (error: unknown) => void;
}
