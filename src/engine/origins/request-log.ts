import type { RequestReport } from '../../api/exchange.ts';
import { MailkeepError } from '../../errors/mailkeep-error.ts';
import {
  REQUEST_DAYS,
  type RequestCount,
  requestKey,
  requestsOf,
  utcDay,
  utcDayBefore,
} from '../../state/measured.ts';
import type { StateFile } from '../../state/state-file.ts';

/** Counts are written this often at most, in milliseconds. */
const SAVE_EVERY_MS = 60_000;

type Memory = Pick<StateFile, 'get' | 'set' | 'entries' | 'together'>;

/**
 * Counts the requests of each gate by hour and status, and keeps the counts in the archive's state. A state that cannot
 * be written costs no request: the counts wait for the next time.
 */
export class RequestLog {
  /** What is not written yet, by key, hour and status. */
  readonly #counts = new Map<string, Map<string, RequestCount>>();
  #savedAt: number;
  #prunedOn = '';

  /** @param perMinute what the configuration allows */
  constructor(
    private readonly state: Memory,
    private readonly perMinute: number,
    private readonly now: () => number,
  ) {
    this.#savedAt = now();
  }

  /** @param account its name in the configuration */
  note(account: string, { host, surface, status }: RequestReport): void {
    const at = this.now();
    // The labels of gates, see `openClients`.
    const gate = `${host} ${surface === 'platform' ? `${account} platform` : account}`;
    const key = requestKey(utcDay(at), gate);
    const counts = this.#counts.get(key) ?? new Map<string, RequestCount>();
    this.#counts.set(key, counts);
    add(counts, { hour: new Date(at).getUTCHours(), status, requests: 1 });
    if (at - this.#savedAt >= SAVE_EVERY_MS || at < this.#savedAt) this.save();
  }

  /** Writes what was counted since the last time. */
  save(): void {
    const at = this.now();
    this.#savedAt = at;
    if (this.#counts.size === 0) return;
    try {
      this.state.together(() => this.#write(utcDay(at), utcDayBefore(at, REQUEST_DAYS)));
    } catch (error) {
      if (!(error instanceof MailkeepError)) throw error;
      return;
    }
    this.#counts.clear();
  }

  #write(today: string, oldest: string): void {
    for (const [key, counts] of this.#counts) {
      const all = new Map<string, RequestCount>();
      // Another process may have counted meanwhile.
      for (const known of this.state.get('requests', key)?.hours ?? []) add(all, known);
      for (const counted of counts.values()) add(all, counted);
      const hours = [...all.values()].sort((a, b) => a.hour - b.hour || a.status - b.status);
      this.state.set('requests', key, { perMinute: this.perMinute, hours });
    }
    if (this.#prunedOn === today) return;
    for (const { key } of this.state.entries('requests'))
      if (requestsOf(key).day < oldest) this.state.set('requests', key, null);
    this.#prunedOn = today;
  }
}

function add(counts: Map<string, RequestCount>, { hour, status, requests }: RequestCount): void {
  const key = `${hour} ${status}`;
  const known = counts.get(key)?.requests ?? 0;
  counts.set(key, { hour, status, requests: known + requests });
}
