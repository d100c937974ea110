import type { Orders, Standings } from './access/account-panel.ts';
import type { Tokens } from './access/tokens.ts';
import type { RateWindow } from './http/request-rate.ts';
import type { ServiceSettings } from './settings.ts';
import type { Store } from './store/store.ts';
import type { Deliveries } from './webhooks/deliveries.ts';
import type { Webhooks } from './webhooks/webhooks.ts';

/** What the operations of all surfaces work on. */
export interface ServiceState {
  readonly store: Store;
  readonly tokens: Tokens;
  readonly orders: Orders;
  readonly standings: Standings;
  readonly webhooks: Webhooks;
  readonly deliveries: Deliveries;
  /** Test deliveries of the platform surface, by webhook. */
  readonly webhookTests: RateWindow;
  readonly settings: ServiceSettings;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Receives every unexpected failure; the client only gets a 500. */
  readonly report: (error: unknown) => void;
}
