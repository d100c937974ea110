import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { openCatalog, type WritableCatalog } from '../../src/catalog/catalog.ts';
import type { Settings } from '../../src/core/config-schema.ts';
import { parseValue } from '../../src/core/state.ts';
import type { Origin } from '../../src/sync/ports.ts';
import type { SyncResult } from '../../src/sync/result.ts';
import { runSync, type SyncOptions } from '../../src/sync/run-sync.ts';

/** A clock that moves only on request. Timers fire when the clock is moved past them. */
export class FakeClock {
  time = Date.UTC(2026, 10, 20);
  #timers: { at: number; act: () => void }[] = [];

  now = (): number => this.time;

  after = (ms: number, act: () => void): (() => void) => {
    const timer = { at: this.time + ms, act };
    this.#timers.push(timer);
    return () => {
      this.#timers = this.#timers.filter((other) => other !== timer);
    };
  };

  advance(ms: number): void {
    this.time += ms;
    const due = this.#timers.filter(({ at }) => at <= this.time);
    this.#timers = this.#timers.filter(({ at }) => at > this.time);
    for (const { act } of due) act();
  }
}

export function memoryOf(
  kept = new Map<string, unknown>(),
): Parameters<typeof runSync>[0]['state'] {
  const name = (scope: string, key: string): string => `${scope}\n${key}`;
  return {
    get: (scope, key) => parseValue(scope, kept.get(name(scope, key))),
    set: (scope, key, value) => {
      if (value === null) kept.delete(name(scope, key));
      // As a file would: what is read back is a copy.
      else kept.set(name(scope, key), JSON.parse(JSON.stringify(value)));
    },
    entries: () => [],
    together: (act) => act(),
  };
}

type Order = Partial<Settings['sync']>;
export type ModelSync = Partial<SyncOptions> & Order & { readonly minFreeBytes?: () => number };

const EVERYTHING = { include: ['*'], exclude: [] };
export const WANTED = { mailboxes: EVERYTHING, folders: EVERYTHING };

/** Runs a manual sync, unless the options say otherwise, that fetches folder by folder and indexes nothing. */
export function syncModel(
  writer: Parameters<typeof runSync>[0],
  origin: Origin,
  { now, after }: Pick<FakeClock, 'now' | 'after'>,
  { order = 'newest', first = 'folders', minFreeBytes = () => 0, ...options }: ModelSync = {},
): Promise<SyncResult> {
  const settings = {
    sync: { order, first },
    get minFreeBytes() {
      return minFreeBytes();
    },
    rateLimit: { requestsPerMinute: 60, concurrency: 4 },
    brake: { maxEndedShare: 0.3, minMessages: 50, confirmAfterMs: 6 * 3_600_000 },
  };
  return runSync(writer, settings, {
    accounts: [{ name: 'main', origin, wanted: WANTED }],
    policy: { full: false, acceptEndings: false },
    indexing: { some: async () => 0, all: async () => {} },
    tidy: async () => [],
    requests: () => ({}),
    progress: () => {},
    signal: new AbortController().signal,
    ...{ now, after },
    ...options,
  });
}

/** An archive in a temporary folder, with its catalog, a memory and a clock, that passes can be run on. */
export class Archive {
  readonly dir = mkdtempSync(join(tmpdir(), 'mailkeep-sync-'));
  readonly clock = new FakeClock();
  memory = memoryOf();

  remove(): void {
    rmSync(this.dir, { recursive: true, force: true });
  }

  async reading<T>(act: (catalog: WritableCatalog) => T | Promise<T>): Promise<T> {
    const catalog = await openCatalog(this.dir);
    try {
      return await act(catalog);
    } finally {
      catalog.close();
    }
  }

  async sync(origin: Origin, options: ModelSync = {}): Promise<SyncResult> {
    const { dir, clock, memory } = this;
    const catalog = await openCatalog(dir);
    const log = await openLogWriter({ dir, now: clock.now, expected: catalog.reached() });
    try {
      return await syncModel({ log, catalog, dataDir: dir, state: memory }, origin, clock, options);
    } finally {
      await log.close();
      catalog.close();
    }
  }

  /** Every open place as `folder/uid`, with its flags and the hash of its bytes. */
  async places(): Promise<Map<string, { flags: readonly string[]; docid: number }>> {
    return this.reading((catalog) => {
      const places = new Map<string, { flags: readonly string[]; docid: number }>();
      for (const folder of catalog.folders.all()) {
        const { id, generation } = folder;
        for (const { uid, flags, docid } of catalog.places.open({ folder: id, generation })) {
          places.set(`${folder.folder}/${uid}`, { flags, docid });
        }
      }
      return places;
    });
  }
}
