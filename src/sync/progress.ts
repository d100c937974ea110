import type { Forecast } from './plan/forecast.ts';

/** What a pass reports while it runs. A listener prints or counts; it never throws and never waits. */
export type SyncProgress =
  /** Before anything is fetched, when more than a few new messages remain. */
  | { readonly event: 'forecast'; readonly account: string; readonly forecast: Forecast }
  | {
      readonly event: 'mailbox-started';
      readonly account: string;
      readonly address: string;
      /** Messages of this mailbox that remain to be fetched, by the folder listing. */
      readonly messages: number;
    }
  /** After each durable batch: running sums of one mailbox. `bytes` are raw source bytes. */
  | {
      readonly event: 'stored';
      readonly account: string;
      readonly address: string;
      readonly messages: number;
      readonly bytes: number;
    }
  | { readonly event: 'mailbox-finished'; readonly account: string; readonly address: string }
  /** After each request: all requests of the pass so far, and the rate in force. */
  | {
      readonly event: 'requests';
      readonly account: string;
      readonly requests: number;
      readonly perMinute: number;
    }
  /** The limiter makes the pass wait: until `until` (milliseconds since the epoch). */
  | {
      readonly event: 'waiting';
      readonly account: string;
      readonly until: number;
      readonly reason: 'rate' | 'retry-after' | 'paused';
    }
  | { readonly event: 'indexing'; readonly indexed: number; readonly remaining: number }
  | { readonly event: 'sealing'; readonly segment: number };

export type ProgressListener = (event: SyncProgress) => void;
