import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openLogWriter } from '../../src/archive/log-writer.ts';
import { openCatalog, type WritableCatalog } from '../../src/catalog/catalog.ts';
import { parseValue } from '../../src/core/state.ts';
import { catalogMirror } from '../../src/sync/mirror.ts';
import type { Memory, Origin } from '../../src/sync/ports.ts';
import { MANUAL_SYNC } from '../../src/sync/ports.ts';
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

export function memoryOf(kept = new Map<string, unknown>()): Memory {
  const name = (scope: string, key: string): string => `${scope}\n${key}`;
  return {
    get: (scope, key) => parseValue(scope, kept.get(name(scope, key))),
    set: (scope, key, value) => {
      if (value === null) kept.delete(name(scope, key));
      // As a file would: what is read back is a copy.
      else kept.set(name(scope, key), JSON.parse(JSON.stringify(value)));
    },
  };
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

  async sync(origin: Origin, options: Partial<SyncOptions> = {}): Promise<SyncResult> {
    const catalog = await openCatalog(this.dir);
    const reached = catalog.reached();
    const log = await openLogWriter({
      dir: this.dir,
      now: this.clock.now,
      expected: { number: reached.number, hash: reached.hash },
    });
    try {
      return await runSync({
        accounts: [
          {
            name: 'main',
            origin,
            wanted: {
              mailboxes: { include: ['*'], exclude: [] },
              folders: { include: ['*'], exclude: [] },
            },
          },
        ],
        order: 'newest',
        concurrency: 4,
        minFreeBytes: 0,
        policy: {
          ...MANUAL_SYNC,
          full: false,
          acceptEndings: false,
          brake: { maxEndedShare: 0.3, minMessages: 50 },
          confirmAfterMs: 6 * 3_600_000,
        },
        startedAtCommit: reached.number,
        log,
        mirror: catalogMirror(catalog),
        memory: this.memory,
        indexing: { some: async () => 0, all: async () => {} },
        tidy: async () => [],
        freeBytes: async () => Number.POSITIVE_INFINITY,
        requests: () => ({}),
        now: this.clock.now,
        after: this.clock.after,
        progress: () => {},
        signal: new AbortController().signal,
        ...options,
      });
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
