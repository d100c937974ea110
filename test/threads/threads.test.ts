import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { ThreadEnded } from '../../src/core/error-tables.ts';
import { hasCode, MailkeepError } from '../../src/core/errors.ts';
import { PieceFeed, postPiece } from '../../src/core/in-thread.ts';
import { JobPool, WorkerThread } from '../../src/core/worker-thread.ts';
import { buildWorker } from '../mime/built-worker.ts';
import type { Answer, Order } from './obedient-worker.ts';

let file: URL;
beforeAll(async () => {
  file = await buildWorker('test/threads/obedient-worker.ts');
});

/** A thread whose answers and end can be awaited. */
class Started {
  readonly answers: Answer[] = [];
  readonly ended: Promise<ThreadEnded>;
  readonly thread: WorkerThread<Order, Answer>;
  ends = 0;
  #next: (() => void) | null = null;

  constructor(settings: {
    file?: URL;
    heap?: { oldGenerationMb: number; youngGenerationMb: number };
  }) {
    let end: (ended: ThreadEnded) => void;
    this.ended = new Promise((resolve) => {
      end = resolve;
    });
    this.thread = new WorkerThread<Order, Answer>(
      { name: 'test-thread', file, data: { mode: 'orders' }, silent: true, ...settings },
      {
        message: (answer) => {
          this.answers.push(answer);
          this.#next?.();
        },
        ended: (ended) => {
          this.ends += 1;
          end(ended);
        },
      },
    );
  }

  async answer(): Promise<Answer | undefined> {
    if (this.answers.length === 0) {
      await new Promise<void>((resolve) => {
        this.#next = resolve;
      });
    }
    return this.answers.shift();
  }
}

const open: { end(): Promise<void> }[] = [];
function start(settings: ConstructorParameters<typeof Started>[0] = {}): Started {
  const started = new Started(settings);
  open.push(started.thread);
  return started;
}
afterEach(async () => {
  await Promise.all(open.splice(0).map((thread) => thread.end()));
});

/** A worker that throws while it loads. */
function throwingWorker(): URL {
  const place = join(mkdtempSync(join(tmpdir(), 'mailkeep-threads-')), 'worker.mjs');
  writeFileSync(place, "throw new Error('cannot load');\n");
  return pathToFileURL(place);
}

describe('a thread', () => {
  test('takes what was posted while it loaded, and says when it has started', async () => {
    const started = start();
    expect(started.thread.started).toBe(false);
    started.thread.post({ do: 'echo', text: 'early' });
    expect(await started.answer()).toEqual({ text: 'early' });
    expect(started.thread.started).toBe(true);
    expect(started.thread.ending).toBe(false);
  });

  test('gets the buffers that are transferred to it, and gives its own', async () => {
    const started = start();
    const bytes = new Uint8Array([1, 2, 3]);
    started.thread.post({ do: 'bytes', bytes }, [bytes.buffer]);
    expect(bytes.byteLength).toBe(0);
    expect(await started.answer()).toEqual({ bytes: new Uint8Array([1, 2, 3]) });
    expect(await started.answer()).toEqual({ text: '0 left' });
  });

  test('that throws reports what it threw, after its last message', async () => {
    const started = start();
    started.thread.post({ do: 'echo', text: 'last words' });
    started.thread.post({ do: 'throw', text: 'broken' });
    const end = await started.ended;
    expect(hasCode(end, 'thread-ended')).toBe(true);
    expect(end.facts).toMatchObject({
      thread: 'test-thread',
      reason: 'thrown',
      started: true,
      detail: 'broken',
    });
    expect(end.cause).toMatchObject({ message: 'broken' });
    expect(started.answers).toEqual([{ text: 'last words' }]);
    expect(started.thread.ending).toBe(true);
  });

  test.each([
    ['throws on start', throwingWorker, 'cannot load'],
    ['is not there', () => new URL('file:///nonexistent/worker.js'), 'Cannot find module'],
  ])('whose worker %s never started', async (_, workerFile, detail) => {
    const place = workerFile();
    const end = await start({ file: place }).ended;
    expect(end.facts).toMatchObject({ reason: 'thrown', started: false });
    expect(end.facts.detail).toContain(detail);
    expect(pathToFileURL(end.facts.file).href).toBe(place.href);
  });

  test('that exceeds its heap ends by memory', async () => {
    const { thread, ended } = start({ heap: { oldGenerationMb: 16, youngGenerationMb: 4 } });
    thread.post({ do: 'hoard' });
    expect((await ended).facts).toMatchObject({ reason: 'memory', started: true });
  });

  test('that misses its deadline ends by timeout, even in an endless loop', async () => {
    const { thread, ended, ...started } = start();
    thread.post({ do: 'loop' });
    thread.limitWork(20);
    expect((await ended).facts).toMatchObject({ reason: 'timeout' });
    expect(started.answers).toEqual([]);
  });

  test('that answers before its deadline is disarmed and lives', async () => {
    const started = start();
    started.thread.limitWork(1);
    started.thread.disarm();
    started.thread.limitWork(1_000_000);
    started.thread.post({ do: 'echo', text: 'in time' });
    expect(await started.answer()).toEqual({ text: 'in time' });
    started.thread.disarm();
    expect(started.thread.ending).toBe(false);
  });

  test('that exits by itself reports its exit code', async () => {
    const { thread, ended } = start();
    thread.post({ do: 'exit', code: 7 });
    expect((await ended).facts).toMatchObject({ reason: 'exited', detail: 'exit code 7' });
  });

  test('keeps the first reason, and ends once', async () => {
    const started = start();
    started.thread.stop('memory');
    started.thread.stop('timeout');
    await started.thread.end();
    expect((await started.ended).facts.reason).toBe('memory');
    await started.thread.end();
    expect(started.ends).toBe(1);
  });

  test('that its host ends is closed', async () => {
    const { thread, ended } = start();
    await thread.end();
    expect((await ended).facts.reason).toBe('closed');
  });
});

describe('a pool of jobs', () => {
  const pool = (most: number, workerFile = file): JobPool<Order, string, string> => {
    const opened = new JobPool<Order, string, string>(most, {
      name: 'test-pool',
      file: workerFile,
      data: { mode: 'jobs' },
      silent: true,
    });
    open.push(opened);
    return opened;
  };
  const failure = (job: Promise<unknown>): Promise<unknown> => job.catch((error: unknown) => error);

  test('does jobs in their order, each with its own reports', async () => {
    const jobs = pool(1);
    const heard: string[] = [];
    const texts = ['a', 'b', 'c'];
    const results = await Promise.all(
      texts.map((text) => jobs.run({ do: 'echo', text }, (report) => heard.push(report))),
    );
    expect(results).toEqual(texts);
    expect(heard).toEqual(['on a', 'on b', 'on c']);
  });

  test('does jobs on threads that were started before, no more than it may have', async () => {
    let started = 0;
    const count = (): void => {
      started += 1;
    };
    process.on('worker', count);
    try {
      const jobs = pool(2);
      jobs.start(1);
      jobs.start(3);
      const texts = ['a', 'b', 'c'];
      expect(await Promise.all(texts.map((text) => jobs.run({ do: 'echo', text })))).toEqual(texts);
      expect(started).toBe(2);
      await jobs.end();
      jobs.start(1);
      await jobs.end();
      expect(started).toBe(3);
    } finally {
      process.off('worker', count);
    }
  });

  test('passes on errors of ours with code and facts, others with their message, and lives on', async () => {
    const jobs = pool(1);
    const ours = await failure(jobs.run({ do: 'throw', text: 'ours' }));
    expect(ours).toBeInstanceOf(MailkeepError);
    expect(ours).toMatchObject({ family: 'mail', code: 'mail-unreadable', facts: { reason: 'x' } });
    expect(await failure(jobs.run({ do: 'throw', text: 'foreign' }))).toMatchObject({
      message: 'foreign',
    });
    expect(await jobs.run({ do: 'echo', text: 'after' })).toBe('after');
  });

  test('fails only the job whose thread dies, and replaces the thread', async () => {
    const jobs = pool(1);
    const dying = failure(jobs.run({ do: 'exit', code: 3 }));
    const waiting = jobs.run({ do: 'echo', text: 'next' });
    expect(await dying).toMatchObject({
      code: 'thread-ended',
      facts: { thread: 'test-pool', reason: 'exited', detail: 'exit code 3' },
    });
    expect(await waiting).toBe('next');
  });

  test('whose worker cannot start fails every job', async () => {
    const jobs = pool(2, new URL('file:///nonexistent/worker.js'));
    const errors = await Promise.all(
      [1, 2, 3].map(() => failure(jobs.run({ do: 'echo', text: 'x' }))),
    );
    for (const error of errors) {
      expect(error).toMatchObject({ code: 'thread-ended', facts: { started: false } });
    }
  });

  test('that is ended fails the job in progress and those that wait, and starts again when asked', async () => {
    const jobs = pool(1);
    let begun: () => void = () => undefined;
    const working = new Promise<void>((resolve) => {
      begun = resolve;
    });
    const asked = [
      failure(jobs.run({ do: 'loop' }, () => begun())),
      failure(jobs.run({ do: 'echo', text: 'waits' })),
    ];
    await working;
    await jobs.end();
    for (const error of await Promise.all(asked)) {
      expect(error).toMatchObject({ code: 'thread-ended', facts: { reason: 'closed' } });
    }
    expect(await jobs.run({ do: 'echo', text: 'later' })).toBe('later');
  });
});

describe('a source given in pieces', () => {
  const source = Buffer.alloc(700_000, 'a letter of some length ');

  test('arrives complete, in pieces of at most 256 KiB, and is left intact', async () => {
    const started = start();
    const before = Buffer.from(source);
    const feed = new PieceFeed([source.subarray(0, 10), source.subarray(10)]);
    started.thread.post({ do: 'read' });
    const sizes: number[] = [];
    for (;;) {
      const answer = await started.answer();
      if (answer === undefined || !('next' in answer)) {
        expect(answer).toMatchObject({ read: source.length });
        break;
      }
      const piece = await feed.next();
      if (piece.kind === 'piece') sizes.push(piece.bytes.byteLength);
      postPiece(started.thread, piece);
    }
    expect(sizes).toEqual([10, 262_144, 262_144, 175_702]);
    expect(source.equals(before)).toBe(true);
  });

  test('throws what the source throws, and ends a source that was not read to its end', async () => {
    let ended = false;
    const endless = async function* () {
      try {
        for (;;) yield Buffer.from('more');
      } finally {
        ended = true;
      }
    };
    const feed = new PieceFeed(endless());
    expect(await feed.next()).toMatchObject({ kind: 'piece' });
    await feed.close();
    expect(ended).toBe(true);
    const failing = new PieceFeed(
      (async function* () {
        yield await Promise.reject(new Error('disk gone'));
      })(),
    );
    await expect(failing.next()).rejects.toThrow('disk gone');
  });
});
